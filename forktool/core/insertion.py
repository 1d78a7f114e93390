"""Putting nodes of one Python source into a collection of another, in the style that the other has.

A collection is a literal, a signature, an argument list, the names of an import, or a block of statements. Where the
place is written one element a line, so are the new ones, with its indentation and commas; else they follow inline.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from forktool.core.syntax import Node

_BLOCKS = frozenset({"module", "block"})


@dataclass(frozen=True, kw_only=True, slots=True)
class Edit:
    """Bytes `start:end` become `text`."""

    start: int
    end: int
    text: bytes


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """Where to insert: after one member of a collection, or else before its first, or into an empty one.

    Lines are inserted no earlier than byte `not_before`, which starts a line.
    """

    collection: Node
    source: bytes
    after: Node | None
    before: Node | None
    not_before: int


def insert(place: Place, nodes: Sequence[Node], source: bytes, wanted: Counter[bytes]) -> list[Edit] | None:
    """The edits that put `nodes` there, in their order; None where the style of the place is unclear.

    Args:
        place: where.
        nodes: what, from the tree of `source`.
        source: the text that the nodes are of.
        wanted: comments to take along where they belong to a node; those taken are counted down.
    """
    if not nodes:
        return []
    anchor = place.after or place.before
    if anchor is not None and _has_own_lines(place.source, anchor):
        return _insert_lines(place, anchor, nodes, source, wanted)
    if place.collection.type in _BLOCKS:
        return None
    return _insert_inline(place, nodes)


def apply_edits(source: bytes, edits: Sequence[Edit]) -> bytes | None:
    """The text with all edits made; those at one place in their order. None where two overlap."""
    out: list[bytes] = []
    reached = 0
    for edit in sorted(edits, key=lambda one: one.start):
        if edit.start < reached:
            return None
        out += (source[reached : edit.start], edit.text)
        reached = edit.end
    return b"".join((*out, source[reached:]))


def _insert_lines(
    place: Place, anchor: Node, nodes: Sequence[Node], source: bytes, wanted: Counter[bytes]
) -> list[Edit] | None:
    indent = _indent(place.source, anchor)
    newline = b"\r\n" if place.source[: _line_end(place.source, anchor.end_byte)].endswith(b"\r\n") else b"\n"
    is_block = place.collection.type in _BLOCKS
    comma = None if place.after is None else _comma_after(place.after)
    edits: list[Edit] = []
    closes_bare = place.after is not None and not is_block and comma is None
    if place.after is not None and closes_bare:
        edits.append(Edit(start=place.after.end_byte, end=place.after.end_byte, text=b","))
    lines: list[bytes] = []
    for node in nodes:
        text = node.text or b""
        if b"\n" in text and _indent(source, node) != indent:
            return None
        lines += (indent + comment + newline for comment in _leading_comments(source, node, wanted))
        end = b"" if is_block or (closes_bare and node is nodes[-1]) else b","
        trailing = _trailing_comment(source, node, wanted)
        lines.append(indent + text + end + trailing + newline)
    at = _insertion_point(place, comma)
    head = newline if at and not place.source[:at].endswith(b"\n") else b""
    edits.append(Edit(start=at, end=at, text=head + b"".join(lines)))
    return edits


def _insertion_point(place: Place, comma: Node | None) -> int:
    if place.after is not None:
        last = comma or place.after
        return max(_line_end(place.source, last.end_byte), place.not_before)
    assert place.before is not None  # noqa: S101  # one of them is the anchor
    return place.source.rfind(b"\n", 0, place.before.start_byte) + 1


def _insert_inline(place: Place, nodes: Sequence[Node]) -> list[Edit]:
    texts = [node.text or b"" for node in nodes]
    if place.after is not None:
        comma = _comma_after(place.after)
        if comma is not None and place.before is None:
            added = b"".join(b" " + text + b"," for text in texts)
            return [Edit(start=comma.end_byte, end=comma.end_byte, text=added)]
        end = place.after.end_byte
        return [Edit(start=end, end=end, text=b"".join(b", " + text for text in texts))]
    if place.before is not None:
        start = place.before.start_byte
        return [Edit(start=start, end=start, text=b"".join(text + b", " for text in texts))]
    closing = place.collection.end_byte - 1
    one_tuple = b"," if place.collection.type == "tuple" and len(texts) == 1 else b""
    return [Edit(start=closing, end=closing, text=b", ".join(texts) + one_tuple)]


def _has_own_lines(source: bytes, node: Node) -> bool:
    """Whether nothing but a comma and a comment shares the lines of a node."""
    start = source.rfind(b"\n", 0, node.start_byte) + 1
    if source[start : node.start_byte].strip():
        return False
    rest = source[node.end_byte : _line_end(source, node.end_byte)].strip()
    rest = rest.removeprefix(b",").strip()
    return not rest or rest.startswith(b"#")


def _indent(source: bytes, node: Node) -> bytes:
    start = source.rfind(b"\n", 0, node.start_byte) + 1
    line = source[start : node.start_byte]
    return line[: len(line) - len(line.lstrip())]


def _line_end(source: bytes, at: int) -> int:
    """Just behind the line feed that ends the line, or the end of the file."""
    end = source.find(b"\n", at)
    return len(source) if end < 0 else end + 1


def _comma_after(node: Node) -> Node | None:
    follower = node.next_sibling
    while follower is not None and follower.type == "comment":
        follower = follower.next_sibling
    return follower if follower is not None and follower.type == "," else None


def _leading_comments(source: bytes, node: Node, wanted: Counter[bytes]) -> list[bytes]:
    """The wanted comments on the lines just above a node."""
    found: list[bytes] = []
    above, row = node.prev_sibling, node.start_point.row
    while above is not None and above.type == "comment" and above.start_point.row == row - 1:
        text = above.text or b""
        start = source.rfind(b"\n", 0, above.start_byte) + 1
        if source[start : above.start_byte].strip() or wanted[text] <= 0:
            break
        wanted[text] -= 1
        found.append(text)
        above, row = above.prev_sibling, row - 1
    return found[::-1]


def _trailing_comment(source: bytes, node: Node, wanted: Counter[bytes]) -> bytes:
    """The wanted comment on the line that a node ends on, with the white space before it."""
    last, follower = node, node.next_sibling
    while follower is not None and follower.start_point.row == node.end_point.row:
        if follower.type == "comment":
            text = follower.text or b""
            if wanted[text] <= 0:
                return b""
            wanted[text] -= 1
            return source[last.end_byte : follower.start_byte] + text
        if follower.type != ",":
            return b""
        last, follower = follower, follower.next_sibling
    return b""
