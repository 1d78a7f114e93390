"""One server process, started and ended with everything that it started."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Self

import forktool
from forktool.adapters.guard import NOT_STARTED
from forktool.adapters.process import Process, start
from forktool.adapters.state import translated
from forktool.errors import OutsideError

LOOPBACK = "127.0.0.1"
_POLL = 0.1
_END = 30.0
_LOG_LIMIT = 64 << 20
"""Bytes of a log that are looked at; a server that fills the disk with one is cut off by its reader."""


class CancelledError(OutsideError):
    """The run is being ended."""


class Server:
    """A server, under a guard that ends it with us.

    Args:
        argv: its command line.
        env: its whole environment.
        log: where its output goes, from the start of the file.
        cwd: where it runs.
    """

    def __init__(self, argv: Sequence[str], *, env: Mapping[str, str], log: Path, cwd: Path) -> None:
        self.argv = tuple(argv)
        self.log = log
        self._env = dict(env)
        self._cwd = cwd
        self._process: Process | None = None
        self._position = 0
        self._rest = b""
        self.started = 0.0

    def __enter__(self) -> Self:
        """Start it.

        Raises:
            DiskError: the log cannot be written.
        """
        guard = [sys.executable, "-P", "-m", "forktool.adapters.guard"]
        order = {"argv": self.argv, "env": self._env, "cwd": str(self._cwd)}
        package = str(Path(forktool.__file__).parents[1])
        with translated(f"cannot write {self.log}"):
            self.log.parent.mkdir(parents=True, exist_ok=True)
            stream = self.log.open("wb")
        with stream:
            self.started = time.monotonic()
            self._process = process = start(
                guard,
                env={**os.environ, "PYTHONPATH": package},
                stdout=stream,
                stderr=stream,
                new_session=True,
            )
        if process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                process.stdin.write(json.dumps(order).encode() + b"\n")
                process.stdin.flush()
        return self

    def __exit__(self, *_: object) -> None:
        """End it and all its descendants."""
        self.stop()

    @property
    def returncode(self) -> int | None:
        """How it ended, negative for a signal; None while it runs."""
        if self._process is None:
            return None
        code = self._process.poll()
        return code if code is None or code <= 128 else 128 - code

    @property
    def program_missing(self) -> bool:
        """Whether the command itself could not be started."""
        return self.returncode == NOT_STARTED

    def wait_until(
        self,
        ready: Callable[[], bool],
        *,
        timeout: float,
        cancelled: threading.Event,
        on_line: Callable[[str], None] = lambda _line: None,
    ) -> bool:
        """Wait for it to be ready, following its log.

        Returns:
            Whether it is ready; False when it ended or its time is over, and `returncode` tells which.

        Raises:
            CancelledError: the run is being ended.
        """
        deadline = time.monotonic() + timeout
        while True:
            for line in self.new_lines():
                on_line(line)
            if cancelled.is_set():
                raise CancelledError("the run was ended")
            if self.returncode is not None:
                return False
            if ready():
                return True
            if time.monotonic() >= deadline:
                return False
            cancelled.wait(_POLL)

    def new_lines(self) -> Iterator[str]:
        """The log's lines since the last call, without the one that is not finished."""
        try:
            with self.log.open("rb") as stream:
                stream.seek(self._position)
                chunk = stream.read(1 << 20)
        except OSError:
            return
        self._position += len(chunk)
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        for line in lines:
            yield line.decode("utf-8", "replace")

    def lines(self) -> list[str]:
        """The whole log."""
        try:
            with self.log.open("rb") as stream:
                return stream.read(_LOG_LIMIT).decode("utf-8", "replace").splitlines()
        except OSError:
            return []

    def stop(self) -> None:
        """End it and all its descendants, and wait until they are gone.

        Raises:
            OutsideError: the guard itself does not end; nothing more can be done from here.
        """
        process = self._process
        if process is None:
            return
        if process.stdin is not None:
            with contextlib.suppress(OSError):
                process.stdin.close()
        deadline = time.monotonic() + _END
        while process.poll() is None:
            if time.monotonic() > deadline:
                process.kill()
                raise OutsideError(
                    f"process {process.pid}, which guards a server, does not end",
                    hint=f"kill -9 -{process.pid}",
                )
            time.sleep(_POLL / 4)


@contextmanager
def leased_port() -> Iterator[int]:
    """A loopback port that nobody listens on, and that no other forktool on this machine is given until the end.

    A server may bind it long after it was started, and vLLM's shares it with anybody (SO_REUSEPORT): two cells on one
    port would answer each other's questions. On Linux the lease is a name in the abstract socket namespace (unix(7)),
    which the kernel takes back however we end.
    """
    while True:
        with socket.socket() as probe:
            probe.bind((LOOPBACK, 0))
            port = int(probe.getsockname()[1])
        with socket.socket(socket.AF_UNIX) as lease:
            if sys.platform == "linux":
                try:
                    lease.bind(f"\0forktool-port-{port}")
                except OSError:
                    continue
            yield port
            return


def cleaned_environment(extra: Mapping[str, str], *, home: Path, temporary: Path) -> dict[str, str]:
    """Our environment for a server: without what would make a result depend on the caller's shell.

    Args:
        extra: the cell's own variables; they win.
        home: a folder of the cell's own, for caches.
        temporary: one for sockets and temporary files. Its path must be short: a Unix socket's may have 107 characters.
    """
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("VLLM_", "SGLANG_", "PYTHON", "PIP_", "UV_")) and name != "VIRTUAL_ENV"
    }
    for name, path in (("TMPDIR", temporary), ("XDG_CACHE_HOME", home / "cache")):
        path.mkdir(parents=True, exist_ok=True)
        kept[name] = str(path)
    kept["NO_PROXY"] = kept["no_proxy"] = "127.0.0.1,localhost"
    return kept | dict(extra)
