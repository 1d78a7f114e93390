"""`python -m benchmarks [NAME [ARGUMENT …]]`: one benchmark with its arguments, or all of the quick ones."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

from benchmarks import absorption, backports, rebase, scale, series, status, wheel

BENCHMARKS: dict[str, Callable[[Path, list[str]], None]] = {
    "absorption": absorption.run,
    "backports": backports.run,
    "rebase": rebase.run,
    "scale": scale.run,
    "cold": rebase.cold,
    "series": series.run,
    "status": status.run,
    "wheel": wheel.run,
}

ON_REQUEST = ("absorption", "backports", "scale")
"""These need to be told which repository they are to measure, or take long."""


def main(argv: list[str]) -> None:
    """Run what is asked for."""
    folder = Path(os.environ.get("FORKTOOL_BENCH", ".forktool/bench")).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    if argv and argv[0] not in BENCHMARKS:
        raise SystemExit(f"no benchmark is called {argv[0]}; there are: {', '.join(BENCHMARKS)}")
    for name in argv[:1] or [name for name in BENCHMARKS if name not in ON_REQUEST]:
        BENCHMARKS[name](folder, argv[1:])


main(sys.argv[1:])
