"""Git's objects as values: encode, decode and name them without starting git.

Formats: gitformat-pack(5) and "Git Internals - Git Objects". SHA-1 only, as the private store is.
A tree is named by a 40-digit id here before anything is written, so a dry run writes nothing at all.
"""

from __future__ import annotations

import hashlib
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NewType

Oid = NewType("Oid", str)
"""A full object id: 40 lower-case hexadecimal digits."""

_OID = re.compile(r"[0-9a-f]{40}")
NULL_OID = Oid("0" * 40)
EMPTY_TREE = Oid("4b825dc642cb6eb9a060e54bf8d69288fbee4904")


class Mode(StrEnum):
    """The modes that git records for a path, as six octal digits."""

    FILE = "100644"
    EXECUTABLE = "100755"
    SYMLINK = "120000"
    GITLINK = "160000"
    TREE = "040000"


@dataclass(frozen=True, slots=True)
class Entry:
    """What a tree says of one path."""

    mode: Mode
    oid: Oid


@dataclass(frozen=True, kw_only=True, slots=True)
class Person:
    """An author or committer; `when` is git's raw form, `SECONDS +HHMM`."""

    name: str
    email: str
    when: str

    def __str__(self) -> str:
        return f"{self.name} <{self.email}> {self.when}"


def is_oid(text: str) -> bool:
    """Whether the text is a full, lower-case object id."""
    return _OID.fullmatch(text) is not None


def object_id(kind: str, body: bytes | memoryview) -> Oid:
    """Name an object of the kind `blob`, `tree` or `commit`."""
    digest = hashlib.sha1(b"%s %d\0" % (kind.encode(), len(body)), usedforsecurity=False)
    digest.update(body)
    return Oid(digest.hexdigest())


def blob_id(content: bytes | memoryview) -> Oid:
    """Name a file's content."""
    return object_id("blob", content)


def decode_tree(body: bytes) -> dict[str, Entry]:
    """Read a tree object; names that are not UTF-8 come surrogate-escaped, as `os.fsdecode` gives them."""
    entries: dict[str, Entry] = {}
    at = 0
    while at < len(body):
        space = body.index(b" ", at)
        end = body.index(b"\0", space)
        name = body[space + 1 : end].decode("utf-8", "surrogateescape")
        mode = Mode(body[at:space].decode().zfill(6))
        entries[name] = Entry(mode, Oid(body[end + 1 : end + 21].hex()))
        at = end + 21
    return entries


def encode_tree(entries: Mapping[str, Entry]) -> bytes:
    """Write a tree object, in git's order: a folder sorts as if its name ended in `/`."""

    def rank(item: tuple[str, Entry]) -> bytes:
        name = item[0].encode("utf-8", "surrogateescape")
        return name + b"/" if item[1].mode is Mode.TREE else name

    return b"".join(
        b"%s %s\0%s"
        % (
            entry.mode.lstrip("0").encode(),
            name.encode("utf-8", "surrogateescape"),
            bytes.fromhex(entry.oid),
        )
        for name, entry in sorted(entries.items(), key=rank)
    )


def encode_commit(
    *, tree: Oid, parents: Iterable[Oid], author: Person, committer: Person, message: str
) -> bytes:
    """Write a commit object; the message is stored as UTF-8, byte for byte."""
    lines = [f"tree {tree}", *(f"parent {parent}" for parent in parents)]
    lines += [f"author {author}", f"committer {committer}", "", message]
    return "\n".join(lines).encode("utf-8", "surrogateescape")


@dataclass(frozen=True, slots=True)
class NewObject:
    """An object that exists in memory and may be written later."""

    kind: str
    oid: Oid
    body: bytes


def new_object(kind: str, body: bytes) -> NewObject:
    """Make an object of a body."""
    return NewObject(kind, object_id(kind, body), body)


class GrowingTree:
    """A tree that changes again and again: a path changes the folders around it, the others are never looked at.

    Folders appear when a path needs them and vanish when they become empty, as in git's index.

    Args:
        read_tree: gives the entries of a tree.
        root: the tree to begin with.
    """

    def __init__(self, read_tree: Callable[[Oid], Mapping[str, Entry]], root: Oid) -> None:
        self._read_tree = read_tree
        self._root = root
        self._top = _Folder(dict(read_tree(root)) if root != EMPTY_TREE else {})

    def change(self, changes: Mapping[str, Entry | None]) -> tuple[Oid, list[NewObject]]:
        """Set some paths, or remove them where the entry is None.

        Returns:
            The id of the tree then, and the tree objects that were made for it.
        """
        # A file may make way for a folder of its name.
        for path, entry in sorted(changes.items(), key=lambda item: item[1] is not None):
            self._set(path, entry)
        made: list[NewObject] = []
        if self._top.is_changed:
            _write(self._top, made)
            self._root = made[-1].oid
        return self._root, made

    def _set(self, path: str, entry: Entry | None) -> None:
        *folders, name = path.split("/")
        here = self._top
        way = [here]
        for folder in folders:
            inner = self._inner(here, folder, make=entry is not None)
            if inner is None:
                return
            here = inner
            way.append(here)
        if entry is None:
            here.entries.pop(name, None)
        else:
            here.entries[name] = entry
        here.folders.pop(name, None)
        for one in way:
            one.is_changed = True

    def _inner(self, outer: _Folder, name: str, *, make: bool) -> _Folder | None:
        known = outer.folders.get(name)
        if known is None:
            entry = outer.entries.get(name)
            is_there = entry is not None and entry.mode is Mode.TREE
            if not is_there and not make:
                return None
            known = outer.folders[name] = _Folder(
                dict(self._read_tree(entry.oid)) if entry and is_there else {}
            )
        return known


def update_tree(
    read_tree: Callable[[Oid], Mapping[str, Entry]], root: Oid, changes: Mapping[str, Entry | None]
) -> tuple[Oid, list[NewObject]]:
    """The id of `root` with some paths set or removed, and the tree objects that are new; see `GrowingTree`."""
    return GrowingTree(read_tree, root).change(changes)


@dataclass(slots=True)
class _Folder:
    """A folder's entries; `folders` are those in it that were opened."""

    entries: dict[str, Entry]
    folders: dict[str, _Folder] = field(default_factory=dict)
    is_changed: bool = False


def _write(folder: _Folder, made: list[NewObject]) -> None:
    """Make the trees of a folder and of those in it, its own the last."""
    for name, inner in list(folder.folders.items()):
        if not inner.is_changed:
            continue
        _write(inner, made)
        if inner.entries:
            folder.entries[name] = Entry(Mode.TREE, made[-1].oid)
        else:
            made.pop()
            folder.entries.pop(name, None)
            del folder.folders[name]
    folder.is_changed = False
    made.append(new_object("tree", encode_tree(folder.entries)))


_PACK_KINDS = {"commit": 1, "tree": 2, "blob": 3}


def pack(objects: Iterable[NewObject]) -> Iterator[bytes]:
    """A pack stream of whole objects, for `git index-pack --stdin` (gitformat-pack(5))."""
    unique = list({item.oid: item for item in objects}.values())
    digest = hashlib.sha1(usedforsecurity=False)

    def part(data: bytes) -> bytes:
        digest.update(data)
        return data

    yield part(b"PACK" + (2).to_bytes(4, "big") + len(unique).to_bytes(4, "big"))
    for item in unique:
        size = len(item.body)
        head = bytearray([(_PACK_KINDS[item.kind] << 4) | (size & 15)])
        size >>= 4
        while size:
            head[-1] |= 0x80
            head.append(size & 0x7F)
            size >>= 7
        yield part(bytes(head) + zlib.compress(item.body, 1))
    yield digest.digest()
