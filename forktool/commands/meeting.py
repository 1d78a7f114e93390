"""How one patch met one tree: what it sets there, what is in conflict, and what may have gone wrong."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from forktool.adapters.git_merge import Merge, Stages
from forktool.adapters.rerere import has_markers
from forktool.commands.replayed import Review
from forktool.core.apply import Change
from forktool.core.findings import Finding, FindingKind, find_problems
from forktool.core.names import find_unbound
from forktool.core.objects import Entry, Oid
from forktool.core.tree import Overlay
from forktool.core.verdict import Facts, MergeKind

_LOSSES = frozenset({FindingKind.LOST_UPSTREAM, FindingKind.LOST_PATCH})


@dataclass(frozen=True, kw_only=True, slots=True)
class Meeting:
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

    def on(self, label: str, conflict: Meeting) -> Meeting:
        """The same on another tree, where git's conflict is the same but for the name of the tree."""
        is_conflict = self.kind is MergeKind.CONFLICT
        return replace(
            self,
            changes=conflict.changes if is_conflict else self.changes,
            contents=conflict.contents if is_conflict else self.contents,
            stages=conflict.stages,
            texts=conflict.texts,
            messages=conflict.messages,
            review=tuple(
                replace(one, sides=((label, one.sides[0][1]), *one.sides[1:])) for one in self.review
            ),
        )

    def over(self, tree: Overlay) -> Overlay:
        """The tree with these changes."""
        result = Overlay(tree)
        for path, entry in self.changes.items():
            result.set(path, entry, self.contents.get(entry.oid) if entry else None)
        return result


def marked_texts(merge: Merge) -> dict[str, bytes]:
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


def meeting_findings(
    changes: Iterable[Change],
    before: Overlay,
    after: Overlay,
    target: Overlay,
    meeting: Meeting,
    moved: Mapping[str, str],
    renamed: Mapping[str, str],
) -> tuple[Finding, ...]:
    """What looks wrong in the paths that upstream changed as well; nothing where a conflict is to be settled first.

    Args:
        changes: what the patch did on its base.
        before: the base with the patches before it.
        after: the base with it.
        target: the new tree with the patches carried so far.
        meeting: what the patch sets there.
        moved: where upstream moved the patch's files.
        renamed: where the patch moves files itself.
    """
    if meeting.kind is MergeKind.CONFLICT:
        return ()
    found: list[Finding] = []
    merged = meeting.over(target)
    for change in changes:
        there = moved.get(change.path, change.path)
        if target.entry(there) == change.before:
            continue
        goes_to = renamed.get(change.path) if change.after is None else None
        found += find_problems(
            goes_to or there,
            base=before.read(change.path),
            patched=after.read(goes_to or change.path),
            upstream=target.read(there),
            merged=merged.read(goes_to or there),
        )
        if meeting.kind is MergeKind.RESOLVED and not meeting.by_person:
            found += find_unbound(
                there, patched=after.read(change.path), upstream=target.read(there), merged=merged.read(there)
            )
    if meeting.by_person:
        # Whoever settles a conflict chooses which side's lines to lose.
        return tuple(finding for finding in found if finding.kind not in _LOSSES)
    return tuple(found)
