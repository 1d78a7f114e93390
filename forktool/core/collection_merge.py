"""The three-way merge of the members of a literal, a signature, an argument list or an import."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from forktool.core.commuting import nodes_commute
from forktool.core.matching import Gap, common, is_ordered, overlap, three_way
from forktool.core.members import Collection, Element, collection_of, comments_in
from forktool.core.pieces import Piece
from forktool.core.sides import BASE, OURS, THEIRS, ClashError, Frame, Sides, Span, Spans, Triple
from forktool.core.syntax import IMPORTS

MergeNode = Callable[[Triple, Frame], list[Piece]]
_Three = tuple[Collection, Collection, Collection]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Slot:
    """One member of the result: by side, where it comes from; all three sides where all have it."""

    by_side: dict[int, Element]


class CollectionMerge:
    """Merges collections; `node` merges one member."""

    def __init__(self, sides: Sides, node: MergeNode) -> None:
        self._sides = sides
        self._node = node

    def merge(self, nodes: Triple, frame: Frame) -> list[Piece]:
        """Merge corresponding collections. Where a side laid it out anew, the layout is ours.

        Raises:
            ClashError: the sides clash.
            UnclearLayoutError: something else than members, commas and comments is in it.
        """
        found = [collection_of(source, node) for source, node in zip(self._sides.sources, nodes, strict=True)]
        three = (found[0], found[1], found[2])
        _refuse_imports(three)
        slots = self._slots(three)
        return _Writer(self._sides, self._node, three, frame).write(slots)

    def _slots(self, three: _Three) -> list[_Slot]:
        lists = [one.members for one in three]
        slots: list[_Slot] = []
        for step in three_way(lists[0], lists[1], lists[2]):
            if isinstance(step, Gap):
                slots += self._gap(step, three)
            else:
                places = (step.base, step.ours, step.theirs)
                slots.append(_Slot(by_side={side: lists[side][at] for side, at in enumerate(places)}))
        slots = _once(slots)
        _refuse_doubles(three, slots)
        return slots

    def _gap(self, gap: Gap, three: _Three) -> list[_Slot]:
        for side, kept in ((OURS, gap.ours_kept), (THEIRS, gap.theirs_kept)):
            for place, there in kept:
                before, after = three[BASE].members[place], three[side].members[there]
                if not _is_untouched(before, after):
                    raise ClashError
        ours = [three[OURS].members[one.place] for one in gap.ours]
        theirs = [three[THEIRS].members[one.place] for one in gap.theirs]
        both = common([one.normal for one in ours], [one.normal for one in theirs])
        alone = [one for at, one in enumerate(ours) if at not in {mine for mine, _ in both}]
        other = [one for at, one in enumerate(theirs) if at not in {there for _, there in both}]
        if alone and other and overlap(gap.ours, gap.theirs):
            raise ClashError
        if alone and other and not (gap.ours and gap.theirs and is_ordered(gap.ours, gap.theirs)):
            nodes = [one.node for one in alone], [one.node for one in other]
            if not nodes_commute(three[OURS].node, *nodes):
                raise ClashError
        slots: list[_Slot] = []
        if not both:
            rows = [(one.low, OURS, one.place) for one in gap.ours]
            rows += [(one.low, THEIRS, one.place) for one in gap.theirs]
            return [_Slot(by_side={side: three[side].members[at]}) for _, side, at in sorted(rows)]
        last = (0, 0)
        for mine, there in (*both, (len(ours), len(theirs))):
            slots += (_Slot(by_side={OURS: one}) for one in ours[last[0] : mine])
            slots += (_Slot(by_side={THEIRS: one}) for one in theirs[last[1] : there])
            if mine < len(ours):
                slots.append(_Slot(by_side={OURS: ours[mine]}))
            last = mine + 1, there + 1
        return slots


class _Writer:
    """Writes the members of one collection."""

    def __init__(self, sides: Sides, node: MergeNode, three: _Three, frame: Frame) -> None:
        self._sides, self._node, self._three, self._frame = sides, node, three, frame
        layouts = {(one.layout, one.is_bracketed) for one in three}
        self._is_level = len(layouts) == 1
        self._ours = three[OURS] if three[OURS].members else three[THEIRS]

    def write(self, slots: Sequence[_Slot]) -> list[Piece]:
        """The text of the whole collection."""
        out = self._chosen([(one.node.start_byte, one.opened) for one in self._three], must=False)
        last_comma = self._last_comma(slots)
        in_comment = False
        for at, slot in enumerate(slots):
            lead = self._lead(slot, is_first=at == 0)
            if in_comment and not _breaks(self._sides, lead):
                raise ClashError
            out += lead
            out += self._member(slot)
            if at + 1 < len(slots) or last_comma:
                out.append(b",")
            comment = self._comment(slot)
            in_comment = bool(comment)
            out += comment
        closing = self._closing(slots)
        if in_comment and not _breaks(self._sides, closing):
            raise ClashError
        out += closing
        return out + self._put(OURS, (self._three[OURS].bracket, self._three[OURS].node.end_byte))

    def _put(self, side: int, span: Span) -> list[Piece]:
        return self._sides.put(side, span, self._frame)

    def _chosen(self, spans: Sequence[Span], *, must: bool) -> list[Piece]:
        three: Spans = (spans[0], spans[1], spans[2])
        side = self._sides.choose(three, self._frame) if self._is_level or must else OURS
        if side is None and must:
            raise ClashError
        side = OURS if side is None else side
        return self._put(side, spans[side])

    def _last_comma(self, slots: Sequence[_Slot]) -> bool:
        base, ours, theirs = (one.has_last_comma for one in self._three)
        if len(slots) < 2:
            return bool(slots) and (ours if self._three[OURS].members else theirs or self._is_tuple())
        if not self._is_level or ours != base:
            return self._ours.has_last_comma
        return theirs

    def _is_tuple(self) -> bool:
        return self._three[OURS].node.type == "tuple"

    def _member(self, slot: _Slot) -> list[Piece]:
        if len(slot.by_side) == 3:
            nodes = tuple(slot.by_side[side].node for side in (BASE, OURS, THEIRS))
            return self._node((nodes[0], nodes[1], nodes[2]), self._frame)
        side, one = next(iter(slot.by_side.items()))
        return self._put(side, (one.node.start_byte, one.node.end_byte))

    def _comment(self, slot: _Slot) -> list[Piece]:
        if len(slot.by_side) == 3:
            return self._chosen(
                [(slot.by_side[at].trail, slot.by_side[at].end) for at in range(3)], must=True
            )
        side, one = next(iter(slot.by_side.items()))
        return self._put(side, (one.trail, one.end))

    def _lead(self, slot: _Slot, *, is_first: bool) -> list[Piece]:
        """White space and comments before a member, those of a member that is as much the first as this one."""
        if len(slot.by_side) == 1:
            side, one = next(iter(slot.by_side.items()))
            return self._new_lead(side, one, is_first=is_first)
        _refuse_comments([one.lead for one in slot.by_side.values()])
        firsts = {side: self._three[side].members[0] is one for side, one in slot.by_side.items()}
        if not self._is_level:
            if firsts[OURS] == is_first:
                return self._put(OURS, _lead_span(slot.by_side[OURS]))
            return self._plain_lead(slot.by_side[OURS].lead, is_first=is_first)
        alike = [side for side in (OURS, THEIRS, BASE) if firsts[side] == is_first]
        if len(alike) == 3:
            return self._chosen([_lead_span(slot.by_side[at]) for at in range(3)], must=False)
        if alike:
            return self._put(alike[0], _lead_span(slot.by_side[alike[0]]))
        return self._plain_lead(slot.by_side[OURS].lead, is_first=is_first)

    def _new_lead(self, side: int, one: Element, *, is_first: bool) -> list[Piece]:
        collection = self._three[side]
        was_first = collection.members[0] is one
        if side == OURS and was_first == is_first:
            return self._put(OURS, _lead_span(one))
        if self._is_level and was_first == is_first and b"\n" not in one.lead:
            return self._put(side, _lead_span(one))
        return self._plain_lead(one.lead, is_first=is_first)

    def _plain_lead(self, own: bytes, *, is_first: bool) -> list[Piece]:
        """The white space that ours would have there, with the comments of the member."""
        ours = self._ours
        if is_first:
            space = ours.members[0].lead if ours.members else b""
            space = b"" if space.strip() else space
        else:
            space = ours.separator
            if b"\n" in space and b"\n" not in own and not own.strip() and self._is_level:
                space = own or b" "
            elif self._is_level and b"\n" in own and b"\n" not in space:
                space = own
        comments = comments_in(own)
        if comments:
            if b"\n" not in space:
                raise ClashError
            return [b"".join(space + comment for comment in comments) + space]
        return [space]

    def _closing(self, slots: Sequence[_Slot]) -> list[Piece]:
        _refuse_comments([one.closing for one in self._three])
        spans = [(one.close, one.bracket) for one in self._three]
        if not slots:
            return []
        if not self._three[OURS].members:
            return self._put(THEIRS, spans[THEIRS])
        return self._chosen(spans, must=False)


def _lead_span(one: Element) -> Span:
    return one.start, one.node.start_byte


def _breaks(sides: Sides, pieces: Sequence[Piece]) -> bool:
    for piece in pieces:
        text = piece if isinstance(piece, bytes) else sides.sources[OURS][piece.start : piece.end]
        if b"\n" in text:
            return True
    return False


def _is_untouched(before: Element, after: Element) -> bool:
    return before.normal == after.normal and (
        comments_in(before.lead + before.comment) == comments_in(after.lead + after.comment)
    )


def _refuse_comments(leads: Sequence[bytes]) -> None:
    """Comments that a side changed between members are left to a person.

    Raises:
        ClashError: one did.
    """
    if len({tuple(comments_in(lead)) for lead in leads}) > 1:
        raise ClashError


def _refuse_imports(three: _Three) -> None:
    """Imports of another module, and of all names, do not add up.

    Raises:
        ClashError: they are such.
    """
    if three[OURS].node.type not in IMPORTS:
        return
    modules = {one.node.child_by_field_name("module_name") is not None for one in three}
    names = {(node.text if (node := one.node.child_by_field_name("module_name")) else b"") for one in three}
    if len(modules) > 1 or len(names) > 1 or not all(one.members for one in three):
        raise ClashError
    if any(member.node.type == "wildcard_import" for one in three for member in one.members):
        raise ClashError


def _once(slots: Sequence[_Slot]) -> list[_Slot]:
    """What both sides added in two places stays where upstream has it."""
    ours = {slot.by_side[OURS].normal for slot in slots if set(slot.by_side) == {OURS}}
    return [
        slot for slot in slots if set(slot.by_side) != {THEIRS} or slot.by_side[THEIRS].normal not in ours
    ]


def _refuse_doubles(three: _Three, slots: Sequence[_Slot]) -> None:
    """Nothing may be there more often than on a side, and no key may have two values.

    Raises:
        ClashError: it would.
    """
    texts = Counter(one.normal for slot in slots for one in list(slot.by_side.values())[-1:])
    before = [Counter(one.normal for one in side.members) for side in three]
    new = {one.normal for slot in slots if len(slot.by_side) == 1 for one in slot.by_side.values()}
    if any(texts[text] > max(before[OURS][text], before[THEIRS][text]) for text in new):
        raise ClashError
    keys = Counter(next(iter(slot.by_side.values())).name for slot in slots)
    named = [Counter(one.name for one in side.members) for side in three]
    if any(key and count > max(named[OURS][key], named[THEIRS][key]) for key, count in keys.items()):
        raise ClashError
