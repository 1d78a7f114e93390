"""`-k` expressions: words that stand in an identifier, joined by `and`, `or`, `not` and parentheses."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from forktool.core.matrix import Cell
from forktool.errors import RequestError

Selector = Callable[[str], bool]
"""Tells whether an identifier is selected."""

_TOKEN = re.compile(r"\s*(?:(?P<mark>[()])|(?P<word>=?[A-Za-z0-9_.+\-\[\]:]+))")
_KEYWORDS = ("and", "or", "not")


def parse_selector(expression: str) -> Selector:
    """Read an expression.

    A word selects the identifiers that contain it, in any case; `=word` those that equal it. `not` binds closest,
    then `and`, then `or`, as in Python. An empty expression selects all.

    Raises:
        RequestError: it cannot be read; the message marks the column, from 1.
    """
    reader = _Reader(expression)
    if not reader.tokens:
        return lambda _identifier: True
    selector = reader.either()
    if reader.position < len(reader.tokens):
        raise reader.error(f"unexpected {reader.peek()!r}")
    return selector


def select(cells: Iterable[Cell], expression: str) -> tuple[Cell, ...]:
    """The cells whose identifier the expression selects, in their order."""
    selector = parse_selector(expression)
    return tuple(cell for cell in cells if selector(cell.identifier))


class _Reader:
    def __init__(self, expression: str) -> None:
        self.expression = expression
        self.tokens: list[tuple[str, int]] = []
        self.position = 0
        at = 0
        text = expression.rstrip()
        while at < len(text):
            match = _TOKEN.match(text, at)
            if match is None:
                start = at + len(text[at:]) - len(text[at:].lstrip())
                raise RequestError(f"-k {expression!r}: column {start + 1}: unexpected {text[start]!r}")
            token = match["mark"] or match["word"]
            self.tokens.append((token, match.end() - len(token)))
            at = match.end()

    def peek(self) -> str | None:
        return self.tokens[self.position][0] if self.position < len(self.tokens) else None

    def take(self) -> str:
        token = self.tokens[self.position][0]
        self.position += 1
        return token

    def error(self, problem: str) -> RequestError:
        column = self.tokens[self.position][1] if self.position < len(self.tokens) else len(self.expression)
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
        token = self.peek()
        if token is None:
            raise self.error("a word is missing at the end")
        if token == "not":
            self.take()
            inner = self.one()
            return lambda identifier: not inner(identifier)
        if token == "(":
            self.take()
            inner = self.either()
            if self.peek() != ")":
                raise self.error("a closing parenthesis is missing")
            self.take()
            return inner
        if token == ")" or token in _KEYWORDS:
            raise self.error(f"a word is missing before {token!r}")
        self.take()
        if token.startswith("="):
            return lambda identifier: identifier.lower() == token[1:].lower()
        return lambda identifier: token.lower() in identifier.lower()


def _either(left: Selector, right: Selector) -> Selector:
    return lambda identifier: left(identifier) or right(identifier)


def _both(left: Selector, right: Selector) -> Selector:
    return lambda identifier: left(identifier) and right(identifier)
