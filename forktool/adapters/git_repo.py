"""Repositories of users, read through GitPython: its only import.

GitPython hands the environment on to git, so `GIT_DIR` and its like, as they are set when we run from a hook,
would lead every question to another repository. They are taken away while a repository is open.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from forktool.core.objects import Oid, Person
from forktool.errors import GitError, RequestError

if TYPE_CHECKING:
    from git import Repo

_KEPT = ("GIT_EXEC_PATH", "GIT_PYTHON_GIT_EXECUTABLE")


@dataclass(frozen=True, kw_only=True, slots=True)
class RepositoryCommit:
    """A commit of a user's repository; `message` is text, whatever encoding the commit declares."""

    oid: Oid
    tree: Oid
    parents: tuple[Oid, ...]
    author: Person
    committer: Person
    message: str

    @property
    def subject(self) -> str:
        """The message's first line."""
        return self.message.lstrip("\n").partition("\n")[0]


@contextmanager
def _opened(path: Path) -> Iterator[Repo]:
    """A repository by its root, with nothing of the caller's GIT_ environment in sight."""
    import git

    hidden = {
        name: os.environ.pop(name)
        for name in list(os.environ)
        if name.startswith("GIT_") and name not in _KEPT
    }
    os.environ["GIT_NO_REPLACE_OBJECTS"] = "1"
    os.environ["GIT_OPTIONAL_LOCKS"] = "0"
    try:
        with git.Repo(path.expanduser()) as repository:
            yield repository
    except git.exc.NoSuchPathError as error:
        raise RequestError(f"{path} does not exist", hint="give the path of a git repository") from error
    except git.exc.InvalidGitRepositoryError as error:
        raise RequestError(f"{path} is not a git repository", hint=f"git init {path}") from error
    except git.exc.GitCommandError as error:
        reason = str(error.stderr).strip().removeprefix("stderr: ").strip("'\n ").splitlines() or ["failed"]
        raise GitError(f"{path}: {reason[-1].removeprefix('fatal: ')}") from error
    finally:
        for name in ("GIT_NO_REPLACE_OBJECTS", "GIT_OPTIONAL_LOCKS"):
            os.environ.pop(name, None)
        os.environ.update(hidden)


def commits(repository: Path, span: str) -> tuple[RepositoryCommit, ...]:
    """The commits of `A..B`, oldest first, as a series that patches can be made of.

    Args:
        repository: the root of a work tree, or a bare repository.
        span: `A..B`; `A..` ends at HEAD.

    Raises:
        RequestError: no repository, no such span, an empty one, a merge in it, or history that is cut off.
        GitError: git could not read it.
    """
    left, dots, right = span.partition("..")
    if not dots or not left or right.startswith("."):
        raise RequestError(f"{span!r} is not a span of commits", hint="write it as UPSTREAM_TAG..BRANCH")
    with _opened(repository) as repo:
        first, last = (_named(repo, repository, name) for name in (left, right or "HEAD"))
        listed = repo.git.rev_list("--reverse", "--topo-order", "--end-of-options", last, f"^{first}").split()
        found = tuple(_commit(repo, Oid(oid)) for oid in listed)
        cut_off = _shallow(repo)
    if not found:
        raise RequestError(f"{span} holds no commits in {repository}", hint=f"git -C {repository} log {span}")
    for commit in found:
        if not commit.parents or commit.oid in cut_off:
            raise _refused(commit, "has no parent here", f"git -C {repository} fetch --unshallow")
        if len(commit.parents) > 1:
            raise _refused(commit, "is a merge", f"git -C {repository} rebase {left}")
    return found


def _refused(commit: RepositoryCommit, reason: str, hint: str) -> RequestError:
    return RequestError(
        f"{commit.oid[:12]} {commit.subject!r} {reason}; a patch is one commit on one parent", hint=hint
    )


def _shallow(repo: Repo) -> frozenset[str]:
    """Commits whose parents a shallow clone left out; their objects name them all the same."""
    path = Path(repo.common_dir) / "shallow"
    return frozenset(path.read_text(encoding="ascii").split()) if path.is_file() else frozenset()


# A user's configuration and attributes change what a diff looks like; these make it one that can be read exactly.
_DIFF = (
    "-r", "-p", "-M", "--full-index", "--binary", "--no-ext-diff", "--no-textconv", "--no-color", "--no-relative",
    "--src-prefix=a/", "--dst-prefix=b/", "--unified=3", "--inter-hunk-context=0", "--ignore-submodules=none",
    "--submodule=short", "-O/dev/null",
)  # fmt: skip


def commit_diff(repository: Path, commit: RepositoryCommit) -> bytes:
    """What a commit with one parent changes, in git's format with full ids and binary content.

    Raises:
        GitError: git could not read it.
    """
    with _opened(repository) as repo:
        text = repo.git.diff_tree(
            *_DIFF, commit.parents[0], commit.oid, stdout_as_string=False, strip_newline_in_stdout=False
        )
    return bytes(text)


def head(repository: Path) -> Oid:
    """The commit that is checked out.

    Raises:
        RequestError: no repository, or no commit in it.
    """
    with _opened(repository) as repo:
        return _named(repo, repository, "HEAD")


def uncommitted(repository: Path) -> tuple[str, ...]:
    """Paths that differ from HEAD in index or work tree, and untracked ones, sorted; ignored files do not count.

    Raises:
        RequestError: no repository.
        GitError: git could not tell.
    """
    with _opened(repository) as repo:
        raw = repo.git.status(
            "--porcelain=v1", "-z", "--untracked-files=all", "--no-renames", strip_newline_in_stdout=False
        )
    return tuple(sorted(item[3:] for item in str(raw).split("\0") if item))


def object_folder(repository: Path) -> Path:
    """Where the repository keeps its objects, for git's alternates.

    Raises:
        RequestError: no repository.
    """
    with _opened(repository) as repo:
        return Path(repo.common_dir).resolve() / "objects"


def _named(repo: Repo, path: Path, name: str) -> Oid:
    import git

    try:
        return Oid(repo.git.rev_parse("--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}"))
    except git.exc.GitCommandError as error:
        raise RequestError(
            f"{path} has no commit {name}", hint=f"git -C {path} log --oneline --all"
        ) from error


def _commit(repo: Repo, oid: Oid) -> RepositoryCommit:
    # The raw object: GitPython's own Commit drops what it cannot decode.
    body = repo.odb.stream(bytes.fromhex(oid)).read()
    headers, _blank, message = body.partition(b"\n\n")
    fields: dict[bytes, list[bytes]] = {}
    for line in headers.split(b"\n"):
        if not line.startswith(b" "):  # a signature's lines go on with a space
            key, _space, value = line.partition(b" ")
            fields.setdefault(key, []).append(value)
    encoding = fields.get(b"encoding", [b"utf-8"])[0].decode("ascii", "replace")
    return RepositoryCommit(
        oid=oid,
        tree=Oid(fields[b"tree"][0].decode()),
        parents=tuple(Oid(parent.decode()) for parent in fields.get(b"parent", [])),
        author=_person(fields[b"author"][0], encoding),
        committer=_person(fields[b"committer"][0], encoding),
        message=_text(message, encoding),
    )


def _person(value: bytes, encoding: str) -> Person:
    name, _less, rest = value.rpartition(b"<")
    email, _greater, when = rest.partition(b"> ")
    return Person(
        name=_text(name, encoding).strip(), email=_text(email, encoding), when=when.decode("ascii", "replace")
    )


def _text(value: bytes, encoding: str) -> str:
    for candidate in (encoding, "utf-8"):
        try:
            return value.decode(candidate)
        except (UnicodeDecodeError, LookupError):
            continue
    # Written without declaring its encoding: Latin-1 is what git's own mailinfo would guess.
    return value.decode("latin-1")
