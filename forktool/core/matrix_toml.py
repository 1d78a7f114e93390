"""Where a key of a TOML file stands: `tomllib` gives values without lines, an error message needs both."""

from __future__ import annotations

import difflib
import itertools
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from forktool.errors import PatchsetError

Place = tuple[str | int, ...]
"""The way to a value: table names, positions in arrays of tables, at last a key."""

_HEADER = re.compile(r"\s*(\[\[?)\s*(.+?)\s*\]\]?\s*(?:#.*)?$")
_KEY = re.compile(
    r"""\s*((?:"[^"]*"|'[^']*'|[A-Za-z0-9_-]+)(?:\s*\.\s*(?:"[^"]*"|'[^']*'|[A-Za-z0-9_-]+))*)\s*="""
)
_PART = re.compile(r"""\s*(?:"([^"]*)"|'([^']*)'|([A-Za-z0-9_-]+))\s*(?:\.|$)""")

_SHOWN = 300
"""How many letters of names an error lists: all keys of a table, and not 200 cells."""


class TomlFile:
    """A parsed TOML document that can say where its parts stand, and refuse them.

    Raises:
        PatchsetError: it is not TOML.
    """

    def __init__(self, text: str, file: str) -> None:
        self.file = file
        try:
            self.document: Mapping[str, Any] = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            found = re.search(r"\(at line (\d+), column \d+\)$", str(error))
            where = f"{file}:{found[1]}" if found else file
            raise PatchsetError(f"{where}: {str(error).partition(' (at ')[0]}") from error
        self._lines = _places(text)

    def line(self, place: Place) -> int:
        """The line, from 1, of a place or of the nearest table around it."""
        for end in range(len(place), 0, -1):
            if place[:end] in self._lines:
                return self._lines[place[:end]]
        return 1

    def error(self, place: Place, problem: str, *, hint: str | None = None) -> PatchsetError:
        """An error that names the file, the line and the key."""
        key = place[-1] if place and isinstance(place[-1], str) else ""
        return PatchsetError(
            f"{self.file}:{self.line(place)}: {key} {problem}".replace(":  ", ": "), hint=hint
        )

    def unknown(self, place: Place, allowed: Iterable[str]) -> PatchsetError:
        """The error for a key that is not known; names the nearest that is."""
        return self.error(place, f"is not known here; {nearest(str(place[-1]), allowed)}")

    def known(self, table: Mapping[str, Any], place: Place, allowed: Sequence[str]) -> None:
        """Refuse the first key of a table that is not allowed."""
        for key in table:
            if key not in allowed:
                raise self.unknown((*place, key), allowed)

    def table(self, parent: Mapping[str, Any], place: Place) -> Mapping[str, Any]:
        """The table at the end of a place, empty where there is none."""
        value = parent.get(str(place[-1]), {})
        if not isinstance(value, dict):
            raise self.error(place, "must be a table")
        return value

    def text(self, table: Mapping[str, Any], place: Place) -> str | None:
        """A text that is not empty, or None."""
        value = table.get(str(place[-1]))
        if value is None:
            return None
        if not isinstance(value, str) or not value.strip():
            raise self.error(place, "must be a text that is not empty")
        return value

    def texts(self, table: Mapping[str, Any], place: Place) -> tuple[str, ...]:
        """A list of texts; one text counts as a list of one."""
        value = table.get(str(place[-1]), ())
        if isinstance(value, str):
            value = [value]
        if not isinstance(value, list | tuple) or not all(
            isinstance(item, str) and item.strip() for item in value
        ):
            raise self.error(place, "must be a list of texts")
        return tuple(value)

    def number(
        self,
        table: Mapping[str, Any],
        place: Place,
        default: float,
        *,
        low: float,
        high: float = float("inf"),
    ) -> float:
        """A number within bounds."""
        value = table.get(str(place[-1]), default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
            upper = f" to {high:g}" if high != float("inf") else " or more"
            raise self.error(place, f"must be a number, {low:g}{upper}, not {value!r}")
        return float(value)

    def whole(
        self, table: Mapping[str, Any], place: Place, default: int, *, low: int, high: float = float("inf")
    ) -> int:
        """A whole number within bounds."""
        value = self.number(table, place, default, low=low, high=high)
        if value != int(value):
            raise self.error(place, f"must be a whole number, not {value:g}")
        return int(value)

    def flag(self, table: Mapping[str, Any], place: Place, *, default: bool = False) -> bool:
        """True or false."""
        value = table.get(str(place[-1]), default)
        if not isinstance(value, bool):
            raise self.error(place, "must be true or false")
        return value


def nearest(name: str, allowed: Iterable[str]) -> str:
    """The nearest allowed name as a question, else the list of them, or as many as one line bears."""
    names = sorted(allowed)
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    if near:
        return f"did you mean {near[0]}?"
    if not names:
        return "nothing is defined yet"
    shown = list(itertools.takewhile(lambda upto: upto <= _SHOWN, itertools.accumulate(map(len, names))))
    more = f" and {len(names) - len(shown)} more" if len(names) > len(shown) else ""
    return f"known: {', '.join(names[: len(shown)])}{more}"


def _places(text: str) -> dict[Place, int]:
    """Lines of headers and keys.

    Within a text of several lines something may look like a key; it does no harm, since only places that the parsed
    document has are asked for.
    """
    found: dict[Place, int] = {}
    counts: dict[tuple[str | int, ...], int] = {}
    current: Place = ()
    for number, line in enumerate(text.splitlines(), 1):
        header = _HEADER.match(line)
        if header:
            names = _parts(header[2])
            if header[1] == "[[":
                index = counts.get(names, 0)
                counts[names] = index + 1
                current = (*names, index)
            else:
                current = _within_arrays(names, counts)
            for end in range(len(current), 0, -1):
                found.setdefault(current[:end], number)
            continue
        key = _KEY.match(line)
        if key:
            found.setdefault((*current, *_parts(key[1])), number)
    return found


def _within_arrays(names: Place, counts: Mapping[Place, int]) -> Place:
    for end in range(len(names), 0, -1):
        if names[:end] in counts:
            return (*names[:end], counts[names[:end]] - 1, *names[end:])
    return names


def _parts(dotted: str) -> Place:
    return tuple(
        next(part for part in match.groups() if part is not None) for match in _PART.finditer(dotted)
    )
