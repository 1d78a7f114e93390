"""Classes across modules, configurations, gates and raises: by reading alone."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest

from forktool.core.diagnose import Stage, diagnose, explain
from forktool.core.model_config import DrafterConfig, ModelConfig, drafter_config, model_config, read_config
from forktool.core.objects import Entry, Mode, blob_id
from forktool.core.python_classes import Modules, ParseCache, find_lineage
from forktool.core.series import PatchName
from forktool.core.traceback_reading import read_traceback
from forktool.core.vllm_eagle3 import (
    INTERFACES,
    REGISTRY,
    RUNNER,
    SPECULATIVE,
    SPECULATORS,
    Answer,
    check_class,
    check_drafter,
    check_gate,
    check_layers,
    check_sizes,
    checks,
    drafter_architectures,
)
from forktool.errors import RequestError
from tests.support.configs import DEEPSEEK_V3, DRAFTER, KIMI_K25, LLAMA, MLA_DRAFTER
from tests.support.configs import SPECULATORS as SPECULATORS_FILE

MODELS = "vllm/model_executor/models"


class Tree:
    label = "v1"

    def __init__(self, files: Mapping[str, str]) -> None:
        self._files = {path: text.encode() for path, text in files.items()}

    def entry(self, path: str) -> Entry | None:
        return Entry(Mode.FILE, blob_id(self._files[path])) if path in self._files else None

    def read(self, path: str) -> bytes | None:
        return self._files.get(path)

    def has_folder(self, path: str) -> bool:
        return any(name.startswith(f"{path}/") for name in self._files)


def modules(files: Mapping[str, str]) -> Modules:
    return Modules(Tree(files), ParseCache())


def target(content: Mapping[str, object] = DEEPSEEK_V3) -> ModelConfig:
    return model_config(content, where="config.json")


def draft(content: Mapping[str, object] = DRAFTER) -> DrafterConfig:
    return drafter_config(content, where="config.json")


# Configurations


def test_the_language_model_inside_is_found() -> None:
    kimi = target(KIMI_K25)
    assert (kimi.model_type, kimi.text_model_type) == ("kimi_k25", "kimi_k2")
    assert kimi.architectures == ("KimiK25ForConditionalGeneration",)
    assert kimi.text_architectures == ("DeepseekV3ForCausalLM",)
    assert (kimi.vocab_size, kimi.hidden_size, kimi.layers) == (163840, 7168, 61)
    llama = target(LLAMA)
    assert (llama.model_type, llama.text_model_type, llama.text_architectures) == ("llama", "llama", ())


def test_drafters_of_each_format() -> None:
    assert draft(MLA_DRAFTER).aux_layers == (2, 30, 58)
    speculators = draft(SPECULATORS_FILE)
    assert speculators.is_speculators
    assert (speculators.hidden_size, speculators.draft_vocab_size) == (4096, 32000)
    assert speculators.is_flat
    nested = draft({"architectures": ["X"], "text_config": {"hidden_size": 1}})
    assert not nested.is_flat


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b"\xff", b"[" * 100_000])
def test_what_is_no_configuration(content: bytes) -> None:
    with pytest.raises(RequestError, match=r"config\.json"):
        read_config(content, where="config.json")


def test_a_configuration_without_architectures() -> None:
    with pytest.raises(RequestError, match="names no architectures"):
        target({"model_type": "llama"})


# Classes


def test_bases_are_followed_across_modules() -> None:
    tree = modules(
        {
            "pkg/__init__.py": "",
            "pkg/a.py": "from .b import Middle as M\nimport torch.nn as nn\nclass Leaf(M, nn.Module): pass\n",
            "pkg/b.py": "from pkg import c\nfrom x import G\nif True:\n    class Middle(c.Deep, G[int]): pass\n",
            "pkg/c.py": (
                "class _Deep(Base[int]): deep = 1\n"
                "class Base(object):\n    def method(self): ...\n    note: int\n"
                "Deep = _Deep\n"
            ),
        }
    )
    lineage = find_lineage(tree, "pkg/a.py", "Leaf")
    assert lineage is not None
    assert [place.name for place in lineage.classes] == ["Leaf", "Middle", "_Deep", "Base"]
    assert lineage.classes[-1].path == "pkg/c.py"
    assert lineage.members == {"deep", "method"}
    assert lineage.unresolved == ()


def test_what_reading_cannot_follow_is_named() -> None:
    tree = modules(
        {
            "pkg/__init__.py": "",
            "pkg/a.py": "from .b import Gone\nclass One(Gone, make(), Unknown): pass\nclass Loop(Loop): pass\n",
            "pkg/b.py": "def __getattr__(name): ...\n",
            "pkg/bad.py": "class (\n",
        }
    )
    lineage = find_lineage(tree, "pkg/a.py", "One")
    assert lineage is not None
    assert lineage.unresolved == ("Gone", "make()", "Unknown")
    loop = find_lineage(tree, "pkg/a.py", "Loop")
    assert loop is not None
    assert loop.names == {"Loop"}
    assert find_lineage(tree, "pkg/bad.py", "X") is None
    assert find_lineage(tree, "pkg/none.py", "X") is None


# The gate


def gate(entries: str, *, test: str = "entry in self.target.hf_text_config.model_type") -> dict[str, str]:
    return {
        SPECULATIVE: (
            "class SpeculativeConfig:\n"
            "    def _verify(self):\n"
            f"        supported = {entries}\n"
            f"        if self.method == 'eagle3' and self.target and not any({test} for entry in supported):\n"
            "            raise ValueError(f'Eagle3 is only supported for {supported} models. Got {self.x=}')\n"
            "        if self.method == 'other':\n"
            "            raise ValueError('something else')\n"
        )
    }


@pytest.mark.parametrize(
    ("entries", "content", "answer"),
    [
        ('["llama", "qwen"]', LLAMA, Answer.ACCEPTS),
        ('["llama", "qwen"]', DEEPSEEK_V3, Answer.REFUSES),
        ('["deepseek"]', DEEPSEEK_V3, Answer.ACCEPTS),
        ('["kimi_k25"]', KIMI_K25, Answer.REFUSES),
        ('["kimi_k2"]', KIMI_K25, Answer.ACCEPTS),
        ("load_list()", LLAMA, Answer.UNKNOWN),
    ],
)
def test_the_gate_is_tested_as_upstream_tests_it(
    entries: str, content: Mapping[str, object], answer: Answer
) -> None:
    check = check_gate(modules(gate(entries)), target(content))
    assert check.answer is answer
    assert (check.path, check.line) == (SPECULATIVE, 5)


def test_equality_and_the_other_configuration_are_other_tests() -> None:
    exact = gate('["kimi"]', test="self.target.hf_text_config.model_type == entry")
    assert check_gate(modules(exact), target(KIMI_K25)).answer is Answer.REFUSES
    top = gate('["kimi_k25"]', test="entry in self.target.hf_config.model_type")
    assert check_gate(modules(top), target(KIMI_K25)).answer is Answer.ACCEPTS


def test_no_gate_and_no_file() -> None:
    assert (
        check_gate(modules({SPECULATIVE: "class SpeculativeConfig: pass\n"}), target()).answer
        is Answer.ACCEPTS
    )
    assert check_gate(modules({}), target()).answer is Answer.UNKNOWN


# The registry and the classes

INTERFACE = (
    "class Supports(Protocol): pass\n"
    "class SupportsEagle3(Supports, Protocol):\n"
    "    supports_eagle3 = True\n"
    "    def set_layers(self): ...\n"
)
TABLES = (
    "_TEXT = {'DeepseekV3ForCausalLM': ('deepseek', 'V3'), 'LlamaForCausalLM': ('llama', 'Llama'),\n"
    " 'Lazy': ('vllm.models.lazy', 'Lazy')}\n"
    "_SPECULATIVE_DECODING_MODELS = {'LlamaForCausalLMEagle3': ('llama_eagle3', 'Eagle3'),\n"
    " 'Eagle3LlamaForCausalLM': ('llama_eagle3', 'Eagle3')}\n"
    "_VLLM_MODELS = {**_TEXT, **_SPECULATIVE_DECODING_MODELS}\n"
    "_UNRELATED = {'KimiK25ForConditionalGeneration': ('x', 'y')}\n"
)
FILES = {
    "vllm/__init__.py": "",
    "vllm/models/lazy.py": "def __getattr__(name): ...\n",
    REGISTRY: TABLES,
    INTERFACES: INTERFACE,
    RUNNER: (
        "def load():\n    if not supports_eagle3(model):\n        raise RuntimeError(\n"
        "            'Model does not support EAGLE3 interface but '\n            'it was requested')\n"
    ),
    f"{MODELS}/deepseek.py": "class V2: pass\nclass V3(V2): pass\n",
    f"{MODELS}/llama.py": "from .interfaces import SupportsEagle3\nclass Llama(SupportsEagle3): pass\n",
    f"{MODELS}/llama_eagle3.py": "class Eagle3:\n    size = 'target_hidden_size'\n",
    **gate('["llama"]'),
}


def test_the_class_behind_an_architecture() -> None:
    tree = modules(FILES)
    refused = check_class(tree, ("DeepseekV3ForCausalLM",))
    assert refused.answer is Answer.REFUSES
    assert (refused.path, refused.line) == (f"{MODELS}/deepseek.py", 2)
    assert f"{RUNNER}:3" in refused.says
    assert check_class(tree, ("LlamaForCausalLM",)).answer is Answer.ACCEPTS
    assert check_class(tree, ("Lazy",)).answer is Answer.UNKNOWN
    unregistered = check_class(tree, ("KimiK25ForConditionalGeneration",))
    assert unregistered.answer is Answer.REFUSES
    assert (unregistered.path, unregistered.line) == (REGISTRY, 5)


def test_a_protocol_is_met_without_inheriting_it() -> None:
    has_all = "class V2:\n    supports_eagle3 = True\nclass V3(V2):\n    def set_layers(self): ...\n"
    tree = modules({**FILES, f"{MODELS}/deepseek.py": has_all})
    assert check_class(tree, ("DeepseekV3ForCausalLM",)).answer is Answer.ACCEPTS
    lacks_one = has_all.replace("set_layers", "set_other")
    tree = modules({**FILES, f"{MODELS}/deepseek.py": lacks_one})
    assert check_class(tree, ("DeepseekV3ForCausalLM",)).answer is Answer.REFUSES


def test_a_base_that_cannot_be_followed_is_no_refusal() -> None:
    tree = modules({**FILES, f"{MODELS}/deepseek.py": "class V3(make_base()): pass\n"})
    assert check_class(tree, ("DeepseekV3ForCausalLM",)).answer is Answer.UNKNOWN


@pytest.mark.parametrize(
    ("named", "asked"),
    [
        ("LlamaForCausalLM", "Eagle3LlamaForCausalLM"),
        ("LlamaForCausalLMEagle3", "LlamaForCausalLMEagle3"),
        ("Eagle3X", "Eagle3X"),
    ],
)
def test_the_drafters_name_is_rewritten(named: str, asked: str) -> None:
    tree = modules(FILES)
    assert drafter_architectures(tree, draft({**DRAFTER, "architectures": [named]})) == (asked,)


def test_the_drafter_is_registered_or_not() -> None:
    tree = modules(FILES)
    assert check_drafter(tree, draft()).answer is Answer.ACCEPTS
    refused = check_drafter(tree, draft(MLA_DRAFTER))
    assert refused.answer is Answer.REFUSES
    assert (refused.path, refused.line) == (REGISTRY, 3)


def test_speculators_files_name_their_class_in_the_tree() -> None:
    head = "@register_speculator('eagle3')\ndef update(a, b):\n"
    fixed = f"{head}    b['architectures'] = ['Eagle3LlamaForCausalLM']\n"
    mapped = f"{head}    m = {{'qwen3': 'Eagle3Q', 'llama': 'LlamaForCausalLMEagle3'}}\n"
    drafter = draft(SPECULATORS_FILE)
    assert check_drafter(modules({**FILES, SPECULATORS: fixed}), drafter).answer is Answer.ACCEPTS
    assert drafter_architectures(modules({SPECULATORS: mapped}), drafter) == ("LlamaForCausalLMEagle3",)
    other = draft({**SPECULATORS_FILE, "speculators_model_type": "new"})
    assert check_drafter(modules({**FILES, SPECULATORS: mapped}), other).answer is Answer.REFUSES


# Sizes and layers


@pytest.mark.parametrize(
    ("change", "answer", "says"),
    [
        ({}, Answer.ACCEPTS, "hidden size 7168"),
        ({"hidden_size": 4096}, Answer.REFUSES, "hidden_size is 4096, the target's hidden_size 7168"),
        ({"hidden_size": 4096, "target_hidden_size": 7168}, Answer.ACCEPTS, "hidden size 7168"),
        ({"vocab_size": 32000}, Answer.REFUSES, "vocab_size is 32000, the target's 163840"),
        ({"draft_vocab_size": 200000}, Answer.REFUSES, "draft_vocab_size 200000 is above"),
        ({"hidden_size": None}, Answer.UNKNOWN, "leaves hidden_size or vocab_size"),
    ],
)
def test_the_drafter_must_fit_its_target(change: dict[str, object], answer: Answer, says: str) -> None:
    check = check_sizes(modules(FILES), target(KIMI_K25), draft({**DRAFTER, **change}))
    assert check.answer is answer
    assert says in check.says
    if "hidden_size is" in says:
        assert (check.path, check.line) == (f"{MODELS}/llama_eagle3.py", 2)


def test_layers_must_be_there_and_differ() -> None:
    tree = modules({})
    small = target({**DEEPSEEK_V3, "num_hidden_layers": 6})
    six = check_layers(tree, small, None)
    assert six is not None
    assert six.answer is Answer.REFUSES
    assert "(2, 3, 3)" in six.says
    seven = check_layers(tree, target({**DEEPSEEK_V3, "num_hidden_layers": 7}), None)
    assert seven is not None
    assert seven.answer is Answer.ACCEPTS
    beyond = check_layers(tree, small, draft(MLA_DRAFTER))
    assert beyond is not None
    assert "reads layer 30, the target has 6" in beyond.says


# With a series


def stages() -> list[Stage]:
    """The bare tree, then the gate's patch, then one that mends the class."""
    first = {**FILES, **gate('["llama", "deepseek"]')}
    mended = "from .interfaces import SupportsEagle3\nclass V2(SupportsEagle3): pass\nclass V3(V2): pass\n"
    second = {**first, f"{MODELS}/deepseek.py": mended}
    cache = ParseCache()
    return [
        Stage(patch=None, modules=Modules(Tree(FILES), cache)),
        Stage(patch=PatchName("gate"), modules=Modules(Tree(first), cache), paths=(SPECULATIVE,)),
        Stage(
            patch=PatchName("class"), modules=Modules(Tree(second), cache), paths=(f"{MODELS}/deepseek.py",)
        ),
    ]


def test_a_patch_opens_the_gate_that_it_opens() -> None:
    found = {item.asks: item for item in diagnose(stages(), checks(target(), draft(MLA_DRAFTER)))}
    assert found["gate by model type"].opened_by == "gate"
    assert found["target's class"].opened_by == "class"
    assert found["drafter registered"].opened_by is None
    assert found["drafter registered"].series.answer is Answer.REFUSES
    assert "language model's class" not in found


def printed(*frames: tuple[str, int, str], message: str, prefix: str = "") -> str:
    lines = ["Traceback (most recent call last):"]
    for path, line, function in frames:
        lines += [
            f'  File "/opt/lib/python3.12/site-packages/{path}", line {line}, in {function}',
            "    code",
        ]
    return "".join(f"{prefix}{line}\n" for line in [*lines, message])


def test_an_error_leads_to_its_raise_and_its_patch() -> None:
    text = printed(
        ("vllm/engine.py", 3, "create"), ("pydantic/x.py", 1, "__init__"),
        message="ValidationError: 1\n  Value error, Eagle3 is only supported for ['llama'] models. Got self.x='k'",
    )  # fmt: skip
    found = explain(stages(), read_traceback(text), package="vllm")
    assert found.raised is not None
    assert (found.raised.path, found.raised.line) == (SPECULATIVE, 5)
    assert found.raised.function == "SpeculativeConfig._verify"
    assert found.patches == ("gate",)


def test_an_error_in_a_log_leads_to_the_classes_that_a_patch_mends() -> None:
    text = printed(
        (RUNNER, 999, "load"), prefix="(EngineCore pid=1) ERROR [core.py:1] ",
        message="RuntimeError: Model does not support EAGLE3 interface but it was requested",
    )  # fmt: skip
    found = explain(stages(), read_traceback(text), package="vllm")
    assert found.raised is not None
    assert (found.raised.path, found.raised.line) == (RUNNER, 3)
    assert found.raised.condition == "not supports_eagle3(model)"
    assert found.patches == ("class",)
    assert found.gains == ("V2", "V3")


def test_an_error_that_the_series_does_not_know() -> None:
    text = printed((RUNNER, 7, "load"), message="KeyError: 'x'")
    found = explain(stages(), read_traceback(text), package="vllm")
    assert found.raised is None
    assert found.innermost == f"{RUNNER}:7"
    other = printed((SPECULATIVE, 7, "_verify"), message="ValueError: something else")
    found = explain(stages(), read_traceback(other), package="vllm")
    assert found.raised is not None
    assert found.raised.line == 7
    assert found.patches == ()


def test_a_configuration_is_data() -> None:
    assert read_config(json.dumps({"auto_map": {"AutoConfig": "evil.py"}}).encode(), where="x") == {
        "auto_map": {"AutoConfig": "evil.py"}
    }
