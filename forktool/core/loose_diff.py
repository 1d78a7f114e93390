"""Diff text that people really have, read without guessing what it does.

Git's own diffs, `diff -u` and `diff -ruN`, diffs without `diff --git` or `index` lines, with CRLF, with timestamps,
with blank context lines that an editor emptied, with hunk headers whose numbers are wrong. What a line number or a
count says may be wrong; what a hunk's lines say may not. Nothing is placed here: `core.locate` does that, by content.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from forktool.core.binary_diff import BinaryChange, DamagedBinaryError, read_binary
from forktool.core.diff import unquote
from forktool.core.loose_names import header_names, is_prefixed, side_name
from forktool.core.objects import Mode
from forktool.errors import PatchsetError

_HUNK = re.compile(rb"@@+(?: -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@)?")
_NOISE = re.compile(rb"(?:Index: |=+$|diff |Only in |retrieving revision |RCS file: |\\ No newline)")
_MODES = {"100664": Mode.FILE, "100600": Mode.FILE, "100775": Mode.EXECUTABLE, "100700": Mode.EXECUTABLE}


def is_noise(line: bytes) -> bool:
    """Whether a line is what diff, svn, cvs or quilt print around diffs."""
    return _NOISE.match(line) is not None


class RefusedError(PatchsetError):
    """An offered patch that cannot be adopted exactly: which line of which source, and why."""

    def __init__(self, source: str, line: int, reason: str, *, hint: str | None = None) -> None:
        super().__init__(f"{source}:{line}: {reason}", hint=hint)
        self.source = source
        self.line = line
        self.reason = reason


@dataclass(frozen=True, kw_only=True, slots=True)
class LooseHunk:
    """One hunk as written. `lines` hold sign and text with its line ending; `numbers` are their lines in the source.

    Attributes:
        old_start: what the header says, 0 where it says nothing.
        line: the header's line in the source.
        loose_tail: how many empty lines at its end may not belong to it: they have no sign.
    """

    old_start: int
    lines: tuple[bytes, ...]
    numbers: tuple[int, ...]
    line: int
    loose_tail: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class LooseFile:
    """What a diff says of one file, its names as written.

    Attributes:
        old_name: the left name, None for /dev/null or a `new file mode`.
        new_name: the right name, None for /dev/null or a `deleted file mode`.
        is_prefixed: the first folder of both names only tells the sides apart (`a/` and `b/`).
        is_git: a `diff --git` line or git's extended headers were there.
        may_create: the old side is empty, so the file may be new although nothing says so.
        kind: the mode of the `index` line, which says what the file was, and changes nothing.
        line: where it begins in the source.
        after_blank: the line of an empty line right before it, None where there is none.
        has_crlf: its header lines end in CRLF, so the text went through something that changes line endings.
    """

    old_name: str | None
    new_name: str | None
    is_prefixed: bool = False
    is_git: bool = False
    is_rename: bool = False
    is_copy: bool = False
    may_create: bool = False
    old_mode: Mode | None = None
    new_mode: Mode | None = None
    kind: Mode | None = None
    old_id: str | None = None
    new_id: str | None = None
    hunks: tuple[LooseHunk, ...] = ()
    binary: BinaryChange | None = None
    line: int = 1
    after_blank: int | None = None
    has_crlf: bool = False


@dataclass(kw_only=True, slots=True)
class Section:
    """Text, then the diffs that follow it; `prose` holds lines without ending, with their numbers in the source."""

    prose: list[tuple[int, bytes]] = field(default_factory=list)
    files: list[LooseFile] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def first_text(self) -> int | None:
        """The line of the first text that is not blank."""
        return next((number for number, line in self.prose if line.strip()), None)


def read_sections(lines: Sequence[bytes], *, source: str, first_line: int = 1) -> list[Section]:
    """Take text apart into prose and diffs. The last section may hold prose only.

    Args:
        lines: with their line endings.
        source: what errors call the text.
        first_line: the number of `lines[0]`.

    Raises:
        RefusedError: a diff is malformed, or of a kind that cannot be adopted exactly.
    """
    return _Reader(lines, source, first_line).sections()


class _Reader:
    def __init__(self, lines: Sequence[bytes], source: str, first_line: int) -> None:
        self.lines = lines
        self.source = source
        self.first_line = first_line
        self.at = 0
        self.ended = 0
        self.notes: list[str] = []

    def number(self, at: int | None = None) -> int:
        return self.first_line + (self.at if at is None else at)

    def refused(self, reason: str, *, at: int | None = None, hint: str | None = None) -> RefusedError:
        return RefusedError(self.source, self.number(at), reason, hint=hint)

    def raw(self, at: int) -> bytes:
        return self.lines[at] if 0 <= at < len(self.lines) else b""

    def text(self, at: int) -> bytes:
        return self.raw(at).rstrip(b"\r\n")

    def sections(self) -> list[Section]:
        found = [Section()]
        while self.at < len(self.lines):
            line = self.text(self.at)
            if self.begins_file(self.at):
                found[-1].files.append(self.file())
                self.ended = self.at
                found[-1].notes += self.notes
                self.notes.clear()
                continue
            if self.is_signature(self.at) and found[-1].files:
                break
            self.check_stray(line)
            section = found[-1]
            if section.files and line.strip() and not is_noise(line):
                section = Section()
                found.append(section)
            if not section.files:
                section.prose.append((self.number(), line))
            if line.startswith(b"Only in "):
                section.notes.append(
                    f"line {self.number()}: {_shown(line)}: the diff does not hold that file"
                )
            self.at += 1
        return found

    def check_stray(self, line: bytes) -> None:
        if line.startswith(b"Binary files ") and line.endswith(b" differ"):
            raise self.refused(
                "a binary file differs, but the patch does not hold its content",
                hint="make the patch with `git diff --binary`",
            )
        if line.startswith((b"diff --cc ", b"diff --combined ")) or re.match(rb"@@@+ -\d", line):
            raise self.refused(
                "the diff of a merge cannot be adopted", hint="give each side as its own patch"
            )
        if line.startswith(b"***************") or (
            line.startswith(b"*** ") and self.text(self.at + 1).startswith(b"--- ")
        ):
            raise self.refused("a context diff cannot be adopted", hint="make it with `diff -u`")
        if re.match(rb"@@ -\d+(,\d+)? \+\d+(,\d+)? @@", line):
            raise self.refused("a hunk without the name of a file above it (`--- a/PATH`, `+++ b/PATH`)")

    def begins_file(self, at: int) -> bool:
        return self.text(at).startswith(b"diff --git ") or self.is_header_pair(at)

    def is_header_pair(self, at: int) -> bool:
        return self.raw(at).startswith(b"--- ") and self.raw(at + 1).startswith(b"+++ ")

    def is_signature(self, at: int) -> bool:
        """`-- ` and then no line of a hunk: a mail's signature (git-format-patch(1), --signature)."""
        return self.text(at) in (b"-- ", b"--") and self.raw(at + 1)[:1] not in (b" ", b"+", b"-", b"@")

    def file(self) -> LooseFile:
        start = self.at
        is_after_blank = start > self.ended and not self.text(start - 1).strip()
        has_crlf = self.raw(start).endswith(b"\r\n")
        fields: dict[str, str] = {}
        is_git = self.text(self.at).startswith(b"diff --git ")
        old = new = ""
        if is_git:
            old, new = header_names(self.text(self.at)[len(b"diff --git ") :])
            self.at += 1
            fields = self.extended_headers()
        names = (old, new)
        may_create = may_delete = False
        hunks: tuple[LooseHunk, ...] = ()
        binary = None
        line = self.text(self.at)
        if line.startswith(b"GIT binary patch"):
            binary = self.binary()
        elif line.startswith(b"Binary files "):
            self.check_stray(line)
        elif self.is_header_pair(self.at):
            (old, old_gone), (new, new_gone) = (side_name(self.text(self.at + side)[4:]) for side in (0, 1))
            self.at += 2
            hunks = self.hunks()
            signs = {line[:1] for hunk in hunks for line in hunk.lines}
            may_create = signs == {b"+"} and (old_gone or hunks[0].old_start == 0)
            may_delete = signs == {b"-"} and new_gone
        elif line.startswith(b"--- "):
            raise self.refused("expected a `+++` line after `---`", at=self.at + 1)
        creates = "new" in fields or old == "/dev/null"
        deletes = "deleted" in fields or new == "/dev/null" or may_delete
        if creates and deletes:
            raise self.refused("the file is both new and deleted", at=start)
        if "from" in fields:
            old, new = fields["from"], fields.get("to", "")
        elif is_git and not hunks:
            old, new = names
        return LooseFile(
            old_name=None if creates else old,
            new_name=None if deletes else new,
            is_prefixed="from" not in fields and is_prefixed(old, new),
            is_git=is_git,
            is_rename="rename" in fields,
            is_copy="copy" in fields,
            may_create=may_create and not deletes,
            old_mode=self.mode(fields.get("old mode") or fields.get("deleted"), start),
            new_mode=self.mode(fields.get("new mode") or fields.get("new"), start),
            kind=self.mode(fields.get("kind"), start),
            old_id=fields.get("old id"),
            new_id=fields.get("new id"),
            hunks=hunks,
            binary=binary,
            line=self.number(start),
            after_blank=self.number(start - 1) if is_after_blank else None,
            has_crlf=has_crlf,
        )

    def extended_headers(self) -> dict[str, str]:
        fields: dict[str, str] = {}
        while self.at < len(self.lines):
            line = self.text(self.at)
            words = line.decode("utf-8", "surrogateescape")
            if line.startswith((b"old mode ", b"new mode ")):
                fields[words[:8]] = words[9:].strip()
            elif line.startswith(b"new file mode "):
                fields["new"] = words[14:].strip()
            elif line.startswith(b"deleted file mode "):
                fields["deleted"] = words[18:].strip()
            elif line.startswith((b"rename from ", b"copy from ")):
                fields[words.partition(" ")[0]] = "yes"
                fields["from"] = unquote(line.split(b" from ", 1)[1])
            elif line.startswith((b"rename to ", b"copy to ")):
                fields["to"] = unquote(line.split(b" to ", 1)[1])
            elif line.startswith(b"index "):
                ids, _, fields["kind"] = words[6:].partition(" ")
                fields["old id"], _, fields["new id"] = ids.partition("..")
            elif not line.startswith((b"similarity index ", b"dissimilarity index ")):
                break
            self.at += 1
        return fields

    def mode(self, text: str | None, at: int) -> Mode | None:
        if not text:
            return None
        try:
            return _MODES.get(text) or Mode(text)
        except ValueError:
            raise self.refused(f"{text!r} is not a file mode", at=at) from None

    def binary(self) -> BinaryChange:
        try:
            change, self.at = read_binary(self.lines, self.at)
        except DamagedBinaryError as error:
            raise self.refused(str(error), at=error.at) from None
        return change

    def hunks(self) -> tuple[LooseHunk, ...]:
        found: list[LooseHunk] = []
        while True:
            ahead = self.at
            while found and ahead < len(self.lines) and not self.text(ahead):
                ahead += 1  # empty lines between two hunks of a file: pasted in
            if not self.raw(ahead).startswith(b"@@"):
                break
            self.at = ahead
            found.append(self.hunk())
        if not found:
            raise self.refused("expected a hunk (`@@ -1,2 +1,2 @@`)")
        return tuple(found)

    def hunk(self) -> LooseHunk:
        self.check_stray(b"" if self.raw(self.at).startswith(b"@@ ") else self.text(self.at))
        match = _HUNK.match(self.raw(self.at))
        if match is None:
            raise self.refused(f"malformed hunk header {_shown(self.text(self.at))}")
        header = self.at
        end = None
        if match[1] is not None:
            counts = (int(match[2] or b"1"), int(match[4] or b"1"))
            end = self.counted_end(header + 1, *counts)
        if end is None:
            end = self.uncounted_end(header + 1)
            said = f"{match[0].decode()!r}" if match[1] is not None else "no numbers"
            self.notes.append(f"line {self.number(header)}: the hunk header says {said}; its lines count")
        self.at = end
        body: list[bytes] = []
        numbers: list[int] = []
        tail = 0
        for at in range(header + 1, end):
            line = self.raw(at)
            if line.startswith(b"\\"):
                if body:
                    body[-1] = body[-1].removesuffix(b"\r\n" if line.endswith(b"\r\n") else b"\n")
                continue
            tail = tail + 1 if not self.text(at) else 0
            body.append(b" " + line if not self.text(at) else line)
            numbers.append(self.number(at))
        if not any(line[:1] in (b"+", b"-") for line in body):
            raise self.refused("the hunk changes nothing", at=header)
        return LooseHunk(
            old_start=int(match[1] or b"0"),
            lines=tuple(body),
            numbers=tuple(numbers),
            line=self.number(header),
            loose_tail=tail,
        )

    def counted_end(self, at: int, old_left: int, new_left: int) -> int | None:
        """Where the hunk ends when its header's counts are right; None where they cannot be."""
        while old_left > 0 or new_left > 0:
            line = self.raw(at)
            if self.is_header_pair(at) and self.raw(at + 2).startswith(b"@@"):
                return None  # the counts reach into the next file
            sign = line[:1] if line.rstrip(b"\r\n") else b" "
            if not line or sign not in (b" ", b"+", b"-", b"\\"):
                return None
            old_left -= sign in (b" ", b"-")
            new_left -= sign in (b" ", b"+")
            at += 1
        if old_left or new_left:
            return None
        if self.raw(at).startswith(b"\\"):
            at += 1
        goes_on = self.raw(at)[:1] in (b" ", b"+", b"-")
        if goes_on and not self.is_header_pair(at) and not self.is_signature(at):
            # A mail whose `---` follows a diff is judged by its reader, which names the line.
            return at if self.text(at).rstrip() == b"---" else None
        return at

    def uncounted_end(self, at: int) -> int:
        """Where the run of hunk lines ends, whatever the header says.

        Raises:
            RefusedError: it is followed by something that may be one of its lines.
        """
        end = at
        while at < len(self.lines):
            line = self.raw(at)
            if self.begins_file(at) or self.is_signature(at):
                break
            if self.text(at) and line[:1] not in (b" ", b"+", b"-", b"\\"):
                break
            at += 1
            if self.text(at - 1):
                end = at
        follows = self.raw(at)
        is_start = self.begins_file(at) or self.is_signature(at) or follows.startswith((b"@@", b"From "))
        if follows and not is_start and not is_noise(follows):
            raise self.refused(
                f"the hunk's counts are wrong and {_shown(follows)} follows: "
                "its first character is none of ' ', '+' and '-'",
                at=at,
            )
        return end


def _shown(line: bytes) -> str:
    text = line.strip().decode("utf-8", "replace")
    return repr(text if len(text) <= 60 else text[:57] + "...")
