"""What a cell showed: gates, outcome, whose fault; as values and as the JSON of results.json."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from forktool.core.matrix import CellId, Check, Expectation
from forktool.errors import RequestError

FORMAT = 1


class Outcome(StrEnum):
    """How a cell ended."""

    PASSED = "passed"
    FAILED = "failed"
    BACKEND_CANNOT = "backend cannot"
    """The configuration was accepted, and the backend lacks the feature: neither passed nor the series' fault."""
    SKIPPED = "skipped"
    """What it needs is not here; the reason is in the result."""
    BROKEN = "broken"
    """The runner, not the server, failed: no environment, a node that died, a cancelled job."""


class GateOutcome(StrEnum):
    """How one check ended."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


class Fault(StrEnum):
    """Whose fault a failed cell is."""

    UPSTREAM_TOO = "upstream too"
    PATCH = "patch"
    INTERACTION = "interaction"
    FLAKY = "flaky"
    UNKNOWN = "unknown"


@dataclass(frozen=True, kw_only=True, slots=True)
class Gate:
    """One check's answer: a line for people, which says by how much a floor was missed, and the numbers."""

    check: Check
    outcome: GateOutcome
    detail: str
    numbers: Mapping[str, Any] = field(default_factory=dict)

    @property
    def failed(self) -> bool:
        """Whether it failed the cell."""
        return self.outcome is GateOutcome.FAILED


@dataclass(frozen=True, kw_only=True, slots=True)
class Trial:
    """A run of the same cell on another wheel: `without` names the patches left out, None is the bare wheel."""

    without: tuple[str, ...] | None
    outcome: Outcome
    failed_check: Check | None
    detail: str
    seconds: float = 0.0

    @property
    def label(self) -> str:
        """How a report names it."""
        if self.without is None:
            return "bare upstream wheel"
        return f"without {', '.join(self.without)}" if self.without else "the same wheel again"


@dataclass(frozen=True, kw_only=True, slots=True)
class Blame:
    """Whose fault it is, the patches meant, and the trials that show it."""

    fault: Fault
    patches: tuple[str, ...]
    reason: str
    trials: tuple[Trial, ...]

    @property
    def words(self) -> str:
        """`patch NAME`, `upstream too`, and so on."""
        return f"{self.fault} {', '.join(self.patches)}" if self.patches else str(self.fault)


@dataclass(frozen=True, kw_only=True, slots=True)
class Evidence:
    """What was tested, on what: enough to do it again."""

    wheel: str
    wheel_sha256: str
    tree: str | None
    base_tag: str | None
    torch: str | None = None
    python: str | None = None
    driver: str | None = None
    gpus: tuple[str, ...] = ()
    host: str | None = None
    commands: tuple[str, ...] = ()
    """Shell lines: each server that was started."""
    logs: tuple[str, ...] = ()
    """Files, relative to the results' folder."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CellResult:
    """One cell's result. Times are seconds; `overhead` is the runner's own share with a ready environment."""

    identifier: CellId
    outcome: Outcome
    expect: Expectation
    reason: str
    gates: tuple[Gate, ...]
    evidence: Evidence
    started: str
    seconds: float
    server_seconds: float = 0.0
    environment_seconds: float = 0.0
    engine: str = ""
    subject: str = ""
    """Model, method and drafter: the same for cells of other engines that may be compared."""
    blame: Blame | None = None
    needed: tuple[Trial, ...] = ()
    """Of a cell that passed: what happened with each patch left out."""

    @property
    def as_expected(self) -> bool:
        """Whether this outcome is what the cell is meant to show; a skipped cell is no failure."""
        if self.outcome is Outcome.SKIPPED:
            return True
        wanted = Outcome.BACKEND_CANNOT if self.expect is Expectation.BACKEND_CANNOT else Outcome.PASSED
        return self.outcome is wanted

    @property
    def overhead(self) -> float:
        """What the runner added: everything but the environment and the servers' time."""
        # Of milliseconds, as results.json keeps them: what is read back must say the same.
        whole, servers, environment = (
            round(value, 3) for value in (self.seconds, self.server_seconds, self.environment_seconds)
        )
        return round(max(0.0, whole - servers - environment), 3)

    def gate(self, check: Check) -> Gate | None:
        """The answer of one check; None where it was not asked or not reached."""
        return next((gate for gate in self.gates if gate.check is check), None)

    @property
    def failed_check(self) -> Check | None:
        """The first check that failed."""
        return next((gate.check for gate in self.gates if gate.failed), None)


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """A run of a matrix on one wheel: the content of results.json."""

    tree: str | None
    wheel_sha256: str
    wheel: str
    base_tag: str | None
    started: str
    matrix: str
    cells: tuple[CellResult, ...]

    def cell(self, identifier: str) -> CellResult | None:
        """The result of a cell."""
        return next((cell for cell in self.cells if cell.identifier == identifier), None)


def run_document(run: Run) -> dict[str, Any]:
    """results.json; keys are stable, a new one may be added."""
    return {
        "format": FORMAT,
        "tree": run.tree,
        "wheel_sha256": run.wheel_sha256,
        "wheel": run.wheel,
        "base_tag": run.base_tag,
        "started": run.started,
        "matrix": run.matrix,
        "passed": all(cell.as_expected for cell in run.cells),
        "cells": [cell_document(cell) for cell in run.cells],
    }


def cell_document(cell: CellResult) -> dict[str, Any]:
    """One cell as JSON."""
    return {
        "identifier": cell.identifier,
        "engine": cell.engine,
        "subject": cell.subject,
        "outcome": cell.outcome,
        "expect": cell.expect,
        "as_expected": cell.as_expected,
        "reason": cell.reason,
        "gates": [
            {
                "check": gate.check,
                "outcome": gate.outcome,
                "detail": gate.detail,
                "numbers": dict(gate.numbers),
            }
            for gate in cell.gates
        ],
        "blame": None
        if cell.blame is None
        else {
            "fault": cell.blame.fault,
            "patches": list(cell.blame.patches),
            "words": cell.blame.words,
            "reason": cell.blame.reason,
            "trials": [_trial_document(trial) for trial in cell.blame.trials],
        },
        "needed": [_trial_document(trial) for trial in cell.needed],
        "evidence": {
            "wheel": cell.evidence.wheel,
            "wheel_sha256": cell.evidence.wheel_sha256,
            "tree": cell.evidence.tree,
            "base_tag": cell.evidence.base_tag,
            "torch": cell.evidence.torch,
            "python": cell.evidence.python,
            "driver": cell.evidence.driver,
            "gpus": list(cell.evidence.gpus),
            "host": cell.evidence.host,
            "commands": list(cell.evidence.commands),
            "logs": list(cell.evidence.logs),
        },
        "started": cell.started,
        "seconds": round(cell.seconds, 3),
        "server_seconds": round(cell.server_seconds, 3),
        "environment_seconds": round(cell.environment_seconds, 3),
        "overhead_seconds": cell.overhead,
    }


def _trial_document(trial: Trial) -> dict[str, Any]:
    return {
        "without": None if trial.without is None else list(trial.without),
        "outcome": trial.outcome,
        "failed_check": trial.failed_check,
        "detail": trial.detail,
        "seconds": round(trial.seconds, 3),
    }


def parse_run(document: Mapping[str, Any], *, where: str) -> Run:
    """Read results.json back.

    Raises:
        RequestError: it is not one of ours, or of a later format.
    """
    try:
        if document["format"] != FORMAT:
            raise RequestError(
                f"{where}: results of format {document['format']}, and this forktool reads {FORMAT}"
            )
        return Run(
            tree=document["tree"],
            wheel_sha256=document["wheel_sha256"],
            wheel=document["wheel"],
            base_tag=document["base_tag"],
            started=document["started"],
            matrix=document["matrix"],
            cells=tuple(parse_cell(cell) for cell in document["cells"]),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise RequestError(f"{where} holds no results of forktool matrix: {error!r}") from error


def parse_cell(document: Mapping[str, Any]) -> CellResult:
    """Read one cell back.

    Raises:
        KeyError, TypeError, ValueError: it is not one.
    """
    evidence, blame = document["evidence"], document["blame"]
    return CellResult(
        identifier=CellId(document["identifier"]),
        engine=document["engine"],
        subject=document["subject"],
        outcome=Outcome(document["outcome"]),
        expect=Expectation(document["expect"]),
        reason=document["reason"],
        gates=tuple(
            Gate(
                check=Check(gate["check"]),
                outcome=GateOutcome(gate["outcome"]),
                detail=gate["detail"],
                numbers=gate["numbers"],
            )
            for gate in document["gates"]
        ),
        blame=None
        if blame is None
        else Blame(
            fault=Fault(blame["fault"]),
            patches=tuple(blame["patches"]),
            reason=blame["reason"],
            trials=_trials(blame["trials"]),
        ),
        needed=_trials(document["needed"]),
        evidence=Evidence(
            wheel=evidence["wheel"],
            wheel_sha256=evidence["wheel_sha256"],
            tree=evidence["tree"],
            base_tag=evidence["base_tag"],
            torch=evidence["torch"],
            python=evidence["python"],
            driver=evidence["driver"],
            gpus=tuple(evidence["gpus"]),
            host=evidence["host"],
            commands=tuple(evidence["commands"]),
            logs=tuple(evidence["logs"]),
        ),
        started=document["started"],
        seconds=float(document["seconds"]),
        server_seconds=float(document["server_seconds"]),
        environment_seconds=float(document["environment_seconds"]),
    )


def _trials(documents: Sequence[Mapping[str, Any]]) -> tuple[Trial, ...]:
    return tuple(
        Trial(
            without=None if item["without"] is None else tuple(item["without"]),
            outcome=Outcome(item["outcome"]),
            failed_check=None if item["failed_check"] is None else Check(item["failed_check"]),
            detail=item["detail"],
            seconds=float(item["seconds"]),
        )
        for item in documents
    )
