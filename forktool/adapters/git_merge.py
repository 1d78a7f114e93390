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
    sides = (base, ours, theirs)
    files = {
        path.replace("/", _SLASH): (base.entry(path), ours.entry(path), theirs.entry(path)) for path in paths
    }
    return _deep(merge_entries(store, files, contents_to_write(sides, paths), labels=labels))


def contents_to_write(sides: Iterable[SourceTree], paths: Iterable[str]) -> dict[Oid, bytes]:
    """The contents of paths that git's store does not have yet."""
    found: dict[Oid, bytes] = {}
    for side in sides:
        for path in paths:
            entry, content = side.entry(path), content_to_write(side, path)
            if entry is not None and content is not None:
                found[entry.oid] = content
    return found


def merge_entries(
    store: GitStore,
    files: Mapping[str, tuple[Entry | None, Entry | None, Entry | None]],
    contents: Mapping[Oid, bytes],
    *,
    labels: tuple[str, str, str],
) -> Merge:
    """Merge small trees: base, ours and theirs of each path.

    Args:
        store: where git works; nothing is left in it.
        files: path to its three entries; None where a side has no file.
        contents: of the entries that the store may not have.
        labels: names of base, ours and theirs in conflict markers.

    Raises:
        GitError: git failed.
    """
    made = [NewObject("blob", oid, content) for oid, content in contents.items()]
    roots = []
    for side in range(3):
        root, objects = store.changed_tree(EMPTY_TREE, {path: sides[side] for path, sides in files.items()})
        made += objects
        roots.append(root)
    return _merge(store, roots, made, labels)


def content_to_write(side: SourceTree, path: str) -> bytes | None:
    """A path's content, unless git's store has it already."""
    where = side
    while isinstance(where, Overlay) and path not in where.changes:
        where = where.below
    return None if isinstance(where, GitTree) else side.read(path)


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
