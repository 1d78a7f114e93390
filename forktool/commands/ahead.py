"""Merging ahead: what a whole series needs merged, on all trees, in a handful of processes.

The merges of one file depend on each other: a patch meets the file as the patches before it left it. How they will
leave it is guessed, so that all of them can be merged together; where a guess was wrong, the rest of that file's
merges are made in a further round. Guesses cost time when they are wrong and nothing else.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from forktool.adapters.git_store import GitTree
from forktool.adapters.known_merges import Contents, KnownMerges, ThreeWay, three_way
from forktool.core.apply import Change
from forktool.core.foresight import guess_merge
from forktool.core.objects import Entry, Oid, blob_id
from forktool.core.series import Patch
from forktool.core.tree import Overlay, SourceTree

_FIRST_LOOK = 8
"""So many merges of one file are guessed at first, twice as many in each further round."""


@dataclass(frozen=True, kw_only=True)
class AppliedSeries:
    """A series on its base: what each patch changes there, in order, and the result."""

    base: SourceTree
    steps: tuple[tuple[Patch, tuple[Change, ...]], ...]
    result: Overlay

    def set(self, tree: Overlay, changes: Iterable[Change]) -> None:
        """Make one patch's changes in a tree."""
        for change in changes:
            content = None
            if change.after is not None:
                content = self.result.blobs.get(change.after.oid)
            tree.set(change.path, change.after, content)

    def by_path(self) -> Mapping[str, Sequence[tuple[Patch, Change]]]:
        """What the patches do to each path, in order."""
        found: dict[str, list[tuple[Patch, Change]]] = defaultdict(list)
        for patch, changes in self.steps:
            for change in changes:
                found[change.path].append((patch, change))
        return found


def merge_ahead(known: KnownMerges, applied: AppliedSeries, trees: Sequence[SourceTree]) -> None:
    """Make the merges of plain files that the series will need on these trees, if it meets no conflict.

    Raises:
        GitError: git failed.
    """
    files = [
        _File(known=known, applied=applied, tree=tree, path=path, steps=steps)
        for path, steps in applied.by_path().items()
        for tree in trees
    ]
    look = _FIRST_LOOK
    while files:
        wanted = {one: contents for file in files for one, contents in file.wanted(look)}
        known.learn(wanted)
        files = [file for file in files if not file.is_done]
        look *= 2


@dataclass(kw_only=True)
class _File:
    """One file of one tree, as far as its merges are made."""

    known: KnownMerges
    applied: AppliedSeries
    tree: SourceTree
    path: str
    steps: Sequence[tuple[Patch, Change]]
    at: int = 0
    entry: Entry | None = None
    texts: dict[Oid, bytes] = field(default_factory=dict)
    is_done: bool = False

    def wanted(self, look: int) -> Iterator[tuple[ThreeWay, Contents]]:
        """The next merges that are not made, `look` at most; those after the first are guesses."""
        at, entry = self.at, self.entry if self.at else self.tree.entry(self.path)
        is_sure = True
        while at < len(self.steps) and look:
            patch, change = self.steps[at]
            if entry == change.before:
                entry = change.after
            elif entry != change.after:
                one = three_way(change.before, entry, change.after)
                if one is None:
                    break
                merged = self.known.get(one)
                if merged is not None and merged.stages is not None:
                    break
                if merged is None:
                    yield one, self._contents(one)
                    look -= 1
                    is_sure = False
                    entry = self._guess(patch, one) if at + 1 < len(self.steps) else None
                    if entry is None:
                        break
                else:
                    entry = merged.entry
                    if merged.content is not None:
                        self.texts[entry.oid] = merged.content
            at += 1
            if is_sure:
                self.at, self.entry = at, entry
        self.is_done = is_sure

    def _guess(self, patch: Patch, one: ThreeWay) -> Entry | None:
        ours = self._text(one.ours)
        guess = guess_merge(patch.files, self.path, ours) if ours is not None else None
        if guess is None:
            return None
        mode = one.theirs.mode if one.theirs.mode != one.base.mode else one.ours.mode
        entry = Entry(mode, blob_id(guess))
        self.texts[entry.oid] = guess
        return entry

    def _text(self, entry: Entry) -> bytes | None:
        """The content of a version of the file."""
        text = self.texts.get(entry.oid, self.applied.result.blobs.get(entry.oid))
        if text is None:
            text = next(
                (
                    tree.read(self.path)
                    for tree in (self.tree, self.applied.base)
                    if tree.entry(self.path) == entry
                ),
                None,
            )
        return text

    def _contents(self, one: ThreeWay) -> Contents:
        base, ours, theirs = (self._to_write(entry) for entry in (one.base, one.ours, one.theirs))
        return base, ours, theirs

    def _to_write(self, entry: Entry) -> bytes | None:
        """The content, unless the store has it."""
        for tree in (self.applied.base, self.tree):
            if isinstance(tree, GitTree) and tree.entry(self.path) == entry:
                return None
        return self._text(entry)
