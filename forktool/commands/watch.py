"""`forktool watch`: is there a newer upstream, how does the series fare on it, and what is coming on its branch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from forktool.adapters.git_store import GitStore
from forktool.adapters.patchset_files import Patchset
from forktool.adapters.upstream import Upstream
from forktool.commands.alone import Alone, Found
from forktool.commands.project import Project
from forktool.commands.status import verdicts
from forktool.core.objects import Oid
from forktool.core.report import STYLES, name_width, outcome_lines, status_document, tally
from forktool.core.series import PatchName
from forktool.core.verdict import Outcome, Verdict
from forktool.core.versions import is_final
from forktool.errors import ExitCode


@dataclass(frozen=True, kw_only=True, slots=True)
class _OnBranch:
    """The series on upstream's branch: a verdict for each patch by itself, and what changed it."""

    name: str
    tip: Oid
    outcomes: Mapping[PatchName, Outcome]
    since: Mapping[PatchName, Found]


def watch(project: Project, *, main: bool, since: str | None) -> ExitCode:
    """Look for upstream tags newer than the base, and judge the series on each.

    Args:
        project: the project.
        main: judge it on upstream's default branch too, and name the commit that breaks or absorbs a patch.
        since: a tag instead of the base; only newer ones are looked at.

    Returns:
        DONE where nothing is new and nothing breaks; NO where there is a newer tag, or a patch stops on the branch.

    Raises:
        RequestError: no such tag, or, with `main`, no git repository.
        NetworkError: upstream was not reached.
    """
    with project.state.lock(), project.store() as store:
        patchset = project.read()
        with project.upstream(patchset, store) as upstream:
            new = _newer(upstream, since or patchset.series.base.tag)
            table = verdicts(project, patchset, store, upstream, new) if new else {}
            branch = _on_branch(project, patchset, store, upstream) if main else None
    _show(project, patchset, table, branch)
    breaks = branch is not None and any(outcome.verdict.is_stop for outcome in branch.outcomes.values())
    return ExitCode.NO if table or breaks else ExitCode.DONE


def _newer(upstream: Upstream, since: str) -> tuple[str, ...]:
    """The final releases after a tag, oldest first."""
    known = upstream.tags()
    start = upstream.pattern.version(upstream.resolve(since))
    return tuple(
        tag
        for tag in known
        if (version := upstream.pattern.version(tag)) is not None
        and is_final(version)
        and (start is None or version > start)
    )


def _on_branch(project: Project, patchset: Patchset, store: GitStore, upstream: Upstream) -> _OnBranch:
    source = upstream.repository()
    base = patchset.series.base.tag
    name, _tip = source.branch(None)
    tip = source.fetch_branch(name, since=base)
    upstream.prepare([base])
    alone = Alone(project, patchset, store, upstream)
    onto = store.tree(store.tree_of(tip), label=f"{name} at {tip[:12]}")
    source.fetch_files(tip, [path for patch in patchset.series.names for path in alone.paths(patch)])
    outcomes = {patch: alone.replay(patch, onto).steps[0].outcome for patch in patchset.series.names}
    history = source.first_parents(tip)
    since: dict[PatchName, Found] = {}
    for patch, outcome in outcomes.items():
        if outcome.verdict.is_carried:
            continue
        project.console.note(f"looking for the commit since which {patch} is {outcome.verdict}")
        found = alone.first_commit(patch, source, history, lambda verdict: not verdict.is_carried)
        if found is not None:
            since[patch] = found
    return _OnBranch(name=name, tip=tip, outcomes=outcomes, since=since)


def _show(
    project: Project,
    patchset: Patchset,
    table: dict[str, dict[PatchName, Outcome]],
    branch: _OnBranch | None,
) -> None:
    console, series = project.console, patchset.series
    document = status_document(series.base.tag, series.patches, table)
    document["newest"] = next(reversed(table), series.base.tag)
    document["branch"] = _branch_document(branch) if branch is not None else None
    console.document(document)
    if not table:
        console.answer(f"{series.base.tag} is the newest release")
    for tag, outcomes in table.items():
        console.answer(f"{tag}: {tally(outcomes.values())}")
        for outcome in outcomes.values():
            if outcome.verdict not in (Verdict.UNCHANGED, Verdict.REFRESHED):
                _show_outcome(project, outcome, name_width(series.names))
    if branch is not None:
        console.answer(f"{branch.name} at {branch.tip[:12]}: {tally(branch.outcomes.values())}")
        for name, outcome in branch.outcomes.items():
            if outcome.verdict.is_carried:
                continue
            _show_outcome(project, outcome, name_width(series.names))
            found = branch.since.get(name)
            if found is not None:
                console.answer(f"      since {found.commit[:12]}: {found.subject}")
    if table:
        console.hint(f"forktool rebase {next(reversed(table))}")


def _show_outcome(project: Project, outcome: Outcome, width: int) -> None:
    first, *rest = outcome_lines(outcome, width=width)
    console = project.console
    console.answer("  " + console.paint(first, STYLES[outcome.verdict]))
    for line in rest:
        console.answer(f"  {line}")


def _branch_document(branch: _OnBranch) -> dict[str, object]:
    return {
        "name": branch.name,
        "commit": branch.tip,
        "patches": [
            {
                "name": name,
                "verdict": outcome.verdict.value,
                "since": _since(branch.since.get(name)),
            }
            for name, outcome in branch.outcomes.items()
        ],
    }


def _since(found: Found | None) -> dict[str, str] | None:
    return {"commit": found.commit, "subject": found.subject} if found is not None else None
