"""Messages that would rewrite their own patch, and subjects that other tools mangle."""

from __future__ import annotations

from pathlib import Path

from tests.support.story import Story

TAIL = "\n\nReason: a test needs it\nSigned-off-by: A Maintainer <maintainer@example.org>\n"
BASE = "".join(f"line_{number} = {number}\n" for number in range(1, 31))
PATCHED = BASE.replace("line_10 = 10", "line_10 = 'ten'")
MOVED = "import os\n" + BASE

DIFF = """\
The other way would be:

diff --git a/g.py b/g.py
--- a/g.py
+++ b/g.py
@@ -1,3 +1,3 @@
 x
-y
+Y
 z

but we do not."""

# What each message hides, and the number of the first line of the message that does it.
UNSAFE = {
    "a diff": (f"Fix it\n\n{DIFF}", 5),
    "an indented diff": ("Fix it\n\nAlso:\n\n    --- a/g.py\n    +++ b/g.py\n    @@ -1 +1 @@\n    -y\n    +Y", 5),
    "three dashes": ("Fix it\n\nbefore\n---\nafter", 4),
    "an Index line": ("Fix it\n\nIndex: the KV cache's index is wrong\nmore", 3),
    "diff as prose": ("Fix it\n\ndiff -u of the two is long\nmore", 3),
    "a From header": ("Fix it\n\nFrom: Someone Else <else@example.org>\n\nmore", 3),
    "a Subject header": ("Fix it\n\nSubject: something else\n\nmore", 3),
    "a Date header": ("Fix it\n\nDate: Thu, 1 Jan 1970 00:00:00 +0000\n\nmore", 3),
    "an mbox separator": (f"Fix it\n\nfirst\n\nFrom {'0' * 40} Mon Sep 17 00:00:00 2001\nmore", 5),
    "scissors": ("Fix it\n\nlost\n-- >8 --\nkept", 4),
    "a subject of two lines": ("Fix it\nand more of it\n\nbody", 2),
}  # fmt: skip
SAFE = {
    "a prose line that begins with From": "Fix it\n\nparagraph\n\nFrom here on we do it.\nFrom 16 to 32 entries.",
    "a header name inside the body": "Fix it\n\nparagraph\n\nFrom: here it is prose",
    "dashes in a list": "Fix it\n\n- one\n-- two\n---- four",
    "brackets": "[Bugfix][V1] Fix KV cache [ROCm] (#12345)",
    "a patch tag that is meant": "[PATCH 2/3] is part of this subject",
    "a long subject": "[Core][Bugfix] Make the subject so long that git folds it over lines, which some tools cut "
    "off at the first",
    "a subject that is not ASCII": "[Core] Ändere é 文件 so that the header is encoded, and so long that its "
    "encoded words are folded ✓✓✓✓✓✓✓✓✓✓✓✓✓✓✓✓✓✓✓✓✓✓✓✓",
    "a body that is not ASCII": "Fix it\n\nZürich, 文件",
    "an equals sign and a question mark": "Fix =?UTF-8?q?what?= it says",
    "percent and quotes": 'Fix "it" \\ and %s, `$HOME`',
}


def heads(text: bytes) -> bytes:
    """Everything of a patch file before its diff."""
    return text.partition(b"\ndiff --git ")[0]


def test_check_refuses_each_message_that_would_rewrite_its_patch_and_rebase_alters_none(story: Story) -> None:
    unsafe = {f"patch-{number}": what for number, what in enumerate(UNSAFE) if what != "a diff"}
    files = {f"{name}.py": BASE for name in unsafe}
    story.release("v1.0", files)
    story.start("v1.0")
    for name, what in unsafe.items():
        story.patch(name, {f"{name}.py": PATCHED}, message=UNSAFE[what][0] + TAIL)
    before = story.snapshot()

    result = story.run("check", "--json")

    assert result.code == 1, result.err
    problems = result.document["problems"]
    for name, what in unsafe.items():
        found = [one["detail"] for one in problems if one["patch"] == name and one["kind"] == "message"]
        assert found, what
        assert found[0].startswith(f"line {UNSAFE[what][1]}: "), what

    story.release("v1.1", dict.fromkeys(files, MOVED))
    assert story.run("rebase", "v1.1").code == 0
    after = story.snapshot()
    for name, what in unsafe.items():
        if what != "a subject of two lines":  # git itself joins them when it writes the file
            assert heads(after[f"{name}.patch"]) == heads(before[f"{name}.patch"]), what


def test_a_diff_inside_a_message_is_refused_where_the_prose_after_it_stands(story: Story) -> None:
    story.release("v1.0", {"a.py": BASE, "g.py": "x\ny\nz\n"})
    story.start("v1.0")
    story.patch("unsafe", {"a.py": PATCHED}, message=UNSAFE["a diff"][0] + TAIL)
    before = story.snapshot()
    story.release("v1.1", {"a.py": MOVED})

    for command in (["check"], ["rebase", "v1.1"], ["apply", "out"]):
        result = story.run(*command)
        assert result.code == 2
        assert "unsafe.patch:17: expected `diff --git`, found 'but we do not.'" in result.err
    assert story.snapshot() == before


def test_a_diff_that_ends_a_message_is_seen_by_the_round_trip(story: Story) -> None:
    diff = DIFF.removesuffix("\n\nbut we do not.")
    story.release("v1.0", {"a.py": BASE, "g.py": "x\ny\nz\n"})
    story.start("v1.0")
    story.patch("unsafe", {"a.py": PATCHED}, message=f"Fix it\n\n{diff}\n")

    result = story.run("check", "--json")

    assert result.code != 0
    assert "unsafe" in result.out + result.err


def test_export_refuses_every_unsafe_message_and_names_the_line(story: Story, tmp_path: Path) -> None:
    story.release("v1.0", {"a.py": BASE, "g.py": "x\ny\nz\n"})
    story.start("v1.0")
    story.patch("ten", {"a.py": PATCHED})
    before = story.snapshot()
    target = tmp_path / "applied"
    assert story.run("apply", str(target)).code == 0

    for what, (message, number) in UNSAFE.items():
        story.git("commit", "--amend", "--quiet", "--cleanup=verbatim", "-m", message + TAIL, cwd=target)
        result = story.run("export", str(target))
        assert result.code == 2, what
        assert f"message line {number}: " in result.err, what
        assert story.snapshot() == before, what


def test_bracketed_folded_and_encoded_subjects_survive_rebase_and_export(
    story: Story, tmp_path: Path
) -> None:
    files = {f"{number}.py": BASE for number in range(len(SAFE))}
    story.release("v1.0", files)
    story.start("v1.0")
    for number, message in enumerate(SAFE.values()):
        story.patch(f"patch-{number}", {f"{number}.py": PATCHED}, message=message + TAIL)
    before = story.snapshot()
    story.release("v1.1", dict.fromkeys(files, MOVED))

    result = story.run("rebase", "v1.1", "--json")

    assert result.code == 0, result.err
    assert set(result.verdicts.values()) == {"refreshed"}
    after = story.snapshot()
    for number, what in enumerate(SAFE):
        name = f"patch-{number}.patch"
        assert heads(after[name]) == heads(before[name]), what
        assert after[name] != before[name]
    target = tmp_path / "applied"
    assert story.run("apply", str(target)).code == 0
    listed = story.git("log", "--reverse", "-z", "--format=%B", "v1.1..HEAD", cwd=target).split("\0")[:-1]
    assert [text.rstrip("\n") + "\n" for text in listed] == [message + TAIL for message in SAFE.values()]
    assert story.run("export", str(target)).code == 0
    assert story.snapshot() == after


def test_the_author_and_the_date_survive_byte_for_byte(story: Story) -> None:
    authors = [
        ('José "Q" O\'N', "1750000000 +0530"),
        ('Ünal "Ü" Ö', "1750000000 -0330"),
        ("Comma, A. Name", "4102444800 +0000"),  # the year 2100, which git am refuses
        ("文件", "0 +0000"),
        ("back\\slash", "1750000000 +1400"),
    ]
    story.release("v1.0", {f"{number}.py": BASE for number in range(len(authors))})
    story.start("v1.0")
    for number, (name, when) in enumerate(authors):
        story.patch(
            f"patch-{number}",
            {f"{number}.py": PATCHED},
            message=f"Change {number}{TAIL}",
            author=(name, "a@example.org", f"@{when}"),
        )
    before = story.snapshot()
    story.release("v1.1", {f"{number}.py": MOVED for number in range(len(authors))})

    assert story.run("rebase", "v1.1").code == 0

    after = story.snapshot()
    for number, author in enumerate(authors):
        name = f"patch-{number}.patch"
        assert heads(after[name]) == heads(before[name]), author
    assert story.run("apply", str(story.project / "out")).code == 0
    listed = story.git(
        "log", "--reverse", "--format=%an|%ad", "--date=raw", "v1.1..HEAD", cwd=story.project / "out"
    )
    assert listed.splitlines() == [f"{name}|{when}" for name, when in authors]
