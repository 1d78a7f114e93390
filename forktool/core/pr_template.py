"""A pull-request template read as sections, and filled; no upstream's template is known here.

GitHub shows `.github/PULL_REQUEST_TEMPLATE.md` (docs.github.com, "Creating a pull request template for your
repository") to whoever opens a pull request. What vLLM's job does to a body afterwards is in its
.github/workflows/new_pr_bot.yml (0.33.0): comments of one line go, and all from `**BEFORE SUBMITTING` on.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

PATHS = (
    ".github/PULL_REQUEST_TEMPLATE.md",
    ".github/pull_request_template.md",
    "PULL_REQUEST_TEMPLATE.md",
    "pull_request_template.md",
    "docs/PULL_REQUEST_TEMPLATE.md",
    "docs/pull_request_template.md",
)
"""Where GitHub looks, `.github/` first."""

LIMIT = 65_536
"""The longest body, in characters, that GitHub takes ("body is too long (maximum is 65536 characters)")."""

_SPARE = 64
"""Room for closing what a cut runs through."""

_HEADING = re.compile(r"(#{1,6})\s+(.+?)\s*#*\s*$")
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_ONE_LINE_COMMENT = re.compile(r"^\s*<!--[^\n]*?-->\s*$\n?", re.MULTILINE)
_CUT = re.compile(r"^\*\*BEFORE SUBMITTING.*\Z", re.MULTILINE | re.DOTALL)
_BOX = re.compile(r"(\s*[-*+] \[)[ xX](\] +)(.*)")


class Part(StrEnum):
    """What a drafter has to say, whatever the template calls it."""

    SUMMARY = "summary"
    CLAIMS = "claims"
    PLAN = "plan"
    RESULTS = "results"
    DETAILS = "details"


_WORDS: Mapping[Part, tuple[str, ...]] = {
    Part.SUMMARY: ("overview", "summary", "purpose", "description", "what"),
    Part.CLAIMS: ("claim", "changes", "purpose", "overview", "summary", "description", "what"),
    Part.PLAN: ("test plan", "how", "validation", "test"),
    Part.RESULTS: ("test result", "result", "validation", "evidence", "test"),
    Part.DETAILS: (
        "detail",
        "motivation",
        "background",
        "notes",
        "why",
        "purpose",
        "description",
        "overview",
    ),
}
"""For each part, words of headings that ask for it, the best first."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Section:
    """One heading of the template and what stands under it, guidance in comments left out."""

    heading: str
    title: str
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Template:
    """The sections in order, and `tail`: what follows the last one, from a rule or a `<details>` on."""

    sections: tuple[Section, ...]
    tail: str

    @property
    def boxes(self) -> tuple[str, ...]:
        """The texts of the checklist."""
        return tuple(match[3].strip() for line in self.tail.splitlines() if (match := _BOX.fullmatch(line)))


NO_TEMPLATE = "## Purpose\n\n## Test plan\n\n## Test result\n\n## Details\n"
"""For an upstream that has none."""


def parse_template(text: str) -> Template:
    """Take a template apart; text before the first heading is guidance and goes."""
    plain = _CUT.sub("", _COMMENT.sub("", text.replace("\r\n", "\n")))
    sections: list[Section] = []
    heading: str | None = None
    lines: list[str] = []
    tail: list[str] = []
    for line in plain.split("\n"):
        found = _HEADING.fullmatch(line) if not tail else None
        if found:
            if heading is not None:
                sections.append(_section(heading, lines))
            heading, lines = line.rstrip(), []
        elif tail or (heading is not None and (line.strip() == "---" or line.startswith("<details"))):
            tail.append(line)
        else:
            lines.append(line)
    if heading is not None:
        sections.append(_section(heading, lines))
    if not sections:
        return parse_template(NO_TEMPLATE + "\n---\n" + "\n".join(_boxes_only(plain)))
    return Template(sections=tuple(sections), tail="\n".join(tail).strip("\n"))


def _boxes_only(text: str) -> list[str]:
    return [line for line in text.splitlines() if _BOX.fullmatch(line)]


def _section(heading: str, lines: Sequence[str]) -> Section:
    match = _HEADING.fullmatch(heading)
    title = match[2] if match else heading
    return Section(heading=heading, title=title, text="\n".join(lines).strip("\n"))


@dataclass(frozen=True, kw_only=True, slots=True)
class Filled:
    """A body, the titles of sections that nothing was known for, and the checklist's boxes left open."""

    body: str
    empty: tuple[str, ...]
    open_boxes: tuple[str, ...]


def fill(template: Template, parts: Mapping[Part, str], *, true_of: Sequence[str] = ()) -> Filled:
    """Put each part under the heading that asks for it.

    Args:
        template: upstream's.
        parts: what there is to say; a part that no heading asks for goes to the last section.
        true_of: words; a box of the checklist that holds one of them, case-insensitively, is ticked.
    """
    placed: dict[int, list[str]] = {}
    for part in Part:
        text = parts.get(part, "").strip()
        if text:
            placed.setdefault(_place(template, part), []).append(text)
    chunks: list[str] = []
    empty: list[str] = []
    for at, section in enumerate(template.sections):
        texts = placed.get(at) or ([section.text] if section.text.strip() else [])
        if not texts:
            empty.append(section.title)
        chunks.append("\n\n".join([section.heading, *texts]))
    tail, open_boxes = _ticked(template.tail, true_of)
    body = "\n\n".join(chunks) + (f"\n\n{tail}" if tail else "")
    return Filled(body=body.rstrip("\n") + "\n", empty=tuple(empty), open_boxes=open_boxes)


def _place(template: Template, part: Part) -> int:
    titles = [section.title.lower() for section in template.sections]
    for word in _WORDS[part]:
        for at, title in enumerate(titles):
            if word in title:
                return at
    return 0 if part is Part.SUMMARY else len(titles) - 1


def _ticked(tail: str, true_of: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    lines: list[str] = []
    left: list[str] = []
    for line in tail.split("\n"):
        match = _BOX.fullmatch(line)
        if match is None:
            lines.append(line)
        elif any(word.lower() in match[3].lower() for word in true_of):
            lines.append(f"{match[1]}x{match[2]}{match[3]}")
        else:
            left.append(match[3].strip())
            lines.append(line)
    return "\n".join(lines), tuple(left)


def normalised(body: str | None) -> str:
    """A body as it compares: upstream's jobs rewrite comments, line ends, blank lines and its last paragraph."""
    text = (body or "").replace("\r\n", "\n")
    text = _CUT.sub("", _ONE_LINE_COMMENT.sub("", text))
    lines = [line.rstrip() for line in text.split("\n")]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip("\n")


def shortened(body: str, link: str, *, limit: int = LIMIT) -> str:
    """The body, or as much of it as GitHub takes, cut at a line, with a link to all of it.

    Args:
        body: in characters, of any length.
        link: the URL of the whole text.
        limit: of characters.
    """
    if len(body) <= limit:
        return body
    note = f"\n\n… cut at {limit:,} characters; [the full report]({link})\n"
    kept = body[: limit - len(note) - _SPARE]
    kept = kept[: kept.rfind("\n") + 1] or kept
    # A code block or a collapsed part that the cut runs through would swallow the link.
    fence = "\n```" if len(re.findall(r"^```", kept, re.MULTILINE)) % 2 else ""
    closing = "\n</details>" * min(4, kept.count("<details") - kept.count("</details>"))
    return kept.rstrip("\n") + fence + closing + note
