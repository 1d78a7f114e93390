"""Upstream's git repository as a source of tags and trees.

Everything is fetched into the private store with the user's own configuration for the way there (credentials,
proxies, `insteadOf`), and with no prompt. By default a tag comes alone, without its files' contents; git fetches
those when they are first read, since the remote stays configured as a promisor (gitformat: partialclone).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

from forktool.adapters import process
from forktool.adapters.git_store import GitStore, sealed_environment
from forktool.adapters.http import OfflineError, shown
from forktool.adapters.process import Completed
from forktool.adapters.state import State
from forktool.core.objects import Oid, is_oid
from forktool.core.upstream_config import History
from forktool.core.versions import TagPattern
from forktool.errors import ForktoolError, GitError, NetworkError, RequestError

REMOTE = "upstream"
_WORKING = "refs/forktool/fetched/"
_BRANCHES = "refs/forktool/branches/"
_WHOLE_HISTORY = (1 << 31) - 1
"""git-fetch(1)'s number for `--depth` that means all of it, in a shallow repository and in any other."""
_TOO_SLOW = ("-c", "http.lowSpeedLimit=1000", "-c", "http.lowSpeedTime=60")


class GitSource:
    """The tags of one repository.

    Args:
        store: where fetched objects go.
        state: where the list of tags is kept.
        repository: a URL, or the path of a repository on this machine.
        pattern: which tags are releases.
        history: how much comes with a tag.
        offline: never ask the repository.
    """

    def __init__(
        self,
        *,
        store: GitStore,
        state: State,
        repository: str,
        pattern: TagPattern,
        history: History = History.SHALLOW,
        offline: bool = False,
    ) -> None:
        self._store = store
        self._state = state
        self._pattern = pattern
        self._history = history
        self._offline = offline
        local = Path(repository).expanduser()
        self._is_local = local.exists()
        # A path would be read past git's protocol in places; as a URL it is a remote like any other.
        self.url = local.resolve().as_uri() if self._is_local else repository
        self._asked: dict[str, Oid] | None = None

    def known(self) -> dict[str, Oid]:
        """The tags as last listed, with the commits they name, without asking."""
        if self._asked is not None:
            return self._asked
        try:
            kept = json.loads(self._path().read_bytes())["tags"]
            return {str(tag): Oid(oid) for tag, oid in kept.items()}
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return {}

    def tags(self) -> dict[str, Oid]:
        """The tags now, with the commits they name. Offline, those last listed.

        Raises:
            RequestError: there is no such repository.
            NetworkError: it was not reached.
        """
        if self._offline:
            return self.known()
        if self._asked is None:
            listed = self._remote("ls-remote", "--tags", "--", self.url, f"refs/tags/{self._pattern.glob()}")
            found: dict[str, Oid] = {}
            for line in listed.stdout.decode("utf-8", "surrogateescape").splitlines():
                oid, _tab, ref = line.partition("\t")
                # An annotated tag comes twice; the second line, with `^{}`, is the commit.
                tag = ref.removeprefix("refs/tags/").removesuffix("^{}")
                if is_oid(oid) and self._pattern.version(tag) is not None:
                    found[tag] = Oid(oid)
            self._asked = found
            now = datetime.now(UTC).isoformat(timespec="seconds")
            document = {"url": shown(self.url), "fetched": now, "tags": found}
            self._state.write(self._path(), json.dumps(document, indent=1).encode())
        return self._asked

    def fetch(self, tag: str) -> Oid:
        """Bring a tag's commit into the store.

        Raises:
            RequestError: the repository has no such tag.
            NetworkError: it was not reached, or `offline` is set.
            GitError: git refused for another reason.
        """
        if self._offline:
            raise OfflineError(
                f"{tag} must be fetched from {shown(self.url)} and --offline forbids it",
                hint="run the command without --offline",
            )
        self._configure()
        working = f"{_WORKING}{tag}"
        whole = self._history is History.FULL
        try:
            self._remote(
                *("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules"),
                *(
                    (f"--depth={_WHOLE_HISTORY}", "--no-filter")
                    if whole
                    else ("--depth=1", "--filter=blob:none")
                ),
                REMOTE,
                f"+refs/tags/{tag}:{working}",
            )
            commit = self._store.resolve(f"{working}^{{commit}}")
        finally:
            self._store.try_git("update-ref", "-d", working)
        if commit is None:
            raise GitError(f"{tag} of {shown(self.url)} does not name a commit")
        return commit

    def branch(self, name: str | None) -> tuple[str, Oid]:
        """A branch and the commit that it names now; the default one for None. Offline, as last fetched.

        Raises:
            RequestError: the repository has no such branch.
            NetworkError: it was not reached, or `offline` is set and the branch was never fetched.
        """
        if self._offline:
            return self._kept_branch(name)
        listed = self._remote("ls-remote", "--symref", "--", self.url, "HEAD", "refs/heads/*")
        heads: dict[str, Oid] = {}
        default: str | None = None
        for line in listed.stdout.decode("utf-8", "surrogateescape").splitlines():
            word, _tab, ref = line.partition("\t")
            if word.startswith("ref: ") and ref == "HEAD":
                default = word.removeprefix("ref: ").removeprefix("refs/heads/")
            elif is_oid(word) and ref.startswith("refs/heads/"):
                heads[ref.removeprefix("refs/heads/")] = Oid(word)
        wanted = name or default
        if wanted is None or wanted not in heads:
            is_now = f"; its default branch is {default}" if default is not None else ""
            raise RequestError(
                f"{shown(self.url)} has no branch {wanted or 'HEAD'}{is_now}",
                hint=f"name it: --onto {default}"
                if default is not None
                else f"git ls-remote {shown(self.url)}",
            )
        return wanted, heads[wanted]

    def _kept_branch(self, name: str | None) -> tuple[str, Oid]:
        kept = self._store.git("for-each-ref", "--format=%(objectname) %(refname)", _BRANCHES)
        for line in kept.decode("utf-8", "surrogateescape").splitlines():
            oid, _space, ref = line.partition(" ")
            if name in (None, ref.removeprefix(_BRANCHES)):
                return ref.removeprefix(_BRANCHES), Oid(oid)
        raise OfflineError(
            f"{name or 'the default branch'} of {shown(self.url)} must be fetched and --offline forbids it",
            hint="run the command without --offline",
        )

    def fetch_branch(self, name: str, *, since: str | None = None) -> Oid:
        """Bring a branch's commit into the store, without files' contents.

        Args:
            name: the branch.
            since: a tag; the commits that it does not contain come too. None brings one commit.

        Raises:
            RequestError: the repository has no such branch.
            NetworkError: it was not reached.
            GitError: git refused for another reason.
        """
        _name, tip = self.branch(name)
        if not self._offline:
            self._configure()
            known = self.tags().get(since) if since is not None else None
            # `--shallow-exclude` of all there is would be an error (git-fetch(1)).
            depth = f"--shallow-exclude=refs/tags/{since}" if known not in (None, tip) else "--depth=1"
            self._remote(
                *("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules"),
                *(depth, "--filter=blob:none"),
                REMOTE,
                f"+refs/heads/{name}:{_BRANCHES}{name}",
            )
        commit = self._store.resolve(f"{_BRANCHES}{name}^{{commit}}")
        if commit is None:
            raise GitError(f"{name} of {shown(self.url)} does not name a commit")
        return commit

    def first_parents(self, commit: Oid) -> tuple[Oid, ...]:
        """The first-parent history of a commit as far as it was fetched, oldest first, the commit last."""
        listed = self._store.git("rev-list", "--first-parent", "--reverse", commit)
        return tuple(Oid(line) for line in listed.decode().split())

    def fetch_files(self, commit: Oid, paths: Iterable[str]) -> None:
        """Fetch the contents of files in one request, where reading would fetch them one by one.

        Raises:
            NetworkError: the repository was not reached.
        """
        listed = self._store.try_git(
            "rev-list", "--objects", "--missing=print", "--no-walk", commit, "--", *dict.fromkeys(paths)
        )
        missing = re.findall(rb"^\?([0-9a-f]{40})$", listed.stdout, re.MULTILINE)
        if missing and not self._offline:
            self._remote(
                *("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules"),
                *("--filter=blob:none", "--stdin", REMOTE),
                configuration=("-c", "fetch.negotiationAlgorithm=noop"),
                stdin=b"\n".join(missing),
            )

    def _configure(self) -> None:
        settings = {
            f"remote.{REMOTE}.url": self.url,
            f"remote.{REMOTE}.promisor": "true",
            f"remote.{REMOTE}.partialclonefilter": "blob:none",
        }
        for name, value in settings.items():
            if self._store.try_git("config", "--get", name).stdout.decode().rstrip("\n") != value:
                self._store.git("config", name, value)

    def _remote(self, *args: str, configuration: tuple[str, ...] = (), stdin: bytes = b"") -> Completed:
        environment = sealed_environment(user_configuration=True)
        environment.setdefault("GIT_SSH_COMMAND", "ssh -o BatchMode=yes")
        done = process.run(
            self._store.command(*args, configuration=(*_TOO_SLOW, *configuration)),
            env=environment,
            stdin=stdin,
        )
        if done.returncode:
            raise self._error(done)
        return done

    def _error(self, done: Completed) -> ForktoolError:
        text = done.stderr.decode("utf-8", "replace")
        shown_url = shown(self.url)
        reason = done.last_line.removeprefix("fatal: ").replace(self.url, shown_url)
        if missing := re.search(r"couldn't find remote ref refs/tags/(\S+)", text):
            return RequestError(
                f"{shown_url} has no tag {missing[1]}", hint=f"git ls-remote --tags {shown_url}"
            )
        if self._is_local and "does not appear to be a git repository" in text:
            return RequestError(
                f"{shown_url} is not a git repository", hint="correct `repository` in patchset.toml"
            )
        if re.search(r"could not read (Username|Password)|Authentication failed|Permission denied", text):
            return NetworkError(
                f"{shown_url} asks for credentials",
                hint=f"make `git ls-remote {shown_url}` work without a prompt",
            )
        asking = re.search(r"unable to (access|connect)|Could not (resolve|read from)|not found", text)
        hint = "check `repository` in patchset.toml and the network" if asking else None
        cause = next((line for line in text.splitlines() if line.startswith("fatal: ")), f"fatal: {reason}")
        return NetworkError(
            f"{shown_url}: {cause.removeprefix('fatal: ').replace(self.url, shown_url)}", hint=hint
        )

    def _path(self) -> Path:
        key = sha256(f"{self.url} {self._pattern.text}".encode()).hexdigest()[:12]
        return self._state.home / "index" / f"git-{key}.json"
