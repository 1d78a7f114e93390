"""Carrying a whole series to another tree: what rebase, status, check and the others share.

It is optimistic: first every patch is merged and judged as if its probe will be green on the result, then all
probes run together, and where one is red the series is carried once more with that knowledge. So pytest starts
at most twice, and not at all when the answers are known.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property

from forktool.adapters.git_store import GitStore
from forktool.adapters.known_merges import KnownMerges
from forktool.adapters.patchset_files import Patchset
from forktool.adapters.probes import ProbeResult, Probes
from forktool.commands.absorbing import Absorbers
from forktool.commands.ahead import AppliedSeries, merge_ahead
from forktool.commands.carrying import Carrier, apply_series, with_answer
from forktool.commands.judged import Judged
from forktool.commands.meeting import Meeting
from forktool.commands.replayed import NeedsWholeTreeError, Replayed, Review, Settled, Step, Stop
from forktool.core.series import PatchName
from forktool.core.tree import SourceTree
from forktool.core.verdict import Decision, Facts, judge

__all__ = ["NeedsWholeTreeError", "Replayed", "Replayer", "Review", "Settled", "Step", "Stop"]

_log = logging.getLogger(__name__)


class Replayer:
    """Replays one patchset, onto as many trees as are asked for.

    Args:
        patchset: the series and where it is.
        base: the tree that its patches apply to exactly.
        store: for merges.
        probes: the patchset's probes.
    """

    def __init__(self, patchset: Patchset, base: SourceTree, store: GitStore, probes: Probes) -> None:
        self._patchset = patchset
        self._base = base
        self._store = store
        self._probes = probes
        self._known = KnownMerges(store)
        self._judged: Judged[Meeting] = Judged()

    @cached_property
    def _applied(self) -> AppliedSeries:
        return apply_series(self._patchset, self._base)

    def replay(
        self,
        trees: Sequence[SourceTree],
        *,
        decisions: Mapping[PatchName, Decision] | None = None,
        settled: Mapping[PatchName, Settled] | None = None,
        history: Mapping[str, Absorbers] | None = None,
    ) -> tuple[Replayed, ...]:
        """Replay onto each tree, probes included.

        Args:
            trees: where to.
            decisions: what a person decided of a patch.
            settled: how a person settled a patch's conflict.
            history: the commits that absorbed each patch, by the label of a tree.

        Raises:
            PatchsetError: a patch does not apply to the base exactly, or a probe cannot be run.
            GitError: git failed.
            NeedsWholeTreeError: a tree read in part is not enough.
        """
        names = self._patchset.series.names
        bare = self._probes.run([(name, tree) for tree in trees for name in names])
        merge_ahead(self._known, self._applied, trees)
        passes = [
            Carrier(
                patchset=self._patchset,
                applied=self._applied,
                store=self._store,
                known=self._known,
                judged=self._judged,
                onto=tree,
                bare={name: bare[name, tree] for name in names},
                decisions=decisions or {},
                settled=settled or {},
                history=(history or {}).get(tree.label, {}),
            )
            for tree in trees
        ]
        found = [one.run() for one in passes]
        pending = list(range(len(passes)))
        while pending:
            asked = [(step.patch.name, found[at].result) for at in pending for step in found[at].carried]
            answers = self._probes.run(asked)
            again: list[int] = []
            for at in pending:
                here = {
                    step.patch.name: answers[step.patch.name, found[at].result] for step in found[at].carried
                }
                if passes[at].learns_red(here):
                    found[at] = passes[at].run()
                    again.append(at)
                else:
                    found[at] = _with_answers(found[at], here)
            pending = again
        _log.debug(
            "judged %d patches on %d trees, and %d more by what is the same there",
            self._judged.alone, len(trees), self._judged.shared,
        )  # fmt: skip
        return tuple(found)


def _with_answers(replayed: Replayed, answers: Mapping[PatchName, ProbeResult]) -> Replayed:
    steps = tuple(
        _with_answer(step, step.facts, answers.get(step.patch.name)) if step.facts is not None else step
        for step in replayed.steps
    )
    return replace(replayed, steps=steps)


def _with_answer(step: Step, facts: Facts, answer: ProbeResult | None) -> Step:
    known = with_answer(facts, answer)
    return replace(step, facts=known, outcome=judge(step.patch.name, known))
