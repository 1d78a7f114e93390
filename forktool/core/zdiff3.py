"""Conflicts in git's zdiff3 form: lines that both sides agree on at a conflict's edges stand outside of it.

The form is that of git-merge-file(1) `--zdiff3` and `merge.conflictStyle=zdiff3` (git 2.35): the base's lines stay as
they are. A structural resolution needs diff3, which keeps whole lines of all three versions together; a person, and
git's rerere, see this one.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from forktool.core.lines import changes
from forktool.core.markers import Conflict, join_pieces, parse_conflicts

_LINE = re.compile(rb"[^\n]*\n|[^\n]+")


@dataclass(frozen=True, kw_only=True, slots=True)
class Region:
    """One conflict, and where its sides stand.

    `line` is the 1-based line of the first marker in the zdiff3 text. `ours_at`, `base_at` and `theirs_at` are the
    1-based lines, in the text with that side chosen everywhere, of the side's first line; a side without lines stands
    before that line.
    """

    line: int
    ours: bytes
    base: bytes
    theirs: bytes
    ours_at: int
    base_at: int
    theirs_at: int


def zealous(marked: bytes, *, words: tuple[bytes, bytes, bytes] = (b"", b"", b"")) -> bytes:
    """A text with diff3 markers in zdiff3 form; any other text as it is.

    Args:
        marked: the text.
        words: what to put before the labels of ours, base and theirs, where those have any.
    """
    pieces = parse_conflicts(marked)
    if pieces is None:
        return marked
    lines = _LINE.findall(marked)
    written: list[bytes] = []
    at = 0
    for piece in pieces:
        if not isinstance(piece, Conflict):
            written.append(piece)
            at += _count(piece)
            continue
        head, conflict, tail = _narrowed(piece)
        ours, base = at + 1 + _count(piece.ours), at + 2 + _count(piece.ours) + _count(piece.base)
        end = base + 1 + _count(piece.theirs)
        first, second, last = (
            _labelled(lines[place], word) for place, word in zip((at, ours, end), words, strict=True)
        )
        written += (
            head,
            first,
            conflict.ours,
            second,
            conflict.base,
            lines[base],
            conflict.theirs,
            last,
            tail,
        )
        at = end + 1
    return b"".join(written)


def regions(marked: bytes) -> tuple[Region, ...]:
    """The conflicts of a text with diff3 or zdiff3 markers, in order, in zdiff3 form."""
    found: list[Region] = []
    line = ours_at = base_at = theirs_at = 1
    for piece in parse_conflicts(marked) or ():
        if not isinstance(piece, Conflict):
            count = _count(piece)
            line, ours_at, base_at, theirs_at = (
                place + count for place in (line, ours_at, base_at, theirs_at)
            )
            continue
        head, conflict, tail = _narrowed(piece)
        above, below = _count(head), _count(tail)
        counts = tuple(map(_count, (conflict.ours, conflict.base, conflict.theirs)))
        region = Region(
            line=line + above,
            ours=conflict.ours,
            base=conflict.base,
            theirs=conflict.theirs,
            ours_at=ours_at + above,
            base_at=base_at,
            theirs_at=theirs_at + above,
        )
        found.append(region)
        line += above + 4 + sum(counts) + below
        ours_at += above + counts[0] + below
        base_at += counts[1]
        theirs_at += above + counts[2] + below
    return tuple(found)


def side(marked: bytes, choose: Callable[[Conflict], bytes]) -> bytes:
    """The text with one side chosen at every conflict; it has the other side's clean changes too."""
    return join_pieces(parse_conflicts(marked) or (marked,), choose)


def line_in(other: bytes, text: bytes, line: int) -> int:
    """The line of `other` that a line of `text` is, or the one that it would stand before; 1-based."""
    at = line - 1
    moved = 0
    for change in changes(text, other):
        if change.old_start > at:
            break
        if change.old_end > at:
            return (
                min(change.new_start + at - change.old_start, max(change.new_start, change.new_end - 1)) + 1
            )
        moved = change.new_end - change.old_end
    return at + moved + 1


def _narrowed(conflict: Conflict) -> tuple[bytes, Conflict, bytes]:
    """What both sides begin with, the conflict without it and without what both end with, and that."""
    ours, theirs = _LINE.findall(conflict.ours), _LINE.findall(conflict.theirs)
    shorter = min(len(ours), len(theirs))
    above = 0
    while above < shorter and ours[above] == theirs[above]:
        above += 1
    below = 0
    while below < shorter - above and ours[-1 - below] == theirs[-1 - below]:
        below += 1
    narrowed = Conflict(
        line=conflict.line + above,
        ours=b"".join(ours[above : len(ours) - below]),
        base=conflict.base,
        theirs=b"".join(theirs[above : len(theirs) - below]),
    )
    return b"".join(ours[:above]), narrowed, b"".join(ours[len(ours) - below :])


def _labelled(marker: bytes, word: bytes) -> bytes:
    return marker[:8] + word + b" " + marker[8:] if word and marker[7:8] == b" " else marker


def _count(text: bytes) -> int:
    return text.count(b"\n") + (not text.endswith(b"\n") if text else 0)
