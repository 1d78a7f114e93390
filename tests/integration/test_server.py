"""Servers end with their cell: on stop, at a timeout, when forktool is killed; children outside the group too."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from forktool.adapters.server import CancelledError, Server, cleaned_environment, leased_port

ROOT = Path(__file__).parents[2]

# Starts one child in its own session, tells both ids, and ignores polite requests to end.
STUBBORN = """\
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
print(os.getpid(), child.pid, flush=True)
time.sleep(600)
"""
MEEK = STUBBORN.replace("signal.signal(signal.SIGTERM, signal.SIG_IGN)\n", "")


def server(tmp_path: Path, code: str) -> Server:
    return Server(
        [sys.executable, "-c", code],
        env=cleaned_environment({"SECRET": "s"}, home=tmp_path / "home", temporary=tmp_path / "tmp"),
        log=tmp_path / "server.log",
        cwd=tmp_path,
    )


def ids(log: Path) -> list[int]:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        words = log.read_text().split() if log.exists() else []
        if len(words) >= 2:
            return [int(word) for word in words[:2]]
        time.sleep(0.05)
    raise AssertionError("the server said nothing")


def alive(pid: int) -> bool:
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


def wait_gone(pids: list[int], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while any(alive(pid) for pid in pids):
        assert time.monotonic() < deadline, f"still alive: {[pid for pid in pids if alive(pid)]}"
        time.sleep(0.05)


@pytest.mark.skipif(sys.platform != "linux", reason="the reaper of orphans is Linux's")
def test_stop_ends_the_server_and_a_child_that_left_its_group(tmp_path: Path) -> None:
    with server(tmp_path, MEEK) as running:
        pids = ids(tmp_path / "server.log")
        assert all(alive(pid) for pid in pids)
    wait_gone(pids, 1)
    assert running.returncode == -signal.SIGTERM


@pytest.mark.skipif(sys.platform != "linux", reason="the reaper of orphans is Linux's")
def test_a_server_that_ignores_sigterm_is_killed(tmp_path: Path) -> None:
    with server(tmp_path, STUBBORN) as running:
        pids = ids(tmp_path / "server.log")
    wait_gone(pids, 1)
    assert running.returncode == -signal.SIGKILL


@pytest.mark.skipif(sys.platform != "linux", reason="the reaper of orphans is Linux's")
def test_when_forktool_is_killed_nothing_is_left(tmp_path: Path) -> None:
    starter = f"""
import sys, time
from pathlib import Path
from forktool.adapters.server import Server
with Server([sys.executable, "-c", {MEEK!r}], env={{}}, log=Path({str(tmp_path / "server.log")!r}), cwd=Path("/")):
    time.sleep(600)
"""
    outer = subprocess.Popen([sys.executable, "-c", starter], env={**os.environ, "PYTHONPATH": str(ROOT)})
    try:
        pids = ids(tmp_path / "server.log")
    finally:
        outer.kill()
        outer.wait()
    wait_gone(pids, 15)


def test_how_it_ended_is_told(tmp_path: Path) -> None:
    for code, expected in (("raise SystemExit(3)", 3), ("import os; os.kill(os.getpid(), 9)", -9)):
        with server(tmp_path, code) as running:
            ready = running.wait_until(lambda: False, timeout=20, cancelled=threading.Event())
            assert not ready
            assert running.returncode == expected


def test_a_program_that_is_not_there_is_told_apart(tmp_path: Path) -> None:
    absent = Server([str(tmp_path / "nothing")], env={}, log=tmp_path / "log", cwd=tmp_path)
    with absent as running:
        assert not running.wait_until(lambda: False, timeout=20, cancelled=threading.Event())
        assert running.program_missing
        assert "is not installed" in " ".join(running.lines())


def test_the_log_is_followed_line_by_line(tmp_path: Path) -> None:
    seen: list[str] = []
    code = "import time\nfor n in range(3): print('line', n, flush=True)\nprint('half', end='', flush=True); time.sleep(600)"
    with server(tmp_path, code) as running:
        assert running.wait_until(
            lambda: len(seen) == 3, timeout=20, cancelled=threading.Event(), on_line=seen.append
        )
    assert seen == ["line 0", "line 1", "line 2"]


def test_a_wait_ends_with_its_time_and_with_the_run(tmp_path: Path) -> None:
    cancelled = threading.Event()
    with server(tmp_path, "import time; time.sleep(600)") as running:
        began = time.monotonic()
        assert not running.wait_until(lambda: False, timeout=0.5, cancelled=cancelled)
        assert 0.5 <= time.monotonic() - began < 5
        assert running.returncode is None
        cancelled.set()
        with pytest.raises(CancelledError):
            running.wait_until(lambda: False, timeout=30, cancelled=cancelled)


def test_the_environment_is_the_cells_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VLLM_ATTENTION_BACKEND", "FLASHINFER")
    monkeypatch.setenv("PYTHONPATH", "/somewhere")
    code = "import os; print(os.environ.get('VLLM_ATTENTION_BACKEND'), os.environ.get('PYTHONPATH'), os.environ['SECRET'])"
    with server(tmp_path, code) as running:
        running.wait_until(lambda: False, timeout=20, cancelled=threading.Event())
    assert running.lines() == ["None None s"]


def test_ports_differ() -> None:
    with ExitStack() as leases:
        ports = [leases.enter_context(leased_port()) for _ in range(50)]
    assert len(set(ports)) == 50


@pytest.mark.skipif(sys.platform != "linux", reason="leases are abstract sockets")
def test_a_port_that_is_leased_is_given_to_no_other_process(monkeypatch: pytest.MonkeyPatch) -> None:
    given = iter([4001, 4001, 4002])
    monkeypatch.setattr(socket.socket, "getsockname", lambda _self: ("127.0.0.1", next(given)))
    with leased_port() as mine, leased_port() as other:
        assert (mine, other) == (4001, 4002)
