"""matrix.toml: the axes, and the cells that include/exclude make of them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement

from forktool.core.matrix import (
    PLAIN,
    Cell,
    Check,
    Expectation,
    Matrix,
    Needs,
    cell_id,
    is_printable,
)
from forktool.core.matrix_parts import SETUP_KEYS, read_load, read_setups, read_thresholds
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

_TABLES = ("defaults", "thresholds", "load", "models", "drafters", "gpus", "setup", "include", "exclude")
_CELL_KEYS = (
    "variant",
    "checks",
    "thresholds",
    "load",
    "timeout",
    "memory",
    "gpu-memory",
    "expect",
    "wheel",
    "arguments",
    "environment",
    "prompts",
    "answer-tokens",
    "setup",
)
_MODEL_KEYS = ("path", "quantisation", "drafter", "memory", "gpu-memory", "arguments", "environment")
_DRAFTER_KEYS = ("path", "method", "tokens")
_GPU_KEYS = ("capability", "memory", "constraint")

USUAL_TOKENS = 3
TIMEOUT = 3600.0


def parse_matrix(text: str, *, file: str, engines: tuple[str, ...]) -> Matrix:
    """Read a matrix file.

    Args:
        text: its content.
        file: its name, for errors.
        engines: the inference engines that can be driven.

    Raises:
        PatchsetError: malformed TOML, an unknown key or name (the nearest is named), a value of the wrong kind, two
            cells of the same identifier. The message begins with `FILE:LINE:`.
    """
    return _Reader(TomlFile(text, file), engines).matrix()


class _Reader:
    def __init__(self, toml: TomlFile, engines: tuple[str, ...]) -> None:
        self.toml = toml
        self.engines = engines
        document = toml.document
        toml.known(document, (), _TABLES)
        self.defaults = toml.table(document, ("defaults",))
        toml.known(self.defaults, ("defaults",), (*AXES, *_CELL_KEYS))
        self.models = self._named("models", _MODEL_KEYS)
        self.drafters = self._named("drafters", _DRAFTER_KEYS)
        self.gpus = self._named("gpus", _GPU_KEYS)
        self.setups = self._named("setup", SETUP_KEYS)

    def matrix(self) -> Matrix:
        toml = self.toml
        excluded = [self._exclusion(table, place) for table, place in self._array("exclude")]
        used = [False] * len(excluded)
        cells: dict[str, Cell] = {}
        includes = list(self._array("include"))
        if not includes:
            raise toml.error((), "no [[include]]: a matrix needs cells")
        for table, place in includes:
            toml.known(table, place, (*AXES, *_CELL_KEYS))
            kept = 0
            for values in self._product(table, place):
                hits = [number for number, rule in enumerate(excluded) if _matches(values, rule)]
                for number in hits:
                    used[number] = True
                if hits:
                    continue
                cell = self._cell(values, table, place)
                kept += 1
                twin = cells.get(cell.identifier.lower())
                if twin is not None:
                    raise toml.error(
                        place,
                        f"the cell {cell.identifier} is there already, from line {twin.line}",
                        hint='give one of them a variant = "NAME"',
                    )
                cells[cell.identifier.lower()] = cell
            if kept == 0:
                raise toml.error(place, "every cell of this [[include]] is excluded")
        for number, was_used in enumerate(used):
            if not was_used:
                raise toml.error(("exclude", number), "this [[exclude]] matches no cell")
        return Matrix(file=toml.file, cells=tuple(cells.values()), setups=read_setups(toml))

    def _named(self, kind: str, keys: tuple[str, ...]) -> Mapping[str, Mapping[str, Any]]:
        tables = self.toml.table(self.toml.document, (kind,))
        for name, table in tables.items():
            if not isinstance(table, dict):
                raise self.toml.error((kind, name), f"must be a table [{kind}.{name}]")
            if not is_printable(name):
                raise self.toml.error(
                    (kind, name), "must be letters, digits and . _ + - alone, to stand in file names"
                )
            self.toml.known(table, (kind, name), keys)
            if "path" in keys and self.toml.text(table, (kind, name, "path")) is None:
                raise self.toml.error(
                    (kind, name, "path"),
                    f"is missing: a {kind.removesuffix('s')} needs the path of its folder",
                )
        return tables

    def _array(self, name: str) -> Iterator[tuple[Mapping[str, Any], Place]]:
        value = self.toml.document.get(name, [])
        if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
            raise self.toml.error((name,), f"must be tables [[{name}]]")
        return ((table, (name, number)) for number, table in enumerate(value))

    def _exclusion(self, table: Mapping[str, Any], place: Place) -> dict[str, tuple[Any, ...]]:
        self.toml.known(table, place, AXES)
        if not table:
            raise self.toml.error(place, "an empty [[exclude]] would exclude everything")
        return {axis: self._values(table, (*place, axis), axis) for axis in table}

    def _product(self, table: Mapping[str, Any], place: Place) -> Iterator[dict[str, Any]]:
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
            drafter = self._usual_drafter(values["model"])
        if values["method"] is None:
            values["method"] = self._method(drafter) if drafter else PLAIN
        if values["method"] in _NEEDS_DRAFTER and drafter is None:
            raise toml.error(
                place, f"method {values['method']} needs a drafter, and {values['model']} names none"
            )
        values["drafter"] = drafter if values["method"] in _NEEDS_DRAFTER else None
        if values["tokens"] is None:
            values["tokens"] = self._usual_tokens(drafter)
        return values

    def _usual_drafter(self, model: str) -> str | None:
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

    def _usual_tokens(self, drafter: str | None) -> int:
        if drafter is None:
            return USUAL_TOKENS
        return self.toml.whole(self.drafters[drafter], ("drafters", drafter, "tokens"), USUAL_TOKENS, low=1)

    def _values(self, table: Mapping[str, Any], place: Place, axis: str) -> tuple[Any, ...]:
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

    def _cell(self, values: Mapping[str, Any], table: Mapping[str, Any], place: Place) -> Cell:
        toml = self.toml
        name, drafter = values["model"], values["drafter"]
        model, at = self.models[name], ("models", name)
        path = str(model["path"])
        drafter_path = str(self.drafters[drafter]["path"]) if drafter else None
        usual_drafter = self._usual_drafter(name)
        variant = toml.text(table, (*place, "variant"))
        if variant is not None and not is_printable(variant):
            raise toml.error((*place, "variant"), "must be a word of letters, digits and . _ + -")
        identifier = cell_id(
            engine=values["engine"],
            model=name,
            quantisation=values["quantisation"],
            method=values["method"],
            drafter=drafter,
            usual_drafter=usual_drafter,
            tokens=values["tokens"],
            usual_tokens=self._usual_tokens(drafter),
            tensor_parallel=values["tensor-parallel"],
            attention_backend=values["attention-backend"],
            kv_cache=values["kv-cache"],
            gpu=values["gpu"],
            variant=variant,
        )
        pick = _Pick(toml, (table, place), (model, at), (self.defaults, ("defaults",)))
        setup = pick.text("setup") or "default"
        if setup != "default" and setup not in self.setups:
            raise toml.error(pick.place("setup"), f"{setup} is not known; {nearest(setup, self.setups)}")
        return Cell(
            identifier=identifier,
            engine=values["engine"],
            model=name,
            model_path=path,
            method=values["method"],
            drafter=drafter,
            drafter_path=drafter_path,
            tokens=values["tokens"],
            tensor_parallel=values["tensor-parallel"],
            attention_backend=values["attention-backend"],
            kv_cache=values["kv-cache"],
            quantisation=values["quantisation"],
            gpu=values["gpu"],
            needs=self._needs(values, pick, tuple(item for item in (path, drafter_path) if item)),
            checks=self._checks(pick, speculates=values["method"] != PLAIN),
            thresholds=read_thresholds(toml, table, place, tokens=values["tokens"]),
            load=read_load(toml, table, place),
            timeout=pick.number("timeout", TIMEOUT, low=1),
            expect=self._expect(pick),
            wheel=self._wheel(pick),
            # All three count, the nearest last: servers take the last of an option that is given twice.
            arguments=tuple(
                word
                for holder, where in pick.outer_first()
                for word in toml.texts(holder, (*where, "arguments"))
            ),
            environment={
                name: value
                for holder, where in pick.outer_first()
                for name, value in self._environment(holder, where).items()
            },
            prompts=pick.text("prompts"),
            answer_tokens=int(pick.number("answer-tokens", 64, low=1)),
            setup=setup,
            line=toml.line(place),
        )

    def _needs(self, values: Mapping[str, Any], pick: _Pick, paths: tuple[str, ...]) -> Needs:
        memory = pick.number("memory", 0, low=0)
        if values["gpu"] == CPU:
            return Needs(memory=memory, paths=paths)
        gpu, at = self.gpus.get(values["gpu"], {}), ("gpus", values["gpu"])
        each = self.toml.number(gpu, (*at, "memory"), 0, low=0)
        wanted = pick.number("gpu-memory", 0, low=0)
        if each and wanted > each:
            raise self.toml.error(
                pick.place("gpu-memory"),
                f"asks for {wanted:g} GiB on each GPU, and {values['gpu']} has {each:g}",
            )
        return Needs(
            gpus=values["tensor-parallel"],
            gpu_memory=wanted,
            memory=memory,
            capability=self.toml.text(gpu, (*at, "capability")),
            constraint=self.toml.text(gpu, (*at, "constraint")),
            paths=paths,
        )

    def _checks(self, pick: _Pick, *, speculates: bool) -> tuple[Check, ...]:
        needs_speculation = (Check.RIGHT, Check.ACCEPTED, Check.FASTER)
        place = pick.place("checks")
        names = pick.texts("checks")
        for name in names:
            if name not in tuple(Check):
                raise self.toml.error(place, f"{name} is not known; {nearest(name, tuple(Check))}")
            if Check(name) in needs_speculation and not speculates and place[0] == "include":
                raise self.toml.error(place, f"{name} compares with speculation, and this cell has none")
        wanted = {Check(name) for name in names} or set(Check)
        wanted.add(Check.STARTS)
        return tuple(
            check for check in Check if check in wanted and (speculates or check not in needs_speculation)
        )

    def _expect(self, pick: _Pick) -> Expectation:
        name = pick.text("expect") or Expectation.PASS
        if name not in tuple(Expectation):
            raise self.toml.error(
                pick.place("expect"), f"{name} is not known; {nearest(name, tuple(Expectation))}"
            )
        return Expectation(name)

    def _wheel(self, pick: _Pick) -> str | None:
        text = pick.text("wheel")
        if text is None:
            return None
        try:
            Requirement(text)
        except InvalidRequirement as error:
            raise self.toml.error(
                pick.place("wheel"), f"{text!r} is no requirement: {error}".splitlines()[0]
            ) from error
        return text

    def _environment(self, table: Mapping[str, Any], at: Place) -> dict[str, str]:
        values = self.toml.table(table, (*at, "environment"))
        for key, value in values.items():
            if not isinstance(value, str):
                raise self.toml.error((*at, "environment", key), f"must be a text, as {key} = {str(value)!r}")
        return dict(values)


class _Pick:
    """A key's value from the first of several tables that has it."""

    def __init__(self, toml: TomlFile, *tables: tuple[Mapping[str, Any], Place]) -> None:
        self._toml = toml
        self._tables = tables

    def _of(self, key: str) -> tuple[Mapping[str, Any], Place]:
        table, place = next(
            ((table, place) for table, place in self._tables if key in table), self._tables[0]
        )
        return table, (*place, key)

    def outer_first(self) -> tuple[tuple[Mapping[str, Any], Place], ...]:
        """The tables, the one that gives way first."""
        return tuple(reversed(self._tables))

    def place(self, key: str) -> Place:
        return self._of(key)[1]

    def text(self, key: str) -> str | None:
        return self._toml.text(*self._of(key))

    def texts(self, key: str) -> tuple[str, ...]:
        return self._toml.texts(*self._of(key))

    def number(self, key: str, default: float, *, low: float) -> float:
        table, place = self._of(key)
        return self._toml.number(table, place, default, low=low)


def _matches(values: Mapping[str, Any], rule: Mapping[str, tuple[Any, ...]]) -> bool:
    return all(values[axis] in wanted for axis, wanted in rule.items())
