"""What a stop shows, and the work tree to settle it in."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Sequence
from pathlib import Path

from forktool.adapters.console import Console
from forktool.adapters.git_store import GitStore
from forktool.adapters.rerere import install_cache
from forktool.adapters.worktree import WorkTree, add_work_tree
from forktool.commands.replayed import Stop
from forktool.core.objects import Oid
from forktool.core.stop import ConflictKind, Explained
from forktool.core.stop_report import stop_lines
from forktool.core.verdict import Verdict
from forktool.core.zdiff3 import zealous


def stop_work_tree(
    store: GitStore, path: Path, stop: Stop, *, at: Oid, pick: Oid, resolutions: Sequence[Path]
) -> tuple[WorkTree, Oid | None]:
    """A work tree at the patches carried so far, with the patch that stopped picked onto it.

    Its files show a conflict as the replay saw it, in zdiff3 form, with labels that say whose each side is.

    Returns the work tree and the id of the tree it proposes, None where it holds a conflict.

    Args:
        store: holds the commits.
        path: where to make it.
        stop: the conflicts.
        at: the commit to check out.
        pick: the patch's commit on the base.
        resolutions: folders of recorded ones for git to replay; none where they were tried and refused.

    Raises:
        GitError: git failed.
        DiskError: the file system refused.
    """
    cache = store.path / "rr-cache"
    shutil.rmtree(cache, ignore_errors=True)
    cache.mkdir(parents=True)
    for folder in resolutions:
        install_cache(folder, store.path)
    work = add_work_tree(store, path, at)
    work.pick(pick)
    if not stop.stages:
        # The replay found nothing left to do, where git looks for a file of another name and stops.
        work.clear()
    unmerged = work.unmerged()
    if not unmerged:
        return work, Oid(work.git("write-tree").decode().strip())
    # Written by us, so that rerere knows a conflict by the same id here and in the replay.
    words = (b"upstream", b"base", b"patch")
    texts = {name: zealous(text, words=words) for name, text in stop.texts.items() if name in unmerged}
    work.show_conflicts(texts)
    return work, None


def going_on(stop: Explained, work: Path, *, dry_run: bool) -> tuple[str, ...]:
    """The commands to go on with, the likeliest first."""
    name, onto = stop.outcome.name, stop.labels[1]
    if dry_run:
        return (f"forktool rebase {onto}",)
    leave = f"forktool drop {name} --reason TEXT"
    if not stop.conflicts:
        return (
            f"git -C {shlex.quote(str(work))} diff --cached",
            f"forktool keep {name}",
            leave,
            "forktool rebase --continue",
            "forktool rebase --abort",
        )
    is_text = any(one.kind in (ConflictKind.TEXT, ConflictKind.BOTH_ADDED) for one in stop.conflicts)
    return (
        f"cd {shlex.quote(str(work))}" + (" && git mergetool" if is_text else ""),
        "forktool rebase --continue",
        "forktool rebase --skip",
        leave,
        "forktool rebase --abort",
    )


def show_stop(
    console: Console, stop: Explained, work: Path, *, pull_requests: str | None, dry_run: bool
) -> None:
    """Say what stopped, why the patch exists, what both sides say and why, and what to type next."""
    console.note("")
    for line in stop_lines(stop, pull_requests=pull_requests):
        console.note(line)
    console.note("")
    if dry_run:
        console.hint(f"forktool rebase {stop.labels[1]} stops there, with a work tree to settle it in")
        return
    name = stop.outcome.name
    leave = f"forktool drop {name} --reason TEXT"
    if not stop.conflicts:
        console.hint(f"the result as it would be carried: {going_on(stop, work, dry_run=False)[0]}")
        console.hint(f"carry it: forktool keep {name}; or change it there; or leave it out: {leave}")
        console.hint("then: forktool rebase --continue; or forget the rebase: forktool rebase --abort")
        return
    console.hint(f"settle it in {work}")
    is_text = any(one.regions for one in stop.conflicts)
    console.hint(
        "with git mergetool there, or an editor and git add"
        if is_text
        else "with one of the commands above there"
    )
    console.hint("then: forktool rebase --continue")
    if stop.outcome.verdict is Verdict.SUSPECT:
        console.hint(f"where upstream has it: {leave}, then: forktool rebase --continue")
    else:
        console.hint(f"or leave the patch out: forktool rebase --skip, or {leave}, then --continue")
    console.hint("or forget the rebase: forktool rebase --abort")
