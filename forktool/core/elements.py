"""The syntax elements of Python source: what two differently worded versions of one change have in common.

A patch is judged on them, since upstream words the same change in its own way: another order, other line breaks,
other quotes. Text is normalised; the elements of a literal, the arguments of a call and the operands of a condition
count one by one, and the statement around them shows an ellipsis instead.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from forktool.core.remembered import remembered
from forktool.core.syntax import CLAUSES, COMPOUND, DEFINITIONS, IMPORTS, SIMPLE, Node, dotted, parse, text

_LITERALS = {"list": "[…]", "tuple": "(…)", "set": "{…}", "dictionary": "{…}"}
_COMMENTS = frozenset({"comment", "line_continuation"})
_CLOSERS = frozenset({")", "]", "}"})
_BARE_PARENTHESES = frozenset(
    {
        "expression_statement", "assignment", "augmented_assignment", "return_statement", "assert_statement",
        "if_statement", "while_statement", "elif_clause", "boolean_operator", "keyword_argument", "argument_list",
    }
)  # fmt: skip
_STRING = re.compile(r"([a-zA-Z]*)('''|\"\"\"|'|\")(.*)\2", re.DOTALL)
_WORD = re.compile(r"\w+")
_KEYWORDS = frozenset({
    "return", "if", "while", "and", "or", "not", "None", "in", "is", "else", "raise", "yield", "await", "pass", "del",
    "with", "for", "assert", "elif", "except", "case", "break", "continue", "match", "lambda", "async", "from",
    "global", "nonlocal",
})  # fmt: skip
_DEEPEST = 60


class ElementKind(StrEnum):
    """What an element is."""

    DEFINITION = "definition"
    BASE = "base class"
    DECORATOR = "decorator"
    PARAMETER = "parameter"
    DEFAULT = "default"
    """A parameter with its default value."""
    ANNOTATION = "annotation"
    """A parameter with its type, or what a function returns."""
    IMPORT = "import"
    LITERAL = "literal element"
    STATEMENT = "statement"
    ARGUMENT = "argument"
    OPERAND = "operand"
    """One side of `and` or `or`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Element:
    """One element in its scope.

    `owner` is the name that a literal is assigned to; upstream may rename it, so two elements that differ in it alone
    are equal.
    """

    kind: ElementKind
    scope: str
    name: str
    owner: str = field(default="", compare=False)


@dataclass(frozen=True, kw_only=True, slots=True)
class Located:
    """An element and the 1-based lines it takes.

    `group` is the same for the members of one collection (a literal, a signature, the imports of one scope), and `key`
    is what no two of them should share: a dictionary's key, a parameter's name; "" where repeating means nothing.
    """

    element: Element
    first: int
    last: int
    group: int = 0
    key: str = ""


def elements(source: bytes, scopes: frozenset[str] | None = None) -> Counter[Element]:
    """The elements of a file, each with the number of times it occurs.

    Args:
        source: the file.
        scopes: look only at what stands directly in these; None for the whole file.
    """
    return Counter(one.element for one in located_elements(source, scopes))


@remembered(count=64, size=1 << 24)
def located_elements(source: bytes, scopes: frozenset[str] | None = None) -> tuple[Located, ...]:
    """The same as `elements`, with their lines, in no particular order."""
    walk = _Walk(scopes)
    walk.visit(parse(source).root_node)
    return tuple(walk.found)


class _Walk:
    """One pass over a tree; `found` grows."""

    def __init__(self, scopes: frozenset[str] | None) -> None:
        self.found: list[Located] = []
        self._scopes = scopes
        self._ways = None if scopes is None else frozenset(_with_parents(scopes))
        self._owner = ""

    def visit(self, root: Node) -> None:
        stack: list[tuple[Node, str]] = [(root, "")]
        while stack:
            node, scope = stack.pop()
            wanted = self._scopes is None or scope in self._scopes
            for child in node.children:
                kind = child.type
                if kind in SIMPLE:
                    if wanted:
                        self._simple(child, scope)
                elif kind in IMPORTS:
                    if wanted:
                        self._import(child, scope)
                elif kind in DEFINITIONS or kind == "decorated_definition":
                    stack += self._definition(child, scope)
                elif kind in COMPOUND or kind in CLAUSES:
                    if wanted:
                        self._header(child, scope)
                    stack.append((child, scope))
                elif kind in ("block", "ERROR"):
                    stack.append((child, scope))

    def _add(
        self, kind: ElementKind, scope: str, name: str, node: Node, *, group: int = 0, key: str = ""
    ) -> None:
        self.found.append(
            Located(
                element=Element(kind=kind, scope=scope, name=name, owner=self._owner),
                first=node.start_point.row + 1,
                last=node.end_point.row + 1,
                group=group,
                key=key,
            )
        )

    def _definition(self, node: Node, scope: str) -> Iterable[tuple[Node, str]]:
        definition = node.child_by_field_name("definition") if node.type == "decorated_definition" else node
        name = None if definition is None else definition.child_by_field_name("name")
        if definition is None or name is None:
            return
        inner = dotted(scope, text(name))
        self._owner = ""
        if self._scopes is None or scope in self._scopes:
            self._add(ElementKind.DEFINITION, scope, text(name), name)
        if self._scopes is None or inner in self._scopes:
            for child in node.children if definition is not node else ():
                if child.type == "decorator":
                    self._add(ElementKind.DECORATOR, inner, self._render(child, inner), child)
            self._signature(definition, inner)
        body = definition.child_by_field_name("body")
        if body is not None and (self._ways is None or inner in self._ways):
            yield body, inner

    def _signature(self, definition: Node, inner: str) -> None:
        for base in _items(definition.child_by_field_name("superclasses")):
            name = self._render(base, inner)
            self._add(ElementKind.BASE, inner, name, base, group=definition.start_byte, key=name)
        for parameter in _items(definition.child_by_field_name("parameters")):
            self._parameter(parameter, inner, definition.start_byte)
        returns = definition.child_by_field_name("return_type")
        if returns is not None:
            self._add(ElementKind.ANNOTATION, inner, f"-> {self._render(returns, inner)}", returns)

    def _parameter(self, node: Node, inner: str, group: int) -> None:
        if not node.type.endswith(("default_parameter", "typed_parameter")):
            name = self._render(node, inner)
            self._add(ElementKind.PARAMETER, inner, name, node, group=group, key=name)
            return
        named = node.child_by_field_name("name") or node.named_children[0]
        name = self._render(named, inner)
        self._add(ElementKind.PARAMETER, inner, name, node, group=group, key=name)
        kind, value = node.child_by_field_name("type"), node.child_by_field_name("value")
        if kind is not None:
            self._add(ElementKind.ANNOTATION, inner, f"{name}: {self._render(kind, inner)}", node)
        if value is not None:
            self._add(ElementKind.DEFAULT, inner, f"{name}={self._render(value, inner)}", node)

    def _import(self, node: Node, scope: str) -> None:
        self._owner = ""
        module = node.child_by_field_name("module_name")
        source = "__future__" if node.type == "future_import_statement" else text(module)
        for child in node.named_children:
            if child.type in _COMMENTS or child == module:
                continue
            name = _join(_leaves(child))
            name = f"from {source} import {name}" if source else f"import {name}"
            parent = node.parent
            self._add(
                ElementKind.IMPORT, scope, name, child, group=parent.start_byte if parent else 0, key=name
            )

    def _simple(self, node: Node, scope: str) -> None:
        first = node.named_children[0] if node.named_child_count else None
        if (
            first is not None
            and node.named_child_count == 1
            and first.type in ("string", "concatenated_string")
        ):
            return  # A docstring says nothing of what the code does.
        left = None if first is None else first.child_by_field_name("left")
        self._owner = text(left) if left is not None else ""
        self._say(ElementKind.STATEMENT, scope, self._render(node, scope), node)

    def _header(self, node: Node, scope: str) -> None:
        """The line that opens a block: what stands before its colon. `elif` reads as `if`."""
        self._owner = ""
        parts: list[str] = []
        last = node
        for child in node.children:
            if child.type == "block" or child.type in CLAUSES or child.type == ":":
                break
            if child.type not in _COMMENTS:
                parts.append("if" if child.type == "elif" else self._render(child, scope))
                last = child
        name = _join(parts)
        if _says_something(name):
            element = Element(kind=ElementKind.STATEMENT, scope=scope, name=name)
            self.found.append(
                Located(element=element, first=node.start_point.row + 1, last=last.end_point.row + 1)
            )

    def _say(self, kind: ElementKind, scope: str, name: str, node: Node) -> None:
        if _says_something(name):
            self._add(kind, scope, name, node)

    def _render(self, node: Node, scope: str, depth: int = 0) -> str:
        """A node's normalised text; what counts one by one inside it is added to `found` on the way."""
        if depth > _DEEPEST:
            return _join(_leaves(node))
        tokens: list[str] = []
        stack: list[Node] = [node]
        while stack:
            item = stack.pop()
            kind = item.type
            if kind in _COMMENTS:
                continue
            if kind == "string":
                tokens.append(_string(text(item)))
            elif kind == "concatenated_string":
                tokens.append(_concatenated(item))
            elif kind in _LITERALS:
                self._literal(item, scope, depth)
                tokens.append(_LITERALS[kind])
            elif kind == "call":
                tokens.append(self._call(item, scope, depth))
            elif kind == "boolean_operator":
                tokens.append(self._operands(item, scope, depth))
            elif not item.child_count:
                tokens.append(text(item))
            else:
                stack += reversed(_meaningful(item))
        return _join(tokens)

    def _literal(self, node: Node, scope: str, depth: int) -> None:
        for item in _items(node):
            if item.type in _LITERALS:
                self._literal(item, scope, depth + 1)
                continue
            name = self._render(item, scope, depth + 1)
            key = item.child_by_field_name("key")
            self._add(
                ElementKind.LITERAL,
                scope,
                name,
                item,
                group=node.start_byte,
                key=name if key is None else _join(_leaves(key)),
            )

    def _call(self, node: Node, scope: str, depth: int) -> str:
        callee = self._render(node.children[0], scope, depth + 1)
        arguments = node.child_by_field_name("arguments")
        if arguments is None or arguments.type != "argument_list":
            return callee + ("" if arguments is None else self._render(arguments, scope, depth + 1))
        items = _items(arguments)
        rendered = [self._render(item, scope, depth + 1) for item in items]
        if len(items) < 2:
            return f"{callee}({''.join(rendered)})"
        for item, argument in zip(items, rendered, strict=True):
            keyword = text(item.child_by_field_name("name")) if item.type == "keyword_argument" else ""
            self._add(
                ElementKind.ARGUMENT,
                scope,
                f"{callee}({argument})",
                item,
                group=arguments.start_byte,
                key=keyword,
            )
        return f"{callee}(…)"

    def _operands(self, node: Node, scope: str, depth: int) -> str:
        operator = text(node.child_by_field_name("operator"))
        stack, flat = [node], list[Node]()
        while stack:
            item = stack.pop()
            if item.type == "parenthesized_expression" and item.named_child_count == 1:
                item = item.named_children[0]
            if item.type == "boolean_operator" and text(item.child_by_field_name("operator")) == operator:
                stack += [child for child in item.named_children[::-1] if child.type not in _COMMENTS]
            else:
                flat.append(item)
        for item in flat:
            self._say(ElementKind.OPERAND, scope, f"{operator} {self._render(item, scope, depth + 1)}", item)
        return f"… {operator} …"


def normal_text(node: Node) -> str:
    """A node's whole text, normalised: no comments, one kind of quotes, spaces only between words."""
    return _join(_leaves(node))


def items(node: Node | None) -> list[Node]:
    """The named children that are no comments; none where there is no node."""
    return _items(node)


def _with_parents(scopes: Iterable[str]) -> Iterable[str]:
    for scope in scopes:
        parts = scope.split(".")
        yield from (".".join(parts[:end]) for end in range(len(parts) + 1))


def _items(node: Node | None) -> list[Node]:
    return [] if node is None else [child for child in node.named_children if child.type not in _COMMENTS]


def _meaningful(node: Node) -> list[Node]:
    """The children that matter: no comment, no comma before a closing bracket, no bare parentheses."""
    children = [child for child in node.children if child.type not in _COMMENTS]
    if node.type == "parenthesized_expression" and node.parent is not None:
        inner = node.named_children
        if node.parent.type in _BARE_PARENTHESES and inner and inner[0].type != "yield":
            return [child for child in children if child.is_named]
    return [
        child
        for child, after in zip(children, [*children[1:], None], strict=True)
        if child.type != "," or (after is not None and after.type not in _CLOSERS)
    ]


def _leaves(node: Node) -> list[str]:
    tokens: list[str] = []
    stack = [node]
    while stack:
        item = stack.pop()
        if item.type in _COMMENTS:
            continue
        if item.type == "string":
            tokens.append(_string(text(item)))
        elif item.child_count:
            stack += item.children[::-1]
        else:
            tokens.append(text(item))
    return tokens


def _string(literal: str) -> str:
    """A string literal with double quotes, its prefix in lower case."""
    match = _STRING.fullmatch(literal)
    if match is None:
        return literal
    return f'{match[1].lower().replace("u", "")}"{match[3]}"'


def _concatenated(node: Node) -> str:
    parts = [_STRING.fullmatch(_string(text(part))) for part in _items(node)]
    prefixes = {letter for part in parts if part is not None for letter in part[1]}
    return f'{"".join(sorted(prefixes))}"{"".join(part[3] for part in parts if part is not None)}"'


def _join(tokens: Sequence[str]) -> str:
    """Tokens with a space only where two words would run together, or an operator reads better with one."""
    out: list[str] = []
    for token in tokens:
        if out and token and out[-1] and (_is_wordy(out[-1][-1]) and _is_wordy(token[0])):
            out.append(" ")
        out.append(token)
    return "".join(out)


def _is_wordy(character: str) -> bool:
    return character.isalnum() or character in "_\"'…"


def _says_something(name: str) -> bool:
    return any(word not in _KEYWORDS for word in _WORD.findall(name))
