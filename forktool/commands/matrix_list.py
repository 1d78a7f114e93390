"""`forktool matrix list`: the cells of the patchset's matrix. Imports no more than that needs."""

from __future__ import annotations

import json

from forktool.commands.project import Project
from forktool.core.engines import METHODS
from forktool.core.matrix import GITHUB_JOBS, Cell, Matrix
from forktool.core.matrix_file import parse_matrix
from forktool.core.matrix_report import cell_document, github_matrix, needs_line
from forktool.core.matrix_select import select, stranger
from forktool.errors import ExitCode, RequestError

FILE = "matrix.toml"


def read_matrix(project: Project) -> Matrix:
    """The patchset's matrix.

    Raises:
        RequestError: there is none.
        PatchsetError: it is malformed.
    """
    path = project.path / FILE
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise RequestError(f"{path} is not there", hint=f"describe the cells in {path}") from error
    except (OSError, ValueError) as error:
        raise RequestError(f"{path}: {error}") from error
    return parse_matrix(text, file=str(path), engines=METHODS)


def list_cells(project: Project, *, expression: str, github: bool) -> ExitCode:
    """Show the cells that an expression selects.

    Raises:
        RequestError: it selects none, or more than GitHub runs in one matrix.
        PatchsetError: the matrix is malformed.
    """
    cells = selected(read_matrix(project), expression)
    if github:
        if len(cells) > GITHUB_JOBS:
            raise RequestError(
                f"{len(cells)} cells are selected, and one strategy.matrix runs {GITHUB_JOBS} jobs",
                hint="forktool matrix list --github -k EXPRESSION",
            )
        project.console.document(github_matrix(cells))
        # One line, as `echo matrix=… >> $GITHUB_OUTPUT` needs it.
        project.console.answer(json.dumps(github_matrix(cells), separators=(",", ":")))
        return ExitCode.DONE
    project.console.document([cell_document(cell) for cell in cells])
    width = max(len(cell.identifier) for cell in cells)
    for cell in cells:
        project.console.answer(
            f"{cell.identifier:<{width}}  {needs_line(cell.needs)}; {', '.join(cell.checks)}"
        )
    project.console.note(f"{len(cells)} cell{'s' if len(cells) != 1 else ''}")
    return ExitCode.DONE


def selected(matrix: Matrix, expression: str) -> tuple[Cell, ...]:
    """The cells that an expression selects.

    Raises:
        RequestError: none.
    """
    cells = select(matrix.cells, expression)
    if not cells:
        known = [cell.identifier for cell in matrix.cells]
        why = stranger(expression, known) or "no cell has all that it asks for"
        raise RequestError(
            f"-k {expression!r} selects none of the {len(known)} cells: {why}",
            hint="forktool matrix list",
        )
    return cells
