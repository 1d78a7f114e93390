"""Seals every test from the user's git, home and state, so that ids and messages are the same everywhere."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.support.budget import DEEP
from tests.support.story import Story

settings.register_profile(DEEP)


def pytest_configure() -> None:
    """Let Ctrl-C reach the programs that tests start: a shell starts what runs in the background without it."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def sealed(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Own home, no git configuration or identity, no editor; unit tests can start no process and open no socket."""
    home = tmp_path / "home"
    home.mkdir()
    for name in list(os.environ):
        if name.startswith(("GIT_", "FORKTOOL_", "GITHUB_", "GH_")) and name != "FORKTOOL_TEST_CACHE":
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / ".config"))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.setenv("GIT_EDITOR", "false")
    monkeypatch.setenv("GIT_TERMINAL_PROMPT", "0")
    monkeypatch.setenv("NO_COLOR", "1")
    if "unit" in request.path.parts:

        def refused(*_args: object, **_kwargs: object) -> None:
            raise AssertionError("a unit test started a process or opened a socket")

        monkeypatch.setattr(subprocess, "Popen", refused)
        monkeypatch.setattr(socket, "create_connection", refused)
    yield
    assert not (Path(__file__).parent.parent / ".forktool" / "rebase.json").exists(), (
        "a test used the real state"
    )


@pytest.fixture
def story(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Story:
    """An upstream repository and a project on it, both empty."""
    project = tmp_path / "project"
    project.mkdir()
    monkeypatch.chdir(project)
    return Story(project=project, upstream=tmp_path / "upstream", read_output=capfd.readouterr)


@pytest.fixture
def git(tmp_path: Path) -> Callable[..., str]:
    """Run git in a folder and return its stdout."""

    def run(folder: Path, *args: str) -> str:
        done = subprocess.run(["git", *args], cwd=folder, check=True, capture_output=True, text=True)
        return done.stdout

    return run
