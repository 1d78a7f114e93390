"""Taking a patch out of the middle of a series, with others made on it."""

from __future__ import annotations

import pytest

from tests.support.story import Story

TEXT = "".join(f"line_{number} = {number}\n" for number in range(1, 41))
TEN = TEXT.replace("line_10 = 10", "line_10 = 'ten'")


@pytest.fixture
def fork(story: Story) -> Story:
    story.release("v1.0", {"a.py": TEXT, "b.py": TEXT})
    story.start("v1.0")
    story.patch("ten", {"a.py": TEN})
    return story


def broken(fork: Story) -> list[dict[str, str]]:
    """What check finds, but for words and probes that these patches never had."""
    problems = fork.run("check", "--json").document["problems"]
    return [one for one in problems if one["kind"] not in ("probe", "reason", "sign-off")]


def series(fork: Story) -> list[str]:
    lines = (fork.project / "patchset/series").read_text().splitlines()
    return [line for line in lines if not line.startswith("#")]


def test_patches_behind_it_in_the_same_file_are_carried_over_its_absence(fork: Story) -> None:
    fork.patch("thirteen", {"a.py": TEN.replace("line_13 = 13", "line_13 = 'thirteen'")})
    dropped = fork.run("drop", "ten", "--reason", "not wanted")

    assert dropped.code == 0, dropped.err
    assert broken(fork) == []
    assert series(fork) == ["thirteen.patch"]
    assert b"ten" not in (fork.project / "patchset/thirteen.patch").read_bytes().replace(b"thirteen", b"")
    assert "decision: not wanted" in (fork.project / "patchset/dropped.toml").read_text()


def test_a_patch_made_on_its_very_lines_stops_and_abort_restores(fork: Story) -> None:
    fork.patch("tenth", {"a.py": TEN.replace("'ten'", "'tenth'")})
    before = fork.snapshot()
    stopped = fork.run("drop", "ten", "--reason", "not wanted")

    assert stopped.code == 3
    assert "stopped at tenth" in stopped.err
    assert fork.snapshot() == before
    assert fork.run("rebase", "--abort").code == 0
    assert fork.snapshot() == before


def test_what_a_person_settled_is_carried(fork: Story) -> None:
    fork.patch("tenth", {"a.py": TEN.replace("'ten'", "'tenth'")})
    assert fork.run("drop", "ten", "--reason", "not wanted").code == 3
    work = fork.project / ".forktool/conflict"
    (work / "a.py").write_text(TEXT.replace("line_10 = 10", "line_10 = 'tenth'"))
    fork.git("add", "a.py", cwd=work)

    going_on = fork.run("rebase", "--continue")
    assert going_on.code == 0, going_on.err
    assert broken(fork) == []
    assert series(fork) == ["tenth.patch"]


def test_a_dry_run_says_what_would_become_of_the_others(fork: Story) -> None:
    fork.patch("tenth", {"a.py": TEN.replace("'ten'", "'tenth'")})
    before = fork.snapshot()
    asked = fork.run("drop", "ten", "--reason", "not wanted", "--dry-run", "--json")
    assert asked.code == 3
    assert asked.verdicts["tenth"] == "conflict"
    assert fork.snapshot() == before
    assert fork.run("rebase", "--abort").code == 2


def test_others_on_other_files_stay_to_the_byte(fork: Story) -> None:
    fork.patch("thirteen", {"b.py": TEXT.replace("line_13 = 13", "line_13 = 'thirteen'")})
    file = fork.project / "patchset/thirteen.patch"
    before = file.read_bytes()
    assert fork.run("drop", "ten", "--reason", "not wanted").code == 0
    assert file.read_bytes() == before
    assert broken(fork) == []
