"""Git repositories that forktool writes for a person to edit in, and takes commits back from."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from forktool.adapters import process
from forktool.adapters.git_store import PINNED, GitStore, sealed_environment
from forktool.adapters.state import translated
from forktool.core.objects import Oid
from forktool.errors import GitError

_EXPORTED = "refs/forktool/exported"


def is_ours(directory: Path, ref: str) -> bool:
    """Whether the folder is the root of a repository in which `ref` names a commit."""
    if not (directory / ".git").exists():
        return False
    done = _try(directory, "rev-parse", "--verify", "--quiet", f"{ref}^{{commit}}")
    return done.returncode == 0


def make_repository(
    store: GitStore, directory: Path, refs: Mapping[str, Oid], *, branch: str, replace: bool
) -> None:
    """A repository of its own with these refs, its branch checked out.

    Args:
        store: holds the commits.
        directory: where; empty, absent, or ours when `replace`.
        refs: full ref name to commit; what is no branch is a base, of which nothing behind it comes along: the store
            may lack those files.
        branch: which of `refs/heads/` to check out.
        replace: remove what is there first.

    Raises:
        GitError: git failed.
        DiskError: the file system refused.
    """
    if replace and directory.exists():
        with translated(f"cannot remove {directory}"):
            shutil.rmtree(directory)
    with translated(f"cannot make {directory}"):
        directory.mkdir(parents=True, exist_ok=True)
    offered = {f"refs/forktool/offered/{number}": oid for number, oid in enumerate(refs.values())}
    store.update_refs(offered)
    _git(directory, "init", "--quiet", "--template=", f"--initial-branch={branch}")
    specs = {ref: f"{offer}:{ref}" for offer, ref in zip(offered, refs, strict=True)}
    branches = [spec for ref, spec in specs.items() if ref.startswith("refs/heads/")]
    bases = [spec for spec in specs.values() if spec not in branches]
    options = ("--quiet", "--no-tags", "--update-head-ok")
    _git(directory, "fetch", *options, "--depth=1", str(store.path.resolve()), *bases)
    _git(directory, "fetch", *options, "--update-shallow", str(store.path.resolve()), *branches)
    _git(directory, "checkout", "--quiet", branch)


def fetch_head(store: GitStore, directory: Path) -> Oid:
    """Bring what is checked out there into the store.

    Raises:
        GitError: git failed.
    """
    store.git("fetch", "--quiet", "--no-tags", "--update-shallow", directory.resolve(), f"+HEAD:{_EXPORTED}")
    oid = store.resolve(_EXPORTED)
    if oid is None:
        raise GitError(f"{directory} has no commit checked out")
    return oid


def _try(directory: Path, *args: str) -> process.Completed:
    return process.run(["git", *PINNED, *args], cwd=directory, env=sealed_environment())


def _git(directory: Path, *args: str) -> None:
    done = _try(directory, *args)
    if done.returncode:
        raise GitError(f"git {args[0]} in {directory}: {done.last_line}")
