"""One patch on one tree by other programs: git am, patch as quilt calls it, mergiraf."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.measure import IDENTITY
from forktool.adapters.git_store import SEALED, GitStore
from forktool.core.objects import Entry, Mode, NewObject, Oid, new_object

_MODES = {True: Mode.EXECUTABLE, False: Mode.FILE}


class GitAm:
    """`git am -3` in a repository that borrows objects.

    The work tree has no more than the patch's own files and the index is full: the result is that of a full work
    tree, which would take a second a patch to check out.
    """

    def __init__(self, folder: Path, objects: Sequence[Path]) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        self._folder = folder
        self._git("init", "--quiet")
        (folder / ".git/objects/info/alternates").write_text("".join(f"{path}\n" for path in objects))

    def apply(self, mail: bytes, paths: Sequence[str], onto: Oid) -> Oid | None:
        """The tree that it makes of a patch, which touches these paths, on a commit; None where it stops."""
        for found in self._folder.iterdir():
            if found.name != ".git":
                shutil.rmtree(found) if found.is_dir() and not found.is_symlink() else found.unlink()
        shutil.rmtree(self._folder / ".git/rebase-apply", ignore_errors=True)
        self._git("update-ref", "--no-deref", "HEAD", onto)
        self._git("read-tree", "--reset", onto)
        names = b"".join(os.fsencode(path) + b"\0" for path in paths)
        # Not every path is there: git says so, and checks out the others.
        self._git("checkout-index", "-q", "-f", "-u", "-z", "--stdin", stdin=names, check=False)
        done = self._git("am", "--quiet", "-3", stdin=mail, check=False)
        if done.returncode:
            return None
        return Oid(self._git("rev-parse", "HEAD^{tree}").stdout.decode().strip())

    def _git(self, *words: str, stdin: bytes = b"", check: bool = True) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            ["git", "-c", "gc.auto=0", *words], cwd=self._folder, input=stdin, capture_output=True, check=check,
            env={**os.environ, **SEALED, **IDENTITY},
        )  # fmt: skip


def patch_as_quilt(store: GitStore, diff: bytes, paths: Sequence[str], onto: Oid) -> Oid | None:
    """The tree that patch(1) makes of a diff on another tree; None where a hunk is rejected.

    quilt push calls it so, with the default fuzz of two lines: `patch -p1 -E -s -f --no-backup-if-mismatch`.

    Args:
        store: reads the tree.
        diff: what to apply.
        paths: all that the diff names.
        onto: a tree.
    """
    if b"\nGIT binary patch\n" in diff:
        return None
    tree = store.tree(onto, label="onto")
    with tempfile.TemporaryDirectory(prefix="forktool-patch-") as name:
        folder = Path(name)
        for path in paths:
            _write(folder / path, tree.entry(path), tree.read(path))
        done = subprocess.run(
            ["patch", "-p1", "-E", "-s", "-f", "--no-backup-if-mismatch"],
            cwd=folder, input=diff, capture_output=True, check=False,
        )  # fmt: skip
        if done.returncode:
            return None
        made: list[NewObject] = []
        changes = {path: _read(folder / path, made) for path in paths}
    return store.changed_tree(onto, {path: new for path, new in changes.items() if new != tree.entry(path)})[
        0
    ]


def _write(file: Path, entry: Entry | None, content: bytes | None) -> None:
    if entry is None or content is None:
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    if entry.mode is Mode.SYMLINK:
        file.symlink_to(os.fsdecode(content))
        return
    file.write_bytes(content)
    file.chmod(0o755 if entry.mode is Mode.EXECUTABLE else 0o644)


def _read(file: Path, made: list[NewObject]) -> Entry | None:
    if file.is_symlink():
        mode, content = Mode.SYMLINK, os.fsencode(file.readlink())
    elif file.is_file():
        mode, content = _MODES[bool(file.stat().st_mode & 0o100)], file.read_bytes()
    else:
        return None
    made.append(new_object("blob", content))
    return Entry(mode, made[-1].oid)


def mergiraf(sides: Mapping[str, tuple[bytes, bytes, bytes]]) -> dict[str, bytes] | None:
    """What `mergiraf merge` makes of conflicted files, as (base, ours, theirs); None where one stays in conflict."""
    solved: dict[str, bytes] = {}
    with tempfile.TemporaryDirectory(prefix="forktool-mergiraf-") as name:
        for path, texts in sides.items():
            files = [Path(name) / side for side in ("base", "ours", "theirs")]
            for file, text in zip(files, texts, strict=True):
                file.write_bytes(text)
            result = Path(name) / "result"
            done = subprocess.run(
                ["mergiraf", "merge", *files, "-p", path, "-o", result], capture_output=True, check=False
            )
            if done.returncode or not result.is_file():
                return None
            solved[path] = result.read_bytes()
            result.unlink()
    return solved
