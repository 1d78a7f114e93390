"""Text with git's conflict markers in diff3 style, taken apart.

The form is that of git-merge-file(1) `--diff3` and of `merge.conflictStyle=diff3`, with markers of seven characters.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

_LINE = re.compile(rb"[^\n]*\n|[^\n]+")
_OURS, _BASE, _THEIRS, _END = b"<<<<<<<", b"|||||||", b"=======", b">>>>>>>"


@dataclass(frozen=True, kw_only=True, slots=True)
class Conflict:
    """One conflict region; each side is its whole lines. `line` is the 1-based line of the first marker."""

    line: int
    ours: bytes
    base: bytes
    theirs: bytes


def parse_conflicts(conflicted: bytes) -> tuple[bytes | Conflict, ...] | None:
    """The text between conflicts and the conflicts, in order; None where the markers are not diff3's, or nested."""
    pieces: list[bytes | Conflict] = []
    sides: dict[bytes, list[bytes]] = {}
    plain: list[bytes] = []
    into, start = plain, 0
    for number, line in enumerate(_LINE.findall(conflicted), 1):
        marker = _marker(line)
        if marker == _OURS and not sides:
            pieces.append(b"".join(plain))
            plain, start, sides = [], number, {_OURS: []}
            into = sides[_OURS]
        elif marker == _BASE and list(sides) == [_OURS]:
            into = sides.setdefault(_BASE, [])
        elif marker == _THEIRS and list(sides) == [_OURS, _BASE]:
            into = sides.setdefault(_THEIRS, [])
        elif marker == _END and len(sides) == 3:
            ours, base, theirs = (b"".join(lines) for lines in sides.values())
            pieces.append(Conflict(line=start, ours=ours, base=base, theirs=theirs))
            sides, into = {}, plain
        elif marker in (_OURS, _BASE, _END) or (marker == _THEIRS and len(sides) == 1):
            return None
        else:
            into.append(line)
    if sides or not pieces:
        return None
    return (*pieces, b"".join(plain))


def _marker(line: bytes) -> bytes:
    """The marker that a line is, b"" if it is none. Only the separator stands alone; the others carry a label."""
    head, rest = line[:7], line[7:].rstrip(b"\r\n")
    if head == _THEIRS:
        return head if not rest else b""
    return head if head in (_OURS, _BASE, _END) and (not rest or rest[:1] == b" ") else b""


def join_pieces(pieces: Sequence[bytes | Conflict], choose: Callable[[Conflict], bytes]) -> bytes:
    """The text with one choice for each conflict."""
    return b"".join(choose(piece) if isinstance(piece, Conflict) else piece for piece in pieces)


def sides_of(pieces: Sequence[bytes | Conflict]) -> tuple[bytes, bytes, bytes]:
    """The whole text as the base, ours and theirs have it in every conflict."""
    return (
        join_pieces(pieces, lambda conflict: conflict.base),
        join_pieces(pieces, lambda conflict: conflict.ours),
        join_pieces(pieces, lambda conflict: conflict.theirs),
    )
