"""From a series to a verdict: patches, the wheel, the matrix on it, wheels without each patch, and the report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.matrix_project import CELLS, SERVERS, make_wheel
from tests.support.story import Result, Story

CELL = "tiny.eagle3.tp1.cpu"
BEHAVIOUR = "vllm/entrypoints/cli/behaviour.json"
REFUSES: dict[str, Any] = {"with": {"start": "refuse"}}
NOTES = "".join(f"LINE_{number} = {number}\n" for number in range(20))
PROFILE = '[rules]\nshipped = ["vllm/"]\n\n[build]\nversion-variable = "V"\nprograms = []\n'


def script(behaviour: object) -> str:
    return json.dumps(behaviour, indent=1) + "\n"


@pytest.fixture
def fork(story: Story) -> Story:
    """An upstream whose server refuses, released as v0.16.0, and a fork whose first patch opens the gate."""
    story.release(
        "v0.16.0",
        {
            "vllm/__init__.py": "",
            "vllm/entrypoints/__init__.py": "",
            "vllm/entrypoints/cli/__init__.py": "",
            "vllm/entrypoints/cli/main.py": SERVERS["vllm"][1].read_text(encoding="utf-8"),
            BEHAVIOUR: script(REFUSES),
            "vllm/notes.py": NOTES,
        },
    )
    story.start("v0.16.0")
    patchset = story.project / "patchset"
    (patchset / "wheel.toml").write_text(PROFILE, encoding="utf-8")
    (patchset / "matrix.toml").write_text(CELLS, encoding="utf-8")
    model = patchset / "models" / "tiny"
    model.mkdir(parents=True)
    (patchset / "models" / "drafter").mkdir()
    (model / "script.json").write_text("{}", encoding="utf-8")
    make_wheel(story.project / "published", behaviour=REFUSES, behaviour_text=script(REFUSES), notes=NOTES)
    story.patch("open-the-gate", {BEHAVIOUR: script({"with": {}})})
    return story


def build(fork: Story) -> Path:
    output = fork.project / "dist"
    published = next((fork.project / "published").glob("*.whl"))
    result = fork.run("wheel", "--wheel", str(published), "--output", str(output))
    assert "carries" in result.out, result.out + result.err
    return max(output.glob("*.whl"), key=lambda path: path.stat().st_mtime)


def run(fork: Story, wheel: Path, *options: str) -> tuple[Result, Any]:
    published = next((fork.project / "published").glob("*.whl"))
    result = fork.run("matrix", "run", "--wheel", str(wheel), "--bare", str(published), *options)
    return result, json.loads((fork.project / ".forktool" / "matrix" / "results.json").read_text())["cells"][
        0
    ]


def test_a_patch_is_shown_to_open_the_gate(fork: Story) -> None:
    fork.patch("take-a-note", {"vllm/notes.py": NOTES.replace("LINE_5 = 5", "LINE_5 = 105")})
    result, cell = run(fork, build(fork), "--each-patch")
    assert result.code == 0, result.err
    assert [(trial["without"], trial["failed_check"]) for trial in cell["needed"]] == [
        (None, "starts"),
        (["open-the-gate"], "starts"),
        (["take-a-note"], None),
    ]
    assert cell["evidence"]["base_tag"] == "v0.16.0"


def test_the_patch_that_spoils_it_is_named(fork: Story) -> None:
    fork.patch("take-a-note", {"vllm/notes.py": NOTES.replace("LINE_5 = 5", "LINE_5 = 105")})
    fork.patch("spoil", {BEHAVIOUR: script({"with": {"accepted": [15, 2, 1]}})})
    result, cell = run(fork, build(fork))
    assert result.code == 1
    assert cell["blame"]["words"] == "patch spoil"
    # The third patch is written over the first one's line: without it there is no third, and that settles nothing.
    trial = next(item for item in cell["blame"]["trials"] if item["without"] == ["open-the-gate"])
    assert trial["outcome"] == "broken"
    assert trial["detail"].startswith("spoil needs open-the-gate: both change the same lines of vllm/")


def test_a_patch_is_left_out_from_under_another_one(fork: Story) -> None:
    fork.patch("first-line", {"vllm/notes.py": NOTES.replace("LINE_0 = 0", "LINE_0 = 100")})
    both = NOTES.replace("LINE_0 = 0", "LINE_0 = 100").replace("LINE_19 = 19", "LINE_19 = 119")
    fork.patch("last-line", {"vllm/notes.py": both})
    result, cell = run(fork, build(fork), "--each-patch")
    assert result.code == 0, result.err
    assert {tuple(trial["without"] or ()): trial["outcome"] for trial in cell["needed"]} == {
        (): "failed",
        ("open-the-gate",): "failed",
        ("first-line",): "passed",
        ("last-line",): "passed",
    }


def test_a_report_of_another_tree_is_refused(fork: Story) -> None:
    run(fork, build(fork), "--no-blame")
    assert fork.run("matrix", "report").code == 0
    fork.patch("take-a-note", {"vllm/notes.py": NOTES.replace("LINE_5 = 5", "LINE_5 = 105")})
    result = fork.run("matrix", "report")
    assert result.code == 2
    assert "these results are of tree" in result.err
    assert "hint: forktool wheel, then forktool matrix run --wheel FILE" in result.err
    assert fork.run("matrix", "report", "--any-tree").code == 0
