"""From a printed error back to the statement that raised it, in a source tree of any version.

Line numbers are not trusted: the installed package may be patched or another build. The statement is found by the
text of its message, which pydantic, log prefixes and process boundaries leave as it is.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from forktool.core.python_classes import Modules

_FRAME = re.compile(r'File "([^"]+)", line (\d+), in (\S+)')
_ENOUGH = 12
"""Characters of a message that must agree; fewer would match by chance."""

_Statement = ast.Raise | ast.Assert
_Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, kw_only=True, slots=True)
class Frame:
    """One line of a traceback."""

    path: str
    line: int
    function: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Traceback:
    """A printed error: its frames, outermost first, and all of its text in one line."""

    frames: tuple[Frame, ...]
    text: str

    def within(self, tree: Modules, package: str) -> tuple[Frame, ...]:
        """The frames in files of the tree, with paths of the tree."""
        found: list[Frame] = []
        for frame in self.frames:
            parts = frame.path.replace("\\", "/").split("/")
            for at, part in enumerate(parts):
                path = "/".join(parts[at:])
                if part == package and path.endswith(".py") and tree.read(path) is not None:
                    found.append(Frame(path=path, line=frame.line, function=frame.function))
                    break
        return tuple(found)


def read_traceback(text: str) -> Traceback:
    """Read any text that holds a Python traceback, such as a server's log."""
    frames = tuple(
        Frame(path=match[1], line=int(match[2]), function=match[3]) for match in _FRAME.finditer(text)
    )
    return Traceback(frames=frames, text=" ".join(text.split()))


@dataclass(frozen=True, kw_only=True, slots=True)
class Raised:
    """A `raise` or `assert` of the tree: where, in which function, under which condition, with which words."""

    path: str
    line: int
    function: str
    condition: str
    text: str


def find_raise(
    tree: Modules, traceback: Traceback, *, package: str, also: tuple[str, ...] = ()
) -> Raised | None:
    """The statement whose message is in the traceback; None where no message agrees.

    Of several, one in a function of the traceback comes first, then the one that agrees in most characters.

    Args:
        tree: where to look.
        traceback: what was printed.
        package: the top-level folder whose files belong to the tree.
        also: files to look into beside those of the frames: a validator of pydantic leaves no frame.
    """
    frames = traceback.within(tree, package)
    called = {(frame.path, frame.function) for frame in frames}
    best: tuple[bool, int] = (False, _ENOUGH - 1)
    found: Raised | None = None
    for path in dict.fromkeys((*(frame.path for frame in reversed(frames)), *also)):
        for owner, guards, statement in _statements(tree, path):
            words = _words(statement)
            if not words or not all(" ".join(word.split()) in traceback.text for word in words):
                continue
            score = ((path, owner.rpartition(".")[2]) in called, sum(map(len, words)))
            if score[1] >= _ENOUGH and score > best:
                best = score
                found = Raised(
                    path=path,
                    line=statement.lineno,
                    function=owner,
                    condition=_condition(statement, guards),
                    text=" ".join(words),
                )
    return found


def fingerprint(tree: Modules, raised: Raised) -> tuple[str, ...] | None:
    """What decides whether a statement is reached: its conditions and what is assigned to their names.

    None where the statement is gone. Equal in two trees means that a change between them left it alone.
    """
    module = tree.module(raised.path)
    for owner, guards, statement in _statements(tree, raised.path):
        if module is None or owner != raised.function or " ".join(_words(statement)) != raised.text:
            continue
        tests = [guard.test for guard in guards]
        if isinstance(statement, ast.Assert):
            tests.append(statement.test)
        names = {part.id for test in tests for part in ast.walk(test) if isinstance(part, ast.Name)}
        function = _function(module, owner)
        values = [
            ast.unparse(node)
            for node in ast.walk(function if function is not None else module)
            if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign) and _targets(node) & names
        ]
        return (*(ast.unparse(test) for test in tests), *values)
    return None


def _statements(tree: Modules, path: str) -> Iterator[tuple[str, tuple[ast.If, ...], _Statement]]:
    """Every `raise` and `assert` of a file: the function's qualified name, the `if`s around it, the statement."""
    module = tree.module(path)
    if module is not None:
        yield from _below(module, "", ())


def _below(
    node: ast.AST, owner: str, guards: tuple[ast.If, ...]
) -> Iterator[tuple[str, tuple[ast.If, ...], _Statement]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, _Statement):
            yield owner, guards, child
        elif isinstance(child, _Function | ast.ClassDef):
            yield from _below(child, f"{owner}.{child.name}" if owner else child.name, ())
        elif isinstance(child, ast.If):
            yield from _below(child, owner, (*guards, child))
        elif isinstance(child, ast.stmt | ast.ExceptHandler | ast.match_case):
            yield from _below(child, owner, guards)


def _words(statement: _Statement) -> tuple[str, ...]:
    """The literal pieces of the message, in order."""
    message = statement.msg if isinstance(statement, ast.Assert) else statement.exc
    if isinstance(message, ast.Call):
        message = message.args[0] if message.args else None
    if isinstance(message, ast.JoinedStr):
        parts = message.values
    elif isinstance(message, ast.BinOp):
        parts = [part for part in ast.walk(message) if isinstance(part, ast.Constant)]
    else:
        parts = [message] if message is not None else []
    texts = (part.value for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, str))
    return tuple(text.strip() for text in texts if text.strip())


def _condition(statement: _Statement, guards: tuple[ast.If, ...]) -> str:
    if isinstance(statement, ast.Assert):
        return f"not ({ast.unparse(statement.test)})"
    return ast.unparse(guards[-1].test) if guards else ""


def _targets(node: ast.Assign | ast.AnnAssign | ast.AugAssign) -> set[str]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return {target.id for target in targets if isinstance(target, ast.Name)}


def _function(module: ast.Module, owner: str) -> ast.AST | None:
    found: ast.AST = module
    for name in owner.split(".") if owner else []:
        inner = next(
            (
                node
                for node in ast.walk(found)
                if isinstance(node, _Function | ast.ClassDef) and node.name == name
            ),
            None,
        )
        if inner is None:
            return None
        found = inner
    return found
