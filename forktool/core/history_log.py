"""What `git log` prints, read into commits; and the same kept as JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from forktool.core.diff import unquote
from forktool.core.history import Commit, FileMarks, run_marks
from forktool.core.history_message import Message, read_message
from forktool.core.objects import Oid

MESSAGES_FORMAT = "%H%x1f%P%x1f%B"
"""For `git log -z --format=`; a message holds no NUL (git-commit-tree(1))."""
MARKS_FORMAT = "commit %H"
"""For `git log --patch --format=`: no line of a diff at no context begins with this word."""

_HUNK = re.compile(rb"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@")
_VERSION = 1


def parse_messages(text: bytes) -> tuple[tuple[Oid, tuple[Oid, ...], Message], ...]:
    """Ids, parents and messages, from `git log -z --format=MESSAGES_FORMAT`."""
    found = []
    for record in text.decode("utf-8", "replace").split("\0"):
        if record:
            oid, parents, message = record.split("\x1f", 2)
            found.append((Oid(oid), tuple(Oid(one) for one in parents.split()), read_message(message)))
    return tuple(found)


def parse_marks(text: bytes) -> dict[Oid, tuple[FileMarks, ...]]:
    """What each commit does to each path, from `git log --patch --unified=0 --full-index --format=MARKS_FORMAT`."""
    found: dict[Oid, list[FileMarks]] = {}
    for oid, lines in _commits(text.split(b"\n")):
        # A merge comes once; what it does is its difference to its first parent.
        found.setdefault(oid, []).extend(marks for marks in _files(lines) if marks.runs)
    return {oid: tuple(marks) for oid, marks in found.items()}


def _commits(lines: Sequence[bytes]) -> Iterator[tuple[Oid, list[bytes]]]:
    starts = [at for at, line in enumerate(lines) if line.startswith(b"commit ")]
    for start, end in pairwise([*starts, len(lines)]):
        yield Oid(lines[start][7:].decode()), list(lines[start + 1 : end])


def _files(lines: list[bytes]) -> Iterator[FileMarks]:
    at = 0
    path = binary = index = ""
    changed: list[bytes] = []
    while at < len(lines):
        line = lines[at]
        at += 1
        if line.startswith(b"diff --git "):
            if path:
                yield run_marks(path, changed, binary=binary)
            path, binary, changed = _same_path(line[11:]), "", []
        elif line.startswith(b"index "):
            index = line[6:].partition(b" ")[0].decode()
        elif line.startswith(b"Binary files "):
            binary = index.replace("..", "-")
        elif line.startswith((b"+++ ", b"--- ")) and line[4:] != b"/dev/null":
            # A name with a space in it is followed by a tab.
            path = unquote(line[4:].removesuffix(b"\t"))[2:]
        elif match := _HUNK.match(line):
            count = sum(1 if part is None else int(part) for part in match.groups())
            while count:
                changed.append(lines[at])
                count -= not lines[at].startswith(b"\\")
                at += 1
            changed.append(b"@")
    if path:
        yield run_marks(path, changed, binary=binary)


def _same_path(names: bytes) -> str:
    """The path of `a/PATH b/PATH`, where both are the same."""
    if names.startswith(b'"'):
        return unquote(names[: (len(names) - 1) // 2])[2:]
    return names[2 : (len(names) - 1) // 2].decode("utf-8", "surrogateescape")


def dump_commits(commits: Sequence[Commit]) -> bytes:
    """The commits as JSON, for `load_commits`."""
    rows = [
        [
            commit.oid,
            commit.parents,
            [
                commit.message.subject,
                commit.message.number,
                commit.message.numbers,
                commit.message.reverts,
                commit.message.reverts_numbers,
                commit.message.reverts_subject,
                commit.message.picked_from,
            ],
            [[marks.path, marks.whole, marks.runs] for marks in commit.marks],
        ]
        for commit in commits
    ]
    return json.dumps({"version": _VERSION, "commits": rows}).encode()


def load_commits(text: bytes) -> tuple[Commit, ...] | None:
    """The commits that `dump_commits` kept; None for anything else."""
    try:
        document = json.loads(text)
        if document["version"] != _VERSION:
            return None
        return tuple(
            Commit(
                oid=Oid(oid),
                parents=tuple(map(Oid, parents)),
                message=Message(
                    subject=subject,
                    number=number,
                    numbers=tuple(numbers),
                    reverts=tuple(reverts),
                    reverts_numbers=tuple(reverts_numbers),
                    reverts_subject=reverts_subject,
                    picked_from=tuple(picked_from),
                ),
                marks=tuple(
                    FileMarks(path=path, whole=whole, runs=tuple(runs)) for path, whole, runs in marks
                ),
            )
            for oid, parents, (
                subject,
                number,
                numbers,
                reverts,
                reverts_numbers,
                reverts_subject,
                picked_from,
            ), marks in document["commits"]
        )
    except (ValueError, KeyError, TypeError):
        return None


def with_marks(
    messages: Sequence[tuple[Oid, tuple[Oid, ...], Message]], marks: Mapping[Oid, tuple[FileMarks, ...]]
) -> tuple[Commit, ...]:
    """Messages and marks of the same commits, put together."""
    return tuple(
        Commit(oid=oid, parents=parents, message=message, marks=marks.get(oid, ()))
        for oid, parents, message in messages
    )
