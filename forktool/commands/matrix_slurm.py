"""`forktool matrix run --runner slurm`: a job a cell, results through a folder that all nodes see."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from forktool.adapters.matrix_results import read_cell
from forktool.adapters.slurm import JobId, JobRequest, JobState, cancel, states, submit
from forktool.adapters.state import translated, write_atomically
from forktool.commands.matrix_run import Finished, Job, folder_name, skipped
from forktool.commands.matrix_servers import Note
from forktool.commands.project import Project
from forktool.core.matrix import Cell
from forktool.core.matrix_result import Outcome
from forktool.errors import RequestError

_FIRST_POLL, _LAST_POLL = 0.5, 10.0
_GRACE = 30.0
"""Seconds after a job's end for its result to show on a shared file system, and for Slurm to requeue it."""
_ENVIRONMENT_MINUTES = 20


@dataclass(frozen=True, kw_only=True, slots=True)
class SlurmOptions:
    """Where results meet: `shared` is seen by all nodes."""

    shared: Path
    partition: str | None = None


@dataclass(kw_only=True, slots=True)
class _Submitted:
    cell: Cell
    folder: Path
    job: JobId
    state: JobState = field(default_factory=lambda: JobState(state="PENDING"))
    ended_at: float | None = None


def run_on_slurm(
    cells: Sequence[Cell],
    job: Job,
    project: Project,
    options: SlurmOptions,
    *,
    run_name: str,
    cancelled: threading.Event,
    note: Note,
    done: Finished,
) -> None:
    """Submit cells and gather their results.

    A job that is there from an earlier, interrupted run of the same name is taken up again, not submitted twice.

    Args:
        cells: which.
        job: on what.
        project: whose patchset and state the jobs use; both must be seen by all nodes.
        options: see `SlurmOptions`.
        run_name: the same for a run and those that resume it.
        cancelled: set to cancel the jobs.
        note: tells a person what happens now.
        done: told each result.

    Raises:
        ToolMissingError, OutsideError: Slurm does not answer. The jobs stay; `--resume` takes them up.
    """
    root = options.shared / run_name
    with translated(f"cannot use {root}"):
        root.mkdir(parents=True, exist_ok=True)
    waiting: list[_Submitted] = []
    try:
        for cell in cells:
            folder = (root / folder_name(cell.identifier)).resolve()
            with translated(f"cannot use {folder}"):
                folder.mkdir(exist_ok=True)
            try:
                waiting.append(
                    _Submitted(cell=cell, folder=folder, job=_job(cell, job, project, options, folder))
                )
            except RequestError as error:
                done(skipped(cell, job.wheel, error.message))
        note(f"{len(waiting)} jobs; their logs are in {root}")
        _gather(waiting, job, cancelled=cancelled, note=note, done=done)
    except (KeyboardInterrupt, SystemExit):
        note("cancelling the jobs")
        cancel(item.job for item in waiting)
        raise


def _job(cell: Cell, job: Job, project: Project, options: SlurmOptions, folder: Path) -> JobId:
    """Submit a cell's job, unless it is there already."""
    record = folder / "job.json"
    try:
        known = JobId(json.loads(record.read_text(encoding="utf-8"))["job"])
    except (OSError, ValueError, KeyError):
        known = None
    if known is not None and ((folder / "result.json").is_file() or not states([known])[known].ended):
        return known
    trials = 3 + len(job.wheels.patches) if job.blame or job.each_patch else 1
    argv = [sys.executable, "-m", "forktool", "--patchset", str(project.path.resolve())]
    argv += ["--offline"] if project.offline else []
    argv += [
        "matrix",
        "cell",
        cell.identifier,
        "--wheel",
        str(job.wheel.path.resolve()),
        "--folder",
        str(folder),
    ]
    argv += [] if job.blame else ["--no-blame"]
    argv += ["--each-patch"] if job.each_patch else []
    # The job must find this state, not make one of its own beside a patchset that may be elsewhere.
    argv = ["env", f"FORKTOOL_HOME={project.state.home.resolve()}", *argv]
    found = submit(
        JobRequest(
            name=cell.identifier,
            argv=argv,
            folder=folder,
            gpus=cell.needs.gpus,
            memory=cell.needs.memory,
            minutes=int(-(-cell.timeout * trials // 60)) + _ENVIRONMENT_MINUTES,
            constraint=cell.needs.constraint,
            partition=options.partition,
        )
    )
    write_atomically(record, json.dumps({"job": found}).encode())
    return found


def _gather(
    waiting: list[_Submitted],
    job: Job,
    *,
    cancelled: threading.Event,
    note: Note,
    done: Finished,
) -> None:
    poll = _FIRST_POLL
    while waiting:
        if cancelled.is_set():
            raise KeyboardInterrupt
        now = time.monotonic()
        known = states(item.job for item in waiting)
        moved = False
        for item in tuple(waiting):
            state = known[item.job]
            if state.state != item.state.state:
                moved = True
                where = f" on {state.nodes}" if state.nodes else ""
                note(f"{item.cell.identifier}: job {item.job} {state.state.lower().replace('_', ' ')}{where}")
            item.state = state
            item.ended_at = (item.ended_at or now) if state.ended else None
            result = read_cell(item.folder / "result.json")
            if result is not None:
                done(result)
            elif item.ended_at is not None and now - item.ended_at >= _GRACE:
                done(skipped(item.cell, job.wheel, _lost(item), outcome=Outcome.BROKEN))
            else:
                continue
            waiting.remove(item)
            moved = True
        poll = _FIRST_POLL if moved else min(_LAST_POLL, poll * 1.3)
        if waiting:
            time.sleep(poll)


def _lost(item: _Submitted) -> str:
    state = item.state.state.lower().replace("_", " ")
    reason = f" ({item.state.reason})" if item.state.reason not in ("", "None") else ""
    where = f" on {item.state.nodes}" if item.state.nodes else ""
    return f"job {item.job} ended as {state}{reason}{where} without a result; see {item.folder / 'job.log'}"
