"""Stories of `forktool diagnose`, on a small upstream in vLLM's shape."""

from __future__ import annotations

from pathlib import Path

import pytest

from forktool.errors import ExitCode
from tests.support.configs import DEEPSEEK_V3, DRAFTER, LLAMA, write_config
from tests.support.story import Story

GATE = """\
class SpeculativeConfig:
    def _verify(self):
        supported = [
            "llama",
        ]
        if self.method == "eagle3" and not any(
            entry in self.target_model_config.hf_text_config.model_type for entry in supported
        ):
            raise ValueError(f"Eagle3 is only supported for {supported} models. Got {self.model_type=}")
"""
OPENED = GATE.replace('"llama",\n', '"llama",\n            "deepseek_v3",\n')
MODELS = "vllm/model_executor/models"
FILES = {
    "vllm/__init__.py": "",
    "vllm/config/speculative.py": GATE,
    "vllm/v1/worker/gpu_model_runner.py": "raise RuntimeError('Model does not support EAGLE3 interface')\n",
    f"{MODELS}/registry.py": (
        "_TEXT = {'DeepseekV3ForCausalLM': ('deepseek_v2', 'DeepseekV3ForCausalLM'),\n"
        "         'LlamaForCausalLM': ('llama', 'LlamaForCausalLM'),\n"
        "         'LlamaForCausalLMEagle3': ('llama', 'LlamaForCausalLM')}\n"
        "_VLLM_MODELS = {**_TEXT}\n"
    ),
    f"{MODELS}/interfaces.py": "class SupportsEagle3:\n    supports_eagle3 = True\n",
    f"{MODELS}/deepseek_v2.py": "class DeepseekV3ForCausalLM:\n    pass\n",
    f"{MODELS}/llama.py": "from .interfaces import SupportsEagle3\nclass LlamaForCausalLM(SupportsEagle3): pass\n",
}
MENDED = (
    "from .interfaces import SupportsEagle3\n\n\nclass DeepseekV3ForCausalLM(SupportsEagle3):\n    pass\n"
)


@pytest.fixture
def fork(story: Story) -> Story:
    story.release("v1.0", FILES)
    story.release("v1.1", {"vllm/config/speculative.py": "import os\n\n\n" + GATE})
    closed = GATE.replace('[\n            "llama",\n        ]', '("other",)')
    story.release("v1.2", {"vllm/config/speculative.py": closed})
    story.start("v1.0")
    story.patch("gate", {"vllm/config/speculative.py": OPENED})
    story.patch("class", {f"{MODELS}/deepseek_v2.py": MENDED})
    return story


@pytest.fixture
def deepseek(tmp_path: Path) -> str:
    return str(write_config(tmp_path / "deepseek", DEEPSEEK_V3))


def test_each_refusal_has_its_place_and_its_patch(fork: Story, deepseek: str) -> None:
    result = fork.run("diagnose", "--model", deepseek)
    assert result.code == ExitCode.DONE, result.err
    assert "refuses: 'deepseek_v3' contains none of llama (vllm/config/speculative.py:9)" in result.out
    assert "opened by gate: 'deepseek_v3' matches 'deepseek_v3'" in result.out
    assert "DeepseekV3ForCausalLM does not support SupportsEagle3" in result.out
    assert "opened by class: DeepseekV3ForCausalLM inherits SupportsEagle3" in result.out

    document = fork.run("diagnose", "--model", f"{deepseek}/config.json", "--json").document
    assert document["tag"] == "v1.0"
    assert document["model"]["text_model_type"] == "deepseek_v3"
    assert {item["asks"]: item["opened_by"] for item in document["checks"]} == {
        "gate by model type": "gate", "target's class": "class", "auxiliary layers": None,
    }  # fmt: skip


def test_a_tag_where_the_series_is_replayed(fork: Story, deepseek: str) -> None:
    result = fork.run("diagnose", "--model", deepseek, "--onto", "v1.1", "--json")
    assert result.code == ExitCode.DONE, result.err
    gate = result.document["checks"][0]
    assert (gate["bare"]["line"], gate["series"]["line"], gate["opened_by"]) == (12, 13, "gate")


def test_a_patch_that_stops_on_the_tag_is_said(fork: Story, deepseek: str) -> None:
    result = fork.run("diagnose", "--model", deepseek, "--onto", "v1.2")
    assert "gate is conflict on v1.2: not in what is shown as the series" in result.err
    assert result.code == ExitCode.NO


def test_an_answer_of_no(fork: Story, deepseek: str, tmp_path: Path) -> None:
    assert fork.run("drop", "class", "--reason", "for the test").code == 0
    drafter = str(write_config(tmp_path / "drafter", {**DRAFTER, "hidden_size": 1}))
    result = fork.run("diagnose", "--model", deepseek, "--drafter", drafter)
    assert result.code == ExitCode.NO
    assert "no patch of the series opens it" in result.out
    assert "the drafter's hidden_size is 1, the target's hidden_size 7168" in result.out


def test_a_model_that_nothing_refuses(fork: Story, tmp_path: Path) -> None:
    llama = str(write_config(tmp_path / "llama", LLAMA))
    result = fork.run("diagnose", "--model", llama)
    assert result.code == ExitCode.DONE
    assert "refuses" not in result.out


def test_from_an_error(fork: Story, tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text(
        '  File "/opt/vllm/engine.py", line 3, in create\n'
        "  Value error, Eagle3 is only supported for ['llama'] models. Got self.model_type='deepseek_v3'\n"
    )
    result = fork.run("diagnose", "--traceback", str(log), "--json")
    assert result.code == ExitCode.DONE
    found = result.document["traceback"]
    assert found["raised"]["path"] == "vllm/config/speculative.py"
    assert found["raised"]["line"] == 9
    assert found["patches"] == ["gate"]
    log.write_text("RuntimeError: Model does not support EAGLE3 interface")
    assert fork.run("diagnose", "--traceback", str(log), "--json").document["traceback"]["patches"] == [
        "class"
    ]
    log.write_text("KeyError: 'nothing of ours'")
    result = fork.run("diagnose", "--traceback", str(log))
    assert result.code == ExitCode.NO
    assert "nothing in v1.0 raises this" in result.out


def test_what_cannot_be_asked(fork: Story, deepseek: str, tmp_path: Path) -> None:
    for words in ((), ("--drafter", deepseek), ("--model", str(tmp_path / "none")), ("--traceback", "none")):
        assert fork.run("diagnose", *words).code == ExitCode.REQUEST
    (tmp_path / "bad.json").write_text("{")
    assert fork.run("diagnose", "--model", str(tmp_path / "bad.json")).code == ExitCode.REQUEST
    assert fork.run("diagnose", "--model", deepseek, "--onto", "v9").code == ExitCode.REQUEST
