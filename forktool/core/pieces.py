"""The text of a merge as it grows: ranges of upstream's file, and bytes that are not in it there.

Ranges say what stays in place, so that the result reads as edits of upstream's file.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple


class Kept(NamedTuple):
    """Bytes `start` to `end` of upstream's file."""

    start: int
    end: int


Piece = Kept | bytes


@dataclass(frozen=True, kw_only=True, slots=True)
class Edit:
    """Bytes `start:end` become `text`."""

    start: int
    end: int
    text: bytes


def edits_of(source: bytes, pieces: Iterable[Piece]) -> tuple[Edit, ...]:
    """What turns upstream's file into the text of the pieces; each edit is as small as its ends allow."""
    found: list[Edit] = []
    reached, pending = 0, list[bytes]()

    def close(at: int) -> None:
        text = b"".join(pending)
        pending.clear()
        edit = _smallest(source, reached, at, text)
        if edit is not None:
            found.append(edit)

    for piece in pieces:
        if isinstance(piece, bytes):
            pending.append(piece)
        elif piece.start < reached:
            pending.append(source[piece.start : piece.end])
        else:
            close(piece.start)
            reached = piece.end
    close(len(source))
    return tuple(found)


def _smallest(source: bytes, start: int, end: int, text: bytes) -> Edit | None:
    while start < end and text and source[start] == text[0]:
        start, text = start + 1, text[1:]
    while start < end and text and source[end - 1] == text[-1]:
        end, text = end - 1, text[:-1]
    return Edit(start=start, end=end, text=text) if text or start < end else None


def apply_edits(source: bytes, edits: Sequence[Edit], start: int, end: int) -> bytes:
    """The part of a file with its edits made; they lie in it, in order, and do not overlap."""
    out: list[bytes] = []
    for edit in edits:
        out += (source[start : edit.start], edit.text)
        start = edit.end
    return b"".join((*out, source[start:end]))


def in_regions(
    source: bytes, edits: Sequence[Edit], regions: Sequence[tuple[int, int]]
) -> list[bytes] | None:
    """What each region becomes when all edits lie in regions; None where one does not.

    An insertion can read as one further up or down (the blank line above a function or the one below it): what counts
    is that the text around the regions stays.

    Args:
        source: upstream's file.
        edits: as of `edits_of`.
        regions: where upstream's side of each conflict starts and ends, in order.
    """
    groups: list[list[Edit]] = [[] for _ in regions]
    for edit in edits:
        nearest = min(range(len(regions)), key=lambda place: _distance(edit, regions[place]))
        groups[nearest].append(edit)
    found: list[bytes] = []
    reached = 0
    for place, (group, (start, end)) in enumerate(zip(groups, regions, strict=True)):
        last = max((end, *(edit.end for edit in group)))
        if place + 1 < len(regions):
            following = (regions[place + 1][0], *(edit.start for edit in groups[place + 1]))
            stop = min(following)
        else:
            stop = len(source)
        if stop < last:
            return None
        text = apply_edits(source, group, reached, stop)
        before, after = source[reached:start], source[end:stop]
        if len(text) < len(before) + len(after) or not text.startswith(before) or not text.endswith(after):
            return None
        found.append(text[len(before) : len(text) - len(after)])
        reached = stop
    return found


def _distance(edit: Edit, region: tuple[int, int]) -> int:
    start, end = region
    return max(0, start - edit.end, edit.start - end)
