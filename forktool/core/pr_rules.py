"""What upstream asks of a pull request, read from its own tree: the title, the size, the documentation."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from forktool.core.diff import FileDiff

TITLE_WORKFLOW = ".github/workflows/pr-title.yml"
GUIDES = ("docs/contributing/README.md", "docs/contributing/overview.md", "CONTRIBUTING.md")

_PATTERN = re.compile(r"^\s*pattern='(.+)'\s*$", re.MULTILINE)
_LISTED_TAG = re.compile(r"^[-*] ((?:`(?:\[[^\]`]+\])+`(?:,? (?:or|and) |, )?)+)", re.MULTILINE)
_CLASSES = {"[:space:]": r"\s", "[:alnum:]": "A-Za-z0-9", "[:digit:]": "0-9", "[:alpha:]": "A-Za-z"}
_RFC_LIMIT = re.compile(r">\s*(\d[\d,]*)\s*(?:LOC|lines)")
_LEADING_TAGS = re.compile(r"\s*((?:\[[^\]\[]+\])*)\s*(.*)", re.DOTALL)

Read = Callable[[str], bytes | None]
"""The content of a path of upstream's tree, or None."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TitleRule:
    """How a title must look: a pattern that upstream's CI matches, or a list of first tags from its guide.

    `source` is the file that says so. With neither, every title passes.
    """

    pattern: str | None = None
    tags: tuple[str, ...] = ()
    source: str = ""

    def problem(self, title: str) -> str | None:
        """What is wrong with a title, or None."""
        if self.pattern is not None:
            if re.match(_python_pattern(self.pattern), title) is None:
                return f"it must match {self.pattern} ({self.source})"
            return None
        if self.tags:
            tags = title_tags(title)
            known = {tag.lower() for tag in self.tags}
            if not tags or not any(tag.lower() in known for tag in tags):
                return (
                    f"it must begin with one of {' '.join(f'[{tag}]' for tag in self.tags)} ({self.source})"
                )
        return None


def _python_pattern(pattern: str) -> str:
    # POSIX extended syntax, as bash matches it: only the named classes are spelt otherwise here.
    for posix, ours in _CLASSES.items():
        pattern = pattern.replace(posix, ours)
    return re.sub(r"\[\^\]\[\]", r"[^\\]\\[]", pattern)


def title_tags(title: str) -> tuple[str, ...]:
    """The bracketed tags that a title begins with, without brackets."""
    match = _LEADING_TAGS.fullmatch(title)
    return tuple(re.findall(r"\[([^\]\[]+)\]", match[1])) if match else ()


def bare_title(title: str) -> str:
    """The title without its leading tags."""
    match = _LEADING_TAGS.fullmatch(title)
    return match[2].strip() if match else title


def title_rule(read: Read) -> TitleRule:
    """Upstream's rule: the pattern of its CI job where there is one, else the tags that its guide lists."""
    workflow = read(TITLE_WORKFLOW)
    found = _PATTERN.search(workflow.decode("utf-8", "replace")) if workflow is not None else None
    if found:
        return TitleRule(pattern=found[1], source=TITLE_WORKFLOW)
    for guide in GUIDES:
        content = read(guide)
        if content is None:
            continue
        tags: dict[str, None] = {}
        for listed in _LISTED_TAG.finditer(content.decode("utf-8", "replace")):
            for group in re.findall(r"`([^`]+)`", listed[1]):
                # `[Hardware][Vendor]`: the first is fixed, the second stands for a name.
                tags[re.findall(r"\[([^\]]+)\]", group)[0]] = None
        if tags:
            return TitleRule(tags=tuple(tags), source=guide)
    return TitleRule()


_NOT_COUNTED = (
    ("test", re.compile(r"(^|/)(tests?|testing)/|(^|/)test_[^/]*$|_test\.[a-z]+$")),
    ("kernel", re.compile(r"(^|/)(csrc|kernels)/|\.(cu|cuh|hip|ptx)$")),
    ("config", re.compile(r"(^|/)configs/|\.(json|ya?ml|toml|cfg|ini|txt|lock)$")),
    ("data", re.compile(r"(^|/)(data|assets|fixtures)/|\.(csv|parquet|jsonl|png|jpg|svg)$")),
)
"""What upstream's limit leaves out ("excluding kernel/data/config/test", docs/contributing/README.md, 0.16.0 and
0.33.0); which path is which is our reading."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Size:
    """Lines added plus lines removed, in all and as upstream's limit counts them; `limit` is None for no limit."""

    added: int
    removed: int
    counted: int
    limit: int | None
    source: str

    @property
    def needs_rfc(self) -> bool:
        """Whether upstream wants a design discussed first."""
        return self.limit is not None and self.counted > self.limit


def size_of(files: Sequence[FileDiff], read: Read) -> Size:
    """The size of a change, against the limit that upstream's guide states."""
    added = removed = counted = 0
    for file in files:
        signs = [line[:1] for hunk in file.hunks for line in hunk.lines]
        more, less = signs.count(b"+"), signs.count(b"-")
        added, removed = added + more, removed + less
        path = file.new_path or file.old_path or ""
        if not any(pattern.search(path) for _kind, pattern in _NOT_COUNTED):
            counted += more + less
    for guide in GUIDES:
        content = read(guide)
        found = _RFC_LIMIT.search(content.decode("utf-8", "replace")) if content is not None else None
        if found:
            limit = int(found[1].replace(",", ""))
            return Size(added=added, removed=removed, counted=counted, limit=limit, source=guide)
    return Size(added=added, removed=removed, counted=counted, limit=None, source="")


_VISIBLE = (
    (re.compile(rb"add_argument\s*\("), "a command-line argument"),
    (re.compile(rb"os\.environ|getenv\s*\(|\benvs\.[A-Z]"), "an environment variable"),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Documentation:
    """Documentation files that a change touches, and what it adds that a user can see."""

    touched: tuple[str, ...]
    visible: tuple[str, ...]


def documentation_of(files: Iterable[FileDiff]) -> Documentation:
    """Which documentation a change touches, and which added lines look user-visible."""
    touched: dict[str, None] = {}
    visible: dict[str, None] = {}
    for file in files:
        path = file.new_path or file.old_path or ""
        if path.startswith("docs/") or path.endswith((".md", ".rst")):
            touched[path] = None
            continue
        if re.search(r"(^|/)tests?/", path):
            continue
        lines = [line[1:] for hunk in file.hunks for line in hunk.lines if line[:1] == b"+"]
        for pattern, what in _VISIBLE:
            if any(pattern.search(line) for line in lines):
                visible[f"{what} ({path})"] = None
    return Documentation(touched=tuple(touched), visible=tuple(visible))
