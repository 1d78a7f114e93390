"""Conflicts in Python that are none: both sides only inserted into the same collection.

Git stops where two sides change neighbouring lines. Where all that they did is to insert elements into one list, tuple,
set, dict, base class list, parameter or argument list, or imports, the union of both is what a person would write:
upstream's insertions first, then the patch's, each once. Nothing outside the conflict regions changes by a byte, and
whatever is not plainly such a union stays a conflict.

The result is upstream's text with the patch's insertions put in, so that formatting and comments stay upstream's; what
else upstream changed in the region may only be the name that a collection is assigned to.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from forktool.core.elements import ElementKind, elements, items, normal_text
from forktool.core.insertion import Edit, Place, apply_edits, insert
from forktool.core.markers import Conflict, join_pieces, parse_conflicts
from forktool.core.syntax import IMPORTS, Node, has_syntax_error, is_python, parse
from forktool.core.union import Union, union_of

_COLLECTIONS = frozenset({"list", "tuple", "set", "dictionary", "argument_list", "parameters"})
_SEQUENCES = frozenset({"module", "block"})
_NAMED_BY = frozenset({"left", "type"})


@dataclass(frozen=True, kw_only=True, slots=True)
class ResolvedRegion:
    """One region as git left it, and what it became; whole lines. `line` is that of its first marker, 1-based."""

    line: int
    ours: bytes
    base: bytes
    theirs: bytes
    result: bytes


@dataclass(frozen=True, kw_only=True, slots=True)
class Resolution:
    """A file without conflicts, and its regions for review."""

    content: bytes
    regions: tuple[ResolvedRegion, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Side:
    """One version of the whole file, and where the region is in it, in bytes."""

    source: bytes
    start: int
    end: int

    @property
    def region(self) -> bytes:
        return self.source[self.start : self.end]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Region:
    """One conflict in the context of its file: three files that differ in the region alone.

    The other conflicts show upstream's side in all three, so that places before the region are the same.
    """

    ours: _Side
    base: _Side
    theirs: _Side


def resolve(path: str, *, conflicted: bytes) -> Resolution | None:
    """Resolve every conflict of a file, or none.

    Args:
        path: names the file type: Python, or one of the keyed formats.
        conflicted: the file with conflict markers in diff3 style; `ours` is upstream, `theirs` the patch.

    Returns:
        None where any region is not a union of insertions, or the markers are not diff3's.
    """
    pieces = parse_conflicts(conflicted)
    if pieces is None:
        return None
    if not is_python(path):
        return _resolve_keyed(path, pieces)
    regions: list[ResolvedRegion] = []
    whole: list[bytes] = []
    for place, piece in enumerate(pieces):
        if not isinstance(piece, Conflict):
            whole.append(piece)
            continue
        region = _in_context(pieces, place)
        result = next((found for one in _STRATEGIES if (found := one(region)) is not None), None)
        if result is None:
            return None
        whole.append(result)
        regions.append(
            ResolvedRegion(
                line=piece.line, ours=piece.ours, base=piece.base, theirs=piece.theirs, result=result
            )
        )
    content = b"".join(whole)
    sides = [join_pieces(pieces, side) for side in (_ours, _base, _theirs)]
    if not _is_sound(content, *sides):
        return None
    return Resolution(content=content, regions=tuple(regions))


def _resolve_keyed(path: str, pieces: Sequence[bytes | Conflict]) -> Resolution | None:
    from forktool.core.keyed import settle

    results = settle(path, pieces)
    if results is None:
        return None
    conflicts = [piece for piece in pieces if isinstance(piece, Conflict)]
    waiting = iter(results)
    return Resolution(
        content=join_pieces(pieces, lambda _conflict: next(waiting)),
        regions=tuple(
            ResolvedRegion(line=one.line, ours=one.ours, base=one.base, theirs=one.theirs, result=result)
            for one, result in zip(conflicts, results, strict=True)
        ),
    )


def _ours(conflict: Conflict) -> bytes:
    return conflict.ours


def _base(conflict: Conflict) -> bytes:
    return conflict.base


def _theirs(conflict: Conflict) -> bytes:
    return conflict.theirs


def _in_context(pieces: Sequence[bytes | Conflict], place: int) -> _Region:
    conflict = pieces[place]
    assert isinstance(conflict, Conflict)  # noqa: S101  # what the caller just asked

    before, after = (join_pieces(some, _ours) for some in (pieces[:place], pieces[place + 1 :]))

    def side(choose: Callable[[Conflict], bytes]) -> _Side:
        region = choose(conflict)
        return _Side(source=before + region + after, start=len(before), end=len(before) + len(region))

    return _Region(ours=side(_ours), base=side(_base), theirs=side(_theirs))


def _is_sound(content: bytes, ours: bytes, base: bytes, theirs: bytes) -> bool:
    """Whether the result parses, and holds each element as often as the two sides' insertions make it."""
    if has_syntax_error(content) or has_syntax_error(ours) or has_syntax_error(theirs):
        return False
    there, of_base = elements(content), elements(base)
    of_ours, of_theirs = elements(ours), elements(theirs)
    for one in {*there, *of_ours, *of_theirs}:
        if one.kind is ElementKind.STATEMENT:
            continue
        grown = (of_ours[one] - of_base[one], of_theirs[one] - of_base[one])
        least = of_base[one] + max(*grown, 0) + min(*grown, 0)
        if not least <= there[one] <= of_base[one] + max(grown[0], 0) + max(grown[1], 0):
            return False
    return True


class _NoUnionError(Exception):
    """The region is more than insertions."""


def _union(region: _Region) -> bytes | None:
    """The union of what both sides inserted, in upstream's text."""
    nodes = _corresponding(region)
    if nodes is None or any(node.has_error for node in nodes):
        return None
    merge = _Merge(region)
    try:
        merge.nodes(*nodes)
    except _NoUnionError:
        return None
    ours = region.ours
    whole = apply_edits(ours.source, merge.edits)
    if whole is None:
        return None
    tail = len(ours.source) - ours.end
    if whole[: ours.start] != ours.source[: ours.start]:
        return None
    if len(whole) < ours.start + tail or whole[len(whole) - tail :] != ours.source[ours.end :]:
        return None
    return whole[ours.start : len(whole) - tail]


Strategy = Callable[[_Region], bytes | None]
_STRATEGIES: tuple[Strategy, ...] = (_union,)
"""Tried in order for each region; the first that answers settles it."""


def _corresponding(region: _Region) -> tuple[Node, Node, Node] | None:
    """The smallest nodes that hold the region in the base, in ours and in theirs, and start at one place before it."""
    sides = (region.base, region.ours, region.theirs)
    found = [_around(side) for side in sides]
    start = min(node.start_byte for node in found)
    climbed = [_climb(node, start) for node in found]
    depth = min(map(_height, climbed))
    base, ours, theirs = (_up(node, _height(node) - depth) for node in climbed)
    return (base, ours, theirs) if base.type == ours.type == theirs.type else None


def _around(side: _Side) -> Node:
    text = side.region
    start = side.start + len(text) - len(text.lstrip())
    end = max(start, side.start + len(text.rstrip()))
    node = parse(side.source).root_node.descendant_for_byte_range(start, end)
    while (
        node is not None
        and node.parent is not None
        and (node.start_byte >= side.start or node.end_byte < end)
    ):
        node = node.parent
    return node or parse(side.source).root_node


def _climb(node: Node, start: int) -> Node:
    while node.parent is not None and node.start_byte > start:
        node = node.parent
    return node


def _height(node: Node) -> int:
    height = 0
    while node.parent is not None:
        node, height = node.parent, height + 1
    return height


def _up(node: Node, steps: int) -> Node:
    for _ in range(steps):
        node = node.parent or node
    return node


class _Merge:
    """One pass over three corresponding trees; `edits` collects what to put into ours."""

    def __init__(self, region: _Region) -> None:
        self.edits: list[Edit] = []
        self._region = region

    def nodes(self, base: Node, ours: Node, theirs: Node) -> None:
        """Merge corresponding nodes.

        Raises:
            _NoUnionError: one of the sides did more than insert.
        """
        if base.text == ours.text == theirs.text:
            return
        if not base.type == ours.type == theirs.type:
            raise _NoUnionError
        if base.type in _COLLECTIONS or base.type in IMPORTS:
            self._collection(base, ours, theirs)
        elif base.type in _SEQUENCES:
            self._sequence(base, ours, theirs)
        else:
            self._parts(base, ours, theirs)

    def _parts(self, base: Node, ours: Node, theirs: Node) -> None:
        """Nodes of a fixed shape: part by part. A collection may be assigned to another name on one side."""
        parts = [
            [child for child in node.children if child.type != "comment"] for node in (base, ours, theirs)
        ]
        if not len(parts[0]) == len(parts[1]) == len(parts[2]) or not parts[0]:
            raise _NoUnionError
        for place, (one, other, another) in enumerate(zip(*parts, strict=True)):
            if base.type == "assignment" and base.field_name_for_child(place) in _NAMED_BY:
                if another.text not in (one.text, other.text):
                    if other.text != one.text:
                        raise _NoUnionError
                    self._replace(other, another)
                continue
            self.nodes(one, other, another)

    def _replace(self, ours: Node, theirs: Node) -> None:
        self.edits.append(Edit(start=ours.start_byte, end=ours.end_byte, text=theirs.text or b""))

    def _collection(self, base: Node, ours: Node, theirs: Node) -> None:
        groups = (_members(base), _members(ours), _members(theirs))
        if base.type == "import_from_statement":
            modules = {_field(node, "module_name") for node in (base, ours, theirs)}
            if len(modules) > 1 or any(child.type == "wildcard_import" for one in groups for child in one):
                raise _NoUnionError
        keys = [[normal_text(child) for child in group] for group in groups]
        found = union_of(keys[0], keys[1], keys[2], (keys[1], keys[2]))
        if found is None:
            raise _NoUnionError
        self._insert(found, groups, (base, ours, theirs))

    def _sequence(self, base: Node, ours: Node, theirs: Node) -> None:
        """Statements: those of the base in order on both sides, merged one by one, and new imports between them."""
        groups = (items(base), items(ours), items(theirs))
        names = [[normal_text(child) for child in group] for group in groups]
        found = None
        for key_of in (normal_text, _statement_key):
            keys = [[key_of(child) for child in group] for group in groups]
            found = found or union_of(keys[0], keys[1], keys[2], (names[1], names[2]))
        if found is None and len(groups[0]) == len(groups[1]) == len(groups[2]):
            both = tuple((place, place) for place in range(len(groups[0])))
            found = Union(pairs=both, mine=(), gaps=())
        if found is None:
            raise _NoUnionError
        for one, (mine, other) in zip(groups[0], found.pairs, strict=True):
            self.nodes(one, groups[1][mine], groups[2][other])
        new = (*(groups[1][place] for place in found.mine), *(groups[2][place] for place in found.added))
        if any(node.type not in IMPORTS for node in new):
            raise _NoUnionError
        self._insert(found, groups, (base, ours, theirs))

    def _insert(
        self, found: Union, groups: tuple[list[Node], list[Node], list[Node]], nodes: tuple[Node, Node, Node]
    ) -> None:
        base, ours, theirs = nodes
        _, mine, other = groups
        _refuse_clashes(ours, [mine[place] for place in found.mine], [other[place] for place in found.added])
        kept = _comments(base)
        if kept - _comments(theirs):
            raise _NoUnionError
        wanted = _comments(theirs) - kept
        for after, indices in found.gaps:
            place = Place(
                collection=ours,
                source=self._region.ours.source,
                after=mine[after] if after >= 0 else None,
                before=mine[after + 1] if after + 1 < len(mine) else None,
                not_before=self._region.ours.start,
            )
            edits = insert(place, [other[index] for index in indices], self._region.theirs.source, wanted)
            if edits is None:
                raise _NoUnionError
            self.edits += edits
        if wanted - (_comments(ours) - kept):
            raise _NoUnionError  # A comment of theirs belongs to none of its insertions.


def _members(node: Node) -> list[Node]:
    if node.type in ("import_from_statement", "import_statement", "future_import_statement"):
        module = node.child_by_field_name("module_name")
        return [child for child in items(node) if child != module]
    return items(node)


def _field(node: Node, name: str) -> str:
    child = node.child_by_field_name(name)
    return "" if child is None else normal_text(child)


def _statement_key(node: Node) -> str:
    """What a statement is about, so that two versions of it pair up."""
    if node.type == "import_from_statement":
        return f"from {_field(node, 'module_name')}"
    inner = node.named_children[0] if node.type == "expression_statement" and node.named_children else node
    for name in ("left", "name"):
        if (about := _field(inner, name)) and node.type not in IMPORTS:
            return f"{inner.type} {about}"
    return normal_text(node)


def _comments(node: Node) -> Counter[bytes]:
    return Counter(child.text or b"" for child in node.children if child.type == "comment")


def _refuse_clashes(collection: Node, mine: Sequence[Node], other: Sequence[Node]) -> None:
    """Both sides may not bind one name in two ways, nor both add something that is known by its position.

    Raises:
        _NoUnionError: they do.
    """
    if not mine or not other:
        return
    bound = {name: normal_text(node) for node in mine for name in _names(node)}
    if any(
        bound.get(name, normal_text(node)) != normal_text(node) for node in other for name in _names(node)
    ):
        raise _NoUnionError
    is_call = collection.type == "argument_list" and collection.parent is not None
    is_call = is_call and collection.parent is not None and collection.parent.type == "call"
    by_name = ("keyword_argument", "default_parameter", "typed_default_parameter")
    if (is_call or collection.type == "parameters") and any(
        node.type not in by_name for node in (*mine, *other)
    ):
        raise _NoUnionError


def _names(node: Node) -> list[str]:
    """The names that a member binds in its collection; a plain element binds none."""
    match node.type:
        case "pair":
            return [_field(node, "key")]
        case "keyword_argument" | "default_parameter" | "typed_default_parameter":
            return [_field(node, "name")]
        case "aliased_import":
            return [_field(node, "alias")]
        case "dotted_name":
            return [normal_text(node)]
        case _ if node.type in IMPORTS:
            return [name for child in _members(node) for name in _names(child)]
        case _:
            return []
