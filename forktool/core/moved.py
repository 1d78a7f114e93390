"""Where a definition went: the one in a new tree that has its name and body, or nearly its body under another name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from forktool.core.lines import is_telling, normal_lines
from forktool.core.syntax import Definition, definitions, scope_at

_SAME_NAME = 0.4
"""The likeness from which a definition of the same name is taken for the one that moved."""
_OTHER_NAME = 0.7
"""The same for one of another name, and for a name that every other class has, such as `__init__`."""
_FEW = 4
"""Telling lines below which a body says too little to be known again under another name."""
_WORDS = 12


@dataclass(frozen=True, kw_only=True, slots=True)
class Moved:
    """A definition and where it is now. `line` is 1-based, `likeness` the share of lines in common, 0..1."""

    name: str
    path: str
    new_name: str
    line: int
    likeness: float


def edited_definitions(before: bytes, after: bytes, lines: Iterable[int]) -> tuple[str, ...]:
    """The innermost definitions of `before` that hold some lines of `after`, in order, once each.

    Args:
        before: Python source without the patch.
        after: the same with it.
        lines: 1-based lines of `after`.
    """
    known = {one.qualified_name for one in definitions(before)}
    found: dict[str, None] = {}
    for line in lines:
        name = scope_at(after, line)
        while name and name not in known:
            name = name.rpartition(".")[0]
        if name:
            found[name] = None
    return tuple(found)


def find_definition(source: bytes, name: str) -> Definition | None:
    """The first definition of that dotted name."""
    return next((one for one in definitions(source) if one.qualified_name == name), None)


def search_words(source: bytes, name: str) -> tuple[bytes, ...]:
    """The lines of a definition that tell most, longest first, without the white space around them."""
    one = find_definition(source, name)
    if one is None:
        return ()
    lines = source.split(b"\n")[one.start_line - 1 : one.end_line]
    telling = {line.strip() for line in lines if is_telling("x.py", b" ".join(line.split()))}
    return tuple(sorted(telling, key=lambda line: (-len(line), line))[:_WORDS])


def find_moved(name: str, source: bytes, path: str, candidates: Mapping[str, bytes]) -> Moved | None:
    """Where a definition of `source`, which `path` has no more, is now.

    Args:
        name: its dotted name.
        source: the old file.
        path: the old file's path.
        candidates: path to content of the new tree's files to look at.
    """
    wanted = find_definition(source, name)
    if wanted is None:
        return None
    body = _body(source, wanted)
    last = name.rpartition(".")[2]
    best: tuple[float, Moved] | None = None
    for where, content in candidates.items():
        for one in definitions(content):
            if one.kind is not wanted.kind or (where == path and one.qualified_name == name):
                continue
            likeness = _likeness(body, _body(content, one))
            is_same = one.qualified_name == name
            is_named = is_same or (
                one.qualified_name.rpartition(".")[2] == last and not last.startswith("__")
            )
            if likeness < (_SAME_NAME if is_named else _OTHER_NAME):
                continue
            if not is_named and body.total() < _FEW:
                continue
            score = likeness + 0.3 * is_same + 0.2 * is_named + 0.05 * (where == path)
            if best is None or score > best[0]:
                moved = Moved(
                    name=name, path=where, new_name=one.qualified_name, line=one.start_line, likeness=likeness
                )
                best = (score, moved)
    return best[1] if best is not None else None


def kept_elsewhere(name: str, source: bytes, path: str, new: bytes, line: int) -> Moved | None:
    """A definition that its file still has, but not around a line of its new version; None where it is there or gone.

    Args:
        name: its dotted name.
        source: the old file.
        path: of the new file.
        new: the new file.
        line: 1-based, in the new file.
    """
    wanted, there = find_definition(source, name), find_definition(new, name)
    if wanted is None or there is None or there.start_line <= line <= there.end_line + 1:
        return None
    likeness = _likeness(_body(source, wanted), _body(new, there))
    return Moved(name=name, path=path, new_name=name, line=there.start_line, likeness=likeness)


def _body(source: bytes, one: Definition) -> Counter[bytes]:
    """The telling lines of a definition, without its own header, which says its name."""
    lines = normal_lines(source)[one.start_line - 1 : one.end_line]
    last = one.qualified_name.rpartition(".")[2].encode("utf-8", "backslashreplace")
    heads = (b"def " + last, b"async def " + last, b"class " + last)
    return Counter(line for line in lines if is_telling("x.py", line) and not line.startswith(heads))


def _likeness(one: Counter[bytes], other: Counter[bytes]) -> float:
    total = one.total() + other.total()
    return 2 * (one & other).total() / total if total else 0.0
