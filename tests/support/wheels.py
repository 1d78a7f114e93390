"""Small wheels for tests, right by default and wrong on request."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, cast

from forktool.core.wheel_record import Row, format_record, row_of

WHEN = (2026, 2, 26, 10, 20, 30)
TAG = "cp38-abi3-manylinux_2_31_x86_64"


class Unseekable(io.RawIOBase):
    """A stream that zipfile must write data descriptors to."""

    def __init__(self, target: IO[bytes]) -> None:
        self._target = target

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False

    def write(self, content: object) -> int:
        return self._target.write(cast("bytes", content))


def sample_files(version: str = "1.2.0") -> dict[str, bytes]:
    """A package `acme` in the shape of vLLM: a _version.py of setuptools-scm, code, a configuration, a library."""
    fields = tuple(int(part) for part in version.split("."))
    return {
        "acme/__init__.py": b"from ._version import __version__\n",
        "acme/_version.py": (
            f"__version__ = version = '{version}'\n"
            f"__version_tuple__ = version_tuple = {fields!r}\n"
            "__commit_id__ = commit_id = 'gabc'\n"
        ).encode(),
        "acme/gate.py": b"ALLOWED = ['llama', 'qwen']\n",
        "acme/E=1,N=2.json": b"{}\n",
        "acme/_C.abi3.so": bytes(range(256)) * 600,
    }


def make_wheel(
    folder: Path,
    files: Mapping[str, bytes] | None = None,
    *,
    version: str = "1.2.0",
    tag: str = TAG,
    inner_tag: str = "cp38-abi3-linux_x86_64",
    unrecorded: frozenset[str] = frozenset(),
    shape: Callable[[zipfile.ZipInfo], None] | None = None,
    descriptors: bool = False,
    comment: bytes = b"",
    extra_info: Mapping[str, bytes] | None = None,
    record: bytes | None = None,
) -> Path:
    """Write `acme-VERSION-TAG.whl`.

    Args:
        folder: where.
        files: members outside dist-info; `sample_files` by default.
        version: of the wheel.
        tag: of the file name.
        inner_tag: of WHEEL; as upstream does it, not that of the name.
        unrecorded: members that RECORD leaves out.
        shape: changes each member's entry before it is written.
        descriptors: write data descriptors after the members.
        comment: of the archive.
        extra_info: more members of dist-info.
        record: RECORD, instead of the right one.
    """
    info = f"acme-{version}.dist-info"
    members = dict(sample_files(version) if files is None else files)
    members[f"{info}/METADATA"] = (
        f"Metadata-Version: 2.1\nName: acme\nVersion: {version}\nSummary: A sample\nRequires-Python: >=3.8\n"
        "License: MIT\nDescription-Content-Type: text/plain\n\nA sample.\n"
    ).encode()
    members[f"{info}/WHEEL"] = (
        f"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: false\nTag: {inner_tag}\n".encode()
    )
    members[f"{info}/top_level.txt"] = b"acme\n"
    members |= {f"{info}/{name}": content for name, content in (extra_info or {}).items()}
    rows = [
        row_of(name, content)
        for name, content in members.items()
        if name not in unrecorded and not name.endswith("/")
    ]
    members[f"{info}/RECORD"] = format_record([*rows, Row(f"{info}/RECORD")]) if record is None else record
    path = folder / f"acme-{version}-{tag}.whl"
    with path.open("wb") as stream:
        target = cast("IO[bytes]", Unseekable(stream)) if descriptors else stream
        with zipfile.ZipFile(target, "w") as archive:
            for name, content in members.items():
                entry = zipfile.ZipInfo(name, WHEN)
                entry.compress_type = zipfile.ZIP_DEFLATED
                entry.external_attr = 0o100664 << 16
                if shape is not None:
                    shape(entry)
                archive.writestr(entry, content)
            archive.comment = comment
    return path
