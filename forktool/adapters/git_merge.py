"""Three-way merges by git itself, in the object store: no work tree, no index, one process a merge.

`git merge-tree --write-tree` (git-merge-tree(1)) takes the merge base from history; git 2.39 has no
`--merge-base`. So each merge gets two throw-away commits: the patch's parent, and the new tree as its child.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from forktool.adapters.git_store import GitStore, GitTree
from forktool.core.objects import (
    EMPTY_TREE,
    Entry,
    Mode,
    NewObject,
    Oid,
    Person,
    blob_id,
    encode_commit,
    new_object,
)
from forktool.core.tree import Overlay, SourceTree
from forktool.errors import GitError

_SLASH = "\x1f"
"""Stands for a path's slashes in a flat tree: the unit separator of ASCII, which no path of a source tree holds."""

_NOBODY = Person(name="forktool", email="forktool@forktool.invalid", when="0 +0000")


@dataclass(frozen=True, kw_only=True, slots=True)
class Stages:
    """The three entries of a conflicted path, as in git's index; None where a side has no file."""

    base: Entry | None
    ours: Entry | None
    theirs: Entry | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Merge:
    """The outcome: entries that differ from `ours`, and what did not merge.

    `contents` holds the bytes of every blob in `changes`; a conflicted path stands there with diff3 markers where
    git could write them.
    """

    changes: Mapping[str, Entry | None]
    contents: Mapping[Oid, bytes]
    conflicts: Mapping[str, Stages]
    messages: tuple[str, ...]

    @property
    def is_clean(self) -> bool:
        """Whether every path merged."""
        return not self.conflicts


class MergedAhead:
    """The merge of many independent paths, from which that of a few can be taken."""

    PATCH = "0" * 39 + "p"
    """Stands for the patch's name in conflict markers, until it is known which patch is meant."""

    def __init__(self, paths: frozenset[str], merge: Merge) -> None:
        self._paths = paths
        self._merge = merge

    @classmethod
    def nothing(cls) -> MergedAhead:
        """No path at all."""
        return cls(frozenset(), Merge(changes={}, contents={}, conflicts={}, messages=()))

    def select(self, paths: Sequence[str], patch: str) -> Merge | None:
        """The merge of just these paths; None when one of them was not merged ahead.

        Args:
            paths: what to take.
            patch: the name to put into conflict markers.
        """
        if not self._paths.issuperset(paths):
            return None
        changes: dict[str, Entry | None] = {}
        contents: dict[Oid, bytes] = {}
        conflicts = {path: self._merge.conflicts[path] for path in paths if path in self._merge.conflicts}
        for path in paths:
            if path not in self._merge.changes:
                continue
            entry = self._merge.changes[path]
            if entry is not None and entry.oid in self._merge.contents:
                content = self._merge.contents[entry.oid]
                if path in conflicts:
                    content = content.replace(self.PATCH.encode(), patch.encode())
                    entry = Entry(entry.mode, blob_id(content))
                contents[entry.oid] = content
            changes[path] = entry
        messages = tuple(
            message for message in self._merge.messages if any(message.endswith(f" {path}") for path in paths)
        )
        return Merge(changes=changes, contents=contents, conflicts=conflicts, messages=messages)


def merge_contents(
    store: GitStore,
    paths: Sequence[str],
    *,
    base: SourceTree,
    ours: SourceTree,
    theirs: SourceTree,
    labels: tuple[str, str, str],
) -> Merge:
    """Merge some paths by their contents alone; renames are not looked for.

    Args:
        store: where git works; nothing is left in it.
        paths: what to merge.
        base: the patch's parent.
        ours: the new tree.
        theirs: the patch's result.
        labels: names of base, ours and theirs in conflict markers.

    Raises:
        GitError: git failed.
    """
    made: list[NewObject] = []
    roots = [_flat_tree(store, paths, side, made) for side in (base, ours, theirs)]
    return _deep(_merge(store, roots, made, labels))


def merge_trees(
    store: GitStore, *, base: Overlay, ours: Overlay, theirs: Overlay, root: GitTree, onto: GitTree,
    labels: tuple[str, str, str],
) -> Merge:  # fmt: skip
    """Merge whole trees, so that git finds files that upstream moved.

    Args:
        store: where git works; nothing is left in it.
        base: the patch's parent, over `root`.
        ours: the new tree with what was carried so far, over `onto`.
        theirs: the patch's result, over `root`.
        root: the base's tree.
        onto: the new tag's tree.
        labels: names of base, ours and theirs in conflict markers.

    Raises:
        GitError: git failed.
    """
    made: list[NewObject] = []
    roots = []
    for overlay, below in ((base, root), (ours, onto), (theirs, root)):
        tree, objects = store.changed_tree(below.root, overlay.changes)
        made += [new_object("blob", content) for content in overlay.blobs.values()]
        made += objects
        roots.append(tree)
    return _merge(store, roots, made, labels)


def _flat_tree(store: GitStore, paths: Iterable[str], side: SourceTree, made: list[NewObject]) -> Oid:
    """A tree without folders, so that a merge writes one tree a side instead of one for each folder on the way."""
    entries: dict[str, Entry | None] = {}
    for path in paths:
        entry = side.entry(path)
        if entry is None:
            continue
        entries[path.replace("/", _SLASH)] = entry
        content = None if _is_stored(side, path) else side.read(path)
        if content is not None:
            made.append(new_object("blob", content))
    root, objects = store.changed_tree(EMPTY_TREE, entries)
    made += objects
    return root


def _is_stored(side: SourceTree, path: str) -> bool:
    """Whether git's store has the path's blob already."""
    while isinstance(side, Overlay) and path not in side.changes:
        side = side.below
    return isinstance(side, GitTree)


def _deep(merge: Merge) -> Merge:
    """The outcome of merging flat trees, with the paths as they are."""
    return Merge(
        changes={path.replace(_SLASH, "/"): entry for path, entry in merge.changes.items()},
        contents=merge.contents,
        conflicts={path.replace(_SLASH, "/"): stages for path, stages in merge.conflicts.items()},
        messages=tuple(message.replace(_SLASH, "/") for message in merge.messages),
    )


def _merge(
    store: GitStore, roots: Sequence[Oid], made: list[NewObject], labels: tuple[str, str, str]
) -> Merge:
    base_tree, our_tree, their_tree = roots
    parent = _commit(base_tree, ())
    ours, theirs = _commit(our_tree, (parent.oid,)), _commit(their_tree, (parent.oid,))
    store.quarantine([*made, parent, ours, theirs])
    done = store.try_git(
        "merge-tree", "--write-tree", "-z", "--allow-unrelated-histories", ours.oid, theirs.oid
    )
    if done.returncode not in (0, 1):
        raise GitError(f"git merge-tree: {done.last_line}")
    fields = done.stdout.split(b"\0")
    merged = Oid(fields[0].decode())
    conflicts, messages = _conflicts(fields[1:]) if done.returncode else ({}, ())
    changes = differences(store, our_tree, merged)
    names = {parent.oid: labels[0], ours.oid: labels[1], theirs.oid: labels[2]}
    contents: dict[Oid, bytes] = {}
    relabelled: dict[str, Entry | None] = {}
    for path, entry in changes.items():
        if entry is None or entry.mode is Mode.GITLINK:
            relabelled[path] = entry
            continue
        content = store.read_blob(entry.oid)
        if path in conflicts:
            for oid, name in names.items():
                content = content.replace(oid.encode(), name.encode())
            blob = new_object("blob", content)
            entry = Entry(entry.mode, blob.oid)  # noqa: PLW2901
        relabelled[path] = entry
        contents[entry.oid] = content
    said = tuple(_renamed(message, names) for message in messages)
    return Merge(changes=relabelled, contents=contents, conflicts=conflicts, messages=said)


def _commit(tree: Oid, parents: tuple[Oid, ...]) -> NewObject:
    body = encode_commit(tree=tree, parents=parents, author=_NOBODY, committer=_NOBODY, message="merge\n")
    return new_object("commit", body)


def _renamed(message: str, names: Mapping[Oid, str]) -> str:
    for oid, name in names.items():
        message = message.replace(oid, name)
    return message


def _conflicts(fields: Sequence[bytes]) -> tuple[dict[str, Stages], tuple[str, ...]]:
    """Read the two NUL-separated sections of git-merge-tree(1), OUTPUT."""
    staged: dict[str, dict[int, Entry]] = {}
    at = 0
    while at < len(fields) and fields[at]:
        head, _, name = fields[at].partition(b"\t")
        mode, oid, stage = head.split()
        path = name.decode("utf-8", "surrogateescape")
        staged.setdefault(path, {})[int(stage)] = Entry(Mode(mode.decode().zfill(6)), Oid(oid.decode()))
        at += 1
    at += 1
    messages: list[str] = []
    while at < len(fields) and fields[at]:
        count = int(fields[at])
        messages.append(fields[at + count + 2].decode("utf-8", "replace").strip())
        at += count + 3
    stages = {
        path: Stages(base=entries.get(1), ours=entries.get(2), theirs=entries.get(3))
        for path, entries in staged.items()
    }
    return stages, tuple(messages)


def differences(store: GitStore, left: Oid, right: Oid, prefix: str = "") -> dict[str, Entry | None]:
    """The paths whose entries differ, with the right side's entry; equal folders are not opened.

    Args:
        store: holds both.
        left: a tree's id.
        right: another's.
        prefix: what to put before each path.

    Raises:
        GitError: a tree is not in the store.
    """
    found: dict[str, Entry | None] = {}
    before, after = store.read_tree(left), store.read_tree(right)
    for name in before.keys() | after.keys():
        old, new = before.get(name), after.get(name)
        if old == new:
            continue
        path = f"{prefix}{name}"
        old_folder = old.oid if old is not None and old.mode is Mode.TREE else EMPTY_TREE
        new_folder = new.oid if new is not None and new.mode is Mode.TREE else EMPTY_TREE
        if old_folder != new_folder:
            found |= differences(store, old_folder, new_folder, f"{path}/")
        if new is not None and new.mode is not Mode.TREE:
            found[path] = new
        elif old is not None and old.mode is not Mode.TREE:
            found[path] = None
    return found
