"""`forktool diff`: what the last rebase made of the patches, as git's range-diff."""

from __future__ import annotations

from forktool.adapters.git_format import range_diff
from forktool.adapters.git_store import GitStore
from forktool.commands.project import Project
from forktool.core.objects import Oid
from forktool.errors import ExitCode, RequestError


def diff(project: Project, *, stat: bool) -> ExitCode:
    """Show the range-diff of the series before and after the last rebase.

    Raises:
        RequestError: there was no rebase yet.
    """
    with project.store() as store:
        previous, current = _range(store, "previous"), _range(store, "series")
        text = range_diff(store, previous, current)
    lines = [line for line in text.splitlines() if not stat or line[:1].strip() or line[:3].strip().isdigit()]
    project.console.document({"range_diff": text})
    for line in lines:
        project.console.answer(line)
    return ExitCode.DONE


def _range(store: GitStore, name: str) -> tuple[Oid, Oid]:
    base, tip = (store.resolve(f"refs/forktool/{name}/{end}") for end in ("base", "tip"))
    if base is None or tip is None:
        raise RequestError("there was no rebase here yet", hint="forktool rebase TAG")
    return base, tip
