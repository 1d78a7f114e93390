"""A stop as lines for a terminal of 100 columns, and as a part of the JSON answer; the same facts in both."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from forktool.core.lines import changes
from forktool.core.stop import Cause, ConflictKind, Explained, StopConflict, StopRegion

WIDTH = 100
_REGIONS = 6
"""Conflicts shown in full; the others are counted."""
_BUDGET = 60
"""Lines of all sides of all conflicts together, at least `_LEAST` a side."""
_LEAST = 6
_CAUSES = 5
_HEAD = 40
_BEFORE = 20
"""Characters of a long line that are shown at its beginning, and before the place where it differs."""


def stop_lines(stop: Explained, *, pull_requests: str | None) -> list[str]:
    """What is said of a stop, without the commands to go on.

    Args:
        stop: what is known.
        pull_requests: upstream's pull requests: their URL without the number; None where that is not known.
    """
    outcome = stop.outcome
    lines = [_cut(f"stopped at {outcome.name}: {stop.subject}")]
    if stop.reason:
        lines += _wrapped(f"carried because: {stop.reason}", "  ")
    lines += [_cut(f"  {key.lower()}: {value}") for key, value in stop.links]
    if not stop.conflicts:
        lines += _evidence(stop)
    shown = [region for conflict in stop.conflicts for region in conflict.regions][:_REGIONS]
    limit = max(_LEAST, _BUDGET // (3 * max(1, len(shown))))
    left = _REGIONS
    said: tuple[Cause, ...] = ()
    for conflict in stop.conflicts:
        lines.append("")
        lines += _conflict_head(conflict, pull_requests)
        for number, region in enumerate(conflict.regions):
            if number:
                lines.append("")
            if not left:
                more = len(conflict.regions) - number
                lines.append(f"… {more} more {_plural(more, 'conflict')} in {conflict.path}")
                break
            left -= 1
            lines += _region(region, conflict, stop, limit)
            if region.causes and region.causes == said:
                lines.append("  upstream changed this in the same commits")
            elif region.causes:
                lines += _causes("upstream changed this in:", region.causes, pull_requests)
            said = region.causes
        lines += _places(conflict)
        lines += [f"  {command}" for command in conflict.commands]
    if stop.unknown:
        lines.append("")
        lines += [f"  {text}" for text in stop.unknown]
    return lines


def _evidence(stop: Explained) -> list[str]:
    lines = []
    for item in stop.outcome.evidence:
        lines += _wrapped(f"{item.kind}: {item.detail}", "  ")
    for finding in stop.outcome.findings:
        lines += _wrapped(f"{finding.kind}: {finding.path}: {finding.detail}", "  ")
    return lines


def _conflict_head(conflict: StopConflict, pull_requests: str | None) -> list[str]:
    lines: list[str] = []
    if conflict.kind is not ConflictKind.TEXT:
        lines.append(_cut(f"{conflict.path}: {conflict.kind}"))
    if conflict.message and not conflict.regions:
        lines += _wrapped(conflict.message, "  ")
    if conflict.deleted_by is not None:
        lines += _causes("upstream removed it in:", (conflict.deleted_by,), pull_requests)
    if conflict.causes:
        lines += _causes("upstream changed it in:", conflict.causes, pull_requests)
    return lines


def _region(region: StopRegion, conflict: StopConflict, stop: Explained, limit: int) -> list[str]:
    base, onto = stop.labels
    where = f" in {region.definition}" if region.definition else ""
    lines = [_cut(f"{conflict.path}:{region.line}{where}")]
    at = region.line + 1
    for marker, text, other in (
        (f"<<<<<<< upstream {onto}", region.upstream, region.base),
        (f"||||||| base {base}", region.base, region.patch),
        ("=======", region.patch, region.base),
    ):
        lines.append(f"  {marker}")
        whole = text.splitlines()
        kept = _kept(text, other, limit) if len(whole) > limit else range(len(whole))
        lines += _side(whole, kept, conflict.path, at, other.splitlines())
        at += len(whole) + 1
    lines.append(_cut(f"  >>>>>>> patch {stop.outcome.name}"))
    return lines


def _kept(text: str, other: str, limit: int) -> Sequence[int]:
    """The lines of a long side that are shown: its ends, and what differs from the other version with lines around."""
    count = len(text.splitlines())
    told = [
        place
        for change in changes(other.encode(), text.encode())
        for place in range(change.new_start, max(change.new_end, change.new_start + 1))
        if place < count
    ]
    if not told or len(told) > limit - 2:
        above = limit // 2
        return [*range(above), *range(count - (limit - above - 1), count)]
    kept = {0, count - 1, *told}
    for distance in range(1, count):
        wider = kept | {
            place + step for place in told for step in (-distance, distance) if 0 <= place + step < count
        }
        if len(wider) > limit:
            break
        kept = wider
    return sorted(kept)


def _side(whole: Sequence[str], kept: Sequence[int], path: str, at: int, other: Sequence[str]) -> list[str]:
    """The lines of one side, and how many are left out between them.

    Args:
        whole: all its lines.
        kept: the indexes of those that are shown.
        path: the file.
        at: the line of the first one in the work tree.
        other: the version that it is to be compared with.
    """
    lines: list[str] = []
    before = -1
    is_told = False
    for place in (*kept, len(whole)):
        left_out = place - before - 1
        if left_out:
            see = "" if is_told else f", see {path}:{at + before + 1}"
            lines.append(f"  … {left_out} {_plural(left_out, 'line')}{see}")
            is_told = True
        if place < len(whole):
            lines.append(_code(whole[place], other))
        before = place
    return lines


def _code(line: str, other: Sequence[str]) -> str:
    """A line of a file; of a long one its beginning, and where it differs from the other version's line."""
    shown = f"  {line.expandtabs(4)}"
    if len(shown) <= WIDTH or line in other:
        return _cut(shown)
    same = max((_common(shown, f"  {one.expandtabs(4)}") for one in other), default=0)
    start = min(same - _BEFORE, len(shown) - (WIDTH - _HEAD - 1))
    return _cut(f"{shown[:_HEAD]}…{shown[start:]}" if start > _HEAD else shown)


def _common(one: str, other: str) -> int:
    """How many characters two lines share at their start."""
    return next(
        (at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
    )


def _causes(head: str, causes: Sequence[Cause], pull_requests: str | None) -> list[str]:
    lines = [f"  {head}"]
    for cause in causes[:_CAUSES]:
        number = f" #{cause.number}" if cause.number is not None else ""
        lines.append(_cut(f"    {cause.oid[:10]} {cause.date}{number} {cause.subject}"))
        if number and pull_requests is not None:
            lines.append(f"      {pull_requests}{cause.number}")
    if len(causes) > _CAUSES:
        lines.append(f"    … and {len(causes) - _CAUSES} more")
    return lines


def _places(conflict: StopConflict) -> list[str]:
    lines: list[str] = []
    if conflict.moved_from is not None:
        lines.append(_cut(f"  upstream moved it there from {conflict.moved_from}"))
    if conflict.renamed_to is not None:
        lines.append(_cut(f"  upstream moved it to {conflict.renamed_to}"))
    for one in conflict.moved:
        renamed = f" as {one.new_name}" if one.new_name != one.name else ""
        lines += _wrapped(
            f"{one.name} is now in {one.path}:{one.line}{renamed} ({one.likeness:.0%} alike)", "  "
        )
    return lines


def _cut(line: str) -> str:
    return (line if len(line) <= WIDTH else f"{line[: WIDTH - 1]}…").rstrip()


def _wrapped(text: str, indent: str) -> list[str]:
    import textwrap

    return textwrap.wrap(
        text, WIDTH, initial_indent=indent, subsequent_indent=f"{indent}  ", break_on_hyphens=False,
        break_long_words=False,
    )  # fmt: skip


def _plural(count: int, word: str) -> str:
    return word if count == 1 else f"{word}s"


def stop_document(
    stop: Explained, *, work_tree: str | None, pull_requests: str | None, commands: Sequence[str]
) -> dict[str, Any]:
    """The stop in the answer of `rebase --json`.

    Args:
        stop: what is known.
        work_tree: where it is settled; None in a dry run.
        pull_requests: see `stop_lines`.
        commands: how to go on.
    """
    links = dict(stop.links)
    return {
        "patch": stop.outcome.name,
        "subject": stop.subject,
        "reason": stop.reason,
        "forwarded": links.get("Forwarded"),
        "origin": links.get("Origin"),
        "verdict": stop.outcome.verdict.value,
        "conflicts": [_conflict_document(conflict, pull_requests) for conflict in stop.conflicts],
        "unknown": list(stop.unknown),
        "work_tree": work_tree,
        "commands": list(commands),
    }


def _conflict_document(conflict: StopConflict, pull_requests: str | None) -> dict[str, Any]:
    deleted = conflict.deleted_by
    return {
        "path": conflict.path,
        "kind": _KIND_KEYS[conflict.kind],
        "message": conflict.message,
        "regions": [
            {
                "line": region.line,
                "definition": region.definition,
                "upstream": region.upstream,
                "base": region.base,
                "patch": region.patch,
                "causes": [_cause_document(cause, pull_requests) for cause in region.causes],
            }
            for region in conflict.regions
        ],
        "causes": [_cause_document(cause, pull_requests) for cause in conflict.causes],
        "deleted_by": _cause_document(deleted, pull_requests) if deleted is not None else None,
        "moved_from": conflict.moved_from,
        "renamed_to": conflict.renamed_to,
        "moved_to": [
            {
                "definition": one.name,
                "path": one.path,
                "line": one.line,
                "name": one.new_name,
                "likeness": round(one.likeness, 2),
            }
            for one in conflict.moved
        ],
        "commands": list(conflict.commands),
    }


_KIND_KEYS = {kind: kind.name.lower().replace("_", "-") for kind in ConflictKind}


def _cause_document(cause: Cause, pull_requests: str | None) -> dict[str, Any]:
    known = cause.number is not None and pull_requests is not None
    return {
        "commit": cause.oid,
        "date": cause.date,
        "subject": cause.subject,
        "number": cause.number,
        "url": f"{pull_requests}{cause.number}" if known else None,
    }
