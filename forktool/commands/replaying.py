"""Carrying a whole series to another tree: the loop that rebase, status, check and the others share.

It is optimistic: first every patch is merged and judged as if its probe will be green on the result, then all
probes run together, and where one is red the series is carried once more with that knowledge. So pytest starts
at most twice, and not at all when the answers are known.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from forktool.adapters.git_merge import Merge, Stages, merge_contents, merge_trees
from forktool.adapters.git_store import GitStore, GitTree
from forktool.adapters.patchset_files import RESOLUTIONS, Patchset
from forktool.adapters.probes import ABSENT, ProbeResult, Probes
from forktool.adapters.rerere import has_markers, recorded, replay_resolutions
from forktool.core.absorption import content_fact
from forktool.core.apply import Change, apply_patch
from forktool.core.findings import Finding, FindingKind, find_problems
from forktool.core.objects import Entry, Oid, blob_id
from forktool.core.replay import Need, Plan, applies_in_place, moved_paths, plan_replay
from forktool.core.series import Patch, PatchName
from forktool.core.structural import resolve
from forktool.core.tree import Overlay, SourceTree
from forktool.core.verdict import (
    ContentFact,
    Decision,
    Facts,
    MergeKind,
    Outcome,
    ProbeColour,
    Verdict,
    judge,
)
from forktool.errors import RequestError


@dataclass(frozen=True, kw_only=True, slots=True)
class Review:
    """A conflict that was settled without a person, for one to look at: what each side said, and the result."""

    path: str
    line: int
    sides: tuple[tuple[str, bytes], ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """One patch of a replay: its verdict and, where it is carried, what it sets in the new tree."""

    patch: Patch
    outcome: Outcome
    facts: Facts | None = None
    changes: Mapping[str, Entry | None] = field(default_factory=dict)
    review: tuple[Review, ...] = ()
    """Every conflict that a structural resolution settled."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Stop:
    """Where a replay stopped: the patch, and the merge that a person must look at."""

    patch: Patch
    changes: tuple[Change, ...]
    stages: Mapping[str, Stages]
    texts: Mapping[str, bytes]
    """The conflicted files, with diff3 markers."""
    messages: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Replayed:
    """A series on a new tree. `result` is that tree with every carried patch."""

    onto: SourceTree
    steps: tuple[Step, ...]
    result: Overlay
    stop: Stop | None = None

    @property
    def is_complete(self) -> bool:
        """Whether every patch was settled."""
        return self.stop is None

    @property
    def carried(self) -> tuple[Step, ...]:
        """The steps whose patch is in the result, in order."""
        return tuple(step for step in self.steps if step.outcome.verdict.is_carried)


@dataclass(frozen=True, kw_only=True, slots=True)
class Settled:
    """A conflict that a person settled: the entries of the paths, with their contents."""

    entries: Mapping[str, Entry | None]
    contents: Mapping[Oid, bytes]


_LOSSES = frozenset({FindingKind.LOST_UPSTREAM, FindingKind.LOST_PATCH})


class NeedsWholeTreeError(RequestError):
    """A tree that was read in part cannot answer: upstream moved or removed a file of the series."""


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

    def replay(
        self,
        trees: Sequence[SourceTree],
        *,
        decisions: Mapping[PatchName, Decision] | None = None,
        settled: Mapping[PatchName, Settled] | None = None,
        history: Mapping[PatchName, tuple[str, ...]] | None = None,
    ) -> tuple[Replayed, ...]:
        """Replay onto each tree, probes included.

        Args:
            trees: where to.
            decisions: what a person decided of a patch.
            settled: how a person settled a patch's conflict.
            history: what upstream's history says of a patch, one line a fact.

        Raises:
            PatchsetError: a patch does not apply to the base exactly, or a probe cannot be run.
            GitError: git failed.
            NeedsWholeTreeError: a tree read in part is not enough.
        """
        names = self._patchset.series.names
        bare = self._probes.run([(name, tree) for tree in trees for name in names])
        passes = [
            _Pass(
                patchset=self._patchset,
                base=self._base,
                store=self._store,
                onto=tree,
                bare={name: bare[name, tree] for name in names},
                decisions=decisions or {},
                settled=settled or {},
                history=history or {},
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
        return tuple(found)


def _with_answers(replayed: Replayed, answers: Mapping[PatchName, ProbeResult]) -> Replayed:
    steps = tuple(
        replace(step, outcome=judge(step.patch.name, _asked(step.facts, answers.get(step.patch.name))))
        if step.facts is not None
        else step
        for step in replayed.steps
    )
    return replace(replayed, steps=steps)


def _asked(facts: Facts, answer: ProbeResult | None) -> Facts:
    if answer is None:
        return facts
    return replace(facts, probe_patched=answer.colour, probe_detail=answer.detail)


class _Pass:
    """One series on one tree, repeatable with more knowledge of the probes."""

    def __init__(
        self,
        *,
        patchset: Patchset,
        base: SourceTree,
        store: GitStore,
        onto: SourceTree,
        bare: Mapping[PatchName, ProbeResult],
        decisions: Mapping[PatchName, Decision],
        settled: Mapping[PatchName, Settled],
        history: Mapping[PatchName, tuple[str, ...]],
    ) -> None:
        self._patchset = patchset
        self._base = base
        self._store = store
        self._onto = onto
        self._bare = bare
        self._decisions = decisions
        self._settled = settled
        self._history = history
        self._red: dict[PatchName, ProbeResult] = {}

    def learns_red(self, answers: Mapping[PatchName, ProbeResult]) -> bool:
        """Remember the first probe that is red on the result; whether there was a new one."""
        for name, answer in answers.items():
            if answer.colour is ProbeColour.RED and name not in self._red:
                self._red[name] = answer
                return True
        return False

    def run(self) -> Replayed:
        """Carry patch after patch until one stops."""
        before, after, target = Overlay(self._base), Overlay(self._base), self._target()
        steps: list[Step] = []
        stop: Stop | None = None
        for patch in self._patchset.series.patches:
            if stop is not None:
                outcome = Outcome(name=patch.name, verdict=Verdict.NOT_REACHED)
                steps.append(Step(patch=patch, outcome=outcome))
                continue
            changes = apply_patch(patch, after, file=str(self._patchset.file(patch.name)))
            meeting = self._meet(patch, changes, before, after, target)
            facts = _asked(meeting.facts, self._red.get(patch.name))
            outcome = judge(patch.name, facts)
            if outcome.verdict.is_carried:
                for path, entry in meeting.changes.items():
                    target.set(path, entry, meeting.contents.get(entry.oid) if entry else None)
            elif outcome.verdict.is_stop:
                stop = Stop(
                    patch=patch, changes=changes, stages=meeting.stages, texts=meeting.texts,
                    messages=meeting.messages,
                )  # fmt: skip
            steps.append(
                Step(
                    patch=patch, outcome=outcome, facts=facts, changes=meeting.changes, review=meeting.review
                )
            )
            for change in changes:
                before.set(change.path, change.after, after.read(change.path))
        return Replayed(onto=self._onto, steps=tuple(steps), result=target, stop=stop)

    def _target(self) -> Overlay:
        return Overlay(self._onto, label=f"{self._onto.label} with the series")

    def _meet(
        self, patch: Patch, changes: tuple[Change, ...], before: Overlay, after: Overlay, target: Overlay
    ) -> _Meeting:
        plan = plan_replay(changes, before, target)
        meeting = self._merge(patch, plan, before, after, target)
        touched = dict.fromkeys((*meeting.changes, *meeting.stages))
        moved = moved_paths(changes, before, target, touched)
        content = None
        if not plan.is_trivial:
            content = self._content(changes, before, after, moved)
        in_place = plan.is_trivial or (
            meeting.kind is MergeKind.CLEAN and applies_in_place(patch.files, target, meeting.over(target))
        )
        findings = () if plan.is_trivial else _findings(changes, before, after, target, meeting, moved)
        if meeting.by_person:
            # Whoever settles a conflict chooses which side's lines to lose.
            findings = tuple(finding for finding in findings if finding.kind not in _LOSSES)
        facts = Facts(
            merge=meeting.kind,
            merge_detail=meeting.detail,
            in_place=in_place,
            content=content,
            history=self._history.get(patch.name, ()),
            probe_bare=self._bare.get(patch.name, ABSENT).colour,
            findings=findings,
            conflicts=tuple(meeting.stages),
            decision=self._decisions.get(patch.name),
            by_hand=patch.name in self._settled,
        )
        return replace(meeting, facts=facts)

    def _content(
        self, changes: Iterable[Change], before: Overlay, after: Overlay, moved: Mapping[str, str]
    ) -> ContentFact | None:
        there = {change.path: moved.get(change.path, change.path) for change in changes}
        return content_fact(
            [
                (there[path], before.read(path), after.read(path), self._onto.read(there[path]))
                for path in there
            ]
        )

    def _merge(self, patch: Patch, plan: Plan, before: Overlay, after: Overlay, target: Overlay) -> _Meeting:
        settled_here = dict(plan.settled)
        contents = {
            entry.oid: content
            for path, entry in settled_here.items()
            if entry is not None and (content := after.read(path)) is not None
        }
        by_hand = self._settled.get(patch.name)
        if by_hand is not None:
            kind = MergeKind.RESOLVED if by_hand.entries else MergeKind.EMPTY
            return _Meeting(
                kind=kind,
                detail="settled by hand",
                by_person=True,
                changes=dict(by_hand.entries),
                contents=dict(by_hand.contents),
            )
        if not plan.unsettled:
            kind = MergeKind.UNTOUCHED if plan.is_trivial else MergeKind.CLEAN
            return _Meeting(
                kind=kind if settled_here else MergeKind.EMPTY, changes=settled_here, contents=contents
            )
        merge = self._git_merge(patch, plan, before, after, target)
        changes = {**settled_here, **merge.changes}
        contents |= merge.contents
        if merge.is_clean:
            kind = MergeKind.CLEAN if changes else MergeKind.EMPTY
            return _Meeting(kind=kind, changes=changes, contents=contents)
        return self._settle(patch, merge, changes, contents, target)

    def _git_merge(self, patch: Patch, plan: Plan, before: Overlay, after: Overlay, target: Overlay) -> Merge:
        labels = (self._base.label, self._onto.label, patch.name)
        if plan.need is Need.CONTENTS:
            return merge_contents(
                self._store, plan.unsettled, base=before, ours=target, theirs=after, labels=labels
            )
        root, onto = self._base, self._onto
        if not isinstance(root, GitTree) or not isinstance(onto, GitTree):
            raise NeedsWholeTreeError(f"{onto.label} moved or removed {', '.join(plan.unsettled)}")
        return merge_trees(
            self._store, base=before, ours=target, theirs=after, root=root, onto=onto, labels=labels
        )

    def _settle(
        self,
        patch: Patch,
        merge: Merge,
        changes: dict[str, Entry | None],
        contents: dict[Oid, bytes],
        target: Overlay,
    ) -> _Meeting:
        """Try recorded, then structural resolutions on what conflicts."""
        texts = _marked_texts(merge)
        solved: dict[str, tuple[bytes, str]] = {}
        by_record: frozenset[str] = frozenset()
        folder = self._patchset.path / RESOLUTIONS
        if texts and recorded(folder):
            stages = {path: (merge.conflicts[path], text) for path, text in texts.items()}
            found = replay_resolutions(self._store, folder, stages)
            by_record = frozenset(found)
            solved |= {path: (content, f"recorded resolution in {path}") for path, content in found.items()}
        review: list[Review] = []
        for path, text in texts.items():
            if path in solved:
                continue
            resolution = resolve(path, conflicted=text)
            if resolution is None:
                continue
            solved[path] = (resolution.content, f"structural resolution in {path}")
            review += [
                Review(
                    path=path,
                    line=region.line,
                    sides=(
                        (self._onto.label, region.ours),
                        (patch.name, region.theirs),
                        ("result", region.result),
                    ),
                )
                for region in resolution.regions
            ]
        if set(solved) != set(merge.conflicts):
            detail = next((text for text in merge.messages if text.startswith("CONFLICT")), "")
            return _Meeting(
                kind=MergeKind.CONFLICT, detail=detail, changes=changes, contents=contents,
                stages=merge.conflicts, texts=texts, messages=merge.messages,
            )  # fmt: skip
        for path, (content, _how) in solved.items():
            marked = changes[path]
            if marked is not None:
                changes[path] = Entry(marked.mode, blob_id(content))
                contents[blob_id(content)] = content
        ours = {path: target.entry(path) for path in changes}
        changes = {path: entry for path, entry in changes.items() if entry != ours[path]}
        return _Meeting(
            kind=MergeKind.RESOLVED if changes else MergeKind.EMPTY,
            detail="; ".join(how for _content, how in solved.values()),
            changes=changes,
            contents=contents,
            stages=merge.conflicts,
            texts=texts,
            messages=merge.messages,
            review=tuple(review),
            by_person=any(path in by_record for path in solved),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class _Meeting:
    """How one patch met the new tree."""

    kind: MergeKind
    detail: str = ""
    changes: dict[str, Entry | None] = field(default_factory=dict)
    contents: dict[Oid, bytes] = field(default_factory=dict)
    stages: Mapping[str, Stages] = field(default_factory=dict)
    texts: Mapping[str, bytes] = field(default_factory=dict)
    messages: tuple[str, ...] = ()
    review: tuple[Review, ...] = ()
    by_person: bool = False
    facts: Facts = field(default_factory=lambda: Facts(merge=MergeKind.CLEAN))

    def over(self, tree: Overlay) -> Overlay:
        """The tree with these changes."""
        result = Overlay(tree)
        for path, entry in self.changes.items():
            result.set(path, entry, self.contents.get(entry.oid) if entry else None)
        return result


def _marked_texts(merge: Merge) -> dict[str, bytes]:
    """The conflicted paths for which git wrote a text with markers."""
    texts: dict[str, bytes] = {}
    for path, stages in merge.conflicts.items():
        entry = merge.changes.get(path)
        if entry is None or stages.ours is None or stages.theirs is None:
            continue
        content = merge.contents.get(entry.oid, b"")
        if has_markers(content):
            texts[path] = content
    return texts


def _findings(
    changes: Iterable[Change],
    before: Overlay,
    after: Overlay,
    target: Overlay,
    meeting: _Meeting,
    moved: Mapping[str, str],
) -> tuple[Finding, ...]:
    if meeting.kind is MergeKind.CONFLICT:
        return ()
    found: list[Finding] = []
    merged = meeting.over(target)
    for change in changes:
        there = moved.get(change.path, change.path)
        if target.entry(there) == change.before:
            continue
        found += find_problems(
            there,
            base=before.read(change.path),
            patched=after.read(change.path),
            upstream=target.read(there),
            merged=merged.read(there),
        )
    return tuple(found)
