"""The servers of one cell: started in turn or side by side, ended at the cell's timeout and with the run."""

from __future__ import annotations

import os
import shlex
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from forktool.adapters.gpus import Gpu, wait_until_free
from forktool.adapters.openai_api import OpenAiApi
from forktool.adapters.server import CancelledError, Server, cleaned_environment, leased_port
from forktool.core.matrix import Cell
from forktool.core.matrix_engine import Engine, StartFailure, StartReport, bare, cause_line, explain_start
from forktool.errors import NetworkError, OutsideError

Note = Callable[[str], None]
_POLL = 0.1
_NOTICE = 2.0
_PORT_TAKEN = "address already in use"
"""strerror(EADDRINUSE), as asyncio and uvicorn hand it on."""


class StartError(Exception):
    """A server did not come up: a result, not an error of forktool's."""

    def __init__(self, report: StartReport, *, speculative: bool) -> None:
        super().__init__(report.cause)
        self.report = report
        self.speculative = speculative


class GoneError(Exception):
    """A server died after it had come up, or the cell's time was over."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """Where cells run.

    `root` holds results and logs, `environments` the environments; paths in a matrix file are relative to `base`.
    """

    root: Path
    environments: Path
    base: Path
    offline: bool = False

    def path(self, written: str) -> Path:
        """A path of the matrix file, with `$NAME` and `~` expanded."""
        return self.base / Path(os.path.expandvars(written)).expanduser()


@dataclass(frozen=True, kw_only=True, slots=True)
class Launch:
    """What all servers of a cell have in common: paths are ready for use."""

    cell: Cell
    engine: Engine
    python: Path
    model: Path
    drafter: Path | None
    gpus: tuple[Gpu, ...]
    folder: Path
    """The run's own, for logs and caches."""


class CellServers:
    """Starts servers and watches the clock.

    Args:
        launch: what they have in common.
        cancelled: set when the whole run is being ended.
        note: tells a person what happens now.
    """

    def __init__(self, launch: Launch, *, cancelled: threading.Event, note: Note) -> None:
        self.launch = launch
        self.commands: list[str] = []
        self.logs: list[Path] = []
        self.seconds = 0.0
        """How long servers were up or coming up."""
        self._note = note
        self._cancelled = cancelled
        self._live: set[Server] = set()
        self._deadline = time.monotonic() + launch.cell.timeout
        self._timed_out = False
        self.died_because: str | None = None
        """Why a server that had come up is gone, from its log."""

    @contextmanager
    def watched(self) -> Iterator[None]:
        """End the servers when the cell's time is over or the run is ended; a request that hangs then fails.

        Raises:
            CancelledError: the run was ended.
            GoneError: the time was over.
        """
        finished = threading.Event()

        def watch() -> None:
            while not finished.wait(_POLL):
                self._timed_out = time.monotonic() > self._deadline
                if self._cancelled.is_set() or self._timed_out:
                    for server in tuple(self._live):
                        server.stop()
                    return

        thread = threading.Thread(target=watch, daemon=True, name="cell-watch")
        thread.start()
        try:
            yield
        except Exception as error:
            if self._cancelled.is_set():
                raise CancelledError("the run was ended") from error
            if self._timed_out and not isinstance(error, StartError):
                raise GoneError(f"timed out after {self.launch.cell.timeout:g} s") from error
            raise
        finally:
            finished.set()
            thread.join()

    @contextmanager
    def server(self, *, speculative: bool) -> Iterator[OpenAiApi]:
        """One server, up and healthy; afterwards it is gone and its GPUs' memory is free.

        Raises:
            StartError: it did not come up.
            OutsideError: the GPUs' memory is held by others before it starts, or still held after it ended.
        """
        # Before as well: what another cell or program left there would look like this wheel running out of memory.
        self._check_free("the server cannot start")
        with leased_port() as port:
            yield from self._served(port, speculative=speculative)
        self._check_free("the server has ended")

    def _check_free(self, what: str) -> None:
        held = wait_until_free(self._unshared())
        if held is not None:
            raise OutsideError(f"{self.launch.cell.identifier}: {what}, and {held}", hint="nvidia-smi")

    def _unshared(self) -> tuple[Gpu, ...]:
        """The cell's GPUs, unless its other server is up on them."""
        return () if self._live else self.launch.gpus

    def _served(self, port: int, *, speculative: bool) -> Iterator[OpenAiApi]:
        launch, cell = self.launch, self.launch.cell
        argv = launch.engine.command(
            cell,
            python=str(launch.python),
            model=str(launch.model),
            drafter=str(launch.drafter) if launch.drafter else None,
            port=port,
            speculative=speculative,
        )
        extra = {**launch.engine.environment(cell), **cell.environment, **self._devices()}
        side = "with" if speculative else "without"
        log = launch.folder / f"server-{len(self.logs) + 1}-{side}-speculation.log"
        self.logs.append(log)
        self.commands.append(_shell(extra, argv))
        self._note(f"{cell.identifier}: server {side} speculation")
        began = time.monotonic()
        with (
            tempfile.TemporaryDirectory(prefix="ft-", ignore_cleanup_errors=True) as temporary,
            Server(argv, env=self._environment(extra, Path(temporary)), log=log, cwd=launch.folder) as server,
        ):
            self._live.add(server)
            try:
                api = OpenAiApi(port, cell.model, launch.engine, timeout=max(1.0, self._deadline - began))
                self._await(server, api, speculative=speculative, began=began)
                yield api
            except NetworkError:
                # A dead server is noticed by its broken connection before the guard has seen it end.
                died = not server.wait_until(lambda: False, timeout=_NOTICE, cancelled=self._cancelled)
                if died and server.returncode is not None and not self._timed_out:
                    self.died_because = cause_line(server.lines())
                raise
            finally:
                self._live.discard(server)
                server.stop()
                self.seconds += time.monotonic() - began

    def program(self, argv: Sequence[str], extra: Mapping[str, str], *, log: str) -> tuple[bool, list[str]]:
        """Run a program to its end while a server is up; it ends with the cell's time and with the run.

        Args:
            argv: its command line.
            extra: its variables, besides those that every server of the cell has.
            log: the name of its log.

        Returns:
            Whether it ended well, and what it said.

        Raises:
            CancelledError: the run was ended.
            GoneError: the time was over.
        """
        path = self.launch.folder / log
        self.logs.append(path)
        self.commands.append(_shell(extra, argv))
        with (
            tempfile.TemporaryDirectory(prefix="ft-", ignore_cleanup_errors=True) as temporary,
            Server(
                argv,
                env=cleaned_environment(extra, home=self.launch.folder / "home", temporary=Path(temporary)),
                log=path,
                cwd=self.launch.folder,
            ) as process,
        ):
            self._live.add(process)
            try:
                left = max(0.1, self._deadline - time.monotonic())
                process.wait_until(lambda: False, timeout=left, cancelled=self._cancelled)
            finally:
                self._live.discard(process)
            if self._timed_out or process.returncode is None:
                raise GoneError(f"timed out after {self.launch.cell.timeout:g} s")
            return process.returncode == 0, process.lines()

    def _await(self, server: Server, api: OpenAiApi, *, speculative: bool, began: float) -> None:
        engine, cell = self.launch.engine, self.launch.cell
        loading = False

        def follow(line: str) -> None:
            nonlocal loading
            if not loading and engine.loading_began(line):
                loading = True
                self._note(
                    f"{cell.identifier}: configuration accepted after {time.monotonic() - began:.1f} s"
                )

        timeout = max(0.1, self._deadline - time.monotonic())
        if server.wait_until(api.is_healthy, timeout=timeout, cancelled=self._cancelled, on_line=follow):
            self._note(f"{cell.identifier}: up after {time.monotonic() - began:.1f} s")
            return
        if self._cancelled.is_set():
            raise CancelledError("the run was ended")
        returncode = None if self._timed_out else server.returncode
        lines = server.lines()
        if server.program_missing:
            last = next((bare(line) for line in reversed(lines) if line.strip()), "")
            report = StartReport(kind=StartFailure.NO_PROGRAM, cause=last)
        elif any(_PORT_TAKEN in line.lower() for line in lines):
            raise OutsideError(f"{cell.identifier}: another program took the server's port", hint="--resume")
        else:
            report = explain_start(engine, lines, returncode=returncode, timeout=cell.timeout)
        raise StartError(report, speculative=speculative)

    def _environment(self, extra: Mapping[str, str], temporary: Path) -> dict[str, str]:
        env = cleaned_environment(extra, home=self.launch.folder / "home", temporary=temporary)
        # What the server starts by name must come from its own environment.
        return env | {"PATH": f"{self.launch.python.parent}:{env.get('PATH', '')}"}

    def _devices(self) -> Mapping[str, str]:
        # UUIDs, since indices change with CUDA_DEVICE_ORDER; nothing is shown to a cell without GPUs.
        return {"CUDA_VISIBLE_DEVICES": ",".join(gpu.uuid for gpu in self.launch.gpus)}


def _shell(extra: Mapping[str, str], argv: Sequence[str]) -> str:
    return " ".join(
        [*(f"{name}={shlex.quote(value)}" for name, value in sorted(extra.items())), shlex.join(argv)]
    )
