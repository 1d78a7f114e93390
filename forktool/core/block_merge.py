"""The three-way merge of statements in a block, of the clauses of a statement, and of decorators."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from forktool.core.commuting import bound_by, items_commute
from forktool.core.layout import Item, split_items
from forktool.core.matching import Gap, common, is_ordered, overlap, three_way
from forktool.core.pieces import Piece
from forktool.core.sides import BASE, OURS, THEIRS, ClashError, Frame, Sides, Spans, Triple
from forktool.core.syntax import CLAUSES, COMPOUND, Node

MergeRun = Callable[[tuple[Sequence[Node], Sequence[Node], Sequence[Node]], Frame], list[Piece]]
_TELLING = 6
"""A shorter line, in bytes, stands in many places."""
_Lists = tuple[list[Item], list[Item], list[Item]]


class BlockMerge:
    """Merges what stands on lines of its own; `run` merges the parts of one statement."""

    def __init__(self, sides: Sides, run: MergeRun) -> None:
        self._sides = sides
        self._run = run

    def block(self, nodes: Triple, spans: Spans, frame: Frame) -> list[Piece]:
        """Merge the statements of corresponding blocks, from their first line to the end of their last.

        Raises:
            ClashError: the sides clash.
        """
        units = [
            [
                (child,)
                for child in node.children
                if child.type not in ("comment", ";") and child.end_byte > child.start_byte
            ]
            for node in nodes
        ]
        lists = self._split(units, spans)
        first = [next((item.indent for item in items if item.nodes), b"") for items in lists]
        target = first[THEIRS] if first[OURS] == first[BASE] else first[OURS]
        parent = nodes[OURS].parent
        in_function = frame.in_function or (parent is not None and parent.type == "function_definition")
        if parent is not None and parent.type == "class_definition":
            in_function = False
        inner = Frame(indents=(first[0], first[1], first[2]), target=target, in_function=in_function)
        out = self._items(lists, inner)
        is_module = nodes[OURS].parent is None
        return out + self._tail(lists, spans) if is_module else out

    def _split(self, units: Sequence[Sequence[tuple[Node, ...]]], spans: Spans) -> _Lists:
        found = [
            split_items(source, unit, *span)
            for source, unit, span in zip(self._sides.sources, units, spans, strict=True)
        ]
        return found[0], found[1], found[2]

    def _tail(self, lists: _Lists, spans: Spans) -> list[Piece]:
        """What follows the last item of a file: blank lines and the last line end."""
        found = [
            (items[-1].end if items else span[0], span[1]) for items, span in zip(lists, spans, strict=True)
        ]
        places = (found[0], found[1], found[2])
        side = self._sides.choose(places, Frame())
        side = OURS if side is None else side
        return self._sides.put(side, places[side], Frame())

    def _items(self, lists: _Lists, frame: Frame) -> list[Piece]:
        _refuse_moves(lists)
        out: list[Piece] = []
        new: Counter[str] = Counter()
        for step in three_way(*lists):
            if isinstance(step, Gap):
                added = self._gap(step, lists, frame)
                is_run = _is_run(added)
                for place, (side, item) in enumerate(added):
                    new.update([item.normal] if item.nodes else [])
                    out += self._joint(out)
                    if not is_run:
                        out += self._blank(side, item, lists[side], frame, is_first=not out)
                    elif not place:
                        first = lists[OURS][step.ours[0].place]
                        out += self._blank(OURS, first, lists[OURS], frame, is_first=not out)
                    out += self._sides.put(side, (item.comments, item.end), frame)
            else:
                triple = (lists[0][step.base], lists[1][step.ours], lists[2][step.theirs])
                out += self._joint(out)
                out += self._item(triple, lists, frame, is_first=not out)
        _refuse_doubles(lists, new)
        return out

    def _joint(self, out: list[Piece]) -> list[Piece]:
        return [self._sides.newline] if out else []

    def _gap(self, gap: Gap, lists: _Lists, frame: Frame) -> list[tuple[int, Item]]:
        """What becomes of what stands between two anchors: by side, in order."""
        for side, kept in ((OURS, gap.ours_kept), (THEIRS, gap.theirs_kept)):
            for place, there in kept:
                if not self._is_untouched(lists[BASE][place], lists[side][there], side, frame):
                    raise ClashError
        ours = [(OURS, lists[OURS][one.place]) for one in gap.ours]
        theirs = [(THEIRS, lists[THEIRS][one.place]) for one in gap.theirs]
        if (theirs and self._took_out(OURS, gap.theirs_kept, lists)) or (
            ours and self._took_out(THEIRS, gap.ours_kept, lists)
        ):
            raise ClashError
        if not ours or not theirs:
            return ours or theirs
        both = common([item.normal for _, item in ours], [item.normal for _, item in theirs])
        alone = [item for at, (_, item) in enumerate(ours) if at not in {one for one, _ in both}]
        other = [item for at, (_, item) in enumerate(theirs) if at not in {one for _, one in both}]
        if alone and other and overlap(gap.ours, gap.theirs):
            raise ClashError
        is_open = alone and other and not is_ordered(gap.ours, gap.theirs)
        if is_open and not items_commute(alone, other, in_function=frame.in_function):
            raise ClashError
        if not both:
            return _by_place(gap, ours, theirs)
        return _interleave(ours, theirs, both)

    def _took_out(self, side: int, gone: Sequence[tuple[int, int]], lists: _Lists) -> bool:
        """Whether a side moved what is gone from here: what the other side adds here may belong there."""
        before, after = self._sides.lines(BASE), self._sides.lines(side)
        for place, _ in gone:
            item = lists[BASE][place]
            first = item.exact.partition(b"\n")[0].strip()
            if item.nodes and len(first) > _TELLING and after[first] >= before[first]:
                return True
        return False

    def _is_untouched(self, base: Item, item: Item, side: int, frame: Frame) -> bool:
        one = self._sides.text(BASE, (base.comments, base.end), frame)
        other = self._sides.text(side, (item.comments, item.end), frame)
        return one == other or (base.normal == item.normal and _comments(one) == _comments(other))

    def _blank(
        self, side: int, item: Item, items: Sequence[Item], frame: Frame, *, is_first: bool
    ) -> list[Piece]:
        """The blank lines above an item that one side added."""
        place = next(at for at, one in enumerate(items) if one is item)
        blank = (item.start, item.comments)
        if is_first and place and frame.indents[side]:
            blank = (items[0].start, items[0].comments)
        elif not is_first and not place and len(items) > 1:
            blank = (items[1].start, items[1].comments)
        return self._sides.put(side, blank, frame)

    def _item(
        self, triple: tuple[Item, Item, Item], lists: _Lists, frame: Frame, *, is_first: bool
    ) -> list[Piece]:
        out = self._blank_lines(triple, lists, frame, is_first=is_first)
        sides = self._sides
        comments = _places([(item.comments, item.body) for item in triple])
        side = sides.choose(comments, frame)
        if side is None:
            raise ClashError
        out += sides.put(side, comments[side], frame)
        bodies = _places([(item.body, item.end) for item in triple])
        texts = [
            sides.text(at, (item.body + len(item.indent), item.end), frame) for at, item in enumerate(triple)
        ]
        if texts[THEIRS] in (texts[BASE], texts[OURS]):
            return out + self._lines(OURS, bodies[OURS], triple[OURS], frame)
        if texts[OURS] == texts[BASE]:
            return out + self._lines(THEIRS, bodies[THEIRS], triple[THEIRS], frame)
        if not all(item.nodes for item in triple):
            raise ClashError
        units = [_units(item) for item in triple]
        if any(len(unit) > 1 for unit in units):
            return out + self._items(self._split(units, bodies), frame)
        out += self._lines(
            OURS, (bodies[OURS][0], bodies[OURS][0] + len(triple[OURS].indent)), triple[OURS], frame
        )
        out += self._run((triple[0].nodes, triple[1].nodes, triple[2].nodes), frame)
        trails = _places([(item.code_end, item.end) for item in triple])
        side = sides.choose(trails, frame)
        if side is None:
            raise ClashError
        return out + sides.put(side, trails[side], frame)

    def _lines(self, side: int, span: tuple[int, int], item: Item, frame: Frame) -> list[Piece]:
        """Whole lines of an item, the indentation of the first included."""
        if item.indent == frame.target or item.indent != frame.indents[side]:
            return self._sides.put(side, span, frame)
        start = span[0] + len(item.indent)
        return [frame.target, *self._sides.put(side, (start, span[1]), frame)]

    def _blank_lines(
        self, triple: tuple[Item, Item, Item], lists: _Lists, frame: Frame, *, is_first: bool
    ) -> list[Piece]:
        """The blank lines above an item, of the sides that have it where it is now: first, or not first."""
        firsts = [items[0] is item for items, item in zip(lists, triple, strict=True)]
        alike = [side for side in (OURS, THEIRS, BASE) if firsts[side] == is_first]
        if not alike:
            return []
        spans = _places([(item.start, item.comments) for item in triple])
        side: int | None = alike[0]
        if len(alike) == 3:
            side = self._sides.choose(spans, frame)
        elif alike == [THEIRS, BASE]:
            side = THEIRS
        side = OURS if side is None else side
        return self._sides.put(side, spans[side], frame)


def _places(spans: Sequence[tuple[int, int]]) -> Spans:
    return spans[0], spans[1], spans[2]


def _units(item: Item) -> list[tuple[Node, ...]]:
    """The parts of an item that stand on lines of their own: a statement's clauses, a definition's decorators."""
    if len(item.nodes) > 1:
        return [item.nodes]
    node = item.nodes[0]
    children = [child for child in node.children if child.type != "comment"]
    if node.type == "decorated_definition":
        return [(child,) for child in children]
    if node.type in COMPOUND and any(child.type in CLAUSES for child in children):
        head = tuple(child for child in children if child.type not in CLAUSES)
        return [head, *((child,) for child in children if child.type in CLAUSES)]
    if node.type in COMPOUND and node.type != "match_statement":
        return [tuple(children)]
    return [(node,)]


def _changed(lists: _Lists) -> _Lists:
    """The items that are not there on all sides in the same words as often."""
    counts = [Counter(item.exact for item in items) for items in lists]
    found = [[item for item in items if len({count[item.exact] for count in counts}) > 1] for items in lists]
    return found[0], found[1], found[2]


def _refuse_moves(lists: _Lists) -> None:
    """What one side took away may not come back by the other, nor may both bind one name in two ways.

    Raises:
        ClashError: they do.
    """
    lists = _changed(lists)
    base, ours, theirs = (Counter(item.normal for item in items if item.nodes) for items in lists)
    for text in {*ours, *theirs}:
        grown = (ours[text] - base[text], theirs[text] - base[text])
        if min(grown) < 0 < max(grown):
            raise ClashError
    names = [set(bound_by(items)) for items in lists]
    for name in (names[OURS] - names[BASE]) & (names[THEIRS] - names[BASE]):
        texts = {item.normal for items in lists[1:] for item in items if name in set(bound_by([item]))}
        if len(texts) > 1:
            raise ClashError


def _refuse_doubles(lists: _Lists, new: Counter[str]) -> None:
    """What both sides added may be there only as often as on either of them.

    Raises:
        ClashError: it would be there once for each side.
    """
    if not new:
        return
    base, ours, theirs = (Counter(item.normal for item in items if item.nodes) for items in _changed(lists))
    for text, count in new.items():
        grown = (ours[text] - base[text], theirs[text] - base[text])
        if min(grown) > 0 and count > max(grown):
            raise ClashError


def _is_run(added: Sequence[tuple[int, Item]]) -> bool:
    """Whether both sides added imports right below each other that no blank line parts."""
    sides = [[item for at, item in added if at == side] for side in (OURS, THEIRS)]
    if not all(sides) or not all(item.is_import for _, item in added):
        return False
    first, other = (items[0].blank_lines for items in sides)
    return first == other and not any(item.blank_lines for items in sides for item in items[1:])


def _by_place(
    gap: Gap, ours: Sequence[tuple[int, Item]], theirs: Sequence[tuple[int, Item]]
) -> list[tuple[int, Item]]:
    if all(item.is_import and item.comments == item.body for _, item in (*ours, *theirs)):
        merged = _sorted(ours, theirs)
        if merged is not None:
            return merged
    rows = [(one.low, 0, at, pair) for at, (one, pair) in enumerate(zip(gap.ours, ours, strict=True))]
    rows += [(one.low, 1, at, pair) for at, (one, pair) in enumerate(zip(gap.theirs, theirs, strict=True))]
    return [pair for *_, pair in sorted(rows, key=lambda row: row[:3])]


def _sorted(
    ours: Sequence[tuple[int, Item]], theirs: Sequence[tuple[int, Item]]
) -> list[tuple[int, Item]] | None:
    """Imports in alphabetical order, where each side has its own in that order."""

    def key(pair: tuple[int, Item]) -> str:
        words = pair[1].normal.split()
        return words[1].lower() if len(words) > 1 else ""

    if any(list(side) != sorted(side, key=key) for side in (ours, theirs)):
        return None
    return sorted((*ours, *theirs), key=key)


def _interleave(
    ours: Sequence[tuple[int, Item]], theirs: Sequence[tuple[int, Item]], both: Sequence[tuple[int, int]]
) -> list[tuple[int, Item]]:
    """Ours, then theirs, between what both added; that is there once."""
    out: list[tuple[int, Item]] = []
    last = (0, 0)
    for one, other in (*both, (len(ours), len(theirs))):
        out += (*ours[last[0] : one], *theirs[last[1] : other])
        out += ours[one : one + 1]
        last = one + 1, other + 1
    return out


def _comments(text: bytes) -> list[bytes]:
    return [line.strip() for line in text.split(b"\n") if line.lstrip().startswith(b"#")]
