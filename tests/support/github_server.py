"""A GitHub on localhost, as strict as the real one where forktool leans on it, with faults to switch on.

What GitHub documents or was seen to do: one open pull request a head (422), a head that was not pushed (422), a body
over 65,536 characters (422), forks made later than answered (202), private repositories that are not there (404),
scopes (403 with X-OAuth-Scopes and X-Accepted-OAuth-Scopes), rate limits, archived repositories (403), renames (301).
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.support.github_git import backend, basic_password, make_fork
from tests.support.github_routes import ROUTES, Answer, RefusedError, Repository, Request


@dataclass(kw_only=True)
class Fault:
    """What happens to the next `times` requests that match: `status` instead of, or after, the work; 0 hangs up."""

    method: str
    path: str
    when: str
    status: int
    times: int = 1
    document: Any = None
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Asked:
    method: str
    path: str
    token: str | None
    body: Any


class GitHubServer:
    """The server; `repositories` and `pulls` are its state, `asked` what came."""

    def __init__(self, root: Path, *, prefix: str = "") -> None:
        self.root = root
        self.prefix = prefix
        self.tokens: dict[str, tuple[str, frozenset[str]]] = {}
        self.repositories: dict[str, Repository] = {}
        self.renamed: dict[str, str] = {}
        self.pulls: dict[str, dict[int, dict[str, Any]]] = {}
        self.issues: dict[str, dict[int, dict[str, Any]]] = {}
        self.reviews: dict[int, list[dict[str, Any]]] = {}
        self.check_runs: dict[str, list[dict[str, Any]]] = {}
        self.faults: list[Fault] = []
        self.asked: list[Asked] = []
        self.fork_delay = 2
        self.proxied = 0
        self.lock = threading.RLock()
        self._server = _Server(self)
        self.port = self._server.server_address[1]
        self.base_url = f"http://localhost:{self.port}{prefix}"
        self.web = f"http://localhost:{self.port}"

    @contextmanager
    def running(self) -> Iterator[GitHubServer]:
        thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            thread.join()
            self._server.server_close()

    # What tests set up

    def login(self, token: str, user: str, *scopes: str) -> None:
        self.tokens[token] = (user, frozenset(scopes))

    def host(self, name: str, git_dir: Path, **options: Any) -> Repository:
        target = self.root / f"{name}.git"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.symlink_to(git_dir)
        made = self.repositories[name] = Repository(name=name, path=git_dir, **options)
        self.pulls.setdefault(name, {})
        self.issues.setdefault(name, {})
        return made

    def fork(self, upstream: str, name: str, **options: Any) -> Repository:
        origin = self.repositories[upstream]
        path = self.root / f"{name}.git"
        make_fork(origin.path, path, origin.branch)
        made = self.repositories[name] = Repository(
            name=name, path=path, branch=origin.branch, parent=upstream, **options
        )
        self.pulls.setdefault(name, {})
        return made

    def add_pull(
        self, upstream: str, *, title: str, body: str = "", files: tuple[str, ...] = (), **facts: Any
    ) -> int:
        """A pull request that somebody else opened; its branch is not kept."""
        number = self.next_number(upstream)
        self.pulls[upstream][number] = {
            "number": number, "title": title, "body": body, "state": "open", "draft": False, "user": "stranger",
            "head": ("stranger", f"branch-{number}", "1" * 40), "base": "main", "files": files, "merged_at": None,
            "merge_commit_sha": "2" * 40, "mergeable_state": "clean", **facts,
        }  # fmt: skip
        return number

    def add_issue(self, upstream: str, *, title: str, body: str = "", state: str = "open") -> int:
        number = self.next_number(upstream)
        self.issues[upstream][number] = {"number": number, "title": title, "body": body, "state": state}
        return number

    def merge(self, upstream: str, number: int, commit: str) -> None:
        self.pulls[upstream][number] |= {
            "state": "closed", "draft": False, "merged_at": "2026-01-02T03:04:05Z", "merge_commit_sha": commit,
        }  # fmt: skip

    def fault(self, method: str, path: str, when: str, status: int, **more: Any) -> None:
        self.faults.append(Fault(method=method, path=path, when=when, status=status, **more))

    def calls(self, method: str, ending: str) -> list[Asked]:
        return [item for item in self.asked if item.method == method and re.search(ending, item.path)]

    def next_number(self, upstream: str) -> int:
        taken = [*self.pulls.get(upstream, {}), *self.issues.get(upstream, {})]
        return max(taken, default=100) + 1

    def take_fault(self, method: str, path: str) -> Fault | None:
        with self.lock:
            for fault in self.faults:
                if fault.method == method and re.search(fault.path, path) and fault.times:
                    fault.times -= 1
                    return fault
        return None

    # What it answers

    def answer(
        self, method: str, path: str, query: dict[str, list[str]], body: Any, token: str | None
    ) -> Answer:
        user, scopes = self._who(token, path)
        for wanted, pattern, act in ROUTES:
            found = re.fullmatch(pattern, path)
            if found and wanted == method:
                return act(self, Request(user=user, scopes=scopes, query=query, body=body), *found.groups())
        raise RefusedError(404, "Not Found")

    def _who(self, token: str | None, path: str) -> tuple[str | None, frozenset[str]]:
        if path.startswith("/app/"):
            return None, frozenset()
        if token is None:
            return None, frozenset()
        if token not in self.tokens:
            raise RefusedError(401, "Bad credentials")
        return self.tokens[token]

    def seen(self, name: str, request: Request, *, write: bool = False) -> Repository:
        """A repository as the login sees it.

        Raises:
            RefusedError: 404 for what is not there or private, 403 where the login may not write.
        """
        found = self.repositories.get(name)
        if found is None and name in self.renamed:
            raise RefusedError(
                301, "Moved Permanently", Location=f"{self.base_url}/repos/{self.renamed[name]}"
            )
        scoped = {"x_oauth_scopes": ", ".join(sorted(request.scopes))}
        if found is None:
            raise RefusedError(404, "Not Found", **scoped)
        if found.hidden_for:
            found.hidden_for -= 1
            raise RefusedError(404, "Not Found")
        if found.private and "repo" not in request.scopes:
            raise RefusedError(404, "Not Found", x_accepted_oauth_scopes="repo", **scoped)
        if write:
            accepted = {"repo"} if found.private else {"repo", "public_repo"}
            if not accepted & request.scopes:
                raise RefusedError(
                    403, "Must have admin rights to Repository.",
                    x_accepted_oauth_scopes=", ".join(sorted(accepted)), **scoped,
                )  # fmt: skip
        if write and found.archived:
            raise RefusedError(403, "Repository was archived so is read-only.")
        return found


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, hub: GitHubServer) -> None:
        self.hub = hub
        super().__init__(("localhost", 0), _Handler)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = 1 << 16  # headers and body in one segment: else each answer waits 40 ms for an acknowledgement
    server: _Server

    def log_message(self, *_args: object) -> None:
        pass

    def _go(self) -> None:
        hub = self.server.hub
        body = self._body()
        parts = urlsplit(self.path)
        if parts.scheme:
            hub.proxied += 1
        if re.search(r"\.git/", parts.path):
            self._git(parts.path, parts.query, body)
            return
        path = parts.path.removeprefix(hub.prefix)
        if hub.prefix and not parts.path.startswith(hub.prefix):
            self._send(404, {"message": "Not Found"}, {})
            return
        scheme, _space, word = self.headers.get("Authorization", "").partition(" ")
        token = word if scheme.lower() in ("token", "bearer") else None
        document = json.loads(body) if body else {}
        hub.asked.append(Asked(method=self.command, path=path, token=token, body=document))
        fault = hub.take_fault(self.command, path)
        if fault is not None and fault.when == "before":
            self._fail(fault)
            return
        try:
            with hub.lock:
                status, answer = hub.answer(self.command, path, parse_qs(parts.query), document, token)
            headers: dict[str, str] = {}
        except RefusedError as refused:
            status, answer, headers = refused.status, refused.document, refused.headers
        if fault is not None:
            self._fail(fault)
            return
        self._send(status, answer, headers)

    def _fail(self, fault: Fault) -> None:
        if fault.status == 0:
            self.close_connection = True
            self.connection.shutdown(2)
            return
        self._send(fault.status, fault.document or {"message": "Server Error"}, fault.headers)

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        body = b""
        while size := int(self.rfile.readline().strip() or b"0", 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def _git(self, path: str, query: str, body: bytes) -> None:
        hub = self.server.hub
        token = basic_password(self.headers.get("Authorization", ""))
        user, scopes = hub.tokens.get(token or "", (None, frozenset[str]()))
        name = path.lstrip("/").partition(".git/")[0]
        found = hub.repositories.get(name)
        hub.asked.append(Asked(method="GIT", path=f"{path}?{query}", token=token, body=None))
        writes = "receive-pack" in path + query
        if (writes or (found is not None and found.private)) and user is None:
            self._raw(401, [("WWW-Authenticate", 'Basic realm="GitHub"')], b"")
            return
        if found is None or found.hidden_for or (found.private and "repo" not in scopes):
            self._raw(404, [], b"Repository not found.")
            return
        if writes and (name.partition("/")[0] != user or not scopes & {"repo", "public_repo"}):
            self._raw(403, [], f"Permission to {name}.git denied to {user}.".encode())
            return
        headers = {key.lower(): value for key, value in self.headers.items()}
        self._raw(
            *backend(
                hub.root,
                path=path,
                query=query,
                method=self.command,
                headers=headers,
                body=body,
                user=user or "",
            )
        )

    def _send(self, status: int, document: Any, headers: dict[str, str]) -> None:
        listed = [("Content-Type", "application/json"), *headers.items()]
        listed += [("X-RateLimit-Remaining", "4999"), ("X-RateLimit-Reset", str(int(time.time()) + 3600))] * (
            "X-RateLimit-Remaining" not in headers
        )
        self._raw(status, listed, json.dumps(document).encode())

    def _raw(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = do_PATCH = do_PUT = do_DELETE = _go  # noqa: N815
