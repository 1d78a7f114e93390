"""Stories of `forktool import`: what people really have is adopted exactly, or refused with file and line."""

from __future__ import annotations

import base64
import difflib
import itertools
import quopri
import shutil
from pathlib import Path

import pytest
from pytest_httpserver import HTTPServer

from tests.support.story import Story

SITE = "/usr/local/lib/python3.12/dist-packages"
GATE = 'SUPPORTED = [\n    "llama",\n    "qwen",\n]\n\n\ndef check(name):\n    return name in SUPPORTED\n'
GATE_AFTER = GATE.replace('"qwen",\n', '"qwen",\n    "kimi_k2",\n')
# Two classes that differ in nothing but their names, as models do.
TWINS = "".join(
    f"class {name}:\n    def __init__(self):\n        self.x = 1\n\n    def forward(self):\n"
    f"        return self.x\n\n\n"
    for name in ("A", "B")
)
WHO = "Ann Author <ann@example.org>"


def numbered(first: int, last: int) -> str:
    return "".join(f"line_{number} = {number}\n" for number in range(first, last + 1))


def unified(before: str, after: str, old: str, new: str, *, context: int = 3) -> str:
    return "".join(difflib.unified_diff(before.splitlines(True), after.splitlines(True), old, new, n=context))


def gate_diff(old: str = "a/pkg/gate.py", new: str = "b/pkg/gate.py") -> str:
    return unified(GATE, GATE_AFTER, old, new)


def mail(
    subject: str,
    body: str,
    diff: str,
    *,
    stat: str = "---\n pkg/gate.py | 1 +\n 1 file changed, 1 insertion(+)\n\n",
) -> str:
    return (
        "From 0000000000000000000000000000000000000000 Mon Sep 17 00:00:00 2001\n"
        f"From: {WHO}\nDate: Mon, 2 Mar 2026 10:11:12 +0100\nSubject: [PATCH] {subject}\n\n"
        f"{body}{stat}{diff}-- \n2.39.5\n\n"
    )


@pytest.fixture
def fork(story: Story) -> Story:
    """A patchset on v1.0, and a user whom git knows."""
    story.release(
        "v1.0",
        {
            "pkg/gate.py": GATE,
            "pkg/twins.py": TWINS,
            "pkg/long.py": numbered(1, 60),
            "pkg/dos.py": numbered(1, 20).replace("\n", "\r\n").encode(),
            "pkg/__init__.py": "",
            "setup.py": "import setuptools\n",
        },
    )
    story.start("v1.0")
    story.git("config", "--global", "user.name", "Uma User")
    story.git("config", "--global", "user.email", "uma@example.org")
    return story


def offer(story: Story, text: str | bytes, name: str = "offered.patch") -> str:
    file = story.project / name
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(file)


def adopted(story: Story, text: str | bytes, *options: str) -> str:
    """Import and expect success; the text of the one new patch file."""
    before = story.snapshot()
    result = story.run("import", offer(story, text), *options)
    assert result.code == 0, result.err
    new = [name for name in story.snapshot() if name.endswith(".patch") and name not in before]
    assert len(new) == 1
    return story.snapshot()[new[0]].decode()


def refused(story: Story, text: str | bytes, *, code: int = 2) -> dict[str, object]:
    """Import and expect one refusal and an unchanged patchset."""
    before = story.snapshot()
    result = story.run("import", offer(story, text), "--json")
    assert result.code == code, result.out + result.err
    assert story.snapshot() == before
    assert result.document["imported"] == []
    assert len(result.document["refused"]) == 1
    found: dict[str, object] = result.document["refused"][0]
    assert f"error: {found['source']}:{found['line']}: {found['reason']}" in result.err
    return found


def test_a_mail_keeps_author_date_and_message(fork: Story) -> None:
    text = adopted(
        fork,
        mail(
            "[Core][V1] Accept Kimi (#12345)", "Why it matters.\n\nSigned-off-by: " + WHO + "\n", gate_diff()
        ),
    )

    assert text.startswith(
        "From 0000000000000000000000000000000000000000 Mon Sep 17 00:00:00 2001\n"
        f"From: {WHO}\nDate: Mon, 2 Mar 2026 10:11:12 +0100\nSubject: [Core][V1] Accept Kimi (#12345)\n\n"
        f"Why it matters.\n\nSigned-off-by: {WHO}\n\ndiff --git a/pkg/gate.py b/pkg/gate.py\nindex "
    )
    assert fork.snapshot()["series"].decode().splitlines()[-1] == "accept-kimi.patch"
    assert fork.carried("pkg/gate.py") == GATE_AFTER


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (f"a{SITE}/pkg/gate.py", f"b{SITE}/pkg/gate.py"),
        (f"{SITE}/pkg/gate.py.orig", f"{SITE}/pkg/gate.py"),
        ("pkg/gate.py", "pkg/gate.py"),
        ("./pkg/gate.py", "./pkg/gate.py"),
        ("pkg.orig/gate.py", "pkg/gate.py"),
        ("pkg-1.0.orig/pkg/gate.py", "pkg-1.0/pkg/gate.py"),
        ("i/pkg/gate.py", "w/pkg/gate.py"),
        ("../venv/lib/python3.12/site-packages/pkg/gate.py", "pkg/gate.py"),
        ("/home/pkg/venv/lib/site-packages/pkg/gate.py", "/home/pkg/venv/lib/site-packages/pkg/gate.py"),
        (
            "pkg/gate.py\t2026-02-03 04:05:06.123456789 +0100",
            "pkg/gate.py\t2026-02-03 04:06:06.123456789 +0100",
        ),
        (
            "pkg/gate.py 2026-02-03 04:05:06.123456789 +0100",
            "pkg/gate.py 2026-02-03 04:06:06.123456789 +0100",
        ),
        ("pkg/gate.py\tTue Feb  3 04:05:06 2026", "pkg/gate.py\tTue Feb  3 04:06:06 2026"),
    ],
)
def test_any_way_to_name_the_file_finds_it(fork: Story, old: str, new: str) -> None:
    text = adopted(fork, gate_diff(old, new))

    assert "diff --git a/pkg/gate.py b/pkg/gate.py\n" in text
    assert fork.carried("pkg/gate.py") == GATE_AFTER


def test_an_installed_tree_edited_with_sed_is_adopted(fork: Story, tmp_path: Path) -> None:
    site = tmp_path / "venv/lib/python3.12/site-packages"
    shutil.copytree(fork.upstream / "pkg", site / "pkg")
    shutil.copy(site / "pkg/gate.py", site / "pkg/gate.py.bak")
    fork.git(
        "-c", "alias.x=!sed", "x", "-i", 's/"qwen",/"qwen",\\n    "kimi_k2",/', str(site / "pkg/gate.py")
    )
    diff = fork.git(
        "-c",
        "alias.x=!diff",
        "x",
        "-u",
        str(site / "pkg/gate.py.bak"),
        str(site / "pkg/gate.py"),
        check=False,
    )
    assert diff.startswith("--- ")

    text = adopted(
        fork, diff, "--name", "kimi", "--message", "Accept Kimi-K2", "--reason", "we serve it", "--sign-off"
    )

    assert fork.carried("pkg/gate.py") == GATE_AFTER
    assert "From: Uma User <uma@example.org>\n" in text
    assert (
        "Subject: Accept Kimi-K2\n\nReason: we serve it\nSigned-off-by: Uma User <uma@example.org>\n\ndiff"
        in text
    )
    assert (fork.project / "patchset/kimi.patch").is_file()


def test_a_diff_without_author_asks_who_the_user_is(fork: Story) -> None:
    fork.git("config", "--global", "--unset", "user.email")
    before = fork.snapshot()

    result = fork.run("import", offer(fork, gate_diff()))

    assert result.code == 2
    assert "error: git does not know who you are: user.email is not set" in result.err
    assert "hint: git config --global user.email you@example.org" in result.err
    assert fork.snapshot() == before


def test_a_bare_diff_is_named_after_its_file_and_told_what_check_wants(fork: Story) -> None:
    result = fork.run("import", offer(fork, gate_diff(), "Fix_the gate.diff"), "--json")

    assert result.code == 0
    assert result.document == {
        "imported": [
            {
                "name": "fix_the-gate",
                "file": "patchset/fix_the-gate.patch",
                "subject": "Change pkg/gate.py",
                "notes": [],
            }
        ],
        "refused": [],
    }
    assert "hint: forktool check will ask for a probe, patchset/probes/fix_the-gate.py" in result.err
    assert "a `Reason:` line" in result.err
    assert "a `Signed-off-by:` line" in result.err


def test_a_probe_template_is_written_only_when_asked(fork: Story) -> None:
    result = fork.run(
        "import",
        offer(fork, gate_diff()),
        "--name",
        "kimi",
        "--probe-template",
        "--reason",
        "r",
        "--sign-off",
    )

    assert result.code == 0
    assert "will ask for" not in result.err
    probe = (fork.project / "patchset/probes/kimi.py").read_text()
    assert "in tree.read_text('pkg/gate.py')" in probe
    assert fork.run("check").code == 0


@pytest.mark.parametrize("has_index", [False, True])
def test_line_numbers_and_counts_may_be_wrong(fork: Story, has_index: bool) -> None:
    before, after = (
        numbered(1, 60),
        numbered(1, 60).replace("line_30 = 30\n", "line_30 = 'x'\nline_30b = 0\n"),
    )
    diff = unified(before, after, "a/pkg/long.py", "b/pkg/long.py").replace(
        "@@ -27,7 +27,8 @@", "@@ -12,9 +12,3 @@"
    )
    if has_index:
        diff = f"diff --git a/pkg/long.py b/pkg/long.py\nindex 1234567..89abcde 100644\n{diff}"

    result = fork.run("import", offer(fork, diff), "--json")

    assert result.code == 0, result.err
    notes = result.document["imported"][0]["notes"]
    assert any("says line 12 of pkg/long.py and stands at line 27" in note for note in notes)
    assert any("the hunk header says '@@ -12,9 +12,3 @@'" in note for note in notes)
    assert any("the index line names 1234567" in note for note in notes) is has_index
    assert fork.carried("pkg/long.py") == after


def test_two_places_are_refused_and_both_named(fork: Story) -> None:
    diff = (
        "--- a/pkg/twins.py\n+++ b/pkg/twins.py\n@@ -5,2 +5,2 @@\n     def forward(self):\n"
        "-        return self.x\n+        return 2\n"
    )

    found = refused(fork, diff)

    assert found["line"] == 3
    assert found["reason"] == (
        "the hunk's lines stand in pkg/twins.py at lines 5 and 13; which are meant is not certain"
    )


def test_two_places_are_told_apart_by_the_id_of_the_file(fork: Story) -> None:
    blob = fork.git("rev-parse", "v1.0:pkg/twins.py").strip()
    diff = (
        f"diff --git a/pkg/twins.py b/pkg/twins.py\nindex {blob[:9]}..1111111 100644\n--- a/pkg/twins.py\n"
        f"+++ b/pkg/twins.py\n"
        "@@ -13,2 +13,2 @@ class B:\n     def forward(self):\n-        return self.x\n+        return 2\n"
    )
    adopted(fork, diff)

    head, _, tail = TWINS.partition("class B")
    assert fork.carried("pkg/twins.py") == head + "class B" + tail.replace("return self.x", "return 2")


def test_a_hunk_that_fits_nowhere_says_what_the_base_has(fork: Story) -> None:
    diff = gate_diff().replace('     "qwen",', '     "qwen2",')

    found = refused(fork, diff)

    assert found["line"] == 6
    assert "pkg/gate.py has '    \"qwen\",' at line 3, the patch has '    \"qwen2\",'" in str(found["reason"])
    assert "v1.0" in str(found["reason"])


def test_a_file_of_another_release_is_refused(fork: Story) -> None:
    found = refused(fork, gate_diff("a/pkg/newer.py", "b/pkg/newer.py"))

    assert (found["line"], found["reason"]) == (1, "a/pkg/newer.py is not in v1.0")


def test_what_the_base_has_already_is_answered_with_no(fork: Story) -> None:
    backwards = unified(GATE_AFTER, GATE, "a/pkg/gate.py", "b/pkg/gate.py")
    there = unified(GATE.replace('    "qwen",\n', ""), GATE, "a/pkg/gate.py", "b/pkg/gate.py")

    assert refused(fork, there, code=1)["reason"] == "v1.0 already has this change, all of it"
    assert "v1.0 already has this change" in str(refused(fork, backwards, code=1)["reason"])

    adopted(fork, gate_diff(), "--name", "kimi")
    assert (
        refused(fork, gate_diff(), code=1)["reason"]
        == "the series on v1.0 already has this change, all of it"
    )


def test_text_that_went_through_windows_is_read_as_the_file_has_it(fork: Story) -> None:
    adopted(fork, gate_diff().replace("\n", "\r\n"))
    assert fork.carried("pkg/gate.py") == GATE_AFTER

    mailed = mail(
        "Other",
        "Text.\n",
        unified(numbered(1, 60), "import os\n" + numbered(1, 60), "a/pkg/long.py", "b/pkg/long.py"),
    )
    text = adopted(fork, mailed.replace("\n", "\r\n"))
    assert "\r" not in text
    assert fork.carried("pkg/long.py") == "import os\n" + numbered(1, 60)


@pytest.mark.parametrize("ending", ["\r\n", "\n"])
def test_a_file_with_crlf_keeps_it(fork: Story, ending: str) -> None:
    before, after = numbered(1, 20), numbered(1, 20).replace("line_9 = 9\n", "line_9 = 'nine'\n")
    diff = unified(before, after, "a/pkg/dos.py", "b/pkg/dos.py").replace("\n", ending)

    adopted(fork, diff)

    target = fork.project.parent / "applied"
    assert fork.run("apply", str(target)).code == 0
    assert (target / "pkg/dos.py").read_bytes() == after.replace("\n", "\r\n").encode()


def test_empty_context_lines_that_lost_their_space(fork: Story) -> None:
    after = TWINS.replace("class B:\n", "class B:\n    y = 2\n")
    diff = unified(TWINS, after, "a/pkg/twins.py", "b/pkg/twins.py")
    assert "\n \n" in diff

    adopted(fork, diff.replace("\n \n", "\n\n"))

    assert fork.carried("pkg/twins.py") == after


def test_trailing_space_of_context_is_put_back_where_it_fits_one_place(fork: Story) -> None:
    fork.release(
        "v1.1", {"pkg/spaces.py": "a = 1  \nb = 2\nc = 3 \nd = 4\n", "pkg/two.py": "a \nb\nc\na\t\nb\n"}
    )
    toml = fork.project / "patchset/patchset.toml"
    toml.write_text(
        "\n".join(
            line.replace("v1.0", "v1.1")
            for line in toml.read_text().splitlines()
            if not line.startswith("tree")
        )
    )
    diff = "--- a/pkg/spaces.py\n+++ b/pkg/spaces.py\n@@ -1,3 +1,3 @@\n a = 1\n-b = 2\n+b = 5\n c = 3\n"

    result = fork.run("import", offer(fork, diff), "--json")

    assert result.code == 0, result.err
    assert "white space at the ends" in result.document["imported"][0]["notes"][0]
    assert fork.carried("pkg/spaces.py") == "a = 1  \nb = 5\nc = 3 \nd = 4\n"
    found = refused(fork, "--- a/pkg/two.py\n+++ b/pkg/two.py\n@@ -1,2 +1,2 @@\n a\n-b\n+x\n")
    assert "at lines 1 and 4" in str(found["reason"])


@pytest.mark.parametrize("how", ["quoted-printable", "base64"])
def test_encoded_mails_are_decoded(fork: Story, how: str) -> None:
    stat = " pkg/gate.py | 1 +\n 1 file changed\n"
    body = f"Grüße und ein = Zeichen.\n---\n{stat}\n{gate_diff()}-- \n2.39\n".encode()
    packed = quopri.encodestring(body) if how == "quoted-printable" else base64.encodebytes(body)
    head = (
        "From: =?UTF-8?q?J=C3=BCrgen_=22Q=22?= <j@example.org>\nDate: Thu, 1 Jan 2099 00:00:00 +0000\n"
        "Subject: [PATCH vllm v2 3/7] =?UTF-8?b?S8O8bW1lcnQ=?=\n =?UTF-8?q?_sich?=\n"
        f"Content-Type: text/plain; charset=UTF-8\n"
        f"Content-Transfer-Encoding: {how}\n\n"
    )
    adopted(fork, head.encode() + packed)

    assert fork.carried("pkg/gate.py") == GATE_AFTER
    message = fork.git(
        "log", "-1", "--format=%an|%ae|%ad|%B", "--date=raw", cwd=fork.project.parent / "applied"
    )
    assert message.strip() == (
        'Jürgen "Q"|j@example.org|4070908800 +0000|Kümmert sich\n\nGrüße und ein = Zeichen.'
    )


def test_an_mbox_of_two_mails_with_from_in_prose(fork: Story) -> None:
    other = unified(numbered(1, 60), "import os\n" + numbered(1, 60), "a/pkg/long.py", "b/pkg/long.py")
    text = mail("One", "Before.\n\nFrom here on we count.\nFrom 16 to 32 entries.\n", gate_diff()) + mail(
        "Two", "", other
    )

    result = fork.run("import", offer(fork, text), "--json")

    assert [item["name"] for item in result.document["imported"]] == ["one", "two"]
    assert "\nFrom here on we count.\nFrom 16 to 32 entries.\n" in fork.snapshot()["one.patch"].decode()


def test_all_or_nothing(fork: Story) -> None:
    good = mail("Good", "", gate_diff())
    bad = mail("Bad", "", unified("no\n", "yes\n", "a/pkg/long.py", "b/pkg/long.py"))
    before = fork.snapshot()

    result = fork.run("import", offer(fork, good + bad), "--json")

    assert result.code == 2
    assert fork.snapshot() == before
    assert result.document["imported"] == []
    (found,) = result.document["refused"]
    assert found["line"] == good.count("\n") + 13
    assert "pkg/long.py has 'line_1 = 1' at line 1, the patch has 'no'" in found["reason"]


@pytest.mark.parametrize(
    ("body", "line", "reason"),
    [
        ("Text.\n\n---\nUpstream-Status: Pending\n", 8, "git ends the message at this line"),
        ("Text.\nIndex: not a diff\nmore\n", 7, "git ends the message at this line"),
        ("Text.\ndiff - is a program\nmore\n", 7, "git ends the message at this line"),
        (
            "Text.\n\ndiff --git a/g b/g\n--- a/g\n+++ b/g\n@@ -1 +1 @@\n-x\n+y\n",
            8,
            "a diff begins here and text follows",
        ),
        ("From: Mallory <m@example.org>\n\nText.\n", 6, "git takes it for the author, date or subject"),
        ("Text.\n\n-- >8 --\nmore\n", 8, "git mailinfo --scissors"),
        (f"Text.\n\nFrom {'1' * 40} Mon Sep 17 00:00:00 2001\nmore\n", 8, "a mailbox reader splits"),
        ("Text.\n\n  --- a/x\n  +++ b/x\n  @@ -1 +1 @@\n", 8, "quilt and patch(1) read"),
    ],
)
def test_a_message_that_would_rewrite_its_patch_is_refused(
    fork: Story, body: str, line: int, reason: str
) -> None:
    found = refused(fork, mail("Subject", body, gate_diff()))

    assert found["line"] == line
    assert reason in str(found["reason"])


def test_notes_below_the_message_are_left_out_with_a_note(fork: Story) -> None:
    stat = "---\nv2: rebased\n\n pkg/gate.py | 1 +\n 1 file changed, 1 insertion(+)\n\n"

    result = fork.run("import", offer(fork, mail("Accept Kimi", "Why.\n", gate_diff(), stat=stat)), "--json")

    assert result.document["imported"][0]["notes"] == ["lines 8 to 8: after `---`, no part of the message"]
    assert "v2" not in fork.snapshot()["accept-kimi.patch"].decode()


def test_a_quilt_series_keeps_its_names_and_dep3_headers(fork: Story) -> None:
    folder = fork.project / "debian/patches"
    (folder / "sub").mkdir(parents=True)
    (folder / "series").write_text("# ours\nsub/Kimi_gate.diff -p1  # comment\n\nlong.patch -p0\n")
    (folder / "sub/Kimi_gate.diff").write_text(
        f"Description: Accept Kimi\n The list lacks it.\n .\n Really.\nAuthor: {WHO}\nForwarded: no\n"
        f"Last-Update: 2026-01-02\n"
        f"---\nThis patch header follows DEP-3\n{gate_diff()}"
    )
    (folder / "long.patch").write_text(
        unified(numbered(1, 60), numbered(0, 60), "pkg/long.py", "pkg/long.py")
    )

    result = fork.run("import", str(fork.project), "--json")

    assert result.code == 0, result.err
    assert [item["name"] for item in result.document["imported"]] == ["Kimi_gate", "long"]
    text = fork.snapshot()["Kimi_gate.patch"].decode()
    assert f"From: {WHO}\n" in text
    assert (
        "Subject: Accept Kimi\n\nThe list lacks it.\n\nReally.\n\nForwarded: no\nLast-Update: 2026-01-02\n\ndiff"
        in text
    )


def test_a_folder_of_patches_is_read_in_its_order(fork: Story) -> None:
    folder = fork.project / "mods"
    folder.mkdir()
    steps = [numbered(1, 60), numbered(0, 60), numbered(-1, 60)]
    for name, (before, after) in zip(
        ("9-first.patch", "10-second.diff"), itertools.pairwise(steps), strict=True
    ):
        (folder / name).write_text(unified(before, after, "a/pkg/long.py", "b/pkg/long.py"))

    result = fork.run("import", str(folder), "--json")

    assert [item["name"] for item in result.document["imported"]] == ["9-first", "10-second"]
    assert fork.carried("pkg/long.py") == steps[2]


def test_a_url(fork: Story, httpserver: HTTPServer) -> None:
    httpserver.expect_request("/o/r/pull/7.patch").respond_with_data(
        mail("From afar", "", gate_diff()), content_type="text/plain"
    )
    httpserver.expect_request("/o/r/pull/7").respond_with_data(
        "<!DOCTYPE html><p>hi", content_type="text/html"
    )
    httpserver.expect_request("/gone.patch").respond_with_data("no", status=404)

    page = fork.run("import", httpserver.url_for("/o/r/pull/7"))
    assert (page.code, "is a web page, not a patch" in page.err, "/o/r/pull/7.patch" in page.err) == (
        2,
        True,
        True,
    )
    assert fork.run("import", httpserver.url_for("/gone.patch")).code == 4
    assert fork.run("import", "--offline", httpserver.url_for("/o/r/pull/7.patch")).code == 4
    assert fork.run("import", httpserver.url_for("/o/r/pull/7.patch")).code == 0
    assert fork.carried("pkg/gate.py") == GATE_AFTER


def test_commits_of_a_repository(fork: Story) -> None:
    fork.git("config", "diff.noprefix", "true")
    fork.git("checkout", "--quiet", "-b", "work", "v1.0")
    fork.commit({"pkg/gate.py": GATE_AFTER}, "[Model] Accept Kimi\n\nWhy.")
    (fork.upstream / "logo.bin").write_bytes(bytes(range(256)))
    fork.git("mv", "pkg/long.py", "pkg/longer.py")
    (fork.upstream / "pkg/gate.py").chmod(0o755)
    (fork.upstream / "link").symlink_to("setup.py")
    fork.commit({"x b/ü.txt": "no newline", "empty.txt": ""}, "Everything else")

    result = fork.run("import", str(fork.upstream), "v1.0..work", "--json")

    assert result.code == 0, result.err
    assert [item["subject"] for item in result.document["imported"]] == [
        "[Model] Accept Kimi",
        "Everything else",
    ]
    assert [item["notes"] for item in result.document["imported"]] == [[], []]
    target = fork.project.parent / "applied"
    assert fork.run("apply", str(target)).code == 0
    assert fork.git("rev-parse", "HEAD^{tree}", cwd=target) == fork.git("rev-parse", "work^{tree}")


def test_a_merge_and_an_empty_commit_are_refused_by_name(fork: Story) -> None:
    fork.git("checkout", "--quiet", "-b", "side", "v1.0")
    fork.commit({"side.txt": "s"}, "Side")
    fork.git("checkout", "--quiet", "-b", "merged", "v1.0")
    fork.commit({"other.txt": "o"}, "Other")
    fork.git("merge", "--quiet", "--no-ff", "--message", "Join them", "side")
    before = fork.snapshot()

    merge = fork.run("import", str(fork.upstream), "v1.0..merged")
    assert merge.code == 2
    assert "'Join them' is a merge" in merge.err
    fork.git("checkout", "--quiet", "-b", "void", "v1.0")
    fork.git("commit", "--quiet", "--allow-empty", "--message", "Nothing at all")
    empty = fork.run("import", str(fork.upstream), "v1.0..void")
    assert empty.code == 2
    assert "the commit 'Nothing at all' changes nothing" in empty.err
    assert fork.snapshot() == before


def test_a_commit_whose_message_would_rewrite_it(fork: Story) -> None:
    fork.git("checkout", "--quiet", "-b", "work", "v1.0")
    fork.commit({"pkg/gate.py": GATE_AFTER}, "Subject\n\nText\n---\nSigned-off-by: X <x@y>")

    result = fork.run("import", str(fork.upstream), "v1.0..work", "--json")

    assert result.code == 2
    (found,) = result.document["refused"]
    assert found["line"] == 4
    assert "git ends the message here" in found["reason"]


def test_after_a_patch_and_the_rest_still_applies(fork: Story) -> None:
    long = numbered(1, 60)
    fork.patch("first", {"pkg/long.py": long.replace("line_5 = 5", "line_5 = 'five'")})
    fork.patch(
        "last",
        {
            "pkg/long.py": long.replace("line_5 = 5", "line_5 = 'five'").replace(
                "line_50 = 50", "line_50 = 'fifty'"
            )
        },
    )
    inserted = unified(
        long, long.replace("line_25 = 25\n", "line_25 = 25\nnew = 0\n"), "a/pkg/long.py", "b/pkg/long.py"
    )

    result = fork.run("import", offer(fork, inserted), "--after", "first", "--name", "middle")

    assert result.code == 0, result.err
    assert fork.snapshot()["series"].decode().splitlines()[-3:] == [
        "first.patch",
        "middle.patch",
        "last.patch",
    ]
    assert "@@ -48,7 +48,7 @@" in fork.snapshot()["last.patch"].decode()
    carried = fork.carried("pkg/long.py")
    assert ("new = 0" in carried, "'five'" in carried, "'fifty'" in carried) == (True, True, True)


def test_after_a_patch_that_a_later_one_does_not_survive(fork: Story) -> None:
    fork.patch("first", {"setup.py": "import setuptools  # one\n"})
    fork.patch("last", {"pkg/gate.py": GATE_AFTER})
    before = fork.snapshot()

    diff = unified(GATE, GATE.replace("qwen", "qwen3"), "a/pkg/gate.py", "b/pkg/gate.py")
    result = fork.run("import", offer(fork, diff), "--after", "first")

    assert result.code == 2
    assert "last, which comes after it, does not apply any more" in result.err
    assert fork.snapshot() == before


def test_the_series_exported_and_imported_is_the_same_bytes(fork: Story, tmp_path: Path) -> None:
    fork.patch(
        "one",
        {"pkg/gate.py": GATE_AFTER},
        message='[A][B] A subject that goes on and on until git folds it, since it is "long" ünd more\n\nBody.\n',
    )
    fork.patch("two", {"bin.dat": bytes(range(256)), "pkg/long.py": "short\n", "setup.py": None})
    before = fork.snapshot()
    exported = tmp_path / "exported"
    shutil.copytree(fork.project / "patchset", exported)
    for name in ("one", "two"):
        assert fork.run("drop", name, "--reason", "moved").code == 0
    assert fork.run("import", str(exported)).code == 0

    after = fork.snapshot()
    assert {name: after[name] for name in ("one.patch", "two.patch")} == {
        name: before[name] for name in ("one.patch", "two.patch")
    }


def test_a_dry_run_writes_nothing_and_shows_the_patch(fork: Story) -> None:
    before = fork.snapshot()
    result = fork.run("import", offer(fork, gate_diff()), "--dry-run")

    assert result.code == 0
    assert "would import offered  Change pkg/gate.py" in result.out
    assert '+    "kimi_k2",' in result.out
    assert fork.snapshot() == before


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("no diff here\n", 1, "there is no diff in it"),
        ("diff --git a/x b/x\nindex 1..2\nBinary files a/x and b/x differ\n", 3, "does not hold its content"),
        ("*** a/x\n--- b/x\n***************\n*** 1 ****\n", 1, "a context diff"),
        ("@@ -1,2 +1,2 @@\n a\n-b\n+c\n", 1, "a hunk without the name of a file"),
        ("--- a/x\n+++ b/x\n@@ -1,9 +1,9 @@\n a\n-b\nunsigned\n", 6, "the hunk's counts are wrong"),
        ("--- a/pkg/gate.py\n+++ b/pkg/gate.py\n", 3, "expected a hunk"),
        ("--- /dev/null\n+++ b/pkg/gate.py\n@@ -0,0 +1 @@\n+x\n", 1, "pkg/gate.py is already in v1.0"),
        ("--- a/pkg/gate.py\n+++ /dev/null\n@@ -1 +0,0 @@\n-SUPPORTED = [\n", 1, "holds more than the patch removes"),
        ("--- /dev/null\n+++ b/../../etc/passwd\n@@ -0,0 +1 @@\n+x\n", 1, "is not certain"),
        ("--- /dev/null\n+++ b/.git/hooks/x\n@@ -0,0 +1 @@\n+x\n", 1, "is not certain"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_refused_with_its_line(fork: Story, text: str, line: int, reason: str) -> None:
    found = refused(fork, text)

    assert found["line"] == line
    assert reason in str(found["reason"])


def test_a_rebase_in_progress_forbids_it(fork: Story) -> None:
    fork.patch("one", {"pkg/gate.py": GATE_AFTER})
    fork.release("v1.1", {"pkg/gate.py": GATE.replace('[\n    "llama",\n    "qwen",\n]', "load()")})
    assert fork.run("rebase", "v1.1").code == 3

    result = fork.run("import", offer(fork, gate_diff()))

    assert result.code == 3
    assert "a rebase onto v1.1 stopped at one" in result.err
