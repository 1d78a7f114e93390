"""Content evidence: how much of what a patch does to a file is true of another version of that file.

An addition counts as present only as far as the other version has more of it, in the same definition, than the file
had before the patch: a line that was there anyway is no evidence. A removal counts as gone the same way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from forktool.core.elements import Element, Located, elements, located_elements
from forktool.core.lines import Change, changes, hunks, is_telling, normal_lines
from forktool.core.remembered import remembered
from forktool.core.syntax import definitions, is_python, line_scopes, parse, statement_around

_SHOWN = 40
_SURVIVING = 0.25
"""A block that keeps at most this share of its elements is gone: a word of it may live on elsewhere."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Content:
    """How much of a patch's change to one path another version of that path has.

    Counts are of telling lines (no blank, bracket, comment or bare keyword), normalised and in their definition, and
    of syntax elements where the file is Python. `share` is 0..1: of the elements where there are any, else of the
    lines; 0 when nothing that the patch adds is present. `target_gone` says that what the patch edits no longer exists.
    """

    path: str
    lines_added: int
    lines_added_present: int
    lines_removed: int
    lines_removed_gone: int
    elements_added: int
    elements_added_present: int
    elements_removed: int
    elements_removed_gone: int
    missing: tuple[str, ...]
    target_gone: bool
    share: float
    detail: str

    @property
    def is_full(self) -> bool:
        """Whether the other version has all of it, judged on elements where there are any, else on lines."""
        return self.share == 1.0

    @property
    def is_telling(self) -> bool:
        """Whether the patch does anything here that can be judged: comments and blank lines cannot."""
        return bool(self.elements_added or self.elements_removed or self.lines_added or self.lines_removed)


@dataclass(frozen=True, kw_only=True, slots=True)
class HunkPresence:
    """One hunk of a patch, grouped as git groups them, and whether the other version has all of it.

    Lines are 0-based and half open. A hunk that says nothing (comments, blank lines) is present only where its lines
    are.
    """

    change: Change
    is_telling: bool
    is_present: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class _Line:
    """A telling line in its definition."""

    scope: str
    text: bytes


@dataclass(frozen=True, kw_only=True, slots=True)
class _Tally:
    """How many of the wanted things the other version has; `missing` describes the others."""

    total: int
    met: int
    missing: tuple[str, ...]
    scopes: tuple[str, ...]


@remembered(count=256, size=1 << 27)
def compare_content(
    path: str, *, before: bytes | None, after: bytes | None, upstream: bytes | None
) -> Content:
    """Judge one path of a patch against another version of it.

    Args:
        path: names the file type; only `.py` and `.pyi` are judged on syntax.
        before: the file without the patch, None where the patch creates it.
        after: the file with the patch, None where the patch deletes it.
        upstream: the file in the other tree, None where it has none.
    """
    facts = _Facts(path, before, after, upstream)
    lines, parts = facts.lines(), facts.elements()
    lines_added, lines_removed = lines.added(), lines.removed()
    elements_added, elements_removed = parts.added(), parts.removed()
    has_elements = bool(elements_added.total or elements_removed.total)
    added, removed = (elements_added, elements_removed) if has_elements else (lines_added, lines_removed)
    share = _share(added, removed)
    if not facts.changes and (before is None) != (after is None):
        # An empty file comes or goes: its being there is all there is to judge.
        share = 1.0 if (upstream is None) == (after is None) else 0.0
    gone = ""
    if share < 1.0 and before is not None and not added.met:
        gone = f"{path} is gone" if upstream is None else facts.why_gone()
    return Content(
        path=path,
        lines_added=lines_added.total,
        lines_added_present=lines_added.met,
        lines_removed=lines_removed.total,
        lines_removed_gone=lines_removed.met,
        elements_added=elements_added.total,
        elements_added_present=elements_added.met,
        elements_removed=elements_removed.total,
        elements_removed_gone=elements_removed.met,
        missing=(*added.missing, *removed.missing),
        target_gone=bool(gone),
        share=share,
        detail=gone or _detail(path, added, removed, "element" if has_elements else "line"),
    )


def hunk_presence(
    path: str, *, before: bytes | None, after: bytes | None, upstream: bytes | None
) -> tuple[HunkPresence, ...]:
    """Which hunks of a patch another version has in full; arguments as for `compare_content`."""
    facts = _Facts(path, before, after, upstream)
    return tuple(facts.presence(hunk) for hunk in hunks(facts.before, facts.after))


_Key = TypeVar("_Key", Element, _Line)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Sides(Generic[_Key]):
    """The things that a patch touches, counted in the three versions of the file.

    `homes` are the scopes where a removal can be seen: those that upstream still has, or that the patch removes too.
    What stood in a function that upstream moved away is not gone, it is elsewhere.
    """

    before: Counter[_Key]
    after: Counter[_Key]
    upstream: Counter[_Key]
    homes: frozenset[str]

    def added(self) -> _Tally:
        """What the patch adds, and how much of it upstream has more of than there was before."""
        wanted = self.after - self.before
        met = {
            one: min(count, max(0, self.upstream[one] - self.before[one])) for one, count in wanted.items()
        }
        return _tally(wanted, met, "")

    def removed(self) -> _Tally:
        """What the patch removes, and how much less of it upstream has than there was before."""
        wanted = self.before - self.after
        met = {
            one: min(count, max(0, self.before[one] - self.upstream[one])) if one.scope in self.homes else 0
            for one, count in wanted.items()
        }
        return _tally(wanted, met, "not seen gone: ")

    def has_all(self, gained: Iterable[_Key], lost: Iterable[_Key]) -> bool:
        """Whether upstream has everything gained as often as the patch makes it, and nothing lost more often.

        A thing that the patch merely moves inside its definition is in neither: its count tells nothing.
        """
        return all(self.upstream[one] >= self.after[one] > self.before[one] for one in gained) and all(
            one.scope in self.homes and self.upstream[one] <= self.after[one] < self.before[one]
            for one in lost
        )


def _tally(wanted: Counter[_Key], met: dict[_Key, int], prefix: str) -> _Tally:
    return _Tally(
        total=wanted.total(),
        met=sum(met.values()),
        missing=tuple(prefix + _describe(one) for one, count in wanted.items() if met[one] < count),
        scopes=tuple(dict.fromkeys(one.scope for one in wanted)),
    )


class _Facts:
    """The three versions of one file and what the patch touches in them."""

    def __init__(self, path: str, before: bytes | None, after: bytes | None, upstream: bytes | None) -> None:
        self.path = path
        self.before, self.after, self.upstream = before or b"", after or b"", upstream or b""
        self.is_python = is_python(path, self.before, self.after, self.upstream)
        self.changes = changes(self.before, self.after)
        if self.is_python:
            parse(self.before)
            parse(self.after, self.before)
        self._scopes = self._touched_scopes() if self.is_python else frozenset()
        self._homes = self._removal_homes(is_there=upstream is not None or after is None)

    def _touched_scopes(self) -> frozenset[str]:
        scopes: set[str] = set()
        old, new = line_scopes(self.before), line_scopes(self.after)
        for change in self.changes:
            scopes.update(old[change.old_start : change.old_end], new[change.new_start : change.new_end])
        names = {one.qualified_name for one in definitions(self.before)}
        names ^= {one.qualified_name for one in definitions(self.after)}
        return frozenset(scopes | {name.rpartition(".")[0] for name in names})

    def _removal_homes(self, *, is_there: bool) -> frozenset[str]:
        if not is_there:
            return frozenset()
        if not self.is_python:
            return frozenset({""})
        before, after, upstream = (
            {one.qualified_name for one in definitions(source)}
            for source in (self.before, self.after, self.upstream)
        )
        return frozenset({"", *upstream, *(before - after)})

    def elements(self) -> _Sides[Element]:
        """The elements of the definitions that the patch touches; none for a file that is not Python."""
        if not self.is_python:
            return _Sides(before=Counter(), after=Counter(), upstream=Counter(), homes=self._homes)
        return _Sides(
            before=elements(self.before, self._scopes),
            after=elements(self.after, self._scopes),
            upstream=elements(self.upstream, self._scopes),
            homes=self._homes,
        )

    def lines(self) -> _Sides[_Line]:
        """The telling lines that the patch touches."""
        olds, news = normal_lines(self.before), normal_lines(self.after)
        touched: set[bytes] = set()
        for change in self.changes:
            touched.update(olds[change.old_start : change.old_end], news[change.new_start : change.new_end])
        wanted = {line for line in touched if is_telling(self.path, line)}
        if not self.is_python and self.upstream != self.after:
            # Without scopes, one of several equal lines cannot be told from the others.
            wanted -= set(olds) & set(news)
        return _Sides(
            before=self._count(self.before, wanted),
            after=self._count(self.after, wanted),
            upstream=self._count(self.upstream, wanted),
            homes=self._homes,
        )

    def _count(self, source: bytes, wanted: set[bytes]) -> Counter[_Line]:
        lines = normal_lines(source)
        places = [place for place, line in enumerate(lines) if line in wanted]
        scopes = line_scopes(source) if self.is_python and places else ()
        return Counter(_Line(scope=scopes[place] if scopes else "", text=lines[place]) for place in places)

    def presence(self, hunk: Change) -> HunkPresence:
        """Whether upstream has one hunk."""
        new = self._between(self.after, hunk.new_start, hunk.new_end)
        old = self._between(self.before, hunk.old_start, hunk.old_end)
        if new - old or old - new:
            return HunkPresence(
                change=hunk, is_telling=True, is_present=self.elements().has_all(new - old, old - new)
            )
        sides = self.lines()
        gained = self._lines_between(self.after, hunk.new_start, hunk.new_end)
        lost = self._lines_between(self.before, hunk.old_start, hunk.old_end)
        is_telling_hunk = bool(gained - lost or lost - gained)
        return HunkPresence(
            change=hunk,
            is_telling=is_telling_hunk,
            is_present=is_telling_hunk and sides.has_all(gained - lost, lost - gained),
        )

    def _between(self, source: bytes, start: int, end: int) -> Counter[Element]:
        if not self.is_python:
            return Counter()
        located = located_elements(source, self._scopes)
        return Counter(one.element for one in located if one.first <= end and one.last > start)

    def _lines_between(self, source: bytes, start: int, end: int) -> Counter[_Line]:
        lines = normal_lines(source)
        scopes = line_scopes(source) if self.is_python else ()
        return Counter(
            _Line(scope=scopes[place] if scopes else "", text=lines[place])
            for place in range(start, end)
            if is_telling(self.path, lines[place])
        )

    def why_gone(self) -> str:
        """Why what the patch edits no longer exists upstream, in one line; "" if some of it does."""
        reasons: list[str] = []
        for change in self.changes:
            if len(self.changes) > 1 and self._is_import(change):
                continue
            reason = self._why_change_gone(change) if self.is_python else self._why_lines_gone(change)
            if not reason:
                return ""
            reasons.append(reason)
        return reasons[0] if reasons else ""

    def _is_import(self, change: Change) -> bool:
        lines = (
            *normal_lines(self.before)[change.old_start : change.old_end],
            *normal_lines(self.after)[change.new_start : change.new_end],
        )
        return self.is_python and all(line.startswith((b"import ", b"from ")) for line in lines if line)

    def _why_change_gone(self, change: Change) -> str:
        scope = self._home(change)
        if scope and all(one.qualified_name != scope for one in definitions(self.upstream)):
            return f"{scope} is gone"
        touched = self._edited(change)
        if not touched:
            return ""
        there = elements(self.upstream, self._scopes | {scope})
        wanted = Counter(one.element for one in touched)
        if sum(min(count, there[one]) for one, count in wanted.items()) > _SURVIVING * wanted.total():
            return ""
        owners = {one.element.owner for one in touched}
        shown = owners.pop() if len(owners) == 1 and "" not in owners else _short(touched[0].element.name)
        return f"{scope or self.path} no longer has {shown}"

    def _home(self, change: Change) -> str:
        """The definition that a change edits, as it was before the patch."""
        if change.old_end > change.old_start:
            return _first(line_scopes(self.before)[change.old_start : change.old_end])
        scope = _first(line_scopes(self.after)[change.new_start : change.new_end])
        names = {one.qualified_name for one in definitions(self.before)}
        while scope and scope not in names:
            scope = scope.rpartition(".")[0]
        return scope

    def _edited(self, change: Change) -> list[Located]:
        """What a change replaces; for a bare insertion, the block or statement that it is inserted into."""
        located = located_elements(self.before, self._scopes)
        first, last = change.old_start + 1, change.old_end
        if last >= first:
            touched = [one for one in located if one.first <= last and one.last >= first]
            if touched:
                return touched
        span = statement_around(self.before, min(first, max(last, 1)), max(first, last))
        if span is None:
            return []
        return [one for one in located if span.first <= one.first and one.last <= span.last]

    def _why_lines_gone(self, change: Change) -> str:
        """For a file without syntax: neither the replaced lines nor, for an insertion, its neighbours are there."""
        lines = normal_lines(self.before)
        near = (
            lines[change.old_start : change.old_end]
            or lines[max(0, change.old_start - 3) : change.old_start + 3]
        )
        telling = [line for line in near if is_telling(self.path, line)]
        there = set(normal_lines(self.upstream))
        if not telling or any(line in there for line in telling):
            return ""
        return f"{self.path} no longer has {_short(telling[0].decode('utf-8', 'backslashreplace'))}"


def _first(scopes: Sequence[str]) -> str:
    return scopes[0] if scopes else ""


def _share(added: _Tally, removed: _Tally) -> float:
    """What is met of what there is to meet. Removals alone are no sign of an addition: upstream may just delete."""
    total = added.total + removed.total
    if not total or (added.total and not added.met):
        return 0.0
    return (added.met + removed.met) / total


def _describe(one: Element | _Line) -> str:
    where = f" in {one.scope}" if one.scope else ""
    if isinstance(one, _Line):
        return f"{_short(one.text.decode('utf-8', 'backslashreplace'))}{where}"
    return f"{one.kind} {_short(one.name)}{where}"


def _short(words: str) -> str:
    flat = " ".join(words.split())
    return flat if len(flat) <= _SHOWN else f"{flat[: _SHOWN - 1]}…"


def _detail(path: str, added: _Tally, removed: _Tally, noun: str) -> str:
    scopes = dict.fromkeys((*added.scopes, *removed.scopes))
    where = path
    if scopes and "" not in scopes:
        where = next(iter(scopes)) if len(scopes) == 1 else f"{len(scopes)} definitions of {path}"
    parts: list[str] = []
    if added.total:
        parts.append(f"{_of(added, 'added', noun)} in {where}")
    if removed.total:
        parts.append(f"{_of(removed, 'removed', noun)} gone" + ("" if added.total else f" from {where}"))
    return ", ".join(parts) or f"nothing in {path} that can be judged"


def _of(tally: _Tally, what: str, noun: str) -> str:
    return f"{tally.met} of {tally.total} {what} {noun}" + (" is" if tally.total == 1 else "s are")
