"""A parent for a server that outlives nobody: run as `python -m forktool.adapters.guard`.

Its standard input is a pipe whose other end forktool holds; the first line on it is a JSON object with `argv`, `env`
and `cwd`. However forktool ends (at the end of a cell, on Ctrl-C, by SIGKILL) the kernel closes that end, and the guard
then ends the server's whole group, and whatever left that group: on Linux it is the reaper of all its descendants
(prctl(2), PR_SET_CHILD_SUBREAPER), so none can slip away to init. It ends as the server ended, 128 + N for signal N.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import signal
import sys
import time
from pathlib import Path

from forktool.adapters.process import Process, start
from forktool.errors import ForktoolError

_SUBREAPER = 36
"""PR_SET_CHILD_SUBREAPER of linux/prctl.h."""
_GRACE = 8.0
_POLL = 0.1
NOT_STARTED = 127


def main() -> int:
    """Run a command until it ends or standard input does."""
    order = json.loads(sys.stdin.buffer.readline())
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_SUBREAPER, 1, 0, 0, 0)
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        # A handler, not SIG_IGN: that would be inherited by the server.
        signal.signal(number, lambda *_: None)
    try:
        process = start(
            order["argv"],
            cwd=Path(order["cwd"]),
            env=order["env"],
            stdin=os.open(os.devnull, os.O_RDONLY),
            stdout=None,
            stderr=None,
            new_session=True,
        )
    except ForktoolError as error:
        sys.stderr.write(f"{error.message}\n")
        return NOT_STARTED
    while process.poll() is None:
        readable, _, _ = select.select([0], [], [], _POLL)
        if readable and not os.read(0, 1):
            break
    _end_group(process)
    _end_the_rest()
    code = process.returncode if process.returncode is not None else -signal.SIGKILL
    return code if code >= 0 else 128 - code


def _end_group(process: Process) -> None:
    for number, patience in ((signal.SIGTERM, _GRACE), (signal.SIGKILL, _GRACE)):
        if process.poll() is not None and not _group_lives(process.pid):
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, number)
        deadline = time.monotonic() + patience
        while time.monotonic() < deadline and (process.poll() is None or _group_lives(process.pid)):
            time.sleep(_POLL / 2)
            _reap(process)


def _group_lives(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def _end_the_rest() -> None:
    """End what left the group; on Linux it is our child by now, or becomes so when its parent ends."""
    deadline = time.monotonic() + _GRACE
    while time.monotonic() < deadline:
        children = _children()
        if not children:
            return
        for child in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        _reap(None)
        time.sleep(_POLL / 2)


def _children() -> list[int]:
    tasks = Path(f"/proc/self/task/{os.getpid()}/children")
    try:
        return [int(word) for word in tasks.read_text(encoding="ascii").split()]
    except (OSError, ValueError):
        return []


def _reap(besides: Process | None) -> None:
    """Collect ended descendants; the server itself is left to its own object, which wants its status."""
    for child in _children():
        if besides is None or child != besides.pid:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(child, os.WNOHANG)


if __name__ == "__main__":
    sys.exit(main())
