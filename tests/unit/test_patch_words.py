"""Trailers, series files, names and objects: small values with exact rules."""

from __future__ import annotations

import hashlib
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forktool.core.naming import LONGEST, slug, unique_name
from forktool.core.objects import (
    EMPTY_TREE,
    Entry,
    Mode,
    Oid,
    blob_id,
    decode_tree,
    encode_tree,
    new_object,
    object_id,
    pack,
    update_tree,
)
from forktool.core.series import parse_patch, parse_series_file, patch_name, render_series_file
from forktool.core.trailers import first_value, join_trailers, split_trailers, values, with_trailer
from forktool.errors import PatchsetError, RequestError


def test_trailers_are_the_last_paragraph() -> None:
    text, trailers = split_trailers(
        "Subject\n\nNot: this\none\n\nReason: long\n  and longer\nBug:x\nbug: y\n"
    )

    assert text == "Subject\n\nNot: this\none"
    assert trailers == (("Reason", "long and longer"), ("Bug", "x"), ("bug", "y"))
    assert values(trailers, "BUG") == ("x", "y")
    assert first_value(trailers, "Forwarded") is None
    assert join_trailers(text, trailers) == text + "\n\nReason: long and longer\nBug: x\nbug: y\n"


@pytest.mark.parametrize(
    "message",
    ["fix: only a subject\n", "S\n\nSee\nBug: 1\n", "S\n\nhttps://example.org/x\n", "S\n\n  indented: x\n"],
)
def test_what_is_no_trailer(message: str) -> None:
    assert split_trailers(message) == (message.rstrip("\n"), ())


def test_a_trailer_is_added_once() -> None:
    once = with_trailer("S\n\nBody\n", "Signed-off-by", "A <a@b>")

    assert once == "S\n\nBody\n\nSigned-off-by: A <a@b>\n"
    assert with_trailer(once, "signed-off-by", "A <a@b>") == once
    assert with_trailer(once, "Bug", "1") == once + "Bug: 1\n"
    assert with_trailer("S\n", "Bug", "1") == "S\n\nBug: 1\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[Bugfix][V1] Fix KV cache [ROCm] (#12345)", "fix-kv-cache-rocm"),
        ("[Only tags]", "only-tags"),
        ("Ünïcode & Größe: v0.16.0", "unicode-groe-v0.16.0"),
        ("日本語", ""),
        ("x" * 80, "x" * LONGEST),
        (
            "A very long subject that goes on and on until it is cut",
            "a-very-long-subject-that-goes-on-and-on-until-it",
        ),
        ("Remove x.patch", "remove-x-patch"),
        ("don't..do_this", "don-t-do_this"),
    ],
)
def test_a_name_out_of_a_subject(text: str, expected: str) -> None:
    assert slug(text) == expected
    if expected:
        assert patch_name(expected) == expected


@given(st.text(max_size=120), st.sets(st.sampled_from(("patch", "a", "a-2")), max_size=3))
def test_any_subject_gives_a_valid_free_name(text: str, taken: set[str]) -> None:
    name = unique_name(text, taken)

    assert name not in taken
    assert len(name) <= LONGEST
    assert patch_name(name) == name


def test_a_taken_name_gets_a_number() -> None:
    assert unique_name("A", {"a", "a-2"}) == "a-3"
    assert unique_name("x" * 60, {"x" * 50}) == "x" * 48 + "-2"


@pytest.mark.parametrize("text", ["", "-x", "a/b", "a b", "x.patch", "x.lock", "x.", "a..b", "é"])
def test_a_bad_name(text: str) -> None:
    with pytest.raises(RequestError):
        patch_name(text)


def test_a_series_file() -> None:
    assert parse_series_file("# c\n\na.patch\nb.patch -p1 # why\n", file="s") == ("a", "b")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a.patch -p0\n", "s:1: only -p1 is supported, not -p0"),
        ("\na\n", "s:2: a does not end in .patch"),
        ("a.patch\na.patch\n", "s:2: a.patch stands here a second time"),
        ("a b.patch\n", "s:1: only -p1 is supported, not b.patch"),
        ("d/a.patch\n", "s:1: 'd/a' is not a patch name"),
    ],
)
def test_a_bad_series_file(text: str, message: str) -> None:
    with pytest.raises(PatchsetError) as caught:
        parse_series_file(text, file="s")
    assert caught.value.message == message


def test_comments_follow_their_patch() -> None:
    before = "# head\n\n# of a\na.patch -p1 # x\n# of b\nb.patch\n# end\n"

    after = render_series_file((patch_name("b"), patch_name("c"), patch_name("a")), previous=before)

    assert after == "# head\n# of b\nb.patch\nc.patch\n\n# of a\na.patch -p1 # x\n# end\n"
    assert render_series_file((patch_name("a"), patch_name("b")), previous=before) == before


def test_a_patch_that_changes_nothing() -> None:
    text = (
        b"From "
        + b"0" * 40
        + b" Mon Sep 17 00:00:00 2001\nFrom: A <a@b>\nDate: 1 Jan 2026 00:00:00 +0000\nSubject: S\n\n"
    )
    with pytest.raises(PatchsetError, match="the patch changes nothing"):
        parse_patch(patch_name("it"), text, file="it.patch")


# Ids that git itself gives: `git hash-object`, `git mktree`.
def test_ids_are_those_of_git() -> None:
    assert blob_id(b"") == "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"
    assert blob_id(b"hello\n") == "ce013625030ba8dba906f756967f9e9ca394464a"
    assert object_id("tree", b"") == EMPTY_TREE


def test_folders_sort_as_if_they_ended_in_a_slash() -> None:
    blob, folder = Entry(Mode.FILE, blob_id(b"")), Entry(Mode.TREE, EMPTY_TREE)
    entries = {"a": folder, "a.b": blob, "a0": blob, "é\udcff": blob}

    body = encode_tree(entries)

    assert decode_tree(body) == entries
    assert body.index(b" a.b\0") < body.index(b" a\0") < body.index(b" a0\0")


PATHS = st.dictionaries(
    st.lists(st.sampled_from(("a", "b", "c.d")), min_size=1, max_size=3).map("/".join),
    st.sampled_from((b"1", b"2", None)),
    max_size=8,
)


@given(PATHS, PATHS)
def test_a_tree_is_the_same_however_it_came_about(
    first: dict[str, bytes | None], second: dict[str, bytes | None]
) -> None:
    def clashes(paths: set[str]) -> bool:
        return any(other.startswith(f"{path}/") for path in paths for other in paths)

    def entries(changes: dict[str, bytes | None]) -> dict[str, Entry | None]:
        return {
            path: None if text is None else Entry(Mode.FILE, blob_id(text)) for path, text in changes.items()
        }

    if clashes({*first, *second}):
        return
    known: dict[Oid, dict[str, Entry]] = {}

    def make(root: Oid, changes: dict[str, bytes | None]) -> Oid:
        made, objects = update_tree(lambda oid: known[oid], root, entries(changes))
        known.update((item.oid, decode_tree(item.body)) for item in objects)
        return made

    both = {path: text for path, text in {**first, **second}.items() if text is not None}
    assert make(make(EMPTY_TREE, first), second) == make(EMPTY_TREE, dict(both))


def test_a_pack_holds_each_object_once() -> None:
    blob = new_object("blob", b"x" * 5000)

    stream = b"".join(pack([blob, blob]))

    assert stream[:12] == b"PACK\0\0\0\2\0\0\0\1"
    assert stream[12] == 0x80 | (3 << 4) | (5000 & 15)
    size = 5000 & 15 | stream[13] % 128 << 4 | stream[14] << 11
    assert size == 5000
    assert zlib.decompress(stream[15:-20]) == b"x" * 5000
    assert stream[-20:] == hashlib.sha1(stream[:-20], usedforsecurity=False).digest()
