"""Git over HTTP as GitHub serves it: `git http-backend` behind tokens."""

from __future__ import annotations

import base64
import os
import subprocess
from pathlib import Path


def git(repository: Path, *args: str, check: bool = True) -> str:
    done = subprocess.run(["git", *args], cwd=repository, capture_output=True, text=True)
    if check and done.returncode:
        raise AssertionError(f"git {args}: {done.stderr}")
    return done.stdout.strip()


def make_fork(upstream: Path, fork: Path, branch: str) -> None:
    """A bare repository that shares upstream's objects, as GitHub's fork network does, and has one branch of it."""
    fork.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(["git", "init", "--quiet", "--bare", f"--initial-branch={branch}", str(fork)], check=True)
    objects = upstream / "objects"
    (fork / "objects/info/alternates").write_text(f"{objects}\n")
    # GitHub does not offer the other repositories' branches as a base for the pack.
    git(fork, "config", "core.alternateRefsCommand", "true")
    git(fork, "config", "uploadpack.allowFilter", "true")
    git(fork, "config", "uploadpack.allowAnySHA1InWant", "true")
    git(fork, "update-ref", f"refs/heads/{branch}", git(upstream, "rev-parse", f"refs/heads/{branch}"))


def basic_password(header: str) -> str | None:
    """The password of an Authorization header, None where there is none."""
    if not header.startswith("Basic "):
        return None
    return base64.b64decode(header.removeprefix("Basic ")).decode().partition(":")[2]


def backend(
    root: Path, *, path: str, query: str, method: str, headers: dict[str, str], body: bytes, user: str
) -> tuple[int, list[tuple[str, str]], bytes]:
    """Answer one request (git-http-backend(1)): status, headers, body."""
    environment = {
        **os.environ,
        "GIT_PROJECT_ROOT": str(root),
        "GIT_HTTP_EXPORT_ALL": "1",
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "http.receivepack",
        "GIT_CONFIG_VALUE_0": "true",
        "PATH_INFO": path,
        "QUERY_STRING": query,
        "REQUEST_METHOD": method,
        "CONTENT_TYPE": headers.get("content-type", ""),
        "CONTENT_LENGTH": str(len(body)),
        "HTTP_CONTENT_ENCODING": headers.get("content-encoding", ""),
        "GIT_PROTOCOL": headers.get("git-protocol", ""),
        "REMOTE_USER": user,
        "REMOTE_ADDR": "127.0.0.1",
    }
    done = subprocess.run(
        ["git", "http-backend"], input=body, env=environment, capture_output=True, check=True
    )
    head, _blank, data = done.stdout.partition(b"\r\n\r\n")
    status, answered = 200, []
    for line in head.decode().split("\r\n"):
        name, _colon, value = line.partition(": ")
        if name == "Status":
            status = int(value.split()[0])
        elif name:
            answered.append((name, value))
    return status, answered, data
