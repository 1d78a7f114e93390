"""Random edits of source files, on bytes and lines alone: nothing here knows the product.

An edit is a tuple of small numbers, so that Hypothesis can make a counter-example smaller. Every line that an author
writes holds a word that no other line of the world has (`p7`, `u12`), unless it is meant to look like others.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from hypothesis import strategies as st

ALIKE = (b"", b"    return None", b"}", b"        pass", b"# ----", b")")
"""Lines that stand in many places of a file."""

EDITS = (
    "insert", "insert", "insert", "replace", "replace", "delete", "alike", "move", "double", "indent", "space",
    "rename", "define", "define", "method", "undefine", "move-definition", "double-definition", "item", "item",
    "import", "end", "repeat",
)  # fmt: skip

Edit = tuple[str, int, int, int]
"""What to do, where, how many lines, and which form of it."""

edits = st.tuples(st.sampled_from(EDITS), st.integers(0, 70), st.integers(0, 3), st.integers(0, 5))

_WORD = re.compile(rb"\b[bpu]\d+\b")
_DEFINES = re.compile(rb"\s*(?:def|class) ")


@dataclass(slots=True)
class Author:
    """Somebody who writes lines that nobody else writes."""

    letter: str
    count: int = 0

    def word(self) -> bytes:
        """A word that no other line has."""
        self.count += 1
        return f"{self.letter}{self.count}".encode()

    def line(self, form: int) -> bytes:
        """A line without its end."""
        word = self.word()
        return (b"%s = %s", b"    %s = %s", b"        self.%s = %s", b"# %s is %s", b"\t%s: %s", b"%s(%s)  ")[
            form
        ] % (word, word[1:])

    def definition(self, form: int, indent: bytes = b"") -> list[bytes]:
        """The lines of a function, a decorated function or a class."""
        word = self.word()
        body = [indent + b"    " + self.line(0), indent + b"    return None"]
        if form % 3 == 0:
            return [indent + b"def f_%s():" % word, *body]
        if form % 3 == 1:
            return [indent + b"@decorated", indent + b"def f_%s(self, x=None):" % word, *body, b""]
        method = [
            indent + b"    def run(self):",
            indent + b"        " + self.line(0),
            indent + b"        return None",
        ]
        return [indent + b"class C_%s:" % word, *method, b""]

    def python(self, blocks: list[tuple[int, int]]) -> list[bytes]:
        """A module: imports, then blocks."""
        lines = [b"import os", b"import %s" % self.word(), b""]
        for kind, form in blocks:
            if kind == 0:
                lines += [b"%s = [" % self.word()]
                lines += [b'    "%s",' % self.word() for _ in range(form)]
                lines += [b"]", b""]
            elif kind == 1:
                lines += [b"class C_%s(Base):" % self.word(), b""]
                for _ in range(1 + form % 3):
                    lines += [*self.definition(form, b"    "), b""]
            elif kind == 2:
                lines += [self.line(0), b"if %s:" % self.word(), b"    pass", b""]
            else:
                lines += [b"", *self.definition(form), b""]
        return lines

    def prose(self, shape: list[int]) -> list[bytes]:
        """Lines of a text file, some alike."""
        return [ALIKE[form % len(ALIKE)] if form < 3 else self.line(form % 6) for form in shape]


def split(content: bytes) -> list[bytes]:
    """The lines with their ends."""
    return re.findall(rb"[^\n]*\n|[^\n]+", content)


def edited(content: bytes, edit: Edit, author: Author) -> bytes:
    """A file after one edit; the same bytes where the edit finds nothing to do."""
    kind, place, size, form = edit
    lines = split(content)
    end = b"\r\n" if lines and lines[0].endswith(b"\r\n") else b"\n"
    at = place % (len(lines) + 1)
    block = slice(at, at + 1 + size)

    def with_ends(new: list[bytes]) -> list[bytes]:
        return [line + end for line in new]

    if kind == "end":
        return content.rstrip(b"\r\n") if content.endswith(b"\n") else content + end
    if lines and not lines[-1].endswith(b"\n") and kind not in ("rename", "undefine"):
        lines[-1] += end
    if kind == "insert":
        lines[at:at] = with_ends([author.line((form + n) % 6) for n in range(1 + size)])
    elif kind == "replace":
        lines[block] = with_ends([author.line(form)])
    elif kind == "delete":
        del lines[block]
    elif kind == "alike":
        lines[at:at] = with_ends([ALIKE[form]])
    elif kind == "move":
        moved = lines[block]
        del lines[block]
        to = (place * 7 + form) % (len(lines) + 1)
        lines[to:to] = moved
    elif kind == "double":
        lines[at:at] = lines[block]
    elif kind == "repeat":
        lines += lines[block]
    elif kind == "indent":
        lines[block] = [b"    " + line if line.strip() else line for line in lines[block]]
    elif kind == "space":
        lines[block] = [line.rstrip() + b"  " + end if line.strip() else line for line in lines[block]]
    elif kind == "rename":
        words = sorted(set(_WORD.findall(content)))
        if words:
            old = words[place % len(words)]
            return re.sub(rb"\b%s\b" % old, author.word(), content)
    elif kind == "define":
        tops = [n for n, line in enumerate(lines) if line[:1].strip() and not line.startswith((b"]", b"}"))]
        to = tops[place % len(tops)] if tops else len(lines)
        lines[to:to] = with_ends([*author.definition(form), b""])
    elif kind == "method":
        ends = [n for n, line in enumerate(lines) if line.startswith(b"    def ")]
        if ends:
            to = ends[place % len(ends)]
            lines[to:to] = with_ends([*author.definition(form, b"    "), b""])
    elif kind in ("undefine", "move-definition", "double-definition"):
        span = _definition(lines, place)
        if span is not None:
            text = lines[span]
            if kind != "double-definition":
                del lines[span]
            if kind != "undefine":
                to = 0 if form % 2 else len(lines)
                lines[to:to] = text
    elif kind == "item":
        opens = [n for n, line in enumerate(lines) if line.rstrip().endswith(b"[")]
        if opens:
            to = opens[place % len(opens)] + 1
            while form and to < len(lines) and not lines[to].startswith(b"]"):
                to, form = to + 1, form - 1
            lines[to:to] = with_ends([b'    "%s",' % author.word()])
    elif kind == "import":
        lines[0:0] = with_ends([b"import %s" % author.word()])
    return b"".join(lines)


def _definition(lines: list[bytes], place: int) -> slice | None:
    starts = [n for n, line in enumerate(lines) if _DEFINES.match(line)]
    if not starts:
        return None
    first = starts[place % len(starts)]
    depth = len(lines[first]) - len(lines[first].lstrip())
    last = first + 1
    while last < len(lines) and (
        not lines[last].strip() or len(lines[last]) - len(lines[last].lstrip()) > depth
    ):
        last += 1
    return slice(first, last)
