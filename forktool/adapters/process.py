"""Starting other programs: the only import of `subprocess`.

Every start is logged at DEBUG as a shell line, which `-v` shows.
"""

from __future__ import annotations

import logging
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from forktool.errors import OutsideError, ToolMissingError

Process = subprocess.Popen[bytes]
FailedError = subprocess.CalledProcessError
"""What libraries raise that start programs themselves."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class Completed:
    """How a program ended; `returncode` is negative for a signal."""

    argv: tuple[str, ...]
    returncode: int
    stdout: bytes
    stderr: bytes

    @property
    def last_line(self) -> str:
        """The last line of stderr that says anything, else of stdout."""
        for stream in (self.stderr, self.stdout):
            lines = stream.decode("utf-8", "replace").strip().splitlines()
            if lines:
                return lines[-1].strip()
        return f"exit status {self.returncode}"


def start(
    argv: Sequence[str | Path],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    stdin: int | IO[bytes] | None = subprocess.PIPE,
    stdout: int | IO[bytes] | None = subprocess.PIPE,
    stderr: int | IO[bytes] | None = subprocess.PIPE,
    new_session: bool = False,
) -> Process:
    """Start a program and leave it running; the caller waits for it.

    Raises:
        ToolMissingError: the program is not on PATH.
    """
    command = [str(word) for word in argv]
    _log.debug("$ %s", shlex.join(command))
    try:
        return subprocess.Popen(
            command,
            cwd=cwd,
            env=dict(env) if env is not None else None,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            start_new_session=new_session,
        )
    except FileNotFoundError as error:
        if cwd is not None and not cwd.is_dir():
            raise OutsideError(f"{cwd} is not a folder: {command[0]} cannot run there") from error
        raise ToolMissingError(
            f"{command[0]} is not installed", hint=f"install {command[0]} and put it on PATH"
        ) from error
    except PermissionError as error:
        raise ToolMissingError(f"{command[0]} cannot be executed: {error.strerror}") from error


def run(
    argv: Sequence[str | Path],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    stdin: bytes = b"",
    timeout: float | None = None,
) -> Completed:
    """Run a program to its end; its exit status is the caller's to judge.

    Args:
        argv: the program and its arguments; no shell is involved.
        cwd: where it runs.
        env: its whole environment; None hands on ours.
        stdin: what it reads.
        timeout: seconds before it is killed.

    Raises:
        ToolMissingError: the program is not on PATH.
        OutsideError: it took longer than `timeout`.
    """
    process = start(argv, cwd=cwd, env=env)
    with process:
        try:
            stdout, stderr = process.communicate(stdin, timeout=timeout)
        except subprocess.TimeoutExpired as error:
            process.kill()
            raise OutsideError(f"{argv[0]} did not end within {timeout:g} s and was killed") from error
        except BaseException:
            process.kill()
            raise
    return Completed(
        argv=tuple(str(word) for word in argv), returncode=process.returncode, stdout=stdout, stderr=stderr
    )
