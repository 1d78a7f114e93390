"""`forktool live --host` against a real sshd on loopback, with keys and configuration of its own."""

from __future__ import annotations

import contextlib
import getpass
import os
import shlex
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from forktool.errors import ExitCode
from tests.support.installed import Environment, build_wheel, snapshot
from tests.support.story import Result, Story

DEMO = {"demo/__init__.py": "", "demo/main.py": "def main():\n    return 'old'\n"}
CONFIG = """\
Host demo-host
  HostName 127.0.0.1
  Port {port}
  User {user}
  IdentityFile {folder}/client
  IdentitiesOnly yes
  UserKnownHostsFile {folder}/known_hosts
  GlobalKnownHostsFile /dev/null
"""


@dataclass(frozen=True, kw_only=True)
class Server:
    folder: Path
    port: int

    def trust(self, key: str) -> None:
        text = (self.folder / f"{key}.pub").read_text()
        (self.folder / "known_hosts").write_text(f"[127.0.0.1]:{self.port} {text}")


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """An sshd that lets this user in with one key; `ssh` on PATH reads the test's configuration."""
    sshd = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin:/usr/local/sbin")
    ssh = shutil.which("ssh")
    if sshd is None or ssh is None:
        pytest.skip(f"{'sshd' if sshd is None else 'ssh'} is not installed")
    folder = tmp_path / "ssh"
    folder.mkdir(mode=0o700)
    for name in ("host", "other", "client"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True)
    shutil.copy(folder / "client.pub", folder / "authorized_keys")
    with contextlib.closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    options = {
        "ListenAddress": "127.0.0.1", "Port": port, "HostKey": folder / "host", "PidFile": "none",
        "AuthorizedKeysFile": folder / "authorized_keys", "StrictModes": "no", "PasswordAuthentication": "no",
        "KbdInteractiveAuthentication": "no", "UsePAM": "no",
    }  # fmt: skip
    (folder / "sshd_config").write_text("".join(f"{key} {value}\n" for key, value in options.items()))
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)
    (folder / "config").write_text(CONFIG.format(port=port, user=getpass.getuser(), folder=folder))
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "ssh").write_text(f'#!/bin/sh\nexec {ssh} -F {folder}/config -o BatchMode=yes "$@"\n')
    (programs / "ssh").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [sshd, "-D", "-e", "-f", folder / "sshd_config"], stdin=subprocess.DEVNULL, stderr=log
        )
    try:
        _wait_for(port, process, folder / "log")
        made = Server(folder=folder, port=port)
        made.trust("host")
        yield made
    finally:
        process.terminate()
        process.wait(10)


def _wait_for(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    for _ in range(100):
        if process.poll() is not None:
            pytest.skip(f"sshd did not start: {log.read_text().strip()}")
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.05)
    pytest.fail("sshd does not listen")


@pytest.fixture
def fork(story: Story) -> Story:
    story.release("v1.0", DEMO)
    story.start("v1.0")
    story.patch("first", {"demo/main.py": "def main():\n    return 'new'\n", "demo/more.py": "more = 1\n"})
    return story


@pytest.fixture
def remote(tmp_path: Path) -> Environment:
    """A path that a shell would take apart if it were not quoted."""
    made = Environment(tmp_path / "a 'quoted' $(touch ran) environment")
    made.install(build_wheel(tmp_path / "wheels", DEMO))
    return made


def live(story: Story, action: str, python: Path | str, *options: str, host: str = "demo-host") -> Result:
    return story.run(
        "live", action, "--distribution", "demo", "--host", host, "--python", str(python), *options
    )


def test_apply_and_revert_over_ssh(fork: Story, server: Server, remote: Environment) -> None:
    before = snapshot(remote.site)
    assert live(fork, "status", remote.python, "--json").document["patches"][0]["state"] == "not in"
    result = live(fork, "apply", remote.python)
    assert result.code == ExitCode.DONE, result.err
    assert remote.evaluate("demo.main.main(), __import__('demo.more').more.more") == "('new', 1)"
    assert "has the series already" in live(fork, "apply", remote.python).out
    assert live(fork, "revert", remote.python).code == ExitCode.DONE
    after = {name: item for name, item in snapshot(remote.site).items() if "__pycache__" not in name}
    assert after == {name: item for name, item in before.items() if "__pycache__" not in name}
    assert not list(Path.home().glob("ran"))
    assert not (fork.project / "ran").exists()


def test_an_unknown_host_key_is_refused(fork: Story, server: Server, remote: Environment) -> None:
    (server.folder / "known_hosts").write_text("")
    result = live(fork, "apply", remote.python)
    assert result.code == ExitCode.OUTSIDE
    assert "Host key verification failed" in result.err
    assert remote.evaluate("demo.main.main()") == "old"


def test_a_changed_host_key_is_refused(fork: Story, server: Server, remote: Environment) -> None:
    server.trust("other")
    result = live(fork, "apply", remote.python)
    assert result.code == ExitCode.OUTSIDE
    assert "Host key verification failed" in result.err
    assert remote.evaluate("demo.main.main()") == "old"


def test_what_fails_over_there_is_one_line(fork: Story, server: Server, remote: Environment) -> None:
    result = live(fork, "status", "/no/such/python")
    assert result.code == ExitCode.OUTSIDE
    assert "/no/such/python" in result.err
    assert "--python PATH" in result.err
    result = live(fork, "status", remote.python, host="-oProxyCommand=touch ran")
    assert result.code == ExitCode.REQUEST
    assert not (fork.project / "ran").exists()


def test_an_old_python_over_there_gives_the_reason(fork: Story, server: Server, tmp_path: Path) -> None:
    """Stands in for Python 3.8: it reads the program and says its version is 3.8."""
    old = tmp_path / "python3.8"
    old.write_text(
        '#!/bin/sh\nexec python3 -c \'import sys; sys.version_info = (3, 8); sys.version = "3.8.1 (x)"\n'
        "exec(sys.stdin.read())'\n"
    )
    old.chmod(0o755)
    result = live(fork, "status", old)
    assert result.code == ExitCode.OUTSIDE
    assert "needs Python 3.9 or newer, this is 3.8.1" in result.err


def test_words_of_a_login_script_do_not_disturb(fork: Story, server: Server, remote: Environment) -> None:
    noisy = remote.root / "noisy"
    noisy.write_text(
        f"#!/bin/sh\necho 'Welcome {{}} [1, 2]'\nexec {shlex.quote(str(remote.python))} \"$@\"\n"
    )
    noisy.chmod(0o755)
    result = live(fork, "status", noisy, "--json")
    assert result.code == ExitCode.DONE, result.err
    assert result.document["version"] == "1.0"
