"""What a stop shows, and the work tree to settle it in."""

from __future__ import annotations

import shutil
from pathlib import Path

from forktool.adapters.console import Console
from forktool.adapters.git_store import GitStore
from forktool.adapters.rerere import install_cache
from forktool.adapters.worktree import WorkTree, add_work_tree
from forktool.commands.replaying import Replayed
from forktool.core.conflict import conflict_regions
from forktool.core.objects import Oid
from forktool.core.trailers import first_value
from forktool.core.verdict import Verdict


def stop_work_tree(
    store: GitStore, path: Path, *, at: Oid, pick: Oid, resolutions: Path | None
) -> tuple[WorkTree, Oid | None]:
    """A work tree at the patches carried so far, with the patch that stopped picked onto it.

    Returns the work tree and the id of the tree it proposes, None where it holds a conflict.

    Args:
        store: holds the commits.
        path: where to make it.
        at: the commit to check out.
        pick: the patch's commit on the base.
        resolutions: recorded ones for git to replay; None where they were tried and refused.

    Raises:
        GitError: git failed.
    """
    cache = store.path / "rr-cache"
    shutil.rmtree(cache, ignore_errors=True)
    cache.mkdir(parents=True)
    if resolutions is not None:
        install_cache(resolutions, store.path)
    work = add_work_tree(store, path, at)
    work.try_git("cherry-pick", "--no-commit", "--keep-redundant-commits", pick)
    if work.unmerged():
        return work, None
    return work, Oid(work.git("write-tree").decode().strip())


def show_stop(console: Console, replayed: Replayed, work: Path) -> None:
    """Say what stopped, why the patch exists, what both sides say, and what to type next."""
    stop = replayed.stop
    if stop is None:
        return
    outcome = next(step.outcome for step in replayed.steps if step.patch is stop.patch)
    console.note("")
    console.note(f"stopped at {stop.patch.name}: {stop.patch.subject}")
    reason = first_value(stop.patch.trailers, "Reason")
    if reason:
        console.note(f"  why it is carried: {reason}")
    for message in stop.messages:
        if message.startswith("CONFLICT"):
            console.note(f"  {message}")
    for path, text in stop.texts.items():
        for region in conflict_regions(text):
            console.note("")
            console.note(f"  {path}:{region.line}")
            for line in region.text.decode("utf-8", "replace").splitlines():
                console.note(f"    {line}")
    name = stop.patch.name
    console.note("")
    if outcome.verdict is Verdict.SUSPECT and outcome.conflicts:
        console.hint(
            f"where upstream has it: forktool drop {name} --reason TEXT, then: forktool rebase --continue"
        )
        console.hint(f"else settle it in {work}, git add it there, then: forktool rebase --continue")
    elif outcome.verdict is Verdict.SUSPECT:
        console.hint(
            f"forktool keep {name}, or forktool drop {name} --reason TEXT; then: forktool rebase --continue"
        )
        console.hint(f"the result as it would be carried is in {work}")
    else:
        console.hint(f"settle it in {work}, git add it there, then: forktool rebase --continue")
        console.hint("or drop the patch: forktool rebase --skip; or forget it all: forktool rebase --abort")
