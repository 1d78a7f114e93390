"""Asking the live agent: on this machine, or over the system's ssh.

Nothing is installed on the other side. The agent's text and the request go through stdin of `python3 -`, so no
argument meets a shell but the path of that Python, which is quoted. ssh decides about keys, hosts and passwords as
the user's configuration says; nothing here relaxes the check of a host key.
"""

from __future__ import annotations

import json
import os
import secrets
import shlex
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from forktool.adapters import process
from forktool.errors import DiskError, OutsideError, RequestError, ToolMissingError

MINIMUM_PYTHON = (3, 9)
_SSH_FAILED = 255
"""What ssh(1) ends with when it could not connect or log in, EXIT STATUS."""
_NOT_FOUND = (126, 127)
"""What a POSIX shell ends with for a command that it cannot run or find."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Target:
    """A Python, here or elsewhere; `argv` starts it so that it reads a program from stdin."""

    label: str
    argv: tuple[str, ...]
    host: str | None = None


def local_target(python: str | None) -> Target:
    """A Python on this machine.

    Args:
        python: an executable, or the folder of an environment; None takes the active environment's, else the
            `python3` on PATH.

    Raises:
        RequestError: there is no such executable.
    """
    active = os.environ.get("VIRTUAL_ENV")
    path = Path(python or active or "python3")
    if path.is_dir():
        path = path / "bin" / "python"
    if (python or active) and not path.is_file():
        raise RequestError(f"{path} is not there", hint="name the environment's Python with --python PATH")
    return Target(label=str(path), argv=(str(path), "-B", "-"))


def ssh_target(host: str, python: str | None) -> Target:
    """A Python on another machine.

    Args:
        host: what `ssh` takes: a name, `user@name`, or a Host of the user's configuration.
        python: its path there; None takes `python3`.

    Raises:
        RequestError: the host reads as an option.
    """
    if not host or host.startswith("-") or any(character.isspace() for character in host):
        raise RequestError(f"{host!r} is not a host", hint="forktool live status --host user@name")
    command = shlex.join((python or "python3", "-B", "-"))
    return Target(label=f"{host}:{python or 'python3'}", argv=("ssh", "-T", "--", host, command), host=host)


def ask(target: Target, request: dict[str, Any]) -> dict[str, Any]:
    """Let the agent answer one request; see `adapters.live_agent`.

    Raises:
        RequestError: the agent refuses; nothing was changed there.
        DiskError: the file system there refused.
        ToolMissingError: ssh or that Python is missing, or it is older than 3.9.
        OutsideError: no connection, or no answer.
    """
    token = f"forktool-{secrets.token_hex(8)}"
    done = process.run(target.argv, stdin=_program({**request, "token": token}))
    for line in done.stdout.decode("utf-8", "replace").splitlines():
        if line.startswith(token):
            return _checked(json.loads(line.removeprefix(token)), target)
    if target.host is not None and done.returncode == _SSH_FAILED:
        raise OutsideError(f"ssh {target.host}: {done.last_line}", hint=f"ssh {target.host} true")
    if done.returncode in _NOT_FOUND:
        raise ToolMissingError(
            f"{target.label}: {done.last_line}", hint="name another one with --python PATH"
        )
    if "needs Python" in done.last_line:
        raise ToolMissingError(
            f"{target.label}: {done.last_line}", hint="name another one with --python PATH"
        )
    raise OutsideError(f"{target.label} gave no answer: {done.last_line}")


def _checked(answer: dict[str, Any], target: Target) -> dict[str, Any]:
    refused = answer.get("refused")
    if refused is None:
        return answer
    where = f"{target.host}: " if target.host else ""
    if answer.get("outside"):
        raise DiskError(f"{where}{refused}")
    raise RequestError(f"{where}{refused}", hint=answer.get("hint"))


def _program(request: dict[str, Any]) -> bytes:
    """The agent and its request as one program.

    Its first lines run on any Python, so that an old one gives a reason and not a syntax error. `python -` puts
    the current folder first on sys.path: a `json.py` that lies there must not be imported.
    """
    agent = files("forktool.adapters").joinpath("live_agent.py").read_text(encoding="utf-8")
    lines = (
        "import sys",
        f"if sys.version_info < {MINIMUM_PYTHON}:",
        '    sys.exit("the other side needs Python 3.9 or newer, this is " + sys.version.split()[0])',
        "sys.path[:] = [entry for entry in sys.path if entry]",
        "names = {'__name__': 'live_agent', '__file__': '<forktool>'}",
        f"exec(compile({agent!r}, 'live_agent.py', 'exec'), names)",
        f"names['main'](names['json'].loads({json.dumps(request)!r}))",
    )
    return ("\n".join(lines) + "\n").encode("utf-8")
