"""Which insertions of two sides may stand in either order, so that both can be kept without asking.

Definitions, imports, constants, entries known by a key and elements of a literal do; ordinary statements and positional
arguments do not, since what they mean depends on what stands before them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from forktool.core.elements import normal_text
from forktool.core.layout import Item
from forktool.core.syntax import IMPORTS, Node, text

_PLAIN = frozenset({
    "string", "concatenated_string", "integer", "float", "true", "false", "none", "unary_operator", "list", "tuple",
    "set", "dictionary", "pair",
})  # fmt: skip
_KEYWORDS = frozenset({"keyword_argument", "default_parameter", "typed_default_parameter"})


def items_commute(ours: Sequence[Item], theirs: Sequence[Item], *, in_function: bool) -> bool:
    """Whether statements that two sides insert in one place may stand in either order."""
    if not all(_is_free(item, in_function=in_function) for item in (*ours, *theirs)):
        return False
    return not set(bound_by(ours)) & set(bound_by(theirs))


def bound_by(items: Iterable[Item]) -> Iterator[str]:
    """The names that definitions, imports and assignments bind."""
    for item in items:
        node = item.definition
        if node is not None:
            yield text(node.child_by_field_name("name"))
        elif item.is_import:
            yield from imported(item.nodes[0])
        elif item.kind == "assignment":
            yield item.name


def imported(node: Node) -> Iterator[str]:
    """The names that an import binds; `import a.b` binds `a.b` here, since two such do not clash."""
    module = node.child_by_field_name("module_name")
    for child in node.named_children:
        if child.type == "aliased_import":
            yield text(child.child_by_field_name("alias"))
        elif child.type == "dotted_name" and child != module:
            yield normal_text(child)


def nodes_commute(container: Node, ours: Sequence[Node], theirs: Sequence[Node]) -> bool:
    """The same for the members of a literal, a signature, an argument list or an import."""
    mine, other = set(map(key_of, ours)), set(map(key_of, theirs))
    if mine & other - {""}:
        return False
    if any(node.type in ("list_splat", "dictionary_splat") for node in (*ours, *theirs)):
        return False
    is_class = container.parent is not None and container.parent.type == "class_definition"
    if container.type == "parameters" or (container.type == "argument_list" and not is_class):
        return all(node.type in _KEYWORDS for node in (*ours, *theirs))
    return True


def key_of(node: Node) -> str:
    """What no two members of one collection may share, "" where repeating means nothing."""
    match node.type:
        case "pair":
            return normal_text(node.named_children[0])
        case "keyword_argument" | "default_parameter" | "typed_default_parameter":
            return text(node.child_by_field_name("name"))
        case "typed_parameter":
            return text(node.named_children[0]) if node.named_child_count else ""
        case "aliased_import":
            return text(node.child_by_field_name("alias"))
        case _ if node.parent is not None and node.parent.type in IMPORTS:
            return normal_text(node)
        case _ if node.parent is not None and node.parent.type == "parameters":
            return normal_text(node)
        case _:
            return ""


def _is_free(item: Item, *, in_function: bool) -> bool:
    if not item.nodes or item.is_import or item.definition is not None:
        return True
    if len(item.nodes) > 1:
        return False
    if item.nodes[0].type == "decorator":
        return False
    return not in_function and item.kind == "assignment" and _is_constant(item.nodes[0])


def _is_constant(statement: Node) -> bool:
    """Whether it assigns a literal, that names nothing, to a plain name."""
    assignment = statement.named_children[0]
    left, right = assignment.child_by_field_name("left"), assignment.child_by_field_name("right")
    if left is None or right is None or left.type != "identifier":
        return False
    stack = [right]
    while stack:
        node = stack.pop()
        if node.type not in _PLAIN or any(child.type == "interpolation" for child in node.children):
            return False
        if node.type not in ("string", "concatenated_string"):
            stack += [child for child in node.named_children if child.type != "comment"]
    return True
