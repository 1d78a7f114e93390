"""Evidence from upstream's history: which commit between base and tag has absorbed a patch.

Three signs, the strongest first: the same patch-id, the patch's pull request number, the same subject on the same
files. A commit whose change was taken back before the tag is no evidence, whether its revert says so or only does so.

Patch-ids are compared as `git patch-id --stable` compares them, without line numbers and white space
(git-patch-id(1)), a file and a run of changed lines at a time, and without context: upstream's differs from the base's.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from hashlib import sha256

from forktool.core.diff import FileDiff
from forktool.core.history_message import Message, read_claims, same_subject
from forktool.core.objects import Oid
from forktool.core.series import Patch

_SIGN = {b"-": 0, b"+": 1}
_WHITE = re.compile(rb"\s+")
_TELLING = re.compile(rb"\w\w", re.ASCII)
_SHOWN = 60


@dataclass(frozen=True, kw_only=True, slots=True)
class FileMarks:
    """The ids of one commit's change to one path.

    An id is `REMOVED-ADDED`, two digests, so that the inverse change has the two swapped. `whole` is over all lines
    of the file in any order, net of lines that only moved; `runs` are its runs of changed lines, in order.
    """

    path: str
    whole: str
    runs: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Commit:
    """One commit of upstream's history, as far as it can absorb a patch or take one back."""

    oid: Oid
    parents: tuple[Oid, ...]
    message: Message
    marks: tuple[FileMarks, ...] = ()


class Sign(StrEnum):
    """What ties a commit to a patch."""

    PATCH_ID = "same patch-id"
    PULL_REQUEST = "pull request"
    SUBJECT = "same subject and files"


@dataclass(frozen=True, kw_only=True, slots=True)
class Absorber:
    """A commit that has absorbed a patch, and the sign of it, in one line for the evidence."""

    oid: Oid
    sign: Sign
    detail: str


def inverse(mark: str) -> str:
    """The id of the change that takes a change back."""
    removed, _dash, added = mark.partition("-")
    return f"{added}-{removed}"


def run_marks(path: str, lines: Iterable[bytes], *, binary: str = "") -> FileMarks:
    """The ids of a diff of one file.

    Args:
        path: the file.
        lines: the lines of its hunks with their sign; any other line ends a run.
        binary: an id already made, for content without lines.
    """
    if binary:
        return FileMarks(path=path, whole=binary, runs=(binary,))
    sides: tuple[Counter[bytes], Counter[bytes]] = (Counter(), Counter())
    runs: list[str] = []
    run: tuple[list[bytes], list[bytes]] = ([], [])
    for line in (*lines, b" "):
        sign = line[:1]
        if sign == b"\\":
            continue
        if sign in _SIGN:
            text = _WHITE.sub(b"", line[1:])
            if text:
                run[_SIGN[sign]].append(text)
        elif run[0] or run[1]:
            for side, texts in zip(sides, run, strict=True):
                side.update(texts)
            if _TELLING.search(b"".join((*run[0], *run[1]))):
                runs.append(f"{_digest(run[0])}-{_digest(run[1])}")
            run = ([], [])
    lost, gained = sides[0] - sides[1], sides[1] - sides[0]
    if lost or gained:
        whole = f"{_digest(sorted(lost.elements()))}-{_digest(sorted(gained.elements()))}"
    else:
        whole = "".join(runs[:1]) if len(runs) == 1 else _digest([run.encode() for run in runs])
    return FileMarks(path=path, whole=whole, runs=tuple(runs))


def _digest(lines: Sequence[bytes]) -> str:
    return sha256(b"\n".join(lines)).hexdigest()[:16] if lines else ""


def patch_marks(files: Iterable[FileDiff]) -> tuple[FileMarks, ...]:
    """The ids of a patch, a file that says anything each."""
    found = []
    for file in files:
        path = file.new_path or file.old_path
        if path is None:
            continue
        binary = f"{file.old_oid or ''}-{file.new_oid or ''}" if file.binary is not None else ""
        lines = (line for hunk in file.hunks for line in (*hunk.lines, b"@"))
        found.append(run_marks(path, lines, binary=binary))
    return tuple(marks for marks in found if marks.runs)


@dataclass(frozen=True, kw_only=True)
class History:
    """The commits that a tag has and the base has not, newest first (git's topological order).

    Args:
        commits: those commits; only their changes to the files of the series are known.
        repository: upstream's URL: pull request numbers in URLs of another repository say nothing. None accepts all.
    """

    commits: tuple[Commit, ...]
    repository: str | None = None

    def until(self, tag: Oid) -> History:
        """The part that an older tag has."""
        parents = {commit.oid: commit.parents for commit in self.commits}
        reached: set[Oid] = set()
        stack = [tag]
        while stack:
            oid = stack.pop()
            if oid in parents and oid not in reached:
                reached.add(oid)
                stack += parents[oid]
        kept = tuple(commit for commit in self.commits if commit.oid in reached)
        return History(commits=kept, repository=self.repository)

    def absorbers(self, patch: Patch) -> tuple[Absorber, ...]:
        """The commits that absorbed a patch and were not taken back, the strongest sign first; none is no evidence."""
        marks = patch_marks(patch.files)
        claims = read_claims(patch.message, self.repository)
        found: dict[int, Absorber] = {}
        for place in self._with_marks(marks):
            self._add(found, place, Sign.PATCH_ID, "")
        for number in claims.numbers:
            for place in self._by_number.get(number, ()):
                self._add(found, place, Sign.PULL_REQUEST, f" #{number}")
        paths = frozenset(patch.paths)
        for place in self._by_subject.get(same_subject(patch.subject), ()):
            if paths & {marks.path for marks in self.commits[place].marks}:
                self._add(found, place, Sign.SUBJECT, "")
        kept = [found[place] for place in sorted(found) if not self._taken_back(place, marks)]
        return tuple(sorted(kept, key=lambda one: list(Sign).index(one.sign)))

    def _add(self, found: dict[int, Absorber], place: int, sign: Sign, which: str) -> None:
        if place not in found and place not in self._reverted:
            commit = self.commits[place]
            subject = commit.message.title
            shown = subject if len(subject) <= _SHOWN else f"{subject[: _SHOWN - 1]}…"
            number = f" (#{commit.message.number})" if commit.message.number else ""
            detail = f'commit {commit.oid[:12]} "{shown}"{number}: {sign}{which}'
            found[place] = Absorber(oid=commit.oid, sign=sign, detail=detail)

    def _with_marks(self, wanted: Sequence[FileMarks]) -> Iterator[int]:
        """The commits that make the whole change, whatever else they do: every file of it, or every run of it."""
        if not wanted:
            return
        first = wanted[0]
        places = dict.fromkeys(self._places.get((first.path, first.whole), ()))
        places |= dict.fromkeys(self._places.get((first.path, first.runs[0]), ()))
        for place in places:
            there = {marks.path: marks for marks in self.commits[place].marks}
            if all(_has(there.get(marks.path), marks) for marks in wanted):
                yield place

    @cached_property
    def _places(self) -> Mapping[tuple[str, str], Sequence[int]]:
        """Where each id occurs."""
        places: dict[tuple[str, str], list[int]] = defaultdict(list)
        for place, commit in enumerate(self.commits):
            for marks in commit.marks:
                for mark in dict.fromkeys((marks.whole, *marks.runs)):
                    places[marks.path, mark].append(place)
        return places

    @cached_property
    def _by_number(self) -> Mapping[int, Sequence[int]]:
        numbers: dict[int, list[int]] = defaultdict(list)
        for place, commit in enumerate(self.commits):
            for number in commit.message.numbers:
                numbers[number].append(place)
        return numbers

    @cached_property
    def _by_subject(self) -> Mapping[str, Sequence[int]]:
        subjects: dict[str, list[int]] = defaultdict(list)
        for place, commit in enumerate(self.commits):
            subjects[same_subject(commit.message.subject)].append(place)
        return subjects

    @cached_property
    def _reverted(self) -> frozenset[int]:
        """The commits that a later one says it reverts, unless that one was reverted in turn."""
        gone: set[int] = set()
        undone: dict[int, list[int]] = {}
        for place in range(len(self.commits) - 1, -1, -1):
            for target in self._targets(place, gone):
                gone.add(target)
                gone.difference_update(undone.pop(target, ()))
                undone.setdefault(place, []).append(target)
        return frozenset(gone)

    def _targets(self, place: int, gone: set[int]) -> list[int]:
        """What a commit says it reverts; by subject only where no id that it names is known."""
        message = self.commits[place].message
        named = [target for oid in message.reverts for target in self._by_prefix(oid)]
        named += [
            target
            for number in message.reverts_numbers
            for target in self._by_number.get(number, ())
            if self.commits[target].message.number == number
        ]
        older = [target for target in dict.fromkeys(named) if target > place]
        if not older and message.reverts_subject:
            same = self._by_subject.get(same_subject(message.reverts_subject), ())
            older = [target for target in same if target > place and target not in gone][:1]
        return older

    def _by_prefix(self, oid: str) -> Sequence[int]:
        return [place for known, place in self._short.get(oid[:7], ()) if known.startswith(oid)]

    @cached_property
    def _short(self) -> Mapping[str, Sequence[tuple[str, int]]]:
        """Commits by the first digits of their ids; a cherry-picked one answers to the original's id as well."""
        short: dict[str, list[tuple[str, int]]] = defaultdict(list)
        for place, commit in enumerate(self.commits):
            for oid in (commit.oid, *commit.message.picked_from):
                short[oid[:7]].append((oid, place))
        return short

    def _taken_back(self, place: int, wanted: Sequence[FileMarks]) -> bool:
        """Whether later commits undo each run of the patch that this one makes, saying so or not."""
        there = {marks.path: marks for marks in self.commits[place].marks}
        made = [
            (marks.path, mark)
            for marks in wanted
            if marks.path in there
            for mark in _common(there[marks.path], marks)
        ]
        return bool(made) and all(self._is_undone(path, mark, place) for path, mark in made)

    def _is_undone(self, path: str, mark: str, place: int) -> bool:
        undo = min(self._places.get((path, inverse(mark)), ()), default=place)
        again = min(self._places.get((path, mark), ()), default=place)
        return undo < again


def _has(there: FileMarks | None, wanted: FileMarks) -> bool:
    return there is not None and (there.whole == wanted.whole or set(wanted.runs) <= set(there.runs))


def _common(there: FileMarks, wanted: FileMarks) -> Iterable[str]:
    if there.whole == wanted.whole:
        return (wanted.whole,)
    return [mark for mark in wanted.runs if mark in there.runs]
