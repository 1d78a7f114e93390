"""Scratch folders that do not outlive their process for long, however it ends.

Each is locked by the process that made it. A process that is killed lets go of its lock and leaves the folder; the
next one that makes a folder there removes it. A process id would say less: another container may share /dev/shm.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from pathlib import Path

_PREFIX = "forktool-objects.lock-"
"""Another prefix than that of the versions that did not lock theirs."""


def make_scratch(parent: Path | None) -> tuple[Path, int]:
    """A new folder, and the descriptor that locks it: close it when the folder is gone.

    Args:
        parent: where; None leaves it to TMPDIR.

    Raises:
        OSError: the file system refused.
    """
    parent = parent or Path(tempfile.gettempdir())
    _sweep(parent)
    # Locked under a name that no sweep looks at: between making and locking nobody may take it for abandoned.
    made = Path(tempfile.mkdtemp(prefix=".forktool-objects-", dir=parent))
    descriptor = os.open(made, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    with contextlib.suppress(OSError):  # a file system without such locks: the folder keeps its first name
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        made = made.rename(parent / f"{_PREFIX}{made.name.rpartition('-')[2]}")
    return made, descriptor


def _sweep(parent: Path) -> None:
    """Remove our folders that nobody holds."""
    for folder in parent.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            if folder.is_symlink() or folder.stat().st_uid != os.getuid():
                continue
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(descriptor)
