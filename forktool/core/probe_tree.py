"""The view of a source tree that a probe sees as its fixture ``tree``.

A probe asks a tree whether it still needs a patch. It must get its answer in milliseconds from any tree: an
unpacked archive, a git commit, or a published wheel of which only a few files are read. So the view knows
nothing but how to read one file, and answers questions about Python by syntax, without importing anything.
"""

from __future__ import annotations

import ast
import textwrap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

__all__ = ["ProbeTree"]


class ProbeTree:
    """A read-only source tree with small finders for Python syntax.

    A file that the tree lacks raises `FileNotFoundError` from every method but `exists`, so that a probe
    never passes because a file has moved. A class or function that the file lacks gives ``None`` or an empty
    set, so that the probe's own assertion says what is missing.

    Args:
        label: the name of the tree for messages, such as ``v0.18.0`` or ``v0.16.0 + series``.
        read: the bytes of a file by its path from the root, with forward slashes; ``None`` if there is none.
    """

    def __init__(self, label: str, read: Callable[[str], bytes | None]) -> None:
        self._label = label
        self._read = read
        self._contents: dict[str, bytes | None] = {}
        self._modules: dict[str, ast.Module] = {}

    @property
    def label(self) -> str:
        """The name of the tree for messages."""
        return self._label

    def __repr__(self) -> str:
        return f"ProbeTree({self._label!r})"

    def exists(self, path: str) -> bool:
        """Whether the tree holds a file at `path`."""
        return self._content(path) is not None

    def read_bytes(self, path: str) -> bytes:
        """The content of the file at `path`.

        Raises:
            FileNotFoundError: the tree has no such file.
        """
        content = self._content(path)
        if content is None:
            raise FileNotFoundError(f"{self._label} has no file {path}")
        return content

    def read_text(self, path: str) -> str:
        """The content of the file at `path` as UTF-8, a byte order mark left out and line ends as they are.

        Raises:
            FileNotFoundError: the tree has no such file.
            UnicodeDecodeError: the file is not UTF-8.
        """
        return self.read_bytes(path).decode("utf-8-sig")

    def parse(self, path: str) -> ast.Module:
        """The syntax tree of the Python file at `path`, parsed once.

        Raises:
            FileNotFoundError: the tree has no such file.
            SyntaxError: the file is not Python; its ``filename`` names the tree and the path.
        """
        if path not in self._modules:
            self._modules[path] = ast.parse(self.read_bytes(path), filename=f"{self._label}:{path}")
        return self._modules[path]

    def literal(self, path: str, name: str) -> object:
        """The value of the literal that is assigned to `name`, or ``None``.

        Looks at every assignment to the plain name anywhere in the file, also inside functions and classes,
        and takes the first one that `ast.literal_eval` can read.

        Raises:
            FileNotFoundError, SyntaxError: as `parse`.
        """
        for value in _assigned_values(self.parse(path), name):
            try:
                return ast.literal_eval(value)
            except (ValueError, TypeError, MemoryError, RecursionError):
                continue
        return None

    def find_assigned(self, path: str, *names: str) -> str | None:
        """The first of `names` that the file assigns anywhere, or ``None``: for what upstream has renamed.

        Raises:
            FileNotFoundError, SyntaxError: as `parse`.
        """
        module = self.parse(path)
        return next((name for name in names if next(_assigned_values(module, name), None) is not None), None)

    def class_bases(self, path: str, class_name: str) -> frozenset[str]:
        """The names of all base classes, followed through the classes of the same file.

        ``mixins.Base`` counts as ``Base`` and ``Base[T]`` as ``Base``. Empty if the file has no such class.

        Raises:
            FileNotFoundError, SyntaxError: as `parse`.
        """
        return frozenset(
            base for node in self._lineage(path, class_name) for base in map(_base_name, node.bases) if base
        )

    def class_methods(self, path: str, class_name: str) -> frozenset[str]:
        """The names of a class's methods, its own and those inherited within the file.

        Empty if the file has no such class.

        Raises:
            FileNotFoundError, SyntaxError: as `parse`.
        """
        return frozenset(
            statement.name
            for node in self._lineage(path, class_name)
            for statement in _statements(node.body)
            if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef)
        )

    def function(self, path: str, qualified: str) -> ast.FunctionDef | None:
        """The definition of ``function``, ``Class.method`` or ``Outer.Inner.method``, or ``None``.

        A method may be inherited within the file. Of several definitions the last one counts, as in Python.

        Raises:
            FileNotFoundError, SyntaxError: as `parse`.
        """
        *owners, name = qualified.split(".")
        if not owners:
            return _function_in(self.parse(path).body, name)
        found = (_function_in(node.body, name) for node in self._lineage(path, ".".join(owners)))
        return next((function for function in found if function is not None), None)

    def function_source(self, path: str, qualified: str) -> str | None:
        """The source lines of a function with its decorators, indented as at the top of a file, or ``None``.

        Raises:
            FileNotFoundError, SyntaxError: as `parse`.
            UnicodeDecodeError: the file is not UTF-8.
        """
        function = self.function(path, qualified)
        if function is None or function.end_lineno is None:
            return None
        first = min([function.lineno, *(decorator.lineno for decorator in function.decorator_list)])
        lines = self.read_text(path).replace("\r\n", "\n").replace("\r", "\n").split("\n")
        return textwrap.dedent("\n".join(lines[first - 1 : function.end_lineno]) + "\n")

    def _content(self, path: str) -> bytes | None:
        if path not in self._contents:
            self._contents[path] = self._read(path)
        return self._contents[path]

    def _lineage(self, path: str, class_name: str) -> Iterator[ast.ClassDef]:
        """The class and the bases of it that the same file defines, each once, nearest first."""
        body = self.parse(path).body
        waiting, seen = [class_name], set[str]()
        while waiting:
            name = waiting.pop(0)
            node = None if name in seen else _class_in(body, name.split("."))
            seen.add(name)
            if node is not None:
                yield node
                waiting += [base for base in map(_base_name, node.bases) if base]


def _statements(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of one scope: also those under if, try and with, but of no nested scope."""
    for statement in body:
        yield statement
        if isinstance(statement, ast.If | ast.Try | ast.With):
            for _, value in ast.iter_fields(statement):
                if isinstance(value, list):
                    yield from _statements([item for item in value if isinstance(item, ast.stmt)])
                    for handler in value:
                        if isinstance(handler, ast.ExceptHandler):
                            yield from _statements(handler.body)


def _class_in(body: Sequence[ast.stmt], names: Sequence[str]) -> ast.ClassDef | None:
    found: ast.ClassDef | None = None
    for name in names:
        classes = [node for node in _statements(body) if isinstance(node, ast.ClassDef) and node.name == name]
        if not classes:
            return None
        found = classes[-1]
        body = found.body
    return found


def _function_in(body: Sequence[ast.stmt], name: str) -> ast.FunctionDef | None:
    functions = [
        node for node in _statements(body) if isinstance(node, ast.FunctionDef) and node.name == name
    ]
    return functions[-1] if functions else None


def _base_name(base: ast.expr) -> str | None:
    if isinstance(base, ast.Subscript):
        base = base.value
    if isinstance(base, ast.Name):
        return base.id
    return base.attr if isinstance(base, ast.Attribute) else None


def _assigned_values(module: ast.Module, name: str) -> Iterator[ast.expr]:
    for node in ast.walk(module):
        targets: Sequence[ast.expr]
        if isinstance(node, ast.Assign):
            targets, value = node.targets, node.value
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            targets, value = [node.target], node.value
        else:
            continue
        if any(isinstance(target, ast.Name) and target.id == name for target in targets):
            yield value
