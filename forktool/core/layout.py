"""Python source in lines: the statements of a block with the blank lines and comments that belong to them.

A comment stands with the statement right below it; one with a blank line or another indentation between is an item of
its own. So every byte of a block belongs to exactly one item.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from forktool.core.elements import normal_text
from forktool.core.syntax import CLAUSES, DEFINITIONS, IMPORTS, Node, text

_WORD = re.compile(rb"\w+")
_LINE = re.compile(rb"[^\n]*\n|[^\n]+")


class UnclearLayoutError(Exception):
    """The statements do not stand on lines of their own."""


@dataclass(frozen=True, kw_only=True)
class Item:
    """A statement, a clause, a decorator or a loose comment, on lines of its own.

    Offsets are bytes of `source`: the blank lines above, the comment lines above, and the item's own lines without the
    last line end. `nodes` are the item's parts: none for a comment.
    """

    source: bytes
    nodes: tuple[Node, ...]
    start: int
    comments: int
    body: int
    end: int

    @property
    def blank_lines(self) -> bytes:
        """The blank lines above, whole."""
        return self.source[self.start : self.comments]

    @cached_property
    def indent(self) -> bytes:
        """The white space before the item, where it is a statement."""
        line = self.source[self.body : self.end]
        return line[: len(line) - len(line.lstrip(b" \t\f"))]

    @cached_property
    def exact(self) -> bytes:
        """The text without the indentation of its first line."""
        return self.source[self.body : self.end].lstrip(b" \t\f")

    @cached_property
    def normal(self) -> str:
        """The text, whatever its layout; comments tell loose ones apart only.

        Of a definition only the spaces count for nothing: reading a whole class for its leaves is dear (60 ms of a
        rebase's 400), and definitions pair up by name.
        """
        if self.definition is not None:
            return " ".join(self.exact.decode("utf-8", "backslashreplace").split())
        if not self.nodes:
            lines = self.source[self.body : self.end].split(b"\n")
            return "\n".join(line.strip().decode("utf-8", "backslashreplace") for line in lines)
        return " ".join(map(normal_text, self.nodes))

    @cached_property
    def kind(self) -> str:
        """What it is; an assignment and a call are told apart."""
        if not self.nodes:
            return "comment"
        first = self.nodes[0]
        if self.definition is not None:
            return self.definition.type
        if len(self.nodes) > 1:
            return f"head of {first.type}"
        if first.type == "expression_statement" and first.named_child_count:
            return first.named_children[0].type
        return first.type

    @cached_property
    def name(self) -> str:
        """The name that it defines or binds, or the module that it imports from."""
        node = self.definition
        if node is not None:
            return f"{node.type} {text(node.child_by_field_name('name'))}"
        if self.kind == "import_from_statement":
            return text(self.nodes[0].child_by_field_name("module_name"))
        if self.kind == "assignment":
            return normal_text(self.nodes[0].named_children[0].named_children[0])
        if len(self.nodes) == 1 and self.nodes[0].type == "elif_clause":
            return text(self.nodes[0].child_by_field_name("condition"))
        if len(self.nodes) == 1 and self.nodes[0].type.startswith("except"):
            return text(self.nodes[0].named_children[0])
        return self.kind if self.kind.startswith("head of") or self.kind in CLAUSES else ""

    @property
    def definition(self) -> Node | None:
        """The class or function that this is."""
        node = self.nodes[0] if len(self.nodes) == 1 else None
        if node is not None and node.type == "decorated_definition":
            node = node.child_by_field_name("definition")
        return node if node is not None and node.type in DEFINITIONS else None

    @property
    def is_import(self) -> bool:
        """Whether it is an import."""
        return len(self.nodes) == 1 and self.nodes[0].type in IMPORTS

    @cached_property
    def words(self) -> Counter[bytes]:
        """The words it is made of."""
        return Counter(_WORD.findall(self.source[self.body : self.end]))

    @property
    def code_end(self) -> int:
        """The end of the item's last part; a comment may follow, unless a block on lines of its own ends it."""
        if not self.nodes:
            return self.end
        node = self.nodes[-1]
        while node.child_count:
            before = node.prev_sibling
            is_block = node.type == "block" and before is not None
            if is_block and before and b"\n" in self.source[before.end_byte : node.start_byte]:
                return self.end
            node = node.children[-1]
        return self.nodes[-1].end_byte


def line_end(source: bytes, place: int) -> int:
    """Where the line ends, before its line feed and carriage return."""
    end = source.find(b"\n", place)
    if end < 0:
        return len(source)
    return end - 1 if end > place and source[end - 1 : end] == b"\r" else end


def next_line(source: bytes, place: int) -> int:
    """Where the next line starts."""
    end = source.find(b"\n", place)
    return len(source) if end < 0 else end + 1


def line_start(source: bytes, place: int) -> int:
    """Where the line starts."""
    return source.rfind(b"\n", 0, place) + 1


def split_items(source: bytes, units: Sequence[tuple[Node, ...]], start: int, end: int) -> list[Item]:
    """The items of a block, and the loose comments between them.

    Args:
        source: the file.
        units: the parts of each statement, in order.
        start: where the block's first line starts.
        end: where its last line ends, before its line feed.

    Raises:
        UnclearLayoutError: two statements share a line.
    """
    found: list[Item] = []
    reached = start
    for nodes in units:
        body = line_start(source, nodes[0].start_byte)
        if body < reached or source[body : nodes[0].start_byte].strip():
            raise UnclearLayoutError
        last = line_end(source, nodes[-1].end_byte)
        rest = source[nodes[-1].end_byte : last].strip()
        if rest and not rest.startswith(b"#"):
            raise UnclearLayoutError
        reached, comments = _loose(source, reached, body, found, source[body : nodes[0].start_byte])
        found.append(Item(source=source, nodes=nodes, start=reached, comments=comments, body=body, end=last))
        reached = next_line(source, last)
    if reached < end:
        _loose(source, reached, next_line(source, end), found, None)
    return found


def _loose(source: bytes, start: int, end: int, found: list[Item], indent: bytes | None) -> tuple[int, int]:
    """Add the loose comments between two statements; what is left are the blank lines and comments of the next.

    Returns:
        Where the blank lines above the next statement start, and where its comments do.
    """
    place = blank = start
    comments: int | None = None
    column = b""

    def close(at: int) -> None:
        if comments is not None:
            last = line_end(source, line_start(source, at - 1))
            found.append(
                Item(source=source, nodes=(), start=blank, comments=comments, body=comments, end=last)
            )

    for line in _LINE.findall(source[start:end]):
        words = line.strip()
        if words and not words.startswith((b"#", b"\\")):
            raise UnclearLayoutError
        before = line[: len(line) - len(line.lstrip(b" \t\f"))]
        if not words or (comments is not None and before != column):
            close(place)
            blank, comments = (blank if comments is None else place), None
        if words and comments is None:
            comments, column = place, before
        place += len(line)
    if comments is None:
        return blank, end
    if indent is not None and column == indent:
        return blank, comments
    close(end)
    return end, end
