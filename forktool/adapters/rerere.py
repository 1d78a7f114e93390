"""Recorded resolutions: git's own rerere cache (git-rerere(1)), kept in patchset/resolutions/.

A conflict is re-created in a small throw-away repository that shares the store's objects: an index with the three
stages and the files with their markers. `git rerere` then settles what it knows. Only its cache is kept.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from forktool.adapters import process
from forktool.adapters.git_merge import Stages
from forktool.adapters.git_store import PINNED, GitStore
from forktool.adapters.state import translated, write_atomically
from forktool.core.zdiff3 import zealous
from forktool.errors import GitError

_KEPT_FILES = ("preimage", "postimage")
MARKERS = (b"<<<<<<< ", b"||||||| ", b">>>>>>> ")


def has_markers(content: bytes) -> bool:
    """Whether conflict markers begin some line."""
    return any(content.startswith(marker) or b"\n" + marker in content for marker in MARKERS)


def recorded(folder: Path) -> bool:
    """Whether any resolution is recorded there."""
    return folder.is_dir() and any(folder.iterdir())


def replay_resolutions(
    store: GitStore, folder: Path, conflicted: Mapping[str, tuple[Stages, bytes]]
) -> dict[str, bytes]:
    """The files that recorded resolutions settle completely.

    Args:
        store: holds the stages' blobs.
        folder: patchset/resolutions.
        conflicted: path to its stages and its text with conflict markers.

    Raises:
        GitError: git failed.
    """
    with tempfile.TemporaryDirectory(prefix="forktool-rerere-") as name:
        scratch = Path(name)
        environment = {**store.environment(), "GIT_DIR": str(scratch / ".git"), "GIT_WORK_TREE": name}
        environment.setdefault("GIT_ALTERNATE_OBJECT_DIRECTORIES", str(store.path / "objects"))
        _git(scratch, environment, "init", "--quiet", "--template=")
        shutil.copytree(folder, scratch / ".git" / "rr-cache", dirs_exist_ok=True)
        index = b"".join(_stage_lines(path, stages) for path, (stages, _text) in conflicted.items())
        _git(scratch, environment, "update-index", "-z", "--index-info", stdin=index)
        for path, (_stages, text) in conflicted.items():
            file = scratch / path
            file.parent.mkdir(parents=True, exist_ok=True)
            # rerere knows a conflict by its two sides, as the work tree shows them.
            file.write_bytes(zealous(text))
        _git(scratch, environment, "-c", "rerere.enabled=true", "rerere")
        settled = {path: (scratch / path).read_bytes() for path in conflicted}
    return {path: content for path, content in settled.items() if not has_markers(content)}


def _stage_lines(path: str, stages: Stages) -> bytes:
    name = path.encode("utf-8", "surrogateescape")
    entries = (stages.base, stages.ours, stages.theirs)
    return b"".join(
        f"{entry.mode} {entry.oid} {number}\t".encode() + name + b"\0"
        for number, entry in enumerate(entries, 1)
        if entry is not None
    )


def _git(folder: Path, environment: Mapping[str, str], *args: str, stdin: bytes = b"") -> None:
    done = process.run(["git", *PINNED, *args], cwd=folder, env=environment, stdin=stdin)
    if done.returncode:
        raise GitError(f"git {args[0]}: {done.last_line}")


def install_cache(folder: Path, git_dir: Path) -> None:
    """Put the recorded resolutions where git looks for them.

    Raises:
        DiskError: the file system refused.
    """
    if folder.is_dir():
        with translated(f"cannot copy {folder}"):
            shutil.copytree(folder, git_dir / "rr-cache", dirs_exist_ok=True)


def keep_resolutions(git_dir: Path, folder: Path, known: Sequence[Path]) -> None:
    """Copy the new resolutions of a repository to a folder, where the next conflict does not wipe them.

    Raises:
        DiskError: the file system refused.
    """
    for name, content in collect_cache(git_dir / "rr-cache", known).items():
        write_atomically(folder / name, content)


def collect_cache(cache: Path, known: Sequence[Path]) -> dict[str, bytes]:
    """New resolutions of a rerere cache, by path below patchset/resolutions.

    Args:
        cache: the folder `rr-cache` of a repository, or a copy of it.
        known: folders whose entries are not new.
    """
    found: dict[str, bytes] = {}
    for entry in sorted(cache.iterdir()) if cache.is_dir() else ():
        images = {name: entry / name for name in _KEPT_FILES}
        if not all(image.is_file() for image in images.values()):
            continue
        for name, image in images.items():
            content = image.read_bytes()
            if not any(_same(folder / entry.name / name, content) for folder in known):
                found[f"{entry.name}/{name}"] = content
    return found


def _same(file: Path, content: bytes) -> bool:
    return file.is_file() and file.read_bytes() == content
