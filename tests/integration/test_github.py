"""The GitHub adapter over HTTP: refusals, limits, logins, proxies; the real PyGithub speaks to a strict server."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from forktool.adapters.github import GitHub
from forktool.adapters.github_errors import RateLimitedError, RefusedError
from forktool.adapters.github_login import Login, find_login
from forktool.core.duplicates import Kind
from forktool.errors import ForktoolError, NetworkError, RequestError
from tests.support.github_server import GitHubServer
from tests.support.pull_requests import FORK, TOKEN, UPSTREAM
from tests.support.story import Story


@pytest.fixture
def hub(story: Story, tmp_path: Path) -> Iterator[GitHubServer]:
    story.release("v1.0", {"a.py": "a = 1\n"})
    server = GitHubServer(tmp_path / "hub")
    server.host(UPSTREAM, story.upstream / ".git")
    server.login(TOKEN, "maintainer", "repo")
    with server.running():
        yield server


def client(hub: GitHubServer, token: str = TOKEN, *, wait: float = 0.5) -> GitHub:
    return GitHub(base_url=hub.base_url, login=Login(source="test", token=token), wait=wait, timeout=5)


def test_a_token_that_is_no_good_is_named_as_such(hub: GitHubServer) -> None:
    with pytest.raises(RefusedError, match=r"refuses the login \(401\): Bad credentials") as caught:
        client(hub, "tok_wrong").repository(UPSTREAM)
    assert "FORKTOOL_GITHUB_TOKEN" in str(caught.value.hint)
    assert "tok_wrong" not in caught.value.message


def test_a_missing_scope_is_named_with_those_that_are_there(hub: GitHubServer) -> None:
    hub.fork(UPSTREAM, FORK)
    hub.login("tok_narrow", "maintainer", "gist", "read:user")

    with pytest.raises(RefusedError) as caught:
        client(hub, "tok_narrow").upsert_pull(
            UPSTREAM, head="maintainer:main", base="main", title="t", body="b"
        )

    assert caught.value.message == (
        "cannot open the pull request of maintainer:main: the token lacks the scope public_repo or repo; "
        "it has gist, read:user (403)"
    )
    assert caught.value.hint == "gh auth refresh --scopes public_repo, or make a token that has it"


def test_a_fine_grained_token_is_told_its_permission(hub: GitHubServer) -> None:
    hub.fault(
        "GET", UPSTREAM, "before", 403,
        document={"message": "Resource not accessible by personal access token"},
        headers={"X-Accepted-GitHub-Permissions": "pull_requests=write"},
    )  # fmt: skip
    with pytest.raises(RefusedError, match="lacks the permission pull_requests=write") as caught:
        client(hub).repository(UPSTREAM)
    assert caught.value.hint == "give the token pull_requests=write for that repository"


def test_a_token_without_single_sign_on_is_sent_to_the_page_for_it(hub: GitHubServer) -> None:
    hub.fault(
        "GET", UPSTREAM, "before", 403,
        document={"message": "Resource protected by organization SAML enforcement."},
        headers={"X-GitHub-SSO": "required; url=https://github.com/orgs/upstream-org/sso?x=1"},
    )  # fmt: skip
    with pytest.raises(RefusedError) as caught:
        client(hub).repository(UPSTREAM)
    assert caught.value.hint == "authorise it at https://github.com/orgs/upstream-org/sso?x=1"


def test_a_private_repository_behind_a_404_names_the_scope(hub: GitHubServer) -> None:
    hub.repositories[UPSTREAM].private = True
    hub.login("tok_public", "maintainer", "public_repo")

    with pytest.raises(RefusedError, match=r"the token lacks the scope repo; it has public_repo \(404\)"):
        client(hub, "tok_public").repository(UPSTREAM)
    with pytest.raises(RefusedError, match=r"or the login may not see it \(404\)"):
        client(hub).repository("nobody/nothing")


def test_a_head_that_was_not_pushed_is_refused_once(hub: GitHubServer) -> None:
    hub.fork(UPSTREAM, FORK)

    with pytest.raises(RefusedError, match=r"head is invalid \(422\)"):
        client(hub).upsert_pull(UPSTREAM, head="maintainer:never-pushed", base="main", title="t", body="b")
    assert len(hub.calls("POST", "/pulls$")) == 1


def test_an_archived_repository_says_so(hub: GitHubServer) -> None:
    hub.fork(UPSTREAM, FORK)
    hub.repositories[UPSTREAM].archived = True
    assert client(hub).repository(UPSTREAM).is_archived
    with pytest.raises(RequestError, match="the repository is archived"):
        client(hub).upsert_pull(UPSTREAM, head="maintainer:main", base="main", title="t", body="b")


def test_a_renamed_repository_answers_under_its_new_name(hub: GitHubServer) -> None:
    hub.repositories["upstream-org/motor"] = hub.repositories.pop(UPSTREAM)
    hub.repositories["upstream-org/motor"].name = "upstream-org/motor"
    hub.renamed[UPSTREAM] = "upstream-org/motor"

    assert client(hub).repository(UPSTREAM).name == "upstream-org/motor"


def test_a_rate_limit_that_ends_too_late_is_told_with_its_time(hub: GitHubServer) -> None:
    reset = int(time.time()) + 900
    hub.fault(
        "GET", UPSTREAM, "before", 403,
        document={"message": "API rate limit exceeded for user ID 7."},
        headers={"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": str(reset)},
    )  # fmt: skip
    began = time.monotonic()
    with pytest.raises(RateLimitedError) as caught:
        client(hub).repository(UPSTREAM)
    assert time.monotonic() - began < 5
    assert f"until {time.strftime('%H:%M', time.gmtime(reset))}" in caught.value.message
    assert "with --wait 9" in str(caught.value.hint)


def test_a_rate_limit_that_ends_soon_is_waited_for(hub: GitHubServer) -> None:
    hub.fault(
        "GET", UPSTREAM, "before", 403,
        document={"message": "You have exceeded a secondary rate limit."}, headers={"Retry-After": "1"},
    )  # fmt: skip
    began = time.monotonic()
    assert client(hub, wait=30).repository(UPSTREAM).name == UPSTREAM
    assert time.monotonic() - began >= 1


def test_a_limited_write_is_not_sent_twice(hub: GitHubServer) -> None:
    hub.fork(UPSTREAM, FORK)
    hub.fault(
        "POST",
        "/pulls$",
        "before",
        429,
        document={"message": "Too many requests"},
        headers={"Retry-After": "7"},
    )
    with pytest.raises(RateLimitedError, match="limits the rate of requests until"):
        client(hub).upsert_pull(UPSTREAM, head="maintainer:main", base="main", title="t", body="b")
    assert len(hub.calls("POST", "/pulls$")) == 1


def test_a_host_that_is_not_there_is_one_line(hub: GitHubServer) -> None:
    login = Login(source="test", token=TOKEN)
    with pytest.raises(NetworkError, match=r"cannot reach localhost: Connection refused") as caught:
        GitHub(base_url="http://localhost:9", login=login, timeout=2).repository(UPSTREAM)
    assert "\n" not in caught.value.message


def test_a_proxy_is_used_and_its_failure_named(hub: GitHubServer, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("http_proxy", f"http://localhost:{hub.port}")
    assert client(hub).repository(UPSTREAM).name == UPSTREAM
    assert hub.proxied == 1
    monkeypatch.setenv("http_proxy", "http://localhost:9")
    with pytest.raises(NetworkError, match=r"localhost: the proxy failed: .*Connection refused") as caught:
        client(hub).repository(UPSTREAM)
    assert caught.value.hint == "check HTTPS_PROXY and NO_PROXY"


def test_a_fork_that_never_appears_ends_in_one_line(hub: GitHubServer) -> None:
    hub.fork_delay = 10_000
    with pytest.raises(NetworkError, match=r"maintainer/engine was asked for and is not there after 1 s"):
        client(hub).ensure_fork(UPSTREAM, None, patience=1)


def test_a_fork_in_an_organisation_is_asked_for_there(hub: GitHubServer) -> None:
    made = client(hub).ensure_fork(UPSTREAM, "our-org/our-engine")
    assert made is not None
    assert made.name == "our-org/our-engine"
    assert hub.calls("POST", "/forks$")[0].body == {
        "default_branch_only": True, "organization": "our-org", "name": "our-engine",
    }  # fmt: skip


def test_the_search_looks_at_pull_requests_and_issues_and_their_files(hub: GitHubServer) -> None:
    pull = hub.add_pull(UPSTREAM, title="Accept kimi_k2", files=("a.py",))
    issue = hub.add_issue(UPSTREAM, title="kimi_k2 is refused", state="closed")
    hub.add_pull(UPSTREAM, title="Another thing")

    found = client(hub).search(UPSTREAM, ['"kimi_k2"', "accept in:title"], with_paths=True)

    assert [(item.number, item.kind, item.state, item.paths) for item in found] == [
        (pull, Kind.PULL, "open", ("a.py",)), (issue, Kind.ISSUE, "closed", ()),
    ]  # fmt: skip


def test_an_app_logs_in_with_its_key_and_has_no_account_to_fork_into(
    hub: GitHubServer, tmp_path: Path
) -> None:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    key = rsa.generate_private_key(public_exponent=65537, key_size=2048).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )
    file = tmp_path / "app.pem"
    file.write_bytes(key)
    hub.login("ghs_installation42", "our-app[bot]", "repo")
    login = find_login(
        hub.base_url,
        {
            "FORKTOOL_GITHUB_APP_ID": "7",
            "FORKTOOL_GITHUB_APP_INSTALLATION": "42",
            "FORKTOOL_GITHUB_APP_KEY_FILE": str(file),
        },
    )
    assert "PRIVATE KEY" not in repr(login)
    github = GitHub(base_url=hub.base_url, login=login, timeout=5)

    assert github.repository(UPSTREAM).name == UPSTREAM
    assert github.token() == "ghs_installation42"
    with pytest.raises(RequestError, match="a GitHub App has no account of its own"):
        github.ensure_fork(UPSTREAM, None)


def test_an_enterprise_server_is_reached_below_its_path(story: Story, tmp_path: Path) -> None:
    story.release("v1.0", {"a.py": "a = 1\n"})
    server = GitHubServer(tmp_path / "ghes", prefix="/api/v3")
    server.host(UPSTREAM, story.upstream / ".git")
    server.login(TOKEN, "maintainer", "repo")
    with server.running():
        assert client(server).repository(UPSTREAM).default_branch == "main"
    assert server.asked[0].path == f"/repos/{UPSTREAM}"


@pytest.mark.parametrize(
    ("environment", "source"),
    [
        ({"FORKTOOL_GITHUB_TOKEN": "a", "GITHUB_TOKEN": "b"}, "FORKTOOL_GITHUB_TOKEN"),
        ({"GITHUB_TOKEN": "b", "GH_TOKEN": "c"}, "GITHUB_TOKEN"),
        ({"GH_TOKEN": "c"}, "GH_TOKEN"),
    ],
)
def test_the_environment_names_the_login(environment: dict[str, str], source: str) -> None:
    login = find_login("https://api.github.com", environment)
    assert login.source == source
    assert login.token == environment[source]
    assert repr(login) == f"Login(source={source!r}, app=None)"


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({}, "there is no login for github.com"),
        ({"GITHUB_TOKEN": "two words"}, "GITHUB_TOKEN holds no token"),
        ({"FORKTOOL_GITHUB_APP_ID": "7"}, "needs FORKTOOL_GITHUB_APP_INSTALLATION, FORKTOOL_GITHUB_APP_KEY_FILE too"),
        (
            {
                "FORKTOOL_GITHUB_APP_ID": "7", "FORKTOOL_GITHUB_APP_INSTALLATION": "8",
                "FORKTOOL_GITHUB_APP_KEY_FILE": "/nowhere.pem",
            },
            "cannot read /nowhere.pem",
        ),
    ],
)  # fmt: skip
def test_a_login_that_is_not_there_or_not_whole_is_one_line(
    environment: dict[str, str], message: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ForktoolError, match=message) as caught:
        find_login("https://api.github.com", environment)
    assert caught.value.hint


def test_the_login_that_gh_has_stored_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gh = tmp_path / "gh"
    gh.write_text('#!/bin/sh\n[ "$*" = "auth token --hostname ghe.example.org" ] && echo gho_stored\n')
    gh.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")

    login = find_login("https://ghe.example.org/api/v3", {})

    assert (login.source, login.token) == ("gh", "gho_stored")
