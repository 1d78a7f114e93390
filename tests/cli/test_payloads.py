"""Changes that parsers of patches get wrong, and upstreams that move, split and delete files."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

from tests.support.story import Story

LINES = "".join(f"line_{number} = {number}\n" for number in range(1, 61))


def noise(seed: int, size: int) -> bytes:
    return random.Random(seed).randbytes(size)


BASE: dict[str, str | bytes | None] = {
    "pkg/literal.bin": b"b\0in",
    "pkg/delta.bin": noise(1, 3000),
    "pkg/old.py": LINES,
    "pkg/moved.py": LINES.replace("line", "text"),
    "pkg/source.py": LINES.replace("line", "copy"),
    "pkg/script.sh": "#!/bin/sh\n",
    "pkg/becomes_link": "text\n",
    "pkg/gone_empty.py": "",
    "pkg/gains_newline": "first\nlast",
    "pkg/loses_newline": "first\nlast\n",
    "pkg/controls.txt": b"a\rb\nform\x0cfeed\nlast\n",
    "pkg/crlf.txt": b"one\r\ntwo\r\nthree\r\n",
    "pkg/latin.txt": b"Z\xfcrich\nlast\n",
    "x b/y.py": "first\nlast\n",
    "na me é 文件.txt": "first\nlast\n",
    'quote" and \\ back\tslash': "first\nlast\n",
    "pkg/neighbour.py": LINES,
}


def edit_links(root: Path) -> None:
    (root / "pkg/becomes_link").unlink()
    (root / "pkg/becomes_link").symlink_to("script.sh")
    (root / "pkg/becomes_file").unlink()
    (root / "pkg/becomes_file").write_text("text\n")
    (root / "pkg/new_link").symlink_to("no/such/target")


def edit_modes(root: Path) -> None:
    (root / "pkg/script.sh").chmod(0o755)


def edit_renames(root: Path) -> None:
    (root / "pkg/old.py").rename(root / "pkg/new é name.py")
    (root / "pkg/moved.py").unlink()
    (root / "pkg/moved here.py").write_text(LINES.replace("line", "text") + "tail = 1\n")
    (root / "pkg/moved here.py").chmod(0o755)
    (root / "pkg/source.py").write_text(LINES.replace("line", "copy") + "more = 1\n")
    (root / "pkg/copied.py").write_text(LINES.replace("line", "copy") + "other = 1\n")


def bump(story: Story, commit: str) -> Callable[[Path], None]:
    def edit(root: Path) -> None:
        story.git("update-index", "--cacheinfo", f"160000,{commit},pkg/module", cwd=root)

    return edit


def write_series(story: Story) -> None:
    """Base v1.0, one patch a kind of change, and v1.1, where upstream touched the neighbours."""
    story.write(BASE)
    (story.upstream / "pkg/becomes_file").symlink_to("script.sh")
    (story.upstream / "pkg/module").mkdir()
    story.git("update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},pkg/module")
    story.release("v1.0")
    story.start("v1.0")
    story.require("reason", "signed-off-by")
    delta = bytearray(noise(1, 3000))
    delta[1500:1510] = b"0123456789"
    story.patch(
        "binary", {"pkg/literal.bin": b"b\0out", "pkg/delta.bin": bytes(delta), "pkg/new.bin": noise(2, 99)}
    )
    story.patch("renames", {}, edit=edit_renames)
    story.patch("modes", {}, edit=edit_modes)
    story.patch("links", {}, edit=edit_links)
    story.patch("module", {}, edit=bump(story, "2" * 40))
    story.patch("empty", {"pkg/empty/__init__.py": "", "pkg/gone_empty.py": None})
    story.patch(
        "newlines",
        {"pkg/gains_newline": "first\nlast\n", "pkg/loses_newline": "first\nlast", "pkg/none": "no newline"},
    )
    story.patch(
        "controls",
        {
            "pkg/controls.txt": b"a\rB\nform\x0cfeeds\nlast\x0b\x1c\x85\n\r",
            "pkg/crlf.txt": b"one\r\nTWO\r\nthree\r\n",
            "pkg/latin.txt": b"Z\xfcrich, Gen\xe8ve\nlast",
            "pkg/separators.py": "a = 1\u2028b = 2\u2029\n",
        },
    )
    story.patch(
        "paths",
        {
            "x b/y.py": "first\nlast\nmore\n",
            "na me é 文件.txt": "first\nlast\nmore\n",
            'quote" and \\ back\tslash': "first\nlast\nmore\n",
            " b/ leading": "x\n",
            "b/b/b": "x\n",
        },
    )
    story.patch("text", {"pkg/neighbour.py": LINES.replace("line_10 = 10", "line_10 = 'ten'")})
    story.release(
        "v1.1",
        {
            "pkg/neighbour.py": "import os\n" + LINES,
            "pkg/another.bin": b"\0",
            "x b/z.py": "z\n",
            "top.py": "top\n",
            "pkg/source.py": "import os\n" + LINES.replace("line", "copy"),
        },
    )


def test_a_series_of_every_kind_of_change_gives_the_tree_that_cherry_pick_gives(story: Story) -> None:
    write_series(story)
    assert story.run("check").code == 0

    result = story.run("rebase", "v1.1", "--json")

    assert result.code == 0, result.out
    assert result.verdicts.pop("text") == "refreshed"
    assert story.carried_tree() == story.cherry_picked_tree("v1.1")
    assert story.run("check").code == 0
    before = story.snapshot()
    assert story.run("export", str(story.applied)).code == 0
    assert story.snapshot() == before


def test_git_am_makes_the_same_tree_of_the_series_that_was_written(story: Story, tmp_path: Path) -> None:
    """The files are ordinary format-patch mails: `git am` makes the same tree of them."""
    write_series(story)
    assert story.run("rebase", "v1.1").code == 0
    clone = tmp_path / "clone"
    story.git("clone", "--quiet", str(story.upstream), str(clone), cwd=tmp_path)
    story.git("checkout", "--quiet", "--detach", "v1.1", cwd=clone)

    names = [line for line in story.snapshot()["series"].decode().splitlines() if not line.startswith("#")]
    files = [str(story.project / "patchset" / name) for name in names]
    story.git("am", "--quiet", "--keep-non-patch", "--keep-cr", "--no-scissors", *files, cwd=clone)

    assert story.git("rev-parse", "HEAD^{tree}", cwd=clone).strip() == story.carried_tree()


def test_a_change_follows_a_file_that_upstream_moved(story: Story) -> None:
    story.release("v1.0", {"a/deep/name.py": LINES, "b.py": "b\n"})
    story.start("v1.0")
    story.patch("ten", {"a/deep/name.py": LINES.replace("line_10 = 10", "line_10 = 'ten'")})
    story.git("mv", "a/deep/name.py", "other.py")
    story.release("v1.1", {"other.py": LINES + "line_61 = 61\n"})

    result = story.run("rebase", "v1.1", "--json")

    assert result.code == 0, result.out
    assert result.verdicts == {"ten": "refreshed"}
    assert story.carried("other.py") == LINES.replace("line_10 = 10", "line_10 = 'ten'") + "line_61 = 61\n"
    assert not (story.applied / "a").exists()
    assert story.run("rebase", "v1.1", "--json").verdicts == {"ten": "unchanged"}


def test_a_file_that_upstream_split_is_a_conflict(story: Story) -> None:
    first, second = LINES[: LINES.index("line_40")], LINES[LINES.index("line_40") :]
    story.release("v1.0", {"whole.py": LINES})
    story.start("v1.0")
    story.patch("fifty", {"whole.py": LINES.replace("line_50 = 50", "line_50 = 'fifty'")})
    story.release("v1.1", {"whole.py": None, "first.py": first, "second.py": second})

    result = story.run("rebase", "v1.1", "--json")

    assert result.code == 3
    assert result.verdicts == {"fifty": "conflict"}
    work = story.project / ".forktool/conflict"
    (work / "second.py").write_text(second.replace("line_50 = 50", "line_50 = 'fifty'"))
    (work / "first.py").write_text(first)
    (work / "whole.py").unlink(missing_ok=True)
    story.git("add", "--all", cwd=work)
    done = story.run("rebase", "--continue", "--json")
    assert done.code == 0, done.err
    assert done.verdicts == {"fifty": "resolved"}
    assert "'fifty'" in story.carried("second.py")
    assert story.carried("first.py") == first


def test_a_file_that_upstream_deleted_is_obsolete_or_a_conflict_as_the_probe_says(story: Story) -> None:
    files = {
        "mute.py": LINES,
        "green.py": LINES + "green\n",
        "red.py": LINES + "red\n",
        "stays.py": "x = 1\n",
    }
    story.release("v1.0", files)
    story.start("v1.0")
    for name, probe in (
        ("green", "assert not tree.exists('green.py') or \"'ten'\" in tree.read_text('green.py')"),
        ("red", "assert \"'ten'\" in tree.read_text('red.py')"),
        ("mute", None),
    ):
        text = files[f"{name}.py"]
        story.patch(name, {f"{name}.py": text.replace("line_10 = 10", "line_10 = 'ten'")}, probe=probe)
    story.release("v1.1", dict.fromkeys(["mute.py", "green.py", "red.py"]))

    result = story.run("rebase", "v1.1", "--json")

    assert result.code == 3
    assert result.verdicts == {"green": "obsolete", "red": "conflict", "mute": "not-reached"}
    assert {evidence["kind"] for evidence in result.patch("green")["evidence"]} == {"target-gone", "probe"}
    assert result.patch("red")["conflicts"] == ["red.py"]
    last = story.run("rebase", "--skip", "--json")
    assert last.verdicts == {"green": "obsolete", "red": "obsolete", "mute": "conflict"}
    assert story.run("rebase", "--skip").code == 0
    assert [line for line in story.snapshot()["series"].splitlines() if not line.startswith(b"#")] == []


def test_a_file_that_the_patch_deletes_and_upstream_changed_is_a_conflict(story: Story) -> None:
    story.release("v1.0", {"a.py": LINES, "b.py": "b = 1\n"})
    story.start("v1.0")
    story.patch("remove", {"a.py": None})
    story.release("v1.1", {"a.py": LINES + "line_61 = 61\n"})

    result = story.run("rebase", "v1.1", "--json")

    assert result.code == 3
    assert result.verdicts == {"remove": "conflict"}
    assert result.patch("remove")["conflicts"] == ["a.py"]
    assert story.run("rebase", "--continue").code == 3, "nothing was settled"
    story.git("rm", "--quiet", "a.py", cwd=story.project / ".forktool/conflict")
    assert story.run("rebase", "--continue").code == 0
    assert story.run("apply", str(story.applied)).code == 0
    assert not (story.applied / "a.py").exists()


def test_a_file_that_both_delete_or_both_add_is_absorbed_only_with_a_green_probe(story: Story) -> None:
    story.release("v1.0", {"deleted.py": LINES, "b.py": "b = 1\n"})
    story.start("v1.0")
    story.patch("delete", {"deleted.py": None})
    story.patch("add", {"added.py": LINES})
    story.release("v1.1", {"deleted.py": None, "added.py": LINES})

    mute = story.run("rebase", "v1.1", "--json")
    assert mute.code == 3
    assert mute.verdicts == {"delete": "suspect", "add": "not-reached"}
    assert story.run("rebase", "--abort").code == 0
    story.probe("delete", "assert not tree.exists('deleted.py')")
    story.probe("add", "assert tree.exists('added.py')")

    told = story.run("rebase", "v1.1", "--json")
    assert told.code == 0, told.out
    assert told.verdicts == {"delete": "absorbed", "add": "absorbed"}


def test_a_file_that_both_add_with_other_content_is_a_conflict(story: Story) -> None:
    story.release("v1.0", {"b.py": "b = 1\n"})
    story.start("v1.0")
    story.patch("add", {"added.py": "x = 1\ny = 2\n"})
    story.release("v1.1", {"added.py": "x = 2\nz = 3\n"})

    result = story.run("rebase", "v1.1", "--json")

    assert result.code == 3
    assert result.verdicts == {"add": "conflict"}
    text = (story.project / ".forktool/conflict/added.py").read_text()
    assert "y = 2" in text
    assert "z = 3" in text


def test_a_folder_that_upstream_renamed_takes_edits_along_and_asks_about_new_files(story: Story) -> None:
    package = {f"old/{name}.py": LINES.replace("line", name) for name in ("aa", "bb", "cc")}
    story.release("v1.0", {**package, "b.py": "b = 1\n"})
    story.start("v1.0")
    story.patch("edit", {"old/aa.py": package["old/aa.py"].replace("aa_10 = 10", "aa_10 = 'ten'")})
    story.patch("add", {"old/dd.py": "dd = 1\n"})
    story.git("mv", "old", "new")
    story.release("v1.1")

    result = story.run("rebase", "v1.1", "--json")

    assert result.code == 3
    assert result.verdicts == {"edit": "refreshed", "add": "conflict"}
    work = story.project / ".forktool/conflict"
    assert (work / "new/dd.py").read_text() == "dd = 1\n"
    story.git("add", "new/dd.py", cwd=work)
    done = story.run("rebase", "--continue", "--json")
    assert done.code == 0, done.err
    assert "aa_10 = 'ten'" in story.carried("new/aa.py")
    assert story.carried("new/dd.py") == "dd = 1\n"
    assert sorted(entry.name for entry in story.applied.iterdir()) == [".git", "b.py", "new"]


def test_a_binary_file_that_both_changed_is_a_conflict_without_markers(story: Story) -> None:
    story.release("v1.0", {"a.bin": b"\0base" * 50})
    story.start("v1.0")
    story.patch("bytes", {"a.bin": b"\0patch" * 50})
    story.release("v1.1", {"a.bin": b"\0upstream" * 50})

    result = story.run("rebase", "v1.1", "--json")

    assert result.code == 3
    assert result.verdicts == {"bytes": "conflict"}
    assert b"<<<<" not in (story.project / ".forktool/conflict/a.bin").read_bytes()
    assert story.run("rebase", "--continue").code == 3, "upstream's bytes are no settlement"
    (story.project / ".forktool/conflict/a.bin").write_bytes(b"\0both" * 50)
    assert story.run("rebase", "--continue").code == 0
    assert story.run("check").code == 1


def test_a_file_whose_name_is_not_utf_8_is_carried_and_shown(story: Story) -> None:
    name = os.fsdecode(b"caf\xe9.py")
    story.release("v1.0", {name: LINES, "b.py": "b = 1\n"})
    story.start("v1.0")
    story.patch("ten", {name: LINES.replace("line_10 = 10", "line_10 = 'ten'")})
    story.release("v1.1", {name: "import os\n" + LINES})
    story.release("v1.2", {name: LINES.replace("line_10 = 10", "line_10 = 0x0A")})

    assert story.run("rebase", "v1.2", "--dry-run").code == 3
    shown = story.run("rebase", "v1.2", "--dry-run", "--json")
    assert [os.fsencode(path) for path in shown.patch("ten")["conflicts"]] == [b"caf\xe9.py"]
    assert story.run("rebase", "v1.1").code == 0
    assert "'ten'" in story.carried(name)


def test_commits_that_no_patch_file_can_hold_are_refused_by_export(story: Story) -> None:
    story.release("v1.0", {"a.py": LINES})
    story.start("v1.0")
    story.patch("ten", {"a.py": LINES.replace("line_10 = 10", "line_10 = 'ten'")})
    assert story.run("apply", str(story.applied)).code == 0
    before = story.snapshot()

    story.git("commit", "--quiet", "--allow-empty", "--message", "Nothing", cwd=story.applied)
    empty = story.run("export", str(story.applied))
    assert empty.code == 2
    assert "'Nothing' changes nothing" in empty.err
    story.git("reset", "--quiet", "--hard", "HEAD~1", cwd=story.applied)
    story.git("checkout", "--quiet", "-b", "side", "v1.0", cwd=story.applied)
    story.write({"b.py": "b = 1\n"}, root=story.applied)
    story.git("add", "b.py", cwd=story.applied)
    story.git("commit", "--quiet", "--message", "Side", cwd=story.applied)
    story.git("checkout", "--quiet", "-", cwd=story.applied)
    story.git("merge", "--quiet", "--no-edit", "side", cwd=story.applied)
    merged = story.run("export", str(story.applied))
    assert merged.code == 2
    assert "is a merge" in merged.err
    assert story.snapshot() == before


def test_a_series_has_the_same_commit_ids_at_every_apply_and_everywhere(story: Story, tmp_path: Path) -> None:
    story.release("v1.0", {"a.py": LINES})
    story.start("v1.0")
    story.patch("ten", {"a.py": LINES.replace("line_10 = 10", "line_10 = 'ten'")})
    assert story.run("apply", str(tmp_path / "one")).code == 0
    shutil.rmtree(story.project / ".forktool")
    assert story.run("apply", str(tmp_path / "two")).code == 0

    one, two = (story.git("rev-parse", "HEAD", cwd=tmp_path / name) for name in ("one", "two"))

    assert one == two


def test_diff_pairs_a_patch_with_its_successor_however_much_it_changed(story: Story) -> None:
    story.release("v1.0", {"a.py": LINES})
    story.start("v1.0")
    story.patch("ten", {"a.py": LINES.replace("line_10 = 10", "line_10 = 'ten'")})
    story.release("v1.1", {"a.py": LINES.replace("line_10 = 10", "line_10 = 0x0A")})
    assert story.run("rebase", "v1.1").code == 3
    other = LINES.replace("line_10 = 10\n", "".join(f"entirely_{n} = 'another change'\n" for n in range(20)))
    (story.project / ".forktool/conflict/a.py").write_text(other)
    assert story.run("rebase", "--continue").code == 0

    told = story.run("diff").out.splitlines()

    assert "1:" in told[0]
    assert " ! 1:" in told[0]
    assert any("entirely_0" in line for line in told)
