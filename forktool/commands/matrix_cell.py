"""One cell from beginning to end: environment, servers, gates."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from forktool.adapters.environments import Environment, Wheel, environment
from forktool.adapters.gpus import Gpu
from forktool.adapters.server import CancelledError
from forktool.adapters.state import translated
from forktool.commands.matrix_asking import Asking
from forktool.commands.matrix_harness import Harness, find_harness
from forktool.commands.matrix_servers import CellServers, GoneError, Launch, Note, Place, StartError
from forktool.core.engines import ENGINES
from forktool.core.lm_eval import MISSING
from forktool.core.matrix import Cell, Check, Setup
from forktool.core.matrix_engine import StartFailure
from forktool.core.matrix_prompts import BUILT_IN, PromptItem, parse_prompts
from forktool.core.matrix_result import CellResult, Evidence, Gate, GateOutcome, Outcome
from forktool.errors import ForktoolError, NetworkError, RequestError


@dataclass(frozen=True, kw_only=True, slots=True)
class Subject:
    """What a cell is run on."""

    wheel: Wheel
    setup: Setup
    gpus: tuple[Gpu, ...] = ()
    driver: str | None = None


def turns(rounds: int) -> Iterator[tuple[bool, int]]:
    """The servers in turn, as (with speculation, rounds measured): S, P P, S S, … P or S at last.

    Each side is measured `rounds` times, and a machine that slowly warms up or slows down hurts both alike.
    """
    left = {True: rounds, False: rounds}
    side, share = True, 1
    while left[True] or left[False]:
        times = min(share, left[side])
        if times:
            yield side, times
        left[side] -= times
        side, share = not side, 2


def run_cell(
    cell: Cell,
    subject: Subject,
    *,
    place: Place,
    folder: Path,
    cancelled: threading.Event,
    note: Note,
) -> CellResult:
    """Run one cell on one wheel; whatever the server does is a result.

    Args:
        cell: what to run.
        subject: on what.
        place: where.
        folder: this run's own, for logs and caches; nothing else writes there.
        cancelled: set when the whole run is being ended.
        note: tells a person what happens now.

    Raises:
        CancelledError: the run was ended.
    """
    run = _CellRun(cell, subject, place=place, folder=folder, cancelled=cancelled, note=note)
    missing = missing_for(cell, subject.wheel, place)
    if missing is not None:
        return run.result(Outcome.SKIPPED, missing)
    try:
        outcome, reason = run.measured()
    except CancelledError:
        raise
    except ForktoolError as error:
        outcome, reason = Outcome.BROKEN, error.message
    return run.result(outcome, reason)


def missing_for(cell: Cell, wheel: Wheel, place: Place) -> str | None:
    """What a cell needs, other than GPUs, and is not here."""
    if cell.wheel is not None:
        wanted = Requirement(cell.wheel)
        public = Version(wheel.version.partition("+")[0])
        same = canonicalize_name(wanted.name) == canonicalize_name(wheel.name)
        if not same or not wanted.specifier.contains(public, prereleases=True):
            return f"needs a wheel of {cell.wheel}, and this is {wheel.name} {wheel.version}"
    absent = next((place.path(path) for path in cell.needs.paths if not place.path(path).exists()), None)
    return None if absent is None else f"{absent} is not there"


class _CellRun:
    def __init__(
        self,
        cell: Cell,
        subject: Subject,
        *,
        place: Place,
        folder: Path,
        cancelled: threading.Event,
        note: Note,
    ) -> None:
        self.cell = cell
        self.subject = subject
        self.place = place
        self.folder = folder
        self.cancelled = cancelled
        self.note = note
        self.began = time.monotonic()
        self.started = datetime.now(UTC).isoformat(timespec="seconds")
        self.environment: Environment | None = None
        self.servers: CellServers | None = None
        self.asking = Asking(cell, (), harness=None)

    def measured(self) -> tuple[Outcome, str]:
        """Make the environment, run the servers, judge."""
        items = read_prompts(self.cell, self.place)
        self.environment = environment(
            self.subject.wheel,
            self.subject.setup,
            home=self.place.environments,
            offline=self.place.offline,
        )
        if self.environment.seconds:
            self.note(f"{self.cell.identifier}: environment made in {self.environment.seconds:.1f} s")
        with translated(f"cannot use {self.folder}"):
            self.folder.mkdir(parents=True, exist_ok=True)
        self.servers = CellServers(
            Launch(
                cell=self.cell,
                engine=ENGINES[self.cell.engine],
                python=self.environment.python,
                model=self.place.path(self.cell.model_path),
                drafter=self.place.path(self.cell.drafter_path) if self.cell.drafter_path else None,
                gpus=self.subject.gpus,
                folder=self.folder.resolve(),
            ),
            cancelled=self.cancelled,
            note=self.note,
        )
        self.asking = Asking(self.cell, items, harness=self.harness(self.servers))
        gates = self.asking.gates
        try:
            with self.servers.watched():
                self.drive(self.servers)
        except StartError as error:
            side = "without speculation: " if self.cell.speculates and not error.speculative else ""
            detail = f"{side}{error.report.kind}: {error.report.cause}"
            gates[:] = [gate for gate in gates if gate.check is not Check.STARTS]
            gates.insert(0, _failed(Check.STARTS, detail, kind=error.report.kind, cause=error.report.cause))
            cannot = error.report.kind is StartFailure.BACKEND_CANNOT
            return Outcome.BACKEND_CANNOT if cannot else Outcome.FAILED, detail
        except (GoneError, NetworkError) as error:
            reached = {gate.check for gate in gates}
            coming = next((check for check in self.cell.checks if check not in reached), Check.STARTS)
            check = self.asking.busy or coming
            gates.append(_failed(check, self.why_gone(error)))
        failed = min((gate for gate in gates if gate.failed), key=_order, default=None)
        if failed is not None:
            return Outcome.FAILED, f"{failed.check}: {failed.detail}"
        return Outcome.PASSED, "; ".join(f"{gate.check}: {gate.detail}" for gate in gates[1:]) or "up"

    def why_gone(self, error: Exception) -> str:
        """A server that dies while it answers says why in its log."""
        if isinstance(error, GoneError) or self.servers is None or not self.servers.died_because:
            return str(error)
        return f"the server died: {self.servers.died_because}"

    def harness(self, servers: CellServers) -> Harness | None:
        """The lm-evaluation-harness, where the cell asks for it and it is installed; where not, a person is told."""
        if Check.LM_EVAL not in self.cell.checks:
            return None
        found = find_harness(servers, self.place)
        if found is None:
            self.note(f"{self.cell.identifier}: {MISSING}")
        return found

    def drive(self, servers: CellServers) -> None:
        """All servers of the cell, and what is asked of them."""
        cell, asking = self.cell, self.asking
        if not cell.speculates:
            with servers.server(speculative=False) as api:
                asking.ask_plain(api)
            asking.judge_scores()
            return
        faster = Check.FASTER in cell.checks
        if faster and cell.load.side_by_side:
            with servers.server(speculative=True) as ours, servers.server(speculative=False) as plain:
                asking.ask_ours(ours)
                asking.ask_plain(plain)
                for number in range(cell.load.rounds):
                    for speculative in ((True, False), (False, True))[number % 2]:
                        asking.load(ours if speculative else plain, speculative=speculative)
        else:
            for turn, (speculative, times) in enumerate(turns(cell.load.rounds if faster else 1)):
                if not speculative and not asking.needs_plain:
                    continue
                with servers.server(speculative=speculative) as api:
                    if turn < 2:
                        (asking.ask_ours if speculative else asking.ask_plain)(api)
                    for _ in range(times if faster else 0):
                        asking.load(api, speculative=speculative)
        if not asking.needs_plain:
            asking.judge_answers()
        asking.judge_scores()
        if faster:
            asking.judge_load()

    def result(self, outcome: Outcome, reason: str) -> CellResult:
        subject, servers = self.subject, self.servers
        return CellResult(
            identifier=self.cell.identifier,
            engine=self.cell.engine,
            subject=self.cell.subject,
            outcome=outcome,
            expect=self.cell.expect,
            reason=reason,
            gates=tuple(sorted(self.asking.gates, key=_order)),
            started=self.started,
            seconds=time.monotonic() - self.began,
            server_seconds=servers.seconds if servers else 0.0,
            environment_seconds=self.environment.seconds if self.environment else 0.0,
            evidence=Evidence(
                wheel=subject.wheel.path.name,
                wheel_sha256=subject.wheel.sha256,
                tree=subject.wheel.tree,
                base_tag=subject.wheel.base_tag,
                torch=self.environment.torch if self.environment else None,
                python=self.environment.python_version if self.environment else None,
                driver=subject.driver,
                gpus=tuple(f"{gpu.name} {gpu.uuid}" for gpu in subject.gpus),
                host=socket.gethostname(),
                commands=tuple(servers.commands) if servers else (),
                logs=tuple(_relative(log, self.place.root) for log in servers.logs) if servers else (),
            ),
        )


def read_prompts(cell: Cell, place: Place) -> tuple[PromptItem, ...]:
    """The cell's prompts.

    Raises:
        RequestError: its file is not there or malformed.
    """
    if cell.prompts is None:
        return BUILT_IN
    path = place.path(cell.prompts)
    try:
        return parse_prompts(json.loads(path.read_text(encoding="utf-8")), where=str(path))
    except OSError as error:
        raise RequestError(f"{cell.identifier}: {path}: {error.strerror}") from error
    except ValueError as error:
        raise RequestError(f"{path}: {error}") from error


def _relative(path: Path, root: Path) -> str:
    resolved = root.resolve()
    return str(path.relative_to(resolved)) if path.is_relative_to(resolved) else str(path)


def _order(gate: Gate) -> int:
    return list(Check).index(gate.check)


def _failed(check: Check, detail: str, **numbers: str) -> Gate:
    return Gate(check=check, outcome=GateOutcome.FAILED, detail=detail, numbers=dict(numbers))
