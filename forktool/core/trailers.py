"""Trailers: the last paragraph of a message when every line of it is `Key: value` (git-interpret-trailers(1)).

Keys follow DEP-3 (https://dep-team.pages.debian.net/deps/dep3/) where it has them; `Reason` and `Drop-When` are
ours.
"""

from __future__ import annotations

import re

_TRAILER = re.compile(r"([A-Za-z0-9][A-Za-z0-9-]*):(?!//) ?(.*)")

FORK_KEYS = ("Forwarded", "Applied-Upstream", "Origin", "Bug", "Reason", "Drop-When", "Last-Update")
"""Trailers that speak to the fork's maintainers, not to upstream."""

Trailer = tuple[str, str]


def split_trailers(message: str) -> tuple[str, tuple[Trailer, ...]]:
    """The message without its trailers, and the trailers in order; a continuation line is joined to its trailer."""
    text = message.rstrip("\n")
    head, blank, last = text.rpartition("\n\n")
    if not blank:
        return text, ()
    found: list[Trailer] = []
    for line in last.split("\n"):
        match = _TRAILER.fullmatch(line)
        if match:
            found.append((match[1], match[2].strip()))
        elif found and line[:1] in (" ", "\t"):
            key, value = found[-1]
            found[-1] = (key, f"{value} {line.strip()}")
        else:
            return text, ()
    return head.rstrip("\n"), tuple(found)


def values(trailers: tuple[Trailer, ...], key: str) -> tuple[str, ...]:
    """Every value of a key, case-insensitively, in order."""
    return tuple(value for name, value in trailers if name.lower() == key.lower())


def first_value(trailers: tuple[Trailer, ...], key: str) -> str | None:
    """The first value of a key, or None."""
    return next(iter(values(trailers, key)), None)


def join_trailers(text: str, trailers: tuple[Trailer, ...]) -> str:
    """A message made of text and trailers, with one final newline."""
    body = text.rstrip("\n")
    if not trailers:
        return body + "\n"
    return body + "\n\n" + "".join(f"{key}: {value}\n" for key, value in trailers)


def with_trailer(message: str, key: str, value: str) -> str:
    """The message with one more trailer at its end, every other byte kept; unchanged where it is there already."""
    trailers = split_trailers(message)[1]
    if (key.lower(), value) in ((name.lower(), text) for name, text in trailers):
        return message
    return message.rstrip("\n") + ("\n" if trailers else "\n\n") + f"{key}: {value}\n"
