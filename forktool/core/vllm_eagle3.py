"""What vLLM asks before it speculates with EAGLE-3, read off its source; all that `diagnose` knows about vLLM.

Places and forms were read in v0.14.1 to v0.33.0. Each check names the file and the line that decides.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from forktool.core.model_config import DrafterConfig, ModelConfig
from forktool.core.python_classes import Lineage, Modules, find_lineage, members

SPECULATIVE = "vllm/config/speculative.py"
RUNNER = "vllm/v1/worker/gpu_model_runner.py"
MODELS = "vllm/model_executor/models"
REGISTRY = f"{MODELS}/registry.py"
INTERFACES = f"{MODELS}/interfaces.py"
EAGLE_CONFIG = "vllm/transformers_utils/configs/eagle.py"
SPECULATORS = "vllm/transformers_utils/configs/speculators/algos.py"
READ = (SPECULATIVE, RUNNER, REGISTRY, INTERFACES)
"""What every check reads; worth fetching ahead."""
INTERFACE = "SupportsEagle3"
REFUSAL = "Model does not support EAGLE3 interface"
"""How the runner's error begins when the target's class lacks the interface."""


class Answer(StrEnum):
    """What a gate says to a model."""

    ACCEPTS = "accepts"
    REFUSES = "refuses"
    UNKNOWN = "cannot be told"


@dataclass(frozen=True, kw_only=True, slots=True)
class Check:
    """One gate's answer. `line` is 1-based in `path`; both are None where no single line decides."""

    answer: Answer
    says: str
    path: str | None = None
    line: int | None = None


def checks(
    model: ModelConfig, drafter: DrafterConfig | None
) -> Mapping[str, Callable[[Modules], Check | None]]:
    """The checks that apply, by what they ask; a check gives None where a tree has nothing to ask."""
    found: dict[str, Callable[[Modules], Check | None]] = {
        "gate by model type": lambda tree: check_gate(tree, model),
        "target's class": lambda tree: check_class(tree, model.architectures),
    }
    if model.text_architectures and model.text_architectures != model.architectures:
        found["language model's class"] = lambda tree: _check_inner(tree, model.text_architectures)
    if drafter is not None:
        found["drafter registered"] = lambda tree: check_drafter(tree, drafter)
        found["drafter's sizes"] = lambda tree: check_sizes(tree, model, drafter)
    found["auxiliary layers"] = lambda tree: check_layers(tree, model, drafter)
    return found


# The gate in SpeculativeConfig


@dataclass(frozen=True, kw_only=True, slots=True)
class _Gate:
    entries: tuple[str, ...] | None
    attribute: str
    """`hf_text_config` or `hf_config`: whose `model_type` is asked."""
    is_substring: bool
    line: int


def check_gate(tree: Modules, model: ModelConfig) -> Check:
    """Whether SpeculativeConfig lets the target's `model_type` through, tested as the tree tests it."""
    module = tree.module(SPECULATIVE)
    if module is None:
        return Check(answer=Answer.UNKNOWN, says="the tree has no such file", path=SPECULATIVE)
    gates = [gate for node in ast.walk(module) if isinstance(node, ast.If) and (gate := _gate(node, module))]
    answers = [_ask(gate, model) for gate in gates]
    if not answers:
        return Check(answer=Answer.ACCEPTS, says="no gate by model type", path=SPECULATIVE)
    return next((check for check in answers if check.answer is not Answer.ACCEPTS), answers[0])


def _ask(gate: _Gate, model: ModelConfig) -> Check:
    asked = model.text_model_type if gate.attribute == "hf_text_config" else model.model_type
    if gate.entries is None or asked is None:
        what = "its list is not a literal" if gate.entries is None else f"{model.where} has no model_type"
        return Check(answer=Answer.UNKNOWN, says=what, path=SPECULATIVE, line=gate.line)
    matching = [entry for entry in gate.entries if (entry in asked if gate.is_substring else entry == asked)]
    if matching:
        says = f"{asked!r} matches {matching[0]!r}"
        return Check(answer=Answer.ACCEPTS, says=says, path=SPECULATIVE, line=gate.line)
    how = "contains none of" if gate.is_substring else "is none of"
    says = f"{asked!r} {how} {', '.join(gate.entries)}"
    return Check(answer=Answer.REFUSES, says=says, path=SPECULATIVE, line=gate.line)


def _gate(node: ast.If, module: ast.Module) -> _Gate | None:
    """An `if` that raises, about "eagle3" and some `model_type`."""
    refusal = next((item for item in node.body if isinstance(item, ast.Raise)), None)
    parts = list(ast.walk(node.test))
    about = any(isinstance(part, ast.Constant) and part.value == "eagle3" for part in parts)
    asked = [part for part in parts if isinstance(part, ast.Attribute) and part.attr == "model_type"]
    if refusal is None or not about or not asked:
        return None
    owner = asked[0].value
    loops = [part for part in parts if isinstance(part, ast.comprehension)]
    source = loops[0].iter if loops else next(
        (part.comparators[0] for part in parts if isinstance(part, ast.Compare) and asked[0] is part.left), None
    )  # fmt: skip
    return _Gate(
        entries=None if source is None else _strings(source, module),
        attribute=owner.attr if isinstance(owner, ast.Attribute) else "",
        is_substring=any(
            isinstance(part, ast.Compare)
            and isinstance(part.ops[0], ast.In)
            and part.comparators[0] is asked[0]
            for part in parts
        ),
        line=refusal.lineno,
    )


def _strings(source: ast.expr, module: ast.Module) -> tuple[str, ...] | None:
    name = source.attr if isinstance(source, ast.Attribute) else getattr(source, "id", None)
    candidates = [source, *(value for value in _assigned(module, name) if name is not None)]
    for candidate in candidates:
        if isinstance(candidate, ast.List | ast.Tuple | ast.Set):
            values = [item.value for item in candidate.elts if isinstance(item, ast.Constant)]
            if len(values) == len(candidate.elts):
                return tuple(value for value in values if isinstance(value, str))
    return None


def _assigned(module: ast.Module, name: str | None) -> Iterator[ast.expr]:
    for node in ast.walk(module):
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(isinstance(target, ast.Name) and target.id == name for target in targets):
                yield node.value


# The registry


@dataclass(frozen=True, slots=True)
class _Entry:
    path: str | None
    class_name: str
    line: int


def _registry(tree: Modules) -> tuple[dict[str, _Entry], dict[str, int]] | None:
    """Architecture to its class, as `_VLLM_MODELS` adds them up; and the line of each table."""
    module = tree.module(REGISTRY)
    if module is None:
        return None
    tables: dict[str, ast.Dict] = {}
    for statement in module.body:
        if isinstance(statement, ast.Assign | ast.AnnAssign) and isinstance(statement.value, ast.Dict):
            target = statement.targets[0] if isinstance(statement, ast.Assign) else statement.target
            if isinstance(target, ast.Name):
                tables[target.id] = statement.value
    found: dict[str, _Entry] = {}
    for table in _unpacked(tables.get("_VLLM_MODELS"), tables) or tables.values():
        for key, value in zip(table.keys, table.values, strict=True):
            if not isinstance(key, ast.Constant) or not isinstance(value, ast.Tuple) or len(value.elts) != 2:
                continue
            names = [item.value for item in value.elts if isinstance(item, ast.Constant)]
            if len(names) == 2 and all(isinstance(name, str) for name in (key.value, *names)):
                dotted = str(names[0])
                if not dotted.startswith("vllm."):
                    dotted = f"{MODELS.replace('/', '.')}.{dotted}"
                found[str(key.value)] = _Entry(tree.find(dotted), str(names[1]), key.lineno)
    return found, {name: table.lineno for name, table in tables.items()}


def _unpacked(whole: ast.Dict | None, tables: Mapping[str, ast.Dict]) -> list[ast.Dict]:
    if whole is None:
        return []
    names = [value.id for value in whole.values if isinstance(value, ast.Name)]
    return [tables[name] for name in names if name in tables]


def check_class(tree: Modules, architectures: tuple[str, ...]) -> Check:
    """Whether the class that the registry gives for the first known architecture supports EAGLE-3."""
    registry = _registry(tree)
    if registry is None:
        return Check(answer=Answer.UNKNOWN, says="the tree has no such file", path=REGISTRY)
    entries, lines = registry
    name = next((name for name in architectures if name in entries), None)
    if name is None:
        line = lines.get("_VLLM_MODELS")
        says = f"{', '.join(architectures)} is not registered"
        return Check(answer=Answer.REFUSES, says=says, path=REGISTRY, line=line)
    entry = entries[name]
    lineage = None if entry.path is None else find_lineage(tree, entry.path, entry.class_name)
    if lineage is None:
        says = f"{name} is {entry.class_name}, whose definition cannot be followed"
        return Check(answer=Answer.UNKNOWN, says=says, path=REGISTRY, line=entry.line)
    first = lineage.classes[0]
    path, line = first.path, first.node.lineno
    how = _supports(tree, lineage)
    if how is not None:
        return Check(answer=Answer.ACCEPTS, says=f"{first.name} {how}", path=path, line=line)
    if lineage.unresolved:
        says = f"{first.name} has bases that cannot be followed: {', '.join(lineage.unresolved)}"
        return Check(answer=Answer.UNKNOWN, says=says, path=path, line=line)
    raised = _runner_line(tree)
    asked = f"; {RUNNER}:{raised} asks for it" if raised else ""
    says = f"{first.name} does not support {INTERFACE}{asked}"
    return Check(answer=Answer.REFUSES, says=says, path=path, line=line)


def _check_inner(tree: Modules, architectures: tuple[str, ...]) -> Check | None:
    """The language model inside a model with more than text: it must hand out its hidden states.

    Since the models share `EagleModelMixin` the inner model needs no interface of its own, so there is nothing to ask.
    """
    module = tree.module(INTERFACES)
    if module is not None and any(getattr(node, "name", None) == "EagleModelMixin" for node in module.body):
        return None
    return check_class(tree, architectures)


def _supports(tree: Modules, lineage: Lineage) -> str | None:
    """How a class passes `isinstance(model, SupportsEagle3)`: by inheriting, or by having what the protocol asks."""
    if INTERFACE in lineage.names:
        return f"inherits {INTERFACE}"
    protocol = find_lineage(tree, INTERFACES, INTERFACE)
    wanted = (
        {name for place in protocol.classes for name in members(place.node) if not name.startswith("__")}
        if protocol is not None
        else set()
    )
    return f"has all that {INTERFACE} asks for" if wanted and wanted <= lineage.members else None


def _runner_line(tree: Modules) -> int | None:
    content = tree.read(RUNNER)
    if content is None:
        return None
    lines = content.decode("utf-8", "replace").split("\n")
    for number, text in enumerate(lines):
        if REFUSAL in text:
            return next(
                (at + 1 for at in range(number, -1, -1) if re.match(r"\s*raise\b", lines[at])), number + 1
            )
    return None


def supporting_classes(tree: Modules, path: str) -> Iterator[str]:
    """The classes of one file that support EAGLE-3."""
    module = tree.module(path)
    for node in module.body if module is not None else ():
        if isinstance(node, ast.ClassDef):
            lineage = find_lineage(tree, path, node.name)
            if lineage is not None and _supports(tree, lineage) is not None:
                yield node.name


# The drafter


def drafter_architectures(tree: Modules, drafter: DrafterConfig) -> tuple[str, ...]:
    """The names that the registry is asked for: EAGLEConfig and the speculators format rewrite what the file says."""
    if drafter.is_speculators:
        return _speculators_architectures(tree, drafter)
    return tuple(
        name if name.startswith("Eagle3") or name.endswith("Eagle3") else f"Eagle3{name}"
        for name in drafter.architectures
    )


def _speculators_architectures(tree: Modules, drafter: DrafterConfig) -> tuple[str, ...]:
    module = tree.module(SPECULATORS)
    for function in module.body if module is not None else ():
        if not isinstance(function, ast.FunctionDef) or not any(
            isinstance(item, ast.Call)
            and item.args
            and getattr(item.args[0], "value", None) == drafter.speculators_type
            for item in function.decorator_list
        ):
            continue
        nodes = list(ast.walk(function))
        for node in nodes:
            if isinstance(node, ast.Dict) and node.keys:
                keys, values = (
                    [getattr(item, "value", None) for item in part] for part in (node.keys, node.values)
                )
                named = dict(zip(keys, values, strict=True)).get(drafter.model_type or "llama")
                return (named,) if isinstance(named, str) else ()
        names = [
            item.value
            for node in nodes
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.List)
            for item in node.value.elts
            if isinstance(item, ast.Constant) and isinstance(item.value, str)
        ]
        return tuple(names[:1])
    return ()


def check_drafter(tree: Modules, drafter: DrafterConfig) -> Check:
    """Whether the registry knows the drafter's architecture."""
    registry = _registry(tree)
    if registry is None:
        return Check(answer=Answer.UNKNOWN, says="the tree has no such file", path=REGISTRY)
    entries, lines = registry
    names = drafter_architectures(tree, drafter)
    if not names:
        kind, layer = drafter.speculators_type, drafter.model_type or "llama"
        says = f"speculators of type {kind} with {layer} layers are not known"
        return Check(answer=Answer.REFUSES, says=says, path=SPECULATORS)
    name = next((name for name in names if name in entries), None)
    if name is None:
        says = f"{', '.join(names)} is not registered"
        return Check(
            answer=Answer.REFUSES, says=says, path=REGISTRY, line=lines.get("_SPECULATIVE_DECODING_MODELS")
        )
    says = f"{name} is {entries[name].class_name}"
    return Check(answer=Answer.ACCEPTS, says=says, path=REGISTRY, line=entries[name].line)


def check_sizes(tree: Modules, model: ModelConfig, drafter: DrafterConfig) -> Check:
    """Whether the drafter was made for this target: hidden size and vocabulary, and a flat file."""
    if not drafter.is_flat:
        says = f"{drafter.where} nests its sizes; vLLM reads them at the top, as EAGLEConfig copies them"
        return Check(answer=Answer.REFUSES, says=says, path=EAGLE_CONFIG)
    reads = drafter.target_hidden_size or drafter.hidden_size
    if reads is not None and model.hidden_size is not None and reads != model.hidden_size:
        key = "target_hidden_size" if drafter.target_hidden_size else "hidden_size"
        path, line = _projection(tree, drafter)
        says = f"the drafter's {key} is {reads}, the target's hidden_size {model.hidden_size}"
        return Check(answer=Answer.REFUSES, says=says, path=path, line=line)
    own, drafts = drafter.vocab_size, drafter.draft_vocab_size
    if own is not None and model.vocab_size is not None and own != model.vocab_size:
        says = f"the drafter's vocab_size is {own}, the target's {model.vocab_size}: token ids do not agree"
        return Check(answer=Answer.REFUSES, says=says)
    if drafts is not None and own is not None and drafts > own:
        return Check(answer=Answer.REFUSES, says=f"draft_vocab_size {drafts} is above vocab_size {own}")
    if reads is None or own is None or model.hidden_size is None or model.vocab_size is None:
        return Check(
            answer=Answer.UNKNOWN, says="a configuration leaves hidden_size or vocab_size to its class"
        )
    return Check(answer=Answer.ACCEPTS, says=f"hidden size {reads}, vocabulary {own}")


def _projection(tree: Modules, drafter: DrafterConfig) -> tuple[str | None, int | None]:
    """Where the drafter's class takes three hidden states of the target at once."""
    registry = _registry(tree)
    names = drafter_architectures(tree, drafter)
    entry = next((registry[0][name] for name in names if name in registry[0]), None) if registry else None
    if entry is None or entry.path is None:
        return None, None
    lines = (tree.read(entry.path) or b"").decode("utf-8", "replace").split("\n")
    line = next((number for number, text in enumerate(lines, 1) if "target_hidden_size" in text), None)
    return entry.path, line


def check_layers(tree: Modules, model: ModelConfig, drafter: DrafterConfig | None) -> Check | None:
    """Whether the layers whose states the drafter reads are there, and three different ones by default.

    Without `eagle_aux_hidden_state_layer_ids` a model gives layers 2, n // 2 and n - 3 of its n.
    """
    del tree
    count = model.layers
    if count is None:
        return None
    if drafter is not None and drafter.aux_layers:
        beyond = [layer for layer in drafter.aux_layers if not 0 <= layer < count]
        if beyond:
            says = f"the drafter reads layer {beyond[0]}, the target has {count}"
            return Check(answer=Answer.REFUSES, says=says)
        listed = ", ".join(map(str, drafter.aux_layers))
        return Check(answer=Answer.ACCEPTS, says=f"layers {listed} of {count}")
    default = (2, count // 2, count - 3)
    if len(set(default)) < 3 or min(default) < 0:
        says = f"the default layers {default} of {count} are not three different ones"
        return Check(answer=Answer.REFUSES, says=says)
    return Check(answer=Answer.ACCEPTS, says=f"the default layers {default} of {count}")
