"""Which members of two versions of a sequence are the same one, and what three versions of it add up to.

The sequence is whatever a syntax tree has in order: the statements of a block, the elements of a literal. Members that
are in both versions in the same words anchor the pairing; between two anchors those of one name are paired, and those
that say nearly the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

_LARGEST = 250_000
"""So many comparisons are worth it; beyond, the versions have too little in common to be merged."""
_SAME, _NAMED = 3.0, 2.0
_ALIKE = 0.5
"""From this share of common words on, two members without a name are taken for versions of one."""


class Member(Protocol):
    """What pairing needs to know of a member."""

    @property
    def exact(self) -> bytes:
        """Its text as it is."""

    @property
    def normal(self) -> str:
        """Its text, whatever its layout."""

    @property
    def kind(self) -> str:
        """What it is: members of two kinds are never paired."""

    @property
    def name(self) -> str:
        """What it is known by, "" if by nothing: members of two names are never paired."""

    @property
    def words(self) -> Counter[bytes]:
        """The words it is made of."""


class TooDifferentError(Exception):
    """Two versions have so little in common that comparing them is not worth it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Added:
    """A member that one side adds, by its place there.

    It stands behind `low` and before `high` members of the base, where `low` to `high` are those that its side removed
    in this spot.
    """

    place: int
    low: int
    high: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Anchor:
    """A member that all three versions have, by its places in base, ours and theirs."""

    base: int
    ours: int
    theirs: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Gap:
    """What stands between two anchors: what each side added, and what was in the base.

    `ours_kept` and `theirs_kept` are the members of the base, paired with their places, that only this side still has.
    """

    ours: tuple[Added, ...]
    theirs: tuple[Added, ...]
    ours_kept: tuple[tuple[int, int], ...]
    theirs_kept: tuple[tuple[int, int], ...]


def pair(base: Sequence[Member], side: Sequence[Member]) -> tuple[tuple[int, int], ...]:
    """The places of what is one member in both, in order.

    Raises:
        TooDifferentError: they have little in common.
    """
    head = _common(base, side)
    tail = _common(base[head:][::-1], side[head:][::-1])
    ends = len(base) - tail, len(side) - tail
    pairs = [(place, place) for place in range(head)]
    anchors = [
        (head + one, head + other)
        for one, other in _best(
            base[head : ends[0]],
            side[head : ends[1]],
            lambda one, other: 1 + min(len(one.exact), 80) / 80 if one.exact == other.exact else 0,
        )
    ]
    last = (head, head)
    for one, other in (*anchors, ends):
        alone = one - last[0] == other - last[1] == 1
        likeness = _likeness_alone if alone else _likeness
        between = _best(base[last[0] : one], side[last[1] : other], likeness)
        pairs += ((last[0] + at, last[1] + there) for at, there in between)
        if (one, other) != ends:
            pairs.append((one, other))
        last = one + 1, other + 1
    pairs += ((len(base) - place, len(side) - place) for place in range(tail, 0, -1))
    return tuple(pairs)


def three_way(
    base: Sequence[Member], ours: Sequence[Member], theirs: Sequence[Member]
) -> Iterator[Anchor | Gap]:
    """What three versions of a sequence add up to, in order; gaps and anchors take turns.

    Raises:
        TooDifferentError: they have little in common.
    """
    in_ours, in_theirs = dict(pair(base, ours)), dict(pair(base, theirs))
    anchors = [
        Anchor(base=place, ours=in_ours[place], theirs=in_theirs[place])
        for place in range(len(base))
        if place in in_ours and place in in_theirs
    ]
    last = Anchor(base=-1, ours=-1, theirs=-1)
    for anchor in (*anchors, Anchor(base=len(base), ours=len(ours), theirs=len(theirs))):
        span = range(last.base + 1, anchor.base)
        mine = {in_ours[place]: place for place in span if place in in_ours}
        other = {in_theirs[place]: place for place in span if place in in_theirs}
        yield Gap(
            ours=_added(range(last.ours + 1, anchor.ours), mine, span),
            theirs=_added(range(last.theirs + 1, anchor.theirs), other, span),
            ours_kept=tuple((place, there) for there, place in mine.items()),
            theirs_kept=tuple((place, there) for there, place in other.items()),
        )
        if anchor.base < len(base):
            yield anchor
        last = anchor


def common(ours: Sequence[str], theirs: Sequence[str]) -> list[tuple[int, int]]:
    """The places of the longest common subsequence."""
    return _align(len(ours), len(theirs), lambda one, other: float(ours[one] == theirs[other]))


def overlap(ours: Sequence[Added], theirs: Sequence[Added]) -> bool:
    """Whether both sides replace one member of the base, by different ones."""
    return any(max(one.low, other.low) < min(one.high, other.high) for one in ours for other in theirs)


def is_ordered(ours: Sequence[Added], theirs: Sequence[Added]) -> bool:
    """Whether each side replaces members of its own: then their order tells that of what replaces them."""

    def before(one: Added, other: Added) -> bool:
        return one.high < other.low or (
            one.high == other.low and one.low < one.high and other.low < other.high
        )

    return all(before(one, other) or before(other, one) for one in ours for other in theirs)


def _added(places: range, kept: dict[int, int], span: range) -> tuple[Added, ...]:
    found: list[Added] = []
    for place in places:
        if place in kept:
            continue
        low = max((at + 1 for there, at in kept.items() if there < place), default=span.start)
        high = min((at for there, at in kept.items() if there > place), default=span.stop)
        found.append(Added(place=place, low=low, high=high))
    return tuple(found)


def _common(base: Sequence[Member], side: Sequence[Member]) -> int:
    count = 0
    for one, other in zip(base, side, strict=False):
        if one.exact != other.exact:
            break
        count += 1
    return count


_Weight = Callable[[Member, Member], float]


def _best(base: Sequence[Member], side: Sequence[Member], weight: _Weight) -> list[tuple[int, int]]:
    return _align(len(base), len(side), lambda one, other: weight(base[one], side[other]))


def _align(rows: int, columns: int, weight: Callable[[int, int], float]) -> list[tuple[int, int]]:
    """The pairs in order that weigh most together; nothing is paired at no weight."""
    if rows * columns > _LARGEST:
        raise TooDifferentError
    if not rows or not columns:
        return []
    best = [[0.0] * (columns + 1) for _ in range(rows + 1)]
    weights = [[weight(row, column) for column in range(columns)] for row in range(rows)]
    for row in range(rows - 1, -1, -1):
        line, below, here = best[row], best[row + 1], weights[row]
        for column in range(columns - 1, -1, -1):
            found = max(below[column], line[column + 1])
            if here[column]:
                found = max(found, here[column] + below[column + 1])
            line[column] = found
    pairs: list[tuple[int, int]] = []
    row = column = 0
    while row < rows and column < columns:
        here_weight = weights[row][column]
        if here_weight and best[row][column] == here_weight + best[row + 1][column + 1]:
            pairs.append((row, column))
            row, column = row + 1, column + 1
        elif best[row][column] == best[row + 1][column]:
            row += 1
        else:
            column += 1
    return pairs


def _likeness(one: Member, other: Member) -> float:
    return _weigh(one, other, _ALIKE)


def _likeness_alone(one: Member, other: Member) -> float:
    """Two members alone between two anchors are sooner taken for one, even under another name."""
    if one.name != other.name and one.kind == other.kind == "assignment":
        return _shared(one.words, other.words) or 0.01
    if one.kind == other.kind and one.kind.startswith("element ") and not one.name and not other.name:
        return 0.01 + _shared(one.words, other.words)
    return _weigh(one, other, _ALIKE / 2)


def _weigh(one: Member, other: Member, least: float) -> float:
    if one.normal == other.normal:
        return _SAME
    if one.kind != other.kind or one.name != other.name:
        return 0
    share = _shared(one.words, other.words)
    if one.name:
        return _NAMED + share
    return share if share >= least else 0


def _shared(one: Counter[bytes], other: Counter[bytes]) -> float:
    """The share of words that two texts have in common, 0..1."""
    total = one.total() + other.total()
    return 2 * (one & other).total() / total if total else 1.0
