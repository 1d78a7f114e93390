"""`forktool matrix run` on GPUs, with a stand-in for NVML: which are given, and whether they are given back."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from forktool.adapters.gpus import Gpu, wait_until_free
from forktool.cli import main
from tests.support.matrix_project import CELLS, make_wheel, write_project
from tests.support.nvml import nvml

TWO_GPUS = CELLS.replace('gpu = "cpu"', 'gpu = "sm100"\ntensor-parallel = 2')
Ran = Callable[..., tuple[int, dict[str, Any]]]


@pytest.fixture
def ran(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ran:
    """Run a cell that needs two GPUs while NVML shows so much memory in use; the exit code and the cell's result."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setitem(wait_until_free.__kwdefaults__, "timeout", 1.0)

    def run(used: list[list[float]], cells: str = TWO_GPUS) -> tuple[int, dict[str, Any]]:
        monkeypatch.setitem(sys.modules, "pynvml", nvml(used=used))
        write_project(tmp_path, cells=cells)
        code = main(["matrix", "run", "--wheel", str(make_wheel(tmp_path / "dist")), "--no-blame"])
        return code, json.loads((tmp_path / ".forktool" / "matrix" / "results.json").read_text())["cells"][0]

    return run


def test_a_cell_gets_its_gpus_by_name_and_says_which(ran: Ran) -> None:
    code, cell = ran([[0.5, 0.5, 0.5]])
    assert code == 0, cell["reason"]
    evidence = cell["evidence"]
    assert evidence["driver"] == "580.65.06"
    assert evidence["gpus"] == ["NVIDIA B200 GPU-0", "NVIDIA B200 GPU-1"]
    assert evidence["commands"][0].startswith("CUDA_VISIBLE_DEVICES=GPU-0,GPU-1 ")
    assert "--tensor-parallel-size 2" in evidence["commands"][0]


def test_memory_that_stays_held_breaks_the_cell(ran: Ran) -> None:
    # Asked for what there is, then before the first server and after it.
    code, cell = ran([[0.5, 0.5], [0.5, 0.5], [0.5, 60.0]])
    assert (code, cell["outcome"]) == (1, "broken")
    assert cell["reason"].endswith("the server has ended, and GPU 1 still holds 60.0 GiB, 0.5 before")


def test_memory_that_others_took_meanwhile_is_not_the_wheels_fault(ran: Ran) -> None:
    code, cell = ran([[0.5, 0.5], [80.0, 0.5]])
    assert (code, cell["outcome"]) == (1, "broken")
    assert cell["reason"].endswith("the server cannot start, and GPU 0 still holds 80.0 GiB, 0.5 before")
    assert cell["evidence"]["commands"] == []


def test_servers_side_by_side_are_not_asked_for_each_others_memory(
    ran: Ran, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    def free(gpus: tuple[Gpu, ...]) -> None:
        asked.append(len(gpus))

    monkeypatch.setattr("forktool.commands.matrix_servers.wait_until_free", free)
    cells = TWO_GPUS.replace('["right", "accepted"]', '["faster"]').replace(
        "rounds = 1", "rounds = 1\nside-by-side = true"
    )
    code, cell = ran([[0.5, 0.5]], cells + "thresholds = { speed-up = false }\n")
    assert code == 0, cell["reason"]
    # Before the first and after the last; the second comes and goes while the first is up.
    assert asked == [2, 0, 0, 2]
