from __future__ import annotations

import zlib

from hypothesis import given
from hypothesis import strategies as st

from forktool.core.objects import Oid, blob_id
from forktool.core.packfile import Packed, indexed, pack_entry, pack_header, pack_index


def test_the_header_counts_the_objects() -> None:
    assert pack_header(258) == b"PACK\x00\x00\x00\x02\x00\x00\x01\x02"


def test_an_entry_bears_kind_and_size_in_groups_of_seven_bits() -> None:
    assert pack_entry("blob", b"x" * 5, level=0)[0] == 0x35
    assert pack_entry("tree", b"x" * 300, level=0)[:2] == bytes([0x80 | 0x20 | 300 & 15, 300 >> 4])
    assert zlib.decompress(pack_entry("commit", b"x" * 300, level=0)[2:]) == b"x" * 300


@given(
    st.lists(
        st.tuples(st.binary(max_size=8), st.integers(0, 2**32 - 1), st.integers(0, 2**40)),
        unique_by=lambda item: item[0],
    )
)
def test_an_index_names_what_went_in(items: list[tuple[bytes, int, int]]) -> None:
    entries = [Packed(blob_id(body), crc, offset) for body, crc, offset in items]
    index = pack_index(entries, b"c" * 20)
    assert indexed(index) == {entry.oid for entry in entries}
    large = sum(entry.offset >= 2**31 for entry in entries)
    assert len(index) == 8 + 1024 + 28 * len(entries) + 8 * large + 40


def test_another_kind_of_index_names_nothing() -> None:
    assert indexed(b"\x00" * 2000) == frozenset()
    assert isinstance(next(iter(indexed(pack_index([Packed(blob_id(b""), 0, 12)], b"c" * 20)))), str)
    assert Oid("e69de29bb2d1d6434b8b29ae775ad8c2e48c5391") == blob_id(b"")
