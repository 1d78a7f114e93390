"""Pushing one branch to a fork, never over what somebody else pushed.

The token goes to git as configuration in the environment (git-config(1), GIT_CONFIG_COUNT): other users of the
machine can list a process's arguments, not its environment.
"""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Callable
from urllib.parse import urlsplit

from forktool.adapters import process
from forktool.adapters.git_store import GitStore, sealed_environment
from forktool.adapters.http import shown
from forktool.adapters.process import Completed
from forktool.core.objects import Oid, is_oid
from forktool.errors import ForktoolError, GitError, NetworkError, StoppedError

_TOO_SLOW = ("-c", "http.lowSpeedLimit=1000", "-c", "http.lowSpeedTime=60")


class Fork:
    """The git side of a fork.

    Args:
        store: holds what is pushed.
        url: of the fork's repository.
        token: for http and https URLs; None leaves it to the user's own git configuration.
    """

    def __init__(self, store: GitStore, url: str, token: str | None) -> None:
        self._store = store
        self._url = url
        self._environment = sealed_environment(user_configuration=True)
        self._environment.setdefault("GIT_SSH_COMMAND", "ssh -o BatchMode=yes")
        bundle = os.environ.get("REQUESTS_CA_BUNDLE")
        if bundle:
            self._environment.setdefault("GIT_SSL_CAINFO", bundle)
        if token is not None and urlsplit(url).scheme in ("http", "https"):
            # GitHub takes any token as the password of this user (docs.github.com, "Authenticating as a GitHub App
            # installation"); an empty helper keeps a stored credential from being asked for or overwritten.
            word = base64.b64encode(f"x-access-token:{token}".encode()).decode()
            settings = {f"http.{url}.extraHeader": f"Authorization: Basic {word}", "credential.helper": ""}
            self._environment["GIT_CONFIG_COUNT"] = str(len(settings))
            for number, (name, value) in enumerate(settings.items()):
                self._environment[f"GIT_CONFIG_KEY_{number}"] = name
                self._environment[f"GIT_CONFIG_VALUE_{number}"] = value

    def tip(self, branch: str) -> Oid | None:
        """The commit that the fork's branch names now, or None.

        Raises:
            NetworkError: the fork was not reached, or it refuses us.
        """
        done = self._run("ls-remote", "--", self._url, f"refs/heads/{branch}")
        if done.returncode:
            raise self._error(done)
        word = done.stdout.decode("ascii", "replace").partition("\t")[0]
        return Oid(word) if is_oid(word) else None

    def message(self, commit: Oid) -> tuple[bytes, bytes, bytes] | None:
        """Author, committer and message of a commit of the fork, as they are stored; None where it cannot be read."""
        if self._store.resolve(f"{commit}^{{commit}}") is None:
            flags = ("--quiet", "--no-tags", "--no-write-fetch-head", "--depth=1", "--filter=blob:none")
            if self._run("fetch", *flags, "--", self._url, commit).returncode:
                return None
        done = self._store.try_git("cat-file", "commit", commit)
        found = re.search(rb"^author (.*)\ncommitter (.*)\n(?:.+\n)*\n", done.stdout, re.MULTILINE)
        return (found[1], found[2], done.stdout[found.end() :]) if found else None

    def push(
        self, branch: str, commit: Oid, *, expected: Oid | None, before: Callable[[], None] | None = None
    ) -> bool:
        """Make the fork's branch name a commit; whether anything was to do.

        Args:
            branch: its name.
            commit: in the store.
            expected: what the branch names now as far as we know; None for no branch.
            before: called right before git pushes.

        Raises:
            StoppedError: the branch names something else: somebody pushed to it.
            NetworkError: the fork was not reached, or it refuses us.
        """
        if expected == commit:
            return False
        if before is not None:
            before()
        ref = f"refs/heads/{branch}"
        # An explicit value: without one git asks a remote-tracking branch, which a bare URL does not have.
        lease = f"--force-with-lease={ref}:{expected or ''}"
        done = self._run(
            "push", "--porcelain", "--no-verify", "--no-signed", lease, "--", self._url, f"{commit}:{ref}"
        )
        if done.returncode:
            raise self._error(done, branch)
        return True

    def _run(self, *args: str) -> Completed:
        return process.run(self._store.command(*args, configuration=_TOO_SLOW), env=self._environment)

    def _error(self, done: Completed, branch: str = "") -> ForktoolError:
        text = (done.stdout + done.stderr).decode("utf-8", "replace")
        where = shown(self._url)
        if "stale info" in text or ("[remote rejected]" in text and "cannot lock ref" in text):
            return StoppedError(
                f"somebody else pushed to {branch} of {where} meanwhile",
                hint="look at it, then run the command again",
            )
        if re.search(
            r"could not read (Username|Password)|Authentication failed|403|Permission to .* denied", text
        ):
            return NetworkError(
                f"{where} refuses the push",
                hint="the token needs `repo` (classic) or `Contents: write` on the fork (fine-grained)",
            )
        if rejected := re.search(r"\[remote rejected\] \(?([^)\n]*)", text):
            return GitError(f"{where} rejects {branch}: {rejected[1].strip()}")
        lines = [line for line in text.splitlines() if line.startswith(("fatal: ", "error: ", "remote: "))]
        reason = (lines[0] if lines else done.last_line).partition(": ")[2] or done.last_line
        return NetworkError(
            f"{where}: {reason.replace(self._url, where)}",
            hint="check the network, then run the command again",
        )
