"""`forktool rebase`: carry the series to another tag, and stop where a person must look."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Mapping
from dataclasses import replace

from forktool.adapters.git_format import format_patches
from forktool.adapters.git_merge import differences
from forktool.adapters.git_store import GitStore, GitTree
from forktool.adapters.patchset_files import (
    RESOLUTIONS,
    Change,
    DroppedPatch,
    Patchset,
    series_change,
    write_change,
)
from forktool.adapters.rebase_state import REBASE_FILE, RebaseState, forget_rebase, load_rebase, save_rebase
from forktool.adapters.rerere import collect_cache, keep_resolutions
from forktool.adapters.upstream import Upstream
from forktool.adapters.worktree import WorkTree, remove_work_tree
from forktool.commands.absorbing import absorbers
from forktool.commands.base import base_tree
from forktool.commands.project import Project
from forktool.commands.replaying import Replayed, Replayer, Settled
from forktool.commands.series_commits import commits_on_base, commits_on_tag
from forktool.core.objects import Entry, Mode, Oid
from forktool.core.report import STYLES, name_width, outcome_lines, rebase_document, tally
from forktool.core.series import PatchName
from forktool.core.stop import Explained, pull_requests_url
from forktool.core.verdict import Choice, Decision, MergeKind, Outcome, Verdict
from forktool.errors import ExitCode, PatchsetError, RequestError, StoppedError

_SHOWN = 5
"""Names in one warning: a series can have a thousand patches."""


def rebase(project: Project, *, tag: str | None, dry_run: bool) -> ExitCode:
    """Start a rebase onto a tag, or onto the newest release.

    Raises:
        StoppedError: one is in progress.
        RequestError: no such tag.
    """
    with project.state.lock(), project.store() as store:
        patchset = project.read()
        running = load_rebase(project.state)
        if running is not None and not dry_run:
            raise StoppedError(
                f"a rebase onto {running.onto} stopped at {running.stopped_at}",
                hint="forktool rebase --continue, or forktool rebase --abort",
            )
        upstream = project.upstream(patchset, store)
        onto = upstream.resolve(tag) if tag is not None else upstream.newest()
        return _Rebase(project, store, patchset, upstream, onto, dry_run=dry_run).run(
            RebaseState(onto=onto, series=patchset.series.digest, stopped_at=PatchName(""))
        )


def rebase_without(
    project: Project, store: GitStore, patchset: Patchset, name: PatchName, reason: str, *, dry_run: bool
) -> ExitCode:
    """Take a patch out of the series, and carry those after it over its absence, on the same base.

    Raises:
        PatchsetError: a patch does not apply to the base exactly.
    """
    base = patchset.series.base.tag
    decision = Decision(choice=Choice.DROP, reason=reason)
    running = RebaseState(
        onto=base, series=patchset.series.digest, stopped_at=PatchName(""), decisions={name: decision}
    )
    upstream = project.upstream(patchset, store)
    return _Rebase(project, store, patchset, upstream, base, dry_run=dry_run).run(running)


def rebase_continue(project: Project) -> ExitCode:
    """Take what a person settled in the work tree, and go on.

    Raises:
        StoppedError: the conflict is not settled, or the suspect is undecided.
        RequestError: no rebase is in progress, or the patchset changed meanwhile.
    """
    with project.state.lock(), project.store() as store:
        if project.finish_write() and load_rebase(project.state) is None:
            return ExitCode.DONE
        patchset, running = _running(project)
        if running.stopped_at not in running.decisions:
            running = _with_settlement(project, store, running)
        return _resumed(project, store, patchset, running)


def rebase_skip(project: Project) -> ExitCode:
    """Drop the patch at which the rebase stopped, and go on.

    Raises:
        RequestError: no rebase is in progress, or the patchset changed meanwhile.
    """
    with project.state.lock(), project.store() as store:
        patchset, running = _running(project)
        decision = Decision(choice=Choice.DROP, reason="skipped by hand")
        running = replace(running, decisions={**running.decisions, running.stopped_at: decision})
        return _resumed(project, store, patchset, running)


def rebase_abort(project: Project) -> ExitCode:
    """Forget the rebase in progress; the patchset was never touched.

    Raises:
        RequestError: no rebase is in progress.
    """
    with project.state.lock(), project.store() as store:
        project.finish_write()
        running = load_rebase_or_forget(project)
        _forget_stop(project, store)
        forget_rebase(project.state)
    project.console.note(f"forgot the rebase onto {running.onto}; {project.path} is as it was")
    return ExitCode.DONE


def load_rebase_or_forget(project: Project) -> RebaseState:
    """The rebase in progress.

    Raises:
        RequestError: there is none.
    """
    try:
        running = load_rebase(project.state)
    except PatchsetError:
        forget_rebase(project.state)
        raise
    if running is None:
        raise RequestError("no rebase is in progress", hint="forktool rebase TAG")
    return running


def _running(project: Project) -> tuple[Patchset, RebaseState]:
    patchset = project.read()
    running = load_rebase_or_forget(project)
    if patchset.series.digest != running.series:
        raise RequestError(
            f"{project.path} changed since the rebase onto {running.onto} began",
            hint="forktool rebase --abort, then start again",
        )
    return patchset, running


def _resumed(project: Project, store: GitStore, patchset: Patchset, running: RebaseState) -> ExitCode:
    upstream = project.upstream(patchset, store)
    return _Rebase(project, store, patchset, upstream, running.onto, dry_run=False).run(running)


def _with_settlement(project: Project, store: GitStore, running: RebaseState) -> RebaseState:
    work = WorkTree(project.conflict)
    if not work.exists:
        raise StoppedError(
            f"{work.path} is gone: there is nothing to take", hint="forktool rebase --abort, then start again"
        )
    marked = work.still_marked()
    if marked:
        raise StoppedError(
            f"{running.stopped_at} still has conflict markers in {', '.join(marked)}",
            hint=f"settle them in {work.path}, then: forktool rebase --continue",
        )
    undecided = work.undecided()
    if undecided:
        path = shlex.quote(undecided[0])
        more = f" (and {len(undecided) - 1} more)" if len(undecided) > 1 else ""
        raise StoppedError(
            f"{running.stopped_at} is undecided: {undecided[0]}{more} is as the merge left it",
            hint=f"in {work.path}, git add {path} takes it so, git rm {path} removes it; "
            "then: forktool rebase --continue",
        )
    before, after = work.start(), work.take_tree()
    keep_resolutions(store.path, project.state.home / RESOLUTIONS, [project.path / RESOLUTIONS])
    if after == running.proposal:
        raise StoppedError(
            f"{running.stopped_at} is undecided",
            hint=f"forktool keep {running.stopped_at}, or forktool drop {running.stopped_at} --reason TEXT, "
            f"or change it in {work.path}",
        )
    entries = differences(store, before, after)
    if not entries:
        raise StoppedError(
            f"{work.path} holds nothing of {running.stopped_at} any more",
            hint=f"forktool rebase --skip drops it; to carry it, make its change in {work.path}",
        )
    return replace(running, settled={**running.settled, running.stopped_at: entries})


def _forget_stop(project: Project, store: GitStore) -> None:
    remove_work_tree(store, project.conflict)
    for folder in (project.state.home / RESOLUTIONS, store.path / "rr-cache"):
        shutil.rmtree(folder, ignore_errors=True)


class _Rebase:
    def __init__(
        self,
        project: Project,
        store: GitStore,
        patchset: Patchset,
        upstream: Upstream,
        onto: str,
        *,
        dry_run: bool,
    ) -> None:
        self._project = project
        self._store = store
        self._patchset = patchset
        self._upstream = upstream
        self._onto = onto
        self._dry_run = dry_run

    def run(self, running: RebaseState) -> ExitCode:
        base_tag = self._patchset.series.base.tag
        self._upstream.prepare([base_tag, self._onto])
        base, onto = base_tree(self._upstream, self._patchset), self._upstream.tree(self._onto)
        self._warn_of_missing_probes()
        replayer = Replayer(self._patchset, base, self._store, self._project.probes(self._patchset))
        replayed = replayer.replay(
            [onto],
            decisions=running.decisions,
            settled={name: _settled(self._store, entries) for name, entries in running.settled.items()},
            history=absorbers(self._project, self._patchset, self._store, self._upstream, [self._onto]),
        )[0]
        outcomes = [step.outcome for step in replayed.steps]
        stop = self._explained(replayed)
        self._show(base_tag, replayed, outcomes, stop)
        if stop is not None:
            from forktool.commands.stopping import show_stop

            if not self._dry_run:
                self._stop(running, replayed, base, onto)
            show_stop(
                self._project.console,
                stop,
                self._project.conflict,
                pull_requests=self._pull_requests,
                dry_run=self._dry_run,
            )
            return ExitCode.STOPPED
        if not self._dry_run:
            self._finish(replayed, base, onto)
        return ExitCode.DONE

    def _explained(self, replayed: Replayed) -> Explained | None:
        if replayed.stop is None:
            return None
        # Most rebases do not stop, and what explains a stop takes 20 ms to import.
        from forktool.commands.explaining import explain

        return explain(self._project, self._patchset, self._store, self._upstream, replayed)

    def _warn_of_missing_probes(self) -> None:
        bare = [name for name in self._patchset.series.names if name not in self._patchset.probes]
        if len(bare) == 1:
            self._project.console.warning(f"{bare[0]} has no probe: it is judged without one")
        elif bare:
            shown = ", ".join(bare[:_SHOWN]) + (", …" if len(bare) > _SHOWN else "")
            self._project.console.warning(
                f"{len(bare)} patches have no probe and are judged without one: {shown}"
            )

    @property
    def _pull_requests(self) -> str | None:
        table = self._patchset.config.tables.get("pull-request", {})
        return pull_requests_url(self._patchset.config.upstream.repository, table.get("upstream"))

    def _show(
        self, base_tag: str, replayed: Replayed, outcomes: list[Outcome], stop: Explained | None
    ) -> None:
        console = self._project.console
        work = self._project.conflict
        shown = None
        if stop is not None:
            from forktool.commands.stopping import going_on
            from forktool.core.stop_report import stop_document

            shown = stop_document(
                stop,
                work_tree=None if self._dry_run else str(work),
                pull_requests=self._pull_requests,
                commands=going_on(stop, work, dry_run=self._dry_run),
            )
        console.document(rebase_document(base_tag, self._onto, outcomes, stop=shown))
        console.answer(f"{base_tag} -> {self._onto}: {tally(outcomes)}")
        width = name_width(outcome.name for outcome in outcomes)
        for step in replayed.steps:
            first, *rest = outcome_lines(step.outcome, width=width)
            console.answer(console.paint(first, STYLES[step.outcome.verdict]))
            for line in rest:
                console.answer(line)
            for review in step.review if step.outcome.verdict is Verdict.RESOLVED else ():
                console.answer(f"    {review.path}:{review.line}: both sides changed it; look at the result")
                for label, text in review.sides:
                    for line in text.decode("utf-8", "replace").splitlines():
                        console.answer(f"    {label:>{width}} | {line}".rstrip())

    def _stop(self, running: RebaseState, replayed: Replayed, base: GitTree, onto: GitTree) -> None:
        if replayed.stop is None:
            return
        name = replayed.stop.patch.name
        on_base = commits_on_base(
            self._patchset,
            self._store,
            self._upstream.commit(self._patchset.series.base.tag),
            base,
            until=name,
        )
        carried = commits_on_tag(replayed, self._store, self._upstream.commit(self._onto), onto)
        self._store.persist([*on_base.objects, *carried.objects])
        kept = WorkTree(self._project.conflict)
        if running.stopped_at == name and name in running.settled and kept.exists:
            # What a person made there is a suspect, not a conflict again: it stays for them to go on with.
            proposal: Oid | None = kept.take_tree()
        else:
            from forktool.commands.stopping import stop_work_tree

            facts = next(step.facts for step in replayed.steps if step.patch.name == name)
            is_refused = facts is not None and facts.merge is MergeKind.RESOLVED
            folders = [self._patchset.path / RESOLUTIONS, self._project.state.home / RESOLUTIONS]
            if not running.stopped_at:
                shutil.rmtree(folders[1], ignore_errors=True)
            _work, proposal = stop_work_tree(
                self._store,
                kept.path,
                replayed.stop,
                at=carried.tip,
                pick=on_base.commits[name],
                resolutions=() if is_refused else folders,
            )
        save_rebase(
            self._project.state,
            replace(running, stopped_at=name, proposal=proposal),
        )

    def _finish(self, replayed: Replayed, base: GitTree, onto: GitTree) -> None:
        old_base = self._upstream.commit(self._patchset.series.base.tag)
        on_base = commits_on_base(self._patchset, self._store, old_base, base)
        carried = commits_on_tag(replayed, self._store, self._upstream.commit(self._onto), onto)
        self._store.persist([*on_base.objects, *carried.objects])
        files = format_patches(self._store, carried.base, carried.tip)
        patches = dict(zip(carried.commits, files, strict=True))
        dropped = tuple(
            DroppedPatch(
                name=step.patch.name,
                tag=self._onto,
                verdict=step.outcome.verdict.value,
                evidence=tuple(f"{item.kind}: {item.detail}" for item in step.outcome.evidence),
                subject=step.patch.subject,
            )
            for step in replayed.steps
            if step.outcome.verdict.is_dropped
        )
        change = series_change(
            self._patchset, patches, base_tag=self._onto, base_tree=onto.root, dropped=dropped
        )
        self._store.update_refs(
            {
                "refs/forktool/previous/base": on_base.base,
                "refs/forktool/previous/tip": on_base.tip,
                "refs/forktool/series/base": carried.base,
                "refs/forktool/series/tip": carried.tip,
            }
        )
        # The last act that counts: from here on the new patchset is the truth, whatever happens to this process.
        write_change(
            self._project.path,
            self._with_resolutions(change),
            self._project.state,
            forget=(REBASE_FILE,),
        )
        _forget_stop(self._project, self._store)
        console = self._project.console
        console.note(f"{self._project.path} now sits on {self._onto}")
        if dropped:
            console.note(f"dropped: {', '.join(patch.name for patch in dropped)} (see dropped.toml)")
        console.hint("forktool diff shows what changed; forktool check proves the series")

    def _with_resolutions(self, change: Change) -> Change:
        known = [self._project.path / RESOLUTIONS]
        new = collect_cache(self._project.state.home / RESOLUTIONS, known)
        write = {**change.write, **{f"{RESOLUTIONS}/{name}": content for name, content in new.items()}}
        return replace(change, write=write)


def _settled(store: GitStore, entries: Mapping[str, Entry | None]) -> Settled:
    contents = {
        entry.oid: store.read_blob(entry.oid)
        for entry in entries.values()
        if entry is not None and entry.mode is not Mode.GITLINK
    }
    return Settled(entries=entries, contents=contents)


def run(
    project: Project, *, tag: str | None, resume: bool, abort: bool, skip: bool, dry_run: bool
) -> ExitCode:
    """Which of the four rebases is asked for.

    Raises:
        RequestError: a tag together with --continue, --abort or --skip; else see those.
    """
    if tag is not None and (resume or abort or skip):
        raise RequestError("a tag goes with none of --continue, --abort and --skip")
    if resume:
        return rebase_continue(project)
    if abort:
        return rebase_abort(project)
    if skip:
        return rebase_skip(project)
    return rebase(project, tag=tag, dry_run=dry_run)
