"""How much of a whole patch another tree already has: content evidence over all its paths."""

from __future__ import annotations

from collections.abc import Sequence

from forktool.core.content import Content, compare_content, hunk_presence
from forktool.core.history import Absorber, Sign
from forktool.core.verdict import MOSTLY, AbsorbedFact, ContentFact

Versions = tuple[str, bytes | None, bytes | None, bytes | None]
"""A path, and its content without the patch, with it, and in the other tree."""


def content_fact(paths: Sequence[Versions]) -> ContentFact | None:
    """Weigh the paths by what the patch says in each; None where it says nothing that can be judged."""
    judged = [
        (versions, compare_content(path, before=before, after=after, upstream=upstream))
        for versions in paths
        for path, before, after, upstream in (versions,)
    ]
    telling = [(versions, content) for versions, content in judged if content.is_telling]
    if not telling:
        return None
    weights = [_weight(content) for _versions, content in telling]
    share = sum(content.share * weight for (_, content), weight in zip(telling, weights, strict=True)) / sum(
        weights
    )
    present = total = 0
    if 0 < share < 1:
        for (path, before, after, upstream), _content in telling:
            hunks = [
                hunk
                for hunk in hunk_presence(path, before=before, after=after, upstream=upstream)
                if hunk.is_telling
            ]
            present += sum(hunk.is_present for hunk in hunks)
            total += len(hunks)
    return ContentFact(
        share=share,
        is_full=all(content.is_full for _, content in telling),
        target_gone=all(content.target_gone for _, content in telling),
        detail="; ".join(content.detail for _, content in telling),
        hunks_present=present,
        hunks=total,
        removed=sum(_removed(content)[0] for _, content in telling),
        removed_gone=sum(_removed(content)[1] for _, content in telling),
    )


def absorbed_fact(
    absorber: Absorber, *, then: ContentFact | None, now: ContentFact | None
) -> AbsorbedFact | None:
    """What a commit of upstream's history proves; None where a like subject is all that it has of the patch.

    Args:
        absorber: the commit.
        then: what that commit's tree has of the patch; None where it was not looked at.
        now: what the tag has of it.
    """
    best = max((fact.share for fact in (then, now) if fact is not None), default=0.0)
    if absorber.sign is Sign.SUBJECT and best < MOSTLY:
        return None
    is_whole = absorber.sign is Sign.PATCH_ID or any(
        fact is not None and fact.is_full for fact in (then, now)
    )
    detail = absorber.detail
    if is_whole and (now is None or not now.is_full):
        detail += ", all of it; later commits changed it"
    return AbsorbedFact(detail=detail, is_whole=is_whole)


def _removed(content: Content) -> tuple[int, int]:
    """What the patch removes from one path and how much of it is gone: elements where there are any, else lines."""
    if content.elements_added or content.elements_removed:
        return content.elements_removed, content.elements_removed_gone
    return content.lines_removed, content.lines_removed_gone


def _weight(content: Content) -> int:
    elements = content.elements_added + content.elements_removed
    return elements or content.lines_added + content.lines_removed
