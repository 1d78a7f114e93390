"""What random worlds found, each as a story with the right answer."""

from __future__ import annotations

import os

import pytest

from tests.support.story import Story

LINES = "".join(f"line_{number} = {number}\n" for number in range(1, 31))
TEN = LINES.replace("line_10 = 10", "line_10 = 'ten'")


def test_what_upstream_changed_in_a_file_that_the_patch_renames_goes_along(story: Story) -> None:
    """The old path is changed upstream and removed by the patch: by its contents alone that is a conflict."""
    story.release("v1.0", {"old.py": LINES, "b.py": "b = 1\n"})
    story.start("v1.0")
    story.patch("rename", {"old.py": None, "new/name.py": TEN})
    story.release("v1.1", {"old.py": LINES + "line_31 = 31\n"})

    result = story.run("rebase", "v1.1", "--json")

    assert result.code == 0, result.out
    assert result.verdicts == {"rename": "unchanged"}, "the diff is the same"
    assert story.carried("new/name.py") == TEN + "line_31 = 31\n"
    assert not (story.applied / "old.py").exists()


@pytest.mark.parametrize(("moved", "verdict"), [(None, "suspect"), ("elsewhere.py", "conflict")])
def test_a_file_that_the_patch_renames_and_upstream_moves_or_removes_stops(
    story: Story, moved: str | None, verdict: str
) -> None:
    """Carried, it would be there twice, or come back from the dead."""
    story.release("v1.0", {"old.py": LINES, "b.py": "b = 1\n"})
    story.start("v1.0")
    story.patch("rename", {"old.py": None, "new.py": LINES})
    story.release("v1.1", {"old.py": None, **({moved: LINES} if moved else {})})

    result = story.run("rebase", "v1.1", "--json")

    assert result.code == 3
    assert result.verdicts == {"rename": verdict}


@pytest.mark.parametrize("name", ["words", "words.py"])
def test_comments_that_upstream_took_at_another_place_are_not_there_twice(story: Story, name: str) -> None:
    """Git inserts them a second time, cleanly: the end of the file, where the patch puts them, is as it was."""
    story.release("v1.0", {name: LINES + "last = 1"})
    story.start("v1.0")
    story.patch("comment", {name: LINES + "# why the last\n# is last\nlast = 1\n"})
    story.release("v1.1", {name: "# why the last\n# is last\n" + LINES + "last = 1"})

    result = story.run("rebase", "v1.1", "--json")

    assert result.code == 3
    assert result.verdicts == {"comment": "suspect"}
    assert [finding["kind"] for finding in result.patch("comment")["findings"]] == ["duplicate-lines"]


def test_a_patch_on_a_name_that_is_not_utf_8_is_dropped_and_written_down(story: Story) -> None:
    """The evidence names the file; dropped.toml is UTF-8."""
    name = os.fsdecode(b"new\xff.txt")
    story.release("v1.0", {name: LINES, "b.py": "b = 1\n"})
    story.start("v1.0")
    story.patch("ten", {name: TEN})
    story.release("v1.1", {name: LINES.replace("line_10 = 10", "line_10 = 0x0A")})
    assert story.run("rebase", "v1.1").code == 3

    skipped = story.run("rebase", "--skip", "--json")

    assert skipped.code == 0, skipped.err
    assert skipped.verdicts == {"ten": "obsolete"}
    assert r"new\udcff.txt" in (story.project / "patchset/dropped.toml").read_text().replace("\\\\", "\\")


def test_apply_writes_a_series_whose_base_has_history_that_was_not_all_fetched(story: Story) -> None:
    """The base was fetched without files' contents; history, asked for later, joins the next tag to it."""
    story.release("v1.0", {"a.py": LINES, "b.py": "b = 1\n", "untouched.py": "u = 1\n"})
    story.start("v1.0")
    config = story.project / "patchset/patchset.toml"
    config.write_text(config.read_text().replace('sources = ["git"]', 'sources = ["git"]\nhistory = "full"'))
    story.patch("ten", {"a.py": TEN})
    story.release("v1.1", {"b.py": "b = 2\n", "untouched.py": "u = 2\n"})
    assert story.run("rebase", "v1.1").code == 0
    store = story.project / ".forktool/upstream.git"
    known = story.git("log", "--format=%H", "--all", cwd=store)

    assert story.run("apply", str(story.applied)).code == 0

    assert story.git("log", "--format=%s", cwd=story.applied).splitlines() == [
        "Change for ten",
        "Release v1.1",
    ]
    assert (story.applied / "untouched.py").read_text() == "u = 2\n"
    assert story.run("export", str(story.applied)).out == "nothing changed\n"
    assert set(known.split()) <= set(story.git("log", "--format=%H", "--all", cwd=store).split())
