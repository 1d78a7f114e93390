"""Classes of a source tree by reading alone: where one is defined, and its bases across modules.

Nothing is imported or run. What reading cannot follow (a base that a function returns, a name that `__getattr__` makes
up) is reported as unresolved and never taken for an answer.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from forktool.core.tree import SourceTree


class ParseCache:
    """Parsed modules by content, shared by the views of one tree with more and more patches."""

    def __init__(self) -> None:
        self._modules: dict[bytes, ast.Module | None] = {}

    def parse(self, content: bytes) -> ast.Module | None:
        """The syntax tree; None for what is not Python."""
        if content not in self._modules:
            try:
                self._modules[content] = ast.parse(content)
            except (SyntaxError, ValueError):
                self._modules[content] = None
        return self._modules[content]


class Modules:
    """The Python modules of one tree, read when they are asked for."""

    def __init__(self, tree: SourceTree, cache: ParseCache) -> None:
        self._tree = tree
        self._cache = cache
        self._contents: dict[str, bytes | None] = {}

    @property
    def label(self) -> str:
        """The tree's label."""
        return self._tree.label

    def read(self, path: str) -> bytes | None:
        """A file's content; None where there is none."""
        if path not in self._contents:
            self._contents[path] = self._tree.read(path)
        return self._contents[path]

    def module(self, path: str) -> ast.Module | None:
        """A file's syntax tree; None where there is no file or it is not Python."""
        content = self.read(path)
        return None if content is None else self._cache.parse(content)

    def find(self, dotted: str) -> str | None:
        """The path of a module by its dotted name; None where the tree has none."""
        path = dotted.replace(".", "/")
        return next(
            (name for name in (f"{path}.py", f"{path}/__init__.py") if self.read(name) is not None), None
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class ClassPlace:
    """A class and where it is defined."""

    path: str
    node: ast.ClassDef

    @property
    def name(self) -> str:
        """Its name there."""
        return self.node.name


@dataclass(frozen=True, kw_only=True, slots=True)
class Lineage:
    """A class, nearest first its bases that the tree defines, and the names that could not be followed."""

    classes: tuple[ClassPlace, ...]
    unresolved: tuple[str, ...]

    @property
    def names(self) -> frozenset[str]:
        """The names of the class and of all its bases."""
        return frozenset(place.name for place in self.classes)

    @property
    def members(self) -> frozenset[str]:
        """What the class bodies define: methods and attributes."""
        return frozenset(name for place in self.classes for name in members(place.node))


def members(node: ast.ClassDef) -> Iterator[str]:
    """The names that a class body defines, without those of its bases; a bare annotation defines nothing."""
    for statement in scope(node.body):
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield statement.name
        elif isinstance(statement, ast.Assign):
            yield from (target.id for target in statement.targets if isinstance(target, ast.Name))
        elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
            yield from (name.id for name in (statement.target,) if isinstance(name, ast.Name))


def find_lineage(modules: Modules, path: str, name: str) -> Lineage | None:
    """A class with all its bases; None where the module neither defines nor imports it."""
    first = _find(modules, path, name, frozenset())
    if first is None:
        return None
    found: dict[tuple[str, str], ClassPlace] = {}
    unresolved: list[str] = []
    waiting = [first]
    while waiting:
        place = waiting.pop(0)
        if (place.path, place.name) in found:
            continue
        found[place.path, place.name] = place
        for base in place.node.bases:
            parts = _dotted(base)
            outcome = None if parts is None else _base(modules, place.path, parts)
            if isinstance(outcome, ClassPlace):
                waiting.append(outcome)
            elif outcome is None:
                unresolved.append(ast.unparse(base))
    return Lineage(classes=tuple(found.values()), unresolved=tuple(unresolved))


def scope(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of one scope, also those under `if`, `try` and `with`, but of no nested scope."""
    for statement in body:
        yield statement
        if isinstance(statement, ast.If | ast.Try | ast.With):
            for part in ast.iter_child_nodes(statement):
                if isinstance(part, ast.ExceptHandler):
                    yield from scope(part.body)
                elif isinstance(part, ast.stmt):
                    yield from scope([part])


_BUILT_IN = frozenset(
    {"object", "type", "dict", "list", "tuple", "set", "str", "int", "float", "bytes", "Exception"}
)

_ELSEWHERE = object()
"""A base from outside the tree: the standard library or another package."""


def _base(modules: Modules, path: str, parts: tuple[str, ...]) -> ClassPlace | object | None:
    module = modules.module(path)
    imported = {} if module is None else _imports(module, path)
    *owners, name = parts
    if not owners:
        place = _find(modules, path, name, frozenset())
        if place is not None:
            return place
        if name in imported:
            return None if _is_here(modules, imported[name][0]) else _ELSEWHERE
        return _ELSEWHERE if name in _BUILT_IN else None
    if owners[0] not in imported:
        return None
    dotted, original = imported[owners[0]]
    whole = ".".join((dotted, *([original] if original else []), *owners[1:]))
    target = modules.find(whole) if _is_here(modules, dotted) else None
    if target is not None:
        return _find(modules, target, name, frozenset())
    return None if _is_here(modules, dotted) else _ELSEWHERE


def _is_here(modules: Modules, dotted: str) -> bool:
    """Whether a module belongs to the tree: its top package does."""
    return modules.find(dotted.partition(".")[0]) is not None


def _find(modules: Modules, path: str, name: str, seen: frozenset[tuple[str, str]]) -> ClassPlace | None:
    module = modules.module(path)
    if module is None or (path, name) in seen:
        return None
    seen |= {(path, name)}
    classes = [item for item in scope(module.body) if isinstance(item, ast.ClassDef) and item.name == name]
    if classes:
        return ClassPlace(path=path, node=classes[-1])
    for statement in scope(module.body):
        if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Name):
            targets = [target.id for target in statement.targets if isinstance(target, ast.Name)]
            if name in targets:
                return _find(modules, path, statement.value.id, seen)
    dotted, original = _imports(module, path).get(name, ("", ""))
    target = modules.find(dotted) if original and _is_here(modules, dotted) else None
    return None if target is None else _find(modules, target, original, seen)


def _imports(module: ast.Module, path: str) -> dict[str, tuple[str, str]]:
    """What a module imports: name to the module and the name there, which is empty for a whole module."""
    found: dict[str, tuple[str, str]] = {}
    package = path.removesuffix("/__init__.py") if path.endswith("/__init__.py") else path.rpartition("/")[0]
    parts = package.split("/")
    for statement in scope(module.body):
        if isinstance(statement, ast.ImportFrom):
            above = parts[: len(parts) - statement.level + 1] if statement.level else []
            dotted = ".".join([*above, *([statement.module] if statement.module else [])])
            found |= {alias.asname or alias.name: (dotted, alias.name) for alias in statement.names}
        elif isinstance(statement, ast.Import):
            for alias in statement.names:
                top = alias.name.partition(".")[0]
                found[alias.asname or top] = (alias.name if alias.asname else top, "")
    return found


def _dotted(base: ast.expr) -> tuple[str, ...] | None:
    if isinstance(base, ast.Subscript):
        return _dotted(base.value)
    if isinstance(base, ast.Name):
        return (base.id,)
    if isinstance(base, ast.Attribute):
        owner = _dotted(base.value)
        return None if owner is None else (*owner, base.attr)
    return None
