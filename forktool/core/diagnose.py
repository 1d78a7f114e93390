"""Which gates refuse a model, and which patch of the series opens each.

A series is seen as stages: the bare tree, then the tree with one more patch at a time. A patch opens a gate when
the gate refuses before it and accepts with it; nothing about a patch's text is guessed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from forktool.core.python_classes import Modules
from forktool.core.series import PatchName
from forktool.core.traceback_reading import Raised, Traceback, find_raise, fingerprint
from forktool.core.vllm_eagle3 import (
    MODELS,
    REFUSAL,
    RUNNER,
    SPECULATIVE,
    Answer,
    Check,
    supporting_classes,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Stage:
    """The tree after a patch; `patch` is None for the bare tree. `paths` are those that the patch changes."""

    patch: PatchName | None
    modules: Modules
    paths: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """One gate on the bare tree and with the series."""

    asks: str
    bare: Check
    series: Check
    opened_by: PatchName | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Explained:
    """Where an error was raised, and the patches that change whether it is; `gains` are the classes they mend."""

    raised: Raised | None
    innermost: str | None
    patches: tuple[PatchName, ...]
    gains: tuple[str, ...] = ()


def diagnose(
    stages: Sequence[Stage], checks: Mapping[str, Callable[[Modules], Check | None]]
) -> tuple[Finding, ...]:
    """Ask every gate of the bare tree (the first stage) and of the whole series (the last)."""
    found: list[Finding] = []
    for asks, check in checks.items():
        bare, series = check(stages[0].modules), check(stages[-1].modules)
        if bare is None or series is None:
            continue
        opened_by = None
        if bare.answer is Answer.REFUSES and series.answer is Answer.ACCEPTS:
            opened_by = next(
                stage.patch
                for stage in stages
                if (answer := check(stage.modules)) is not None and answer.answer is Answer.ACCEPTS
            )
        found.append(Finding(asks=asks, bare=bare, series=series, opened_by=opened_by))
    return tuple(found)


def explain(stages: Sequence[Stage], traceback: Traceback, *, package: str) -> Explained:
    """Find the raise behind an error, and the patches of the series that cover it.

    Args:
        stages: the bare tree and the series on it.
        traceback: the error as it was printed.
        package: the top-level folder whose files belong to the tree.
    """
    bare = stages[0].modules
    raised = find_raise(bare, traceback, package=package, also=(SPECULATIVE, RUNNER))
    last = next(iter(reversed(traceback.within(bare, package))), None)
    innermost = None if last is None else f"{last.path}:{last.line}"
    if raised is None:
        return Explained(raised=None, innermost=innermost, patches=())
    covering: list[PatchName] = []
    gains: list[str] = []
    for before, after in pairwise(stages):
        if after.patch is None:
            continue
        changed = raised.path in after.paths and fingerprint(before.modules, raised) != fingerprint(
            after.modules, raised
        )
        gained = _gained(before, after) if REFUSAL in raised.text else []
        if changed or gained:
            covering.append(after.patch)
            gains += gained
    return Explained(raised=raised, innermost=innermost, patches=tuple(covering), gains=tuple(gains))


def _gained(before: Stage, after: Stage) -> list[str]:
    """The classes that support EAGLE-3 only with the patch."""
    found: list[str] = []
    for path in after.paths:
        if path.startswith(f"{MODELS}/") and path.endswith(".py"):
            had = set(supporting_classes(before.modules, path))
            found += [name for name in supporting_classes(after.modules, path) if name not in had]
    return found
