"""The patched wheel: the published one with some files changed, and all that names it made to agree."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from packaging.version import Version

from forktool.adapters.wheel_file import WheelFile, open_wheel
from forktool.adapters.write_behind import WriteBehind
from forktool.adapters.zip_copy import ArchiveWriter, Member
from forktool.core.wheel_metadata import is_version_file, repair_tags, set_python_version, set_version
from forktool.core.wheel_names import WheelName
from forktool.core.wheel_record import (
    UNRECORDED,
    Row,
    find_clashes,
    format_record,
    is_safe_member,
    record_problems,
    row_of,
)
from forktool.errors import DiskError, IntegrityError, PatchsetError, RequestError

_NEW_MODE = 0o644


@dataclass(frozen=True, kw_only=True, slots=True)
class OverlayResult:
    """What was written. The tuples name members of the new wheel, sorted; `deleted` those of the old one.

    `sha256` is None where the caller did not ask for it; `size` is in bytes; `version_files` are the Python
    files whose version was rewritten; `tags_repaired` tells whether WHEEL disagreed with the file name.
    """

    path: Path
    sha256: str | None
    size: int
    version: Version
    changed: tuple[str, ...]
    added: tuple[str, ...]
    deleted: tuple[str, ...]
    version_files: tuple[str, ...]
    tags_repaired: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class _Contents:
    """New contents by the old wheel's member names; None deletes."""

    replaced: dict[str, bytes | None]
    version_files: tuple[str, ...]
    tags_repaired: bool


def overlay(
    source: Path,
    destination_dir: Path,
    *,
    changes: Mapping[str, bytes | None],
    version: Version,
    extra_dist_info: Mapping[str, bytes] | None = None,
    base: Mapping[str, bytes | None] | None = None,
    modes: Mapping[str, int] | None = None,
    fsync: bool = False,
    digest: bool = True,
    full_check: bool = False,
) -> OverlayResult:
    """Write the patched wheel beside nothing else: one new file in `destination_dir`, whole or not there.

    Unchanged members keep their compressed bytes, timestamps, modes and order. Changed ones keep timestamp
    and mode, new ones get RECORD's timestamp and 0644. The same input gives the same bytes on any machine.

    Args:
        source: the published wheel; it is not touched.
        destination_dir: made if it is not there.
        changes: new content by member name, None to delete.
        version: of the new wheel; its public part must be the source's.
        extra_dist_info: files for the dist-info folder by their path in it, new or in place of others
            (METADATA gets the version; RECORD and WHEEL are made here).
        base: what the series was made on, for the paths that must be so in the wheel; None: not there.
        modes: permission bits (such as 0o755) of changed members that get others.
        fsync: wait until the disk has it.
        digest: compute the sha256 of the result, while it is written.
        full_check: check every member of the source against RECORD first, not only those that are touched.

    Raises:
        RequestError: not a wheel's name, a version without a local part, or the source's own place.
        PatchsetError: another release than the series', a change that the wheel has no place for, or that
            collides with another member.
        IntegrityError: the source is truncated or tampered with, or differs from `base`.
        DiskError: the file system refused; nothing is left behind.
    """
    with open_wheel(source) as wheel:
        _check_version(wheel, version)
        _check_source(wheel, full_check=full_check)
        _check_base(wheel, base or {})
        _check_changes(wheel, changes)
        target_name = wheel.name.at(version)
        contents = _contents(wheel, target_name, changes, extra_dist_info or {}, modes or {})
        target = destination_dir / target_name.filename
        if target.exists() and target.samefile(source):
            raise RequestError(f"{source} would be written over itself", hint="choose another folder")
        with _writing(target):
            destination_dir.mkdir(parents=True, exist_ok=True)
            with _new_file(target) as (temporary, descriptor):
                writer = ArchiveWriter(descriptor)
                with WriteBehind(descriptor, lambda: writer.written, fsync=fsync, digest=digest) as behind:
                    _write_members(writer, wheel, target_name, contents.replaced, modes or {})
                    size = writer.close(wheel.archive.comment)
                temporary.replace(target)
                if fsync:
                    _sync_folder(destination_dir)
        return OverlayResult(
            path=target,
            sha256=behind.sha256,
            size=size,
            version=version,
            changed=_names(wheel, contents, present=True, kept=True),
            added=_names(wheel, contents, present=False, kept=True),
            deleted=_names(wheel, contents, present=True, kept=False),
            version_files=contents.version_files,
            tags_repaired=contents.tags_repaired,
        )


def _check_version(wheel: WheelFile, version: Version) -> None:
    if version.local is None:
        raise RequestError(f"a patched wheel needs a local version of its own, not {version}")
    if Version(version.public) != Version(wheel.name.version.public):
        raise PatchsetError(
            f"the series is for {version.public}, and {wheel.label} is {wheel.name.version}",
            hint=f"forktool rebase {wheel.name.version.public}, or give the wheel of {version.public}",
        )


def _check_source(wheel: WheelFile, *, full_check: bool) -> None:
    problems = record_problems(
        (member.orig_filename for member in wheel.archive.members), wheel.rows, wheel.dist_info
    )
    problem = next(iter(problems), None)
    if problem is None and full_check:
        problem = next(wheel.find_damage(), None)
    if problem is not None:
        raise IntegrityError(
            f"{wheel.label}: {problem}", hint=f"delete {wheel.archive.path} and download it again"
        )


def _check_base(wheel: WheelFile, base: Mapping[str, bytes | None]) -> None:
    for path, content in base.items():
        there = wheel.archive.member(path) is not None
        if there != (content is not None):
            state = "holds no" if content is not None else "already holds"
            raise IntegrityError(
                f"{wheel.label} {state} {path}, unlike the tree that the series was made on",
                hint="use the wheel of the series' base",
            )
        if there and wheel.read_checked(path) != content:
            raise IntegrityError(
                f"{path} in {wheel.label} differs from the file that the series was made on",
                hint="use the wheel of the series' base, or drop the patch for this package",
            )


def _check_changes(wheel: WheelFile, changes: Mapping[str, bytes | None]) -> None:
    names = [member.filename for member in wheel.archive.members]
    for path, content in changes.items():
        folder = path.partition("/")[0]
        if not is_safe_member(path) or path.endswith("/") or folder.endswith((".dist-info", ".data")):
            raise PatchsetError(f"{path!r} has no place in {wheel.label}")
        if content is None and wheel.archive.member(path) is None:
            raise PatchsetError(
                f"the series deletes {path}, which {wheel.label} does not hold",
                hint="use the wheel of the series' base",
            )
    left = [name for name in names if changes.get(name, b"") is not None]
    held = set(names)
    clashes = find_clashes([*left, *(path for path in changes if path not in held)])
    if clashes:
        raise PatchsetError(f"{clashes[0][1]} and {clashes[0][0]} would clash in {wheel.label}")


def _contents(
    wheel: WheelFile,
    target: WheelName,
    changes: Mapping[str, bytes | None],
    extra: Mapping[str, bytes],
    modes: Mapping[str, int],
) -> _Contents:
    folder = wheel.dist_info
    for path in extra:
        if path in {*UNRECORDED, "WHEEL"} or not is_safe_member(path):
            raise RequestError(f"{path} in dist-info is not for the caller to write")
    replaced: dict[str, bytes | None] = {}
    for path, content in changes.items():
        is_new = wheel.archive.member(path) is None
        if is_new or wheel.read_checked(path) != content or path in modes:
            replaced[path] = content
    replaced |= {f"{folder}/{path}": content for path, content in extra.items()}
    for path in UNRECORDED[1:]:
        if wheel.archive.member(f"{folder}/{path}") is not None:
            replaced[f"{folder}/{path}"] = None
    metadata = extra.get("METADATA") or wheel.read_checked(f"{folder}/METADATA")
    replaced[f"{folder}/METADATA"] = set_version(metadata, target.version, where=wheel.label)
    described = wheel.read_checked(f"{folder}/WHEEL")
    repaired = repair_tags(described, target)
    if repaired != described:
        replaced[f"{folder}/WHEEL"] = repaired
    # A build for another CUDA version states 0.17.0 inside 0.17.0+cu129: setup.py adds the suffix too late.
    old = (wheel.name.version, Version(wheel.name.version.public))
    stating: list[str] = []
    candidates = {member.filename for member in wheel.archive.members} | set(changes)
    for path in sorted(filter(is_version_file, candidates)):
        content = changes[path] if path in changes else wheel.read_checked(path)
        if content is None:
            continue
        stated = set_python_version(content, old, target.version)
        if stated is not None:
            stating.append(path)
            if stated != content:
                replaced[path] = stated
    return _Contents(
        replaced=replaced, version_files=tuple(stating), tags_repaired=f"{folder}/WHEEL" in replaced
    )


def _write_members(
    writer: ArchiveWriter,
    wheel: WheelFile,
    target: WheelName,
    replaced: Mapping[str, bytes | None],
    modes: Mapping[str, int],
) -> None:
    """All members: the packages', then those of dist-info (PEP 427 wants them last), then RECORD."""
    record = wheel.archive.member(f"{wheel.dist_info}/RECORD")
    if record is None:
        raise IntegrityError(f"{wheel.label} has no RECORD")
    members = {member.filename: member for member in wheel.archive.members}
    in_dist_info = f"{wheel.dist_info}/"
    rows: list[Row] = []

    def put(path: str, member: Member | None) -> None:
        name = _renamed(path, wheel, target)
        if path not in replaced and member is not None:
            writer.copy(wheel.archive, member, name=name)
            row = wheel.rows.get(path)
            if row is not None:
                rows.append(Row(name, row.digest, row.size))
            return
        content = replaced[path]
        if content is None:
            return
        mode = modes.get(path, _NEW_MODE if member is None else None)
        writer.add(name, content, like=member or record, mode=mode)
        rows.append(row_of(name, content))

    for dist_info in (False, True):
        for path, member in members.items():
            if path.startswith(in_dist_info) is dist_info and member is not record:
                put(path, member)
        for path in sorted(replaced):
            if path.startswith(in_dist_info) is dist_info and path not in members:
                put(path, None)
    name = _renamed(record.filename, wheel, target)
    writer.add(name, format_record([*rows, Row(name)]), like=record)


def _renamed(path: str, wheel: WheelFile, target: WheelName) -> str:
    """Member names follow the version in the dist-info and the .data folder."""
    stem = wheel.dist_info.removesuffix(".dist-info")
    for suffix in (".dist-info", ".data"):
        folder, slash, rest = path.partition("/")
        if folder == stem + suffix and slash:
            return f"{target.distribution}-{target.version}{suffix}/{rest}"
    return path


def _names(wheel: WheelFile, contents: _Contents, *, present: bool, kept: bool) -> tuple[str, ...]:
    """Members outside dist-info that were there or not, and stay or not."""
    return tuple(
        sorted(
            path
            for path, content in contents.replaced.items()
            if not path.startswith(f"{wheel.dist_info}/")
            and (wheel.archive.member(path) is not None) is present
            and (content is not None) is kept
        )
    )


@contextmanager
def _writing(target: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        hint = "free some space, or choose another folder with --output"
        raise DiskError(f"cannot write {target}: {error.strerror or error}", hint=hint) from error


@contextmanager
def _new_file(target: Path) -> Iterator[tuple[Path, int]]:
    """A locked temporary file beside the target; gone on any error, and swept later if we are killed."""
    pattern = f".{target.name}."
    for path in target.parent.iterdir():
        if path.name.startswith(pattern) and path.name.endswith(".tmp"):
            _sweep(path)
    temporary = target.with_name(f"{pattern}{os.urandom(4).hex()}.tmp")
    descriptor = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield temporary, descriptor
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    finally:
        os.close(descriptor)


def _sweep(path: Path) -> None:
    """Remove the temporary file of a run that was killed: nobody holds its lock."""
    with contextlib.suppress(OSError), path.open("rb") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        path.unlink()


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
