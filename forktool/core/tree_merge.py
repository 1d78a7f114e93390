"""A three-way merge of Python source on its syntax tree.

Corresponding nodes of base, ours and theirs are merged part by part, down to the first that only one side changed.
White space and comments are merged like code, so that the result consists of the two sides' own text. What both sides
changed in one leaf, or what would only be a guess, is a clash.
"""

from __future__ import annotations

from collections.abc import Sequence

from forktool.core.block_merge import BlockMerge
from forktool.core.collection_merge import CollectionMerge
from forktool.core.elements import normal_text
from forktool.core.layout import UnclearLayoutError, line_end, next_line
from forktool.core.matching import TooDifferentError
from forktool.core.members import COLLECTIONS
from forktool.core.pieces import Piece
from forktool.core.sides import BASE, OURS, THEIRS, ClashError, Frame, Sides, Spans, Triple
from forktool.core.syntax import IMPORTS, Node, parse

_WHOLE = frozenset({"string", "concatenated_string", "comment", "ERROR"})
_LONG = 4000
"""A longer piece of source, in bytes, is not looked at as a whole: its parts were."""
_Runs = tuple[Sequence[Node], Sequence[Node], Sequence[Node]]


def merge_sources(base: bytes, ours: bytes, theirs: bytes) -> list[Piece] | None:
    """Merge three versions of a file; None where the sides clash.

    Returns:
        The result, in pieces of ours and new bytes.
    """
    sides = Sides(base, ours, theirs)
    merge = TreeMerge(sides)
    roots = [parse(source).root_node for source in sides.sources]
    try:
        return merge.module((roots[0], roots[1], roots[2]))
    except (ClashError, UnclearLayoutError, TooDifferentError):
        return None


class TreeMerge:
    """One merge; the nodes are those of `sides`."""

    def __init__(self, sides: Sides) -> None:
        self._sides = sides
        self._blocks = BlockMerge(sides, self.run)
        self._collections = CollectionMerge(sides, self.node)

    def module(self, roots: Triple) -> list[Piece]:
        """Merge whole files.

        Raises:
            ClashError: the sides clash.
        """
        ends = tuple(len(source) for source in self._sides.sources)
        return self._blocks.block(roots, ((0, ends[0]), (0, ends[1]), (0, ends[2])), Frame())

    def node(self, nodes: Triple, frame: Frame) -> list[Piece]:
        """Merge corresponding nodes.

        Raises:
            ClashError: the sides clash.
        """
        spans = _spans([(node,) for node in nodes])
        side = self._sides.choose(spans, frame)
        if side is not None:
            return self._sides.put(side, spans[side], frame)
        try:
            return self._parts(nodes, frame)
        except (ClashError, UnclearLayoutError, TooDifferentError):
            side = _reworded(nodes) if spans[OURS][1] - spans[OURS][0] < _LONG else None
            if side is None:
                raise
            return self._sides.put(side, spans[side], frame)

    def run(self, runs: _Runs, frame: Frame) -> list[Piece]:
        """Merge rows of as many nodes each, and what stands between them.

        Raises:
            ClashError: the sides clash.
        """
        if len(runs[0]) == 1 == len(runs[1]) == len(runs[2]):
            return self.node((runs[0][0], runs[1][0], runs[2][0]), frame)
        spans = _spans(runs)
        side = self._sides.choose(spans, frame)
        if side is not None:
            return self._sides.put(side, spans[side], frame)
        if not len(runs[0]) == len(runs[1]) == len(runs[2]):
            raise ClashError
        out: list[Piece] = []
        last: Triple | None = None
        for nodes in zip(*runs, strict=True):
            if nodes[OURS].type == "block" and last is not None and self._is_indented(nodes, last):
                out += self._indented_block(nodes, last, frame)
            else:
                out += self._between(last, nodes, frame)
                out += self.node(nodes, frame)
            last = nodes
        return out

    def _parts(self, nodes: Triple, frame: Frame) -> list[Piece]:
        kinds = {node.type for node in nodes}
        if len(kinds) > 1 or kinds & _WHOLE:
            raise ClashError
        kind = kinds.pop()
        if kind in COLLECTIONS or kind in IMPORTS:
            return self._collections.merge(nodes, frame)
        if kind == "call" and _is_another_call(nodes):
            raise ClashError
        runs = tuple([child for child in node.children if child.type != "comment"] for node in nodes)
        if not all(len(run) > 1 or (run and run[0].child_count) for run in runs):
            raise ClashError
        return self.run((runs[0], runs[1], runs[2]), frame)

    def _between(self, last: Triple | None, nodes: Triple, frame: Frame) -> list[Piece]:
        """White space and comments between two parts. Where both sides changed the white space, it stays ours."""
        if last is None:
            return []
        found = [(before.end_byte, node.start_byte) for before, node in zip(last, nodes, strict=True)]
        spans = (found[0], found[1], found[2])
        side = self._sides.choose(spans, frame)
        if side is None:
            if any(self._sides.sources[at][span[0] : span[1]].strip() for at, span in enumerate(spans)):
                raise ClashError
            side = OURS
        return self._sides.put(side, spans[side], frame)

    def _is_indented(self, nodes: Triple, last: Triple) -> bool:
        return all(
            b"\n" in source[before.end_byte : node.start_byte]
            for source, before, node in zip(self._sides.sources, last, nodes, strict=True)
        )

    def _indented_block(self, nodes: Triple, last: Triple, frame: Frame) -> list[Piece]:
        """A block on lines of its own, from the colon before it to the end of its last line."""
        sources = self._sides.sources
        heads = [line_end(source, node.end_byte) for source, node in zip(sources, last, strict=True)]
        found = [(node.end_byte, head) for node, head in zip(last, heads, strict=True)]
        spans = (found[0], found[1], found[2])
        side = self._sides.choose(spans, frame)
        if side is None:
            raise ClashError
        out = [*self._sides.put(side, spans[side], frame), self._sides.newline]
        places = [
            (next_line(source, head), line_end(source, node.end_byte))
            for source, head, node in zip(sources, heads, nodes, strict=True)
        ]
        return out + self._blocks.block(nodes, (places[0], places[1], places[2]), frame)


def _is_another_call(nodes: Triple) -> bool:
    """Whether a side calls something else, so that the other's arguments may not be meant for it."""
    names = {normal_text(node.children[0]).rpartition(".")[2] for node in nodes}
    arguments = {normal_text(node.children[-1]) for node in nodes}
    return len(names) > 1 and len(arguments) > 1


def _spans(runs: Sequence[Sequence[Node]]) -> Spans:
    found = [(run[0].start_byte, run[-1].end_byte) for run in runs]
    return found[0], found[1], found[2]


def _reworded(nodes: Triple) -> int | None:
    """The side that a node is taken from where the other one only changed how it is written."""
    base = _said(nodes[BASE])
    if _said(nodes[OURS]) == base:
        return THEIRS
    return OURS if _said(nodes[THEIRS]) in (base, _said(nodes[OURS])) else None


def _said(node: Node) -> tuple[str, tuple[str, ...]]:
    """What a node says: its normalised text and its comments."""
    return normal_text(node), tuple(_comments(node))


def _comments(node: Node) -> list[str]:
    found: list[str] = []
    stack = [node]
    while stack:
        item = stack.pop()
        if item.type == "comment":
            found.append((item.text or b"").decode("utf-8", "backslashreplace"))
        elif item.type != "string":
            stack += item.children[::-1]
    return found
