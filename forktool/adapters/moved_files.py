"""Merging a patch whose files upstream moved: git looks for renames among the files that came and went, and no others.

git's merge pairs what one side removed with what that side added, and follows a folder that is gone as a whole
(gitdiffcore(7), "diffcore-rename"; Documentation/technical/directory-rename-detection.txt of git 2.39). A file that is
there on both sides takes no part in that, but that its folder still exists. So three trees of the patch's paths, of
what came and went, and of one file for each folder that stayed merge as the whole trees do, in a fraction of the time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property

from forktool.adapters.git_merge import Merge, contents_to_write, differences, merge_entries
from forktool.adapters.git_store import GitStore, GitTree
from forktool.core.objects import Mode, Oid
from forktool.core.tree import Overlay, SourceTree


class MovedFiles:
    """What upstream removed, added and moved from one tree to another.

    Args:
        store: where git works; nothing is left in it.
        root: the base's tree.
        onto: the new tag's tree.
    """

    def __init__(self, store: GitStore, root: GitTree, onto: GitTree) -> None:
        self._store = store
        self._root = root
        self._onto = onto

    @cached_property
    def _came_or_went(self) -> tuple[str, ...]:
        changed = differences(self._store, self._root.root, self._onto.root)
        return tuple(
            sorted(path for path, entry in changed.items() if entry is None or self._root.entry(path) is None)
        )

    def merge(
        self,
        paths: Iterable[str],
        *,
        base: Overlay,
        ours: Overlay,
        theirs: Overlay,
        labels: tuple[str, str, str],
    ) -> Merge:
        """Merge one patch.

        Args:
            paths: what it touches, and what earlier patches added or removed on one of the two trees alone.
            base: the patch's parent, over the base's tree.
            ours: the new tree with what was carried so far, over the new tag's tree.
            theirs: the patch's result, over the base's tree.
            labels: names of base, ours and theirs in conflict markers.

        Raises:
            GitError: git failed.
        """
        sides = (base, ours, theirs)
        taken = dict.fromkeys((*paths, *self._came_or_went))
        taken |= dict.fromkeys(self._survivors(taken, sides))
        files = {path: (base.entry(path), ours.entry(path), theirs.entry(path)) for path in taken}
        return merge_entries(self._store, files, contents_to_write(sides, taken), labels=labels)

    def _survivors(self, paths: Iterable[str], sides: tuple[SourceTree, ...]) -> Iterator[str]:
        """A file for each folder around the paths that has one on all sides."""
        folders = {path[:at] for path in paths for at in range(len(path)) if path[at] == "/"}
        for folder in sorted({"", *folders}):
            left, right = (self._folder(tree, folder) for tree in (self._root, self._onto))
            if left is not None and right is not None:
                there = self._common(left, right, f"{folder}/" if folder else "")
                stays = next((path for path in there if all(side.entry(path) for side in sides)), None)
                if stays is not None:
                    yield stays

    def _folder(self, tree: GitTree, folder: str) -> Oid | None:
        here = tree.root
        for name in folder.split("/") if folder else ():
            entry = self._store.read_tree(here).get(name)
            if entry is None or entry.mode is not Mode.TREE:
                return None
            here = entry.oid
        return here

    def _common(self, left: Oid, right: Oid, prefix: str) -> Iterator[str]:
        """The files that two folders share."""
        there = self._store.read_tree(right)
        for name, entry in self._store.read_tree(left).items():
            other = there.get(name)
            if other is None:
                continue
            if entry.mode is Mode.TREE and other.mode is Mode.TREE:
                yield from self._common(entry.oid, other.oid, f"{prefix}{name}/")
            elif entry.mode is not Mode.TREE and other.mode is not Mode.TREE:
                yield f"{prefix}{name}"
