"""`forktool diagnose` on real vLLM releases, with the real series."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.support.configs import DEEPSEEK_V3, DRAFTER, KIMI_K25, LLAMA, MLA_DRAFTER, write_config
from tests.support.story import Result

pytestmark = pytest.mark.upstream

EARLY = {
    "gate by model type": "eagle3-whitelist",
    "target's class": "kimi-supports-eagle3",
    "language model's class": "deepseek-supports-eagle3",
}


def answers(result: Result, side: str) -> dict[str, str]:
    return {item["asks"]: item[side]["answer"] for item in result.document["checks"]}


def opened(result: Result) -> dict[str, str]:
    return {item["asks"]: item["opened_by"] for item in result.document["checks"] if item["opened_by"]}


def ask(
    forktool: Callable[..., Result],
    folder: Path,
    model: Mapping[str, object],
    tag: str,
    drafter: object = DRAFTER,
) -> Result:
    target = write_config(folder / "target", model)
    draft = write_config(folder / "drafter", drafter)
    return forktool("diagnose", "--model", str(target), "--drafter", str(draft), "--onto", tag, "--json")


@pytest.mark.parametrize(
    ("tag", "gate_line", "registers_mla"),
    [("v0.16.0", 706, False), ("v0.17.0", 786, False), ("v0.18.0", 802, True), ("v0.22.0", None, True),
     ("v0.33.0", None, True)],
)  # fmt: skip
def test_kimi(
    forktool: Callable[..., Result], tmp_path: Path, tag: str, gate_line: int | None, registers_mla: bool
) -> None:
    result = ask(forktool, tmp_path, KIMI_K25, tag, MLA_DRAFTER)
    is_early = tag in {"v0.16.0", "v0.17.0"}
    assert opened(result) == (EARLY if is_early else {})
    bare, series = answers(result, "bare"), answers(result, "series")
    assert bare["gate by model type"] == ("refuses" if is_early else "accepts")
    assert bare["target's class"] == ("refuses" if is_early else "accepts")
    assert bare["drafter registered"] == ("accepts" if registers_mla else "refuses")
    assert [asks for asks, answer in series.items() if answer != "accepts"] == (
        [] if registers_mla else ["drafter registered"]
    )
    assert result.code == (0 if registers_mla else 1)
    assert result.document["checks"][0]["bare"]["line"] == gate_line
    assert result.document["notes"] == []

    started = time.monotonic()
    ask(forktool, tmp_path, KIMI_K25, tag, MLA_DRAFTER)
    assert time.monotonic() - started < 2


@pytest.mark.parametrize("tag", ["v0.16.0", "v0.17.0", "v0.18.0", "v0.22.0", "v0.33.0"])
def test_deepseek_and_llama(forktool: Callable[..., Result], tmp_path: Path, tag: str) -> None:
    drafter = {**DRAFTER, "vocab_size": 129280}
    deepseek = ask(forktool, tmp_path, DEEPSEEK_V3, tag, drafter)
    assert deepseek.code == 0, deepseek.out
    if tag in {"v0.16.0", "v0.17.0"}:
        assert opened(deepseek) == {
            "gate by model type": "eagle3-whitelist", "target's class": "deepseek-supports-eagle3",
        }  # fmt: skip
    else:
        assert opened(deepseek) == {}
    llama = ask(forktool, tmp_path, LLAMA, tag, {**DRAFTER, "hidden_size": 4096, "vocab_size": 128256})
    assert llama.code == 0
    assert set(answers(llama, "bare").values()) == {"accepts"}


ERRORS = {
    "eagle3-whitelist": (
        ("pydantic_core._pydantic_core.ValidationError: 1 validation error for SpeculativeConfig\n  Value error, "
        "Eagle3 is only supported for ['llama', 'qwen', 'minicpm', 'gpt_oss', 'hunyuan_vl', 'hunyuan_v1_dense', "
        "'afmoe'] models. Got self.target_model_config.hf_text_config.model_type='deepseek_v3' [type=value_error]"),
        "vllm/config/speculative.py", 706,
    ),
    "deepseek-supports-eagle3": (
        ('  File "/usr/lib/python3/dist-packages/vllm/v1/worker/gpu_model_runner.py", line 1, in load_model\n'
        "RuntimeError: Model does not support EAGLE3 interface but aux_hidden_state_outputs was requested"),
        "vllm/v1/worker/gpu_model_runner.py", 4191,
    ),
    "mla-decode-padded-batch": (
        ('  File "/x/vllm/v1/attention/backends/utils.py", line 1, in split_decodes_and_prefills\n'
        "AssertionError: tokens not padded correctly"),
        "vllm/v1/attention/backends/utils.py", 531,
    ),
}  # fmt: skip


@pytest.mark.parametrize("patch", ERRORS)
def test_real_errors_lead_to_their_patch(forktool: Callable[..., Result], tmp_path: Path, patch: str) -> None:
    text, path, line = ERRORS[patch]
    (tmp_path / "log").write_text(text)
    found = forktool("diagnose", "--traceback", str(tmp_path / "log"), "--json").document["traceback"]
    assert (found["raised"]["path"], found["raised"]["line"]) == (path, line)
    assert patch in found["patches"]
