"""Upstreams that are fetched without history and without files: a replay never fails for what is not there yet."""

from __future__ import annotations

import pytest

from tests.support.story import Story

TEXT = "".join(f"line_{number} = {number}\n" for number in range(1, 41))
TEN = TEXT.replace("line_10 = 10", "line_10 = 'ten'")


def write_series(story: Story) -> None:
    """One patch follows a moved file, one merges, one stops; a hundred files are never looked at."""
    others = {f"others/{number}.py": f"number = {number}\n" for number in range(100)}
    files = {f"pkg/{name}.py": TEXT.replace("line", name) for name in ("moves", "merges", "stops")}
    story.release("v1.0", {**files, **others})
    story.start("v1.0")
    for name in ("moves", "merges", "stops"):
        story.patch(name, {f"pkg/{name}.py": TEN.replace("line", name)})
    story.git("mv", "pkg/moves.py", "moved.py")
    changed = {f"others/{number}.py": f"number = {number + 1}\n" for number in range(100)}
    stops = files["pkg/stops.py"].replace("stops_10 = 10", "stops_10 = 0x0A")
    story.release(
        "v1.1", {**changed, "pkg/merges.py": "import os\n" + files["pkg/merges.py"], "pkg/stops.py": stops}
    )


def missing(story: Story) -> int:
    listed = story.git(
        *("rev-list", "--objects", "--missing=print", "--all"), cwd=story.project / ".forktool/upstream.git"
    )
    return sum(line.startswith("?") for line in listed.splitlines())


@pytest.mark.parametrize("filters", ["true", "false"])
def test_a_replay_and_its_work_tree_fetch_the_files_that_they_need(story: Story, filters: str) -> None:
    story.git("config", "uploadpack.allowFilter", filters)
    write_series(story)

    dry = story.run("rebase", "v1.1", "--dry-run", "--json")

    assert dry.code == 3, dry.err
    assert dry.verdicts == {"moves": "refreshed", "merges": "refreshed", "stops": "conflict"}
    assert (missing(story) >= 100) is (filters == "true"), (
        "not every file was fetched, where that can be asked for"
    )
    assert (story.project / ".forktool/upstream.git/shallow").exists()
    assert story.run("rebase", "v1.1").code == 3
    work = story.project / ".forktool/conflict"
    assert (work / "others/99.py").read_text() == "number = 100\n"
    (work / "pkg/stops.py").write_text(TEN.replace("line", "stops"))
    assert story.run("rebase", "--continue").code == 0
    assert story.carried("moved.py") == TEN.replace("line", "moves")


def test_an_upstream_that_is_itself_shallow_or_partial_serves_as_well(story: Story) -> None:
    write_series(story)
    clone = story.project.parent / "clone"
    story.git(
        "clone",
        "--quiet",
        "--depth=1",
        "--branch=v1.1",
        story.upstream.as_uri(),
        str(clone),
        cwd=story.project,
    )
    story.git("fetch", "--quiet", "--depth=1", "origin", "tag", "v1.0", cwd=clone)
    config = story.project / "patchset/patchset.toml"
    config.write_text(config.read_text().replace(str(story.upstream), str(clone)))

    assert story.run("rebase", "v1.1", "--json").verdicts["moves"] == "refreshed"


def test_files_that_cannot_be_fetched_any_more_are_an_error_and_change_nothing(story: Story) -> None:
    write_series(story)
    assert story.run("status", "--onto", "v1.1").code == 3
    before = story.snapshot()
    story.upstream.rename(story.upstream.with_name("away"))

    result = story.run("--offline", "rebase", "v1.1")

    assert result.code == 4, result.err
    assert "error: " in result.err
    assert "Traceback" not in result.err
    assert story.snapshot() == before
    story.upstream.with_name("away").rename(story.upstream)
    assert story.run("rebase", "v1.1").code == 3
