"""A source distribution becomes a commit of the private repository.

The archive is unpacked in memory, never on disk, and streamed into one `git fast-import`. That runs in a
temporary repository whose pack moves over when all is well: an archive that is refused half-way, or a kill,
leaves the store as it was. Author, date and message depend on the archive alone, so the commit has the same id
on every machine.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import shutil
import tarfile
import tempfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from forktool.adapters import process
from forktool.adapters.git_store import PINNED, GitStore, sealed_environment
from forktool.adapters.state import translated
from forktool.core.archive import TreePlan, is_generated
from forktool.core.objects import Mode, Oid
from forktool.errors import GitError, IntegrityError

UNPACKED_LIMIT = 4 << 30
"""Bytes. The largest real archive so far unpacks to a fortieth of this."""
_NOBODY = "upstream <upstream@forktool.invalid>"
_PIPE_SIZE = 1 << 20
_SET_PIPE_SIZE = 1031  # F_SETPIPE_SZ of Linux's fcntl.h; the module has a name for it from Python 3.10 on Linux only


@dataclass(frozen=True, kw_only=True, slots=True)
class Sdist:
    """Which archive this is; what the commit's message says."""

    package: str
    version: str
    sha256: str


def import_sdist(store: GitStore, archive: Path, sdist: Sdist, *, generated: Iterable[str] = ()) -> Oid:
    """Import an archive; the commit is in the store afterwards, no ref names it yet.

    Args:
        store: where it goes; safe to call from several threads for one store.
        archive: a `.tar.gz` file.
        sdist: what it is; the archive's hash must be `sdist.sha256`.
        generated: patterns of files to leave out, see `core.archive.matches`.

    Raises:
        IntegrityError: another hash, a broken archive, or a member that no tree may hold.
        DiskError: the archive cannot be read or the store not written.
        GitError: git refused.
    """
    content = _unpacked(archive, sdist.sha256)
    with _import_repository(store) as repository:
        commit = _stream(repository, archive.name, content, sdist, tuple(generated))
        with translated(f"cannot write to {store.path}"):
            _move_packs(repository / "objects" / "pack", store.path / "objects" / "pack")
    return commit


def _unpacked(archive: Path, sha256: str) -> bytearray:
    with translated(f"cannot read {archive}"):
        packed = archive.read_bytes()
    found = hashlib.sha256(packed).hexdigest()
    if found != sha256:
        raise IntegrityError(
            f"{archive}: its sha256 is {found}, the index says {sha256}", hint=f"delete {archive}"
        )
    content = bytearray()
    try:
        rest = packed
        while rest:
            gunzip = zlib.decompressobj(zlib.MAX_WBITS | 16)
            content += gunzip.decompress(rest, UNPACKED_LIMIT - len(content) + 1)
            if len(content) > UNPACKED_LIMIT:
                raise IntegrityError(f"{archive.name} unpacks to more than {UNPACKED_LIMIT >> 30} GiB")
            if not gunzip.eof:
                raise IntegrityError(f"{archive.name} is cut off")
            rest = gunzip.unused_data.lstrip(b"\0")
    except zlib.error as error:
        raise IntegrityError(f"{archive.name} is not a gzip archive: {error}") from error
    return content


@contextmanager
def _import_repository(store: GitStore) -> Iterator[Path]:
    """An empty bare repository inside the store's folder, gone afterwards (`git gc` removes it after a kill)."""
    with translated(f"cannot write to {store.path}"):
        path = Path(tempfile.mkdtemp(prefix="tmp_import_", dir=store.path))
        (path / "objects" / "pack").mkdir(parents=True)
        (path / "refs").mkdir()
        (path / "HEAD").write_text("ref: refs/heads/none\n", encoding="ascii")
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def _stream(
    repository: Path, name: str, content: bytearray, sdist: Sdist, generated: tuple[str, ...]
) -> Oid:
    command = [
        "git", "--git-dir", str(repository), *PINNED,
        # What is read back now and then is better not compressed at all: the import takes half the time.
        "-c", "core.compression=0",
        "-c", "fastimport.unpackLimit=0",
        "fast-import", "--quiet", "--done", "--depth=0", "--big-file-threshold=1g",
    ]  # fmt: skip
    # Objects that the store has are not written again.
    running = process.start(
        command,
        env=sealed_environment() | {"GIT_ALTERNATE_OBJECT_DIRECTORIES": str(repository.parent / "objects")},
    )
    with running:
        assert_pipes = running.stdin, running.stdout, running.stderr
        stdin, stdout, stderr = assert_pipes
        if stdin is None or stdout is None or stderr is None:
            raise GitError("git fast-import has no pipes")
        _enlarge(stdin)
        try:
            with contextlib.suppress(BrokenPipeError):
                _write(stdin, name, content, sdist, generated)
                stdin.close()
            commit = stdout.read().decode().strip()
            complaint = stderr.read().decode("utf-8", "replace").strip()
        except BaseException:
            running.kill()
            with contextlib.suppress(BrokenPipeError):
                stdin.close()
            raise
    if running.returncode or len(commit) != 40:
        last = complaint.splitlines()[-1] if complaint else f"exit status {running.returncode}"
        raise GitError(f"git fast-import: {last}")
    return Oid(commit)


def _enlarge(pipe: IO[bytes]) -> None:
    """A pipe of 1 MiB where the system lets us: fewer switches between the two programs."""
    import fcntl

    with contextlib.suppress(OSError):
        fcntl.fcntl(pipe.fileno(), getattr(fcntl, "F_SETPIPE_SZ", _SET_PIPE_SIZE), _PIPE_SIZE)


def _write(
    stdin: IO[bytes], name: str, content: bytearray, sdist: Sdist, generated: tuple[str, ...]
) -> None:
    """Every blob under a mark, then the one commit that names them (git-fast-import(1))."""
    plan = TreePlan(name)
    newest = 0
    write = stdin.write
    write(b"feature done\n")
    view = memoryview(content)
    for mark, member in enumerate(_members(name, content), 1):
        newest = max(newest, int(member.mtime))
        path = plan.path(member.name)
        if path is None or member.isdir():
            continue
        if member.issym():
            body: bytes | memoryview = member.linkname.encode("utf-8", "surrogateescape")
            plan.add_link(path, member.linkname, content=mark)
        elif member.islnk():
            if not is_generated(path, b"", generated):
                plan.add_hard_link(path, member.linkname)
            continue
        elif not member.isreg():
            raise plan.refuse(member.name, "device" if member.isdev() else "member of an unknown kind")
        else:
            if member.issparse():
                raise plan.refuse(member.name, "sparse file")
            body = view[member.offset_data : member.offset_data + member.size]
            if is_generated(path, bytes(body) if path == "setup.cfg" else b"", generated):
                continue
            plan.add_file(path, executable=bool(member.mode & 0o100), content=mark)
        write(b"blob\nmark :%d\ndata %d\n" % (mark, len(body)))
        write(body)
        write(b"\n")
    files = plan.finish()
    message = f"{sdist.package} {sdist.version}\n\nSource distribution, sha256 {sdist.sha256}\n".encode()
    # The newest time in the archive: the same everywhere, and near the release's for a reader of the log.
    when = f"{_NOBODY} {newest} +0000"
    write(f"commit refs/heads/import\nmark :{len(content) + 1}\n".encode())
    write(f"author {when}\ncommitter {when}\ndata {len(message)}\n".encode() + message)
    write(b"".join(_line(path, *entry) for path, entry in sorted(files.items())))
    write(b"\nget-mark :%d\ndone\n" % (len(content) + 1))


def _line(path: str, mode: Mode, mark: int) -> bytes:
    quoted = path.replace("\\", "\\\\").replace('"', '\\"').encode("utf-8", "surrogateescape")
    return b'M %s :%d "%s"\n' % (mode.encode(), mark, quoted)


def _members(name: str, content: bytearray) -> Iterator[tarfile.TarInfo]:
    try:
        with tarfile.open(fileobj=io.BytesIO(content), mode="r:") as archive:
            for member in archive:
                if member.offset_data + (member.size if member.isreg() else 0) > len(content):
                    raise IntegrityError(f"{name}: {member.name!r} is cut off")
                yield member
    except tarfile.TarError as error:
        raise IntegrityError(f"{name} is not a tar archive: {error}") from error


def _move_packs(source: Path, target: Path) -> None:
    target.mkdir(parents=True, exist_ok=True)
    # A pack counts once its index is there, so that comes last.
    for pack in sorted(source.glob("pack-*"), key=lambda path: path.suffix == ".idx"):
        os.replace(pack, target / pack.name)
