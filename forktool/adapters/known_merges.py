"""Merges of single files by their contents, each made once, as many in one process as are asked for together.

A merge is a function of three entries and nothing else. So what is known of one tree holds for every other one where
the file is the same, and a merge that was made ahead, on a guess, counts exactly where the guess was right.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from forktool.adapters.git_merge import Merge, Stages, content_to_write, merge_entries
from forktool.adapters.git_store import GitStore
from forktool.core.objects import Entry, Mode, Oid, blob_id
from forktool.core.tree import SourceTree

_LABELS = ("0" * 39 + "b", "0" * 39 + "o", "0" * 39 + "p")
"""Stand for the names of base, ours and theirs in conflict markers until it is known which are meant."""
_NAME = re.compile(r"\bfile-\d+\b")
_PATH = "\0"
_CONTENT = (Mode.FILE, Mode.EXECUTABLE)

Contents = tuple[bytes | None, bytes | None, bytes | None]
"""Of base, ours and theirs; None where git's store has it."""


@dataclass(frozen=True, slots=True)
class ThreeWay:
    """What is merged: one file on the base, in the new tree, and with the patch."""

    base: Entry
    ours: Entry
    theirs: Entry


@dataclass(frozen=True, kw_only=True, slots=True)
class FileMerge:
    """The outcome: an entry, its content unless it is that of `ours`, and the stages where it is a conflict.

    `messages` are git's, with stand-ins for the path and the labels.
    """

    entry: Entry
    content: bytes | None
    stages: Stages | None = None
    messages: tuple[str, ...] = ()


def three_way(base: Entry | None, ours: Entry | None, theirs: Entry | None) -> ThreeWay | None:
    """The merge of three plain files; None where one is missing, or is a link or a submodule."""
    if base is None or ours is None or theirs is None:
        return None
    if any(entry.mode not in _CONTENT for entry in (base, ours, theirs)):
        return None
    return ThreeWay(base, ours, theirs)


class KnownMerges:
    """The merges made so far.

    Args:
        store: where git works; nothing is left in it.
    """

    def __init__(self, store: GitStore) -> None:
        self._store = store
        self._known: dict[ThreeWay, FileMerge] = {}
        self._written: set[Oid] = set()

    def get(self, wanted: ThreeWay) -> FileMerge | None:
        """A merge, if it was made."""
        return self._known.get(wanted)

    def learn(self, wanted: Mapping[ThreeWay, Contents]) -> None:
        """Make merges, in one process.

        Raises:
            GitError: git failed.
        """
        unknown = [one for one in wanted if one not in self._known]
        new = {f"file-{number}": one for number, one in enumerate(unknown)}
        if not new:
            return
        contents = {
            entry.oid: content
            for one in new.values()
            for entry, content in zip((one.base, one.ours, one.theirs), wanted[one], strict=True)
            if content is not None and entry.oid not in self._written
        }
        sides = {name: (one.base, one.ours, one.theirs) for name, one in new.items()}
        merge = merge_entries(self._store, sides, contents, labels=_LABELS)
        messages: dict[str, list[str]] = defaultdict(list)
        for message in merge.messages:
            named = _NAME.search(message)
            if named is not None:
                messages[named[0]].append(message.replace(named[0], _PATH))
        for name, one in new.items():
            entry = merge.changes.get(name, one.ours) or one.ours
            stages = merge.conflicts.get(name)
            self._known[one] = FileMerge(
                entry=entry,
                content=merge.contents.get(entry.oid) if entry != one.ours else None,
                stages=stages,
                messages=tuple(messages[name]) if stages is not None else (),
            )
            if stages is None:
                self._written.add(entry.oid)

    def merge(
        self,
        paths: Sequence[str],
        *,
        base: SourceTree,
        ours: SourceTree,
        theirs: SourceTree,
        labels: tuple[str, str, str],
    ) -> Merge | None:
        """Merge some paths by their contents; None where one is not a plain file on all three sides.

        Args:
            paths: what to merge.
            base: the patch's parent.
            ours: the new tree.
            theirs: the patch's result.
            labels: names of base, ours and theirs in conflict markers.

        Raises:
            GitError: git failed.
        """
        sides = (base, ours, theirs)
        wanted: dict[str, ThreeWay] = {}
        for path in paths:
            one = three_way(base.entry(path), ours.entry(path), theirs.entry(path))
            if one is None:
                return None
            wanted[path] = one
        self.learn(
            {
                one: (
                    content_to_write(base, path),
                    content_to_write(ours, path),
                    content_to_write(theirs, path),
                )
                for path, one in wanted.items()
                if one not in self._known
            }
        )
        return _together({path: self._known[one] for path, one in wanted.items()}, sides[1], labels)


def _together(files: Mapping[str, FileMerge], ours: SourceTree, labels: tuple[str, str, str]) -> Merge:
    changes: dict[str, Entry | None] = {}
    contents: dict[Oid, bytes] = {}
    conflicts: dict[str, Stages] = {}
    messages: list[str] = []
    for path, merged in files.items():
        entry, content = merged.entry, merged.content
        if merged.stages is not None:
            conflicts[path] = merged.stages
            messages += (_labelled(message, labels).replace(_PATH, path) for message in merged.messages)
            if content is not None:
                for placeholder, label in zip(_LABELS, labels, strict=True):
                    content = content.replace(placeholder.encode(), label.encode())
                entry = Entry(entry.mode, blob_id(content))
        if content is not None:
            contents[entry.oid] = content
        if entry != ours.entry(path):
            changes[path] = entry
    return Merge(changes=changes, contents=contents, conflicts=conflicts, messages=tuple(messages))


def _labelled(text: str, labels: tuple[str, str, str]) -> str:
    for placeholder, label in zip(_LABELS, labels, strict=True):
        text = text.replace(placeholder, label)
    return text
