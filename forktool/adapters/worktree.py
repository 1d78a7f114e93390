"""Work trees of the private repository: to settle a conflict in, and to edit the series in.

These are ordinary git work trees; the user's own git, editor and mergetool work there.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from forktool.adapters import process
from forktool.adapters.git_store import PINNED, GitStore, sealed_environment
from forktool.adapters.rerere import has_markers
from forktool.adapters.state import translated
from forktool.core.objects import Oid
from forktool.errors import GitError

# zdiff3 shows the base and leaves out what both sides say at a conflict's edges; git 2.35 has it.
_SETTINGS = {
    "rerere.enabled": "true",
    "rerere.autoUpdate": "false",
    "merge.conflictStyle": "zdiff3",
    "core.autocrlf": "false",
    "gc.auto": "0",
}


@dataclass(frozen=True, slots=True)
class WorkTree:
    """A work tree at `path`."""

    path: Path

    @property
    def exists(self) -> bool:
        """Whether it is there."""
        return (self.path / ".git").exists()

    def try_git(self, *args: str) -> process.Completed:
        """Run git in it, sealed, and return how it ended."""
        return process.run(["git", *PINNED, *_settings(), *args], cwd=self.path, env=sealed_environment())

    def git(self, *args: str) -> bytes:
        """Run git in it.

        Raises:
            GitError: it ended with another status than 0.
        """
        done = self.try_git(*args)
        if done.returncode:
            raise GitError(f"git {args[0]} in {self.path}: {done.last_line}")
        return done.stdout

    def unmerged(self) -> tuple[str, ...]:
        """The paths that git holds as conflicted."""
        listed = self.git("diff", "--name-only", "--diff-filter=U", "-z")
        return tuple(name.decode("utf-8", "surrogateescape") for name in listed.split(b"\0") if name)

    def still_marked(self) -> tuple[str, ...]:
        """The conflicted paths whose file still holds conflict markers."""
        marked = []
        for path in self.unmerged():
            file = self.path / path
            if file.is_file() and has_markers(file.read_bytes()):
                marked.append(path)
        return tuple(marked)

    def take_tree(self) -> Oid:
        """The tree of what is there now: what was staged, and every change to a tracked or conflicted file.

        rerere records the resolution on the way.

        Raises:
            GitError: git failed.
        """
        unmerged = self.unmerged()
        self.git("rerere")
        if unmerged:
            self.git("add", "--all", "--", *unmerged)
        self.git("add", "--update")
        return Oid(self.git("write-tree").decode().strip())


def _settings() -> list[str]:
    return [word for name, value in _SETTINGS.items() for word in ("-c", f"{name}={value}")]


def add_work_tree(store: GitStore, path: Path, commit: Oid) -> WorkTree:
    """Check a commit out at `path`, detached; an old work tree of ours there is replaced.

    Raises:
        GitError: git failed, as when `path` is there and not ours.
    """
    remove_work_tree(store, path)
    for name, value in _SETTINGS.items():
        store.git("config", name, value)
    store.git("worktree", "add", "--quiet", "--force", "--detach", path, commit)
    return WorkTree(path)


def remove_work_tree(store: GitStore, path: Path) -> None:
    """Remove a work tree of the store, whatever is in it.

    Raises:
        DiskError: the file system refused.
    """
    if (path / ".git").is_file():
        with translated(f"cannot remove {path}"):
            shutil.rmtree(path)
    store.git("worktree", "prune")
