"""`forktool pr status`: what became of each pull request, and what that means for the series."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from forktool.adapters.github import GitHub
from forktool.adapters.patchset_files import Change, Patchset, write_change
from forktool.adapters.upstream import Upstream
from forktool.commands.pr import config_of
from forktool.commands.pr_submit import connect
from forktool.commands.project import Project
from forktool.core.pr_status import (
    Landed,
    Pull,
    first_containing,
    meaning,
    pull_number,
    trailers_for,
    with_trailers,
)
from forktool.core.pull_request import branch_name
from forktool.core.report import name_width
from forktool.core.series import Patch, PatchName
from forktool.core.trailers import first_value
from forktool.errors import ExitCode


@dataclass(frozen=True, kw_only=True, slots=True)
class _Row:
    patch: Patch
    pull: Pull | None
    landed: Landed | None = None


def pr_status(project: Project, *, names: Sequence[str], write: bool, wait: float, dry_run: bool) -> ExitCode:
    """Show the state of the pull requests of patches.

    Args:
        project: the project.
        names: which patches; all where empty.
        write: bring the trailers `Forwarded:` and `Applied-Upstream:` up to date.
        wait: the longest time in seconds to wait for a rate limit to end.
        dry_run: with `write`, only say which patches would change.

    Raises:
        RequestError: no such patch, or no login.
        OutsideError: GitHub refuses or was not reached.
    """
    with project.state.lock(), project.store() as store:
        patchset = project.read()
        config = config_of(patchset)
        github, name = connect(project, config, wait=wait)
        patches = [patchset.series.find(patch) for patch in names] or list(patchset.series.patches)
        with project.upstream(patchset, store) as upstream:
            rows = [_row(github, name, config.fork, patch, upstream) for patch in patches]
        changed = _changes(patchset, rows) if write else {}
        if changed and not dry_run:
            files = {f"{patch}.patch": text for patch, text in changed.items()}
            write_change(project.path, Change(write=files), project.state)
    _show(project, patchset, rows, changed, dry_run=dry_run)
    return ExitCode.DONE


def _row(github: GitHub, name: str, fork: str | None, patch: Patch, upstream: Upstream) -> _Row:
    number = pull_number(patch, name)
    if number is None and fork is not None:
        found = github.find_pull(name, f"{fork.partition('/')[0]}:{branch_name(patch.name)}", state="all")
        number = found.number if found is not None else None
    if number is None:
        return _Row(patch=patch, pull=None)
    pull = github.pull(name, number)
    if pull.merge_commit is None:
        return _Row(patch=patch, pull=pull)
    return _Row(patch=patch, pull=pull, landed=_landed(github, name, pull, pull.merge_commit, upstream))


def _landed(github: GitHub, name: str, pull: Pull, commit: str, upstream: Upstream) -> Landed:
    tags = [
        tag
        for tag in upstream.tags()
        if (version := upstream.pattern.version(tag)) is not None and not version.is_prerelease
    ]
    tag = first_containing(tags, lambda tag: github.contains(name, tag, commit))
    revert = github.revert_of(name, pull.number)
    if revert is None or revert.merge_commit is None:
        return Landed(tag=tag)
    undone = revert.merge_commit
    revert_tag = first_containing(tags, lambda tag: github.contains(name, tag, undone))
    # Taken back within the same release: no release ever had it.
    return Landed(tag=None if tag == revert_tag else tag, revert=revert.number, revert_tag=revert_tag)


def _changes(patchset: Patchset, rows: Sequence[_Row]) -> dict[PatchName, bytes]:
    changed: dict[PatchName, bytes] = {}
    for row in rows:
        if row.pull is None:
            continue
        patch = row.patch
        text = with_trailers(
            patch.name, patch.text, trailers_for(row.pull, row.landed), file=str(patchset.file(patch.name))
        )
        if text != patch.text:
            changed[patch.name] = text
    return changed


def _show(
    project: Project,
    patchset: Patchset,
    rows: Sequence[_Row],
    changed: dict[PatchName, bytes],
    *,
    dry_run: bool,
) -> None:
    console, base = project.console, patchset.series.base.tag
    console.document(
        {
            "base": base,
            "written": sorted(changed) if not dry_run else [],
            "patches": [_entry(row, base) for row in rows],
        }
    )
    width = name_width(row.patch.name for row in rows)
    for row in rows:
        if row.pull is None:
            forwarded = first_value(row.patch.trailers, "Forwarded") or "no"
            console.answer(f"{row.patch.name:<{width}}  no pull request (Forwarded: {forwarded})")
            continue
        pull = row.pull
        state = "draft" if pull.is_draft and pull.state == "open" else pull.state
        console.answer(
            f"{row.patch.name:<{width}}  #{pull.number} {state}: {meaning(pull, row.landed, base)}"
        )
        facts = [f"mergeable: {pull.mergeable}"] if pull.state == "open" else []
        facts += [f"approved by {', '.join(pull.approvals)}"] if pull.approvals else []
        facts += (
            [f"checks: {', '.join(f'{count} {word}' for word, count in pull.checks)}"] if pull.checks else []
        )
        console.answer(f"{'':<{width}}  {'; '.join([*facts, pull.url])}")
    for name in changed:
        console.note(f"{'would write' if dry_run else 'wrote'} {patchset.file(name)}")


def _entry(row: _Row, base: str) -> dict[str, object]:
    pull, landed = row.pull, row.landed
    if pull is None:
        return {"name": row.patch.name, "number": None}
    return {
        "name": row.patch.name,
        "number": pull.number,
        "url": pull.url,
        "state": pull.state,
        "draft": pull.is_draft,
        "mergeable": pull.mergeable,
        "approvals": list(pull.approvals),
        "changes_requested": list(pull.refusals),
        "checks": dict(pull.checks),
        "merged_in": landed.tag if landed is not None else None,
        "reverted_by": landed.revert if landed is not None else None,
        "means": meaning(pull, landed, base),
    }
