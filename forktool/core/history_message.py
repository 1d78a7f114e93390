"""What the message of a commit says of pull requests and of other commits.

The wordings are git's own (`This reverts commit`, `Revert "…"`, `Reapply "…"`, `(cherry picked from commit …)`;
git-revert(1), git-cherry-pick(1)) and GitHub's (`(#N)` after a squash merge, `Merge pull request #N from`,
`Reverts OWNER/NAME#N`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from forktool.core.trailers import split_trailers

_REVERTS = re.compile(r"\bThis reverts commit ([0-9a-f]{7,40})\b")
_REVERTS_NUMBER = re.compile(
    r"(?<!partially )(?<!partial )\breverts?:? (?:PR |pull request )?(?:[\w.-]+/[\w.-]+)?#(\d+)",
    re.IGNORECASE,
)
_REVERTS_SUBJECT = re.compile(r'(?:\[[^\]]*\]\s*)*(Revert|Reapply):? "(.+)"', re.DOTALL)
_PICKED = re.compile(r"\(cherry picked from commit ([0-9a-f]{7,40})")
_OWN = re.compile(r"\s*\(#(\d+)\)\s*$")
_IN_SUBJECT = re.compile(r"\(#(\d+)\)")
_MERGE = re.compile(r"Merge pull request #(\d+) from ")
_TAGS = re.compile(r"^(?:\s*\[[^\]]*\])+\s*")
_NUMBER = re.compile(r"(?:^|[\s(])(?:[\w.-]+/[\w.-]+)?#(\d+)\b")
_URL = re.compile(r"https?://[^/\s]+/([^/\s]+/[^/\s]+)/(?:-/)?(?:pull|pulls|merge_requests|issues)/(\d+)")
_CLAIMS = ("origin", "forwarded", "applied-upstream", "bug")
_CREDITS = frozenset(
    {"signed-off-by", "co-authored-by", "reviewed-by", "acked-by", "tested-by", "reported-by"}
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Message:
    """What a commit's message says, as far as evidence needs it.

    Attributes:
        subject: its first line.
        number: the pull request that it is, by the last `(#N)` of the subject.
        numbers: every pull request or bug that its subject or trailers name, its own included; none of a revert.
        reverts: ids of commits that it reverts, in full or shortened.
        reverts_numbers: pull requests that it reverts.
        reverts_subject: the subject of the commit that it reverts.
        picked_from: the commits that it was cherry-picked from.
    """

    subject: str
    number: int | None = None
    numbers: tuple[int, ...] = ()
    reverts: tuple[str, ...] = ()
    reverts_numbers: tuple[int, ...] = ()
    reverts_subject: str = ""
    picked_from: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """The subject without its own number."""
        return _OWN.sub("", self.subject)


@dataclass(frozen=True, kw_only=True, slots=True)
class Claims:
    """What a patch says of its own way upstream: the pull requests and bugs that it names."""

    numbers: tuple[int, ...] = ()


def read_message(text: str) -> Message:
    """Read a commit's whole message."""
    subject = text.partition("\n")[0]
    own = _OWN.search(subject) or _MERGE.match(subject)
    number = int(own[1]) if own else None
    named = _REVERTS_SUBJECT.match(subject)
    reverts_subject = "" if named is None else named[2]
    if named is not None and named[1] == "Reapply":
        reverts_subject = f'Revert "{named[2]}"'
    reverts = tuple(dict.fromkeys(_REVERTS.findall(text)))
    reverts_numbers = tuple(dict.fromkeys(int(found) for found in _REVERTS_NUMBER.findall(text)))
    is_revert = bool(reverts or reverts_subject or reverts_numbers)
    numbers = [number] if number is not None else []
    if not is_revert:
        numbers += (int(found) for found in _IN_SUBJECT.findall(subject))
        numbers += _trailer_numbers(text)
    return Message(
        subject=subject,
        number=number,
        numbers=tuple(dict.fromkeys(numbers)),
        reverts=reverts,
        reverts_numbers=tuple(found for found in reverts_numbers if found != number),
        reverts_subject=reverts_subject,
        picked_from=tuple(dict.fromkeys(_PICKED.findall(text))),
    )


def _trailer_numbers(text: str) -> list[int]:
    trailers = split_trailers(text)[1]
    return [
        int(number)
        for key, value in trailers
        if key.lower() not in _CREDITS
        for number in (*_NUMBER.findall(value), *(found[1] for found in _URL.findall(value)))
    ]


def read_claims(text: str, repository: str | None) -> Claims:
    """Read what a patch's message says of its way upstream.

    Args:
        text: the whole message.
        repository: upstream's URL; a URL of another repository on a pull request's site is passed over.
    """
    subject = text.partition("\n")[0]
    numbers: list[int] = []
    own = _OWN.search(subject)
    if own:
        # Another number in the subject is that of what it follows or reverts.
        numbers.append(int(own[1]))
    slug = _slug(repository)
    for key, value in split_trailers(text)[1]:
        if key.lower() in _CLAIMS:
            numbers += (int(number) for number in _NUMBER.findall(value))
            numbers += (
                int(number) for home, number in _URL.findall(value) if slug is None or home.lower() == slug
            )
    return Claims(numbers=tuple(dict.fromkeys(numbers)))


def _slug(repository: str | None) -> str | None:
    """`owner/name` of a URL of a site with pull requests; None for anything else, such as a path."""
    match = re.search(r"(?:://[^/]+/|^[^/:]+@[^:]+:)([^/]+/[^/]+?)(?:\.git)?/?$", repository or "")
    return match[1].lower() if match and not (repository or "").startswith("file:") else None


@lru_cache(maxsize=65536)
def same_subject(subject: str) -> str:
    """A subject as it is compared: without tags in brackets, numbers, case and white space at its ends."""
    return " ".join(_OWN.sub("", _TAGS.sub("", _IN_SUBJECT.sub("", subject))).split()).casefold()
