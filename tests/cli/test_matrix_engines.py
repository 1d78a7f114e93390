"""`forktool matrix run` on SGLang's server, and with the lm-evaluation-harness, each by a strict stand-in."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from forktool.cli import main
from tests.support import fake_lm_eval
from tests.support.matrix_project import CELLS, make_wheel, write_project

Matrix = Callable[..., tuple[int, dict[str, Any]]]
SGLANG = CELLS + 'engine = "sglang"\n'
HARNESS = CELLS.replace('["right", "accepted"]', '["lm-eval"]')
TASKS = HARNESS + 'lm-eval = { tasks = ["sums"], tolerance = 0.1 }\n'


@pytest.fixture
def matrix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Matrix:
    """Write a project, run its cells on a wheel of a name, and return the exit code and results.json."""
    monkeypatch.chdir(tmp_path)

    def run(*, script: object = None, cells: str, name: str = "vllm") -> tuple[int, dict[str, Any]]:
        write_project(tmp_path, cells=cells, script=script or {})
        wheel = make_wheel(tmp_path / "dist", name=name)
        code = main(["matrix", "run", "--wheel", str(wheel), "--no-blame"])
        return code, json.loads((tmp_path / ".forktool" / "matrix" / "results.json").read_text())["cells"][0]

    return run


def gate(cell: dict[str, Any], check: str) -> dict[str, Any]:
    return next(item for item in cell["gates"] if item["check"] == check)


def test_sglang_is_driven_by_its_own_api(matrix: Matrix) -> None:
    code, cell = matrix(cells=SGLANG, name="sglang")
    assert code == 0, cell["reason"]
    assert gate(cell, "right")["numbers"]["compared"] == 12 * 16
    # Ten steps for each of 12 answers: 9 accepted the first draft, 7 the second, 4 the third.
    accepted = gate(cell, "accepted")["numbers"]
    assert (accepted["drafts"], accepted["drafted"], accepted["accepted"]) == (120, 360, 240)
    assert accepted["by_position"] == [108, 84, 48]
    assert accepted["length"] == 3.0


def test_sglangs_wrong_tokens_and_low_acceptance_are_seen(matrix: Matrix) -> None:
    script = {"with": {"wrong": [3], "histogram": [9, 1]}}
    code, cell = matrix(cells=SGLANG, name="sglang", script=script)
    assert code == 1
    assert "12 of 12 prompts differ; first: prompt 0, token 3" in gate(cell, "right")["detail"]
    assert "12 of 360 draft tokens (3.3 %), 1.10 tokens a step" in gate(cell, "accepted")["detail"]


def test_an_sglang_that_says_nothing_of_its_drafts_is_no_pass(matrix: Matrix) -> None:
    code, cell = matrix(cells=SGLANG, name="sglang", script={"with": {"histogram": None}})
    assert code == 1
    assert gate(cell, "accepted")["detail"] == "the server shows no counters of speculation"


def test_sglang_is_measured(matrix: Matrix) -> None:
    cells = SGLANG.replace('["right", "accepted"]', '["faster"]') + "thresholds = { speed-up = false }\n"
    code, cell = matrix(cells=cells, name="sglang")
    assert code == 0, cell["reason"]
    assert [level["concurrency"] for level in gate(cell, "faster")["numbers"]["levels"]] == [1, 4]


@pytest.fixture
def harness(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The stand-in, first on PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "lm_eval"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} {fake_lm_eval.__file__} "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


@pytest.mark.usefixtures("harness")
def test_both_sides_are_asked_and_compared(matrix: Matrix, tmp_path: Path) -> None:
    code, cell = matrix(cells=TASKS)
    assert code == 0, cell["reason"]
    found = gate(cell, "lm-eval")
    assert found["detail"] == "exact_match: sums 1 ± 0.1 with, 1 ± 0.1 without speculation"
    assert found["numbers"]["with"]["sums"] == {"score": 1.0, "error": 0.1, "documents": 4}
    assert sum("--tasks sums" in command for command in cell["evidence"]["commands"]) == 2
    for log in cell["evidence"]["logs"]:
        assert (tmp_path / ".forktool" / "matrix" / log).is_file()


@pytest.mark.usefixtures("harness")
def test_speculation_that_spoils_answers_fails(matrix: Matrix) -> None:
    code, cell = matrix(cells=TASKS, script={"with": {"wrong": [2]}})
    assert code == 1
    assert cell["reason"].endswith("; sums 1 lower with speculation, 0.1 allowed")
    # Both sides as bad as each other: only a floor sees it.
    both = {"with": {"wrong": [2]}, "without": {"wrong": [2]}}
    assert matrix(cells=TASKS, script=both)[0] == 0
    code, cell = matrix(cells=TASKS.replace("tolerance", "floor"), script=both)
    assert code == 1
    assert "sums 0 with speculation, 0.1 below 0.1; sums 0 without speculation" in cell["reason"]


@pytest.mark.usefixtures("harness")
def test_a_floor_alone_needs_one_server(matrix: Matrix) -> None:
    cells = HARNESS + 'lm-eval = { tasks = ["sums"], floor = 1.0, tolerance = false }\n'
    code, cell = matrix(cells=cells)
    assert code == 0
    assert len(cell["evidence"]["commands"]) == 2
    plain = cells.replace(", tolerance = false", "") + 'method = "plain"\n'
    code, cell = matrix(cells=plain)
    assert (code, gate(cell, "lm-eval")["detail"]) == (0, "exact_match: sums 1 ± 0.1 without speculation")


@pytest.mark.usefixtures("harness")
@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ("fail", "lm-eval failed: ConnectionError: Couldn't reach 'gsm8k' on the Hub (offline mode)"),
        ("silent", "lm-eval wrote no results into "),
    ],
)
def test_a_harness_that_fails_is_not_the_wheels_fault(
    matrix: Matrix, monkeypatch: pytest.MonkeyPatch, how: str, reason: str
) -> None:
    monkeypatch.setenv("FAKE_LM_EVAL", how)
    code, cell = matrix(cells=TASKS)
    assert (code, cell["outcome"]) == (1, "broken")
    assert cell["reason"].startswith(reason)


@pytest.mark.usefixtures("harness")
def test_a_server_that_dies_under_it_is_the_wheels_fault(matrix: Matrix) -> None:
    code, cell = matrix(cells=TASKS, script={"with": {"after": 22}})
    assert (code, cell["outcome"]) == (1, "failed")
    assert cell["reason"] == "lm-eval: the server died: RuntimeError: CUDA error: illegal memory access"


@pytest.mark.usefixtures("harness")
def test_a_harness_that_hangs_is_ended_with_the_cell(matrix: Matrix, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_LM_EVAL", "hang")
    began = time.monotonic()
    code, cell = matrix(cells=TASKS.replace("timeout = 30", "timeout = 5"))
    assert (code, cell["reason"]) == (1, "lm-eval: timed out after 5 s")
    assert time.monotonic() - began < 25
    marker = Path(fake_lm_eval.__file__).name
    left = [path for path in Path("/proc").glob("[0-9]*/cmdline") if marker.encode() in _read(path)]
    assert left == []


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def test_where_it_is_not_installed_the_check_is_skipped_with_the_reason(
    matrix: Matrix, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("forktool.commands.matrix_harness.PROGRAM", "lm_eval-that-nobody-has")
    code, cell = matrix(cells=TASKS)
    assert (code, gate(cell, "lm-eval")["outcome"]) == (0, "skipped")
    output = capsys.readouterr()
    assert "skip lm-eval: lm-eval is not installed (pip install 'lm-eval[api]' transformers)" in output.out
    assert "lm-eval is not installed" in output.err
    assert shutil.which("lm_eval-that-nobody-has") is None
