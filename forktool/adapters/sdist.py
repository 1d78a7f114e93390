"""A source distribution becomes a commit of the private repository.

The archive is unpacked in memory, never on disk, and checked to its last member before anything is written. The
objects go into one pack, which counts once its index is there: an archive that is refused, a full disk or a kill
leaves the store as it was. Author, date and message depend on the archive alone, so the commit has the same id
on every machine.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import secrets
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from forktool.adapters.git_store import GitStore
from forktool.adapters.state import translated, write_atomically
from forktool.core.archive import TreePlan, is_generated
from forktool.core.objects import (
    EMPTY_TREE,
    Entry,
    Mode,
    Oid,
    Person,
    blob_id,
    encode_commit,
    new_object,
    update_tree,
)
from forktool.core.packfile import Packed, indexed, pack_entry, pack_header, pack_index
from forktool.errors import IntegrityError

if TYPE_CHECKING:
    from tarfile import TarInfo

UNPACKED_LIMIT = 4 << 30
"""Bytes. The largest real archive so far unpacks to a fortieth of this."""
_STORED = 0
"""zlib's level for the pack: what is read now and then is better not compressed, and halves the time."""


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
    """
    content = _unpacked(archive, sdist.sha256)
    found = _members(archive.name, content, tuple(generated))
    return _write_pack(store.path / "objects" / "pack", found, sdist)


def sweep(store: GitStore) -> None:
    """Delete what a killed import left behind; no other import may run."""
    for path in (store.path / "objects" / "pack").glob("tmp_pack_*"):
        with contextlib.suppress(OSError):
            path.unlink()


def _unpacked(archive: Path, sha256: str) -> bytes:
    with translated(f"cannot read {archive}"):
        packed = archive.read_bytes()
    found = hashlib.sha256(packed).hexdigest()
    if found != sha256:
        raise IntegrityError(
            f"{archive}: its sha256 is {found}, the index says {sha256}", hint=f"delete {archive}"
        )
    content = b""
    try:
        rest = packed
        while rest:
            gunzip = zlib.decompressobj(zlib.MAX_WBITS | 16)
            piece = gunzip.decompress(rest, UNPACKED_LIMIT - len(content) + 1)
            content = content + piece if content else piece
            if len(content) > UNPACKED_LIMIT:
                raise IntegrityError(f"{archive.name} unpacks to more than {UNPACKED_LIMIT >> 30} GiB")
            if not gunzip.eof:
                raise IntegrityError(f"{archive.name} is cut off")
            rest = gunzip.unused_data.lstrip(b"\0")
    except zlib.error as error:
        raise IntegrityError(f"{archive.name} is not a gzip archive: {error}") from error
    return content


@dataclass(frozen=True, kw_only=True, slots=True)
class _Found:
    """The files of an archive's tree, and the newest time in it in seconds since 1970."""

    files: dict[str, tuple[Mode, memoryview]]
    newest: int


def _members(name: str, content: bytes, generated: tuple[str, ...]) -> _Found:
    plan = TreePlan(name)
    newest = 0
    bodies: list[memoryview] = []
    view = memoryview(content)
    for member in _tar_members(name, content):
        newest = max(newest, int(member.mtime))
        path = plan.path(member.name)
        if path is None or member.isdir():
            continue
        if member.issym():
            plan.add_link(path, member.linkname, content=len(bodies))
            bodies.append(memoryview(member.linkname.encode("utf-8", "surrogateescape")))
        elif member.islnk():
            if not is_generated(path, b"", generated):
                plan.add_hard_link(path, member.linkname)
        elif member.isreg() and not member.issparse():
            body = view[member.offset_data : member.offset_data + member.size]
            if not is_generated(path, bytes(body) if path == "setup.cfg" else b"", generated):
                plan.add_file(path, executable=bool(member.mode & 0o100), content=len(bodies))
                bodies.append(body)
        else:
            raise plan.refuse(member.name, "device" if member.isdev() else "member of an unknown kind")
    files = {path: (mode, bodies[at]) for path, (mode, at) in plan.finish().items()}
    return _Found(files=files, newest=newest)


def _tar_members(name: str, content: bytes) -> Iterator[TarInfo]:
    import tarfile

    try:
        with tarfile.open(fileobj=io.BytesIO(content), mode="r:") as archive:
            for member in archive:
                if member.isreg() and member.offset_data + member.size > len(content):
                    raise IntegrityError(f"{name}: {member.name!r} is cut off")
                yield member
            # tarfile takes one that ends inside a header for a whole one. The end is a block of zeros.
            if (
                content[archive.offset : archive.offset + tarfile.BLOCKSIZE]
                != tarfile.NUL * tarfile.BLOCKSIZE
            ):
                raise IntegrityError(f"{name} is cut off")
    except tarfile.TarError as error:
        raise IntegrityError(f"{name} is not a tar archive: {error}") from error


def _write_pack(folder: Path, found: _Found, sdist: Sdist) -> Oid:
    changes: dict[str, Entry | None] = {}
    blobs: dict[Oid, memoryview] = {}
    for path, (mode, body) in found.files.items():
        oid = blob_id(body)
        changes[path] = Entry(mode, oid)
        blobs[oid] = body
    root, trees = update_tree(lambda _oid: {}, EMPTY_TREE, changes)
    # The newest time in the archive: the same everywhere, and near the release's for a reader of the log.
    nobody = Person(name="upstream", email="upstream@forktool.invalid", when=f"{found.newest} +0000")
    message = f"{sdist.package} {sdist.version}\n\nSource distribution, sha256 {sdist.sha256}\n"
    commit = new_object(
        "commit", encode_commit(tree=root, parents=(), author=nobody, committer=nobody, message=message)
    )
    objects: dict[Oid, tuple[str, bytes | memoryview]] = {oid: ("blob", body) for oid, body in blobs.items()}
    objects |= {item.oid: (item.kind, item.body) for item in (*trees, commit)}
    with translated(f"cannot write to {folder}"):
        folder.mkdir(parents=True, exist_ok=True)
        for index in folder.glob("pack-*.idx"):
            for oid in indexed(index.read_bytes()):
                objects.pop(oid, None)
        if objects:
            _write_objects(folder, objects)
    return commit.oid


def _write_objects(folder: Path, objects: dict[Oid, tuple[str, bytes | memoryview]]) -> None:
    # The name git uses for the same thing, so that `git prune` removes it too.
    temporary = folder / f"tmp_pack_{secrets.token_hex(8)}"
    entries: list[Packed] = []
    digest = hashlib.sha1(usedforsecurity=False)
    offset = 0
    try:
        with temporary.open("xb", buffering=1 << 20) as stream:

            def put(part: bytes) -> None:
                nonlocal offset
                stream.write(part)
                digest.update(part)
                offset += len(part)

            put(pack_header(len(objects)))
            for oid, (kind, body) in objects.items():
                entry = pack_entry(kind, body, level=_STORED)
                entries.append(Packed(oid, zlib.crc32(entry), offset))
                put(entry)
            stream.write(digest.digest())
            stream.flush()
            os.fsync(stream.fileno())
        name = f"pack-{digest.hexdigest()}"
        temporary.chmod(0o444)
        temporary.replace(folder / f"{name}.pack")
        write_atomically(folder / f"{name}.idx", pack_index(entries, digest.digest()))
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()
