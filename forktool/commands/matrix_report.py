"""`forktool matrix report`: the last run for people, for machines, and as a page."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from forktool.adapters.html_report import page
from forktool.adapters.matrix_results import Results, read_run
from forktool.adapters.state import write_atomically
from forktool.commands.project import Project
from forktool.core.matrix_report import (
    STYLES,
    compare,
    compare_lines,
    headline,
    junit,
    markdown,
    reference_lines,
    result_lines,
    tally,
)
from forktool.core.matrix_result import Run, run_document
from forktool.errors import ExitCode, ForktoolError, RequestError


def report(
    project: Project,
    *,
    results: str | None,
    against: str | None,
    junit_file: str | None,
    markdown_file: str | None,
    html: str | None,
    any_tree: bool,
) -> ExitCode:
    """Show a run, and write it in the forms that are asked for.

    Returns:
        DONE when each cell is as expected, NO when one is not.

    Raises:
        RequestError: no results, or they are of another tree than the patchset's.
    """
    store = Results(project.state.home / "matrix")
    run = read_run(Path(results)) if results else store.load()
    if not any_tree:
        check_tree(project, run)
    other = read_run(Path(against)) if against else None
    folder = Path(results).parent if results else store.home
    for target, text in (
        (junit_file, junit),
        (markdown_file, markdown),
        (html, lambda shown: page(shown, history=store.history(), folder=folder)),
    ):
        if target is not None:
            write_atomically(Path(target), text(run).encode())
            project.console.note(f"wrote {target}")
    rows = compare(run, other) if other is not None else []
    project.console.document({**run_document(run), **({"against": rows} if other is not None else {})})
    project.console.answer(headline(run))
    width = max((len(cell.identifier) for cell in run.cells), default=0)
    for cell in run.cells:
        first, *rest = result_lines(cell, width=width)
        project.console.answer(project.console.paint(first, STYLES[cell.outcome]))
        for line in (*rest, *(f"    {text}" for text in reference_lines(cell, (*store.history(), run)))):
            project.console.answer(line)
    if other is not None:
        project.console.answer(f"against {headline(other)}")
        for line in compare_lines(rows):
            project.console.answer(line)
    project.console.answer(tally(run.cells))
    return ExitCode.DONE if all(cell.as_expected for cell in run.cells) else ExitCode.NO


def check_tree(project: Project, run: Run) -> None:
    """Refuse results of another tree than the patchset makes on the same tag: they say nothing about it.

    Where the tag's tree is not here, nothing is downloaded to find out; a warning says so.

    Raises:
        RequestError: they are of another tree.
    """
    if run.tree is None or run.base_tag is None:
        project.console.warning("the wheel that was tested says of no tree that it is made of it")
        return
    from forktool.commands.wheel_series import carry_series

    try:
        with project.store() as store:
            patchset = project.read()
            with replace(project, offline=True).upstream(patchset, store) as upstream:
                tree = carry_series(project, patchset, store, upstream, run.base_tag).root
    except ForktoolError as error:
        project.console.warning(f"not checked whether these results are of this patchset: {error.message}")
        return
    if tree != run.tree:
        raise RequestError(
            f"these results are of tree {run.tree[:12]}, and the patchset makes {tree[:12]} of {run.base_tag}",
            hint="forktool wheel, then forktool matrix run --wheel FILE; --any-tree shows them all the same",
        )
