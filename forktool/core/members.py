"""The members of a bracketed collection, or of an import, with the white space and comments between them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from forktool.core.commuting import key_of
from forktool.core.elements import normal_text
from forktool.core.layout import UnclearLayoutError, line_end
from forktool.core.syntax import IMPORTS, Node

COLLECTIONS = frozenset({"list", "tuple", "set", "dictionary", "argument_list", "parameters"})
_WORD = re.compile(rb"\w+")
_PARAMETERS = frozenset({"identifier", "default_parameter", "typed_parameter", "typed_default_parameter"})


@dataclass(frozen=True, kw_only=True)
class Element:
    """One member: offsets of the white space and comments before it, of itself, and of the comment on its line."""

    source: bytes
    node: Node
    start: int
    trail: int
    """The end of the member, or of the comma behind it: a comment on its line starts here."""
    end: int

    @property
    def lead(self) -> bytes:
        """White space and comments before the member."""
        return self.source[self.start : self.node.start_byte]

    @property
    def comment(self) -> bytes:
        """The comment on the member's line, with the white space before it."""
        return self.source[self.trail : self.end]

    @property
    def exact(self) -> bytes:
        """Its text as it is."""
        return self.node.text or b""

    @cached_property
    def normal(self) -> str:
        """Its text, whatever its layout."""
        return normal_text(self.node)

    @cached_property
    def kind(self) -> str:
        """What it is; a parameter is one with and without a default."""
        parent = self.node.parent
        if parent is not None and parent.type == "parameters" and self.node.type in _PARAMETERS:
            return "element parameter"
        return f"element {self.node.type}"

    @cached_property
    def name(self) -> str:
        """What it is known by."""
        return key_of(self.node)

    @cached_property
    def words(self) -> Counter[bytes]:
        """The words it is made of."""
        return Counter(_WORD.findall(self.node.text or b""))


@dataclass(frozen=True, kw_only=True, slots=True)
class Collection:
    """A collection: offsets of what opens it, its members, and of what closes it."""

    source: bytes
    node: Node
    opened: int
    members: tuple[Element, ...]
    close: int
    """Where the white space and comments before the closing bracket start."""
    bracket: int
    """Where the closing bracket starts; the end of an import without one."""
    has_last_comma: bool

    @property
    def head(self) -> bytes:
        """What opens it."""
        return self.source[self.node.start_byte : self.opened]

    @property
    def closing(self) -> bytes:
        """White space and comments before the closing bracket."""
        return self.source[self.close : self.bracket]

    @property
    def is_bracketed(self) -> bool:
        """Whether lines may be broken in it."""
        return self.bracket < self.node.end_byte

    @property
    def layout(self) -> tuple[bool, bool, bool]:
        """Whether lines are broken before the first member, before all others, and before the closing bracket."""
        leads = [b"\n" in one.lead for one in self.members]
        return (bool(leads) and leads[0], len(leads) > 1 and all(leads[1:]), b"\n" in self.closing)

    @property
    def separator(self) -> bytes:
        """The white space that a member would get that is not the first."""
        for one in self.members[:0:-1]:
            if not one.lead.strip():
                return one.lead
        first = self.members[0].lead if self.members else b""
        return first if b"\n" in first and not first.strip() else b" "


def collection_of(source: bytes, node: Node) -> Collection:
    """Take a collection apart.

    Raises:
        UnclearLayoutError: it holds something else between its members than commas, comments and white space.
    """
    children = node.children
    if node.type in IMPORTS:
        module = node.child_by_field_name("module_name")
        places = [at for at, child in enumerate(children) if child.type == "import"]
        first = places[-1] + 1
        if children[first : first + 1] and children[first].type == "(":
            first += 1
        last = len(children) - 1 if children[-1].type == ")" else len(children)
        bracket = children[last].start_byte if last < len(children) else node.end_byte
    else:
        module, first, last = None, 1, len(children) - 1
        bracket = children[last].start_byte
    reached = opened = children[first - 1].end_byte
    members: list[Element] = []
    comma = True
    found: Node | None = None
    start = opened
    inside = children[first:last]
    for child in inside:
        if child.type == "comment":
            continue
        if child.type == ",":
            if found is None:
                raise UnclearLayoutError
            if source[found.end_byte : child.start_byte].strip():
                raise UnclearLayoutError
            members.append(_element(source, found, start, child.end_byte, bracket))
            start = members[-1].end
            found, comma = None, True
        elif child.is_named and found is None and child != module:
            found, comma = child, False
        else:
            raise UnclearLayoutError
    if found is not None:
        members.append(_element(source, found, start, found.end_byte, bracket))
    reached = members[-1].end if members else opened
    return Collection(
        source=source,
        node=node,
        opened=opened,
        members=tuple(members),
        close=reached,
        bracket=bracket,
        has_last_comma=comma and bool(members),
    )


def _element(source: bytes, node: Node, start: int, trail: int, bracket: int) -> Element:
    end = min(line_end(source, trail), bracket)
    rest = source[trail:end]
    is_comment = rest.lstrip().startswith(b"#")
    return Element(source=source, node=node, start=start, trail=trail, end=end if is_comment else trail)


def comments_in(text: bytes) -> Sequence[bytes]:
    """The comment lines of white space and comments."""
    return [line.strip() for line in text.split(b"\n") if line.strip()]
