"""Running probes, and remembering what they said.

A probe sees nothing but the tree it is given, so its answer is a function of its own text, of the files it read and
of the Python it runs in. Answers are kept under that key: a warm run starts no pytest, which alone takes 0.4 s. The
answer of a probe that was seen to look elsewhere is not kept.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import sysconfig
import tempfile
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from forktool.adapters import process
from forktool.adapters.git_store import sealed_environment
from forktool.adapters.state import State, translated
from forktool.core.series import PatchName
from forktool.core.tree import SourceTree
from forktool.core.verdict import ProbeColour
from forktool.errors import OutsideError, PatchsetError

_SILENCE_LIMIT_S = 60.0
"""A probe that neither reads nor answers for this long hangs: they take milliseconds."""
_START_LIMIT_S = 120.0
"""What Python and pytest may take to start on a busy machine, before any probe runs."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ProbeResult:
    """What one probe said of one tree; `detail` is the failed assertion in one line."""

    colour: ProbeColour
    detail: str = ""


@dataclass(frozen=True, kw_only=True)
class ProbeJob:
    """One probe on one tree."""

    name: PatchName
    file: Path
    tree: SourceTree
    reads: dict[str, str | None] = field(default_factory=dict)


ABSENT = ProbeResult(colour=ProbeColour.ABSENT)


class Probes:
    """The probes of a patchset, by patch.

    Args:
        files: the probe file of each patch that has one.
        state: where answers are kept; None keeps nothing.
    """

    def __init__(self, files: Mapping[PatchName, Path], state: State) -> None:
        self._files = files
        self._state = state
        self._known: dict[PatchName, list[dict[str, object]]] = {}
        self._keys: dict[PatchName, str] = {}

    def run(
        self, wanted: Iterable[tuple[PatchName, SourceTree]]
    ) -> dict[tuple[PatchName, SourceTree], ProbeResult]:
        """Ask each probe about its tree; a patch without a probe is `ABSENT`.

        Raises:
            PatchsetError: a probe cannot be imported.
            OutsideError: pytest died or a probe hangs.
        """
        answers: dict[tuple[PatchName, SourceTree], ProbeResult] = {}
        jobs: list[ProbeJob] = []
        for name, tree in wanted:
            file = self._files.get(name)
            if file is None:
                answers[name, tree] = ABSENT
            elif (known := self._recall(name, tree)) is not None:
                answers[name, tree] = known
            else:
                jobs.append(ProbeJob(name=name, file=file, tree=tree))
        learned: set[PatchName] = set()
        for number, (result, is_repeatable) in _run_worker(jobs).items():
            job = jobs[number]
            answers[job.name, job.tree] = result
            if is_repeatable:
                record: dict[str, object] = {
                    "reads": job.reads,
                    "colour": result.colour.value,
                    "detail": result.detail,
                }
                self._records(job.name).append(record)
                learned.add(job.name)
        self._keep(learned)
        return answers

    def reads(self, name: PatchName) -> frozenset[str]:
        """The paths that a patch's probe was seen to read, for fetching them together."""
        found: set[str] = set()
        for record in self._records(name):
            reads = record["reads"]
            if isinstance(reads, dict):
                found.update(reads)
        return frozenset(found)

    def _key(self, name: PatchName) -> str:
        if name not in self._keys:
            file = self._files[name]
            with translated(f"cannot read {file}"):
                text = file.read_bytes()
            self._keys[name] = hashlib.sha256(text + b"\0" + _environment_key()).hexdigest()
        return self._keys[name]

    def _records(self, name: PatchName) -> list[dict[str, object]]:
        if name not in self._files:
            return []
        if name not in self._known:
            file = self._state.home / "probes" / f"{self._key(name)}.json"
            try:
                self._known[name] = json.loads(file.read_bytes())
            except (OSError, ValueError):
                self._known[name] = []
        return self._known[name]

    def _recall(self, name: PatchName, tree: SourceTree) -> ProbeResult | None:
        for record in self._records(name):
            reads = record["reads"]
            if isinstance(reads, dict) and all(_oid(tree, path) == oid for path, oid in reads.items()):
                return ProbeResult(colour=ProbeColour(str(record["colour"])), detail=str(record["detail"]))
        return None

    def _keep(self, names: Iterable[PatchName]) -> None:
        for name in names:
            file = self._state.directory("probes") / f"{self._key(name)}.json"
            self._state.write(file, json.dumps(self._records(name)).encode())


def _oid(tree: SourceTree, path: str) -> str | None:
    entry = tree.entry(path)
    return entry.oid if entry is not None else None


def _environment_key() -> bytes:
    """Names the Python and what is installed in it: a probe may run a function with torch where torch is."""
    packages = Path(sysconfig.get_path("purelib"))
    names = sorted(os.listdir(packages)) if packages.is_dir() else []  # noqa: PTH208 - names only, no stat
    return "\0".join([sys.version, *names]).encode()


_Answer = tuple[ProbeResult, bool]
"""What a probe said, and whether it would say so again of the same files."""


def _run_worker(jobs: list[ProbeJob]) -> dict[int, _Answer]:
    if not jobs:
        return {}
    environment = sealed_environment() | {
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    environment.pop("PYTEST_ADDOPTS", None)
    command = [sys.executable, "-m", "forktool.adapters.probe_worker"]
    with tempfile.TemporaryFile() as said, process.start(command, env=environment, stderr=said) as worker:
        conversation = _Conversation(worker, jobs, said)
        try:
            return conversation.results()
        finally:
            conversation.close()


class _Conversation:
    def __init__(self, worker: process.Process, jobs: list[ProbeJob], said: IO[bytes]) -> None:
        if worker.stdin is None or worker.stdout is None:
            raise OutsideError("the probe process has no pipes")
        self._worker, self._in, self._out, self._said = worker, worker.stdin, worker.stdout, said
        self._running = ""
        self._limit = _START_LIMIT_S
        self._since: float | None = time.monotonic()
        self._hangs = False
        self._over = threading.Event()
        threading.Thread(target=self._watch, daemon=True).start()
        self._jobs = {(str(job.file), str(number)): number for number, job in enumerate(jobs)}
        self._list = jobs

    def results(self) -> dict[int, _Answer]:
        by_file: dict[str, list[tuple[str, str]]] = {}
        for (file, key), number in self._jobs.items():
            by_file.setdefault(file, []).append((key, self._list[number].tree.label))
        self._send([{"probe": file, "trees": trees} for file, trees in by_file.items()])
        found: dict[int, _Answer] = {}
        while not (message := self._receive()).get("done"):
            if "running" in message:
                self._limit = _SILENCE_LIMIT_S
                self._running = str(message["running"]) + (f" on {tree}" if (tree := message["tree"]) else "")
                continue
            number = self._jobs[str(message["probe"]), str(message["tree"])]
            job = self._list[number]
            if "read" in message:
                self._answer_read(job, str(message["read"]))
            elif message["colour"] == "error":
                raise PatchsetError(f"{job.file}: the probe cannot be run: {message['detail']}")
            else:
                colour, detail = ProbeColour(str(message["colour"])), str(message["detail"])
                found[number] = (ProbeResult(colour=colour, detail=detail), bool(message["repeatable"]))
        return found

    def _answer_read(self, job: ProbeJob, path: str) -> None:
        content = job.tree.read(path)
        job.reads[path] = _oid(job.tree, path)
        self._send({"size": None if content is None else len(content)}, content or b"")

    def _send(self, message: object, payload: bytes = b"") -> None:
        try:
            self._in.write(json.dumps(message).encode() + b"\n" + payload)
            self._in.flush()
        except BrokenPipeError:
            raise self._died() from None

    def _receive(self) -> dict[str, object]:
        self._since = time.monotonic()
        line = self._out.readline()
        self._since = None  # from here on the worker waits for us
        if not line:
            raise self._died()
        message: dict[str, object] = json.loads(line)
        return message

    def _watch(self) -> None:
        """End a worker that says nothing for too long."""
        while not self._over.wait(min(1.0, self._limit / 4)):
            since = self._since
            if since is not None and time.monotonic() - since >= self._limit:
                self._hangs = True
                self._worker.kill()
                return

    def close(self) -> None:
        """End the worker."""
        self._over.set()
        self._worker.kill()

    def _died(self) -> OutsideError:
        where = f"{self._running}: " if self._running else ""
        if self._hangs:
            return OutsideError(f"{where}the probe hangs: no sign of life for {self._limit:g} s, killed")
        self._said.seek(0)
        said = self._said.read().decode("utf-8", "replace").strip().splitlines()
        return OutsideError(
            f"{where}the process that runs the probes died: {said[-1] if said else 'it said nothing'}"
        )
