"""emulate (npm, vercel-labs) as the GitHub behind the strict server: a second opinion on what PyGithub expects.

emulate keeps users, repositories, pull requests and searches. It is laxer than GitHub (it takes a second pull request
for one head, and makes branches that nobody pushed) and has no git; the strict server in front of it adds those.
"""

from __future__ import annotations

import json
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from tests.support.github_routes import Answer, RefusedError
from tests.support.github_server import GitHubServer

VERSION = "0.12.2"
_KEPT_BY_EMULATE = ("/user", "/search/issues", "/pulls", "/forks")
_SEED = """\
tokens:
  tok_maintainer: {login: maintainer, scopes: [repo, user, workflow]}
  tok_stranger: {login: stranger, scopes: [repo, user]}
github:
  users:
    - {login: maintainer, name: Maintainer, email: maintainer@example.test}
    - {login: stranger, name: Stranger, email: stranger@example.test}
  orgs:
    - {login: upstream-org, name: Upstream, members: [{login: stranger, role: admin}]}
  repos:
    - {owner: upstream-org, name: engine, language: Python, auto_init: true}
"""


class EmulatedGitHub(GitHubServer):
    """The strict server, with emulate behind it."""

    emulate = ""

    def answer(
        self, method: str, path: str, query: dict[str, list[str]], body: Any, token: str | None
    ) -> Answer:
        if method == "POST" and path.endswith("/pulls"):
            self._refuse_what_github_refuses(path, body, token)
        if not any(path == kept or path.endswith(kept) or f"{kept}/" in path for kept in _KEPT_BY_EMULATE):
            return super().answer(method, path, query, body, token)
        if path.endswith(("/files", "/reviews")):
            return 200, []
        return self.ask(method, path, query, body, token)

    def _refuse_what_github_refuses(self, path: str, body: Any, token: str | None) -> None:
        name = path.removeprefix("/repos/").removesuffix("/pulls")
        self.pulls[name].clear()
        _status, there = self.ask("GET", path, {"state": ["open"], "head": [body["head"]]}, None, token)
        if there:
            raise RefusedError(
                422, "Validation Failed", [{"message": f"A pull request already exists for {body['head']}."}]
            )
        super().answer("POST", path, {}, body, token)
        self.pulls[name].clear()

    def ask(
        self, method: str, path: str, query: dict[str, list[str]], body: Any, token: str | None
    ) -> Answer:
        words = f"?{urlencode(query, doseq=True)}" if query else ""
        request = urllib.request.Request(
            f"{self.emulate}{path}{words}",
            method=method,
            data=json.dumps(body).encode() if method != "GET" else None,
            headers={"Authorization": f"token {token}", "Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=10) as answered:
                return answered.status, json.loads(answered.read())
        except urllib.error.HTTPError as error:
            document = json.loads(error.read())
            raise RefusedError(error.code, document["message"], document.get("errors")) from error

    @contextmanager
    def running_on(self, node: Path, program: Path, scratch: Path) -> Iterator[EmulatedGitHub]:
        """Start emulate and this."""
        seed = scratch / "seed.yaml"
        seed.write_text(_SEED)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.emulate = f"http://localhost:{port}"
        command = [node, program, "start", "--service", "github", "--port", str(port), "--seed", seed]
        command += ["--base-url", self.base_url]
        with (scratch / "emulate.log").open("wb") as log:
            process = subprocess.Popen([str(word) for word in command], stdout=log, stderr=log, cwd=scratch)
        try:
            until = time.monotonic() + 30
            while True:
                try:
                    self.ask("GET", "/user", {}, None, "tok_maintainer")
                    break
                except (urllib.error.URLError, ConnectionError):
                    if time.monotonic() > until or process.poll() is not None:
                        raise AssertionError((scratch / "emulate.log").read_text()) from None
                    time.sleep(0.1)
            with self.running():
                yield self
        finally:
            process.terminate()
            process.wait()
