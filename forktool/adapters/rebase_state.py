"""The rebase in progress, as the state folder keeps it: the target and what a person decided.

Everything else is computed again by `--continue`: a replay takes less time than it takes to trust an old one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from forktool.adapters.state import State, translated
from forktool.core.objects import Entry, Mode, Oid
from forktool.core.series import PatchName
from forktool.core.verdict import Choice, Decision
from forktool.errors import PatchsetError


@dataclass(frozen=True, kw_only=True, slots=True)
class RebaseState:
    """A rebase that stopped. `series` is the digest of the series that it started from."""

    onto: str
    series: str
    stopped_at: PatchName
    decisions: Mapping[PatchName, Decision] = field(default_factory=dict)
    settled: Mapping[PatchName, Mapping[str, Entry | None]] = field(default_factory=dict)
    proposal: str | None = None
    """The tree that was offered for a suspect: an unchanged one is not a decision."""


def _file(state: State) -> Path:
    return state.home / "rebase.json"


def load_rebase(state: State) -> RebaseState | None:
    """The rebase in progress, or None.

    Raises:
        PatchsetError: the file is damaged.
    """
    file = _file(state)
    if not file.is_file():
        return None
    try:
        with translated(f"cannot read {file}"):
            document: dict[str, Any] = json.loads(file.read_bytes())
        return RebaseState(
            onto=document["onto"],
            series=document["series"],
            stopped_at=PatchName(document["stopped_at"]),
            decisions={
                PatchName(name): Decision(choice=Choice(item["choice"]), reason=item["reason"])
                for name, item in document["decisions"].items()
            },
            settled={
                PatchName(name): {
                    path: Entry(Mode(entry[0]), Oid(entry[1])) if entry else None
                    for path, entry in paths.items()
                }
                for name, paths in document["settled"].items()
            },
            proposal=document["proposal"],
        )
    except (ValueError, KeyError, TypeError) as error:
        raise PatchsetError(f"{file}: damaged", hint="forktool rebase --abort") from error


def save_rebase(state: State, rebase: RebaseState) -> None:
    """Remember a rebase.

    Raises:
        DiskError: the file system refused.
    """
    document = {
        "onto": rebase.onto,
        "series": rebase.series,
        "stopped_at": rebase.stopped_at,
        "decisions": {
            name: {"choice": decision.choice.value, "reason": decision.reason}
            for name, decision in rebase.decisions.items()
        },
        "settled": {
            name: {path: [entry.mode.value, entry.oid] if entry else None for path, entry in paths.items()}
            for name, paths in rebase.settled.items()
        },
        "proposal": rebase.proposal,
    }
    state.write(_file(state), json.dumps(document, indent=1).encode())


def forget_rebase(state: State) -> None:
    """Forget the rebase in progress.

    Raises:
        DiskError: the file system refused.
    """
    with translated(f"cannot remove {_file(state)}"):
        _file(state).unlink(missing_ok=True)
