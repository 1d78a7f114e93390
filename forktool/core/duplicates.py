"""Is somebody already on it? What to search upstream for, and how alike what was found is.

Real case: vllm-project/vllm#35966 and #36361 did the same work within a week, in other words; title words alone
would not have told.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from forktool.core.pr_rules import bare_title
from forktool.core.series import Patch

LIKELY = 6
"""The score from which a candidate stops a submission: one strong sign, or several of the others."""

_NUMBER = re.compile(r"(?:/(?:pull|issues)/|#)(\d{1,7})\b")
_IDENTIFIER = re.compile(rb"[A-Za-z_][A-Za-z0-9_]{5,}")
_WORD = re.compile(r"[a-z0-9][a-z0-9.+-]*[a-z0-9]")
_STOP = frozenset(
    re.findall(
        r"\S+",
        """a an and are as at be by do does for from in into is it its no not of on only or so that the then this to
        use used using when with without add adds fix fixes support supports make makes allow allows enable update""",
    )
)
_KEYWORDS = frozenset(
    b"assert async await break class continue lambda return import except finally raise global nonlocal isinstance "
    b"getattr hasattr setattr property staticmethod classmethod default target config length device tensor tensors "
    b"hidden_states positions forward kwargs append extend typing Optional Sequence Mapping Callable".split()
)


class Kind(StrEnum):
    """What a candidate is."""

    PULL = "pull request"
    ISSUE = "issue"


@dataclass(frozen=True, kw_only=True, slots=True)
class Wanted:
    """What a change is recognised by.

    Attributes:
        numbers: pull requests and issues that its message names.
        paths: files that it touches.
        identifiers: names that it adds, those of definitions first.
        words: of its title.
    """

    numbers: tuple[int, ...]
    paths: tuple[str, ...]
    identifiers: tuple[str, ...]
    words: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Candidate:
    """A pull request or an issue of upstream; `paths` are those of a pull request, empty where not asked for."""

    number: int
    kind: Kind
    title: str
    state: str
    url: str
    body: str = ""
    paths: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Match:
    """A candidate, why it matched, and how strongly."""

    candidate: Candidate
    score: int
    reasons: tuple[str, ...]

    @property
    def is_likely(self) -> bool:
        """Whether it probably does the same work; an issue asks for work and does none."""
        return self.score >= LIKELY and self.candidate.kind is Kind.PULL


def wanted(patch: Patch) -> Wanted:
    """What a patch is recognised by."""
    numbers = dict.fromkeys(int(number) for number in _NUMBER.findall(patch.message))
    present: set[bytes] = set()
    added: dict[bytes, int] = {}
    for file in patch.files:
        for hunk in file.hunks:
            for line in hunk.lines:
                names = _IDENTIFIER.findall(_without_comment(line[1:]))
                if line[:1] != b"+":
                    present.update(names)
                    continue
                defines = re.match(rb"\s*(?:def|class)\s+(\w+)", line[1:])
                for name in names:
                    added.setdefault(name, 0)
                    added[name] += 5 if defines and defines[1] == name else 1
    ranked = sorted(
        (name for name in added if name not in present and name not in _KEYWORDS),
        key=lambda name: (-added[name], -len(name), name),
    )
    return Wanted(
        numbers=tuple(numbers),
        paths=patch.paths,
        identifiers=tuple(name.decode() for name in ranked[:12]),
        words=title_words(patch.subject),
    )


def _without_comment(line: bytes) -> bytes:
    return line.partition(b"#")[0]


def title_words(title: str) -> tuple[str, ...]:
    """The words of a title that carry meaning, in order, without its tags."""
    words = _WORD.findall(bare_title(title).lower())
    return tuple(dict.fromkeys(word for word in words if word not in _STOP and len(word) > 2))


def queries(sought: Wanted) -> tuple[str, ...]:
    """Search terms, a query each, the most telling first; GitHub allows 30 searches a minute.

    The syntax is GitHub's (docs.github.com, "Searching issues and pull requests"); the caller adds `repo:`.
    """
    asked = [f"{number} in:title,body" for number in sought.numbers[:3]]
    asked += [f'"{name}"' for name in sought.identifiers[:3]]
    if sought.words:
        asked.append(" ".join(sought.words[:4]) + " in:title")
    if len(sought.words) > 2:
        # All words must occur for a hit: the rarest are usually the longest.
        longest = sorted(sought.words, key=lambda word: (-len(word), word))[:2]
        asked.append(" ".join(longest) + " in:title,body")
    names = [path.rpartition("/")[2] for path in sought.paths[:2]]
    asked += [f'"{name}" in:title,body' for name in names]
    return tuple(dict.fromkeys(asked))


def match(sought: Wanted, candidate: Candidate) -> Match | None:
    """Why a candidate matches, or None.

    Scores: a number 6, files 2 to 5, identifiers 2 each and at most 6, the title's words up to 6.
    """
    reasons: list[str] = []
    score = 0
    text = f"{candidate.title}\n{candidate.body}"
    if candidate.number in sought.numbers:
        reasons.append("the patch names it")
        score += 6
    named = [number for number in sought.numbers if re.search(rf"(?:#|/){number}\b", text)]
    named = [number for number in named if number != candidate.number]
    if named:
        reasons.append(f"both name {', '.join(f'#{number}' for number in named)}")
        score += 6
    shared = [path for path in sought.paths if path in candidate.paths]
    if shared:
        share = len(shared) / len(sought.paths)
        reasons.append(f"touches {_listed(shared)}")
        score += 2 + round(3 * share * min(1.0, len(sought.paths) / max(1, len(candidate.paths))))
    identifiers = [name for name in sought.identifiers if re.search(rf"\b{re.escape(name)}\b", text)]
    if identifiers:
        reasons.append(f"names {_listed(identifiers)}")
        score += min(6, 2 * len(identifiers))
    theirs = set(title_words(candidate.title))
    words = [word for word in sought.words if word in theirs]
    if sought.words and len(words) >= min(2, len(sought.words)):
        alike = len(words) / min(len(sought.words), max(1, len(theirs)))
        reasons.append(f"title shares {_listed(words)}")
        score += round(6 * min(1.0, alike))
    return Match(candidate=candidate, score=score, reasons=tuple(reasons)) if reasons else None


def _listed(items: Sequence[str]) -> str:
    shown = ", ".join(items[:3])
    return f"{shown} and {len(items) - 3} more" if len(items) > 3 else shown


def ranked(
    sought: Wanted, candidates: Iterable[Candidate], *, without: Iterable[int] = ()
) -> tuple[Match, ...]:
    """The matches, the strongest first, open before closed, newest first.

    Args:
        sought: the change.
        candidates: what the searches found.
        without: numbers to leave out: the change's own pull request.
    """
    own = set(without)
    found = [
        matched
        for candidate in {item.number: item for item in candidates}.values()
        if candidate.number not in own and (matched := match(sought, candidate)) is not None
    ]
    return tuple(
        sorted(found, key=lambda item: (-item.score, item.candidate.state != "open", -item.candidate.number))
    )


def statement(matches: Sequence[Match], searched: int, reason: str | None) -> str:
    """What the body says of the search.

    Args:
        matches: as `ranked` gives them.
        searched: how many pull requests and issues were looked at.
        reason: why it is not a duplicate, from a person; None where no likely one was found.
    """
    looked = f"{searched} open and closed pull requests and issues"
    near = ", ".join(f"#{item.candidate.number}" for item in matches[:3])
    if reason is not None:
        return f"Not a duplicate: {reason} (looked at {looked}{f'; nearest: {near}' if near else ''})."
    return f"Duplicate search: none of {looked} does the same{f'; nearest: {near}' if near else ''}."
