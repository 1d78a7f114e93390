"""results.json and what lies beside it: written after each cell, kept when another wheel is tested."""

from __future__ import annotations

import fcntl
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from forktool.adapters.state import translated, write_atomically
from forktool.core.matrix_result import CellResult, Run, cell_document, parse_cell, parse_run, run_document
from forktool.errors import LockedError, RequestError


class Results:
    """The results folder `home`; safe to use from threads."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.path = home / "results.json"
        self._lock = threading.Lock()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the results for one run. The state's own lock stays free: a run takes hours, and a rebase need not wait.

        Raises:
            LockedError: another run is under way.
        """
        path = self.home / "lock"
        with translated(f"cannot lock {path}"):
            stream = path.open("a+b")
        with stream:
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise LockedError(
                    f"{self.home} is in use by another forktool matrix run",
                    hint="wait for it, or set FORKTOOL_HOME",
                ) from error
            yield

    def load(self) -> Run:
        """The last run.

        Raises:
            RequestError: there is none, or it cannot be read.
        """
        return read_run(self.path)

    def begin(self, run: Run, *, resume: bool) -> Run:
        """Start a run; with `resume`, keep the results of the same wheel. Results of another wheel go to history/.

        Raises:
            DiskError: the file system refused.
        """
        with self._lock:
            earlier = self._earlier()
            if earlier is not None and resume and earlier.wheel_sha256 == run.wheel_sha256:
                run = replace(run, cells=earlier.cells, started=earlier.started)
            elif earlier is not None:
                self._archive(earlier)
            self._write(run)
            return run

    def add(self, run: Run, cell: CellResult) -> Run:
        """Put one cell's result in, in place of an earlier one, and write."""
        with self._lock:
            others = tuple(item for item in run.cells if item.identifier != cell.identifier)
            run = replace(run, cells=(*others, cell))
            self._write(run)
            return run

    def history(self) -> tuple[Run, ...]:
        """Earlier runs, oldest first; files that cannot be read are passed over."""
        found = []
        for path in sorted((self.home / "history").glob("*.json")):
            try:
                found.append(read_run(path))
            except RequestError:
                continue
        return tuple(sorted(found, key=lambda run: run.started))

    def _earlier(self) -> Run | None:
        """The results that are there; those that cannot be read are put aside, not in the way of a new run."""
        if not self.path.is_file():
            return None
        try:
            return read_run(self.path)
        except RequestError:
            with translated(f"cannot move {self.path}"):
                self.path.replace(self.home / "results.unreadable.json")
            return None

    def _archive(self, run: Run) -> None:
        stamp = "".join(letter for letter in run.started if letter.isalnum())
        name = f"{run.base_tag or 'unknown'}-{run.wheel_sha256[:12]}-{stamp}.json"
        write_atomically(self.home / "history" / name, _bytes(run_document(run)))

    def _write(self, run: Run) -> None:
        write_atomically(self.path, _bytes(run_document(run)))


def read_run(path: Path) -> Run:
    """Read a results file.

    Raises:
        RequestError: it is not there, or holds something else.
    """
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise RequestError(
            f"{path} is not there: no cell was run yet", hint="forktool matrix run --wheel FILE"
        ) from error
    except (OSError, ValueError) as error:
        raise RequestError(f"{path}: {error}") from error
    return parse_run(document, where=str(path))


def write_cell(path: Path, cell: CellResult) -> None:
    """Write one cell's result, as a job on another machine hands it over."""
    write_atomically(path, _bytes(cell_document(cell)))


def read_cell(path: Path) -> CellResult | None:
    """Read one cell's result; None where it is not there or not whole."""
    try:
        return parse_cell(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def tail(path: Path, *, lines: int) -> list[str]:
    """The last lines of a log; empty where it is not there."""
    try:
        with path.open("rb") as stream:
            stream.seek(0, 2)
            stream.seek(max(0, stream.tell() - 400 * lines))
            return stream.read().decode("utf-8", "replace").splitlines()[-lines:]
    except OSError:
        return []


def _bytes(document: dict[str, Any]) -> bytes:
    return json.dumps(document, indent=1, ensure_ascii=False).encode() + b"\n"
