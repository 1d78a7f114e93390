"""Stories of `forktool rebase`."""

from __future__ import annotations

from pathlib import Path

from tests.support.story import Story

LIST = 'SUPPORTED = [\n    "llama",\n    "qwen",\n]\n'


def lines(first: int, last: int) -> str:
    return "".join(f"line_{number} = {number}\n" for number in range(first, last + 1))


def test_a_patch_that_upstream_did_not_touch_is_unchanged(story: Story) -> None:
    story.release("v1.0", {"a.py": lines(1, 30), "b.py": "b = 1\n"})
    story.start("v1.0")
    story.patch("ten", {"a.py": lines(1, 30).replace("line_10 = 10", "line_10 = 'ten'")})
    story.release("v1.1", {"b.py": "b = 2\n"})

    result = story.run("rebase", "v1.1", "--json")

    assert result.code == 0
    assert result.verdicts == {"ten": "unchanged"}
    assert result.document["base"] == "v1.0"
    assert result.document["onto"] == "v1.1"
    assert result.document["complete"] is True
    assert 'tag = "v1.1"' in (story.project / "patchset/patchset.toml").read_text()
    assert "line_10 = 'ten'" in story.carried("a.py")
    assert story.carried("b.py") == "b = 2\n"
    assert story.run("check").code == 1  # no probe
    assert story.run("rebase", "v1.1").code == 0


def test_a_patch_whose_place_moved_is_refreshed(story: Story) -> None:
    story.release("v1.0", {"a.py": lines(1, 30)})
    story.start("v1.0")
    story.patch("ten", {"a.py": lines(1, 30).replace("line_10 = 10", "line_10 = 'ten'")})
    story.release("v1.1", {"a.py": "import os\n" + lines(1, 30)})

    result = story.run("rebase", "v1.1", "--json")

    assert result.code == 0
    assert result.verdicts == {"ten": "refreshed"}
    assert story.carried("a.py") == "import os\n" + lines(1, 30).replace("line_10 = 10", "line_10 = 'ten'")


def test_two_insertions_into_one_list_are_resolved_and_shown(story: Story) -> None:
    story.release("v1.0", {"gate.py": LIST})
    story.start("v1.0")
    story.patch(
        "kimi",
        {"gate.py": LIST.replace("]", '    "kimi_k2",\n]')},
        probe='assert "kimi_k2" in tree.literal("gate.py", "SUPPORTED")',
    )
    story.release("v1.1", {"gate.py": LIST.replace("]", '    "nemotron_h",\n]')})

    result = story.run("rebase", "v1.1")

    assert result.code == 0, result.out + result.err
    assert "resolved" in result.out
    assert "nemotron_h" in result.out
    assert "kimi_k2" in result.out
    assert story.carried("gate.py") == LIST.replace("]", '    "nemotron_h",\n    "kimi_k2",\n]')


def test_a_resolution_whose_probe_is_red_falls_back_to_the_conflict(story: Story) -> None:
    story.release("v1.0", {"gate.py": LIST})
    story.start("v1.0")
    story.patch(
        "kimi",
        {"gate.py": LIST.replace("]", '    "kimi_k2",\n]')},
        probe='assert tree.literal("gate.py", "SUPPORTED")[2] == "kimi_k2"',
    )
    story.release("v1.1", {"gate.py": LIST.replace("]", '    "nemotron_h",\n]')})

    result = story.run("rebase", "v1.1", "--json")

    assert result.code == 3
    assert result.verdicts == {"kimi": "conflict"}
    assert result.patch("kimi")["conflicts"] == ["gate.py"]


def test_a_conflict_stops_is_settled_in_the_work_tree_and_goes_on(story: Story) -> None:
    story.release("v1.0", {"a.py": lines(1, 30), "b.py": "b = 1\n"})
    story.start("v1.0")
    story.patch("ten", {"a.py": lines(1, 30).replace("line_10 = 10", "line_10 = 'ten'")})
    story.patch("bee", {"b.py": "b = 1\nc = 2\n"})
    story.release("v1.1", {"a.py": lines(1, 30).replace("line_10 = 10", "line_10 = 0x0A")})
    before = story.snapshot()

    stopped = story.run("rebase", "v1.1")

    assert stopped.code == 3
    assert "line_10 = 'ten'" in stopped.err
    assert "line_10 = 0x0A" in stopped.err
    assert "line_10 = 10" in stopped.err
    assert "forktool rebase --continue" in stopped.err
    assert story.snapshot() == before
    work = story.project / ".forktool" / "conflict"
    assert "<<<<<<<" in (work / "a.py").read_text()

    undecided = story.run("rebase", "--continue")
    assert undecided.code == 3
    assert "conflict markers in a.py" in undecided.err

    (work / "a.py").write_text(lines(1, 30).replace("line_10 = 10", "line_10 = 'TEN'"))
    done = story.run("rebase", "--continue", "--json")
    assert done.code == 0, done.err
    assert done.verdicts == {"ten": "resolved", "bee": "unchanged"}
    assert "line_10 = 'TEN'" in story.carried("a.py")
    assert any((story.project / "patchset/resolutions").iterdir())
    assert not work.exists()


def test_a_recorded_resolution_is_replayed_for_a_colleague(story: Story, tmp_path: Path) -> None:
    story.release("v1.0", {"a.py": lines(1, 30)})
    story.start("v1.0")
    story.patch("ten", {"a.py": lines(1, 30).replace("line_10 = 10", "line_10 = 'ten'")})
    old = story.snapshot()
    story.release("v1.1", {"a.py": lines(1, 30).replace("line_10 = 10", "line_10 = 0x0A")})
    assert story.run("rebase", "v1.1").code == 3
    settled = lines(1, 30).replace("line_10 = 10", "line_10 = 'TEN'")
    (story.project / ".forktool/conflict/a.py").write_text(settled)
    assert story.run("rebase", "--continue").code == 0
    resolutions = {name: text for name, text in story.snapshot().items() if name.startswith("resolutions/")}

    colleague = tmp_path / "colleague"
    for name, text in {**old, **resolutions}.items():
        (colleague / name).parent.mkdir(parents=True, exist_ok=True)
        (colleague / name).write_bytes(text)
    result = story.run("--patchset", str(colleague), "rebase", "v1.1", "--json")

    assert result.code == 0, result.err
    assert result.verdicts == {"ten": "resolved"}
    assert "recorded resolution in a.py" in str(result.patch("ten")["evidence"])


def test_abort_forgets_and_skip_drops(story: Story) -> None:
    story.release("v1.0", {"a.py": lines(1, 30)})
    story.start("v1.0")
    story.patch("ten", {"a.py": lines(1, 30).replace("line_10 = 10", "line_10 = 'ten'")})
    story.release("v1.1", {"a.py": lines(1, 30).replace("line_10 = 10", "line_10 = 0x0A")})
    before = story.snapshot()
    assert story.run("rebase", "v1.1").code == 3
    again = story.run("rebase", "v1.1")
    assert again.code == 3
    assert "stopped at ten" in again.err

    assert story.run("rebase", "--abort").code == 0
    assert story.snapshot() == before
    assert story.run("rebase", "--abort").code == 2

    assert story.run("rebase", "v1.1").code == 3
    skipped = story.run("rebase", "--skip")
    assert skipped.code == 0
    assert (story.project / "patchset/series").read_text().strip().startswith("#")
    assert 'name = "ten"' in (story.project / "patchset/dropped.toml").read_text()
    assert not (story.project / "patchset/ten.patch").exists()


def test_a_dry_run_writes_nothing(story: Story) -> None:
    story.release("v1.0", {"a.py": lines(1, 30)})
    story.start("v1.0")
    story.patch("ten", {"a.py": lines(1, 30).replace("line_10 = 10", "line_10 = 'ten'")})
    story.release("v1.1", {"a.py": lines(1, 30).replace("line_10 = 10", "line_10 = 0x0A")})
    before = story.snapshot()

    assert story.run("rebase", "v1.1", "--dry-run").code == 3

    assert story.snapshot() == before
    assert not (story.project / ".forktool/conflict").exists()
    assert not (story.project / ".forktool/rebase.json").exists()
