"""`forktool matrix run` and `cell`: cells on a wheel, here or on Slurm."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from forktool.adapters.environments import Wheel, read_wheel
from forktool.adapters.gpus import usable_gpus
from forktool.adapters.matrix_results import Results, write_cell
from forktool.commands.matrix_list import read_matrix, selected
from forktool.commands.matrix_run import Job, run_and_blame, run_here
from forktool.commands.matrix_servers import Place
from forktool.commands.matrix_wheels import Wheels
from forktool.commands.project import Project
from forktool.core.matrix import Matrix
from forktool.core.matrix_report import (
    STYLES,
    cell_document,
    result_lines,
    tally,
)
from forktool.core.matrix_result import CellResult, Outcome, Run, run_document
from forktool.core.matrix_toml import nearest
from forktool.errors import ExitCode, OutsideError, RequestError, ToolMissingError


def run(
    project: Project,
    *,
    expression: str,
    wheel: str,
    runner: str,
    bare: str | None,
    without: Sequence[str],
    blame: bool,
    each_patch: bool,
    resume: bool,
    jobs: int,
    dry_run: bool,
    shared: str | None,
    partition: str | None,
) -> ExitCode:
    """Run the cells that an expression selects on one wheel.

    Returns:
        DONE when each is as expected, NO when one is not.

    Raises:
        RequestError, PatchsetError: the request, the matrix or the wheel is wrong.
        ToolMissingError: no selected cell could run here.
    """
    matrix = read_matrix(project)
    cells = selected(matrix, expression)
    subject = read_wheel(Path(wheel))
    job = _job(project, matrix, subject, bare=bare, without=without, blame=blame, each_patch=each_patch)
    results = Results(project.state.directory("matrix"))
    if dry_run:
        project.console.document([cell_document(cell) for cell in cells])
        for cell in cells:
            project.console.answer(f"would run {cell.identifier} on {subject.path.name}")
        return ExitCode.DONE
    with results.held():
        state = results.begin(
            Run(
                tree=subject.tree,
                wheel_sha256=subject.sha256,
                wheel=subject.path.name,
                base_tag=subject.base_tag,
                started=datetime.now(UTC).isoformat(timespec="seconds"),
                matrix=matrix.file,
                cells=(),
            ),
            resume=resume,
        )
        kept = {cell.identifier for cell in state.cells if cell.outcome in _FINAL} if resume else set()
        waiting = [cell for cell in cells if cell.identifier not in kept]
        if kept:
            project.console.note(f"{len(cells) - len(waiting)} of {len(cells)} cells have a result already")
        width = max(len(cell.identifier) for cell in cells)

        def done(result: CellResult) -> None:
            nonlocal state
            state = results.add(state, result)
            _show(project, result, width)

        cancelled = threading.Event()
        if runner == "slurm":
            from forktool.commands.matrix_slurm import SlurmOptions, run_on_slurm

            options = SlurmOptions(shared=Path(shared or job.place.root / "slurm"), partition=partition)
            run_on_slurm(
                waiting,
                job,
                project,
                options,
                run_name=f"{subject.sha256[:12]}-{''.join(filter(str.isalnum, state.started))}",
                cancelled=cancelled,
                note=project.console.note,
                done=done,
            )
        else:
            run_here(
                waiting,
                job,
                usable_gpus(),
                places=jobs,
                cancelled=cancelled,
                note=project.console.note,
                done=done,
            )
    return _concluded(project, state, [cell.identifier for cell in cells])


_FINAL = (Outcome.PASSED, Outcome.FAILED, Outcome.BACKEND_CANNOT)
"""What `--resume` does not run again."""


def _show(project: Project, result: CellResult, width: int) -> None:
    first, *rest = result_lines(result, width=width)
    project.console.answer(project.console.paint(first, STYLES[result.outcome]))
    for line in rest:
        project.console.answer(line)


def _concluded(project: Project, state: Run, wanted: Sequence[str]) -> ExitCode:
    cells = [cell for cell in state.cells if cell.identifier in wanted]
    project.console.document({**run_document(state), "selected": list(wanted)})
    project.console.answer(tally(cells))
    if cells and all(cell.outcome is Outcome.SKIPPED for cell in cells):
        raise ToolMissingError(
            f"no selected cell could run here: {cells[0].reason}", hint="forktool matrix list"
        )
    if all(cell.as_expected for cell in cells):
        return ExitCode.DONE
    project.console.hint("forktool matrix report --html matrix.html")
    return ExitCode.NO


def run_one(
    project: Project, *, identifier: str, wheel: str, folder: str, blame: bool, each_patch: bool
) -> ExitCode:
    """Run one cell and write its result into a folder: what a job of a batch system runs.

    Takes no lock and touches no results but its own. A result that is there already is kept, so that a job which was
    requeued after it had finished does no work twice.

    Raises:
        RequestError: no such cell.
    """
    matrix = read_matrix(project)
    cell = matrix.cell(identifier)
    if cell is None:
        known = [item.identifier for item in matrix.cells]
        raise RequestError(f"{identifier} is no cell of {matrix.file}; {nearest(identifier, known)}")
    target = Path(folder) / "result.json"
    if target.is_file():
        project.console.note(f"{target} is there already")
        return ExitCode.DONE
    subject = read_wheel(Path(wheel))
    job = _job(project, matrix, subject, bare=None, without=(), blame=blame, each_patch=each_patch)
    seen = usable_gpus()
    gpus = seen.gpus[: cell.needs.gpus]
    if len(gpus) < cell.needs.gpus:
        raise OutsideError(
            f"{identifier} needs {cell.needs.gpus} GPUs; {seen.missing or f'{len(gpus)} here'}"
        )
    result = run_and_blame(
        cell,
        job,
        gpus,
        seen.driver,
        cancelled=threading.Event(),
        note=project.console.note,
        folder=Path(folder),
    )
    write_cell(target, result)
    _show(project, result, len(identifier))
    return ExitCode.DONE if result.as_expected else ExitCode.NO


def _job(
    project: Project,
    matrix: Matrix,
    wheel: Wheel,
    *,
    bare: str | None,
    without: Sequence[str],
    blame: bool,
    each_patch: bool,
) -> Job:
    given = {}
    for pair in without:
        name, sign, file = pair.partition("=")
        if not sign or not name or not file:
            raise RequestError(f"--without {pair} is not NAME=FILE", hint="--without NAME=FILE")
        given[name] = Path(file)
    root = project.state.directory("matrix")
    return Job(
        matrix=matrix,
        wheel=wheel,
        wheels=Wheels(project, wheel, bare=Path(bare) if bare else None, given=given),
        place=Place(
            root=root,
            environments=root / "environments",
            base=project.path.resolve(),
            offline=project.offline,
        ),
        blame=blame,
        each_patch=each_patch,
    )
