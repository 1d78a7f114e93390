"""Results as text lines and as JSON documents; the same facts in both."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from forktool.core.series import Patch, PatchName
from forktool.core.verdict import EvidenceKind, Outcome, Verdict

_WIDEST = 8
"""Patches side by side in a table of verdicts."""

SYMBOLS = {
    Verdict.UNCHANGED: "=",
    Verdict.REFRESHED: "~",
    Verdict.RESOLVED: "*",
    Verdict.ABSORBED: "-",
    Verdict.PARTLY_ABSORBED: "/",
    Verdict.OBSOLETE: "-",
    Verdict.SUSPECT: "?",
    Verdict.CONFLICT: "!",
    Verdict.NOT_REACHED: " ",
}

STYLES = {
    Verdict.UNCHANGED: "green",
    Verdict.REFRESHED: "green",
    Verdict.RESOLVED: "yellow",
    Verdict.ABSORBED: "blue",
    Verdict.PARTLY_ABSORBED: "yellow",
    Verdict.OBSOLETE: "blue",
    Verdict.SUSPECT: "red",
    Verdict.CONFLICT: "red",
    Verdict.NOT_REACHED: "dim",
}


def outcome_lines(outcome: Outcome, *, width: int) -> list[str]:
    """The line of one patch, then one indented line for each finding and conflict.

    Args:
        outcome: the verdict.
        width: of the column of names.
    """
    lines = [
        f"{SYMBOLS[outcome.verdict]} {outcome.name:<{width}}  {outcome.verdict:<15}  {reason(outcome)}".rstrip()
    ]
    lines += [f"    {finding.kind}: {finding.path}: {finding.detail}" for finding in outcome.findings]
    lines += [f"    conflict: {path}" for path in outcome.conflicts]
    return lines


def reason(outcome: Outcome) -> str:
    """Why, in one line: the evidence that led to the verdict."""
    shown = [item for item in outcome.evidence if not _goes_without_saying(outcome.verdict, item.kind)]
    return "; ".join(f"{item.kind}: {item.detail}" for item in shown)


def _goes_without_saying(verdict: Verdict, kind: EvidenceKind) -> bool:
    return verdict in (Verdict.UNCHANGED, Verdict.REFRESHED) and kind in (
        EvidenceKind.PROBE,
        EvidenceKind.CONTENT,
    )


def name_width(names: Iterable[str]) -> int:
    """The width of a column of names."""
    return max((len(name) for name in names), default=0)


def tally(outcomes: Iterable[Outcome]) -> str:
    """How many of which verdict, as `3 unchanged, 1 resolved, 1 absorbed`."""
    counts: dict[Verdict, int] = {}
    for outcome in outcomes:
        counts[outcome.verdict] = counts.get(outcome.verdict, 0) + 1
    return (
        ", ".join(f"{counts[verdict]} {verdict}" for verdict in Verdict if verdict in counts) or "no patches"
    )


def rebase_document(
    base: str, onto: str, outcomes: Sequence[Outcome], *, stop: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The answer of `rebase --json`; `complete` tells whether no patch stopped it, `stop` what a person needs there."""
    return {
        "base": base,
        "onto": onto,
        "complete": not any(outcome.verdict.is_stop for outcome in outcomes),
        "patches": [
            {
                "name": outcome.name,
                "verdict": outcome.verdict.value,
                "evidence": _evidence(outcome),
                "findings": _findings(outcome),
                "conflicts": list(outcome.conflicts),
            }
            for outcome in outcomes
        ],
        "stop": stop,
    }


def status_document(
    base: str, patches: Sequence[Patch], table: Mapping[str, Mapping[PatchName, Outcome]]
) -> dict[str, Any]:
    """The answer of `status --json`.

    Args:
        base: the base's tag.
        patches: the series.
        table: tag to patch name to outcome.
    """
    return {
        "base": base,
        "tags": list(table),
        "complete": not any(outcome.verdict.is_stop for row in table.values() for outcome in row.values()),
        "patches": [
            {
                "name": patch.name,
                "subject": patch.subject,
                "verdicts": {tag: row[patch.name].verdict.value for tag, row in table.items()},
                "evidence": [
                    {"tag": tag, **item} for tag, row in table.items() for item in _evidence(row[patch.name])
                ],
                "findings": [
                    {"tag": tag, **item} for tag, row in table.items() for item in _findings(row[patch.name])
                ],
                "conflicts": sorted({path for row in table.values() for path in row[patch.name].conflicts}),
            }
            for patch in patches
        ],
    }


def _evidence(outcome: Outcome) -> list[dict[str, str]]:
    return [{"kind": item.kind.value, "detail": item.detail} for item in outcome.evidence]


def _findings(outcome: Outcome) -> list[dict[str, str]]:
    return [
        {"kind": finding.kind.value, "path": finding.path, "detail": finding.detail}
        for finding in outcome.findings
    ]


def verdict_table(
    patches: Sequence[Patch], table: Mapping[str, Mapping[PatchName, Outcome]]
) -> list[list[tuple[str, Verdict | None]]]:
    """Rows of cells for `status`: a head row of names, then one row a tag; of a long series, one row a patch."""
    rows: list[list[tuple[str, Verdict | None]]] = [
        [("", None), *((str(patch.name), None) for patch in patches)]
    ]
    for tag, outcomes in table.items():
        cells: list[tuple[str, Verdict | None]] = [(tag, None)]
        for patch in patches:
            verdict = outcomes[patch.name].verdict
            cells.append((verdict.value, verdict))
        rows.append(cells)
    if len(patches) <= max(_WIDEST, len(table)):
        return rows
    return [list(column) for column in zip(*rows, strict=True)]
