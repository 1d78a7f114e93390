"""Archives copied member by member, compressed bytes as they are.

The standard library reads the index (`zipfile`); it has no way to copy a member without inflating it, so the
writing is here. Formats: PKWARE APPNOTE 6.3.10, sections 4.3 to 4.5.
"""

from __future__ import annotations

import errno
import lzma
import os
import stat
import struct
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from forktool.errors import IntegrityError, OutsideError

_LOCAL = struct.Struct("<4s5H3L2H")
_CENTRAL = struct.Struct("<4s6H3L5H2L")
_END = struct.Struct("<4s4H2LH")
_END64 = struct.Struct("<4sQ2H2L4Q")
_LOCATOR64 = struct.Struct("<4sLQL")
_MAX32, _MAX16 = 0xFFFFFFFF, 0xFFFF
_ENCRYPTED, _DESCRIPTOR, _UTF8 = 0x1, 0x8, 0x800
_EXTRA_ZIP64, _EXTRA_UNICODE_PATH = 0x0001, 0x7075
_CHUNK = 1 << 20
_KERNEL_CHUNK = 16 << 20
_FALL_BACK = {errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM, errno.EBADF}

Member = zipfile.ZipInfo


@dataclass(frozen=True, slots=True)
class _Span:
    """Where a member's compressed bytes lie in the source, and its local extra fields."""

    start: int
    size: int
    extra: bytes


class ArchiveReader:
    """An archive opened for copying; a context.

    Raises:
        IntegrityError: not a whole archive, an encrypted or overlapping member, or a name twice.
        OutsideError: it cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._archive = zipfile.ZipFile(path)
        except (zipfile.BadZipFile, NotImplementedError, UnicodeDecodeError, struct.error) as error:
            raise _broken(path, str(error)) from error
        except OSError as error:
            raise OutsideError(f"cannot read {path}: {error.strerror or error}") from error
        self.members: tuple[Member, ...] = tuple(self._archive.infolist())
        self.comment = self._archive.comment
        self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self._by_name = {member.filename: member for member in self.members}
        try:
            self._check_index()
        except BaseException:
            self.close()
            raise

    def _check_index(self) -> None:
        if len(self._by_name) != len(self.members):
            names = [member.filename for member in self.members]
            twice = next(name for name in names if names.count(name) > 1)
            raise IntegrityError(f"{self.path.name} holds {twice} twice")
        # zipfile has already moved the offsets by what is put before the archive.
        limit = self._archive.start_dir
        for member in sorted(self.members, key=lambda item: item.header_offset, reverse=True):
            if member.flag_bits & _ENCRYPTED:
                raise IntegrityError(f"{self.path.name}: {member.filename} is encrypted")
            if member.header_offset + _LOCAL.size + member.compress_size > limit:
                raise _broken(self.path, f"{member.filename} runs into what follows it")
            limit = member.header_offset

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the file."""
        self._archive.close()
        os.close(self._fd)

    def member(self, name: str) -> Member | None:
        """The index entry of a name, or None."""
        return self._by_name.get(name)

    def read(self, name: str) -> bytes:
        """The content of a member, its CRC checked.

        Raises:
            IntegrityError: there is no such member, or its bytes are damaged.
        """
        chunks: list[bytes] = []
        self.stream(name, chunks.append)
        return b"".join(chunks)

    def stream(self, name: str, take: Callable[[bytes], object]) -> None:
        """Hand on a member's content in pieces of at most 1 MiB; raises as `read` does."""
        member = self._by_name.get(name)
        if member is None:
            raise IntegrityError(f"{self.path.name} holds no {name}")
        try:
            with self._archive.open(member) as source:
                while chunk := source.read(_CHUNK):
                    take(chunk)
        except (
            zipfile.BadZipFile,
            zlib.error,
            lzma.LZMAError,
            struct.error,
            EOFError,
            NotImplementedError,
            RuntimeError,
            ValueError,
            OSError,
        ) as error:
            raise _broken(self.path, f"{name}: {error}") from error

    def span(self, member: Member) -> _Span:
        """Find a member's bytes through its local header.

        Raises:
            IntegrityError: no local header there, or it names another member.
        """
        name = member.filename
        head = os.pread(self._fd, _LOCAL.size, member.header_offset)
        if len(head) < _LOCAL.size or head[:4] != b"PK\3\4":
            raise _broken(self.path, f"no local header for {name}")
        fields = _LOCAL.unpack(head)
        tail = os.pread(self._fd, fields[9] + fields[10], member.header_offset + _LOCAL.size)
        encoding = "utf-8" if fields[2] & _UTF8 else "cp437"
        if tail[: fields[9]].decode(encoding, "replace") != member.orig_filename:
            raise _broken(self.path, f"the local header of {name} names another member")
        start = member.header_offset + _LOCAL.size + fields[9] + fields[10]
        if start + member.compress_size > self._archive.start_dir:
            raise _broken(self.path, f"{name} runs into the index")
        return _Span(start, member.compress_size, tail[fields[9] :])

    def copy_to(self, target: int, start: int, size: int, advance: Callable[[int], None]) -> None:
        """Copy bytes to a file descriptor, inside the kernel where it can; `advance` is told of each piece.

        Raises:
            IntegrityError: the source ends before.
            OSError: the target refused; the caller says which it is.
        """
        while size:
            done = self._copy_some(target, start, size)
            if not done:
                raise _broken(self.path, "it ends too early")
            advance(done)
            start += done
            size -= done

    def _copy_some(self, target: int, start: int, size: int) -> int:
        if hasattr(os, "copy_file_range"):
            try:
                return os.copy_file_range(self._fd, target, min(size, _KERNEL_CHUNK), start)
            except OSError as error:
                if error.errno not in _FALL_BACK:
                    raise
        chunk = os.pread(self._fd, min(size, _CHUNK), start)
        write_all(target, chunk)
        return len(chunk)


class ArchiveWriter:
    """Writes an archive to a file descriptor that is empty and at its start."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._at = 0
        self._index: list[bytes] = []

    def copy(self, reader: ArchiveReader, member: Member, *, name: str | None = None) -> None:
        """Copy a member as it is, perhaps under another name.

        Sizes and CRC go into its header, so that no data descriptor follows; other extra fields stay.
        """
        span = reader.span(member)
        name = name or member.filename
        renamed = name != member.filename or not (member.flag_bits & _UTF8 or name.isascii())
        size = span.size

        self._member(
            member,
            name,
            crc=member.CRC,
            compressed=size,
            size=member.file_size,
            method=member.compress_type,
            flags=member.flag_bits & 0x806,
            local_extra=_other_fields(span.extra, renamed=renamed),
            central_extra=_other_fields(member.extra, renamed=renamed),
            put=lambda: reader.copy_to(self._target, span.start, size, self._advance),
        )

    def add(self, name: str, content: bytes, *, like: Member, mode: int | None = None) -> None:
        """Write a member, stored: deflated bytes would depend on the machine's zlib.

        Args:
            name: of the member.
            content: of the member.
            like: whose timestamp, attributes and system it takes.
            mode: permission bits (such as 0o755) in place of those of `like`.
        """
        shape = Member(name, like.date_time)
        shape.external_attr = like.external_attr if mode is None else (stat.S_IFREG | mode) << 16
        shape.create_system = like.create_system if mode is None else 3
        shape.internal_attr = like.internal_attr
        shape.comment = like.comment
        self._member(
            shape,
            name,
            crc=zlib.crc32(content),
            compressed=len(content),
            size=len(content),
            method=zipfile.ZIP_STORED,
            flags=0,
            local_extra=b"",
            central_extra=b"",
            put=lambda: self._write(content),
        )

    def close(self, comment: bytes = b"") -> int:
        """Write the index; the archive is whole then. Returns its size in bytes."""
        start = self._at
        self._write(b"".join(self._index))
        size = self._at - start
        count = len(self._index)
        if count >= _MAX16 or start >= _MAX32 or size >= _MAX32:
            end = self._at
            self._write(
                _END64.pack(b"PK\6\6", _END64.size - 12, 45, 45, 0, 0, count, count, size, start)
                + _LOCATOR64.pack(b"PK\6\7", 0, end, 1)
            )
        few = min(count, _MAX16)
        self._write(
            _END.pack(b"PK\5\6", 0, 0, few, few, min(size, _MAX32), min(start, _MAX32), len(comment))
            + comment
        )
        return self._at

    @property
    def written(self) -> int:
        """Bytes in the target by now."""
        return self._at

    def _advance(self, amount: int) -> None:
        self._at += amount

    def _write(self, content: bytes) -> None:
        write_all(self._target, content)
        self._at += len(content)

    def _member(
        self,
        shape: Member,
        name: str,
        *,
        crc: int,
        compressed: int,
        size: int,
        method: int,
        flags: int,
        local_extra: bytes,
        central_extra: bytes,
        put: Callable[[], None],
    ) -> None:
        raw = name.encode("utf-8")
        flags = flags & ~_UTF8 if raw.isascii() else flags | _UTF8
        year, month, day, hour, minute, second = shape.date_time
        time, date = hour << 11 | minute << 5 | second // 2, (year - 1980) << 9 | month << 5 | day
        large = compressed >= _MAX32 or size >= _MAX32
        offset = self._at
        needs = max(shape.extract_version, 45 if large or offset >= _MAX32 else 20)
        sizes = (_MAX32, _MAX32) if large else (compressed, size)
        head_extra = (
            struct.pack("<2H2Q", _EXTRA_ZIP64, 16, size, compressed) if large else b""
        ) + local_extra
        self._write(
            _LOCAL.pack(b"PK\3\4", needs, flags, method, time, date, crc, *sizes, len(raw), len(head_extra))
            + raw
            + head_extra
        )
        put()
        wide = ([size, compressed] if large else []) + ([offset] if offset >= _MAX32 else [])
        zip64 = struct.pack(f"<2H{len(wide)}Q", _EXTRA_ZIP64, 8 * len(wide), *wide) if wide else b""
        extra = zip64 + central_extra
        self._index.append(
            _CENTRAL.pack(
                b"PK\1\2",
                shape.create_system << 8 | max(shape.create_version, needs),
                needs,
                flags,
                method,
                time,
                date,
                crc,
                *sizes,
                len(raw),
                len(extra),
                len(shape.comment),
                0,
                shape.internal_attr,
                shape.external_attr,
                min(offset, _MAX32),
            )
            + raw
            + extra
            + shape.comment
        )


def write_all(target: int, content: bytes) -> None:
    """Write every byte to a file descriptor, whose `write` may take fewer at a time."""
    view = memoryview(content)
    while view:
        view = view[os.write(target, view) :]


def _other_fields(extra: bytes, *, renamed: bool) -> bytes:
    """Extra fields without those that are written anew: zip64, and the Unicode path of a renamed member."""
    kept: list[bytes] = []
    at = 0
    while at + 4 <= len(extra):
        kind, size = struct.unpack_from("<2H", extra, at)
        end = at + 4 + size
        if end > len(extra):
            break
        if kind != _EXTRA_ZIP64 and not (renamed and kind == _EXTRA_UNICODE_PATH):
            kept.append(extra[at:end])
        at = end
    return b"".join(kept)


def _broken(path: Path, why: str) -> IntegrityError:
    return IntegrityError(f"{path.name} is damaged: {why}", hint=f"delete {path} and download it again")
