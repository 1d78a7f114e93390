"""Stories of patches that move a file which upstream goes on to edit."""

from __future__ import annotations

from pathlib import Path

from tests.support.story import Story

TEXT = "".join(f"line_{number} = {number}\n" for number in range(1, 31))
EDITED = TEXT.replace("line_25 = 25", "line_25 = 'upstream'")


def move(root: Path) -> None:
    (root / "pkg/new.py").write_text(
        (root / "pkg/old.py").read_text().replace("line_5 = 5", "line_5 = 'ours'")
    )
    (root / "pkg/old.py").unlink()


def test_upstreams_edit_follows_a_file_that_the_patch_moves(story: Story) -> None:
    story.release("v1.0", {"pkg/old.py": TEXT, "pkg/other.py": "x = 1\n"})
    story.start("v1.0")
    story.patch("move", {}, edit=move)
    story.release("v1.1", {"pkg/old.py": EDITED})

    result = story.run("rebase", "v1.1", "--json")

    assert result.code == 0, result.err
    assert result.verdicts == {"move": "unchanged"}
    assert story.carried("pkg/new.py") == EDITED.replace("line_5 = 5", "line_5 = 'ours'")


def test_a_file_that_the_patch_only_removes_stays_a_conflict(story: Story) -> None:
    story.release("v1.0", {"pkg/old.py": TEXT, "pkg/other.py": "x = 1\n"})
    story.start("v1.0")
    story.patch("remove", {"pkg/added.py": "y = 1\n"}, edit=lambda root: (root / "pkg/old.py").unlink())
    story.release("v1.1", {"pkg/old.py": EDITED})

    result = story.run("rebase", "v1.1", "--json")

    assert result.code == 3
    assert result.verdicts == {"remove": "conflict"}
    assert result.patch("remove")["conflicts"] == ["pkg/old.py"]
