"""The process that runs probes: pytest, given trees over a pipe. Started by `probes`, never by hand.

The protocol, one JSON object a line. In: a list of jobs `{"probe": file, "trees": [[key, label], ...]}`, then
the answer to each read: a line `{"size": N}` (null for no such file) and N bytes. Out:
`{"running": file, "tree": label}` before each test, `{"read": path, "tree": key}`, then per probe and tree
`{"probe", "tree", "colour", "detail", "repeatable"}`, last `{"done": true}`.
A process of its own, because a probe may hang, exit or crash.
"""

from __future__ import annotations

import gc
import json
import os
import site
import sys
from collections.abc import Sequence
from typing import Any, BinaryIO, Literal

import pytest

from forktool.core.probe_tree import ProbeTree


class _Channel:
    def __init__(self, reader: BinaryIO, writer: BinaryIO) -> None:
        self._reader = reader
        self._writer = writer

    def send(self, message: dict[str, Any]) -> None:
        self._writer.write(json.dumps(message).encode() + b"\n")
        self._writer.flush()

    def receive(self) -> Any:
        return json.loads(self._reader.readline())

    def read_file(self, tree: str, probe: str, path: str) -> bytes | None:
        self.send({"read": path, "tree": tree, "probe": probe})
        size = self.receive()["size"]
        return None if size is None else self._reader.read(size)


_LOOKS = frozenset({"open", "os.listdir", "os.scandir", "socket.connect", "subprocess.Popen", "os.system"})
"""Python's audit events (its library reference, "Audit events table") that say that something was looked at."""


class _Watch:
    """Notes which probes look at more than their tree: such an answer holds for this moment only."""

    def __init__(self, folders: Sequence[str]) -> None:
        # What a module asks of the machine when it is imported, as torch does, is no answer to the probe's question.
        self._ours = (*map(_folder, folders), "/proc/", "/sys/")
        self._import_path = frozenset(map(_folder, sys.path))
        self.running: str | None = None
        self.strayed: set[str] = set()
        sys.addaudithook(self._look)

    def _look(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.running is None or event not in _LOOKS:
            return
        path = arguments[0] if event in ("open", "os.listdir", "os.scandir") else None
        if isinstance(path, int) or path == os.devnull:
            return
        if path is not None:
            folder = _folder(os.fsdecode(path))
            if folder.startswith(self._ours) or (event == "os.listdir" and folder in self._import_path):
                return
        self.strayed.add(self.running)


def _folder(path: str) -> str:
    return os.path.join(os.path.realpath(path), "")  # noqa: PTH118


class _Probes:
    """The pytest plugin: gives each test its trees, one after the other, and notes how each ended."""

    def __init__(self, channel: _Channel, jobs: Sequence[dict[str, Any]], watch: _Watch) -> None:
        self._channel = channel
        self._watch = watch
        self._trees = {os.path.realpath(job["probe"]): (job["probe"], job["trees"]) for job in jobs}
        self._passed: set[tuple[str, str]] = set()
        self._failed: dict[tuple[str, str], str] = {}

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        if "tree" not in metafunc.fixturenames:
            return
        probe, trees = self._trees[os.path.realpath(str(metafunc.module.__file__))]
        # By module: pytest then runs all tests of a tree before the next, so that one tree is open at a time.
        metafunc.parametrize(
            "tree",
            [(probe, *tree) for tree in trees],
            ids=[label for _, label in trees],
            indirect=True,
            scope="module",
        )

    @pytest.fixture(scope="module")
    def tree(self, request: pytest.FixtureRequest) -> ProbeTree:
        """The source tree that the probe judges."""
        probe, key, label = request.param
        channel = self._channel

        def read(path: str) -> bytes | None:
            return channel.read_file(key, probe, path)

        return ProbeTree(label=label, read=read)

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(self, collector: pytest.Collector) -> Any:
        job = (
            self._trees.get(os.path.realpath(collector.path))
            if isinstance(collector, pytest.Module)
            else None
        )
        if job is None:
            return (yield)
        self._channel.send({"running": job[0], "tree": ""})
        self._watch.running = job[0]
        try:
            return (yield)
        finally:
            self._watch.running = None

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Any:
        params = getattr(item, "callspec", None)
        if params is None or "tree" not in params.params:
            return (yield)
        probe, _key, label = params.params["tree"]
        self._channel.send({"running": probe, "tree": label})
        self._watch.running = probe
        try:
            return (yield)
        finally:
            self._watch.running = None

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> pytest.TestReport:
        """Our own report: pytest's draws the source around a failure, which costs ten times the probe."""
        outcome: Literal["passed", "skipped", "failed"] = "passed"
        reason = ""
        if call.excinfo is not None:
            outcome = "skipped" if call.excinfo.errisinstance(pytest.skip.Exception) else "failed"
            reason = _reason(call.excinfo)
        params = getattr(item, "callspec", None)
        if params is not None and "tree" in params.params:
            probe, key, _label = params.params["tree"]
            if outcome == "failed":
                test = getattr(item, "originalname", item.name)
                self._failed.setdefault((probe, key), f"{test}: {reason}")
            elif outcome == "passed" and call.when == "call":
                self._passed.add((probe, key))
        return pytest.TestReport(
            nodeid=item.nodeid,
            location=item.location,
            keywords={},
            outcome=outcome,
            longrepr=reason or None,
            when=call.when,  # type: ignore[arg-type]
        )

    def results(self, errors: dict[str, str]) -> None:
        for probe, trees in self._trees.values():
            for key, _label in trees:
                if probe in errors:
                    colour, detail = "error", errors[probe]
                elif (probe, key) in self._failed:
                    colour, detail = "red", self._failed[probe, key]
                elif (probe, key) in self._passed:
                    colour, detail = "green", ""
                else:
                    colour, detail = "absent", "no test took the fixture `tree`, or all of them skipped"
                answer = {"probe": probe, "tree": key, "colour": colour, "detail": detail}
                self._channel.send({**answer, "repeatable": probe not in self._watch.strayed})


class _Collection:
    """Notes the probes that pytest could not even import."""

    def __init__(self) -> None:
        self.errors: dict[str, str] = {}

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            lines = [line for line in str(report.longrepr).splitlines() if line.strip()]
            self.errors[report.nodeid] = lines[-1].strip() if lines else "cannot be imported"


def _reason(failure: pytest.ExceptionInfo[BaseException]) -> str:
    text = failure.exconly(tryshort=True).strip()
    return text.splitlines()[0] if text else failure.typename


def main() -> int:
    """Serve one list of jobs over stdin and stdout; returns the process's exit status."""
    channel = _Channel(os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb"))
    os.dup2(2, 1)  # what a probe prints must not reach the protocol
    jobs = channel.receive()
    files = [job["probe"] for job in jobs]
    folder = os.path.commonpath([os.path.dirname(os.path.realpath(file)) for file in files])  # noqa: PTH120
    package = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))  # noqa: PTH120
    watch = _Watch([folder, package, sys.prefix, sys.base_prefix, *site.getsitepackages()])
    plugin, collection = _Probes(channel, jobs, watch), _Collection()
    options = [
        "-p",
        "no:cacheprovider",
        "-p",
        "no:terminal",
        "-p",
        "no:unraisableexception",
        "--import-mode=importlib",
        "-c",
        os.devnull,
    ]
    # Syntax trees hold no cycles and this process is short-lived: collecting them took a fifth of its time.
    gc.disable()
    ended = pytest.main([*options, f"--rootdir={folder}", *files], plugins=[plugin, collection])
    if ended in (pytest.ExitCode.INTERNAL_ERROR, pytest.ExitCode.USAGE_ERROR):
        sys.stderr.write(f"pytest ended with {ended!s}\n")
        return 1
    if ended is pytest.ExitCode.INTERRUPTED and not collection.errors:
        sys.stderr.write("a probe ended pytest\n")
        return 1
    errors = {
        file: message
        for file in files
        for nodeid, message in collection.errors.items()
        if os.path.realpath(os.path.join(folder, nodeid)) == os.path.realpath(file)  # noqa: PTH118
    }
    plugin.results(errors)
    channel.send({"done": True})
    return 0


if __name__ == "__main__":
    sys.exit(main())
