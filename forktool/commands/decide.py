"""`forktool keep` and `forktool drop`: what a person decides of a patch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from forktool.adapters.patchset_files import DroppedPatch, series_change, write_change
from forktool.adapters.rebase_state import RebaseState, load_rebase, save_rebase
from forktool.commands.project import Project
from forktool.commands.rebase import rebase_without
from forktool.core.series import Patch
from forktool.core.verdict import Choice, Decision
from forktool.errors import ExitCode, RequestError


def keep(project: Project, *, name: str, reason: str, dry_run: bool) -> ExitCode:
    """Carry the patch at which the rebase stopped as a suspect.

    Raises:
        RequestError: no rebase stopped there.
    """
    with project.state.lock():
        patchset = project.read()
        patch = patchset.series.find(name)
        running = load_rebase(project.state)
        if running is None or running.stopped_at != patch.name:
            raise RequestError(
                f"no rebase stopped at {name}; it is carried anyway unless a rebase says otherwise",
                hint="forktool status",
            )
        if not dry_run:
            _decide(project, running, Decision(choice=Choice.KEEP, reason=reason))
    project.console.note(f"{name} will be carried")
    project.console.hint("forktool rebase --continue")
    return ExitCode.DONE


def drop(project: Project, *, name: str, reason: str, dry_run: bool) -> ExitCode:
    """Drop the patch at which the rebase stopped, or take a patch out of the series now.

    Where later patches touch its files they are carried over its absence, which can stop as any rebase can.

    Returns:
        DONE, or STOPPED where a later patch needs a person.

    Raises:
        RequestError: no such patch, an empty reason, or a rebase that stopped at another patch.
    """
    if not reason.strip():
        raise RequestError("--reason is empty", hint=f"forktool drop {name} --reason 'why it is not needed'")
    with project.state.lock():
        patchset = project.read()
        patch = patchset.series.find(name)
        running = load_rebase(project.state)
        if running is not None:
            if running.stopped_at != patch.name:
                raise RequestError(
                    f"the rebase onto {running.onto} stopped at {running.stopped_at}, not at {name}",
                    hint="forktool rebase --continue, or forktool rebase --abort",
                )
            if not dry_run:
                _decide(project, running, Decision(choice=Choice.DROP, reason=reason))
            project.console.note(f"{name} will be dropped")
            project.console.hint("forktool rebase --continue")
            return ExitCode.DONE
        if _depends(patchset.series.patches, patch):
            with project.store() as store:
                code = rebase_without(project, store, patchset, patch.name, reason, dry_run=dry_run)
            if code is ExitCode.DONE:
                _tell(project, name, dry_run=dry_run)
            return code
        entry = DroppedPatch(
            name=patch.name,
            tag=patchset.series.base.tag,
            verdict="dropped",
            evidence=(f"decision: {reason}",),
            subject=patch.subject,
        )
        kept = {other.name: other.text for other in patchset.series.patches if other is not patch}
        if not dry_run:
            write_change(project.path, series_change(patchset, kept, dropped=(entry,)), project.state)
    _tell(project, name, dry_run=dry_run)
    return ExitCode.DONE


def _tell(project: Project, name: str, *, dry_run: bool) -> None:
    project.console.note(f"{'would drop' if dry_run else 'dropped'} {name} (see dropped.toml)")


def _depends(patches: Sequence[Patch], dropped: Patch) -> bool:
    """Whether a later patch touches what it touches, and so may not apply without it."""
    later = patches[patches.index(dropped) + 1 :]
    return any(_meet(path, other) for patch in later for path in patch.paths for other in dropped.paths)


def _meet(path: str, other: str) -> bool:
    """Whether two paths are one, or one is a folder where the other is a file in it."""
    return f"{path}/".startswith(f"{other}/") or f"{other}/".startswith(f"{path}/")


def _decide(project: Project, running: RebaseState, decision: Decision) -> None:
    decisions = {**running.decisions, running.stopped_at: decision}
    save_rebase(project.state, replace(running, decisions=decisions))
