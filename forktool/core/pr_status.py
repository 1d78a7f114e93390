"""What became of a pull request, and what that means for the series."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from forktool.core.mail import parse_mail
from forktool.core.series import Patch, PatchName, parse_patch
from forktool.core.trailers import Trailer, first_value, split_trailers
from forktool.errors import PatchsetError

_PULL = re.compile(r"https?://[^/\s]+/(?:api/v3/repos/)?([^/\s]+/[^/\s]+)/pulls?/(\d+)")


@dataclass(frozen=True, kw_only=True, slots=True)
class Pull:
    """A pull request as GitHub tells it.

    Attributes:
        state: open, closed or merged.
        mergeable: `clean`, `dirty`, `blocked`, … in GitHub's words, `unknown` while it computes.
        approvals: logins whose last review approves.
        refusals: logins whose last review asks for changes.
        checks: how many of CI's checks ended how, as (conclusion, count).
        merge_commit: the commit that it became; None unless merged.
    """

    number: int
    url: str
    title: str
    body: str
    state: str
    is_draft: bool
    head: str
    head_sha: str
    base: str
    mergeable: str = "unknown"
    approvals: tuple[str, ...] = ()
    refusals: tuple[str, ...] = ()
    checks: tuple[tuple[str, int], ...] = ()
    merge_commit: str | None = None
    merged_at: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Landed:
    """Where a merged change is: the first release that contains it, and what took it back."""

    tag: str | None
    revert: int | None = None
    revert_tag: str | None = None


def pull_number(patch: Patch, upstream: str) -> int | None:
    """The number of the patch's pull request, from its `Forwarded:` trailer; None where there is none."""
    forwarded = first_value(patch.trailers, "Forwarded") or ""
    found = _PULL.search(forwarded)
    return int(found[2]) if found and found[1].lower() == upstream.lower() else None


def first_containing(tags: Sequence[str], contains: Callable[[str], bool]) -> str | None:
    """The oldest tag that contains a change, by halving; what one contains all later ones do.

    Args:
        tags: oldest first.
        contains: asked of about log2(n) tags.
    """
    low, high = 0, len(tags)
    while low < high:
        middle = (low + high) // 2
        if contains(tags[middle]):
            high = middle
        else:
            low = middle + 1
    return tags[low] if low < len(tags) else None


def is_revert_of(title: str, body: str, number: int) -> bool:
    """Whether a pull request takes another one back, by what GitHub and git write: "Revert", "Reverts #1"."""
    text = f"{title}\n{body}"
    if not re.match(r"\s*(\[[^\]]*\]\s*)*revert\b", title, re.IGNORECASE):
        return re.search(rf"\breverts?\s+(?:\S+/\S+)?#{number}\b", body, re.IGNORECASE) is not None
    return re.search(rf"#{number}\b", text) is not None


def meaning(pull: Pull, landed: Landed | None, base: str) -> str:
    """What it means for the series, in one line.

    Args:
        pull: the pull request.
        landed: where it is, when merged.
        base: the tag that the series sits on.
    """
    if pull.state == "open":
        if pull.refusals:
            return f"carry it; {', '.join(pull.refusals)} asks for changes"
        if pull.mergeable == "dirty":
            return "carry it; the branch conflicts with upstream: forktool pr draft and submit it again"
        return "carry it; a draft until you mark it ready" if pull.is_draft else "carry it"
    if pull.state == "closed":
        return "carry it; upstream closed it without merging"
    if landed is None or landed.tag is None:
        if landed is not None and landed.revert is not None:
            return f"carry it; merged, then taken back by #{landed.revert} before any release"
        return "carry it; merged, in no release yet"
    if landed.revert is not None:
        where = f" ({landed.revert_tag})" if landed.revert_tag else ""
        return f"carry it; in {landed.tag}, taken back by #{landed.revert}{where}"
    if landed.tag == base:
        return f"the base has it: forktool check, and drop it if its probe is green on {base}"
    return f"in {landed.tag}: it leaves the series with forktool rebase {landed.tag}"


def trailers_for(pull: Pull, landed: Landed | None) -> tuple[Trailer, ...]:
    """The trailers that are true now: `Forwarded`, and `Applied-Upstream` once a release has it and keeps it."""
    found: list[Trailer] = [("Forwarded", pull.url)]
    if landed is not None and landed.tag is not None and landed.revert is None:
        found.append(("Applied-Upstream", landed.tag))
    return tuple(found)


def with_trailers(name: PatchName, text: bytes, wanted: Sequence[Trailer], *, file: str) -> bytes:
    """A patch file with trailers set: replaced where the key is there, else added before `Signed-off-by`.

    A trailer of our two keys that is not wanted any more goes. Nothing else of the file changes.

    Raises:
        PatchsetError: the file is malformed, or its message has no place for trailers.
    """
    patch = parse_patch(name, text, file=file)
    body, old = split_trailers(patch.message)
    if not old:
        raise PatchsetError(f"{file}: the message has no trailers to set Forwarded among")
    wanted_keys = dict(wanted)
    ours = ("Forwarded", "Applied-Upstream")
    new: list[Trailer] = []
    done: set[str] = set()
    for key, value in old:
        known = next((item for item in ours if item.lower() == key.lower()), None)
        if known is None:
            new.append((key, value))
        elif known in wanted_keys and known not in done:
            new.append((known, wanted_keys[known]))
            done.add(known)
    at = next((n for n, (key, _value) in enumerate(new) if key.lower() == "signed-off-by"), len(new))
    missing = [(key, value) for key, value in wanted if key not in done]
    # `Applied-Upstream` reads on after `Forwarded`.
    for key, value in missing:
        place = at
        if key == "Applied-Upstream":
            place = next((n + 1 for n, item in enumerate(new) if item[0] == "Forwarded"), at)
        new.insert(place, (key, value))
        at += 1
    if tuple(new) == old:
        return text
    return _spliced(text, body, new, file)


def _spliced(text: bytes, body: str, trailers: Sequence[Trailer], file: str) -> bytes:
    head, mark, diff = text.partition(b"\ndiff --git ")
    paragraphs = head.rstrip(b"\n").rpartition(b"\n\n")
    block = "".join(f"{key}: {value}\n" for key, value in trailers).encode("utf-8", "surrogateescape")
    made = paragraphs[0] + b"\n\n" + block + mark + diff
    before, after = parse_mail(text, name=file), parse_mail(made, name=file)
    same = after.diff == before.diff and after.author == before.author
    if not same or split_trailers(after.message) != (body, tuple(trailers)):
        raise PatchsetError(f"{file}: its trailers cannot be set without changing something else")
    return made
