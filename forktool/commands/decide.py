"""`forktool keep` and `forktool drop`: what a person decides of a patch."""

from __future__ import annotations

from dataclasses import replace

from forktool.adapters.patchset_files import DroppedPatch, series_change, write_change
from forktool.adapters.rebase_state import RebaseState, load_rebase, save_rebase
from forktool.commands.project import Project
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
    project.console.note(f"{'would drop' if dry_run else 'dropped'} {name} (see dropped.toml)")
    if not dry_run:
        project.console.hint("forktool check tells whether the patches after it still apply")
    return ExitCode.DONE


def _decide(project: Project, running: RebaseState, decision: Decision) -> None:
    decisions = {**running.decisions, running.stopped_at: decision}
    save_rebase(project.state, replace(running, decisions=decisions))
