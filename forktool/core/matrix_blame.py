"""Whose fault a failed cell is: it is run again, on the bare wheel, and with each patch left out."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from forktool.core.matrix import Check
from forktool.core.matrix_result import Blame, Fault, Outcome, Trial

RunWithout = Callable[[tuple[str, ...] | None], Trial]
"""Runs the cell on a wheel without the named patches; `()` is the same wheel again, None the bare upstream one."""


def attribute(failed: Check | None, patches: Sequence[str], run: RunWithout) -> Blame:
    """Find whose fault it is, with as few runs as settle it.

    Upstream is at fault only where the bare wheel fails *the same check*: a bare wheel that stops earlier, because it
    lacks what the series adds, says nothing about what comes behind.

    Args:
        failed: the check that failed.
        patches: the series, in its order.
        run: runs the cell on another wheel.
    """
    trials: list[Trial] = []

    def tried(without: tuple[str, ...] | None) -> Trial:
        trial = run(without)
        trials.append(trial)
        return trial

    again = tried(())
    if again.outcome is Outcome.PASSED:
        return _blame(Fault.FLAKY, (), "it passed when it was run again on the same wheel", trials)
    bare = tried(None)
    if bare.outcome is Outcome.FAILED and bare.failed_check is failed:
        return _blame(Fault.UPSTREAM_TOO, (), f"the bare wheel fails {failed} as well: {bare.detail}", trials)
    if bare.outcome is Outcome.BROKEN:
        return _blame(Fault.UNKNOWN, (), f"the bare wheel could not be run: {bare.detail}", trials)
    guilty = []
    for patch in patches:
        trial = tried((patch,))
        if trial.outcome is Outcome.PASSED:
            guilty.append(patch)
    if len(guilty) == 1:
        return _blame(Fault.PATCH, tuple(guilty), "the cell passes without it", trials)
    if guilty:
        return _blame(
            Fault.INTERACTION, tuple(guilty), "the cell passes when any one of these is left out", trials
        )
    later = [trial.without[0] for trial in trials if trial.without and _past(trial.failed_check, failed)]
    if later:
        return _blame(
            Fault.INTERACTION,
            tuple(later),
            f"without any one of these {failed} holds, and a later check fails",
            trials,
        )
    if bare.outcome is Outcome.PASSED:
        return _blame(
            Fault.INTERACTION, (), "the bare wheel passes, and leaving out one patch never helps", trials
        )
    return _blame(
        Fault.UNKNOWN,
        (),
        f"the bare wheel stops at {bare.failed_check or bare.outcome} ({bare.detail}), "
        "and leaving out one patch never helps",
        trials,
    )


def needed_for(patches: Sequence[str], run: RunWithout) -> tuple[Trial, ...]:
    """Of a cell that passed: run it bare and with each patch left out, to show which of them it needs."""
    return (run(None), *(run((patch,)) for patch in patches))


def _past(found: Check | None, failed: Check | None) -> bool:
    """Whether a trial failed at a later check than the cell."""
    order = list(Check)
    return found is not None and failed is not None and order.index(found) > order.index(failed)


def _blame(fault: Fault, patches: tuple[str, ...], reason: str, trials: Sequence[Trial]) -> Blame:
    return Blame(fault=fault, patches=patches, reason=reason, trials=tuple(trials))
