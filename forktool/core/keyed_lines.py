"""INI files and lists of requirements as entries, read line by line.

An INI file is what configparser and tox read: sections, `key = value`, and indented lines that go on with a value. Of
requirements files (pip's "Requirements File Format") each line is an entry, known by the project's name.
"""

from __future__ import annotations

import re

from forktool.core.entries import Entry, Kind
from forktool.core.spans import Span, Text

_SECTION = re.compile(rb"\[[^\]\r\n]+\][ \t]*([#;][^\n]*)?\r?\n?")
_KEY = re.compile(rb"([^\s#;\[=:][^=:\r\n]*?)[ \t]*[=:][ \t]*([^\r\n]*)\r?\n?")
_NAMED = re.compile(rb"\s+([A-Za-z0-9_.\-:\[\],]+)[ \t]*(?:[=<>!~]=|[=<>;]|$)")
_SETTING = re.compile(rb"\s*[A-Za-z_][A-Za-z0-9_]*[ \t]*=[ \t]*\S")
_STEPS = re.compile(r"commands|script|steps")
_PROJECT = re.compile(rb"([A-Za-z0-9][A-Za-z0-9._-]*)[ \t]*(\[[^\]]*\])?[ \t]*([=<>!~;@#(]|\r?\n|$)")


def read_ini(source: bytes) -> Entry | None:
    """Sections, their keys, and the lines of a value that starts on the line after its key."""
    text = Text(source, (b"#", b";"))
    sections: list[Span] = []
    keys: list[Span] = []
    starts: list[tuple[str, int]] = []
    at = 0
    while at < len(text.lines):
        line = text.lines[at]
        if text.is_trivia(at):
            at += 1
        elif _SECTION.fullmatch(line):
            starts.append((line.strip().decode("utf-8", "replace"), at))
            at += 1
        elif (match := _KEY.fullmatch(line)) is not None and starts:
            span = _key(text, at, match)
            keys.append(span)
            at = span.last + 1
        else:
            return None
    for place, (name, first) in enumerate(starts):
        end = starts[place + 1][1] if place + 1 < len(starts) else len(text.lines)
        own = tuple(key for key in keys if first < key.first < end)
        last = own[-1].last if own else first
        sections.append(
            Span(key=name, first=first, last=last, kind=Kind.MAPPING if own else Kind.LEAF, members=own)
        )
    return text.document(Kind.MAPPING, sections)


def _key(text: Text, first: int, match: re.Match[bytes]) -> Span:
    last = first
    for line in range(first + 1, len(text.lines)):
        if text.lines[line][:1] in (b" ", b"\t") and not text.is_trivia(line):
            last = line
        elif not text.is_trivia(line):
            break
    name = match[1].decode("utf-8", "replace")
    values = [line for line in range(first + 1, last + 1) if not text.is_trivia(line)]
    indents = {len(text.lines[line]) - len(text.lines[line].lstrip()) for line in values}
    texts = [match[2], *(text.lines[line] for line in values)]
    # Words behind the equals sign are prose that goes on, but for settings such as tox's `setenv = A=1`.
    is_list = not match[2].strip() or all(map(_SETTING.match, texts))
    if not is_list or len(indents) != 1:
        return Span(key=name, first=first, last=last)
    kind = Kind.STEPS if _STEPS.search(name) else Kind.LIST
    members = tuple(Span(key=_name(text.lines[line]), first=line, last=line) for line in values)
    return Span(key=name, first=first, last=last, kind=kind, members=members)


def _name(line: bytes) -> str:
    match = _NAMED.match(line.rstrip())
    return (match[1] if match is not None else line.strip()).decode("utf-8", "replace").lower()


def read_requirements(source: bytes) -> Entry | None:
    """A requirement a line; options such as `-r FILE` are known by their whole text."""
    text = Text(source, (b"#",))
    spans: list[Span] = []
    at = 0
    while at < len(text.lines):
        first = at
        while text.lines[at].rstrip(b"\r\n").endswith(b"\\") and at + 1 < len(text.lines):
            at += 1
        if not text.is_trivia(first):
            spans.append(Span(key=_project(text.lines[first]), first=first, last=at))
        at += 1
    return text.document(Kind.NAMES, spans)


def _project(line: bytes) -> str:
    """The project's name and the environment that the line is for."""
    match = _PROJECT.match(line)
    if match is None:
        return line.strip().decode("utf-8", "replace")
    marker = line.partition(b" #")[0].partition(b";")[2].strip().decode("utf-8", "replace")
    return f"{project_name(match[1].decode())} {marker}"


def project_name(text: str) -> str:
    """A project's name in the form that compares (packaging.python.org, "Names and normalization")."""
    return re.sub(r"[-_.]+", "-", text).lower()
