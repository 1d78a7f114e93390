"""Recorded resolutions are replayed and never trusted: findings and probe judge what they give."""

from __future__ import annotations

import pytest

from tests.support.story import Story

TEXT = "".join(f"line_{number} = {number}\n" for number in range(1, 31))
OURS = TEXT.replace("line_10 = 10", "line_10 = 'ten'")
THEIRS = TEXT.replace("line_10 = 10", "line_10 = 0x0A")
PROBE = "assert \"'ten'\" in tree.read_text('a.py')"


def record(story: Story, settled: str, probe: str | None) -> None:
    """Settle the conflict once, with resolutions kept, and put the old patchset back beside them."""
    story.release("v1.0", {"a.py": TEXT})
    story.start("v1.0")
    story.patch("ten", {"a.py": OURS})
    old = story.snapshot()
    story.release("v1.1", {"a.py": THEIRS})
    assert story.run("rebase", "v1.1").code == 3
    (story.project / ".forktool/conflict/a.py").write_text(settled)
    if story.run("rebase", "--continue").code == 3:  # what is wrong with it is seen, and kept all the same
        assert story.run("keep", "ten").code == 0
        assert story.run("rebase", "--continue").code == 0
    for name, content in old.items():
        (story.project / "patchset" / name).write_bytes(content)
    if probe is not None:
        story.probe("ten", probe)


@pytest.mark.parametrize(
    ("settled", "probe"),
    [
        (TEXT.replace("line_10 = 10", "line_10 = 'wrong'"), PROBE),
        (TEXT.replace("line_10 = 10", "line_10 = ("), None),
        (TEXT.replace("line_10 = 10", "def y():\n    return 1\n\n\ndef y():\n    return 1\n"), None),
    ],
    ids=["the probe is red", "it does not parse", "it defines twice"],
)
def test_a_bad_recorded_resolution_falls_back_to_the_conflict(
    story: Story, settled: str, probe: str | None
) -> None:
    record(story, settled, probe)
    before = story.snapshot()

    result = story.run("rebase", "v1.1", "--json")

    assert result.code == 3, result.out
    assert result.verdicts == {"ten": "conflict"}
    assert story.snapshot() == before
    shown = (story.project / ".forktool/conflict/a.py").read_text()
    assert "line_10 = 'ten'" in shown
    assert "line_10 = 0x0A" in shown
    assert story.run("rebase", "--continue").code == 3, "a resolution that was refused is no settlement"


def test_a_good_recorded_resolution_is_carried_and_shown(story: Story) -> None:
    record(story, TEXT.replace("line_10 = 10", "line_10 = 'ten' or 0x0A"), PROBE)

    result = story.run("rebase", "v1.1", "--json")

    assert result.code == 0, result.err
    assert result.verdicts == {"ten": "resolved"}
    assert "recorded resolution in a.py" in str(result.patch("ten")["evidence"])


def test_a_recorded_resolution_that_holds_markers_settles_nothing(story: Story) -> None:
    record(story, TEXT.replace("line_10 = 10", "line_10 = 'TEN'"), None)
    for image in (story.project / "patchset/resolutions").glob("*/postimage"):
        image.write_text(
            image.read_text().replace("line_10 = 'TEN'\n", "<<<<<<< one\na\n=======\nb\n>>>>>>> two\n")
        )

    result = story.run("rebase", "v1.1", "--json")

    assert result.code == 3
    assert result.verdicts == {"ten": "conflict"}


@pytest.mark.parametrize("left", ["<<<<<<< one\n", "=======\n", ">>>>>>> two\n", "||||||| base\n"])
def test_markers_that_were_added_to_the_index_are_never_carried_in_silence(story: Story, left: str) -> None:
    story.release("v1.0", {"a.py": TEXT})
    story.start("v1.0")
    story.patch("ten", {"a.py": OURS})
    story.release("v1.1", {"a.py": THEIRS})
    assert story.run("rebase", "v1.1").code == 3
    work = story.project / ".forktool/conflict"
    (work / "a.py").write_text(OURS + left)
    story.git("add", "a.py", cwd=work)

    refused = story.run("rebase", "--continue", "--json")

    assert refused.code == 3
    assert refused.verdicts == {"ten": "suspect"}
    found = {finding["kind"] for finding in refused.patch("ten")["findings"]}
    assert found <= {"conflict-markers", "syntax-error"}
    assert found


def test_a_settlement_whose_probe_is_red_stays_in_the_work_tree(story: Story) -> None:
    story.release("v1.0", {"a.py": TEXT})
    story.start("v1.0")
    story.patch("ten", {"a.py": OURS}, probe=PROBE)
    story.release("v1.1", {"a.py": THEIRS})
    assert story.run("rebase", "v1.1").code == 3
    file = story.project / ".forktool/conflict/a.py"
    file.write_text(TEXT.replace("line_10 = 10", "line_10 = 'TEN'"))

    suspect = story.run("rebase", "--continue", "--json")

    assert suspect.code == 3
    assert suspect.verdicts == {"ten": "suspect"}
    assert "'TEN'" in file.read_text()
    undecided = story.run("rebase", "--continue")
    assert undecided.code == 3
    assert "ten is undecided" in undecided.err
    file.write_text(TEXT.replace("line_10 = 10", "line_10 = 'ten', 'TEN'"))
    done = story.run("rebase", "--continue", "--json")
    assert done.code == 0, done.err
    assert done.verdicts == {"ten": "resolved"}
    assert story.carried("a.py") == file_text("'ten', 'TEN'")


def file_text(value: str) -> str:
    return TEXT.replace("line_10 = 10", f"line_10 = {value}")


def test_damaged_resolutions_are_passed_over(story: Story) -> None:
    record(story, TEXT.replace("line_10 = 10", "line_10 = 'TEN'"), None)
    for folder in (story.project / "patchset/resolutions").iterdir():
        (folder / "preimage").write_bytes(b"\0")
    (story.project / "patchset/resolutions/README").write_text("prose\n")

    assert story.run("rebase", "v1.1", "--json").verdicts == {"ten": "conflict"}
