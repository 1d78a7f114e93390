"""Conflicts that a merge on the syntax tree settles; those in keyed formats are settled by their keys.

Git stops where two sides change neighbouring lines. Where they changed different things on those lines - statements,
clauses, arguments, elements, imports, definitions - both changes are made. Nothing outside the conflict regions changes
by a byte, the result consists of the two sides' text, and whatever does not plainly add up stays a conflict.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from forktool.core.markers import Conflict, join_pieces, parse_conflicts, sides_of
from forktool.core.pieces import edits_of, in_regions
from forktool.core.soundness import has_moved, is_sound
from forktool.core.syntax import SYNTAX_LIMIT, has_syntax_error, is_python, parse
from forktool.core.tree_merge import merge_sources


@dataclass(frozen=True, kw_only=True, slots=True)
class ResolvedRegion:
    """One region as git left it, and what it became; whole lines. `line` is that of its first marker, 1-based."""

    line: int
    ours: bytes
    base: bytes
    theirs: bytes
    result: bytes


@dataclass(frozen=True, kw_only=True, slots=True)
class Resolution:
    """A file without conflicts, and its regions for review."""

    content: bytes
    regions: tuple[ResolvedRegion, ...]


def resolve(path: str, *, conflicted: bytes) -> Resolution | None:
    """Resolve every conflict of a file, or none.

    Args:
        path: names the file type: Python, or one of the keyed formats.
        conflicted: the file with conflict markers in diff3 style; `ours` is upstream, `theirs` the patch.

    Returns:
        None where the sides clash in any region, the markers are not diff3's, or the text is larger than the limit
        for syntax.
    """
    pieces = parse_conflicts(conflicted) if len(conflicted) <= SYNTAX_LIMIT else None
    if pieces is None:
        return None
    results = _settle_python(pieces) if is_python(path) else _settle_keyed(path, pieces)
    if results is None:
        return None
    conflicts = [piece for piece in pieces if isinstance(piece, Conflict)]
    waiting = iter(results)
    return Resolution(
        content=join_pieces(pieces, lambda _conflict: next(waiting)),
        regions=tuple(
            ResolvedRegion(line=one.line, ours=one.ours, base=one.base, theirs=one.theirs, result=result)
            for one, result in zip(conflicts, results, strict=True)
        ),
    )


def _settle_keyed(path: str, pieces: Sequence[bytes | Conflict]) -> Sequence[bytes] | None:
    from forktool.core.keyed import settle

    return settle(path, pieces)


def _settle_python(pieces: Sequence[bytes | Conflict]) -> Sequence[bytes] | None:
    """What each region becomes; the whole files are merged, since one change can be in several regions."""
    base, ours, theirs = sides_of(pieces)
    if not base.strip():
        return None  # Both sides added the file: they mean two files.
    for source in (ours, base, theirs):
        parse(source, ours)
    if any(map(has_syntax_error, (base, ours, theirs))):
        return None
    disputed = b"".join(piece.base for piece in pieces if isinstance(piece, Conflict))
    if any(has_moved(side, base=base, disputed=disputed) for side in (ours, theirs)):
        return None
    merged = merge_sources(base, ours, theirs)
    if merged is None:
        return None
    spans: list[tuple[int, int]] = []
    reached = 0
    for piece in pieces:
        text = piece.ours if isinstance(piece, Conflict) else piece
        if isinstance(piece, Conflict):
            spans.append((reached, reached + len(text)))
        reached += len(text)
    results = in_regions(ours, edits_of(ours, merged), spans)
    if results is None:
        return None
    waiting = iter(results)
    content = join_pieces(pieces, lambda _conflict: next(waiting))
    return results if is_sound(content, base=base, ours=ours, theirs=theirs) else None
