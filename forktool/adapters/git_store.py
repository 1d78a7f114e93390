"""The private bare repository, through git's own plumbing.

A warm replay must start few programs and import little (GitPython alone takes 250 ms to import), so this
module runs git itself, through `process`. GitPython reads the repositories of users, in `git_repo`.

Scratch objects of a replay go to a quarantine folder, as `git receive-pack` does it (git-receive-pack(1),
"quarantine environment"): a dry run leaves nothing behind.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Self

from forktool.adapters import process
from forktool.adapters.scratch import make_scratch
from forktool.adapters.state import translated
from forktool.core.objects import (
    EMPTY_TREE,
    Entry,
    GrowingTree,
    Mode,
    NewObject,
    Oid,
    decode_tree,
    pack,
    update_tree,
)
from forktool.errors import GitError, ToolMissingError

MINIMUM_GIT = (2, 38)
"""The first git with `merge-tree --write-tree` (its RelNotes/2.38.0)."""

_LOOSE_LIMIT = 64
"""More new objects than this go into the quarantine as one pack: a process costs as much as 60 small files."""

_BLOBS_KEPT = 1 << 25
"""Bytes of blobs that are kept in memory."""

MEMORY = Path("/dev/shm")  # noqa: S108 - only folders of our own are made in it
_MEMORY_NEEDED = 1 << 30
"""Bytes free in it before scratch objects go there: a container may have 64 MB."""

_KEPT = ("GIT_SSL_CAINFO", "GIT_SSL_CAPATH", "GIT_SSH", "GIT_SSH_COMMAND", "GIT_ASKPASS", "GIT_EXEC_PATH")

SEALED = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_EDITOR": "false",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "LC_ALL": "C",
    "GIT_AUTHOR_NAME": "forktool",
    "GIT_AUTHOR_EMAIL": "forktool@forktool.invalid",
    "GIT_COMMITTER_NAME": "forktool",
    "GIT_COMMITTER_EMAIL": "forktool@forktool.invalid",
}
"""No configuration, identity, locale or prompt of the user reaches git."""

PINNED = (
    "-c", "core.hooksPath=/dev/null",
    "-c", "core.attributesFile=/dev/null",
    "-c", "core.excludesFile=/dev/null",
    "-c", "core.quotePath=true",
    "-c", "core.abbrev=40",
    "-c", "core.autocrlf=false",
    "-c", "core.fsmonitor=false",
    "-c", "core.commitGraph=false",
    "-c", "gc.auto=0",
    "-c", "maintenance.auto=false",
    "-c", "commit.gpgSign=false",
    "-c", "tag.gpgSign=false",
    "-c", "merge.conflictStyle=diff3",
    "-c", "merge.renames=true",
    "-c", "merge.directoryRenames=conflict",
    "-c", "rerere.autoUpdate=false",
    "-c", "advice.detachedHead=false",
)  # fmt: skip


def sealed_environment(*, user_configuration: bool = False) -> dict[str, str]:
    """The environment for git: ours without any GIT_ variable that could redirect it.

    Args:
        user_configuration: let the user's own configuration through, for credentials, proxies and `insteadOf`
            when a remote is asked.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    kept |= {name: os.environ[name] for name in _KEPT if name in os.environ}
    sealed = dict(SEALED)
    if user_configuration:
        del sealed["GIT_CONFIG_NOSYSTEM"], sealed["GIT_CONFIG_GLOBAL"]
    return kept | sealed


class GitStore:
    """One bare repository that only forktool writes to.

    Use as a context manager: leaving ends the reader and deletes the quarantine.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._reader: process.Process | None = None
        self._quarantine: Path | None = None
        self._quarantine_lock = -1
        self._in_quarantine: set[Oid] = set()
        self._trees: dict[Oid, dict[str, Entry]] = {}
        self._blobs: dict[Oid, bytes] = {}
        self._blob_bytes = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the reader and forget the quarantine."""
        self._end_reader()
        if self._quarantine is not None:
            shutil.rmtree(self._quarantine, ignore_errors=True)
            os.close(self._quarantine_lock)
            self._quarantine = None
            self._in_quarantine.clear()

    def create(self) -> None:
        """Make the repository if it is not there.

        Raises:
            ToolMissingError: git is missing or older than `MINIMUM_GIT`.
        """
        if (self.path / "HEAD").is_file():
            return
        self._check_version()
        # Made beside and moved in place: a git init that is killed leaves a repository without a HEAD to trust.
        made_at = self.path.with_name(f"{self.path.name}.new")
        with translated(f"cannot make {self.path}"):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            shutil.rmtree(made_at, ignore_errors=True)
        made = process.run(
            ["git", "init", "--quiet", "--bare", "--object-format=sha1", "--template=", made_at],
            env=sealed_environment(),
        )
        if made.returncode:
            raise GitError(f"cannot make {self.path}: {made.last_line}")
        with translated(f"cannot make {self.path}"):
            shutil.rmtree(self.path, ignore_errors=True)
            made_at.rename(self.path)

    def remove_locks(self) -> None:
        """Remove lock files that a git left when it was killed: they would stop every later one.

        Only for a caller that holds the state's lock, which every git of an earlier run held as well.
        """
        for pattern in ("*.lock", "refs/**/*.lock", "worktrees/*/*.lock"):
            for lock in self.path.glob(pattern):
                with contextlib.suppress(OSError):
                    lock.unlink()

    def _check_version(self) -> None:
        words = process.run(["git", "version"], env=sealed_environment()).stdout.decode().split()
        version = tuple(int(part) for part in words[2].split(".")[:2] if part.isdigit())
        if version < MINIMUM_GIT:
            wanted = ".".join(map(str, MINIMUM_GIT))
            raise ToolMissingError(
                f"git {words[2]} is too old: {wanted} is needed for `merge-tree --write-tree`",
                hint=f"install git {wanted} or newer",
            )

    def environment(self) -> dict[str, str]:
        """What git runs with here: sealed, and with the quarantine in front once there is one."""
        environment = sealed_environment()
        if self._quarantine is not None:
            environment["GIT_OBJECT_DIRECTORY"] = str(self._quarantine)
            environment["GIT_ALTERNATE_OBJECT_DIRECTORIES"] = str(self.path / "objects")
        return environment

    def command(self, *args: str | Path, configuration: Iterable[str] = ()) -> list[str]:
        """The full command line of a git command in this repository."""
        return ["git", "--git-dir", str(self.path), *PINNED, *configuration, *(str(arg) for arg in args)]

    def try_git(
        self,
        *args: str | Path,
        stdin: bytes = b"",
        configuration: Iterable[str] = (),
        env: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> process.Completed:
        """Run git here and return how it ended; see `git` and `process.run` for the meaning of the arguments."""
        return process.run(
            self.command(*args, configuration=configuration),
            stdin=stdin,
            env={**self.environment(), **(env or {})},
            timeout=timeout,
        )

    def git(self, *args: str | Path, stdin: bytes = b"", configuration: Iterable[str] = ()) -> bytes:
        """Run git here and return its stdout.

        Args:
            args: the git command and its arguments.
            stdin: what it reads.
            configuration: more `-c name=value` words, after the pinned ones.

        Raises:
            GitError: it ended with another status than 0.
        """
        done = self.try_git(*args, stdin=stdin, configuration=configuration)
        if done.returncode:
            raise GitError(f"git {args[0]}: {done.last_line}")
        return done.stdout

    def resolve(self, revision: str) -> Oid | None:
        """The object that a revision names, or None."""
        done = self.try_git("rev-parse", "--verify", "--quiet", "--end-of-options", revision)
        return Oid(done.stdout.decode().strip()) if done.returncode == 0 else None

    def read_object(self, oid: Oid) -> tuple[str, bytes]:
        """Kind and body of an object, through one `git cat-file --batch` for the life of the store.

        Raises:
            GitError: there is no such object.
        """
        if self._reader is None:
            self._reader = process.start(
                self.command("cat-file", "--batch"), env=self.environment(), stderr=None
            )
        stdin, stdout = self._reader.stdin, self._reader.stdout
        if stdin is None or stdout is None:
            raise GitError("git cat-file --batch has no pipes")
        try:
            stdin.write(f"{oid}\n".encode())
            stdin.flush()
            head = stdout.readline().split()
        except BrokenPipeError:
            head = []
        if len(head) != 3:
            reason = "is not in the store" if head else "cannot be read: git cat-file ended"
            raise GitError(f"object {oid} {reason}", hint=f"delete {self.path} and run the command again")
        body = stdout.read(int(head[2]))
        stdout.read(1)
        return head[1].decode(), body

    def read_blob(self, oid: Oid) -> bytes:
        """The content of a blob; those read last are kept, since a patch is looked at from several sides.

        Raises:
            GitError: there is no such blob.
        """
        known = self._blobs.pop(oid, None)
        content = self.read_object(oid)[1] if known is None else known
        self._blobs[oid] = content
        self._blob_bytes += len(content) if known is None else 0
        while self._blob_bytes > _BLOBS_KEPT and self._blobs:
            self._blob_bytes -= len(self._blobs.pop(next(iter(self._blobs))))
        return content

    def read_tree(self, oid: Oid) -> dict[str, Entry]:
        """The entries of a tree object; kept, since a replay asks for the same folders again and again.

        Raises:
            GitError: there is no such tree.
        """
        if oid == EMPTY_TREE:
            return {}
        known = self._trees.get(oid)
        if known is None:
            known = self._trees[oid] = decode_tree(self.read_object(oid)[1])
        return known

    def shallow(self) -> frozenset[Oid]:
        """The commits at which history was cut when it was fetched (gitformat-shallow(5))."""
        with contextlib.suppress(FileNotFoundError):
            return frozenset(map(Oid, (self.path / "shallow").read_text().split()))
        return frozenset()

    def tree_of(self, commit: Oid) -> Oid:
        """The root tree of a commit.

        Raises:
            GitError: there is no such commit.
        """
        _kind, body = self.read_object(commit)
        return Oid(body[5:45].decode())

    def tree(self, root: Oid, *, label: str) -> GitTree:
        """A tree as a `SourceTree`."""
        return GitTree(self, root, label)

    def changed_tree(self, root: Oid, changes: Mapping[str, Entry | None]) -> tuple[Oid, list[NewObject]]:
        """See `forktool.core.objects.update_tree`."""
        new_root, made = update_tree(self.read_tree, root, changes)
        for item in made:
            self._trees[item.oid] = decode_tree(item.body)
        return new_root, made

    def growing_tree(self, root: Oid) -> GrowingTree:
        """A tree of the store that changes in memory."""
        return GrowingTree(self.read_tree, root)

    def quarantine(self, objects: Iterable[NewObject]) -> None:
        """Make objects visible to git commands of this store, until it is closed."""
        if self._quarantine is None:
            with translated("cannot make a temporary folder"):
                self._quarantine, self._quarantine_lock = make_scratch(_scratch_folder())
            self._end_reader()
        wanted = [item for item in objects if item.oid not in self._in_quarantine]
        if len(wanted) > _LOOSE_LIMIT:
            self._index_pack(wanted, self.environment())
            self._in_quarantine.update(item.oid for item in wanted)
            return
        for item in wanted:
            folder = self._quarantine / item.oid[:2]
            with translated(f"cannot write to {self._quarantine}"):
                folder.mkdir(exist_ok=True)
                header = b"%s %d\0" % (item.kind.encode(), len(item.body))
                (folder / item.oid[2:]).write_bytes(zlib.compress(header + item.body, 1))
            self._in_quarantine.add(item.oid)

    def persist(self, objects: Iterable[NewObject]) -> None:
        """Keep objects for good: one pack, one process.

        Raises:
            GitError: git refused the pack.
        """
        wanted = list(objects)
        if not wanted:
            return
        self._index_pack(wanted, sealed_environment())

    def _index_pack(self, objects: Iterable[NewObject], environment: Mapping[str, str]) -> None:
        done = process.run(
            self.command("index-pack", "--stdin"), stdin=b"".join(pack(objects)), env=environment
        )
        if done.returncode:
            raise GitError(f"git index-pack: {done.last_line}")

    def update_refs(self, refs: Mapping[str, Oid]) -> None:
        """Point refs at objects, all of them or none.

        Raises:
            GitError: git refused.
        """
        lines = ["start", *(f"update {name} {oid}" for name, oid in refs.items()), "prepare", "commit", ""]
        self.git("update-ref", "--stdin", stdin="\n".join(lines).encode())

    def _end_reader(self) -> None:
        if self._reader is not None:
            with contextlib.suppress(OSError):
                if self._reader.stdin is not None:
                    self._reader.stdin.close()
            self._reader.wait()
            if self._reader.stdout is not None:
                self._reader.stdout.close()
            self._reader = None


def _scratch_folder() -> Path | None:
    """Memory where there is plenty: a thousand small files are deleted in no time there. None leaves it to TMPDIR."""
    if not os.access(MEMORY, os.W_OK | os.X_OK):
        return None
    return MEMORY if shutil.disk_usage(MEMORY).free > _MEMORY_NEEDED else None


class GitTree:
    """A tree in the store, read lazily; a `SourceTree`."""

    def __init__(self, store: GitStore, root: Oid, label: str) -> None:
        self._store = store
        self.root = root
        self._label = label

    @property
    def label(self) -> str:
        """The tag or revision it was asked for by."""
        return self._label

    def entry(self, path: str) -> Entry | None:
        """See `SourceTree.entry`."""
        *folders, name = path.split("/")
        here = self.root
        for folder in folders:
            found = self._store.read_tree(here).get(folder)
            if found is None or found.mode is not Mode.TREE:
                return None
            here = found.oid
        found = self._store.read_tree(here).get(name)
        return None if found is None or found.mode is Mode.TREE else found

    def read(self, path: str) -> bytes | None:
        """See `SourceTree.read`."""
        entry = self.entry(path)
        if entry is None or entry.mode is Mode.GITLINK:
            return None
        return self._store.read_blob(entry.oid)

    def has_folder(self, path: str) -> bool:
        """See `SourceTree.has_folder`."""
        here = self.root
        for folder in path.split("/"):
            found = self._store.read_tree(here).get(folder)
            if found is None or found.mode is not Mode.TREE:
                return False
            here = found.oid
        return True
