"""The tables of matrix.toml that only hold numbers and lists: thresholds, load, setup."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from forktool.core.matrix import LmEval, Load, Setup, Thresholds
from forktool.core.matrix_toml import Place, TomlFile

_THRESHOLD_KEYS = ("acceptance-rate", "acceptance-length", "by-position", "speed-up", "near-tie", "quality")
_LOAD_KEYS = ("concurrency", "requests", "tokens", "rounds", "side-by-side")
_LM_EVAL_KEYS = (
    "tasks",
    "metric",
    "floor",
    "tolerance",
    "limit",
    "shots",
    "include",
    "chat",
    "concurrency",
    "arguments",
    "model-arguments",
)
LM_EVAL = "lm-eval"
SETUP_KEYS = ("python", "overrides", "constraints", "find-links", "index", "extra", "alias")


def read_thresholds(toml: TomlFile, table: Mapping[str, Any], place: Place, *, tokens: int) -> Thresholds:
    """The file's `[thresholds]`, and a cell's own over them; `tokens` is how many are drafted a step."""
    found = Thresholds()
    for holder, at in ((toml.document, ("thresholds",)), (table, (*place, "thresholds"))):
        found = _one_thresholds(toml, found, toml.table(holder, at), at)
    if len(found.by_position) > tokens:
        raise toml.error(
            (*place, "thresholds", "by-position"),
            f"has {len(found.by_position)} floors for {tokens} draft tokens",
        )
    return found


def _one_thresholds(toml: TomlFile, base: Thresholds, table: Mapping[str, Any], at: Place) -> Thresholds:
    toml.known(table, at, _THRESHOLD_KEYS)

    def floor(key: str, default: float | None, high: float) -> float | None:
        # `false` takes a floor away that is set above.
        if table.get(key) is False:
            return None
        return toml.number(table, (*at, key), default or 0, low=0, high=high) if key in table else default

    positions = table.get("by-position", list(base.by_position))
    if not isinstance(positions, list):
        raise toml.error((*at, "by-position"), "must be a list of numbers, one for each draft position")
    return Thresholds(
        acceptance_rate=floor("acceptance-rate", base.acceptance_rate, 1),
        acceptance_length=floor("acceptance-length", base.acceptance_length, 1024),
        by_position=tuple(
            toml.number({"by-position": item}, (*at, "by-position"), 0, low=0, high=1) for item in positions
        ),
        speed_up=floor("speed-up", base.speed_up, 1000),
        near_tie=toml.number(table, (*at, "near-tie"), base.near_tie, low=0, high=10),
        quality=floor("quality", base.quality, 1),
    )


def read_load(toml: TomlFile, table: Mapping[str, Any], place: Place) -> Load:
    """The file's `[load]`, and a cell's own over it."""
    found = Load()
    for holder, at in ((toml.document, ("load",)), (table, (*place, "load"))):
        part = toml.table(holder, at)
        toml.known(part, at, _LOAD_KEYS)
        levels = part.get("concurrency", list(found.concurrency))
        if not isinstance(levels, list) or not levels:
            raise toml.error((*at, "concurrency"), "must be a list of whole numbers")
        found = replace(
            found,
            concurrency=tuple(
                sorted({toml.whole({"concurrency": item}, (*at, "concurrency"), 1, low=1) for item in levels})
            ),
            requests=toml.whole(part, (*at, "requests"), found.requests, low=1),
            tokens=toml.whole(part, (*at, "tokens"), found.tokens, low=1),
            rounds=toml.whole(part, (*at, "rounds"), found.rounds, low=1, high=100),
            side_by_side=toml.flag(part, (*at, "side-by-side"), default=found.side_by_side),
        )
    return found


def read_lm_eval(
    toml: TomlFile, table: Mapping[str, Any], place: Place, *, speculates: bool
) -> LmEval | None:
    """The file's `[lm-eval]`, and a cell's own over it; None where neither names tasks."""
    merged: dict[str, tuple[Any, Place]] = {}
    holders: tuple[tuple[Mapping[str, Any], Place], ...] = (
        (toml.document, (LM_EVAL,)),
        (table, (*place, LM_EVAL)),
    )
    for holder, where in holders:
        part = toml.table(holder, where)
        toml.known(part, where, _LM_EVAL_KEYS)
        merged |= {key: (value, where) for key, value in part.items()}
    if LM_EVAL not in table and "tasks" not in merged:
        return None
    own = {key: value for key, (value, _where) in merged.items()}

    def at(key: str) -> Place:
        return (*merged[key][1], key) if key in merged else (*next(iter(merged.values()))[1], key)

    def share(key: str, default: float | None) -> float | None:
        if own.get(key) is False:
            return None
        return toml.number(own, at(key), 0, low=0, high=1) if key in own else default

    def whole(key: str) -> int | None:
        return toml.whole(own, at(key), 1, low=0 if key == "shots" else 1) if key in own else None

    if any("," in word or "=" not in word for word in toml.texts(own, at("model-arguments"))):
        raise toml.error(
            at("model-arguments"), 'must be a list of texts as "max_length=4096", without commas'
        )
    tasks = toml.texts(own, at("tasks"))
    if not tasks:
        raise toml.error(at("tasks"), 'is missing, as tasks = ["gsm8k"]')
    found = LmEval(
        tasks=tasks,
        metric=toml.text(own, at("metric")) or "exact_match",
        floor=share("floor", None),
        # Without a floor there is only the other side to be held against.
        tolerance=share("tolerance", _TOLERANCE) if speculates else None,
        limit=whole("limit"),
        shots=whole("shots"),
        include=toml.text(own, at("include")),
        chat=toml.flag(own, at("chat")),
        concurrency=whole("concurrency") or 8,
        arguments=toml.texts(own, at("arguments")),
        model_arguments=toml.texts(own, at("model-arguments")),
    )
    if found.floor is None and found.tolerance is None:
        raise toml.error(at("floor"), "is missing, and nothing else is there to hold the scores against")
    return found


_TOLERANCE = 0.02
"""How much lower a score with speculation may be where nothing is said: near-ties change some answers."""


def read_setups(toml: TomlFile) -> dict[str, Setup]:
    """`[setup.NAME]`; there is always one named default."""
    tables = toml.table(toml.document, ("setup",))
    return {
        name: Setup(
            python=toml.text(table, ("setup", name, "python")),
            overrides=toml.texts(table, ("setup", name, "overrides")),
            constraints=toml.texts(table, ("setup", name, "constraints")),
            find_links=toml.texts(table, ("setup", name, "find-links")),
            index=toml.text(table, ("setup", name, "index")),
            extra=toml.texts(table, ("setup", name, "extra")),
            alias=toml.text(table, ("setup", name, "alias")),
        )
        for name, table in tables.items()
    } | ({} if "default" in tables else {"default": Setup()})
