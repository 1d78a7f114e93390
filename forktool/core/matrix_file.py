"""matrix.toml: the axes, and the cells that include/exclude make of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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
from forktool.core.matrix_axes import AXES, CPU, Axes, matches
from forktool.core.matrix_parts import (
    LM_EVAL,
    SETUP_KEYS,
    read_lm_eval,
    read_load,
    read_setups,
    read_thresholds,
)
from forktool.core.matrix_toml import Place, TomlFile, nearest

_OWN_TABLES = ("thresholds", "load", LM_EVAL)
"""Tables of the whole file, which a cell has its own of."""
_DEFAULT_KEYS = (
    "checks",
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
_CELL_KEYS = ("variant", *_OWN_TABLES, *_DEFAULT_KEYS)
_TABLES = ("defaults", *_OWN_TABLES, "models", "drafters", "gpus", "setup", "include", "exclude")
_MODEL_KEYS = ("path", "quantisation", "drafter", "memory", "gpu-memory", "arguments", "environment")
_DRAFTER_KEYS = ("path", "method", "tokens")
_GPU_KEYS = ("capability", "memory", "constraint")

TIMEOUT = 3600.0


def parse_matrix(text: str, *, file: str, engines: Mapping[str, Sequence[str]]) -> Matrix:
    """Read a matrix file.

    Args:
        text: its content.
        file: its name, for errors.
        engines: the inference engines that can be driven, each with the methods of speculation that it has.

    Raises:
        PatchsetError: malformed TOML, an unknown key or name (the nearest is named), a value of the wrong kind, two
            cells of the same identifier. The message begins with `FILE:LINE:`.
    """
    return _Reader(TomlFile(text, file), engines).matrix()


class _Reader:
    def __init__(self, toml: TomlFile, engines: Mapping[str, Sequence[str]]) -> None:
        self.toml = toml
        document = toml.document
        toml.known(document, (), _TABLES)
        self.defaults = toml.table(document, ("defaults",))
        for key in _OWN_TABLES:
            if key in self.defaults:
                raise toml.error(("defaults", key), f"is a table of its own: [{key}]")
        toml.known(self.defaults, ("defaults",), (*AXES, *_DEFAULT_KEYS))
        self.models = self._named("models", _MODEL_KEYS)
        self.drafters = self._named("drafters", _DRAFTER_KEYS)
        self.gpus = self._named("gpus", _GPU_KEYS)
        self.setups = self._named("setup", SETUP_KEYS)
        self.axes = Axes(
            toml,
            self.defaults,
            models=self.models,
            drafters=self.drafters,
            gpus=self.gpus,
            engines=engines,
        )

    def matrix(self) -> Matrix:
        toml = self.toml
        excluded = [self.axes.exclusion(table, place) for table, place in self._array("exclude")]
        used = [False] * len(excluded)
        cells: dict[str, Cell] = {}
        includes = list(self._array("include"))
        if not includes:
            raise toml.error((), "no [[include]]: a matrix needs cells")
        for table, place in includes:
            toml.known(table, place, (*AXES, *_CELL_KEYS))
            kept = 0
            for values in self.axes.product(table, place):
                hits = [number for number, rule in enumerate(excluded) if matches(values, rule)]
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

    def _cell(self, values: Mapping[str, Any], table: Mapping[str, Any], place: Place) -> Cell:
        toml = self.toml
        name, drafter = values["model"], values["drafter"]
        model, at = self.models[name], ("models", name)
        path = str(model["path"])
        drafter_path = str(self.drafters[drafter]["path"]) if drafter else None
        usual_drafter = self.axes.usual_drafter(name)
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
            usual_tokens=self.axes.usual_tokens(drafter),
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
        speculates = values["method"] != PLAIN
        lm_eval = read_lm_eval(toml, table, place, speculates=speculates)
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
            checks=self._checks(pick, speculates=speculates, harness=lm_eval is not None),
            lm_eval=lm_eval,
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

    def _checks(self, pick: _Pick, *, speculates: bool, harness: bool) -> tuple[Check, ...]:
        needs_speculation = (Check.RIGHT, Check.ACCEPTED, Check.FASTER)
        place = pick.place("checks")
        names = pick.texts("checks")
        for name in names:
            if name not in tuple(Check):
                raise self.toml.error(place, f"{name} is not known; {nearest(name, tuple(Check))}")
            if Check(name) in needs_speculation and not speculates and place[0] == "include":
                raise self.toml.error(place, f"{name} compares with speculation, and this cell has none")
            if name == Check.LM_EVAL and not harness:
                raise self.toml.error(
                    place, f"{name} needs tasks, as lm-eval = {{ tasks = [...], floor = 0.9 }}"
                )
        wanted = {Check(name) for name in names} or set(Check)
        wanted.add(Check.STARTS)
        if not harness:
            wanted.discard(Check.LM_EVAL)
        elif pick.place(LM_EVAL)[0] == "include" and pick.holds(LM_EVAL):
            wanted.add(Check.LM_EVAL)
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

    def holds(self, key: str) -> bool:
        """Whether any of the tables has it."""
        return any(key in table for table, _place in self._tables)

    def text(self, key: str) -> str | None:
        return self._toml.text(*self._of(key))

    def texts(self, key: str) -> tuple[str, ...]:
        return self._toml.texts(*self._of(key))

    def number(self, key: str, default: float, *, low: float) -> float:
        table, place = self._of(key)
        return self._toml.number(table, place, default, low=low)
