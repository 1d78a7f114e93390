"""Slurm's own commands: sbatch, squeue, scontrol, sacct and scancel.

Called directly, since a wrapper that asks accounting for states says UNKNOWN for every job on a cluster without it.
Options and states: https://slurm.schedmd.com/sbatch.html and squeue.html.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NewType

from forktool.adapters.process import run
from forktool.errors import OutsideError, RequestError, ToolMissingError

JobId = NewType("JobId", str)
_TIMEOUT = 60.0

ENDED = frozenset(
    {
        "COMPLETED",
        "FAILED",
        "CANCELLED",
        "TIMEOUT",
        "NODE_FAIL",
        "OUT_OF_MEMORY",
        "BOOT_FAIL",
        "DEADLINE",
        "PREEMPTED",
        "REVOKED",
        "GONE",
    }
)
"""States in which a job does nothing more, unless it is requeued; GONE is ours: Slurm has forgotten it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class JobState:
    """A job's state in Slurm's words, why it waits or ended, and where it runs."""

    state: str
    reason: str = ""
    nodes: str = ""

    @property
    def ended(self) -> bool:
        """Whether it does nothing more."""
        return self.state in ENDED


@dataclass(frozen=True, kw_only=True, slots=True)
class JobRequest:
    """What is asked of Slurm: `argv` runs on one node, with `gpus` GPUs, `minutes` at most, `memory` in GiB or 0."""

    name: str
    argv: Sequence[str]
    folder: Path
    gpus: int
    minutes: int
    memory: float = 0.0
    constraint: str | None = None
    partition: str | None = None


def submit(request: JobRequest) -> JobId:
    """Hand a job to Slurm. It may be requeued, when its node dies; what it runs must bear to be run again.

    Raises:
        RequestError: Slurm will never run it so: more GPUs than a node has, an unknown constraint or partition.
        ToolMissingError: there is no sbatch.
        OutsideError: Slurm does not answer.
    """
    options = [
        "--parsable",
        "--requeue",
        "--open-mode=append",
        f"--job-name={request.name}",
        f"--chdir={request.folder}",
        f"--output={request.folder / 'job.log'}",
        f"--time={request.minutes}",
        "--nodes=1",
        "--ntasks=1",
        # The batch script is told two minutes before the end, so that it can end its servers and say so.
        "--signal=B:TERM@120",
    ]
    options += [f"--gres=gpu:{request.gpus}"] if request.gpus else []
    options += [f"--mem={int(request.memory * 1024)}M"] if request.memory else []
    options += [f"--constraint={request.constraint}"] if request.constraint else []
    options += [f"--partition={request.partition}"] if request.partition else []
    script = f"#!/bin/sh\nexec {shlex.join(request.argv)}\n"
    answer = _call(["sbatch", *options], stdin=script.encode())
    # With several clusters the answer is "ID;CLUSTER".
    return JobId(answer.strip().splitlines()[-1].partition(";")[0])


def states(jobs: Iterable[JobId]) -> dict[JobId, JobState]:
    """The state of each job.

    Slurm forgets ended jobs after MinJobAge (300 s by default) where nothing accounts for them; such a job is GONE.

    Raises:
        ToolMissingError, OutsideError: Slurm does not answer.
    """
    wanted = tuple(jobs)
    if not wanted:
        return {}
    found: dict[JobId, JobState] = {}
    listing = _call(["squeue", "--noheader", "--me", "--states=all", "--format=%i|%T|%r|%N"])
    for line in listing.splitlines():
        parts = line.strip().split("|")
        if len(parts) == 4 and JobId(parts[0]) in wanted:
            found[JobId(parts[0])] = JobState(state=parts[1], reason=parts[2], nodes=parts[3])
    for job in wanted:
        if job not in found:
            found[job] = _accounted(job) or JobState(state="GONE", reason="Slurm does not know it any more")
    return found


def _accounted(job: JobId) -> JobState | None:
    try:
        done = run(
            [
                "sacct",
                "--noheader",
                "--parsable2",
                "--allocations",
                f"--jobs={job}",
                "--format=State,Reason,NodeList",
            ],
            timeout=_TIMEOUT,
        )
    except ToolMissingError:
        return None
    line = done.stdout.decode("utf-8", "replace").strip().partition("\n")[0]
    if done.returncode or line.count("|") != 2:
        return None
    state, reason, nodes = line.split("|")
    return JobState(state=state.split()[0], reason=reason, nodes=nodes)


def cancel(jobs: Iterable[JobId]) -> None:
    """End jobs; those that have ended already are passed over.

    Raises:
        ToolMissingError, OutsideError: Slurm does not answer.
    """
    wanted = tuple(jobs)
    if wanted:
        _call(["scancel", "--quiet", *wanted])


def _call(argv: Sequence[str], *, stdin: bytes = b"") -> str:
    try:
        done = run(argv, stdin=stdin, timeout=_TIMEOUT)
    except ToolMissingError as error:
        raise ToolMissingError(
            f"{argv[0]} is not installed: this is no Slurm machine", hint="--runner local"
        ) from error
    if done.returncode:
        text = done.last_line.removeprefix(f"{argv[0]}: ").removeprefix("error: ")
        if any(word in text for word in _NEVER):
            raise RequestError(f"Slurm refuses the job: {text}", hint="sinfo -o '%P %f %G'")
        raise OutsideError(f"{argv[0]}: {text}", hint="scontrol ping")
    return done.stdout.decode("utf-8", "replace")


_NEVER = (
    "Requested node configuration is not available",
    "Invalid feature specification",
    "invalid partition specified",
    "Invalid generic resource",
    "Invalid account",
    "Memory specification can not be satisfied",
)
