"""Conflict regions in a text with git's markers (git-merge(1), "How conflicts are presented")."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_REGION = re.compile(rb"^<<<<<<< .*?^>>>>>>> [^\n]*\n?", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Region:
    """One conflict, markers included; `line` is 1-based in the marked text."""

    line: int
    text: bytes


def conflict_regions(marked: bytes) -> Iterator[Region]:
    """Every conflict of a text, in order."""
    for match in _REGION.finditer(marked):
        yield Region(marked.count(b"\n", 0, match.start()) + 1, match[0])
