"""Python source as a syntax tree: definitions, scopes and the elements that a change is judged on.

The parser is tree-sitter's, which tolerates errors and whatever bytes a file holds. Lines are 1-based; a scope is the
dotted name of the enclosing classes and functions, "" at module level.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from dataclasses import dataclass
from enum import StrEnum
from threading import Lock

import tree_sitter_python
from tree_sitter import Language, Node, Parser, Point, Tree

from forktool.core.remembered import remembered

__all__ = [
    "SYNTAX_LIMIT",
    "Definition", "DefinitionKind", "Node", "Span", "definitions", "dotted", "has_syntax_error", "is_python",
    "line_scopes", "parse", "repeated_definitions", "scope_at", "statement_around",
    "syntax_unread", "text",
]  # fmt: skip

_LANGUAGE = Language(tree_sitter_python.language())
DEFINITIONS = frozenset({"class_definition", "function_definition"})
IMPORTS = frozenset({"import_statement", "import_from_statement", "future_import_statement"})
SIMPLE = frozenset({
    "expression_statement", "return_statement", "raise_statement", "assert_statement", "delete_statement",
    "global_statement", "nonlocal_statement", "type_alias_statement", "print_statement", "exec_statement",
    "pass_statement", "break_statement", "continue_statement",
})  # fmt: skip
COMPOUND = frozenset({
    "if_statement", "for_statement", "while_statement", "with_statement", "try_statement", "match_statement",
})  # fmt: skip
CLAUSES = frozenset({
    "elif_clause", "else_clause", "except_clause", "except_group_clause", "finally_clause", "case_clause",
})  # fmt: skip


class DefinitionKind(StrEnum):
    """What a definition defines."""

    CLASS = "class"
    FUNCTION = "function"


@dataclass(frozen=True, kw_only=True, slots=True)
class Definition:
    """One class or function, its decorators included.

    `block_line` is where the block starts that it stands in: two definitions of one name that share it replace each
    other, those in the branches of an `if` do not. `decorators` are their texts without `@`.
    """

    qualified_name: str
    kind: DefinitionKind
    start_line: int
    end_line: int
    block_line: int
    decorators: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Span:
    """Lines `first` to `last`, both included."""

    first: int
    last: int


SYNTAX_LIMIT = 4 << 20
"""In bytes; a larger file is judged on its lines alone. Its tree would take ten times its size, and it is a table."""


def is_python(path: str, *versions: bytes | None) -> bool:
    """Whether a path names Python source, and none of its versions is too large for its syntax to be read."""
    return path.endswith((".py", ".pyi")) and not any(map(_is_large, versions))


def syntax_unread(path: str, *versions: bytes | None) -> str:
    """What to say of a Python file that is judged on its lines alone, "" of any other."""
    largest = max((len(version) for version in versions if version is not None), default=0)
    if largest <= SYNTAX_LIMIT or not is_python(path):
        return ""
    return f"{path} has {largest / 1e6:.0f} MB: judged on its lines, its syntax is not read"


def _is_large(version: bytes | None) -> bool:
    return version is not None and len(version) > SYNTAX_LIMIT


_KEPT = 48
_REMEMBERED = 1 << 24
"""Bytes of source whose trees and definitions are remembered."""
_trees: OrderedDict[bytes, Tree] = OrderedDict()
_lock = Lock()


def parse(source: bytes, near: bytes | None = None) -> Tree:
    """The syntax tree; a file with errors has one too, with ERROR nodes in it.

    Args:
        source: the file; its tree is remembered.
        near: a version of the file that differs from it in one place: where its tree is remembered, only that place
            is parsed anew, in about a fifth of the time.
    """
    with _lock:
        known = _trees.get(source)
        if known is not None:
            _trees.move_to_end(source)
            return known
        like = None if near is None else _trees.get(near)
    tree = None if near is None or like is None else _parse_again(source, near, like)
    if tree is None:
        tree = Parser(_LANGUAGE).parse(source)
    with _lock:
        _trees[source] = tree
        while len(_trees) > _KEPT or (len(_trees) > 1 and sum(map(len, _trees)) > _REMEMBERED):
            _trees.popitem(last=False)
    return tree


def _parse_again(source: bytes, near: bytes, like: Tree) -> Tree | None:
    """The tree of `source` from that of `near`; None where that gives errors, which only a full parse may say."""
    start = _common(near, source)
    tail = _common(near[start:][::-1], source[start:][::-1])
    old_end, new_end = len(near) - tail, len(source) - tail
    tree = like.copy()
    tree.edit(start, old_end, new_end, _point(near, start), _point(near, old_end), _point(source, new_end))
    tree = Parser(_LANGUAGE).parse(source, tree)
    return None if tree.root_node.has_error else tree


def _common(one: bytes, other: bytes) -> int:
    """How many bytes two files share at their start."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _point(source: bytes, place: int) -> Point:
    return Point(source.count(b"\n", 0, place), place - source.rfind(b"\n", 0, place) - 1)


def has_syntax_error(source: bytes) -> bool:
    """Whether the parser had to skip or invent something."""
    return parse(source).root_node.has_error


@remembered(count=256, size=_REMEMBERED)
def definitions(source: bytes) -> tuple[Definition, ...]:
    """Every class and function, nested ones too, in the order in which they start."""
    found: list[Definition] = []
    root = parse(source).root_node
    stack: list[tuple[Node, str, int]] = [(root, "", 0)]
    while stack:
        node, scope, block_line = stack.pop()
        for child in node.children:
            definition = (
                child.child_by_field_name("definition") if child.type == "decorated_definition" else child
            )
            if definition is None:
                continue
            kind = definition.type
            if kind in DEFINITIONS:
                name = dotted(scope, text(definition.child_by_field_name("name")))
                found.append(
                    Definition(
                        qualified_name=name,
                        kind=DefinitionKind.CLASS if kind == "class_definition" else DefinitionKind.FUNCTION,
                        start_line=child.start_point.row + 1,
                        end_line=_last_line(child),
                        block_line=block_line,
                        decorators=() if definition is child else _decorators(child),
                    )
                )
                body = definition.child_by_field_name("body")
                if body is not None:
                    stack.append((body, name, body.start_point.row + 1))
            elif kind in COMPOUND or kind in CLAUSES or kind in ("block", "ERROR"):
                stack.append((child, scope, child.start_point.row + 1 if kind == "block" else block_line))
    return tuple(sorted(found, key=lambda one: (one.start_line, -one.end_line)))


def _decorators(decorated: Node) -> tuple[str, ...]:
    return tuple(text(child).lstrip("@").strip() for child in decorated.children if child.type == "decorator")


def _last_line(node: Node) -> int:
    """The line that a node ends on; one that ends at the start of a line ends on the line before."""
    end = node.end_point
    return end.row if end.column == 0 and end.row > node.start_point.row else end.row + 1


@remembered(count=256, size=_REMEMBERED)
def line_scopes(source: bytes) -> tuple[str, ...]:
    """The scope of every line; index 0 is line 1. A definition's own header belongs to the definition."""
    count = source.count(b"\n") + 1
    scopes = [""] * count
    for one in definitions(source):
        end = min(one.end_line, count)
        scopes[one.start_line - 1 : end] = [one.qualified_name] * (end - one.start_line + 1)
    return tuple(scopes)


def scope_at(source: bytes, line: int) -> str:
    """The dotted class or function around a 1-based line, "" at module level and outside the file."""
    scopes = line_scopes(source)
    return scopes[line - 1] if 1 <= line <= len(scopes) else ""


def statement_around(source: bytes, first: int, last: int) -> Span | None:
    """The innermost statement that holds lines `first` to `last` and more, inside their definition.

    For a place between two lines, ask for both of them.
    """
    node = parse(source).root_node.descendant_for_point_range(Point(first - 1, 0), Point(last - 1, 0))
    while node is not None and node.type not in DEFINITIONS:
        if node.type in SIMPLE or node.type in IMPORTS or node.type in COMPOUND or node.type in CLAUSES:
            span = Span(first=node.start_point.row + 1, last=_last_line(node))
            if span.first <= first and span.last >= last and span.last - span.first > last - first:
                return span
        node = node.parent
    return None


def text(node: Node | None) -> str:
    """A node's source text; bytes that are not UTF-8 are escaped."""
    return "" if node is None or node.text is None else node.text.decode("utf-8", "backslashreplace")


def dotted(scope: str, name: str) -> str:
    """A name inside a scope."""
    return f"{scope}.{name}" if scope else name


def repeated_definitions(source: bytes) -> Counter[str]:
    """Names that one block defines more than once, with their count; later ones replace earlier ones.

    Those that are meant to share a name do not count: overloads, the accessors of a property, registered variants,
    and whatever else a decorator takes the definition for, since `@x.setter` and `@x.register` keep the former.
    """
    counts: Counter[tuple[str, int]] = Counter(
        (one.qualified_name, one.block_line) for one in definitions(source) if not _shares_its_name(one)
    )
    repeated: Counter[str] = Counter()
    for (name, _), count in counts.items():
        if count > 1 and not name.endswith("._") and name != "_":
            repeated[name] += count
    return repeated


def _shares_its_name(one: Definition) -> bool:
    for decorator in one.decorators:
        callee = decorator.partition("(")[0].strip()
        if callee.rpartition(".")[2] in _SHARING:
            return True
    return False


_SHARING = frozenset(
    {
        "overload",
        "setter",
        "getter",
        "deleter",
        "register",
        "fixture",
        "property",
        "expression",
        "when",
        "dispatch",
    }
)
