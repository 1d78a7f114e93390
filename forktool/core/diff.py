"""Diffs in git's format, parsed exactly and applied exactly; never a fuzz, never an offset.

The format is git-diff(1), "Generating patch text with -p", and git-apply(1). Everything is bytes: a source file
may be Latin-1, hold lone carriage returns or form feeds, or end without a newline. Only a line feed ends a line.
unidiff is not used here: 1.0.1 cannot quote paths and loses binary payloads; what it makes of a patch is a second
reading (`core.second_reading`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from forktool.core.binary_diff import BinaryChange, DamagedBinaryError, read_binary
from forktool.core.objects import Mode
from forktool.errors import PatchsetError

_HUNK = re.compile(rb"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@(.*)")
_LINES = re.compile(rb"[^\n]*\n|[^\n]+")
_ESCAPE = re.compile(rb"\\([0-7]{3}|.)")
_ESCAPED = {b"n": b"\n", b"t": b"\t", b"a": b"\a", b"b": b"\b", b"f": b"\f", b"r": b"\r", b"v": b"\v"}


def split_lines(content: bytes) -> list[bytes]:
    """The lines with their line feeds; the last one may lack it."""
    return _LINES.findall(content)


@dataclass(frozen=True, kw_only=True, slots=True)
class Hunk:
    """One hunk. `lines` hold the sign (space, `+` or `-`) and the text, line feed included."""

    old_start: int
    new_start: int
    section: bytes
    lines: tuple[bytes, ...]

    @property
    def old_lines(self) -> list[bytes]:
        """What must be there before: context and removed lines, without signs."""
        return [line[1:] for line in self.lines if line[:1] != b"+"]

    @property
    def new_lines(self) -> list[bytes]:
        """What is there after: context and added lines, without signs."""
        return [line[1:] for line in self.lines if line[:1] != b"-"]


@dataclass(frozen=True, kw_only=True, slots=True)
class FileDiff:
    """What a patch does to one path. Ids are as written, None where the `index` line is missing."""

    old_path: str | None
    new_path: str | None
    old_mode: Mode | None = None
    new_mode: Mode | None = None
    old_oid: str | None = None
    new_oid: str | None = None
    hunks: tuple[Hunk, ...] = ()
    binary: BinaryChange | None = None
    is_copy: bool = False
    line: int = 1

    @property
    def paths(self) -> tuple[str, ...]:
        """The paths it reads or writes, the new one first."""
        return tuple(dict.fromkeys(path for path in (self.new_path, self.old_path) if path is not None))

    def count(self, sign: bytes) -> int:
        """How many lines it adds (`b"+"`) or removes (`b"-"`); 0 for a binary file, as `git diff --stat` has it."""
        return sum(line.startswith(sign) for hunk in self.hunks for line in hunk.lines)


class HunkMismatchError(ValueError):
    """A hunk whose old lines are not where it says; `line` is 1-based in the old file."""

    def __init__(self, line: int, expected: bytes, found: bytes | None) -> None:
        super().__init__(line, expected, found)
        self.line = line
        self.expected = expected
        self.found = found


def apply_hunks(hunks: Sequence[Hunk], before: bytes) -> bytes:
    """The file after the hunks, each exactly at the line it names.

    Raises:
        HunkMismatchError: an old line differs or is missing.
    """
    lines = split_lines(before)
    result: list[bytes] = []
    done = 0
    for hunk in hunks:
        old = hunk.old_lines
        start = hunk.old_start - 1 if old else hunk.old_start
        if start < done or lines[start : start + len(old)] != old:
            raise _mismatch(lines, start, old)
        result += lines[done:start]
        result += hunk.new_lines
        done = start + len(old)
    result += lines[done:]
    return b"".join(result)


def _mismatch(lines: list[bytes], start: int, old: list[bytes]) -> HunkMismatchError:
    for offset, expected in enumerate(old):
        at = start + offset
        found = lines[at] if 0 <= at < len(lines) else None
        if found != expected:
            return HunkMismatchError(at + 1, expected, found)
    return HunkMismatchError(start + 1, b"", None)


def parse_diff(text: bytes, *, name: str, first_line: int = 1) -> tuple[FileDiff, ...]:
    """Parse what `git diff` or `git format-patch` writes below the message.

    Args:
        text: from the first `diff --git` line to the end; a mail signature (`-- `) ends it.
        name: the file name for errors.
        first_line: the 1-based line of the file at which `text` begins.

    Raises:
        PatchsetError: the text is not such a diff; names file and line.
    """
    return _Parser(text, name, first_line).files()


class _Parser:
    def __init__(self, text: bytes, name: str, first_line: int) -> None:
        self.lines = split_lines(text)
        self.name = name
        self.first_line = first_line
        self.at = 0

    def error(self, message: str, *, at: int | None = None) -> PatchsetError:
        line = self.first_line + (self.at if at is None else at)
        return PatchsetError(f"{self.name}:{line}: {message}")

    def peek(self) -> bytes:
        return self.lines[self.at] if self.at < len(self.lines) else b""

    def files(self) -> tuple[FileDiff, ...]:
        found: list[FileDiff] = []
        while self.at < len(self.lines):
            line = self.peek()
            if line.startswith(b"diff --git "):
                found.append(self.file())
            elif line.rstrip(b"\n") in (b"-- ", b"--"):
                break
            elif line.strip():
                raise self.error(f"expected `diff --git`, found {_shown(line)}")
            else:
                self.at += 1
        return tuple(found)

    def file(self) -> FileDiff:
        start = self.at
        old, new = self.git_header(self.lines[self.at][len(b"diff --git ") :].rstrip(b"\n"))
        self.at += 1
        fields: dict[str, str] = {}
        old_mode = new_mode = None
        is_copy = is_new = is_deleted = False
        while self.at < len(self.lines):
            line = self.peek().rstrip(b"\n")
            if line.startswith(b"old mode "):
                old_mode = self.mode(line[9:])
            elif line.startswith(b"new mode "):
                new_mode = self.mode(line[9:])
            elif line.startswith(b"new file mode "):
                is_new, new_mode = True, self.mode(line[14:])
            elif line.startswith(b"deleted file mode "):
                is_deleted, old_mode = True, self.mode(line[18:])
            elif line.startswith((b"rename from ", b"copy from ")):
                is_copy = line.startswith(b"copy")
                old = unquote(line.split(b" from ", 1)[1])
            elif line.startswith((b"rename to ", b"copy to ")):
                new = unquote(line.split(b" to ", 1)[1])
            elif line.startswith(b"index "):
                ids, _, mode = line[6:].partition(b" ")
                fields["old"], _, fields["new"] = ids.decode("ascii", "replace").partition("..")
                if mode:
                    old_mode = new_mode = self.mode(mode)
            elif line.startswith((b"similarity index ", b"dissimilarity index ")):
                pass
            else:
                break
            self.at += 1
        binary = None
        hunks: tuple[Hunk, ...] = ()
        line = self.peek()
        if line.startswith(b"GIT binary patch"):
            binary = self.binary()
        elif line.startswith(b"Binary files "):
            raise self.error(
                "the patch names a binary file but does not hold it; make it with `git diff --binary`"
            )
        elif line.startswith(b"--- "):
            self.at += 1
            if not self.peek().startswith(b"+++ "):
                raise self.error("expected a `+++` line after `---`")
            self.at += 1
            hunks = self.hunks()
        for path in (old, new):
            if not is_inside(path):
                raise self.error(f"{path!r} is no path inside a source tree", at=start)
        return FileDiff(
            old_path=None if is_new else old,
            new_path=None if is_deleted else new,
            old_mode=old_mode,
            new_mode=new_mode,
            old_oid=fields.get("old"),
            new_oid=fields.get("new"),
            hunks=hunks,
            binary=binary,
            is_copy=is_copy,
            line=self.first_line + start,
        )

    def mode(self, text: bytes) -> Mode:
        try:
            return Mode(text.decode("ascii", "replace"))
        except ValueError:
            raise self.error(f"{_shown(text)} is not a file mode") from None

    def git_header(self, rest: bytes) -> tuple[str, str]:
        """The two names of a `diff --git` line, `a/` and `b/` removed.

        They are unambiguous only when quoted or equal; for renames the later `rename from` line decides.
        """
        if rest.startswith(b'"'):
            end = quoted_end(rest)
            old, new = unquote(rest[:end]), unquote(rest[end + 1 :])
        elif rest.endswith(b'"'):
            begin = rest.index(b' "')
            old, new = rest[:begin].decode("utf-8", "surrogateescape"), unquote(rest[begin + 1 :])
        else:
            half = len(rest) // 2
            if rest[half : half + 1] == b" " and rest[2:half] == rest[half + 3 :]:
                pair = (rest[:half], rest[half + 1 :])
            else:
                left, found, right = rest.partition(b" b/")
                pair = (left, b"b/" + right) if found else (rest, rest)
            old, new = (side.decode("utf-8", "surrogateescape") for side in pair)
        return self.below(old), self.below(new)

    def below(self, path: str) -> str:
        if not path.startswith(("a/", "b/")):
            raise self.error(f"the path {path} does not begin with a/ or b/")
        return path[2:]

    def hunks(self) -> tuple[Hunk, ...]:
        found: list[Hunk] = []
        while self.peek().startswith(b"@@"):
            found.append(self.hunk())
        if not found:
            raise self.error("expected a hunk (`@@ -1,2 +1,2 @@`)")
        return tuple(found)

    def hunk(self) -> Hunk:
        match = _HUNK.match(self.peek())
        if match is None:
            raise self.error(f"malformed hunk header {_shown(self.peek())}")
        old_left = int(match[2]) if match[2] is not None else 1
        new_left = int(match[4]) if match[4] is not None else 1
        header = self.at
        self.at += 1
        body: list[bytes] = []
        while old_left > 0 or new_left > 0:
            line = self.peek()
            sign = line[:1]
            if sign not in (b" ", b"+", b"-"):
                raise self.error("the hunk ends before its last line", at=header)
            old_left -= sign != b"+"
            new_left -= sign != b"-"
            self.at += 1
            if self.peek().startswith(b"\\ "):
                line = line.removesuffix(b"\n")
                self.at += 1
            body.append(line)
        if old_left or new_left:
            raise self.error("the hunk holds other numbers of lines than its header says", at=header)
        return Hunk(
            old_start=int(match[1]), new_start=int(match[3]), section=match[5].strip(), lines=tuple(body)
        )

    def binary(self) -> BinaryChange:
        try:
            change, self.at = read_binary(self.lines, self.at)
        except DamagedBinaryError as error:
            raise self.error(str(error), at=error.at) from None
        return change


def is_inside(path: str) -> bool:
    """Whether a path stays inside the tree and out of `.git`, as git asks of its index (git's verify_path)."""
    return all(part and part not in (".", "..") and part.lower() != ".git" for part in path.split("/"))


def unquote(text: bytes) -> str:
    """A path as git writes it: C-quoted when it begins with a double quote (git-config(1), core.quotePath)."""
    if not text.startswith(b'"'):
        return text.removesuffix(b"\t").decode("utf-8", "surrogateescape")

    def character(match: re.Match[bytes]) -> bytes:
        code = match[1]
        return bytes([int(code, 8)]) if len(code) == 3 else _ESCAPED.get(code, code)

    return _ESCAPE.sub(character, text[1:-1]).decode("utf-8", "surrogateescape")


def quoted_end(text: bytes) -> int:
    """Where the C-quoted string that `text` begins with ends: the index after its closing quote."""
    at = 1
    while at < len(text) and text[at : at + 1] != b'"':
        at += 2 if text[at : at + 1] == b"\\" else 1
    return at + 1


def _shown(line: bytes) -> str:
    text = line.strip().decode("utf-8", "replace")
    return repr(text if len(text) <= 60 else text[:57] + "...")
