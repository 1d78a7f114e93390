"""What may have gone wrong in a merge that reported no conflict.

Every line is counted in the four versions of a file. A merge that did its work has each line as often as the base and
the two changes to it add up to, so that what was lost or doubled shows without any alignment. Syntax is read only
where the counts leave a question, since nearly every merge leaves none.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

from forktool.core.elements import ElementKind, elements, located_elements
from forktool.core.lines import changes, has_words, is_telling, normal_lines
from forktool.core.syntax import (
    definitions,
    has_syntax_error,
    is_python,
    line_scopes,
    parse,
    repeated_definitions,
)

_MARKER = re.compile(rb"^(?:<{7}|>{7}|\|{7})(?: |\r?$)", re.MULTILINE)
_DEFINES = re.compile(rb"(?:async )?(?:def|class) (\w+)")
_WORD = re.compile(rb"\w+")
_SHOWN = 60
_OPENS = re.compile(
    rb"^[^\S\n]*(?:(?:async[^\S\n]+)?(?:def|class)[^\S\n]+(\w+)"
    rb"|(?:async[^\S\n]+)?(?:if|elif|else|for|while|with|try|except|finally|match|case)\b)",
    re.MULTILINE,
)
_Key = TypeVar("_Key")
_Scopes = Callable[[bytes, int], Callable[[int], str]]
"""Gives for a source the definition around each 0-based line."""


class FindingKind(StrEnum):
    """What was found."""

    MOVED_SCOPE = "moved-scope"
    DUPLICATE_DEFINITION = "duplicate-definition"
    DUPLICATE_ELEMENT = "duplicate-element"
    DUPLICATE_IMPORT = "duplicate-import"
    DUPLICATE_LINES = "duplicate-lines"
    SYNTAX_ERROR = "syntax-error"
    LOST_UPSTREAM = "lost-upstream"
    LOST_PATCH = "lost-patch"
    CONFLICT_MARKERS = "conflict-markers"
    UNBOUND_NAME = "unbound-name"


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """One thing to look at in one path, in one line."""

    kind: FindingKind
    path: str
    detail: str


def find_problems(
    path: str, *, base: bytes | None, patched: bytes | None, upstream: bytes | None, merged: bytes | None
) -> tuple[Finding, ...]:
    """What looks wrong in a merged file; () where all is well.

    Args:
        path: names the file type; only `.py` and `.pyi` are judged on syntax.
        base: the file on the recorded base; each of the four is None where the file does not exist.
        patched: the file with the patch on that base.
        upstream: the file in the new tree.
        merged: the file in the new tree with the patch.
    """
    if upstream == base and merged == patched:
        return ()
    if merged is None:
        return _deleted(path, base=base, patched=patched, upstream=upstream)
    four = _Four(path, base or b"", patched or b"", upstream or b"", merged)
    found = [*four.markers(), *four.syntax_errors()]
    if not found:
        found += [*four.lost(), *four.moved()]
        found += four.duplicates()
    return tuple(dict.fromkeys(found))


def _deleted(
    path: str, *, base: bytes | None, patched: bytes | None, upstream: bytes | None
) -> tuple[Finding, ...]:
    if upstream is not None and upstream != base:
        detail = "the file that upstream changed is gone"
        return (Finding(kind=FindingKind.LOST_UPSTREAM, path=path, detail=detail),)
    if patched is not None and patched != base:
        detail = "the file that the patch changes is gone"
        return (Finding(kind=FindingKind.LOST_PATCH, path=path, detail=detail),)
    return ()


class _Four:
    """The four versions of one file, and its lines counted in each."""

    def __init__(self, path: str, base: bytes, patched: bytes, upstream: bytes, merged: bytes) -> None:
        self.path = path
        self.base, self.patched, self.upstream, self.merged = base, patched, upstream, merged
        self.is_python = is_python(path, base, patched, upstream, merged)
        counts = [Counter(normal_lines(one)) for one in (base, patched, upstream, merged)]
        self._base, self._patched, self._upstream, self._merged = counts
        self._mine = _difference(self._patched, self._base)
        self._theirs = _difference(self._upstream, self._base)

    def markers(self) -> Iterable[Finding]:
        """Conflict markers that the merge left; a file that had such lines before may keep them."""
        if b"<<<<<<<" not in self.merged and b">>>>>>>" not in self.merged:
            return
        before = max(len(_MARKER.findall(one)) for one in (self.base, self.patched, self.upstream))
        places = [match.start() for match in _MARKER.finditer(self.merged)]
        if len(places) > before:
            line = self.merged.count(b"\n", 0, places[0]) + 1
            yield self._finding(FindingKind.CONFLICT_MARKERS, f"conflict markers from line {line} on")

    def syntax_errors(self) -> Iterable[Finding]:
        """The result does not parse, and both sides do."""
        if not self.is_python:
            return
        parse(self.upstream)
        parse(self.merged, self.upstream)
        sides = (self.upstream, self.patched)
        if has_syntax_error(self.merged) and not any(map(has_syntax_error, sides)):
            yield self._finding(FindingKind.SYNTAX_ERROR, "the merged file does not parse")

    def lost(self) -> Iterable[Finding]:
        """Lines that one side brought and the result lacks."""
        mine, theirs = self._mine, self._theirs
        upstream = [
            line
            for line, count in self._upstream.items()
            if count + min(0, mine[line]) > self._merged[line] and self._tells(line)
        ]
        patched = [
            line
            for line, count in mine.items()
            if count > 0
            and self._patched[line] + min(0, theirs[line]) > self._merged[line]
            and self._tells(line)
        ]
        for line in self._not_said(upstream, self.upstream, self.patched):
            yield self._finding(FindingKind.LOST_UPSTREAM, f"upstream's line is missing: {_show(line)}")
        for line in self._not_said(patched, self.patched, self.upstream):
            yield self._finding(FindingKind.LOST_PATCH, f"the patch's line is missing: {_show(line)}")

    def _not_said(self, lost: list[bytes], source: bytes, other: bytes) -> list[bytes]:
        """Those of the missing lines that the result does not say in another layout either.

        The union of two lists on one line is a third line: what counts is that every element of the missing line is
        there, unless the other side took it out.
        """
        if not lost or not self.is_python:
            return lost
        lines, scopes = normal_lines(source), line_scopes(source)
        places = {place for place, line in enumerate(lines) if line in set(lost)}
        within = frozenset(scopes[place] for place in places)
        merged, before, after = (elements(one, within) for one in (self.merged, self.base, other))
        located = located_elements(source, within)
        here = elements(source, within)
        said: set[bytes] = set()
        for place in places:
            wanted = {one.element for one in located if one.first <= place + 1 <= one.last}
            if wanted and all(merged[one] >= here[one] + min(0, after[one] - before[one]) for one in wanted):
                said.add(lines[place])
        return [line for line in lost if line not in said]

    def moved(self) -> Iterable[Finding]:
        """What the patch adds sits in another definition now: the line is short here and in excess there."""
        if not self.is_python:
            return
        wanted = {line for line in self._touched() if self._tells(line)}
        if not wanted:
            return
        meant, done = self._moves(wanted, rough_scopes)
        if all(done[key] >= count for key, count in meant.items() if count > 0):
            return
        meant, done = self._moves(wanted, _exact_scopes)
        short = {key for key, count in meant.items() if count > done[key]}
        excess = {key for key, count in done.items() if count > max(0, meant[key])}
        moves = {
            (scope, other): line
            for scope, line in sorted(short, reverse=True)
            for other, same in excess
            if same == line and other != scope and not self._is_renamed(scope, other)
        }
        for (scope, other), line in moves.items():
            detail = f"{_show(line)} belongs in {scope or 'the module'} and is in {other or 'the module'}"
            yield self._finding(FindingKind.MOVED_SCOPE, detail)

    def _touched(self) -> Iterable[bytes]:
        lines = normal_lines(self.patched)
        for change in changes(self.base, self.patched):
            yield from lines[change.new_start : change.new_end]

    def _moves(
        self, wanted: set[bytes], scopes: _Scopes
    ) -> tuple[Counter[tuple[str, bytes]], Counter[tuple[str, bytes]]]:
        """What the patch does to each line in each definition, and what the merge did to upstream's file."""
        patched, base, merged, upstream = (
            _placed(one, wanted, scopes) for one in (self.patched, self.base, self.merged, self.upstream)
        )
        return _difference(patched, base), _difference(merged, upstream)

    def _is_renamed(self, scope: str, other: str) -> bool:
        """Whether upstream renamed the definition: one part of its name differs, and the old one is gone."""
        old, new = scope.split("."), other.split(".")
        if len(old) != len(new) or sum(a != b for a, b in zip(old, new, strict=True)) != 1:
            return False
        return not _defines(self.upstream, scope) and not _defines(self.base, other)

    def duplicates(self) -> Iterable[Finding]:
        """What is there twice since both sides brought it."""
        yield from self._duplicate_lines()
        if not self.is_python:
            return
        mine = b"\n".join(line for line, count in self._mine.items() if count > 0)
        if _DEFINES.search(mine) or self._exceeds(_DEFINES):
            yield from self._duplicate_definitions()
        theirs = b"\n".join(line for line, count in self._theirs.items() if count > 0)
        if set(_WORD.findall(mine)) & set(_WORD.findall(theirs)):
            yield from self._duplicate_elements()

    def _exceeds(self, pattern: re.Pattern[bytes]) -> bool:
        """Whether a matching line is there more often than in either side."""
        return any(
            count > self._upstream[line] and count > self._patched[line] and pattern.match(line)
            for line, count in self._merged.items()
        )

    def _duplicate_definitions(self) -> Iterable[Finding]:
        merged = repeated_definitions(self.merged)
        if not merged:
            return
        upstream, patched = repeated_definitions(self.upstream), repeated_definitions(self.patched)
        for name, count in merged.items():
            if count > max(upstream[name], patched[name]):
                yield self._finding(FindingKind.DUPLICATE_DEFINITION, f"{name} is defined {count} times")

    def _duplicate_elements(self) -> Iterable[Finding]:
        scopes = self._changed_scopes()
        merged = _repeated(self.merged, scopes)
        if not merged:
            return
        upstream, patched = _repeated(self.upstream, scopes), _repeated(self.patched, scopes)
        for (kind, scope, key), count in merged.items():
            if count > max(upstream[kind, scope, key], patched[kind, scope, key]):
                is_import = kind is ElementKind.IMPORT
                yield self._finding(
                    FindingKind.DUPLICATE_IMPORT if is_import else FindingKind.DUPLICATE_ELEMENT,
                    f"{key if is_import else f'{kind} {key}'} is there {count} times"
                    + (f" in {scope}" if scope else ""),
                )

    def _changed_scopes(self) -> frozenset[str]:
        scopes: set[str] = set()
        places = line_scopes(self.patched)
        for change in changes(self.base, self.patched):
            scopes.update(places[change.new_start : change.new_end])
        return frozenset(scopes)

    def _duplicate_lines(self) -> Iterable[Finding]:
        """A block of the patch that upstream brought too, and that the result has twice in one definition."""
        doubled = {
            line
            for line, count in self._merged.items()
            if count > self._upstream[line] and count > self._patched[line] and has_words(line)
        }
        if not doubled:
            return
        scopes = _exact_scopes if self.is_python else _no_scopes
        patched, upstream, merged, base = (
            _placed(one, doubled, scopes) for one in (self.patched, self.upstream, self.merged, self.base)
        )
        lines = normal_lines(self.patched)
        scope_of = scopes(self.patched, len(lines) - 1)
        for change in changes(self.base, self.patched):
            said = [(scope_of(at), lines[at]) for at in range(change.new_start, change.new_end)]
            said = [key for key in said if has_words(key[1])]
            # Of a block that holds nothing but comments, they are what it says.
            block = [key for key in said if self._tells(key[1])] or said
            twice = [
                key
                for key in block
                if merged[key] > max(patched[key], upstream[key])
                and min(patched[key], upstream[key]) >= base[key]
            ]
            if twice and len(twice) == len(block):
                scope, line = twice[0]
                where = f" in {scope}" if scope else ""
                more = f" and {len(block) - 1} more" if len(block) > 1 else ""
                yield self._finding(FindingKind.DUPLICATE_LINES, f"{_show(line)}{more} is there twice{where}")

    def _tells(self, line: bytes) -> bool:
        return is_telling(self.path, line)

    def _finding(self, kind: FindingKind, detail: str) -> Finding:
        return Finding(kind=kind, path=self.path, detail=detail)


def _difference(after: Counter[_Key], before: Counter[_Key]) -> Counter[_Key]:
    """What each count gained, negative where it fell."""
    result = after.copy()
    result.subtract(before)
    return result


def _placed(source: bytes, wanted: set[bytes], scopes: _Scopes) -> Counter[tuple[str, bytes]]:
    """How often each wanted line stands in each definition."""
    lines = normal_lines(source)
    places = [place for place, line in enumerate(lines) if line in wanted]
    if not places:
        return Counter()
    scope_of = scopes(source, places[-1])
    return Counter((scope_of(place), lines[place]) for place in places)


def _exact_scopes(source: bytes, _last: int) -> Callable[[int], str]:
    return line_scopes(source).__getitem__


def _no_scopes(_: bytes, _last: int) -> Callable[[int], str]:
    return lambda _: ""


def rough_scopes(source: bytes, last: int) -> Callable[[int], str]:
    """The definition around a 0-based line up to `last` as the indentation tells it: enough to see that nothing moved.

    Lines that open no block are passed over, so that a closing bracket or the text of a string at the left margin
    does not end the search.
    """
    lines = source.split(b"\n", last + 1)
    end = len(source) - (len(lines.pop()) if len(lines) > last + 1 else 0)
    # For each line that opens a block: its number, its depth, its definition's name, and the opener around it.
    openers: list[tuple[int, int, str, int]] = []
    line, reached, around = 0, 0, -1
    for match in _OPENS.finditer(source, 0, end):
        line += source.count(b"\n", reached, match.start())
        reached = match.start()
        depth = _depth(lines[line])
        while around >= 0 and openers[around][1] >= depth:
            around = openers[around][3]
        openers.append((line, depth, (match[1] or b"").decode("utf-8", "backslashreplace"), around))
        around = len(openers) - 1

    def scope_of(place: int) -> str:
        names: list[str] = []
        depth = _depth(lines[place])
        at = bisect_right(openers, place, key=lambda opener: opener[0]) - 1
        while at >= 0:
            if openers[at][1] <= depth:
                depth = openers[at][1] - 1
                names.append(openers[at][2])
            at = openers[at][3]
        return ".".join(name for name in reversed(names) if name)

    return scope_of


def _depth(line: bytes) -> int:
    return len(line) - len(line.lstrip())


def _repeated(source: bytes, scopes: frozenset[str]) -> Counter[tuple[ElementKind, str, str]]:
    """What one literal, base class list, parameter list or import block holds more than once."""
    counts = Counter(
        (one.element.kind, one.element.scope, one.key, one.group)
        for one in located_elements(source, scopes)
        if one.key
    )
    repeated: Counter[tuple[ElementKind, str, str]] = Counter()
    for (kind, scope, key, _), count in counts.items():
        if count > 1:
            repeated[kind, scope, key] = max(count, repeated[kind, scope, key])
    return repeated


def _defines(source: bytes, name: str) -> bool:
    return any(one.qualified_name == name for one in definitions(source))


def _show(line: bytes) -> str:
    words = line.decode("utf-8", "backslashreplace")
    return f"`{words if len(words) <= _SHOWN else words[: _SHOWN - 1] + '…'}`"
