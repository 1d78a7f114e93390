"""GitHub's REST API through PyGithub: its only import.

Tried again is only what can be: PyGithub's own retry would send a POST a second time after a 502 that had in fact
succeeded (seen with 2.10.0). A pull request's key is its head branch: no hidden marker in a body survives upstream's
jobs, and the head is what GitHub itself allows one open pull request for.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from forktool import __version__
from forktool.adapters.github_answers import Hosted, Submitted, candidate_of, hosted, pull_of
from forktool.adapters.github_errors import RefusedError, rate_limited, refusal, unreached
from forktool.adapters.github_login import Login, host_of
from forktool.core.duplicates import Candidate, Kind
from forktool.core.pr_status import Pull, is_revert_of
from forktool.core.pr_template import normalised
from forktool.errors import NetworkError, RequestError

if TYPE_CHECKING:
    from github import Github
    from github.Auth import Auth
    from github.Issue import Issue
    from github.Repository import Repository

_SAFE = frozenset({"GET", "HEAD", "PUT", "PATCH", "DELETE"})
_PER_QUERY = 20
"""How many results of one search are looked at."""


class GitHub:
    """One login at one GitHub.

    Args:
        base_url: of the REST API.
        login: who we are.
        wait: the longest time in seconds to wait for a rate limit to end.
        timeout: seconds for one answer.
    """

    def __init__(self, *, base_url: str, login: Login, wait: float = 60, timeout: int = 30) -> None:
        self.host = host_of(base_url)
        self._base_url = base_url
        self._login = login
        self._wait = wait
        self._timeout = timeout
        self._client: Github | None = None
        self._auth: Auth | None = None
        self._repositories: dict[str, Repository] = {}

    def token(self) -> str:
        """The secret for git over HTTP; an app's is made for the hour.

        Raises:
            RefusedError: GitHub refuses the login.
            NetworkError: it was not reached.
        """
        self._ready()
        with self._translated("log in"):
            return self._auth.token if self._auth is not None else ""

    def repository(self, name: str) -> Hosted:
        """A repository; under another `name` than asked for where it was renamed.

        Raises:
            RefusedError: there is none that the login may see; GitHub refuses.
            NetworkError: it was not reached.
        """
        return hosted(self._repository(name))

    def ensure_fork(
        self, upstream: str, fork: str | None, *, patience: float = 120, dry_run: bool = False
    ) -> Hosted | None:
        """The fork, made if it is not there.

        Making it takes GitHub a while (its answer is 202), so it is asked for until it is there.

        Args:
            upstream: what is forked.
            fork: `OWNER/NAME`; None takes the login's own.
            patience: seconds until giving up.
            dry_run: make nothing; None is returned where it would have been made.

        Raises:
            RequestError: the repository of that name is no fork of upstream.
            RefusedError: GitHub refuses to make it.
            NetworkError: not reached, or it did not appear in time.
        """
        name = fork or f"{self._user()}/{upstream.partition('/')[2]}"
        found = self._try_repository(name)
        if found is None:
            if dry_run:
                return None
            self._make_fork(upstream, name)
            found = self._wait_for(name, patience)
        made = hosted(found)
        if made.parent is None or made.parent.lower() != upstream.lower():
            raise RequestError(
                f"{made.name} is no fork of {upstream}"
                + (f" but of {made.parent}" if made.parent is not None else ""),
                hint='set another `fork = "OWNER/NAME"` under [pull-request] in patchset.toml',
            )
        return made

    def has_branch(self, repository: str, branch: str) -> bool:
        """Whether a repository has a branch. Raises what `repository` raises."""
        with self._translated(f"read the branch {branch} of {repository}"):
            try:
                self._repository(repository).get_branch(branch)
            except RefusedError:
                raise
            except Exception as error:
                if getattr(error, "status", None) == 404:
                    return False
                raise
            return True

    def point(self, repository: str, branch: str, commit: str) -> None:
        """Make a branch name a commit that the repository, or one that it is a fork of, holds already.

        Raises:
            RefusedError: GitHub refuses, or knows no such commit.
            NetworkError: it was not reached.
        """
        with self._translated(f"set the branch {branch} of {repository}"):
            found = self._repository(repository)
            if self.has_branch(repository, branch):
                found.get_git_ref(f"heads/{branch}").edit(commit, force=True)
            else:
                found.create_git_ref(f"refs/heads/{branch}", commit)

    def find_pull(self, upstream: str, head: str, *, state: str = "open") -> Pull | None:
        """The newest pull request of a head, written `OWNER:BRANCH`. Raises what `repository` raises."""
        with self._translated(f"look for the pull request of {head}"):
            for found in self._repository(upstream).get_pulls(
                state=state, head=head, sort="created", direction="desc"
            ):
                # GitHub ignores a filter that it does not understand and lists everything.
                if found.head.label.lower() == head.lower():
                    return pull_of(found)
        return None

    def upsert_pull(self, upstream: str, *, head: str, base: str, title: str, body: str) -> Submitted:
        """Open a draft pull request for a head, or bring the open one up to date; never two.

        Args:
            upstream: the repository that gets it.
            head: `OWNER:BRANCH`.
            base: the branch of upstream.
            title: of one line.
            body: no longer than GitHub takes.

        Raises:
            RefusedError: GitHub refuses; a 5xx that had succeeded is not one.
            NetworkError: not reached, and no pull request came of it.
        """
        found = self.find_pull(upstream, head)
        if found is not None:
            return self._updated(upstream, found, base, title, body, "unchanged")
        try:
            with self._translated(f"open the pull request of {head}"):
                made = self._repository(upstream).create_pull(
                    base=base, head=head, title=title, body=body, draft=True, maintainer_can_modify=True
                )
                return Submitted(action="created", number=made.number, url=made.html_url)
        except (RefusedError, NetworkError) as error:
            if isinstance(error, RefusedError) and error.status < 500 and error.status != 422:
                raise
            # The answer was lost, or someone was faster: what counts is what is there now.
            try:
                found = self.find_pull(upstream, head)
            except (RefusedError, NetworkError):
                raise error from None
            if found is None:
                raise
            return self._updated(upstream, found, base, title, body, "adopted")

    def _updated(
        self, upstream: str, found: Pull, base: str, title: str, body: str, action: str
    ) -> Submitted:
        changes: dict[str, Any] = {}
        if found.title.strip() != title.strip():
            changes["title"] = title
        if normalised(found.body) != normalised(body):
            changes["body"] = body
        if found.base != base:
            changes["base"] = base
        if changes:
            with self._translated(f"edit #{found.number}"):
                self._repository(upstream).get_pull(found.number).edit(**changes)
            action = "updated" if action == "unchanged" else action
        return Submitted(action=action, number=found.number, url=found.url)

    def search(
        self, upstream: str, queries: Iterable[str], *, with_paths: bool = False
    ) -> tuple[Candidate, ...]:
        """Open and closed pull requests and issues of upstream that some query finds, each once.

        Args:
            upstream: the repository.
            queries: search terms.
            with_paths: ask for the files of the first pull requests found too.

        Raises what `repository` raises.
        """
        found: dict[int, tuple[Kind, Issue]] = {}
        for query in queries:
            for word, kind in (("pr", Kind.PULL), ("issue", Kind.ISSUE)):
                with self._translated(f"search {upstream}"):
                    results = self._ready().search_issues(f"repo:{upstream} is:{word} {query}")
                    for issue in _first(results, _PER_QUERY):
                        found.setdefault(issue.number, (kind, issue))
        pulls = [number for number, (kind, _issue) in found.items() if kind is Kind.PULL]
        paths = {number: self._paths(upstream, number) for number in pulls[:_PER_QUERY]} if with_paths else {}
        return tuple(
            candidate_of(issue, kind, paths.get(number, ())) for number, (kind, issue) in found.items()
        )

    def _paths(self, upstream: str, number: int) -> tuple[str, ...]:
        with self._translated(f"read the files of #{number}"):
            pull = self._repository(upstream).get_pull(number)
            return tuple(file.filename for file in _first(pull.get_files(), 100))

    def pull(self, upstream: str, number: int) -> Pull:
        """A pull request with its reviews and checks. Raises what `repository` raises."""
        with self._translated(f"read #{number} of {upstream}"):
            repository = self._repository(upstream)
            found = repository.get_pull(number)
            last: dict[str, str] = {}
            for review in found.get_reviews():
                if review.state in ("APPROVED", "CHANGES_REQUESTED", "DISMISSED") and review.user is not None:
                    last[review.user.login] = review.state
            commit = repository.get_commit(found.head.sha)
            counts: dict[str, int] = {}
            for run in commit.get_check_runs():
                word = run.conclusion or run.status
                counts[word] = counts.get(word, 0) + 1
            for status in commit.get_combined_status().statuses:
                counts[status.state] = counts.get(status.state, 0) + 1
            return pull_of(
                found,
                approvals=tuple(login for login, state in last.items() if state == "APPROVED"),
                refusals=tuple(login for login, state in last.items() if state == "CHANGES_REQUESTED"),
                checks=tuple(sorted(counts.items())),
            )

    def contains(self, upstream: str, tag: str, commit: str) -> bool:
        """Whether a tag contains a commit. Raises what `repository` raises."""
        with self._translated(f"compare {tag} with {commit[:12]}"):
            # Seen from the tag, a commit that it contains is behind it or is it.
            return self._repository(upstream).compare(tag, commit).status in ("behind", "identical")

    def revert_of(self, upstream: str, number: int) -> Pull | None:
        """The merged pull request that takes another one back and was not taken back itself; None where none does.

        Raises what `repository` raises.
        """
        with self._translated(f"look for a revert of #{number}"):
            query = f'repo:{upstream} is:pr is:merged revert "{number}" in:title,body'
            for issue in _first(self._ready().search_issues(query, sort="created", order="desc"), _PER_QUERY):
                if issue.number != number and is_revert_of(issue.title, issue.body or "", number):
                    return pull_of(self._repository(upstream).get_pull(issue.number))
        return None

    def _user(self) -> str:
        if self._login.app is not None:
            raise RequestError(
                "a GitHub App has no account of its own to fork into",
                hint='set `fork = "OWNER/NAME"` under [pull-request] in patchset.toml',
            )
        with self._translated("ask who the login is"):
            return self._ready().get_user().login

    def _try_repository(self, name: str) -> Repository | None:
        try:
            return self._repository(name)
        except RefusedError as error:
            if error.status != 404 or error.lacks_scope:
                raise
            return None

    def _make_fork(self, upstream: str, name: str) -> None:
        owner, _slash, short = name.partition("/")
        options: dict[str, Any] = {"default_branch_only": True}
        if self._login.app is not None or owner.lower() != self._user().lower():
            options["organization"] = owner
        if short != upstream.partition("/")[2]:
            options["name"] = short
        with self._translated(f"fork {upstream} to {name}"):
            self._repository(upstream).create_fork(**options)

    def _wait_for(self, name: str, patience: float) -> Repository:
        pause, until = 0.2, time.monotonic() + patience
        while True:
            found = self._try_repository(name)
            if found is not None:
                return found
            if time.monotonic() + pause > until:
                raise NetworkError(
                    f"{name} was asked for and is not there after {patience:g} s",
                    hint="run the command again",
                )
            time.sleep(pause)
            pause = min(5.0, pause * 2)

    def _repository(self, name: str) -> Repository:
        known = self._repositories.get(name)
        if known is None:
            with self._translated(f"read {name}"):
                known = self._ready().get_repo(name)
            self._repositories[name] = known
        return known

    def _ready(self) -> Github:
        if self._client is None:
            import github
            from github.GithubRetry import GithubRetry

            # Both speak of each attempt on stderr, in their own words; what counts is said once, by us.
            logging.getLogger("github").handlers.clear()
            logging.getLogger("urllib3.connectionpool").setLevel(logging.ERROR)
            # Pacing is what GitHub itself asks of clients; an Enterprise Server has its own, configurable limits.
            pace = self.host == "github.com"
            self._auth = self._made_auth()
            self._client = github.Github(
                base_url=self._base_url,
                auth=self._auth,
                timeout=self._timeout,
                per_page=100,
                user_agent=f"forktool/{__version__}",
                retry=GithubRetry(
                    total=3, connect=2, read=1, backoff_factor=0.2, allowed_methods=_SAFE,
                    secondary_rate_wait=60, max_rate_limit_wait=self._wait,
                ),
                seconds_between_requests=0.25 if pace else None,
                seconds_between_writes=1.0 if pace else None,
            )  # fmt: skip
            if self._login.app is not None:
                self._auth = self._client.requester.auth
        return self._client

    def _made_auth(self) -> Auth:
        from github import Auth

        app = self._login.app
        if app is None:
            return Auth.Token(self._login.token or "")
        return Auth.AppAuth(app.app, app.key).get_installation_auth(app.installation)

    @contextmanager
    def _translated(self, doing: str) -> Iterator[None]:
        from github import GithubException
        from github.GithubException import RateLimitExceededExceedsMaxWait

        try:
            yield
        except RateLimitExceededExceedsMaxWait as error:
            until = datetime.now(UTC) + timedelta(seconds=getattr(error, "wait", None) or 60)
            raise rate_limited(self.host, until) from None
        except GithubException as error:
            # `from None`: the exception's text holds what was sent and what came back, whole.
            raise refusal(doing, self.host, error.status, error.data, error.headers or {}) from None
        except OSError as error:
            raise unreached(self.host, error) from error


def _first(items: Iterable[Any], count: int) -> Iterator[Any]:
    for number, item in enumerate(items):
        if number >= count:
            return
        yield item
