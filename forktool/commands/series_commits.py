"""A series as commits: on its base, or on the tree it was carried to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from forktool.adapters.git_store import GitStore, GitTree
from forktool.adapters.patchset_files import Patchset
from forktool.commands.replaying import Replayed
from forktool.core.apply import apply_patch
from forktool.core.objects import Entry, NewObject, Oid, encode_commit, new_object
from forktool.core.series import Patch, PatchName
from forktool.core.tree import Overlay


@dataclass(frozen=True, kw_only=True, slots=True)
class SeriesCommits:
    """A chain of commits on `base`, a commit a patch; `objects` are those that are not in the store yet."""

    base: Oid
    commits: Mapping[PatchName, Oid]
    trees: Mapping[PatchName, Oid]
    objects: tuple[NewObject, ...]

    @property
    def tip(self) -> Oid:
        """The last commit; the base when there is no patch."""
        return next(reversed(list(self.commits.values())), self.base)


def commits_on_base(
    patchset: Patchset, store: GitStore, commit: Oid, tree: GitTree, *, until: PatchName | None = None
) -> SeriesCommits:
    """The series on its recorded base.

    Args:
        patchset: the series.
        store: holds the base.
        commit: the base's commit.
        tree: the base's tree.
        until: the last patch to take; None takes all.

    Raises:
        PatchsetError: a patch does not apply exactly.
    """
    overlay = Overlay(tree)
    chain = Chain(store, commit, tree.root)
    for patch in patchset.series.patches:
        changes = apply_patch(patch, overlay, file=str(patchset.file(patch.name)))
        entries = {change.path: change.after for change in changes}
        chain.add(patch, entries, overlay)
        if patch.name == until:
            break
    return chain.result()


def commits_on_tag(replayed: Replayed, store: GitStore, commit: Oid, tree: GitTree) -> SeriesCommits:
    """The carried patches on the new tag.

    Args:
        replayed: the outcome of a replay onto `tree`.
        store: holds the tag.
        commit: the tag's commit.
        tree: the tag's tree.
    """
    chain = Chain(store, commit, tree.root)
    for step in replayed.carried:
        chain.add(step.patch, step.changes, replayed.result)
    return chain.result()


class Chain:
    """Commits one on the other, made in memory.

    Args:
        store: reads the base's trees.
        commit: the base's commit.
        root: the base's tree.
    """

    def __init__(self, store: GitStore, commit: Oid, root: Oid) -> None:
        self._base = self._parent = commit
        self._tree = store.growing_tree(root)
        self._commits: dict[PatchName, Oid] = {}
        self._trees: dict[PatchName, Oid] = {}
        self._objects: list[NewObject] = []

    def add(self, patch: Patch, entries: Mapping[str, Entry | None], contents: Overlay) -> None:
        """Add the commit of a patch: `entries` are the paths that it sets or removes, `contents` holds their blobs."""
        self._objects += _blobs(entries.values(), contents)
        root, trees = self._tree.change(entries)
        # The committer is the author: a rebuilt series has the same ids on every machine.
        body = encode_commit(
            tree=root,
            parents=(self._parent,),
            author=patch.author,
            committer=patch.author,
            message=patch.message,
        )
        commit = new_object("commit", body)
        self._objects += [*trees, commit]
        self._parent = commit.oid
        self._commits[patch.name] = commit.oid
        self._trees[patch.name] = root

    def result(self) -> SeriesCommits:
        """All commits so far."""
        return SeriesCommits(
            base=self._base, commits=self._commits, trees=self._trees, objects=tuple(self._objects)
        )


def _blobs(entries: Iterable[Entry | None], contents: Overlay) -> list[NewObject]:
    return [
        new_object("blob", contents.blobs[entry.oid])
        for entry in entries
        if entry is not None and entry.oid in contents.blobs
    ]
