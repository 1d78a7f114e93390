"""What each path of GitHub's REST API answers, and refuses."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import unquote

from tests.support.github_git import git

Answer = tuple[int, Any]


class RefusedError(Exception):
    """An answer of 400 or above."""

    def __init__(self, status: int, message: str, errors: list[Any] | None = None, **headers: str) -> None:
        super().__init__(message)
        self.status = status
        self.document = {
            "message": message,
            "documentation_url": "https://docs.github.com",
            "status": str(status),
        }
        if errors is not None:
            self.document["errors"] = errors  # type: ignore[assignment]
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}


@dataclass(kw_only=True)
class Repository:
    name: str
    path: Path
    branch: str = "main"
    private: bool = False
    archived: bool = False
    parent: str | None = None
    hidden_for: int = 0
    """How many requests still find nothing: a fork that is being made."""


class Hub(Protocol):
    """What the routes need of the server."""

    base_url: str
    web: str
    fork_delay: int
    repositories: dict[str, Repository]
    pulls: dict[str, dict[int, dict[str, Any]]]
    issues: dict[str, dict[int, dict[str, Any]]]
    reviews: dict[int, list[dict[str, Any]]]
    check_runs: dict[str, list[dict[str, Any]]]

    def seen(self, name: str, request: Request, *, write: bool = False) -> Repository: ...
    def next_number(self, upstream: str) -> int: ...
    def fork(self, upstream: str, name: str, **options: Any) -> Repository: ...


@dataclass(frozen=True, kw_only=True)
class Request:
    user: str | None
    scopes: frozenset[str]
    query: dict[str, list[str]]
    body: Any

    def one(self, name: str, default: str = "") -> str:
        return self.query.get(name, [default])[0]


def _repository(server: Hub, found: Repository) -> dict[str, Any]:
    owner, _slash, short = found.name.partition("/")
    document = {
        "id": 1, "name": short, "full_name": found.name, "private": found.private, "archived": found.archived,
        "owner": {"login": owner}, "default_branch": found.branch, "fork": found.parent is not None,
        "url": f"{server.base_url}/repos/{found.name}", "html_url": f"{server.web}/{found.name}",
        "clone_url": f"{server.web}/{found.name}.git",
    }  # fmt: skip
    if found.parent is not None:
        document["parent"] = _repository(server, server.repositories[found.parent])
    return document


def _pull(server: Hub, upstream: str, pull: dict[str, Any]) -> dict[str, Any]:
    owner, ref, sha = pull["head"]
    fork = next(
        (
            item
            for name, item in server.repositories.items()
            if name.partition("/")[0] == owner and item.parent
        ),
        None,
    )
    if fork is not None and fork.path.exists():
        sha = git(fork.path, "rev-parse", "--verify", "-q", f"refs/heads/{ref}", check=False) or sha
    number = pull["number"]
    return {
        "id": number, "number": number, "title": pull["title"], "body": pull["body"], "state": pull["state"],
        "draft": pull["draft"], "user": {"login": pull["user"]}, "merged_at": pull["merged_at"],
        "merged": pull["merged_at"] is not None, "merge_commit_sha": pull["merge_commit_sha"],
        "mergeable_state": pull["mergeable_state"], "maintainer_can_modify": pull.get("maintainer_can_modify", False),
        "url": f"{server.base_url}/repos/{upstream}/pulls/{number}",
        "html_url": f"{server.web}/{upstream}/pull/{number}",
        "head": {"label": f"{owner}:{ref}", "ref": ref, "sha": sha},
        "base": {"label": f"{upstream.partition('/')[0]}:{pull['base']}", "ref": pull["base"], "sha": "3" * 40},
    }  # fmt: skip


def _get_user(server: Hub, request: Request) -> Answer:
    if request.user is None:
        raise RefusedError(401, "Requires authentication")
    return 200, {"login": request.user, "id": 7, "url": f"{server.base_url}/users/{request.user}"}


def _get_repository(server: Hub, request: Request, name: str) -> Answer:
    return 200, _repository(server, server.seen(name, request))


def _post_fork(server: Hub, request: Request, name: str) -> Answer:
    server.seen(name, request, write=True)
    if server.repositories[name].private and "repo" not in request.scopes:
        raise RefusedError(404, "Not Found")
    owner = request.body.get("organization") or request.user
    fork = f"{owner}/{request.body.get('name') or name.partition('/')[2]}"
    if fork not in server.repositories:
        server.fork(name, fork, hidden_for=server.fork_delay)
    return 202, _repository(server, server.repositories[fork])


def _get_branch(server: Hub, request: Request, name: str, branch: str) -> Answer:
    found = server.seen(name, request)
    sha = git(found.path, "rev-parse", "--verify", "-q", f"refs/heads/{unquote(branch)}", check=False)
    if not sha:
        raise RefusedError(404, "Branch not found")
    return 200, {
        "name": unquote(branch),
        "commit": {"sha": sha, "url": f"{server.base_url}/x"},
        "protected": False,
    }


def _get_ref(server: Hub, request: Request, name: str, ref: str) -> Answer:
    found = server.seen(name, request)
    sha = git(found.path, "rev-parse", "--verify", "-q", f"refs/heads/{ref}", check=False)
    if not sha:
        raise RefusedError(404, "Not Found")
    url = f"{server.base_url}/repos/{name}/git/refs/heads/{ref}"
    return 200, {"ref": f"refs/heads/{ref}", "url": url, "object": {"type": "commit", "sha": sha, "url": url}}


def _set_ref(server: Hub, request: Request, name: str, ref: str) -> Answer:
    found = server.seen(name, request, write=True)
    if name.partition("/")[0] != request.user:
        raise RefusedError(403, "Resource not accessible by personal access token")
    sha = request.body["sha"]
    if git(found.path, "cat-file", "-t", sha, check=False) != "commit":
        raise RefusedError(422, "Object does not exist")
    git(found.path, "update-ref", f"refs/heads/{ref}", sha)
    return _get_ref(server, request, name, ref)


def _post_ref(server: Hub, request: Request, name: str) -> Answer:
    ref = request.body["ref"].removeprefix("refs/heads/")
    found = server.seen(name, request, write=True)
    if git(found.path, "rev-parse", "--verify", "-q", f"refs/heads/{ref}", check=False):
        raise RefusedError(422, "Reference already exists")
    return 201, _set_ref(server, request, name, ref)[1]


def _list_pulls(server: Hub, request: Request, name: str) -> Answer:
    server.seen(name, request)
    state, head, base = request.one("state", "open"), request.one("head"), request.one("base")
    found = [
        _pull(server, name, pull)
        for pull in server.pulls[name].values()
        if state in ("all", pull["state"]) and (not base or pull["base"] == base)
        # A head without an owner is no filter at all: GitHub ignores it.
        and (":" not in head or f"{pull['head'][0]}:{pull['head'][1]}" == head)
    ]  # fmt: skip
    # A list says less of each than the pull request itself does.
    for pull in found:
        for key in ("mergeable_state", "merged", "maintainer_can_modify"):
            del pull[key]
    return 200, sorted(found, key=lambda pull: -pull["number"])


def _post_pull(server: Hub, request: Request, name: str) -> Answer:
    server.seen(name, request, write=True)
    body = request.body
    owner, _colon, ref = body["head"].rpartition(":")

    def invalid(**error: str) -> RefusedError:
        return RefusedError(422, "Validation Failed", [{"resource": "PullRequest", **error}])

    if not str(body.get("title") or "").strip():
        raise invalid(field="title", code="missing_field")
    if len(body.get("body") or "") > 65_536:
        raise invalid(field="body", code="custom", message="body is too long (maximum is 65536 characters)")
    source = next(
        (item for full, item in server.repositories.items()
         if full.partition("/")[0] == owner and name in (item.parent, full)), None,
    )  # fmt: skip
    sha = source and git(source.path, "rev-parse", "--verify", "-q", f"refs/heads/{ref}", check=False)
    if source is None or not sha:
        raise invalid(field="head", code="invalid")
    base = git(
        server.repositories[name].path,
        "rev-parse",
        "-q",
        "--verify",
        f"refs/heads/{body['base']}",
        check=False,
    )
    if not base:
        raise invalid(field="base", code="invalid")
    for pull in server.pulls[name].values():
        if pull["state"] == "open" and pull["head"][:2] == (owner, ref) and pull["base"] == body["base"]:
            raise invalid(code="custom", message=f"A pull request already exists for {owner}:{ref}.")
    if git(source.path, "rev-list", "--count", f"{base}..{sha}") == "0":
        raise invalid(code="custom", message=f"No commits between {body['base']} and {owner}:{ref}")
    number = server.next_number(name)
    made = server.pulls[name][number] = {
        "number": number, "title": body["title"], "body": body.get("body"), "state": "open",
        "draft": bool(body.get("draft")), "user": request.user, "head": (owner, ref, sha), "base": body["base"],
        "files": tuple(git(source.path, "diff", "--name-only", base, sha).split()), "merged_at": None,
        "merge_commit_sha": "2" * 40, "mergeable_state": "clean",
        "maintainer_can_modify": bool(body.get("maintainer_can_modify")),
    }  # fmt: skip
    return 201, _pull(server, name, made)


def _one(server: Hub, request: Request, name: str, number: str) -> dict[str, Any]:
    server.seen(name, request)
    found = server.pulls[name].get(int(number))
    if found is None:
        raise RefusedError(404, "Not Found")
    return found


def _get_pull(server: Hub, request: Request, name: str, number: str) -> Answer:
    return 200, _pull(server, name, _one(server, request, name, number))


def _patch_pull(server: Hub, request: Request, name: str, number: str) -> Answer:
    server.seen(name, request, write=True)
    found = _one(server, request, name, number)
    if found["user"] != request.user:
        raise RefusedError(403, "Must have admin rights to Repository.")
    if len(request.body.get("body") or "") > 65_536:
        raise RefusedError(
            422, "Validation Failed", [{"message": "body is too long (maximum is 65536 characters)"}]
        )
    found |= {key: request.body[key] for key in ("title", "body", "state", "base") if key in request.body}
    return 200, _pull(server, name, found)


def _get_files(server: Hub, request: Request, name: str, number: str) -> Answer:
    return 200, [
        {"filename": path, "status": "modified"} for path in _one(server, request, name, number)["files"]
    ]


def _get_reviews(server: Hub, request: Request, name: str, number: str) -> Answer:
    _one(server, request, name, number)
    return 200, server.reviews.get(int(number), [])


def _get_commit(server: Hub, request: Request, name: str, sha: str) -> Answer:
    server.seen(name, request)
    return 200, {"sha": sha, "url": f"{server.base_url}/repos/{name}/commits/{sha}"}


def _get_checks(server: Hub, request: Request, name: str, sha: str) -> Answer:
    runs = server.check_runs.get(sha, [])
    return 200, {"total_count": len(runs), "check_runs": runs}


def _get_statuses(server: Hub, request: Request, name: str, sha: str) -> Answer:
    return 200, {"state": "pending", "sha": sha, "statuses": [], "total_count": 0}


def _compare(server: Hub, request: Request, name: str, base: str, head: str) -> Answer:
    path = server.seen(name, request).path
    for revision in (base, head):
        if not git(path, "rev-parse", "--verify", "-q", f"{unquote(revision)}^{{commit}}", check=False):
            raise RefusedError(404, "Not Found")
    ahead = int(git(path, "rev-list", "--count", f"{unquote(base)}..{head}"))
    behind = int(git(path, "rev-list", "--count", f"{head}..{unquote(base)}"))
    words = {
        (True, True): "diverged",
        (True, False): "ahead",
        (False, True): "behind",
        (False, False): "identical",
    }
    document = {"status": words[ahead > 0, behind > 0], "ahead_by": ahead, "behind_by": behind, "commits": []}
    return 200, {
        **document,
        "total_commits": ahead,
        "files": [],
        "url": f"{server.base_url}/repos/{name}/compare/x",
    }


def _search(server: Hub, request: Request) -> Answer:
    terms = re.findall(r'[a-z]+:\S+|"[^"]*"|\S+', request.one("q"))
    flags = [term for term in terms if re.fullmatch(r"[a-z]+:\S+", term)]
    words = [term.strip('"').lower() for term in terms if term not in flags]
    name = next((flag.removeprefix("repo:") for flag in flags if flag.startswith("repo:")), None)
    if not any(flag in ("is:pr", "is:issue") for flag in flags):
        raise RefusedError(
            422, "Validation Failed", [{"message": "Query must include 'is:issue' or 'is:pull-request'"}]
        )
    if name not in server.repositories:
        raise RefusedError(
            422, "Validation Failed", [{"message": "The listed users and repositories cannot be searched"}]
        )
    where = next((flag.removeprefix("in:") for flag in flags if flag.startswith("in:")), "title,body").split(
        ","
    )
    pool = server.pulls[name] if "is:pr" in flags else server.issues[name]
    items = []
    for item in pool.values():
        text = " ".join((item.get(part) or "") for part in where).lower()
        merged = item.get("merged_at") is not None
        if all(word in text for word in words) and (merged or "is:merged" not in flags):
            url = f"{server.web}/{name}/{'pull' if 'is:pr' in flags else 'issues'}/{item['number']}"
            found = {key: item[key] for key in ("number", "title", "body", "state")}
            pull = {"pull_request": {"html_url": url}} if "is:pr" in flags else {}
            items.append(
                {"id": item["number"], "url": f"{server.base_url}/x", "html_url": url, **found, **pull}
            )
    return 200, {"total_count": len(items), "incomplete_results": False, "items": items}


def _app_token(server: Hub, request: Request, number: str) -> Answer:
    return 201, {
        "token": f"ghs_installation{number}",
        "expires_at": "2099-01-01T00:00:00Z",
        "permissions": {},
    }


_NAME = r"/repos/([^/]+/[^/]+)"
ROUTES: list[tuple[str, str, Callable[..., Answer]]] = [
    ("GET", "/user", _get_user),
    ("GET", _NAME, _get_repository),
    ("POST", f"{_NAME}/forks", _post_fork),
    ("GET", f"{_NAME}/branches/(.+)", _get_branch),
    ("GET", f"{_NAME}/git/refs?/heads/(.+)", _get_ref),
    ("PATCH", f"{_NAME}/git/refs/heads/(.+)", _set_ref),
    ("POST", f"{_NAME}/git/refs", _post_ref),
    ("GET", f"{_NAME}/pulls", _list_pulls),
    ("POST", f"{_NAME}/pulls", _post_pull),
    ("GET", rf"{_NAME}/pulls/(\d+)", _get_pull),
    ("PATCH", rf"{_NAME}/pulls/(\d+)", _patch_pull),
    ("GET", rf"{_NAME}/pulls/(\d+)/files", _get_files),
    ("GET", rf"{_NAME}/pulls/(\d+)/reviews", _get_reviews),
    ("GET", rf"{_NAME}/commits/([0-9a-f]+)", _get_commit),
    ("GET", rf"{_NAME}/commits/([0-9a-f]+)/check-runs", _get_checks),
    ("GET", rf"{_NAME}/commits/([0-9a-f]+)/status", _get_statuses),
    ("GET", rf"{_NAME}/compare/(.+)\.\.\.([0-9a-f]+)", _compare),
    ("GET", "/search/issues", _search),
    ("POST", r"/app/installations/(\d+)/access_tokens", _app_token),
]
