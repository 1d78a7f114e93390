"""Overlay of a published wheel against `cp`, and against `wheel unpack` and `wheel pack`.

    python benchmarks/wheel.py WHEEL [--quick] [--folder DIR]

Medians of 5 with a warm page cache; a new file each time. `--quick` leaves out the peer that takes minutes.
Needs the project `wheel` for that peer.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

RUNS = 5
MEMBER = "vllm/config/speculative.py"
# In a process of its own, so that the peak of memory is the overlay's. Imports are outside the time, as they are
# paid once a command; the time of a whole `forktool wheel` is another question.
CHILD = """
import json, resource, sys, time, zipfile
from pathlib import Path
from packaging.version import Version
from forktool.adapters.wheel_overlay import overlay
from forktool.core.wheel_names import parse_wheel_name
source, folder, fsync, digest, member = Path(sys.argv[1]), Path(sys.argv[2]), *map(int, sys.argv[3:5]), sys.argv[5]
with zipfile.ZipFile(source) as archive:
    content = archive.read(member) + b"\\n# patched\\n"
version = Version(f"{parse_wheel_name(source.name).version.public}+bench.1")
start = time.perf_counter()
overlay(source, folder, changes={member: content}, version=version, fsync=bool(fsync), digest=bool(digest))
took = time.perf_counter() - start
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
print(json.dumps([took, peak]))
"""


def main() -> int:
    """Measure and print; 1 where a figure that the project promises is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--quick", action="store_true", help="without wheel unpack and pack")
    parser.add_argument("--folder", type=Path, help="where to write (default: beside the wheel)")
    parser.add_argument("--member", default=MEMBER, help="the member that is changed")
    arguments = parser.parse_args()
    source: Path = arguments.wheel.resolve()
    with tempfile.TemporaryDirectory(dir=arguments.folder or source.parent) as scratch:
        return Bench(source, Path(scratch), arguments.member).run(quick=arguments.quick)


class Bench:
    """The ways to make the wheel, timed in turns so that a busy machine hurts all of them alike."""

    def __init__(self, source: Path, scratch: Path, member: str) -> None:
        self.source = source
        self.scratch = scratch
        self.member = member
        self.peak = 0

    def run(self, *, quick: bool) -> int:
        """Measure everything."""
        ways: dict[str, Callable[[Path], float]] = {
            "cp": lambda folder: self._copy(folder, fsync=False),
            "overlay": lambda folder: self._overlay(folder, fsync=False, digest=False),
            "overlay and sha256": lambda folder: self._overlay(folder, fsync=False, digest=True),
            "cp, fsync": lambda folder: self._copy(folder, fsync=True),
            "overlay, fsync": lambda folder: self._overlay(folder, fsync=True, digest=False),
            "overlay and sha256, fsync": lambda folder: self._overlay(folder, fsync=True, digest=True),
        }
        times: dict[str, list[float]] = {name: [] for name in ways}
        shutil.copyfile(self.source, self.scratch / "warm")
        for number in range(RUNS):
            for name, way in ways.items():
                folder = self.scratch / f"{number}-{name}"
                folder.mkdir()
                os.sync()
                times[name].append(way(folder))
                shutil.rmtree(folder)
        median = {name: statistics.median(found) for name, found in times.items()}
        print(f"{self.source.name}, {self.source.stat().st_size / 1e6:.0f} MB, medians of {RUNS}")
        for name, seconds in median.items():
            peer = "cp, fsync" if name.endswith("fsync") else "cp"
            print(f"  {name:<26} {seconds:7.3f} s  {seconds / median[peer]:5.2f} x {peer}")
        print(f"  peak memory of overlay     {self.peak / (1 << 20):7.1f} MiB")
        promises = {
            "2.5 x cp": median["overlay"] <= 2.5 * median["cp"],
            "1.5 x cp with fsync": median["overlay, fsync"] <= 1.5 * median["cp, fsync"],
            "64 MiB": self.peak <= 64 << 20,
        }
        if not quick:
            peer_seconds = self._unpack_and_pack()
            print(
                f"  wheel unpack, wheel pack   {peer_seconds:7.1f} s  {peer_seconds / median['overlay']:5.0f} x overlay"
            )
            promises["100 x faster than wheel unpack and pack"] = peer_seconds >= 100 * median["overlay"]
        for promise, kept in promises.items():
            print(f"  {'kept' if kept else 'MISSED'}: {promise}")
        return 0 if all(promises.values()) else 1

    def _copy(self, folder: Path, *, fsync: bool) -> float:
        target = folder / self.source.name
        start = time.perf_counter()
        subprocess.run(["cp", self.source, target], check=True)
        if fsync:
            with target.open("rb") as stream:
                os.fsync(stream.fileno())
        return time.perf_counter() - start

    def _overlay(self, folder: Path, *, fsync: bool, digest: bool) -> float:
        command = [
            sys.executable,
            "-c",
            CHILD,
            self.source,
            folder,
            str(int(fsync)),
            str(int(digest)),
            self.member,
        ]
        # A shell stands between: a child's peak begins with the size of the process that started it.
        done = subprocess.run(["sh", "-c", '"$0" "$@"; exit $?', *command], check=True, capture_output=True)
        took, peak = json.loads(done.stdout)
        self.peak = max(self.peak, peak)
        return float(took)

    def _unpack_and_pack(self) -> float:
        folder = self.scratch / "peer"
        folder.mkdir()
        wheel = [sys.executable, "-m", "wheel"]
        start = time.perf_counter()
        subprocess.run(
            [*wheel, "unpack", "--dest", folder, self.source], check=True, stdout=subprocess.DEVNULL
        )
        unpacked = next(folder.iterdir())
        with (unpacked / self.member).open("ab") as stream:
            stream.write(b"\n# patched\n")
        subprocess.run(
            [*wheel, "pack", "--dest-dir", folder, unpacked], check=True, stdout=subprocess.DEVNULL
        )
        took = time.perf_counter() - start
        # Both hold the same, or the comparison is worth nothing.
        with zipfile.ZipFile(next(folder.glob("*.whl"))) as archive:
            assert archive.read(self.member).endswith(b"# patched\n")
        return took


if __name__ == "__main__":
    sys.exit(main())
