"""How much of a whole patch another tree already has: content evidence over all its paths."""

from __future__ import annotations

from collections.abc import Sequence

from forktool.core.content import Content, compare_content, hunk_presence
from forktool.core.verdict import ContentFact

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
    )


def _weight(content: Content) -> int:
    elements = content.elements_added + content.elements_removed
    return elements or content.lines_added + content.lines_removed
