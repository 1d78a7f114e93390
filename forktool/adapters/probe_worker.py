"""The process that runs probes: pytest, given trees over a pipe. Started by `probes`, never by hand.

The protocol, one JSON object a line. In: a list of jobs `{"probe": file, "trees": [[key, label], ...]}`, then
the answer to each read: a line `{"size": N}` (null for no such file) and N bytes. Out:
`{"read": path, "tree": key}`, then per probe and tree `{"probe", "tree", "colour", "detail"}`, last
`{"done": true}`.
A process of its own, because a probe may hang, exit or crash.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from typing import Any, BinaryIO

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


class _Probes:
    """The pytest plugin: gives each test its trees, one after the other, and notes how each ended."""

    def __init__(self, channel: _Channel, jobs: Sequence[dict[str, Any]]) -> None:
        self._channel = channel
        self._trees = {os.path.realpath(job["probe"]): (job["probe"], job["trees"]) for job in jobs}
        self._passed: set[tuple[str, str]] = set()
        self._failed: dict[tuple[str, str], str] = {}
        self._open: dict[tuple[str, str], ProbeTree] = {}

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        if "tree" not in metafunc.fixturenames:
            return
        probe, trees = self._trees[os.path.realpath(str(metafunc.module.__file__))]
        metafunc.parametrize(
            "tree", [(probe, *tree) for tree in trees], ids=[label for _, label in trees], indirect=True
        )

    @pytest.fixture
    def tree(self, request: pytest.FixtureRequest) -> ProbeTree:
        """The source tree that the probe judges."""
        probe, key, label = request.param
        if (probe, key) not in self._open:
            channel = self._channel

            def read(path: str) -> bytes | None:
                return channel.read_file(key, probe, path)

            self._open[probe, key] = ProbeTree(label=label, read=read)
        return self._open[probe, key]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Any:
        report: pytest.TestReport = yield
        params = getattr(item, "callspec", None)
        if params is not None and "tree" in params.params:
            probe, key, _label = params.params["tree"]
            if report.failed:
                self._failed.setdefault((probe, key), f"{item.originalname}: {_reason(report)}")  # type: ignore[attr-defined]
            elif report.passed and report.when == "call":
                self._passed.add((probe, key))
        return report

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
                self._channel.send({"probe": probe, "tree": key, "colour": colour, "detail": detail})


class _Collection:
    """Notes the probes that pytest could not even import."""

    def __init__(self) -> None:
        self.errors: dict[str, str] = {}

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            lines = [line for line in str(report.longrepr).splitlines() if line.strip()]
            self.errors[report.nodeid] = lines[-1].strip() if lines else "cannot be imported"


def _reason(report: pytest.TestReport) -> str:
    crash = getattr(report.longrepr, "reprcrash", None)
    message = str(crash.message) if crash is not None else str(report.longrepr)
    return message.splitlines()[0] if message else "failed"


def main() -> int:
    """Serve one list of jobs over stdin and stdout; returns the process's exit status."""
    channel = _Channel(os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb"))
    os.dup2(2, 1)  # what a probe prints must not reach the protocol
    jobs = channel.receive()
    plugin, collection = _Probes(channel, jobs), _Collection()
    files = [job["probe"] for job in jobs]
    options = [
        "-p",
        "no:cacheprovider",
        "-p",
        "no:terminal",
        "--import-mode=importlib",
        "-c",
        os.devnull,
    ]
    folder = os.path.commonpath([os.path.dirname(os.path.realpath(file)) for file in files])  # noqa: PTH120
    ended = pytest.main([*options, f"--rootdir={folder}", *files], plugins=[plugin, collection])
    if ended in (pytest.ExitCode.INTERNAL_ERROR, pytest.ExitCode.USAGE_ERROR):
        sys.stderr.write(f"pytest ended with {ended!s}\n")
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
