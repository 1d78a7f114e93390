"""`forktool matrix run` on this machine: cells side by side as far as GPUs, memory and places allow."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from forktool.adapters.environments import Wheel
from forktool.adapters.gpus import Gpu, Gpus
from forktool.adapters.server import CancelledError
from forktool.commands.matrix_cell import Subject, run_cell
from forktool.commands.matrix_servers import Note, Place
from forktool.commands.matrix_wheels import Wheels
from forktool.core.matrix import Cell, Matrix
from forktool.core.matrix_blame import attribute, needed_for
from forktool.core.matrix_result import CellResult, Evidence, Outcome, Trial
from forktool.core.matrix_schedule import Device, Pool, Share, in_order
from forktool.errors import ForktoolError

Finished = Callable[[CellResult], None]


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """What every cell of a run shares."""

    matrix: Matrix
    wheel: Wheel
    wheels: Wheels
    place: Place
    blame: bool
    each_patch: bool
    """Also run cells that pass with each patch left out, to show which patch they need."""


def run_here(
    cells: Sequence[Cell],
    job: Job,
    gpus: Gpus,
    *,
    places: int,
    cancelled: threading.Event,
    note: Note,
    done: Finished,
) -> None:
    """Run cells on this machine.

    Args:
        cells: which.
        job: on what and where.
        gpus: what this machine has.
        places: how many cells without GPUs may run at once.
        cancelled: set to end everything; cells that have not ended then have no result.
        note: tells a person what happens now.
        done: told each result, in the caller's thread.

    Raises:
        ForktoolError: what `done` raises; every server is ended first.
    """
    pool = Pool(
        devices=tuple(
            Device(uuid=gpu.uuid, capability=gpu.capability, memory=gpu.memory - gpu.used)
            for gpu in gpus.gpus
        ),
        memory=_host_memory(),
        places=places,
    )
    waiting: list[Cell] = []
    for cell in in_order(cells):
        reason = pool.never(cell.needs)
        if reason is not None:
            reason = f"{reason}: {gpus.missing}" if cell.needs.gpus and gpus.missing else reason
            done(skipped(cell, job.wheel, reason))
        else:
            waiting.append(cell)
    running: dict[Future[CellResult], Share] = {}
    with ThreadPoolExecutor(max_workers=max(1, len(gpus.gpus) + places)) as workers:
        try:
            while waiting or running:
                for cell in tuple(waiting):
                    share = pool.take(cell.needs)
                    if share is not None:
                        waiting.remove(cell)
                        given = tuple(gpu for gpu in gpus.gpus if gpu.uuid in share.devices)
                        future = workers.submit(
                            run_and_blame, cell, job, given, gpus.driver, cancelled=cancelled, note=note
                        )
                        running[future] = share
                # A time limit, so that Ctrl-C is seen: a wait without one blocks signals' handlers.
                ended, _ = wait(running, timeout=0.5, return_when=FIRST_COMPLETED)
                for future in ended:
                    pool.give_back(running.pop(future))
                    done(future.result())
        except BaseException:
            cancelled.set()
            raise


def run_and_blame(
    cell: Cell,
    job: Job,
    gpus: tuple[Gpu, ...],
    driver: str | None,
    *,
    cancelled: threading.Event,
    note: Note,
    folder: Path | None = None,
) -> CellResult:
    """One cell, and where it failed whose fault that is.

    Raises:
        CancelledError: the run was ended.
    """
    base = folder or job.place.root / "cells" / folder_name(cell.identifier)
    setup = job.matrix.setups[cell.setup]

    def once(wheel: Wheel, name: str) -> CellResult:
        return run_cell(
            cell,
            Subject(wheel=wheel, setup=setup, gpus=gpus, driver=driver),
            place=job.place,
            folder=_fresh(base, name),
            cancelled=cancelled,
            note=note,
        )

    def trial(without: tuple[str, ...] | None) -> Trial:
        name = "bare" if without is None else f"without-{'-'.join(without)}" if without else "again"
        note(f"{cell.identifier}: {name.replace('-', ' ', 1)}")
        try:
            result = once(job.wheels.without(without), name)
        except CancelledError:
            raise
        except ForktoolError as error:
            return Trial(without=without, outcome=Outcome.BROKEN, failed_check=None, detail=error.message)
        return Trial(
            without=without,
            outcome=result.outcome,
            failed_check=result.failed_check,
            detail=result.reason,
            seconds=result.seconds,
        )

    result = once(job.wheel, "run")
    if result.outcome is Outcome.FAILED and job.blame:
        return replace(result, blame=attribute(result.failed_check, job.wheels.patches, trial))
    if result.outcome is Outcome.PASSED and job.each_patch:
        return replace(result, needed=needed_for(job.wheels.patches, trial))
    return result


def skipped(cell: Cell, wheel: Wheel, reason: str, *, outcome: Outcome = Outcome.SKIPPED) -> CellResult:
    """The result of a cell that was not run."""
    return CellResult(
        identifier=cell.identifier,
        engine=cell.engine,
        subject=cell.subject,
        outcome=outcome,
        expect=cell.expect,
        reason=reason,
        gates=(),
        evidence=Evidence(
            wheel=wheel.path.name, wheel_sha256=wheel.sha256, tree=wheel.tree, base_tag=wheel.base_tag
        ),
        started=datetime.now(UTC).isoformat(timespec="seconds"),
        seconds=0.0,
    )


def folder_name(identifier: str) -> str:
    """An identifier as a folder's name; identifiers are printable words already."""
    return re.sub(r"[^A-Za-z0-9.+_-]", "_", identifier)


def _fresh(base: Path, name: str) -> Path:
    """A folder that no other run of the same cell has: a number behind the name, and the process."""
    number = 1 + sum(1 for _ in base.glob(f"{name}-*")) if base.is_dir() else 1
    return base / f"{name}-{number}-{os.getpid()}"


def _host_memory() -> float:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)
