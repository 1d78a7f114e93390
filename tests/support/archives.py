"""Source distributions and wheels made in memory."""

from __future__ import annotations

import gzip
import io
import tarfile
import zipfile
from collections.abc import Iterable, Mapping

WHEN = 1_700_000_000
"""Seconds since 1970 that every member bears."""


def member(
    name: str, content: bytes = b"", *, mode: int = 0o644, kind: bytes = tarfile.REGTYPE, link: str = ""
) -> tuple[tarfile.TarInfo, bytes]:
    made = tarfile.TarInfo(name)
    made.size, made.mode, made.type, made.linkname, made.mtime = len(content), mode, kind, link, WHEN
    return made, content


def tar_gz(members: Iterable[tuple[tarfile.TarInfo, bytes]], *, mtime: int = 0) -> bytes:
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for made, content in members:
            archive.addfile(made, io.BytesIO(content))
    return gzip.compress(raw.getvalue(), mtime=mtime)


def sdist(name: str, version: str, files: Mapping[str, bytes], *, executable: Iterable[str] = ()) -> bytes:
    """An sdist as setuptools writes it: the files, and what the build adds."""
    top = f"{name}-{version}"
    added = {
        "PKG-INFO": b"Metadata-Version: 2.4\n",
        "setup.cfg": b"[egg_info]\ntag_build = \ntag_date = 0\n\n",
        f"{name}.egg-info/SOURCES.txt": b"x\n",
    }
    members = [member(f"{top}/", mode=0o755, kind=tarfile.DIRTYPE)]
    for path, content in {**added, **files}.items():
        members.append(member(f"{top}/{path}", content, mode=0o755 if path in executable else 0o644))
    return tar_gz(members)


def wheel(name: str, version: str, files: Mapping[str, bytes], *, executable: Iterable[str] = ()) -> bytes:
    raw = io.BytesIO()
    with zipfile.ZipFile(raw, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, content in {**files, f"{name}-{version}.dist-info/WHEEL": b"Wheel-Version: 1.0\n"}.items():
            entry = zipfile.ZipInfo(path, (2024, 1, 1, 0, 0, 0))
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (0o100755 if path in executable else 0o100644) << 16
            archive.writestr(entry, content)
    return raw.getvalue()
