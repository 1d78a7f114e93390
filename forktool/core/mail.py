"""A patch file as `git format-patch` writes it: author, date, subject, message, and where the diff begins.

A message can rewrite its own patch when git, quilt or patch(1) reads the file back (git's
Documentation/format-patch-caveats.adoc). `unsafe_lines` finds every line of a message that would.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Iterator
from dataclasses import dataclass

from forktool.core.objects import Person
from forktool.errors import PatchsetError

_ENVELOPE = re.compile(rb"From [0-9a-f]{40} Mon Sep 17 00:00:00 2001\n")
_DIFF_STARTS = re.compile(rb"^diff --git ", re.MULTILINE)
_DATE = re.compile(r"(?:\w{3}, )?(\d{1,2}) (\w{3}) (\d{4}) (\d\d):(\d\d):(\d\d) ([+-]\d{4})")
_MONTHS = {
    name: number
    for number, name in enumerate("JanFebMarAprMayJunJulAugSepOctNovDec"[i : i + 3] for i in range(0, 36, 3))
}
_ENCODED = re.compile(r"=\?([^?\s]+)\?([bBqQ])\?([^?\s]*)\?=")
_ADDRESS = re.compile(r"\s*(.*?)\s*<([^<>]*)>\s*")


@dataclass(frozen=True, kw_only=True, slots=True)
class Mail:
    """One patch file, taken apart; `message` is the commit message: subject, blank line, body, final newline."""

    author: Person
    message: str
    diff: bytes
    diff_line: int


def parse_mail(text: bytes, *, name: str) -> Mail:
    """Take one patch file apart.

    Args:
        text: what `git format-patch --stdout` writes for one commit.
        name: the file name for errors.

    Raises:
        PatchsetError: it is not such a file; names file and line.
    """
    if not _ENVELOPE.match(text):
        raise PatchsetError(
            f"{name}:1: not a patch that git format-patch wrote",
            hint=f"forktool import {name}",
        )
    head, blank, rest = text.partition(b"\n\n")
    if not blank:
        raise PatchsetError(f"{name}:1: the patch has no message")
    headers = read_headers(head.partition(b"\n")[2])
    for wanted in ("from", "date", "subject"):
        if wanted not in headers:
            raise PatchsetError(f"{name}:2: the patch has no {wanted.capitalize()} header")
    start = _DIFF_STARTS.search(rest)
    body_bytes = rest[: start.start()] if start else rest
    diff = rest[start.start() :] if start else b""
    body = body_bytes.decode("utf-8", "surrogateescape").strip("\n")
    subject = decoded(headers["subject"])
    message = f"{subject}\n\n{body}\n" if body else f"{subject}\n"
    line = (head + blank + body_bytes).count(b"\n") + 1
    return Mail(author=_author(headers, name), message=message, diff=diff, diff_line=line)


def read_headers(head: bytes) -> dict[str, str]:
    """The header lines of a mail, unfolded but not decoded, by lower-case name; the last of a name counts."""
    unfolded: list[bytes] = []
    for line in head.split(b"\n"):
        if line[:1] in (b" ", b"\t") and unfolded:
            unfolded[-1] += line
        else:
            unfolded.append(line)
    found: dict[str, str] = {}
    for line in unfolded:
        key, _, value = line.partition(b":")
        found[key.decode("ascii", "replace").lower()] = value.strip().decode("utf-8", "surrogateescape")
    return found


def decoded(text: str) -> str:
    """A header's text with its encoded words read (RFC 2047); what is not encoded stays as it is."""
    if "=?" not in text:
        return text

    def word(match: re.Match[str]) -> str:
        charset, kind, payload = match.groups()
        try:
            if kind in "qQ":
                raw = binascii.a2b_qp(payload.encode("ascii"), header=True)
            else:
                raw = binascii.a2b_base64(payload.encode("ascii"))
            return raw.decode(charset.partition("*")[0])
        except (ValueError, LookupError):
            return match[0]

    # White space between two encoded words is not part of the text; git folds there.
    return _ENCODED.sub(word, re.sub(r"(?<=\?=)\s+(?==\?[^?\s]+\?[bBqQ]\?)", "", text))


def named_address(text: str) -> tuple[str, str] | None:
    """Name and address of a From header as it is written; None where it is no `NAME <ADDRESS>`."""
    match = _ADDRESS.fullmatch(text)
    if match is None:
        return None
    person = match[1]
    if len(person) > 1 and person[0] == person[-1] == '"':
        # Only quotes of the header itself: an encoded word may hold quotes that belong to the name.
        person = re.sub(r"\\(.)", r"\1", person[1:-1])
    return decoded(person), match[2]


def _author(headers: dict[str, str], name: str) -> Person:
    found = named_address(headers["from"])
    if found is None:
        raise PatchsetError(f"{name}:2: the From header holds no name and address")
    return Person(name=found[0], email=found[1], when=raw_date(headers["date"], name=name))


def raw_date(text: str, *, name: str) -> str:
    """Git's raw form (`SECONDS +HHMM`) of an RFC 2822 date.

    Raises:
        PatchsetError: it is no such date.
    """
    import calendar

    match = _DATE.fullmatch(text.strip())
    if match is None or match[2] not in _MONTHS:
        raise PatchsetError(f"{name}:3: {text!r} is not an RFC 2822 date")
    day, month, year, hour, minute, second, zone = match.groups()
    seconds = calendar.timegm((int(year), _MONTHS[month] + 1, int(day), int(hour), int(minute), int(second)))
    offset = (int(zone[1:3]) * 60 + int(zone[3:])) * 60
    return f"{seconds - offset if zone[0] == '+' else seconds + offset} {zone}"


@dataclass(frozen=True, slots=True)
class UnsafeLine:
    """A line of a message that would rewrite its patch; `line` is 1-based in the message."""

    line: int
    text: str
    reason: str


_UNSAFE = (
    (re.compile(r"diff -|Index: "), "git ends the message here and reads a diff"),
    (re.compile(r"--- |---\s*$"), "git ends the message here"),
    (re.compile(r"\s+--- \S.*"), "quilt and patch(1) read an indented diff"),
    (re.compile(r"\s*@@ -\d+(,\d+)? \+\d+(,\d+)? @@"), "quilt and patch(1) read a hunk"),
    (re.compile(r">*From [0-9a-f]{40} |From .*\d\d:\d\d:\d\d"), "a mailbox reader splits the patch here"),
    (re.compile(r"\s*-+\s*(>8|8<|%<|>%)\s*-+"), "git mailinfo --scissors cuts the message here"),
    (re.compile(r"-- ?$"), "a mail signature begins here"),
)
_IN_BODY_HEADER = re.compile(r"(?i:From|Subject|Date):|\[PATCH\](\s|$)")


def unsafe_lines(message: str) -> Iterator[UnsafeLine]:
    """Every line that would change the patch or the message when the file is read back.

    Sources: git-am(1) DISCUSSION, git-mailinfo(1), git's builtin/mailinfo.c, patch(1).
    """
    lines = message.split("\n")
    for number, text in enumerate(lines, 1):
        for pattern, reason in _UNSAFE:
            if pattern.match(text):
                yield UnsafeLine(number, text, reason)
                break
    first = next((i for i, text in enumerate(lines) if i > 0 and text.strip()), None)
    while first is not None and first < len(lines) and _IN_BODY_HEADER.match(lines[first]):
        yield UnsafeLine(first + 1, lines[first], "git takes it for the author, date or subject")
        first += 1
    if len(lines) > 1 and lines[1].strip():
        yield UnsafeLine(2, lines[1], "the subject has two lines; git joins them")
