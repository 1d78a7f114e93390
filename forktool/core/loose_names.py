"""File names as diffs write them, and the path of the base tree that each means."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from forktool.core.diff import is_inside, quoted_end, unquote
from forktool.core.tree import SourceTree

_TIME = re.compile(
    rb"\s+(?:\d{4}-\d\d-\d\d[ T]\d\d:\d\d|(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) (?:[A-Z][a-z]{2}) [ \d]\d \d\d:\d\d).*$"
)
_EPOCH = re.compile(rb"\t?\s*(?:1970-01-01|1969-12-31|Thu Jan  1 .*1970|Wed Dec 31 .*1969)")
_SIDES = frozenset("abciow")
_INSTALLED = ("site-packages", "dist-packages")
_ABSOLUTE = frozenset(
    ("usr", "opt", "home", "root", "var", "tmp", "srv", "mnt", "lib", "Users", "Library", "workspace")
)


def header_names(rest: bytes) -> tuple[str, str]:
    """The two names of a `diff --git` line as written; where they are ambiguous later lines decide."""
    if rest.startswith(b'"'):
        end = quoted_end(rest)
        return unquote(rest[:end]), unquote(rest[end + 1 :])
    if rest.endswith(b'"') and b' "' in rest:
        begin = rest.index(b' "')
        return unquote(rest[:begin]), unquote(rest[begin + 1 :])
    half = len(rest) // 2
    old, new = rest[:half], rest[half + 1 :]
    is_even = rest[half : half + 1] == b" "
    if not (is_even and (old == new or old.partition(b"/")[2] == new.partition(b"/")[2])):
        old, found, right = rest.partition(b" b/")
        new = b"b/" + right
        if not found:
            old, _, new = rest.partition(b" ")
    return unquote(old), unquote(new)


def side_name(rest: bytes) -> tuple[str, bool]:
    """The name of a `---` or `+++` line, and whether its time stamp says that there is no file (GNU diff -N)."""
    if rest.startswith(b'"'):
        end = quoted_end(rest)
        return unquote(rest[:end]), _EPOCH.match(rest[end:]) is not None
    name, _tab, after = rest.partition(b"\t")
    time = _TIME.search(name)
    if time is not None:
        name, after = name[: time.start()], time[0]
    return unquote(name.rstrip(b" ") if after else name), _EPOCH.match(after) is not None


def is_prefixed(old: str, new: str) -> bool:
    """Whether the first folders only tell the sides apart: `a/` and `b/`, or git's `i/`, `w/`, `c/` and `o/`."""
    left, right = (name.partition("/") for name in (old, new))
    sides = [side[0] for side, name in ((left, old), (right, new)) if name != "/dev/null"]
    return all(side in _SIDES for side in sides) and (len(set(sides)) == len(sides)) and bool(sides)


def parts_of(name: str) -> tuple[str, ...]:
    """The folders and the file of a name, without `.`, empty parts, and leading `..`."""
    parts = [part for part in name.split("/") if part not in ("", ".")]
    while parts and parts[0] == "..":
        parts.pop(0)
    return tuple(parts)


@dataclass(kw_only=True)
class Paths:
    """Which path of `tree` a name means. `folders` are the tree's top folders.

    A file that must be there is found by the longest end of its name that is there. A new file has no such end: it
    loses what the other names of the patch lost, else what lies before the first folder that the tree has.
    """

    tree: SourceTree
    folders: tuple[str, ...]
    _lost: list[tuple[str, ...]] = field(default_factory=list)

    def existing(self, name: str, *, is_prefixed: bool) -> str | None:
        """The path of a file that is there, or None."""
        parts = parts_of(name)
        for path in self._ends(parts, is_prefixed=is_prefixed):
            if self.tree.entry(path) is not None:
                self._lost.append(parts[: len(parts) - path.count("/") - 1])
                return path
        # As installed, a project may lack the folder that its source tree keeps it in (`src/`).
        inner = "/".join(_below_installed(parts) or parts[1 if is_prefixed else 0 :])
        below = [
            path
            for path in (f"{folder}/{inner}" for folder in self.folders)
            if self.tree.entry(path) is not None
        ]
        return below[0] if len(below) == 1 else None

    def _ends(self, parts: tuple[str, ...], *, is_prefixed: bool) -> Iterator[str]:
        if is_prefixed and len(parts) > 1:
            yield "/".join(parts[1:])
        for start in range(len(parts)):
            # A bare file name says too little: it stands for a file of the root only below one folder.
            if start <= 1 or len(parts) - start > 1:
                yield "/".join(parts[start:])

    def new(self, name: str, *, is_prefixed: bool, is_git: bool) -> str | None:
        """The path of a file that is not there yet, or None where the name does not tell."""
        parts = parts_of(name)
        for path in self._new_ends(parts, is_prefixed=is_prefixed, is_git=is_git):
            if path and is_inside("/".join(path)):
                return "/".join(path)
        return None

    def _new_ends(
        self, parts: tuple[str, ...], *, is_prefixed: bool, is_git: bool
    ) -> Iterator[tuple[str, ...]]:
        bare = parts[1:] if is_prefixed else parts
        for lost in self._lost:
            if (lost and parts[: len(lost)] == lost) or len(lost) == is_prefixed:
                yield parts[len(lost) :]
        installed = _below_installed(parts)
        if installed:
            yield installed
        # git writes paths from the root, but for `git diff --no-index`.
        is_rooted = is_git and bare[:1] and bare[0] not in _ABSOLUTE
        if is_rooted or len(bare) == 1 or (bare and self.tree.has_folder(bare[0])):
            yield bare
        for start in range(1, len(parts) - 1):
            if self.tree.has_folder(parts[start]):
                yield parts[start:]


def _below_installed(parts: tuple[str, ...]) -> tuple[str, ...]:
    """What comes after the last `site-packages`, or nothing."""
    for at in range(len(parts) - 1, -1, -1):
        if parts[at] in _INSTALLED:
            return parts[at + 1 :]
    return ()
