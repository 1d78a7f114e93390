"""Carrying one series to one tree: each patch is merged, looked at and judged, until one stops."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property

from forktool.adapters.git_merge import Merge, merge_contents
from forktool.adapters.git_store import GitStore, GitTree
from forktool.adapters.known_merges import KnownMerges
from forktool.adapters.moved_files import MovedFiles
from forktool.adapters.patchset_files import RESOLUTIONS, Patchset
from forktool.adapters.probes import ABSENT, ProbeResult
from forktool.adapters.rerere import recorded, replay_resolutions
from forktool.commands.absorbing import Absorbers
from forktool.commands.ahead import AppliedSeries
from forktool.commands.judged import Judged, judging_key
from forktool.commands.meeting import Meeting, marked_texts, meeting_findings
from forktool.commands.replayed import NeedsWholeTreeError, Replayed, Review, Settled, Step, Stop
from forktool.core.absorption import absorbed_fact, content_fact
from forktool.core.apply import Change, apply_patch
from forktool.core.objects import Entry, blob_id
from forktool.core.replay import Need, Plan, applies_in_place, moved_paths, plan_replay
from forktool.core.series import Patch, PatchName
from forktool.core.splicing import new_words, splice
from forktool.core.structural import resolve
from forktool.core.syntax import is_python, syntax_unread
from forktool.core.tree import Overlay, SourceTree
from forktool.core.verdict import (
    AbsorbedFact,
    ContentFact,
    Decision,
    Facts,
    MergeKind,
    Outcome,
    ProbeColour,
    Verdict,
    judge,
)

_LOOKED_AT = 3
"""Of so many commits that absorbed one patch the trees are looked at."""


def apply_series(patchset: Patchset, base: SourceTree) -> AppliedSeries:
    """Apply the whole series to its base.

    Raises:
        PatchsetError: a patch does not apply exactly.
    """
    result = Overlay(base)
    steps = tuple(
        (patch, apply_patch(patch, result, file=str(patchset.file(patch.name))))
        for patch in patchset.series.patches
    )
    return AppliedSeries(base=base, steps=steps, result=result)


def with_answer(facts: Facts, answer: ProbeResult | None) -> Facts:
    """The facts with what the probe said of the patched tree."""
    if answer is None:
        return facts
    return replace(facts, probe_patched=answer.colour, probe_detail=answer.detail)


class Carrier:
    """One series on one tree, repeatable with more knowledge of the probes."""

    def __init__(
        self,
        *,
        patchset: Patchset,
        applied: AppliedSeries,
        store: GitStore,
        known: KnownMerges,
        judged: Judged[Meeting],
        onto: SourceTree,
        bare: Mapping[PatchName, ProbeResult],
        decisions: Mapping[PatchName, Decision],
        settled: Mapping[PatchName, Settled],
        history: Absorbers,
    ) -> None:
        self._patchset = patchset
        self._applied = applied
        self._base = applied.base
        self._store = store
        self._known = known
        self._judged = judged
        self._onto = onto
        self._bare = bare
        self._decisions = decisions
        self._settled = settled
        self._history = history
        self._red: dict[PatchName, ProbeResult] = {}
        self._one_sided: set[str] = set()

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
        self._one_sided.clear()
        for patch, changes in self._applied.steps:
            if stop is not None:
                outcome = Outcome(name=patch.name, verdict=Verdict.NOT_REACHED)
                steps.append(Step(patch=patch, outcome=outcome))
                continue
            self._applied.set(after, changes)
            meeting = self._meet(patch, changes, before, after, target)
            facts = with_answer(meeting.facts, self._red.get(patch.name))
            outcome = judge(patch.name, facts)
            if outcome.verdict.is_carried:
                for path, entry in meeting.changes.items():
                    target.set(path, entry, meeting.contents.get(entry.oid) if entry else None)
            elif outcome.verdict.is_stop:
                paths = [change.path for change in changes]
                stop = Stop(
                    patch=patch,
                    changes=changes,
                    stages=meeting.stages,
                    texts=meeting.texts,
                    messages=meeting.messages,
                    sides={path: (before.read(path), after.read(path)) for path in paths},
                    moved=self._moved_paths(changes, before, target, meeting),
                )
            steps.append(
                Step(
                    patch=patch, outcome=outcome, facts=facts, changes=meeting.changes, review=meeting.review
                )
            )
            self._applied.set(before, changes)
            self._note_one_sided((*(change.path for change in changes), *meeting.changes), before, target)
        return Replayed(onto=self._onto, steps=tuple(steps), result=target, stop=stop)

    def _note_one_sided(self, paths: Iterable[str], before: Overlay, target: Overlay) -> None:
        """Keep count of the files that the series left on one of the two trees alone."""
        for path in paths:
            is_one_sided = (before.entry(path) is None) is not (target.entry(path) is None)
            (self._one_sided.add if is_one_sided else self._one_sided.discard)(path)

    def _target(self) -> Overlay:
        return Overlay(self._onto, label=f"{self._onto.label} with the series")

    def _meet(
        self, patch: Patch, changes: tuple[Change, ...], before: Overlay, after: Overlay, target: Overlay
    ) -> Meeting:
        plan = plan_replay(changes, before, target)
        if plan.is_trivial or patch.name in self._settled or patch.name in self._decisions:
            return self._judge(patch, changes, plan, before, after, target)
        key = judging_key(
            patch, plan, before=before, after=after, target=target, bare=self._onto, history=self._history,
            probe=self._bare.get(patch.name, ABSENT).colour,
        )  # fmt: skip
        meeting = self._judged.recall(key)
        if meeting is None:
            meeting = self._judge(patch, changes, plan, before, after, target)
            self._judged.keep(key, meeting)
        elif meeting.stages:
            # What git says of a conflict names the tree.
            meeting = meeting.on(self._onto.label, self._merge(patch, plan, before, after, target))
        return meeting

    def _judge(
        self,
        patch: Patch,
        changes: tuple[Change, ...],
        plan: Plan,
        before: Overlay,
        after: Overlay,
        target: Overlay,
    ) -> Meeting:
        meeting = self._merge(patch, plan, before, after, target)
        facts = self._facts(patch, changes, plan, meeting, before, after, target)
        if meeting.kind is MergeKind.CONFLICT and not judge(patch.name, facts).verdict.is_dropped:
            settled = self._settle(patch, meeting, target)
            if settled is not None:
                meeting = settled
                # What upstream has of the patch is the same as before it was settled.
                moved = self._moved_paths(changes, before, target, meeting)
                facts = replace(
                    facts,
                    merge=meeting.kind,
                    merge_detail=self._detail(meeting, changes, before, after, target),
                    findings=meeting_findings(changes, before, after, target, meeting, moved, patch.renames),
                )
        return replace(meeting, facts=facts)

    @staticmethod
    def _moved_paths(
        changes: Iterable[Change], before: Overlay, target: Overlay, meeting: Meeting
    ) -> Mapping[str, str]:
        touched = dict.fromkeys((*meeting.changes, *meeting.stages))
        return moved_paths(tuple(changes), before, target, touched)

    def _facts(
        self,
        patch: Patch,
        changes: tuple[Change, ...],
        plan: Plan,
        meeting: Meeting,
        before: Overlay,
        after: Overlay,
        target: Overlay,
    ) -> Facts:
        moved = self._moved_paths(changes, before, target, meeting)
        in_place = plan.is_trivial or (
            meeting.kind is MergeKind.CLEAN and applies_in_place(patch.files, target, meeting.over(target))
        )
        looked_at = [
            change
            for change in changes
            if not plan.is_trivial and not self._is_spliced(change, meeting, before, after, target)
        ]
        content = self._content(looked_at, before, after, moved)
        if content is not None and len(looked_at) < len(changes):
            # Upstream has nothing of the other paths.
            share = content.share * len(looked_at) / len(changes)
            content = replace(content, is_full=False, target_gone=False, share=share)
        findings = meeting_findings(looked_at, before, after, target, meeting, moved, patch.renames)
        return Facts(
            merge=meeting.kind,
            merge_detail=self._detail(meeting, looked_at, before, after, target),
            in_place=in_place,
            content=content,
            absorbed=() if plan.is_trivial else self._absorbed(patch, changes, before, after, moved, content),
            probe_bare=self._bare.get(patch.name, ABSENT).colour,
            findings=findings,
            conflicts=tuple(meeting.stages),
            decision=self._decisions.get(patch.name),
            by_hand=patch.name in self._settled,
        )

    def _detail(
        self,
        meeting: Meeting,
        changes: Iterable[Change],
        before: Overlay,
        after: Overlay,
        target: Overlay,
    ) -> str:
        """How the merge went, and what of it could not be looked at."""
        return "; ".join(filter(None, (meeting.detail, *self._unread(changes, before, after, target))))

    def _unread(
        self, changes: Iterable[Change], before: Overlay, after: Overlay, target: Overlay
    ) -> Iterator[str]:
        """What is not judged as it would be, since a file is too large."""
        for path in (change.path for change in changes):
            if is_python(path):
                yield syntax_unread(
                    path, before.read(path), after.read(path), target.read(path), self._onto.read(path)
                )

    def _is_spliced(
        self, change: Change, meeting: Meeting, before: Overlay, after: Overlay, target: Overlay
    ) -> bool:
        """Whether the merge of a path is proved to be right, and upstream to have none of its change."""
        path = change.path
        entry = meeting.changes.get(path)
        if entry is None or meeting.kind is not MergeKind.CLEAN or not path.endswith(".py"):
            return False
        texts = (before.read(path), after.read(path), target.read(path), meeting.contents.get(entry.oid))
        if not is_python(path, *texts) or any(text is None for text in texts):
            return False
        old, new, upstream, merged = (text or b"" for text in texts)
        bare = self._onto.read(path) or b""
        return splice(old, new, upstream) == merged and not any(word in bare for word in new_words(old, new))

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

    def _absorbed(
        self,
        patch: Patch,
        changes: Iterable[Change],
        before: Overlay,
        after: Overlay,
        moved: Mapping[str, str],
        now: ContentFact | None,
    ) -> tuple[AbsorbedFact, ...]:
        """What the commits that history names had of the patch themselves, since later ones may have changed it."""
        found: list[AbsorbedFact] = []
        for absorber in self._history.get(patch.name, ())[:_LOOKED_AT]:
            then: ContentFact | None = None
            if now is None or not now.is_full:
                tree = self._store.tree(self._store.tree_of(absorber.oid), label=absorber.oid[:12])
                then = content_fact(
                    [
                        (path, before.read(path), after.read(path), tree.read(path) or tree.read(there))
                        for path in (change.path for change in changes)
                        for there in (moved.get(path, path),)
                    ]
                )
            fact = absorbed_fact(absorber, then=then, now=now)
            if fact is not None:
                found.append(fact)
        return tuple(found)

    def _merge(self, patch: Patch, plan: Plan, before: Overlay, after: Overlay, target: Overlay) -> Meeting:
        settled_here = dict(plan.settled)
        contents = {
            entry.oid: content
            for path, entry in settled_here.items()
            if entry is not None and (content := after.read(path)) is not None
        }
        by_hand = self._settled.get(patch.name)
        if by_hand is not None:
            kind = MergeKind.RESOLVED if by_hand.entries else MergeKind.EMPTY
            return Meeting(
                kind=kind,
                detail="settled by hand",
                by_person=True,
                changes=dict(by_hand.entries),
                contents=dict(by_hand.contents),
            )
        if not plan.unsettled:
            kind = MergeKind.UNTOUCHED if plan.is_trivial else MergeKind.CLEAN
            return Meeting(
                kind=kind if settled_here else MergeKind.EMPTY, changes=settled_here, contents=contents
            )
        merge = self._git_merge(patch, plan, before, after, target)
        changes = {**settled_here, **merge.changes}
        contents |= merge.contents
        if merge.is_clean:
            kind = MergeKind.CLEAN if changes else MergeKind.EMPTY
            return Meeting(kind=kind, changes=changes, contents=contents)
        return Meeting(
            kind=MergeKind.CONFLICT,
            detail=next((text for text in merge.messages if text.startswith("CONFLICT")), ""),
            changes=changes,
            contents=contents,
            stages=merge.conflicts,
            texts=marked_texts(merge),
            messages=merge.messages,
        )

    def _git_merge(self, patch: Patch, plan: Plan, before: Overlay, after: Overlay, target: Overlay) -> Merge:
        labels = (self._base.label, self._onto.label, patch.name)
        if plan.need is Need.CONTENTS:
            merge = self._known.merge(plan.unsettled, base=before, ours=target, theirs=after, labels=labels)
            return merge or merge_contents(
                self._store, plan.unsettled, base=before, ours=target, theirs=after, labels=labels
            )
        if self._moved is None:
            raise NeedsWholeTreeError(f"{self._onto.label} moved or removed {', '.join(plan.unsettled)}")
        paths = (*plan.unsettled, *plan.already, *sorted(self._one_sided))
        return self._moved.merge(paths, base=before, ours=target, theirs=after, labels=labels)

    @cached_property
    def _moved(self) -> MovedFiles | None:
        if not isinstance(self._base, GitTree) or not isinstance(self._onto, GitTree):
            return None
        return MovedFiles(self._store, self._base, self._onto)

    def _settle(self, patch: Patch, conflict: Meeting, target: Overlay) -> Meeting | None:
        """Try recorded, then structural resolutions; None where a path stays in conflict."""
        solved: dict[str, tuple[bytes, str]] = {}
        by_record: frozenset[str] = frozenset()
        folder = self._patchset.path / RESOLUTIONS
        if conflict.texts and recorded(folder):
            stages = {path: (conflict.stages[path], text) for path, text in conflict.texts.items()}
            found = replay_resolutions(self._store, folder, stages)
            by_record = frozenset(found)
            solved |= {path: (content, f"recorded resolution in {path}") for path, content in found.items()}
        review: list[Review] = []
        for path, text in conflict.texts.items():
            if path in solved:
                continue
            resolution = resolve(path, conflicted=text)
            if resolution is None:
                return None
            solved[path] = (resolution.content, f"structural resolution in {path}")
            labels = (self._onto.label, patch.name, "result")
            for region in resolution.regions:
                texts = (region.ours, region.theirs, region.result)
                review.append(
                    Review(path=path, line=region.line, sides=tuple(zip(labels, texts, strict=True)))
                )
        if set(solved) != set(conflict.stages):
            return None
        changes, contents = dict(conflict.changes), dict(conflict.contents)
        for path, (content, _how) in solved.items():
            marked = changes[path]
            if marked is not None:
                changes[path] = Entry(marked.mode, blob_id(content))
                contents[blob_id(content)] = content
        changes = {path: entry for path, entry in changes.items() if entry != target.entry(path)}
        return replace(
            conflict,
            kind=MergeKind.RESOLVED if changes else MergeKind.EMPTY,
            detail="; ".join(how for _content, how in solved.values()),
            changes=changes,
            contents=contents,
            review=tuple(review),
            by_person=bool(by_record),
        )
