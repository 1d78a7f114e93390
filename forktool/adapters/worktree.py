"""Work trees of the private repository: to settle a conflict in, and to edit the series in.

These are ordinary git work trees; the user's own git, editor and mergetool work there.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from forktool.adapters import process
from forktool.adapters.git_store import PINNED, GitStore, sealed_environment
from forktool.adapters.rerere import has_markers
from forktool.adapters.state import translated
from forktool.core.objects import Oid, blob_id
from forktool.errors import GitError

# zdiff3 shows the base and leaves out what both sides say at a conflict's edges; git 2.35 has it.
_SETTINGS = {
    "rerere.enabled": "true",
    "rerere.autoUpdate": "false",
    "merge.conflictStyle": "zdiff3",
    "core.autocrlf": "false",
    "gc.auto": "0",
}


START = "refs/worktree/forktool/start"
"""Where a conflict's work tree was before the patch; such a ref is a work tree's own (gitglossary(7))."""


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

    def pick(self, commit: Oid) -> None:
        """Take a commit's change into index and files, conflicts included; nothing is committed or recorded."""
        self.git("update-ref", START, "HEAD")
        self.try_git(
            "-c", "rerere.enabled=false", "cherry-pick", "--no-commit", "--keep-redundant-commits", commit
        )

    def clear(self) -> None:
        """Take a change that ended in a conflict back, so that nothing of it is left."""
        if self.unmerged():
            self.git("reset", "--quiet", "--hard")

    def show_conflicts(self, texts: Mapping[str, bytes]) -> None:
        """Write the texts of conflicted files, then let rerere settle what it knows and take note of the others.

        Raises:
            DiskError: the file system refused.
            GitError: git failed.
        """
        for path, text in texts.items():
            file = self.path / path
            with translated(f"cannot write {file}"):
                file.write_bytes(text)
        self.git("rerere")

    def start(self) -> Oid:
        """The tree that it was at before the patch was picked, whatever was committed there since."""
        done = self.try_git("rev-parse", "--verify", "--quiet", f"{START}^{{tree}}")
        return Oid((done.stdout or self.git("rev-parse", "HEAD^{tree}")).decode().strip())

    def undecided(self) -> tuple[str, ...]:
        """The conflicted paths that never had markers and are as git left them: nobody has said which side it is."""
        staged: dict[str, dict[int, Oid]] = {}
        for row in self.git("ls-files", "--unmerged", "-z").split(b"\0"):
            if row:
                head, _tab, name = row.partition(b"\t")
                _mode, oid, stage = head.decode().split()
                staged.setdefault(name.decode("utf-8", "surrogateescape"), {})[int(stage)] = Oid(oid)
        return tuple(path for path, stages in staged.items() if self._is_untouched(path, stages))

    def _is_untouched(self, path: str, stages: Mapping[int, Oid]) -> bool:
        file = self.path / path
        sides = [stages[number] for number in (2, 3) if number in stages]
        if not sides:
            return False
        if file.is_symlink():
            return blob_id(os.fsencode(file.readlink())) in sides
        if file.is_dir():
            return True
        if not file.exists():
            return False
        content = file.read_bytes()
        is_text = len(sides) == 2 and not _is_binary(content)
        return not is_text and blob_id(content) in sides

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


def _is_binary(content: bytes) -> bool:
    """Whether git takes a file for binary: a NUL in its first 8,000 bytes (its `buffer_is_binary`)."""
    return b"\0" in content[:8000]


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
    if path.exists():
        with translated(f"cannot remove {path}"):
            shutil.rmtree(path)
    store.git("worktree", "prune")
