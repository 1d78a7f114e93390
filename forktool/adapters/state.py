"""The state folder: what can be made again, the rebase in progress, and the lock."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from forktool.adapters.process import held_by_git
from forktool.errors import DiskError, LockedError

_ORPHAN_WAIT_S = 5.0

_README = """\
forktool's state. Nothing in here is the truth; that is in patchset/.

May be deleted at any time when no forktool runs: it is downloaded or computed again.
  upstream.git/    upstream's trees, and the commits of the series on its base
  downloads/       archives and wheels, kept by their sha256
  index/           what the package index listed, and when
  history/         what was read of upstream's history, by base, tags and paths
  probes/          results of probes, by the content they read
  build/           source builds of wheels: their trees and logs
Deleting these loses work in progress:
  rebase.json      the rebase that stopped (`forktool rebase --continue | --abort`)
  conflict/        the work tree of its conflict
  resolutions/     how its conflicts were settled so far
  write/           a patchset half-way to its new state; the next command finishes it
logs/ holds the traceback of each bug and the output of each cell.
"""


def state_home(patchset: Path) -> Path:
    """The state folder: FORKTOOL_HOME, else `.forktool/` beside the patchset."""
    named = os.environ.get("FORKTOOL_HOME")
    return Path(named) if named else patchset.resolve().parent / ".forktool"


@contextmanager
def translated(action: str) -> Iterator[None]:
    """Turn a file system's refusal into one line: `action` says what was being done, with its path.

    Raises:
        DiskError: for every OSError.
    """
    try:
        yield
    except OSError as error:
        hints = {
            errno.ENOSPC: "free some space, or set FORKTOOL_HOME to a larger disk",
            errno.EDQUOT: "free some space, or set FORKTOOL_HOME to a larger disk",
            errno.EROFS: "set FORKTOOL_HOME to a folder that can be written",
            errno.EACCES: "set FORKTOOL_HOME to a folder that can be written",
        }
        reason = error.strerror or str(error)
        raise DiskError(f"{action}: {reason}", hint=hints.get(error.errno or 0)) from error


def write_atomically(path: Path, content: bytes, *, temporary: Path | None = None) -> None:
    """Replace a file so that a reader sees the old bytes or the new ones, also after a crash.

    Args:
        path: the file.
        content: its new bytes.
        temporary: where they are written first, beside it. The same name each time leaves nothing behind when a
            write that was killed is repeated; it needs a lock. By default a name of its own each time.

    Raises:
        DiskError: the file system refused; the old file is unchanged and no temporary file is left.
    """
    with translated(f"cannot write {path}"):
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = temporary or path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
        try:
            with temporary.open("wb") as stream:
                stream.write(content)
                stream.flush()
                os.fsync(stream.fileno())
            temporary.replace(path)
        except BaseException:
            with contextlib.suppress(OSError):
                temporary.unlink()
            raise


class State:
    """The state folder `home`; made when something is first put there."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.is_locked = False

    def directory(self, *parts: str) -> Path:
        """A folder inside, made if it is not there.

        Raises:
            DiskError: it cannot be made.
        """
        path = self.home.joinpath(*parts)
        with translated(f"cannot use the state folder {self.home}"):
            if not (self.home / ".gitignore").exists():
                self.home.mkdir(parents=True, exist_ok=True)
                (self.home / "README").write_text(_README, encoding="utf-8")
                (self.home / ".gitignore").write_text("*\n", encoding="utf-8")
            path.mkdir(parents=True, exist_ok=True)
        return path

    def write(self, path: Path, content: bytes) -> None:
        """Write a file of the state atomically; see `write_atomically`."""
        self.directory()
        write_atomically(path, content)

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the state for one command.

        The kernel lets go when the process ends, however it ends, and with it every git that it started.

        Raises:
            LockedError: another forktool holds it.
        """
        path = self.directory() / "lock"
        with translated(f"cannot lock {path}"):
            stream = path.open("a+b")
        with stream:
            self._wait_for(stream)
            stream.truncate(0)
            stream.write(f"process {os.getpid()}\n".encode())
            stream.flush()
            self.is_locked = True
            try:
                with held_by_git(stream.fileno()):
                    yield
            finally:
                self.is_locked = False

    def _wait_for(self, stream: IO[bytes]) -> None:
        """Lock now; where the owner was killed, wait a little for the git that it left to end."""
        until = time.monotonic() + _ORPHAN_WAIT_S
        while True:
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                stream.seek(0)
                owner = stream.read().decode("utf-8", "replace").strip()
                if _is_gone(owner) and time.monotonic() < until:
                    time.sleep(0.02)
                    continue
                left = f"a git that {owner} left running" if _is_gone(owner) else owner or "another process"
                raise LockedError(
                    f"{self.home} is in use by {left}", hint="wait for it, or set FORKTOOL_HOME"
                ) from error
            return


def _is_gone(owner: str) -> bool:
    number = owner.removeprefix("process ")
    if not number.isdigit():
        return False
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return False
