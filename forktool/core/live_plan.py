"""The series against an installed package: which patch is in, and what would have to be written.

Nothing is guessed. A file is known when it is the series' base with some of the patches, and every other one is
refused: an edit by hand must not be lost, and a patch must not land beside it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from forktool.core.apply import apply_patch
from forktool.core.diff import FileDiff
from forktool.core.objects import Mode
from forktool.core.series import PatchName, Series
from forktool.core.tree import Overlay, SourceTree
from forktool.core.wheel_plan import Route, WheelRules, classify_paths, member_of


class Presence(StrEnum):
    """Whether a patch is in an installed package."""

    IN = "in"
    OUT = "not in"
    PARTLY = "partly in"
    UNCLEAR = "unclear"
    """The place that it changes looks neither like before nor like after."""
    NOWHERE = "nothing to install"
    """It changes only what no installed package holds."""


@dataclass(frozen=True, kw_only=True, slots=True)
class InstalledFile:
    """One file as it is installed: None where there is none, and what RECORD says of it."""

    content: bytes | None
    recorded: bool
    matches: bool | None
    """Whether it is what RECORD says; None where RECORD gives no hash."""
    executable: bool = False


ABSENT = InstalledFile(content=None, recorded=False, matches=None)


@dataclass(frozen=True, kw_only=True, slots=True)
class PatchPresence:
    """One patch, and of its places those that are in and those that are not."""

    name: PatchName
    presence: Presence
    inside: int
    outside: int


@dataclass(frozen=True, kw_only=True, slots=True)
class FileWrite:
    """A file to bring to `content` (None deletes it), if it still is `expect`, its sha256 in hexadecimal."""

    path: str
    content: bytes | None
    expect: str | None
    executable: bool | None
    """None keeps the mode."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LivePlan:
    """The answer. `problems` are the reasons not to write; `aside` are the paths that are not installed."""

    patches: tuple[PatchPresence, ...]
    writes: tuple[FileWrite, ...]
    problems: tuple[str, ...]
    aside: tuple[str, ...]


def plan_live(
    series: Series,
    base: SourceTree,
    installed: Mapping[str, InstalledFile],
    *,
    tops: frozenset[str],
    rules: WheelRules,
) -> LivePlan:
    """Compare an installed package with the series.

    Args:
        series: the patches.
        base: the tree that they apply to exactly.
        installed: what is there, by `member_of` every path of the series.
        tops: the folders that the package installed.
        rules: what of the tree a wheel holds.

    Raises:
        PatchsetError: a patch does not apply to the base.
    """
    stages = _stages(series, base)
    counts: dict[PatchName, _Count] = {name: _Count() for name in series.names}
    writes: list[FileWrite] = []
    problems: list[str] = []
    aside: list[str] = []
    for path, history in stages.items():
        target = member_of(path)
        file = installed.get(target, ABSENT)
        if not _is_installed(target, history, file, tops):
            aside.append(path)
            if _needs_build(path, rules):
                problems.append(f"{path} is not in an installed package: it needs a build")
            continue
        reading = _read(file, history)
        for name, (inside, outside, unclear) in reading.places.items():
            counts[name].add(inside, outside, unclear)
        if not reading.is_known:
            problems.append(_unknown(target, file, base.label))
        elif file.content != history.result:
            writes.append(
                FileWrite(
                    path=target,
                    content=history.result,
                    expect=None if file.content is None else hashlib.sha256(file.content).hexdigest(),
                    executable=history.mode_change,
                )
            )
    return LivePlan(
        patches=tuple(counts[name].presence(name) for name in series.names),
        writes=tuple(writes),
        problems=tuple(problems),
        aside=tuple(aside),
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class _History:
    """One path through the series: its content at the start and after each patch that touches it."""

    contents: tuple[bytes | None, ...]
    patches: tuple[tuple[PatchName, FileDiff], ...]
    mode_change: bool | None

    @property
    def base(self) -> bytes | None:
        return self.contents[0]

    @property
    def result(self) -> bytes | None:
        return self.contents[-1]


@dataclass(frozen=True, slots=True)
class _Reading:
    """What was found in a file: for each patch the places that are in, not in, and neither."""

    is_known: bool
    places: Mapping[PatchName, tuple[int, int, int]]


class _Count:
    def __init__(self) -> None:
        self._inside = self._outside = self._unclear = 0

    def add(self, inside: int, outside: int, unclear: int) -> None:
        self._inside += inside
        self._outside += outside
        self._unclear += unclear

    def presence(self, name: PatchName) -> PatchPresence:
        if self._inside and (self._outside or self._unclear):
            presence = Presence.PARTLY
        elif self._unclear:
            presence = Presence.UNCLEAR
        elif self._inside:
            presence = Presence.IN
        elif self._outside:
            presence = Presence.OUT
        else:
            presence = Presence.NOWHERE
        outside = self._outside + self._unclear
        return PatchPresence(name=name, presence=presence, inside=self._inside, outside=outside)


def _stages(series: Series, base: SourceTree) -> dict[str, _History]:
    overlay = Overlay(base)
    contents: dict[str, list[bytes | None]] = {path: [base.read(path)] for path in series.paths}
    patches: dict[str, list[tuple[PatchName, FileDiff]]] = {path: [] for path in series.paths}
    for patch in series.patches:
        apply_patch(patch, overlay, file=f"{patch.name}.patch")
        for diff in patch.files:
            for path in diff.paths:
                patches[path].append((patch.name, diff))
                contents[path].append(overlay.read(path))
    found = {}
    for path in series.paths:
        before, after = base.entry(path), overlay.entry(path)
        mode = None
        if after is not None and (before is None or before.mode is not after.mode):
            mode = after.mode is Mode.EXECUTABLE
        found[path] = _History(contents=tuple(contents[path]), patches=tuple(patches[path]), mode_change=mode)
    return found


def _is_installed(path: str, history: _History, file: InstalledFile, tops: frozenset[str]) -> bool:
    if path.partition("/")[0] not in tops or "/" not in path:
        return False
    # A file of the tree that the package left out of its wheel is not missing from the installation.
    return None in (history.base, history.result) or file.recorded or file.content is not None


def _needs_build(path: str, rules: WheelRules) -> bool:
    """Whether a path that is not installed is in what a wheel is made of; its documents change no behaviour."""
    return classify_paths([path], rules).route is not Route.OUTSIDE and not path.endswith((".md", ".rst"))


def _read(file: InstalledFile, history: _History) -> _Reading:
    names = [name for name, _diff in history.patches]
    # The last equal stage: a later patch may have taken back what an earlier one did.
    for stage in range(len(history.contents) - 1, -1, -1):
        if file.content == history.contents[stage]:
            places = dict.fromkeys(names, (0, 0, 0))
            for at, (name, diff) in enumerate(history.patches):
                inside, outside, unclear = places[name]
                weight = max(1, len(diff.hunks))
                is_in = at < stage
                places[name] = (inside + weight * is_in, outside + weight * (not is_in), unclear)
            return _Reading(True, places)
    if file.content is None or history.base is None or history.result is None:
        return _Reading(False, dict.fromkeys(names, (0, 0, 1)))
    return _searched(file.content, history)


def _searched(content: bytes, history: _History) -> _Reading:
    """Look for each hunk by its text, newest patch first, and take out those that are in."""
    places: dict[PatchName, tuple[int, int, int]] = {name: (0, 0, 0) for name, _diff in history.patches}
    rest = content
    for name, diff in reversed(history.patches):
        for hunk in diff.hunks:
            old, new = b"".join(hunk.old_lines), b"".join(hunk.new_lines)
            inside, outside, unclear = places[name]
            if _is_there_once(rest, new):
                rest = _replaced(rest, new, old)
                places[name] = (inside + 1, outside, unclear)
            elif _is_there_once(rest, old):
                places[name] = (inside, outside + 1, unclear)
            else:
                places[name] = (inside, outside, unclear + 1)
    return _Reading(rest == history.base, places)


def _is_there_once(content: bytes, block: bytes) -> bool:
    padded = b"\n" + content
    return bool(block) and padded.count(b"\n" + block) == 1


def _replaced(content: bytes, block: bytes, by: bytes) -> bytes:
    return (b"\n" + content).replace(b"\n" + block, b"\n" + by, 1)[1:]


def _unknown(path: str, file: InstalledFile, label: str) -> str:
    if file.content is None:
        return f"{path} is missing from the installation"
    if file.matches:
        return f"{path} of this build is not that of {label}"
    if not file.recorded:
        return f"{path} is there, put by somebody else than the installer"
    return f"{path} was edited: it is neither what RECORD says nor {label} with patches of the series"
