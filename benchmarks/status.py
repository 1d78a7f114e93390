"""`status --onto v0.16.0..v0.33.0`: the real series on every release, cold and warm."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from benchmarks.measure import Contestant, compare, show
from benchmarks.workshop import FORKTOOL, ROOT

_SPAN = "v0.16.0..v0.33.0"


def run(folder: Path, arguments: list[str]) -> None:
    """Print one table, what a warm run judged and started, and the bytes that a cold run fetched."""
    del arguments
    project = folder / "status"

    def fresh() -> None:
        shutil.rmtree(project, ignore_errors=True)
        shutil.copytree(ROOT / "patchset", project / "patchset")

    command = [*FORKTOOL, "--quiet", "status", "--onto", _SPAN]
    cold = compare([Contestant(name="cold", command=command, cwd=project, prepare=fresh)], runs=3)
    kept = sum(file.stat().st_size for file in (project / ".forktool").rglob("*") if file.is_file())
    warm = compare([Contestant(name="warm", command=command, cwd=project)])
    show(f"status --onto {_SPAN}", {**cold, **warm}, ours="warm")
    verbose = [*FORKTOOL, "--verbose", "status", "--onto", _SPAN]
    said = subprocess.run(
        verbose, cwd=project, capture_output=True, text=True, check=True
    ).stderr.splitlines()
    print(f"  {next(line for line in said if line.startswith('judged '))}")
    print(f"  {sum(line.startswith('$ ') for line in said)} processes started")
    print(f"  the state folder after a cold run: {kept / 1e6:.1f} MB")
