"""What was found of a patch on one tree, for every other tree where the same is to be found.

How a patch meets a tree depends on its own files there, with the series so far and without it, on what history says
of it and on its probe's answer on the bare tree. Where all of that is the same, so is the outcome. A patch whose
files upstream moved depends on more than its own files: it is judged on each tree anew.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

from forktool.adapters.known_merges import three_way
from forktool.commands.absorbing import Absorbers
from forktool.core.replay import Need, Plan
from forktool.core.series import Patch
from forktool.core.tree import SourceTree
from forktool.core.verdict import ProbeColour

_Found = TypeVar("_Found")


class Judged(Generic[_Found]):
    """What was found, by what it depends on; `alone` and `shared` count the patches judged and those spared."""

    def __init__(self) -> None:
        self._found: dict[Hashable, _Found] = {}
        self.alone = 0
        self.shared = 0

    def recall(self, key: Hashable | None) -> _Found | None:
        """What was found under a key; counts the question."""
        found = None if key is None else self._found.get(key)
        if found is None:
            self.alone += 1
        else:
            self.shared += 1
        return found

    def keep(self, key: Hashable | None, found: _Found) -> None:
        """Remember what was found; a patch without a key is not remembered."""
        if key is not None:
            self._found[key] = found


def judging_key(
    patch: Patch,
    plan: Plan,
    *,
    before: SourceTree,
    after: SourceTree,
    target: SourceTree,
    bare: SourceTree,
    history: Absorbers,
    probe: ProbeColour,
) -> Hashable | None:
    """All that the outcome of one patch depends on within one series; None where it depends on more.

    Args:
        patch: the patch.
        plan: what is settled of it.
        before: the base with the patches before it.
        after: the base with it.
        target: the new tree with the patches carried so far.
        bare: the new tree.
        history: the commits that absorbed each patch.
        probe: what its probe says of the bare tree.
    """
    if plan.need is Need.WHOLE_TREE:
        return None
    for path in plan.unsettled:
        if three_way(before.entry(path), target.entry(path), after.entry(path)) is None:
            return None
    there = tuple((target.entry(path), bare.entry(path)) for path in patch.paths)
    planned = (tuple(plan.settled), plan.unsettled, plan.already)
    absorbers = tuple((one.oid, one.sign, one.detail) for one in history.get(patch.name, ()))
    return patch.name, there, planned, absorbers, probe
