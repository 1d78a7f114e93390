"""The axes of a matrix file: which values each may have, and the combinations that an include makes of them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from forktool.core.matrix import PLAIN, is_printable
from forktool.core.matrix_toml import Place, TomlFile, nearest

AXES = (
    "engine",
    "model",
    "quantisation",
    "drafter",
    "method",
    "tokens",
    "tensor-parallel",
    "attention-backend",
    "kv-cache",
    "gpu",
)
METHODS = (PLAIN, "eagle", "eagle3", "mtp", "medusa", "ngram", "draft-model")
_NEEDS_DRAFTER = ("eagle", "eagle3", "medusa", "draft-model")
CPU = "cpu"
USUAL_TOKENS = 3

Table = Mapping[str, Any]
Tables = Mapping[str, Table]


class Axes:
    """Reads the axes of includes and excludes.

    Args:
        toml: the file.
        defaults: its `[defaults]`.
        models: its models by name; `drafters` and `gpus` likewise.
        drafters: see `models`.
        gpus: see `models`.
        engines: the inference engines that can be driven, each with the methods that it has.
    """

    def __init__(
        self,
        toml: TomlFile,
        defaults: Table,
        *,
        models: Tables,
        drafters: Tables,
        gpus: Tables,
        engines: Mapping[str, Sequence[str]],
    ) -> None:
        self.toml = toml
        self.defaults = defaults
        self.models = models
        self.drafters = drafters
        self.gpus = gpus
        self.engines = engines

    def exclusion(self, table: Table, place: Place) -> dict[str, tuple[Any, ...]]:
        """What one `[[exclude]]` takes out: values by axis."""
        self.toml.known(table, place, AXES)
        if not table:
            raise self.toml.error(place, "an empty [[exclude]] would exclude everything")
        return {axis: self._values(table, (*place, axis), axis) for axis in table}

    def product(self, table: Table, place: Place) -> Iterator[dict[str, Any]]:
        """Every combination of the axes of one `[[include]]`."""
        lists = []
        for axis in AXES:
            if axis in table:
                lists.append(self._values(table, (*place, axis), axis))
            elif axis in self.defaults:
                lists.append(self._values(self.defaults, ("defaults", axis), axis))
            else:
                lists.append((None,))
        for combination in itertools.product(*lists):
            yield self._completed(dict(zip(AXES, combination, strict=True)), place)

    def _completed(self, values: dict[str, Any], place: Place) -> dict[str, Any]:
        """Fill in what follows from the other axes."""
        toml = self.toml
        if values["model"] is None:
            raise toml.error((*place, "model"), f"is missing; {nearest('', self.models)}")
        model = self.models[values["model"]]
        values["engine"] = values["engine"] or "vllm"
        values["gpu"] = values["gpu"] or CPU
        values["tensor-parallel"] = values["tensor-parallel"] or 1
        values["quantisation"] = values["quantisation"] or toml.text(
            model, ("models", values["model"], "quantisation")
        )
        drafter = values["drafter"]
        if drafter is None and values["method"] in (None, *_NEEDS_DRAFTER):
            drafter = self.usual_drafter(values["model"])
        if values["method"] is None:
            values["method"] = self._method(drafter) if drafter else PLAIN
        methods = (PLAIN, *self.engines[values["engine"]])
        if values["method"] not in methods:
            raise toml.error(
                place,
                f"{values['engine']} has no method {values['method']}; {nearest(values['method'], methods)}",
            )
        if values["method"] in _NEEDS_DRAFTER and drafter is None:
            raise toml.error(
                place, f"method {values['method']} needs a drafter, and {values['model']} names none"
            )
        values["drafter"] = drafter if values["method"] in _NEEDS_DRAFTER else None
        if values["tokens"] is None:
            values["tokens"] = self.usual_tokens(drafter)
        return values

    def usual_drafter(self, model: str) -> str | None:
        """The drafter that a model names."""
        name = self.toml.text(self.models[model], ("models", model, "drafter"))
        if name is not None and name not in self.drafters:
            raise self.toml.error(
                ("models", model, "drafter"), f"{name} is no drafter; {nearest(name, self.drafters)}"
            )
        return name

    def _method(self, drafter: str) -> str:
        place = ("drafters", drafter, "method")
        method = self.toml.text(self.drafters[drafter], place) or "eagle3"
        if method not in METHODS:
            raise self.toml.error(place, f"{method} is no method; {nearest(method, METHODS)}")
        return method

    def usual_tokens(self, drafter: str | None) -> int:
        """How many tokens a drafter drafts a step where nothing else is said."""
        if drafter is None:
            return USUAL_TOKENS
        return self.toml.whole(self.drafters[drafter], ("drafters", drafter, "tokens"), USUAL_TOKENS, low=1)

    def _values(self, table: Table, place: Place, axis: str) -> tuple[Any, ...]:
        """The values of one axis, each of them valid and none twice."""
        value = table[axis]
        values = value if isinstance(value, list) else [value]
        if not values:
            raise self.toml.error(place, "must not be an empty list")
        if axis in ("tokens", "tensor-parallel"):
            return tuple(self.toml.whole({axis: item}, place, 1, low=1, high=1024) for item in values)
        known = {
            "engine": self.engines,
            "model": tuple(self.models),
            "drafter": tuple(self.drafters),
            "method": METHODS,
            "gpu": (CPU, *self.gpus),
        }.get(axis)
        for item in values:
            if not isinstance(item, str) or not is_printable(item):
                raise self.toml.error(place, f"{item!r} must be a word of letters, digits and . _ + -")
            if known is not None and item not in known:
                raise self.toml.error(place, f"{item} is not known; {nearest(item, known)}")
        if len(set(values)) != len(values):
            raise self.toml.error(place, "names a value twice")
        return tuple(values)


def matches(values: Table, rule: Mapping[str, tuple[Any, ...]]) -> bool:
    """Whether a combination is one that an exclusion takes out."""
    return all(values[axis] in wanted for axis, wanted in rule.items())
