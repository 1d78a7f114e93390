"""`-k` expressions: words that stand in an identifier, joined by `and`, `or`, `not` and parentheses."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from forktool.core.matrix import Cell
from forktool.core.matrix_toml import nearest
from forktool.errors import RequestError

Selector = Callable[[str], bool]
"""Tells whether an identifier is selected."""

_WORD = re.compile(r"\s*(?:(?P<mark>[()])|(?P<word>=?[A-Za-z0-9_.+\-\[\]:]+))")
_KEYWORDS = ("and", "or", "not")


def parse_selector(expression: str) -> Selector:
    """Read an expression.

    A word selects the identifiers that contain it, in any case; `=word` those that equal it. `not` binds closest,
    then `and`, then `or`, as in Python. An empty expression selects all.

    Raises:
        RequestError: it cannot be read; the message marks the column, from 1.
    """
    reader = _Reader(expression)
    if not reader.words:
        return lambda _identifier: True
    selector = reader.either()
    if reader.position < len(reader.words):
        raise reader.error(f"unexpected {reader.peek()!r}")
    return selector


def select(cells: Iterable[Cell], expression: str) -> tuple[Cell, ...]:
    """The cells whose identifier the expression selects, in their order."""
    selector = parse_selector(expression)
    return tuple(cell for cell in cells if selector(cell.identifier))


def stranger(expression: str, identifiers: Iterable[str]) -> str | None:
    """The first word of an expression that no identifier has, and what it may have been meant to be; None without one.

    Raises:
        RequestError: the expression cannot be read.
    """
    known = [identifier.lower() for identifier in identifiers]
    for term, _column in _Reader(expression).words:
        word = term.removeprefix("=").lower()
        if term in "()" or term in _KEYWORDS or any(word in identifier for identifier in known):
            continue
        # Compared with as many of an identifier's parts as it has itself.
        length = word.count(".") + 1
        parts = {
            ".".join(pieces[start : start + length])
            for pieces in (identifier.split(".") for identifier in known)
            for start in range(len(pieces) - length + 1)
        }
        return f"no cell has {term}; {nearest(word, parts)}"
    return None


class _Reader:
    def __init__(self, expression: str) -> None:
        self.expression = expression
        self.words: list[tuple[str, int]] = []
        self.position = 0
        at = 0
        text = expression.rstrip()
        while at < len(text):
            match = _WORD.match(text, at)
            if match is None:
                start = at + len(text[at:]) - len(text[at:].lstrip())
                raise RequestError(f"-k {expression!r}: column {start + 1}: unexpected {text[start]!r}")
            term = match["mark"] or match["word"]
            self.words.append((term, match.end() - len(term)))
            at = match.end()

    def peek(self) -> str | None:
        return self.words[self.position][0] if self.position < len(self.words) else None

    def take(self) -> str:
        term = self.words[self.position][0]
        self.position += 1
        return term

    def error(self, problem: str) -> RequestError:
        column = self.words[self.position][1] if self.position < len(self.words) else len(self.expression)
        return RequestError(
            f"-k {self.expression!r}: column {column + 1}: {problem}",
            hint="forktool matrix list -k 'kimi and tp8 and not sglang'",
        )

    def either(self) -> Selector:
        left = self.both()
        while self.peek() == "or":
            self.take()
            left = _either(left, self.both())
        return left

    def both(self) -> Selector:
        left = self.one()
        while self.peek() == "and":
            self.take()
            left = _both(left, self.one())
        return left

    def one(self) -> Selector:
        term = self.peek()
        if term is None:
            raise self.error("a word is missing at the end")
        if term == "not":
            self.take()
            inner = self.one()
            return lambda identifier: not inner(identifier)
        if term == "(":
            self.take()
            inner = self.either()
            if self.peek() != ")":
                raise self.error("a closing parenthesis is missing")
            self.take()
            return inner
        if term == ")" or term in _KEYWORDS:
            raise self.error(f"a word is missing before {term!r}")
        self.take()
        if term.startswith("="):
            return lambda identifier: identifier.lower() == term[1:].lower()
        return lambda identifier: term.lower() in identifier.lower()


def _either(left: Selector, right: Selector) -> Selector:
    return lambda identifier: left(identifier) or right(identifier)


def _both(left: Selector, right: Selector) -> Selector:
    return lambda identifier: left(identifier) and right(identifier)
