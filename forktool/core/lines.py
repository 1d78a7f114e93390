"""Lines of a file as they count for evidence: split, normalised, compared, and told trivial from telling.

Only a line feed ends a line. Two lines are the same when they differ in white space or in a trailing comma alone:
an element that stops being the last one of a list gains a comma.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import pairwise
from pathlib import PurePosixPath

from forktool.core.remembered import remembered

_TELLING = re.compile(rb"[\w\x80-\xff].*[\w\x80-\xff]")
"""Two letters or digits at least: a bracket, or one letter of a table, says nothing."""
_TRIVIAL = frozenset(
    b"pass|...|else:|try:|finally:|return|return None|break|continue|else|then|fi|done|do|end|endif|endif()|begin"
    b"|} else {|#endif|#else|return;|break;|continue;|else()".split(b"|")
)
_SLASHES = frozenset(
    {".c", ".cc", ".cpp", ".cu", ".cuh", ".h", ".hpp", ".js", ".ts", ".rs", ".go", ".java", ".proto"}
)
_SMALL_GAP = 40_000
_REMEMBERED = 1 << 27


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """Lines `old_start:old_end` became lines `new_start:new_end`; 0-based and half open, as Python slices."""

    old_start: int
    old_end: int
    new_start: int
    new_end: int


@remembered(count=64, size=_REMEMBERED)
def normal_lines(source: bytes) -> tuple[bytes, ...]:
    """Every line with its white space collapsed, without a comma at its end; index 0 is line 1."""
    lines = source.split(b"\n")
    if not lines[-1]:
        lines.pop()
    return tuple(b" ".join(line.split()).removesuffix(b",") for line in lines)


def has_words(line: bytes) -> bool:
    """Whether a normalised line has words, be it a comment: no bracket, no blank, no bare keyword."""
    return line not in _TRIVIAL and _TELLING.search(line) is not None


def is_telling(path: str, line: bytes) -> bool:
    """Whether a normalised line says something: no bracket, no blank, no bare keyword, no comment."""
    if not has_words(line):
        return False
    if PurePosixPath(path).suffix in _SLASHES:
        return not line.startswith((b"//", b"/*", b"* "))
    return not (line.startswith(b"#") and PurePosixPath(path).suffix not in (".md", ".rst"))


@remembered(count=64, size=_REMEMBERED)
def changes(before: bytes, after: bytes) -> tuple[Change, ...]:
    """What turns `before` into `after`, in whole normalised lines, in order; adjacent changes are one."""
    return tuple(_changes(normal_lines(before), normal_lines(after)))


def hunks(before: bytes, after: bytes, *, context: int = 3) -> tuple[Change, ...]:
    """The changes as git groups them into hunks: those at most twice `context` lines apart are one."""
    grouped: list[Change] = []
    for change in changes(before, after):
        if not grouped or change.old_start - grouped[-1].old_end > 2 * context:
            grouped.append(change)
            continue
        last = grouped.pop()
        grouped.append(
            Change(
                old_start=last.old_start,
                old_end=change.old_end,
                new_start=last.new_start,
                new_end=change.new_end,
            )
        )
    return tuple(grouped)


def _changes(before: Sequence[bytes], after: Sequence[bytes]) -> list[Change]:
    found: list[Change] = []
    gaps = [(0, len(before), 0, len(after))]
    while gaps:
        old, old_end, new, new_end = gaps.pop()
        while old < old_end and new < new_end and before[old] == after[new]:
            old, new = old + 1, new + 1
        while old < old_end and new < new_end and before[old_end - 1] == after[new_end - 1]:
            old_end, new_end = old_end - 1, new_end - 1
        if old == old_end and new == new_end:
            continue
        inner = (
            _split(before, after, (old, old_end, new, new_end)) if old < old_end and new < new_end else None
        )
        if inner is None:
            found.append(Change(old_start=old, old_end=old_end, new_start=new, new_end=new_end))
        else:
            gaps += reversed(inner)
    return found


def _split(
    before: Sequence[bytes], after: Sequence[bytes], gap: tuple[int, int, int, int]
) -> list[tuple[int, int, int, int]] | None:
    """The gaps between the lines that both sides share inside one gap; None where they share none.

    Lines that occur once on both sides are the anchors (patience diff): a blank line or a bracket never is one.
    Without any, small gaps are left to difflib.
    """
    old, old_end, new, new_end = gap
    olds, news = Counter(before[old:old_end]), Counter(after[new:new_end])
    places = {line: place for place, line in enumerate(after[new:new_end], new) if news[line] == 1}
    pairs = [
        (place, places[line])
        for place, line in enumerate(before[old:old_end], old)
        if olds[line] == 1 and line in places
    ]
    if pairs:
        anchors = _longest_rising(pairs)
    elif (old_end - old) * (new_end - new) <= _SMALL_GAP:
        matcher = SequenceMatcher(None, before[old:old_end], after[new:new_end], autojunk=False)
        anchors = [
            (old + a + step, new + b + step)
            for a, b, size in matcher.get_matching_blocks()
            for step in range(size)
        ]
    else:
        return None
    if not anchors:
        return None
    bounds = [(old - 1, new - 1), *anchors, (old_end, new_end)]
    return [(a + 1, c, b + 1, d) for (a, b), (c, d) in pairwise(bounds) if c > a + 1 or d > b + 1]


def _longest_rising(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The longest subsequence of pairs, already rising in the first number, that rises in the second too."""
    tops: list[int] = []
    ends: list[int] = []
    back: list[int] = []
    for index, (_, place) in enumerate(pairs):
        low, high = 0, len(tops)
        while low < high:
            middle = (low + high) // 2
            if tops[middle] < place:
                low = middle + 1
            else:
                high = middle
        back.append(ends[low - 1] if low else -1)
        if low == len(tops):
            tops.append(place)
            ends.append(index)
        else:
            tops[low] = place
            ends[low] = index
    chain: list[tuple[int, int]] = []
    index = ends[-1] if ends else -1
    while index >= 0:
        chain.append(pairs[index])
        index = back[index]
    return chain[::-1]
