"""The three versions of one file that are merged, and the indentation that a place has in each of them."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass

from forktool.core.pieces import Kept, Piece
from forktool.core.syntax import Node, parse

BASE, OURS, THEIRS = range(3)
Triple = tuple[Node, Node, Node]
Span = tuple[int, int]
Spans = tuple[Span, Span, Span]


class ClashError(Exception):
    """The two sides changed one thing in two ways, or in ways that do not plainly go together."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Frame:
    """The block around a place: its indentation in base, ours and theirs, and the one that it gets."""

    indents: tuple[bytes, bytes, bytes] = (b"", b"", b"")
    target: bytes = b""
    in_function: bool = False

    @property
    def is_level(self) -> bool:
        """Whether nothing moved."""
        return all(indent == self.target for indent in self.indents)


class Sides:
    """Base, ours and theirs."""

    def __init__(self, base: bytes, ours: bytes, theirs: bytes) -> None:
        self.sources = (base, ours, theirs)
        self.newline = b"\r\n" if b"\r\n" in ours else b"\n"
        self._lines: dict[int, Counter[bytes]] = {}
        self._strings: dict[int, list[Span]] = {}

    def lines(self, side: int) -> Counter[bytes]:
        """How often each line stands in a side, whatever its indentation."""
        if side not in self._lines:
            self._lines[side] = Counter(line.strip() for line in self.sources[side].split(b"\n"))
        return self._lines[side]

    def put(self, side: int, span: Span, frame: Frame) -> list[Piece]:
        """The text of a place as the result has it: from ours in place, from another side or depth as bytes."""
        start, end = span
        if start >= end:
            return []
        if side == OURS and frame.indents[OURS] == frame.target:
            return [Kept(start, end)]
        return [self._indented(side, span, frame.indents[side], frame.target)]

    def text(self, side: int, span: Span, frame: Frame) -> bytes:
        """The text of a place with the indentation that all sides are compared at."""
        if frame.is_level:
            return self.sources[side][span[0] : span[1]]
        return self._indented(side, span, frame.indents[side], b"")

    def choose(self, spans: Spans, frame: Frame) -> int | None:
        """Which side's text a place gets: that of the only side that changed it; None where both did, differently."""
        base, ours, theirs = (self.text(side, span, frame) for side, span in enumerate(spans))
        if theirs in (base, ours):
            return OURS
        return THEIRS if base == ours else None

    def _indented(self, side: int, span: Span, old: bytes, new: bytes) -> bytes:
        text = self.sources[side][span[0] : span[1]]
        if old == new or b"\n" not in text:
            return text
        lines = text.split(b"\n")
        out = [lines[0]]
        place = span[0] + len(lines[0]) + 1
        for line in lines[1:]:
            moves = line.startswith(old) and line.strip() and not self._is_in_string(side, place)
            out.append(new + line[len(old) :] if moves else line)
            place += len(line) + 1
        return b"\n".join(out)

    def _is_in_string(self, side: int, place: int) -> bool:
        if side not in self._strings:
            self._strings[side] = _long_strings(parse(self.sources[side]).root_node)
        spans = self._strings[side]
        at = bisect_right(spans, (place, -1)) - 1
        return at >= 0 and spans[at][0] < place < spans[at][1]


def _long_strings(root: Node) -> list[Span]:
    found: list[Span] = []
    stack = [root]
    while stack:
        node = stack.pop()
        if node.type == "string":
            if node.end_point.row > node.start_point.row:
                found.append((node.start_byte, node.end_byte))
        elif node.end_point.row > node.start_point.row:
            stack += node.children
    return sorted(found)
