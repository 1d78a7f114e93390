"""Source trees as the replay sees them: a read side (a commit or a published wheel) and an overlay."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from forktool.core.objects import Entry, Mode, Oid


class SourceTree(Protocol):
    """A tree of files, read path by path; paths are posix, relative to the root."""

    @property
    def label(self) -> str:
        """What messages call it: a tag, or a tag and a patch."""

    def entry(self, path: str) -> Entry | None:
        """Mode and blob of a file, link or submodule; None where there is none (a folder is none)."""

    def read(self, path: str) -> bytes | None:
        """The content of a file, or a link's target; None where `entry` gives none or a submodule."""

    def has_folder(self, path: str) -> bool:
        """Whether some file lies below the folder."""


class Overlay:
    """A tree with some paths changed in memory. `set` takes effect at once; `changes` is all that was set."""

    def __init__(self, below: SourceTree, *, label: str | None = None) -> None:
        self._below = below
        self._label = label or below.label
        self._changes: dict[str, Entry | None] = {}
        self._blobs: dict[Oid, bytes] = {}

    @property
    def label(self) -> str:
        """The label given, else that of the tree below."""
        return self._label

    @property
    def below(self) -> SourceTree:
        """The tree that it changes."""
        return self._below

    @property
    def changes(self) -> Mapping[str, Entry | None]:
        """Every path set so far, with its entry, or None where it was removed."""
        return self._changes

    @property
    def blobs(self) -> Mapping[Oid, bytes]:
        """The contents that came in through `set`."""
        return self._blobs

    def entry(self, path: str) -> Entry | None:
        """See `SourceTree.entry`."""
        if path in self._changes:
            return self._changes[path]
        return self._below.entry(path)

    def read(self, path: str) -> bytes | None:
        """See `SourceTree.read`."""
        if path not in self._changes:
            return self._below.read(path)
        entry = self._changes[path]
        return None if entry is None or entry.mode is Mode.GITLINK else self._blobs[entry.oid]

    def has_folder(self, path: str) -> bool:
        """See `SourceTree.has_folder`; folders that only the overlay made or emptied are not looked at."""
        return self._below.has_folder(path)

    def set(self, path: str, entry: Entry | None, content: bytes | None = None) -> None:
        """Change one path; `content` must come with every entry but a submodule's."""
        self._changes[path] = entry
        if entry is not None and content is not None:
            self._blobs[entry.oid] = content
