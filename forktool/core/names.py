"""Whether a merged Python file still binds the names that it uses.

A patch may use an import, a method or a variable of its base that upstream does not have: its text then merges without
a conflict into a file where it cannot run. A name counts as bound where a definition, an import, an assignment or a
parameter in the use's own scope or around it binds it, an attribute of `self` where its class does.
"""

from __future__ import annotations

import keyword
import re
from collections import Counter, defaultdict
from collections.abc import Iterable

from forktool.core.findings import Finding, FindingKind
from forktool.core.syntax import DEFINITIONS, IMPORTS, Node, dotted, is_python, parse, text

_WORD = re.compile(rb"[A-Za-z_]\w*")
_ALWAYS = frozenset(keyword.kwlist) | frozenset(
    """
    ArithmeticError AssertionError AttributeError BaseException BaseExceptionGroup BlockingIOError
    BrokenPipeError BufferError BytesWarning ChildProcessError ConnectionAbortedError
    ConnectionError ConnectionRefusedError ConnectionResetError DeprecationWarning EOFError
    Ellipsis EncodingWarning EnvironmentError Exception ExceptionGroup False FileExistsError
    FileNotFoundError FloatingPointError FutureWarning GeneratorExit IOError ImportError
    ImportWarning IndentationError IndexError InterruptedError IsADirectoryError KeyError
    KeyboardInterrupt LookupError MemoryError ModuleNotFoundError NameError None NotADirectoryError
    NotImplemented NotImplementedError OSError OverflowError PendingDeprecationWarning
    PermissionError ProcessLookupError RecursionError ReferenceError ResourceWarning RuntimeError
    RuntimeWarning StopAsyncIteration StopIteration SyntaxError SyntaxWarning SystemError
    SystemExit TabError TimeoutError True TypeError UnboundLocalError UnicodeDecodeError
    UnicodeEncodeError UnicodeError UnicodeTranslateError UnicodeWarning UserWarning ValueError
    Warning ZeroDivisionError abs aiter all anext any ascii bin bool breakpoint bytearray bytes
    callable chr classmethod compile complex delattr dict dir divmod enumerate eval exec filter
    float format frozenset getattr globals hasattr hash help hex id input int isinstance issubclass
    iter len list locals map max memoryview min next object oct open ord pow print property range
    repr reversed round set setattr slice sorted staticmethod str sum super tuple type vars zip
    self cls unicode basestring xrange long unichr reduce raw_input _ __file__ __name__ __doc__
    """.split()  # noqa: SIM905  # one word a line would fill a page
)
"""Keywords, and names that every module has, those of Python 2 included."""
_TARGETS = frozenset({
    "assignment", "augmented_assignment", "for_statement", "for_in_clause", "named_expression", "as_pattern_target",
    "parameters", "lambda_parameters", "default_parameter", "typed_default_parameter", "typed_parameter",
    "import_from_statement", "import_statement", "aliased_import", "function_definition", "class_definition",
    "global_statement", "nonlocal_statement", "except_clause", "as_pattern",
})  # fmt: skip
_INSIDE = frozenset({
    "pattern_list", "tuple_pattern", "list_pattern", "list_splat_pattern", "dictionary_splat_pattern", "tuple", "list",
    "dotted_name", "expression_list",
})  # fmt: skip
_SELF = (b"self", b"cls")


def find_unbound(
    path: str, *, patched: bytes | None, upstream: bytes | None, merged: bytes | None
) -> tuple[Finding, ...]:
    """Names that a merged Python file uses and that only a side of it binds.

    Args:
        path: names the file type.
        patched: the file with the patch on its base; each of the three is None where the file does not exist.
        upstream: the file in the new tree.
        merged: the file in the new tree with the patch.
    """
    if merged is None or not is_python(path, patched, upstream, merged):
        return ()
    names = unbound(merged, side=patched or b"") | unbound(merged, side=upstream or b"")
    return tuple(
        Finding(
            kind=FindingKind.UNBOUND_NAME, path=path, detail=f"`{name.lstrip('.')}` is used and not defined"
        )
        for name in sorted(names)
    )


def unbound(merged: bytes, *, side: bytes) -> frozenset[str]:
    """Names that the result uses, that `side` binds where they are used, and that the result does not bind.

    A binding that is missing stood on a line that is.
    """
    missing = Counter(side.split(b"\n")) - Counter(merged.split(b"\n"))
    words = {word for line in missing for word in _WORD.findall(line)} & set(_WORD.findall(merged))
    if not words:
        return frozenset()
    uses, bound = _occurrences(merged, words)
    suspects = {(name, scope) for name, scope in uses if not _is_bound(bound, name, scope)}
    if not suspects:
        return frozenset()
    _, elsewhere = _occurrences(side, {name.lstrip(".").encode() for name, _ in suspects})
    return frozenset(name for name, scope in suspects if _is_bound(elsewhere, name, scope))


_Bound = dict[str, set[str]]


def _occurrences(source: bytes, words: Iterable[bytes]) -> tuple[set[tuple[str, str]], _Bound]:
    """Where the words are used, and where they are bound: by name, the scopes. Attributes start with a dot."""
    wanted = set(words)
    uses: set[tuple[str, str]] = set()
    bound: _Bound = defaultdict(set)
    root = parse(source).root_node
    scopes: dict[int, str] = {}
    for match in _WORD.finditer(source):
        if match[0] not in wanted or match[0].decode() in _ALWAYS:
            continue
        node = root.descendant_for_byte_range(match.start(), match.end())
        if node is None or node.type != "identifier" or node.parent is None:
            continue
        name = text(node)
        parent = node.parent
        scope = _scope(node, scopes)
        if parent.type == "attribute" and parent.child_by_field_name("attribute") == node:
            owner = parent.child_by_field_name("object")
            if owner is None or owner.text not in _SELF:
                continue
            if _binds(parent):
                bound[f".{name}"].add(_class_of(scope))
            else:
                uses.add((f".{name}", _class_of(scope)))
        elif parent.type == "keyword_argument" and parent.child_by_field_name("name") == node:
            continue
        elif _binds(node):
            bound[name].add(scope)
            bound[f".{name}"].add(scope)
        elif not _is_imported(node):
            uses.add((name, scope))
    return uses, bound


def _binds(node: Node) -> bool:
    """Whether a name or an attribute is bound where it stands."""
    child, parent = node, node.parent
    while parent is not None and parent.type in _INSIDE:
        child, parent = parent, parent.parent
    if parent is None or parent.type not in _TARGETS:
        return False
    match parent.type:
        case "assignment" | "augmented_assignment" | "for_statement" | "for_in_clause":
            return parent.child_by_field_name("left") == child
        case "function_definition" | "class_definition" | "default_parameter" | "typed_default_parameter":
            return parent.child_by_field_name("name") == child
        case "named_expression":
            return parent.child_by_field_name("name") == child
        case "import_from_statement":
            return parent.child_by_field_name("module_name") != child
        case "aliased_import":
            return parent.child_by_field_name("alias") == child
        case "as_pattern" | "except_clause":
            return parent.named_child_count > 1 and parent.named_children[-1] == child
        case "typed_parameter":
            return parent.named_children[0] == child
        case _:
            return True


def _is_imported(node: Node) -> bool:
    """Whether a name is a part of an import that binds nothing: a module's, or what gets an alias."""
    parent = node.parent
    while parent is not None and parent.type in ("dotted_name", "aliased_import", "relative_import"):
        parent = parent.parent
    return parent is not None and parent.type in IMPORTS


def _scope(node: Node, known: dict[int, str]) -> str:
    """The dotted definition that a name stands in; a definition's own name, decorators and defaults stand outside."""
    parts: list[str] = []
    child, parent = node, node.parent
    path: list[int] = []
    while parent is not None:
        is_body = parent.type in DEFINITIONS and (
            child.type == "block" or (child.type == "parameters" and node.parent is not None)
        )
        if is_body:
            if parent.id in known:
                return ".".join((known[parent.id], *reversed(parts))) if parts else known[parent.id]
            parts.append(text(parent.child_by_field_name("name")))
            path.append(parent.id)
        child, parent = parent, parent.parent
    scope = ""
    for place, part in zip(reversed(path), reversed(parts), strict=True):
        scope = dotted(scope, part)
        known[place] = scope
    return scope


def _class_of(scope: str) -> str:
    return scope.rpartition(".")[0]


def _is_bound(bound: _Bound, name: str, scope: str) -> bool:
    scopes = bound.get(name, set())
    if name.startswith("."):
        return scope in scopes
    while True:
        if scope in scopes:
            return True
        if not scope:
            return False
        scope = scope.rpartition(".")[0]
