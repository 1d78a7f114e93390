"""A wheel opened for reading: its name, its dist-info folder and its RECORD agree on what it is."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from forktool.adapters.zip_copy import ArchiveReader, Member
from forktool.core.wheel_metadata import header
from forktool.core.wheel_names import WheelName, parse_wheel_name
from forktool.core.wheel_record import ALGORITHMS, UNRECORDED, Row, digest_field, matches, parse_record
from forktool.errors import IntegrityError


@dataclass(frozen=True, kw_only=True, slots=True)
class WheelFile:
    """An open wheel. `rows` is RECORD by path, in its order; `dist_info` is the folder's name as it is."""

    name: WheelName
    archive: ArchiveReader
    dist_info: str
    rows: dict[str, Row]

    @property
    def label(self) -> str:
        """What messages call it."""
        return self.archive.path.name

    def read_checked(self, path: str) -> bytes:
        """The content of a member whose CRC and RECORD hash are right.

        Raises:
            IntegrityError: there is none, or either is wrong.
        """
        content = self.archive.read(path)
        row = self.rows.get(path)
        if row is None:
            raise IntegrityError(f"{self.label}: {path} is missing from RECORD", hint=self._hint)
        if not matches(row, content):
            raise IntegrityError(f"{self.label}: {path} is not what RECORD says", hint=self._hint)
        return content

    def find_damage(self) -> Iterator[str]:
        """Inflate and hash every member, on all cores; yields one line for each that RECORD contradicts."""
        unrecorded = {f"{self.dist_info}/{name}" for name in UNRECORDED}
        members = [member for member in self.archive.members if member.filename not in unrecorded]
        # The largest first, so that none is left over for the end. zlib and hashlib let other threads run.
        members.sort(key=lambda member: member.file_size, reverse=True)
        with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
            found = pool.map(self._damage, members)
            yield from sorted(line for line in found if line is not None)

    def _damage(self, member: Member) -> str | None:
        path = member.filename
        row = self.rows.get(path)
        algorithm = row.digest.partition("=")[0] if row is not None else ""
        if row is None or member.is_dir() or algorithm not in ALGORITHMS:
            return None  # `record_problems` names it
        digest = hashlib.new(algorithm)
        try:
            self.archive.stream(path, digest.update)
        except IntegrityError as error:
            return error.message
        if digest_field(algorithm, digest.digest()) != row.digest:
            return f"{path} is not what RECORD says: the hash differs"
        if row.size not in {"", str(member.file_size)}:
            return f"{path} is {member.file_size} bytes and RECORD says {row.size}"
        return None

    @property
    def _hint(self) -> str:
        return f"delete {self.archive.path} and download it again"


@contextmanager
def open_wheel(path: Path) -> Iterator[WheelFile]:
    """Open a wheel.

    Raises:
        RequestError: the file name is not a wheel's.
        IntegrityError: not a whole archive, not one dist-info folder of the name's project and version, or
            METADATA says otherwise.
        OutsideError: it cannot be read.
    """
    name = parse_wheel_name(path.name)
    with ArchiveReader(path) as archive:
        folders = {
            member.filename.partition("/")[0]
            for member in archive.members
            if member.filename.partition("/")[0].endswith(".dist-info")
        }
        if len(folders) != 1:
            found = ", ".join(sorted(folders)) or "none"
            raise IntegrityError(f"{path.name} must have one .dist-info folder; it has {found}")
        dist_info = folders.pop()
        project, _, version = dist_info.removesuffix(".dist-info").rpartition("-")
        if canonicalize_name(project) != name.project or _version(version) != name.version:
            raise IntegrityError(f"{path.name} is named as another wheel than its folder {dist_info}")
        rows = parse_record(archive.read(f"{dist_info}/RECORD"), where=path.name)
        metadata = archive.read(f"{dist_info}/METADATA")
        stated = (canonicalize_name(header(metadata, "Name") or ""), header(metadata, "Version") or "")
        if stated[0] != name.project or _version(stated[1]) != name.version:
            raise IntegrityError(
                f"{path.name} is named as another wheel than its METADATA: {stated[0]} {stated[1]}"
            )
        yield WheelFile(name=name, archive=archive, dist_info=dist_info, rows=rows)


def _version(text: str) -> Version | None:
    try:
        return Version(text.replace("_", "-"))
    except InvalidVersion:
        return None
