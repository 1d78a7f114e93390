"""From the places of entries in a text to the entries themselves.

A reader of a format says in which lines each entry is; what stands in between must be blank or a comment, else the
entry around is taken as one value.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from forktool.core.entries import Entry, Kind

LINE = re.compile(rb"[^\n]*\n|[^\n]+")


@dataclass(frozen=True, kw_only=True, slots=True)
class Span:
    """An entry in lines `first` to `last`, both included, 0-based.

    `stop` is the byte in the last line behind its value. `is_separated` says that its members have commas between them,
    `opens` is the last of its own first lines where that is not `first`.
    """

    key: str
    first: int
    last: int
    kind: Kind = Kind.LEAF
    members: tuple[Span, ...] = ()
    stop: int | None = None
    is_separated: bool = False
    opens: int = -1


class Text:
    """The lines of a file; `comments` are the marks that start a comment."""

    def __init__(self, source: bytes, comments: tuple[bytes, ...]) -> None:
        self.lines = LINE.findall(source)
        self.comments = comments

    def is_trivia(self, line: int) -> bool:
        """Whether a line is blank or a comment."""
        text = self.lines[line].strip()
        return not text or text.startswith(self.comments)

    def last(self, first: int, last: int) -> int:
        """The last line of `first..last` that is no trivia."""
        while last > first and (last >= len(self.lines) or self.is_trivia(last)):
            last -= 1
        return last

    def document(self, kind: Kind, members: Sequence[Span]) -> Entry | None:
        """The whole file; None where lines are left that belong to no entry."""
        if not members:
            return None
        first = members[0].first
        whole = self._members(members, first, is_separated=False)
        end = members[-1].last + 1
        if whole is None or not all(map(self.is_trivia, range(end, len(self.lines)))):
            return None
        return Entry(
            key="", lead=b"", head=self._join(0, first), kind=kind, members=whole, tail=self._join(end),
            comma=None, after=b"", column=0,
        )  # fmt: skip

    def entry(self, span: Span, lead: int, *, in_commas: bool) -> Entry:
        """One entry whose lead starts at line `lead`."""
        members: tuple[Entry, ...] | None = None
        start, end = span.last + 1, span.last + 1
        if span.members:
            opens = max(span.first, span.opens)
            start = span.members[0].first
            while start - 1 > opens and self.is_trivia(start - 1):
                start -= 1
            if start > opens:
                members = self._members(span.members, start, is_separated=span.is_separated)
                end = span.members[-1].last + 1
        if members is None:
            start, end = span.last + 1, span.last + 1
        head, tail = self._join(span.first, start), self._join(end, span.last + 1)
        comma, after = None, b""
        if in_commas and span.stop is not None:
            closing = self.lines[span.last]
            after = closing[span.stop :]
            if tail:
                tail = tail[: len(tail) - len(after)]
            else:
                head = head[: len(head) - len(after)]
            comma = after.lstrip().startswith(b",")
            after = after.lstrip()[1:] if comma else after
        line = self.lines[span.first]
        return Entry(
            key=span.key,
            lead=self._join(lead, span.first),
            head=head,
            kind=span.kind if members is not None else Kind.LEAF,
            members=members or (),
            tail=tail,
            comma=comma,
            after=after,
            column=len(line) - len(line.lstrip()),
        )

    def _members(self, spans: Sequence[Span], start: int, *, is_separated: bool) -> tuple[Entry, ...] | None:
        found: list[Entry] = []
        for span in spans:
            if span.first < start or not all(map(self.is_trivia, range(start, span.first))):
                return None
            found.append(self.entry(span, start, in_commas=is_separated))
            start = span.last + 1
        return tuple(found)

    def _join(self, first: int, end: int | None = None) -> bytes:
        return b"".join(self.lines[first:end])
