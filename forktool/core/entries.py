"""A keyed text as a tree of entries, and the merge of three such trees.

An entry is a key of a mapping or an item of a list with the whole lines that say it, the comments and blank lines above
it included. Entries of the two sides are merged by their keys, so that neighbouring lines do not clash; the result
consists of lines of the two sides, byte for byte.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property

_SORTED_FROM = 4
"""So many members in order are a list that is kept sorted."""


class Kind(StrEnum):
    """What the members of an entry are."""

    LEAF = "leaf"
    """It has none: its text is one value."""
    MAPPING = "mapping"
    """Keys and their values."""
    NAMES = "names"
    """A mapping in which nothing is said by what is next to what."""
    LIST = "list"
    """Values whose order says little, such as names."""
    STEPS = "steps"
    """Things done one after the other."""


class ClashError(Exception):
    """The two sides' changes do not plainly add up."""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One entry: `lead` above it, its own first lines, its members, and the lines that close it.

    Attributes:
        key: what it is known by among its siblings.
        lead: comments and blank lines above, whole lines.
        head: its first lines.
        kind: what its members are.
        members: nested entries.
        tail: the lines behind the last member.
        comma: whether a comma follows; None where the format puts none there.
        after: what stands behind the comma, up to the end of the line.
        column: where it starts in its line.
    """

    key: str
    lead: bytes
    head: bytes
    kind: Kind
    members: tuple[Entry, ...]
    tail: bytes
    comma: bool | None
    after: bytes
    column: int

    @cached_property
    def text(self) -> bytes:
        """All that it says, without its lead and without its comma."""
        inside = b"".join(member.lead + member.text for member in self.members)
        return self.head + inside + self.tail + self.after

    def emit(self) -> bytes:
        """The entry as it stands in the file."""
        inside = b"".join(member.emit() for member in self.members)
        return self.lead + self.head + inside + self.tail + (b"," if self.comma else b"") + self.after

    @property
    def starts_group(self) -> bool:
        """Whether a blank line is above it."""
        return any(not line.strip() for line in self.lead.splitlines())

    def same(self, other: Entry) -> bool:
        """Whether another entry says the same, its lead included but for blank lines."""
        return self.text == other.text and _without_blanks(self.lead) == _without_blanks(other.lead)


def merge(base: Entry, ours: Entry, theirs: Entry) -> Entry:
    """Three versions of one entry as one.

    Raises:
        ClashError: the changes do not add up.
    """
    lead = _lead(base.lead, ours.lead, theirs.lead)
    if theirs.text in (base.text, ours.text):
        return replace(ours, lead=lead)
    if ours.text == base.text:
        return replace(theirs, lead=lead)
    if base.kind is Kind.LEAF and base.head == ours.head == theirs.head:
        base = replace(base, kind=ours.kind)  # It is empty, and both sides put something in.
    kinds = {base.kind, ours.kind, theirs.kind}
    if kinds == {Kind.LEAF} or len(kinds) > 1:
        raise ClashError
    members = _Members(base, ours, theirs).merged()
    if not members:
        raise ClashError
    return replace(
        ours,
        lead=lead,
        head=_choose(base.head, ours.head, theirs.head),
        tail=_choose(base.tail, ours.tail, theirs.tail),
        after=_choose(base.after, ours.after, theirs.after),
        members=_with_commas(members, ours, theirs),
    )


def _lead(base: bytes, ours: bytes, theirs: bytes) -> bytes:
    """The comments and blank lines above an entry; of blank lines that differ on all sides, ours."""
    try:
        return _choose(base, ours, theirs)
    except ClashError:
        said = [_without_blanks(lead) for lead in (base, ours, theirs)]
        if said[2] in said[:2]:
            return ours
        if said[1] == said[0]:
            return theirs
        raise


def _without_blanks(lead: bytes) -> list[bytes]:
    return [line for line in lead.splitlines() if line.strip()]


def _choose(base: bytes, ours: bytes, theirs: bytes) -> bytes:
    if theirs in (base, ours):
        return ours
    if ours == base:
        return theirs
    raise ClashError


def _with_commas(members: Sequence[Entry], ours: Entry, theirs: Entry) -> tuple[Entry, ...]:
    if ours.members[-1].comma is None:
        return tuple(members)
    at_end = ours.members[-1].comma and theirs.members[-1].comma
    return tuple(replace(member, comma=True if member is not members[-1] else at_end) for member in members)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Run:
    """Entries that one side put next to each other.

    `behind` is the base's entry before them, None at the front; `ahead` the one after; `instead_of` what the side took
    away between these two.
    """

    entries: tuple[Entry, ...]
    behind: str | None
    ahead: str | None
    instead_of: tuple[str, ...]


_FRONT, _BACK = "\0front", "\0back"
"""Stand for the last common member before, and the first after, what the sides changed."""


class _Members:
    """The members of three versions of one entry, less those at both ends that are the same in all three."""

    def __init__(self, base: Entry, ours: Entry, theirs: Entry) -> None:
        sides = (base.members, ours.members, theirs.members)
        if len({side[0].column for side in sides if side}) > 1:
            raise ClashError
        front = _common(*sides)
        back = _common(*(side[front:][::-1] for side in sides))
        self._kind = base.kind
        self._around = (ours.members[:front], ours.members[len(ours.members) - back :])
        self._base, self._ours, self._theirs = (
            _by_key(side[front : len(side) - back], front > 0, back > 0) for side in sides
        )
        self._renamed: set[str] = set()
        self._ours, self._theirs = (self._with_base_keys(side) for side in (self._ours, self._theirs))
        self._is_sorted = base.kind is not Kind.STEPS and all(map(_is_sorted, sides))

    def merged(self) -> list[Entry]:
        """The members of all.

        Raises:
            ClashError: the changes do not add up.
        """
        base, ours, theirs = self._base, self._ours, self._theirs
        kept: dict[str, Entry | None] = {}
        for key, entry in base.items():
            mine, other = ours.get(key), theirs.get(key)
            if entry is None or mine is None or other is None:
                self._check_removal(entry, mine, other)
                continue
            if key in self._renamed and not (mine.same(entry) or other.same(entry) or mine.same(other)):
                raise ClashError
            kept[key] = merge(entry, mine, other)
        for key in ours.keys() & theirs.keys() - base.keys():
            mine, other = ours[key], theirs[key]
            if mine is None or other is None or not mine.same(other):
                raise ClashError
        for side, opposite in ((ours, theirs), (theirs, ours)):
            if [key for key in side if key in base] != [key for key in base if key in side]:
                raise ClashError
            for run in self._runs(side):
                self._check_place(run, opposite)
        return [*self._around[0], *self._in_order(kept), *self._around[1]]

    def _with_base_keys(self, side: dict[str, Entry | None]) -> dict[str, Entry | None]:
        """The side with the base's key for what it put in place of an entry: as many new ones as went."""
        keys: dict[str, str] = {}
        for run in self._runs(side):
            if self._kind is not Kind.STEPS and len(run.entries) == len(run.instead_of):
                keys |= {entry.key: key for entry, key in zip(run.entries, run.instead_of, strict=True)}
        self._renamed.update(keys.values())
        return {keys.get(key, key): entry for key, entry in side.items()}

    def _check_removal(self, base: Entry | None, mine: Entry | None, other: Entry | None) -> None:
        if base is None:
            return  # It stands for what is the same on all sides.
        left = mine or other
        if self._kind is Kind.STEPS or (left is not None and not left.same(base)):
            raise ClashError

    def _runs(self, side: Mapping[str, Entry | None]) -> list[_Run]:
        order = list(self._base)
        runs: list[_Run] = []
        behind: str | None = None
        entries: list[Entry] = []
        for key in (*side, None):
            if key is not None and key not in self._base:
                entry = side[key]
                if entry is not None:
                    entries.append(entry)
                continue
            if entries:
                start = order.index(behind) + 1 if behind is not None else 0
                end = order.index(key) if key is not None else len(order)
                runs.append(
                    _Run(entries=tuple(entries), behind=behind, ahead=key, instead_of=tuple(order[start:end]))
                )
            behind, entries = key, []
        return runs

    def _check_place(self, run: _Run, opposite: Mapping[str, Entry | None]) -> None:
        """What a side replaced must be as that side knew it, and what its new items stand behind must be there.

        Raises:
            ClashError: the other side changed or removed it.
        """
        if not self._base:
            return
        if run.instead_of:
            for key in run.instead_of:
                old, there = self._base[key], opposite.get(key)
                if old is None or there is None or not there.same(old):
                    raise ClashError
            return
        if self._kind is Kind.NAMES:
            return
        neighbour = run.behind if run.behind is not None else run.ahead
        if neighbour is not None and neighbour not in opposite:
            raise ClashError

    def _in_order(self, kept: Mapping[str, Entry | None]) -> list[Entry]:
        """Ours in its order, without what theirs removed, and theirs put in behind what it stands behind."""
        order = list(self._ours)
        added: dict[int, list[Entry]] = {}
        for run in self._runs(self._theirs):
            for entry in run.entries:
                if entry.key not in self._ours:
                    added.setdefault(self._place(run, entry, order), []).append(entry)
        result = added.get(-1, [])
        for at, key in enumerate(order):
            there = kept.get(key) if key in self._base else self._ours[key]
            if there is not None:
                result.append(there)
            result += added.get(at, [])
        return result

    def _place(self, run: _Run, entry: Entry, order: Sequence[str]) -> int:
        if run.instead_of:
            at = order.index(run.instead_of[-1])
        else:
            known = list(self._base)
            before = known[: known.index(run.behind) + 1] if run.behind is not None else []
            at = max((order.index(key) for key in before if key in self._ours), default=-1)
        while at + 1 < len(order) and order[at + 1] not in self._base:
            if self._is_sorted and order[at + 1] > entry.key:
                break
            following = self._ours[order[at + 1]]
            if following is not None and following.starts_group and not entry.starts_group:
                break
            at += 1
        return at


def _common(*sides: Sequence[Entry]) -> int:
    """How many entries at the front are the same on all sides."""
    count = 0
    for one, other, another in zip(*sides, strict=False):
        if not (one.text == other.text == another.text and one.lead == other.lead == another.lead):
            break
        count += 1
    return count


def _by_key(entries: Sequence[Entry], has_front: bool, has_back: bool) -> dict[str, Entry | None]:
    keys = [entry.key for entry in entries]
    if len(set(keys)) < len(keys):
        raise ClashError
    found: dict[str, Entry | None] = {_FRONT: None} if has_front else {}
    found |= {entry.key: entry for entry in entries}
    return found | ({_BACK: None} if has_back else {})


def _is_sorted(entries: Sequence[Entry]) -> bool:
    keys = [entry.key for entry in entries]
    return len(keys) >= _SORTED_FROM and keys == sorted(keys)
