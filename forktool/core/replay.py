"""Carrying one patch from its base to another tree: what is settled at once, and what git must merge.

Patch text is never applied to the new tree: a hunk can land in the wrong class with exit 0. Each path is merged
three-way, from the patch's parent, its result, and the new tree. Where the new tree has the parent's very entry
the result is the patch's, which is what every three-way merge gives; only the other paths need git.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from forktool.core.apply import Change
from forktool.core.diff import FileDiff, HunkMismatchError, apply_hunks
from forktool.core.objects import Entry, Mode
from forktool.core.tree import SourceTree

_CONTENT = (Mode.FILE, Mode.EXECUTABLE)


class Need(StrEnum):
    """What it takes to merge the paths that are not settled."""

    NOTHING = "nothing"
    CONTENTS = "contents"
    """The three contents of the paths themselves are enough."""
    WHOLE_TREE = "whole tree"
    """Upstream or the patch moved or removed something: git must look for renames in the whole trees."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """What is settled of one patch: the entries to set, and the paths left to merge."""

    settled: Mapping[str, Entry | None]
    unsettled: tuple[str, ...]
    already: tuple[str, ...]
    need: Need

    @property
    def is_trivial(self) -> bool:
        """Whether upstream touched none of the patch's paths."""
        return not self.unsettled and not self.already


def plan_replay(changes: Sequence[Change], base: SourceTree, onto: SourceTree) -> Plan:
    """Decide path by path.

    Args:
        changes: what the patch did on its base.
        base: the base with the patches before it.
        onto: the new tree with the patches carried so far.
    """
    settled: dict[str, Entry | None] = {}
    unsettled: list[str] = []
    already: list[str] = []
    need = Need.NOTHING
    both_gone = _both_removed(changes, onto)
    adds = any(change.before is None for change in changes)
    for change in changes:
        there = onto.entry(change.path)
        if there == change.before and not both_gone and not _no_room(change, base, onto):
            settled[change.path] = change.after
        elif there == change.after:
            already.append(change.path)
        else:
            unsettled.append(change.path)
            if both_gone or _needs_whole_tree(change, there, adds=adds):
                need = Need.WHOLE_TREE
            elif need is Need.NOTHING:
                need = Need.CONTENTS
    if need is Need.WHOLE_TREE:
        # A rename can pair any two of the patch's paths: git then merges all of them.
        unsettled += settled
        settled = {}
    return Plan(settled=settled, unsettled=tuple(unsettled), already=tuple(already), need=need)


def _needs_whole_tree(change: Change, there: Entry | None, *, adds: bool) -> bool:
    """Whether git must look for renames: upstream's of this path, or the patch's own of a file that upstream edited."""
    if there is None or (change.before is None and not _is_content(there)):
        return True
    return adds and change.after is None


def _is_content(entry: Entry) -> bool:
    return entry.mode in _CONTENT


def _both_removed(changes: Sequence[Change], onto: SourceTree) -> bool:
    """Whether the patch may have renamed a file that upstream removed or renamed too: only git tells these apart."""
    if not any(change.before is None for change in changes):
        return False
    return any(
        change.after is None and change.before is not None and onto.entry(change.path) is None
        for change in changes
    )


def _no_room(change: Change, base: SourceTree, onto: SourceTree) -> bool:
    """Whether a new file's folder may have moved upstream, or a file and a folder would have the same name."""
    if change.before is not None or change.after is None:
        return False
    folders = change.path.split("/")[:-1]
    above = ("/".join(folders[:depth]) for depth in range(1, len(folders) + 1))
    if onto.has_folder(change.path) or any(onto.entry(folder) is not None for folder in above):
        return True
    return _folder_moved(change, base, onto)


def _folder_moved(change: Change, base: SourceTree, onto: SourceTree) -> bool:
    """Whether a new file's folder may have been renamed upstream: nothing that was beside it is there."""
    folder = change.path.rpartition("/")[0]
    return bool(folder) and base.has_folder(folder) and not onto.has_folder(folder)


def moved_paths(
    changes: Sequence[Change], base: SourceTree, onto: SourceTree, touched: Iterable[str]
) -> dict[str, str]:
    """Where upstream moved the patch's files, as the merge followed them: path on the base to path in the new tree.

    Args:
        changes: what the patch did on its base.
        base: the base with the patches before it.
        onto: the new tree with the patches carried so far.
        touched: the paths that the merge set or left in conflict.
    """
    own = {change.path for change in changes}
    gone = [
        change.path for change in changes if change.before is not None and onto.entry(change.path) is None
    ]
    there = [path for path in touched if path not in own and onto.entry(path) is not None] if gone else []
    scored = sorted(
        ((_likeness(base.read(old), onto.read(new)), old, new) for old in gone for new in there), reverse=True
    )
    found: dict[str, str] = {}
    for _likest, old, new in scored:
        if old not in found and new not in found.values():
            found[old] = new
    return found


def _likeness(one: bytes | None, other: bytes | None) -> float:
    """The share of lines that two contents have in common, 0..1."""
    left, right = Counter((one or b"").split(b"\n")), Counter((other or b"").split(b"\n"))
    return (left & right).total() / max(left.total(), right.total())


def applies_in_place(files: Sequence[FileDiff], onto: SourceTree, result: SourceTree) -> bool:
    """Whether the patch's own hunks, at their own lines, turn `onto` into `result`: the diff is the same."""
    for file in files:
        if file.binary is not None or not file.hunks or file.old_path is None or file.new_path is None:
            if any(onto.entry(path) is None for path in (file.old_path,) if path is not None):
                return False
            continue
        before, after = onto.read(file.old_path), result.read(file.new_path)
        if before is None or after is None:
            return False
        try:
            if apply_hunks(file.hunks, before) != after:
                return False
        except HunkMismatchError:
            return False
    return True
