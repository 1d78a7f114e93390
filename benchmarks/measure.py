"""Timing whole processes, and saying how they compare."""

from __future__ import annotations

import contextlib
import os
import resource
import statistics
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

_LOOK_EVERY_S = 0.02
_PAGES_A_MIB = 1024 * 1024 / resource.getpagesize()


@dataclass(frozen=True, slots=True)
class Sample:
    """Wall and processor seconds of each counted run, and the largest peak memory in MiB.

    The peak is that of the process and everything it started, together, as seen fifty times a second.
    """

    seconds: tuple[float, ...]
    cpu_seconds: tuple[float, ...]
    peak_mib: float

    @property
    def median(self) -> float:
        """The median of the wall seconds."""
        return statistics.median(self.seconds)

    @property
    def cpu_median(self) -> float:
        """The median of the processor seconds, user and system, children included."""
        return statistics.median(self.cpu_seconds)


@dataclass(frozen=True, kw_only=True, slots=True)
class Contestant:
    """One way of doing the work. `prepare` runs before each run and is not timed."""

    name: str
    command: Sequence[str | Path]
    cwd: Path
    prepare: Callable[[], None] = lambda: None
    environment: dict[str, str] | None = None
    expected: tuple[int, ...] = (0,)


def compare(contestants: Sequence[Contestant], *, runs: int = 5, warm_up: bool = True) -> dict[str, Sample]:
    """Run the contestants in turn, `runs` counted rounds after one warm-up: drift of the machine hits all alike."""
    seconds: dict[str, list[float]] = {contestant.name: [] for contestant in contestants}
    cpu: dict[str, list[float]] = {contestant.name: [] for contestant in contestants}
    peaks: dict[str, float] = {contestant.name: 0.0 for contestant in contestants}
    for round_number in range(0 if warm_up else 1, runs + 1):
        for contestant in contestants:
            contestant.prepare()
            elapsed, usage, peak = _run(contestant)
            if round_number:
                seconds[contestant.name].append(elapsed)
                cpu[contestant.name].append(usage.ru_utime + usage.ru_stime)
                peaks[contestant.name] = max(peaks[contestant.name], peak)
    return {name: Sample(tuple(values), tuple(cpu[name]), peaks[name]) for name, values in seconds.items()}


def _run(contestant: Contestant) -> tuple[float, resource.struct_rusage, float]:
    begin = time.perf_counter()
    with subprocess.Popen(
        [str(word) for word in contestant.command],
        cwd=contestant.cwd,
        env={**os.environ, **(contestant.environment or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as process:
        with _watched(process.pid) as peak:
            output = process.stdout.read() if process.stdout else b""
        _pid, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    elapsed = time.perf_counter() - begin
    if process.returncode not in contestant.expected:
        tail = output.decode("utf-8", "replace")[-800:]
        raise SystemExit(f"{contestant.name} ended with {process.returncode}:\n{tail}")
    return elapsed, usage, max(peak[0], usage.ru_maxrss / 1024)


@contextlib.contextmanager
def _watched(pid: int) -> Iterator[list[float]]:
    """Look at the memory of a process and its descendants; gives the largest sum in MiB. Linux only, else 0."""
    peak, over = [0.0], threading.Event()

    def look() -> None:
        while not over.wait(_LOOK_EVERY_S):
            peak[0] = max(peak[0], _resident(pid))

    watcher = threading.Thread(target=look, daemon=True)
    watcher.start()
    try:
        yield peak
    finally:
        over.set()
        watcher.join()


def _resident(pid: int) -> float:
    """What a process and its descendants hold in memory now, in MiB (proc_pid_statm(5), proc_tid_children(5))."""
    total = 0.0
    with contextlib.suppress(OSError):
        total = int(Path(f"/proc/{pid}/statm").read_text().split()[1]) / _PAGES_A_MIB
        for task in Path(f"/proc/{pid}/task").iterdir():
            total += sum(_resident(int(child)) for child in (task / "children").read_text().split())
    return total


def show(title: str, samples: dict[str, Sample], *, ours: str, goals: dict[str, float] | None = None) -> None:
    """Print one table: medians, spread, peak memory, and the ratio of ours to each peer."""
    print(f"\n{title}")
    print(f"  {'':<26} {'median s':>9} {'min':>8} {'max':>8} {'cpu s':>8} {'MiB':>6}  ours/it  cpu")
    mine = samples[ours]
    for name, sample in samples.items():
        ratio = ""
        if name != ours:
            ratio = f"{mine.median / sample.median:>6.2f}x {mine.cpu_median / sample.cpu_median:>5.2f}x"
        goal = f"  (goal <= {goals[name]:g}x)" if goals and name in goals else ""
        low, high = min(sample.seconds), max(sample.seconds)
        print(
            f"  {name:<26} {sample.median:>9.3f} {low:>8.3f} {high:>8.3f} {sample.cpu_median:>8.3f} "
            f"{sample.peak_mib:>6.0f}  {ratio}{goal}"
        )


def git(folder: Path, *args: str, stdin: bytes | None = None) -> str:
    """Run git with a fixed identity and return its stdout."""
    settings = ("-c", "user.name=bench", "-c", "user.email=bench@example.org", "-c", "gc.auto=0")
    done = subprocess.run(["git", *settings, *args], cwd=folder, input=stdin, capture_output=True, check=True)
    return done.stdout.decode("utf-8", "surrogateescape").strip()


IDENTITY = {
    f"GIT_{role}_{key}": value
    for role in ("AUTHOR", "COMMITTER")
    for key, value in (("NAME", "bench"), ("EMAIL", "bench@example.org"))
}
