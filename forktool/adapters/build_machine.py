"""What this machine has for a source build."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable

from packaging.version import Version

from forktool.adapters import process
from forktool.core.wheel_plan import BuildMachine

_RELEASE = re.compile(rb"release (\d+\.\d+)")


def this_machine(programs: Iterable[str]) -> BuildMachine:
    """Cores and memory that this process may use, CUDA's version, and which of the programs are on PATH."""
    return BuildMachine(
        cores=_cores(),
        memory=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        programs=frozenset(name for name in programs if shutil.which(name) is not None),
        cuda=_cuda(),
    )


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _cuda() -> Version | None:
    """CUDA's version as nvcc states it: `Cuda compilation tools, release 13.0, V13.0.48`."""
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        return None
    done = process.run([nvcc, "--version"], timeout=30)
    found = _RELEASE.search(done.stdout)
    return Version(found[1].decode()) if done.returncode == 0 and found else None
