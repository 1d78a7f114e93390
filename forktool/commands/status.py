"""`forktool status`: the series, and what becomes of it on other tags."""

from __future__ import annotations

from collections.abc import Sequence

from forktool.adapters.git_store import GitStore
from forktool.adapters.patchset_files import Patchset
from forktool.adapters.rebase_state import load_rebase
from forktool.adapters.upstream import Upstream
from forktool.commands.absorbing import absorbers
from forktool.commands.project import Project
from forktool.commands.replaying import NeedsWholeTreeError, Replayed, Replayer
from forktool.core.report import STYLES, name_width, status_document, verdict_table
from forktool.core.series import PatchName
from forktool.core.trailers import first_value
from forktool.core.tree import SourceTree
from forktool.core.verdict import Outcome
from forktool.core.versions import between
from forktool.errors import ExitCode


def status(project: Project, *, onto: Sequence[str]) -> ExitCode:
    """Show the series; with tags, a table of verdicts.

    Args:
        project: the project.
        onto: tags, or ranges `A..B`: the releases after A up to B.

    Returns:
        DONE, or STOPPED when a verdict on some tag asks for a person.

    Raises:
        RequestError: no such tag.
    """
    if not onto:
        return _show_series(project)
    with project.state.lock(), project.store() as store:
        patchset = project.read()
        with project.upstream(patchset, store) as upstream:
            tags = _tags(upstream, onto)
            table = verdicts(project, patchset, store, upstream, tags)
    return _show_table(project, patchset, table)


def _tags(upstream: Upstream, onto: Sequence[str]) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for word in onto:
        if ".." in word:
            known = upstream.tags()
            found |= dict.fromkeys(between(word, known, upstream.pattern, name=upstream.config.name))
        else:
            found[upstream.resolve(word)] = None
    return tuple(found)


def verdicts(
    project: Project, patchset: Patchset, store: GitStore, upstream: Upstream, tags: Sequence[str]
) -> dict[str, dict[PatchName, Outcome]]:
    """The verdict of each patch on each tag, reading as little of each tree as can be.

    Raises:
        RequestError: no such tag.
        NetworkError: a tree was not reached.
        PatchsetError: a patch does not apply to the base exactly.
    """
    probes = project.probes(patchset)
    paths = set(patchset.series.paths)
    for name in patchset.series.names:
        paths |= probes.reads(name)
    base_tag = patchset.series.base.tag
    light = upstream.light_trees([base_tag, *tags], sorted(paths), modes=patchset.series.modes)
    history = absorbers(project, patchset, store, upstream, [tree.label for tree in light[1:]])
    try:
        found = Replayer(patchset, light[0], store, probes).replay(light[1:], history=history)
    except NeedsWholeTreeError:
        found = tuple(replay_on_one(project, patchset, store, upstream, light[0], tree) for tree in light[1:])
    return {
        tag: {step.patch.name: step.outcome for step in replayed.steps}
        for tag, replayed in zip(tags, found, strict=True)
    }


def replay_on_one(
    project: Project,
    patchset: Patchset,
    store: GitStore,
    upstream: Upstream,
    base: SourceTree,
    onto: SourceTree,
) -> Replayed:
    """On one tag; with whole trees where upstream moved a file of the series."""
    probes = project.probes(patchset)
    try:
        history = absorbers(project, patchset, store, upstream, [onto.label])
        return Replayer(patchset, base, store, probes).replay([onto], history=history)[0]
    except NeedsWholeTreeError:
        upstream.prepare([base.label, onto.label])
        whole = Replayer(patchset, upstream.tree(base.label), store, probes)
        history = absorbers(project, patchset, store, upstream, [onto.label])
        return whole.replay([upstream.tree(onto.label)], history=history)[0]


def _show_series(project: Project) -> ExitCode:
    patchset = project.read()
    console = project.console
    series = patchset.series
    running = load_rebase(project.state)
    console.document(
        {
            "base": series.base.tag,
            "tags": [],
            "complete": running is None,
            "rebase": {"onto": running.onto, "stopped_at": running.stopped_at} if running else None,
            "patches": [
                {
                    "name": patch.name,
                    "subject": patch.subject,
                    "verdicts": {},
                    "files": len(patch.files),
                    "added": patch.added,
                    "removed": patch.removed,
                    "forwarded": first_value(patch.trailers, "Forwarded"),
                    "probe": patch.name in patchset.probes,
                    "evidence": [],
                    "findings": [],
                    "conflicts": [],
                }
                for patch in series.patches
            ],
        }
    )
    count = len(series.patches)
    console.answer(f"{count} {'patch' if count == 1 else 'patches'} on {series.base.tag}")
    width = name_width(series.names)
    plus = name_width(f"+{patch.added}" for patch in series.patches)
    minus = name_width(f"-{patch.removed}" for patch in series.patches)
    for patch in series.patches:
        marks = "" if patch.name in patchset.probes else "  (no probe)"
        size = f"{f'+{patch.added}':<{plus}} {f'-{patch.removed}':<{minus}}"
        console.answer(f"  {patch.name:<{width}}  {size}  {patch.subject}{marks}")
    if running is not None:
        console.answer(f"a rebase onto {running.onto} stopped at {running.stopped_at}")
        console.hint("forktool rebase --continue, or forktool rebase --abort")
    return ExitCode.DONE


def _show_table(project: Project, patchset: Patchset, table: dict[str, dict[PatchName, Outcome]]) -> ExitCode:
    console, series = project.console, patchset.series
    console.document(status_document(series.base.tag, series.patches, table))
    rows = verdict_table(series.patches, table)
    widths = [max(len(row[column][0]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        cells = []
        for (text, verdict), width in zip(row, widths, strict=True):
            padded = f"{text:<{width}}"
            cells.append(console.paint(padded, STYLES[verdict]) if verdict is not None else padded)
        console.answer("  ".join(cells).rstrip())
    stopped = [tag for tag, row in table.items() if any(outcome.verdict.is_stop for outcome in row.values())]
    if stopped:
        console.hint(f"forktool rebase {stopped[0]} --dry-run tells why it stops there")
    return ExitCode.STOPPED if stopped else ExitCode.DONE
