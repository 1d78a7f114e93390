"""Where the old lines of a hunk stand in a file: exactly one place, or none, or several. Never a fuzz.

A hunk's line number is believed only where the file is proven to be the one that the patch was made on. Otherwise
the lines decide: they must be in the file once. What an editor or a mail program does to a whole text is undone
first, in this order, and only as far as it makes the lines fit: line endings changed, empty lines added at the end
of a hunk, white space stripped from the ends of lines.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from forktool.core.diff import Hunk, split_lines
from forktool.core.loose_diff import LooseHunk

_Same = Callable[[bytes, bytes], bool]
_STRIPPED = "white space at the ends of its lines is put back as the file has it"


@dataclass(frozen=True, kw_only=True, slots=True)
class Located:
    """A hunk whose old lines stand at its place, byte for byte; `note` says what had to be undone."""

    hunk: Hunk
    note: str | None


class NotLocatedError(ValueError):
    """A hunk that cannot be placed.

    Attributes:
        line: in the source of the patch.
        reason: what is wrong, with the lines of the file.
        is_ambiguous: it stands at several places.
    """

    def __init__(self, line: int, reason: str, *, is_ambiguous: bool = False) -> None:
        super().__init__(line, reason)
        self.line = line
        self.reason = reason
        self.is_ambiguous = is_ambiguous


def places(lines: Sequence[bytes], wanted: Sequence[bytes]) -> list[int]:
    """The indexes at which `wanted` stands in `lines`, overlapping places included; none for no lines."""
    return _places(lines, wanted, operator.eq)


def locate(hunk: LooseHunk, content: bytes, *, path: str, is_proven: bool) -> Located:
    """Place one hunk.

    Args:
        hunk: as written.
        content: the file.
        path: its name in messages.
        is_proven: the patch names this very content, so that its line numbers are right.

    Raises:
        NotLocatedError: its old lines are nowhere in the file, or at several places.
    """
    lines = split_lines(content)
    for variant in _variants(hunk, lines):
        at = _place(hunk, variant, lines, path=path, is_proven=is_proven)
        if at is None:
            continue
        has_old = any(line[:1] != b"+" for line in variant.lines)
        notes = list(variant.notes)
        if has_old and at + 1 != hunk.old_start and hunk.old_start:
            notes.append(f"it says line {hunk.old_start} of {path} and stands at line {at + 1}")
        found = iter(lines[at:])
        exact = tuple(line if line[:1] == b"+" else line[:1] + next(found) for line in variant.lines)
        start = at + 1 if has_old else at
        return Located(
            hunk=Hunk(old_start=start, new_start=start, section=b"", lines=exact),
            note=f"hunk of line {hunk.line}: {'; '.join(notes)}" if notes else None,
        )
    raise _missing(hunk, lines, path)


def may_be_there(hunk: LooseHunk, content: bytes) -> bool:
    """Whether a file has what a hunk makes: its new lines, with context that says where, and not what it removes."""
    lines = split_lines(content)
    signs = {line[:1] for line in hunk.lines}
    if signs == {b"+"}:
        return False
    exact = [variant.lines for variant in _variants(hunk, lines) if variant.same is operator.eq]
    if b"-" in signs and any(
        places(lines, [line[1:] for line in text if line[:1] != b"+"]) for text in exact
    ):
        return False
    return any(places(lines, [line[1:] for line in text if line[:1] != b"-"]) for text in exact)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Variant:
    """A hunk's lines as they may have been before a text tool changed them, and what `same` lines are then."""

    lines: tuple[bytes, ...]
    notes: tuple[str, ...] = ()
    same: _Same = operator.eq


def _variants(hunk: LooseHunk, lines: Sequence[bytes]) -> Iterator[_Variant]:
    texts = [_Variant(lines=hunk.lines)]
    endings = [line.endswith(b"\r\n") for line in hunk.lines if line.endswith(b"\n")]
    whole = [line for line in lines if line.endswith(b"\n")]
    if endings and all(endings):
        texts.append(
            _Variant(
                lines=tuple(map(_without_cr, hunk.lines)), notes=("CRLF read as LF, as the file has it",)
            )
        )
    elif endings and not any(endings) and whole and all(line.endswith(b"\r\n") for line in whole):
        texts.append(
            _Variant(lines=tuple(map(_with_cr, hunk.lines)), notes=("LF read as CRLF, as the file has it",))
        )
    for same, loosened in ((operator.eq, None), (_same_but_stripped, _STRIPPED)):
        for dropped in range(hunk.loose_tail + 1):
            for text in texts:
                notes = list(text.notes)
                if dropped:
                    notes.append(f"the last {dropped} empty lines do not belong to it")
                if loosened:
                    notes.append(loosened)
                yield _Variant(lines=text.lines[: len(text.lines) - dropped], notes=tuple(notes), same=same)


def _without_cr(line: bytes) -> bytes:
    return line.removesuffix(b"\r\n") + b"\n" if line.endswith(b"\r\n") else line


def _with_cr(line: bytes) -> bytes:
    return line.removesuffix(b"\n") + b"\r\n" if line.endswith(b"\n") else line


def _same_but_stripped(wanted: bytes, found: bytes) -> bool:
    if wanted == found:
        return True
    text = found.rstrip(b" \t\r\n")
    ending = b"\r\n" if found.endswith(b"\r\n") else b"\n" if found.endswith(b"\n") else b""
    return wanted == text + ending


def _place(
    hunk: LooseHunk, variant: _Variant, lines: list[bytes], *, path: str, is_proven: bool
) -> int | None:
    old = [line[1:] for line in variant.lines if line[:1] != b"+"]
    if not old:
        # Lines added between lines that the hunk does not show: only its number says where.
        if is_proven or not lines:
            return min(hunk.old_start, len(lines))
        raise NotLocatedError(hunk.line, f"the hunk shows no line of {path} that says where it belongs")
    stated = hunk.old_start - 1
    if is_proven and stated >= 0 and lines[stated : stated + len(old)] == old:
        return stated
    found = _places(lines, old, variant.same)
    if len(found) > 1:
        shown = " and ".join(str(at + 1) for at in found[:2])
        more = f" and {len(found) - 2} more" if len(found) > 2 else ""
        raise NotLocatedError(
            hunk.line,
            f"the hunk's lines stand in {path} at lines {shown}{more}; which are meant is not certain",
            is_ambiguous=True,
        )
    return found[0] if found else None


def _places(lines: Sequence[bytes], wanted: Sequence[bytes], same: _Same) -> list[int]:
    if not wanted:
        return []
    first, count = wanted[0], len(wanted)
    return [
        at
        for at in range(len(lines) - count + 1)
        if same(first, lines[at]) and all(map(same, wanted, lines[at : at + count]))
    ]


def _missing(hunk: LooseHunk, lines: list[bytes], path: str) -> NotLocatedError:
    """Say which line differs, at the place where most of the hunk fits."""
    texts = [line.rstrip(b" \t\r\n") for line in lines]
    numbered = [
        (line[1:].rstrip(b" \t\r\n"), line[1:], number)
        for line, number in zip(hunk.lines, hunk.numbers, strict=True)
        if line[:1] != b"+"
    ]
    stated = max(hunk.old_start - 1, 0)
    best, fitting = stated, 0
    for at in range(len(texts)):
        if numbered and texts[at] == numbered[0][0]:
            run = 0
            while run < len(numbered) and at + run < len(texts) and texts[at + run] == numbered[run][0]:
                run += 1
            if run > fitting or (run == fitting and abs(at - stated) < abs(best - stated)):
                best, fitting = at, run
    differing = min(fitting, len(numbered) - 1)
    wanted, number = numbered[differing][1:]
    at = best + differing
    if fitting == len(numbered):
        # Line endings, white space or the newline at the end of the file: find the first line that is not the same.
        for offset, (_text, exact, line) in enumerate(numbered):
            if exact != lines[best + offset]:
                wanted, number, at = exact, line, best + offset
                break
    if at >= len(lines):
        found = f"{path} ends at line {len(lines)}"
    else:
        found = f"{path} has {_shown(lines[at], wanted)} at line {at + 1}"
    return NotLocatedError(
        number,
        f"the hunk fits nowhere: {found}, the patch has {_shown(wanted, lines[at] if at < len(lines) else b'')}",
    )


def _shown(line: bytes, beside: bytes) -> str:
    """A line for a message; its ending shows only where that is what differs from `beside`."""
    text = line
    if line.rstrip(b"\r\n") != beside.rstrip(b"\r\n"):
        text = line.rstrip(b"\r\n")
    shown = repr(text.decode("utf-8", "backslashreplace"))
    return shown if len(shown) <= 90 else f"{shown[:86]}...'"
