"""Conflicts in keyed formats that are none: TOML, YAML, JSON, INI and requirements, merged by their keys.

Git stops where two sides change neighbouring lines. Where these lines are entries with keys of their own, both changes
are made: upstream's text with the patch's lines put in and taken out. What both sides changed, what one changed and
the other removed, and whatever is in doubt stays a conflict, and the result is checked apart from how it was made.
"""

from __future__ import annotations

import configparser
import json
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from forktool.core.entries import ClashError, Entry, Kind, merge
from forktool.core.keyed_grammars import read_json, read_toml, read_yaml
from forktool.core.keyed_lines import read_ini, read_requirements
from forktool.core.markers import Conflict, join_pieces, sides_of
from forktool.core.spans import LINE

_REQUIREMENTS = re.compile(
    r"(^|/)([\w.-]*(requirements|constraints)[\w.-]*|requirements/([\w.-]+/)*[\w.-]+)\.(txt|in)$"
)
_MISSING = object()


@dataclass(frozen=True, kw_only=True, slots=True)
class _Format:
    """How a format is read as entries, and as plain values; None where the text is not sound."""

    read: Callable[[bytes], Entry | None]
    values: Callable[[bytes], object]


def is_keyed(path: str) -> bool:
    """Whether a path names a file of a keyed format."""
    return _format(path) is not None


def settle(path: str, pieces: Sequence[bytes | Conflict]) -> tuple[bytes, ...] | None:
    """What each conflict of a file becomes, in order; None where one of them stays.

    Args:
        path: names the format.
        pieces: the file, as `parse_conflicts` gives it; `ours` is upstream, `theirs` the patch.
    """
    kind = _format(path)
    sides = sides_of(pieces)
    if kind is None or len({b"\r\n" in side for side in sides}) > 1:
        return None
    try:
        return _settled(kind, pieces, sides)
    except RecursionError:
        return None  # It is nested deeper than Python calls.


def _settled(
    kind: _Format, pieces: Sequence[bytes | Conflict], sides: Sequence[bytes]
) -> tuple[bytes, ...] | None:
    results: list[bytes] = []
    for place, piece in enumerate(pieces):
        if isinstance(piece, Conflict):
            before, after = (sides_of(some)[1] for some in (pieces[:place], pieces[place + 1 :]))
            result = _settle(kind, piece, before, after)
            if result is None:
                return None
            results.append(result)
    waiting = iter(results)
    whole = join_pieces(pieces, lambda _conflict: next(waiting))
    return tuple(results) if _is_sound(kind, whole, *sides) else None


def _settle(kind: _Format, conflict: Conflict, before: bytes, after: bytes) -> bytes | None:
    sides = [before + region + after for region in (conflict.base, conflict.ours, conflict.theirs)]
    entries = [kind.read(side) for side in sides]
    base, ours, theirs = entries
    if base is None or ours is None or theirs is None:
        return None
    if any(entry.emit() != side for entry, side in zip((base, ours, theirs), sides, strict=True)):
        return None
    try:
        merged = merge(base, ours, theirs).emit()
    except ClashError:
        return None
    if len(merged) < len(before) + len(after):
        return None
    if not (merged.startswith(before) and merged.endswith(after)):
        return None
    return merged[len(before) : len(merged) - len(after)]


def _is_sound(kind: _Format, result: bytes, base: bytes, ours: bytes, theirs: bytes) -> bool:
    """Whether the result parses, has the lines that both sides' changes make, and the values."""
    there, mine, other = kind.read(result), kind.read(ours), kind.read(theirs)
    if there is None or mine is None or other is None or not _has_lines(result, base, ours, theirs):
        return False
    if _repeated(there) - (_repeated(mine) | _repeated(other)):
        return False
    values = [kind.values(text) for text in (base, ours, theirs, result)]
    return None not in values and _agree(*values)


def _has_lines(result: bytes, base: bytes, ours: bytes, theirs: bytes) -> bool:
    """Whether each line is there as often as the two sides' changes make it."""
    there, old, mine, other = (
        Counter(line.strip().removesuffix(b",") for line in LINE.findall(text))
        for text in (result, base, ours, theirs)
    )
    for line in there.keys() | mine.keys() | other.keys() | old.keys():
        if not line:
            continue
        grown = (mine[line] - old[line], other[line] - old[line])
        least = old[line] + max(*grown, 0) + min(*grown, 0)
        most = old[line] + (max(grown[0], 0) + max(grown[1], 0) or min(grown))
        if not least <= there[line] <= most:
            return False
    return True


def _repeated(entry: Entry, path: tuple[str, ...] = ()) -> Counter[tuple[str, ...]]:
    """The keys that a mapping has more than once, with those around them."""
    found: Counter[tuple[str, ...]] = Counter()
    if entry.kind in (Kind.MAPPING, Kind.NAMES):
        counts = Counter(member.key for member in entry.members)
        found.update({(*path, key): count for key, count in counts.items() if count > 1})
    for member in entry.members:
        found |= _repeated(member, (*path, member.key))
    return found


def _agree(base: object, ours: object, theirs: object, result: object) -> bool:
    """Whether values are what a merge of values gives; of lists, whether each member is there as it must be."""
    if theirs in (base, ours):
        return result == ours
    if ours == base:
        return result == theirs
    if all(isinstance(one, dict) for one in (base, ours, theirs, result)):
        keys = {key for one in (base, ours, theirs, result) if isinstance(one, dict) for key in one}
        sides = [one if isinstance(one, dict) else {} for one in (base, ours, theirs, result)]
        return all(_agree(*(side.get(key, _MISSING) for side in sides)) for key in keys)
    if all(isinstance(one, list) for one in (base, ours, theirs, result)):
        lines = [
            b"".join(repr(member).encode() + b"\n" for member in one)
            for one in (result, base, ours, theirs)
            if isinstance(one, list)
        ]
        return _has_lines(lines[0], lines[1], lines[2], lines[3])
    return False


def _toml(source: bytes) -> object:
    try:
        return tomllib.loads(source.decode())
    except (UnicodeDecodeError, tomllib.TOMLDecodeError):
        return None


def _json(source: bytes) -> object:
    def unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
        if len(dict(pairs)) < len(pairs):
            raise ValueError
        return dict(pairs)

    try:
        return json.loads(source, object_pairs_hook=unique)
    except (ValueError, RecursionError):
        return None


def _ini(source: bytes) -> object:
    parser = configparser.RawConfigParser(allow_no_value=True, default_section="\0", strict=True)
    parser.optionxform = str  # type: ignore[assignment, method-assign]  # as the documentation of configparser says
    try:
        parser.read_string(source.decode())
    except (UnicodeDecodeError, configparser.Error):
        return None
    return {
        name: {key: (value or "").splitlines() for key, value in parser.items(name)}
        for name in parser.sections()
    }


def _yaml(source: bytes) -> object:
    entries = read_yaml(source)
    return None if entries is None else _plain(entries)


def _requirements(source: bytes) -> object:
    """All lines of each project: where both sides changed what one of them needs, no merge of values agrees."""
    entries = read_requirements(source)
    if entries is None:
        return None
    found: dict[str, tuple[bytes, ...]] = {}
    for member in entries.members:
        name = member.key.partition(" ")[0]
        found[name] = (*found.get(name, ()), member.text.strip())
    return found


def _plain(entry: Entry) -> object:
    if entry.kind is Kind.LEAF:
        return entry.text.strip()
    found: dict[str, object] = {"": entry.head}
    seen: Counter[str] = Counter()
    for member in entry.members:
        seen[member.key] += 1
        found[f"{member.key}\0{seen[member.key]}"] = _plain(member)
    return found


_YAML = _Format(read=read_yaml, values=_yaml)
_INI = _Format(read=read_ini, values=_ini)
_REQUIREMENTS_FILE = _Format(read=read_requirements, values=_requirements)
_FORMATS = {
    ".toml": _Format(read=read_toml, values=_toml),
    ".json": _Format(read=read_json, values=_json),
    ".yaml": _YAML,
    ".yml": _YAML,
    ".ini": _INI,
    ".cfg": _INI,
}


def _format(path: str) -> _Format | None:
    if _REQUIREMENTS.search(path):
        return _REQUIREMENTS_FILE
    return _FORMATS.get(PurePosixPath(path).suffix)
