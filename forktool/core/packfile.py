"""Packs with their index, made in memory (gitformat-pack(5), pack version 2 and index version 2).

`git fast-import` and `git index-pack` hash everything with a collision-detecting SHA-1, twice; for a tree of
60 MB whose archive was checked by SHA-256 that is most of the time. So the pack is written here.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from forktool.core.objects import Oid

_KINDS = {"commit": 1, "tree": 2, "blob": 3}
_INDEX_MAGIC = b"\xfftOc\x00\x00\x00\x02"
_LARGE = 1 << 31


@dataclass(frozen=True, slots=True)
class Packed:
    """Where an object lies in a pack: CRC-32 of its entry, and the entry's offset in bytes."""

    oid: Oid
    crc: int
    offset: int


def pack_header(count: int) -> bytes:
    """The first 12 bytes of a pack of `count` objects."""
    return b"PACK" + (2).to_bytes(4, "big") + count.to_bytes(4, "big")


def pack_entry(kind: str, body: bytes | memoryview, *, level: int) -> bytes:
    """A whole object (no delta) as it stands in a pack; `level` is zlib's, 0 stores."""
    size = len(body)
    head = bytearray([(_KINDS[kind] << 4) | (size & 15)])
    size >>= 4
    while size:
        head[-1] |= 0x80
        head.append(size & 0x7F)
        size >>= 7
    return bytes(head) + zlib.compress(body, level)


def pack_index(entries: Iterable[Packed], checksum: bytes) -> bytes:
    """The `.idx` of a pack; `checksum` is the 20 bytes at the pack's end."""
    ordered = sorted(entries, key=lambda entry: entry.oid)
    names = [bytes.fromhex(entry.oid) for entry in ordered]
    firsts = [0] * 256
    for name in names:
        firsts[name[0]] += 1
    total = 0
    fanout = b"".join((total := total + count).to_bytes(4, "big") for count in firsts)
    offsets: list[bytes] = []
    large: list[bytes] = []
    for entry in ordered:
        if entry.offset < _LARGE:
            offsets.append(entry.offset.to_bytes(4, "big"))
        else:
            offsets.append((_LARGE | len(large)).to_bytes(4, "big"))
            large.append(entry.offset.to_bytes(8, "big"))
    crcs = (entry.crc.to_bytes(4, "big") for entry in ordered)
    body = b"".join([_INDEX_MAGIC, fanout, *names, *crcs, *offsets, *large, checksum])
    return body + hashlib.sha1(body, usedforsecurity=False).digest()


def indexed(index: bytes) -> frozenset[Oid]:
    """The objects that an index of version 2 names; none for another version."""
    if not index.startswith(_INDEX_MAGIC):
        return frozenset()
    names: Sequence[int] = range(8 + 1024, 8 + 1024 + 20 * int.from_bytes(index[1028:1032], "big"), 20)
    return frozenset(Oid(index[at : at + 20].hex()) for at in names)
