"""Stories of `forktool watch`: a newer upstream, and what is coming on its branch."""

from __future__ import annotations

import pytest

from tests.support.story import Story

GATE = 'SUPPORTED = [\n    "llama",\n    "qwen",\n]\n'
KIMI = GATE.replace("]", '    "kimi_k2",\n]')
PROBE = 'assert "kimi_k2" in tree.literal("gate.py", "SUPPORTED")'


@pytest.fixture(autouse=True)
def patched(story: Story) -> None:
    story.release("v1.0", {"gate.py": GATE, "other.py": "other = 1\n"})
    story.start("v1.0")
    story.patch("kimi", {"gate.py": KIMI}, probe=PROBE)
    story.patch(
        "other", {"other.py": "other = 2\n"}, probe='assert "other = 2" in tree.read_text("other.py")'
    )


def test_nothing_new_is_a_yes(story: Story) -> None:
    result = story.run("watch")

    assert (result.code, result.out) == (0, "v1.0 is the newest release\n")
    assert story.run("watch", "--json").document["newest"] == "v1.0"


def test_newer_releases_are_judged_and_release_candidates_are_not(story: Story) -> None:
    story.release("v1.1", {"new.py": "new = 1\n"})
    story.release("v1.2rc1", {"gate.py": "nothing = 1\n"})
    story.release("v1.2", {"gate.py": KIMI})

    result = story.run("watch", "--json")

    assert result.code == 1
    assert result.document["tags"] == ["v1.1", "v1.2"]
    assert result.document["newest"] == "v1.2"
    assert result.document["branch"] is None
    assert result.patch("kimi")["verdicts"] == {"v1.1": "unchanged", "v1.2": "absorbed"}
    text = story.run("watch")
    assert "v1.1: 2 unchanged" in text.out
    assert "v1.2: 1 unchanged, 1 absorbed" in text.out
    assert "hint: forktool rebase v1.2" in text.err


def test_since_leaves_older_releases_out(story: Story) -> None:
    story.release("v1.1", {"new.py": "new = 1\n"})
    story.release("v1.2", {"new.py": "new = 2\n"})

    assert story.run("watch", "--since", "v1.1", "--json").document["tags"] == ["v1.2"]
    assert story.run("watch", "--since", "v1.2").code == 0
    unknown = story.run("watch", "--since", "v9.9")
    assert unknown.code == 2
    assert "v9.9 is not a release" in unknown.err


def test_the_branch_tells_which_commit_breaks_and_which_absorbs_which_patch(story: Story) -> None:
    for number in range(3):
        story.commit({"new.py": f"new = {number}\n"}, f"Step {number}")
    absorbs = story.commit({"gate.py": KIMI}, "Accept Kimi (#7)")
    story.commit({"new.py": "new = 4\n"}, "Step 4")
    breaks = story.commit({"other.py": "other = 3\n"}, "Change other (#8)")
    for number in range(5, 9):
        story.commit({"new.py": f"new = {number}\n"}, f"Step {number}")

    result = story.run("watch", "--main", "--json")

    assert result.code == 1
    branch = result.document["branch"]
    assert branch["name"] == "main"
    assert branch["commit"] == story.git("rev-parse", "main").strip()
    assert branch["patches"] == [
        {"name": "kimi", "verdict": "absorbed", "since": {"commit": absorbs, "subject": "Accept Kimi (#7)"}},
        {"name": "other", "verdict": "conflict", "since": {"commit": breaks, "subject": "Change other (#8)"}},
    ]
    text = story.run("watch", "--main").out
    assert f"since {breaks[:12]}: Change other (#8)" in text


def test_a_merged_side_branch_counts_as_the_merge(story: Story) -> None:
    story.git("checkout", "--quiet", "-b", "side")
    story.commit({"other.py": "other = 3\n"}, "Change other on the side")
    story.git("checkout", "--quiet", "main")
    story.commit({"new.py": "new = 1\n"}, "Step")
    story.git("merge", "--quiet", "--no-ff", "--message", "Merge side (#9)", "side")
    merge = story.git("rev-parse", "HEAD").strip()

    document = story.run("watch", "--main", "--json").document

    assert document["branch"]["patches"][1]["since"] == {"commit": merge, "subject": "Merge side (#9)"}


def test_a_branch_on_which_everything_is_carried_is_a_yes(story: Story) -> None:
    story.commit({"new.py": "new = 1\n"}, "Step")

    result = story.run("watch", "--main")

    assert result.code == 0
    assert "main at " in result.out
    assert result.out.endswith(": 2 unchanged\n")


def test_watching_changes_nothing(story: Story) -> None:
    story.release("v1.1", {"gate.py": KIMI})
    before = story.snapshot()

    story.run("watch", "--main")

    assert story.snapshot() == before
