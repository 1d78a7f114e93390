"""Two sequences that grew from one: the union of what was inserted on both sides, each member once, in order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Union:
    """How two sides grew one sequence.

    `pairs` are the places in ours and in theirs of each member of the base, `mine` those of the members that only ours
    has. `gaps` say what theirs adds: behind which place in ours (-1 for the front), and which of its members.
    """

    pairs: tuple[tuple[int, int], ...]
    mine: tuple[int, ...]
    gaps: tuple[tuple[int, tuple[int, ...]], ...]

    @property
    def added(self) -> tuple[int, ...]:
        """The places in theirs of all that it adds."""
        return tuple(index for _, indices in self.gaps for index in indices)


def union_of(
    base: Sequence[str],
    ours: Sequence[str],
    theirs: Sequence[str],
    names: tuple[Sequence[str], Sequence[str]],
) -> Union | None:
    """The union of what both sides inserted; None where one of them did anything else.

    Args:
        base: keys of the members; a member is the same on another side where its key is.
        ours: the same for ours, which goes first where both insert at one place.
        theirs: the same for theirs.
        names: what the members of ours and theirs are: an insertion that both made is taken once.
    """
    in_ours, in_theirs = _subsequence(base, ours), _subsequence(base, theirs)
    if in_ours is None or in_theirs is None:
        return None
    mine = tuple(place for place in range(len(ours)) if place not in set(in_ours))
    added = [place for place in range(len(theirs)) if place not in set(in_theirs)]
    texts = [names[1][place] for place in added]
    if len(set(texts)) < len(texts) or set(base) & {
        *(theirs[at] for at in added),
        *(ours[at] for at in mine),
    }:
        return None
    known = {names[0][place] for place in mine}
    gaps: dict[int, list[int]] = {}
    for place in added:
        if names[1][place] not in known:
            following = next((at for at, there in enumerate(in_theirs) if there > place), None)
            after = len(ours) - 1 if following is None else in_ours[following] - 1
            gaps.setdefault(after, []).append(place)
    return Union(
        pairs=tuple(zip(in_ours, in_theirs, strict=True)),
        mine=mine,
        gaps=tuple((after, tuple(places)) for after, places in gaps.items()),
    )


def union(base: Sequence[str], ours: Sequence[str], theirs: Sequence[str]) -> tuple[str, ...] | None:
    """The members of the union in order: see `union_of`."""
    found = union_of(base, ours, theirs, (ours, theirs))
    if found is None:
        return None
    gaps = dict(found.gaps)
    merged = [theirs[place] for place in gaps.get(-1, ())]
    for place, key in enumerate(ours):
        merged += (key, *(theirs[added] for added in gaps.get(place, ())))
    return tuple(merged)


def _subsequence(base: Sequence[str], side: Sequence[str]) -> list[int] | None:
    """Where the members of the base are in a side, in order; None if one is missing."""
    places: list[int] = []
    start = 0
    for key in base:
        try:
            start = side.index(key, start) + 1
        except ValueError:
            return None
        places.append(start - 1)
    return places
