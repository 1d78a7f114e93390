"""A static package index over a folder of wheels, for `pip --index-url` and `uv --index-url`.

Formats: "Simple repository API" at packaging.python.org (PEP 503 HTML, PEP 691 JSON, PEP 658 and 714 metadata
files, PEP 700 sizes and versions). Relative links: the folder can be served from anywhere, or by `file:`.
"""

from __future__ import annotations

import contextlib
import hashlib
import html
import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from forktool.adapters.state import translated, write_atomically
from forktool.adapters.wheel_file import open_wheel
from forktool.core.wheel_metadata import header
from forktool.core.wheel_names import WheelName
from forktool.errors import RequestError

_GENERATOR = '<meta name="generator" content="forktool">'


@dataclass(frozen=True, kw_only=True, slots=True)
class IndexedWheel:
    """A wheel in the index. Sizes in bytes, hashes as 64 hexadecimal digits."""

    name: WheelName
    size: int
    sha256: str
    metadata_sha256: str
    requires_python: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Index:
    """What `write_index` wrote: the folder for `--index-url`, and its wheels."""

    root: Path
    wheels: tuple[IndexedWheel, ...]


def write_index(directory: Path) -> Index:
    """Write `directory/simple/` over the wheels in `directory`, and each wheel's METADATA beside it.

    Projects and metadata files of wheels that are gone are removed; what forktool did not write stays.

    Raises:
        RequestError: not a folder, or no wheel in it.
        IntegrityError: a wheel is damaged or disagrees with its name.
        DiskError: the file system refused.
    """
    if not directory.is_dir():
        raise RequestError(f"{directory} is not a folder", hint="forktool wheel --output DIR")
    paths = sorted(directory.glob("*.whl"))
    if not paths:
        raise RequestError(f"no wheels in {directory}", hint=f"forktool wheel --output {directory}")
    wheels = tuple(_index(path) for path in paths)
    root = directory / "simple"
    projects: dict[str, list[IndexedWheel]] = {}
    for wheel in wheels:
        projects.setdefault(wheel.name.project, []).append(wheel)
    for project, files in sorted(projects.items()):
        files.sort(key=lambda item: (item.name.version, item.name.filename))
        write_atomically(root / project / "index.html", _project_page(project, files))
        write_atomically(root / project / "index.json", _project_document(project, files))
    write_atomically(root / "index.html", _root_page(sorted(projects)))
    write_atomically(root / "index.json", _root_document(sorted(projects)))
    _remove_stale(directory, root, set(projects), {path.name for path in paths})
    return Index(root=root, wheels=wheels)


def _index(path: Path) -> IndexedWheel:
    with open_wheel(path) as wheel:
        metadata = wheel.read_checked(f"{wheel.dist_info}/METADATA")
        name = wheel.name
    with translated(f"cannot read {path}"), path.open("rb") as stream:
        sha256 = hashlib.file_digest(stream, "sha256").hexdigest()
        size = os.fstat(stream.fileno()).st_size
    beside = path.with_name(f"{path.name}.metadata")
    write_atomically(beside, metadata)
    return IndexedWheel(
        name=name,
        size=size,
        sha256=sha256,
        metadata_sha256=hashlib.sha256(metadata).hexdigest(),
        requires_python=header(metadata, "Requires-Python"),
    )


def _project_page(project: str, files: list[IndexedWheel]) -> bytes:
    lines = []
    for wheel in files:
        attributes = [
            f'href="../../{quote(wheel.name.filename)}#sha256={wheel.sha256}"',
            f'data-core-metadata="sha256={wheel.metadata_sha256}"',
            f'data-dist-info-metadata="sha256={wheel.metadata_sha256}"',
        ]
        if wheel.requires_python:
            attributes.append(f'data-requires-python="{html.escape(wheel.requires_python)}"')
        lines.append(f"<a {' '.join(attributes)}>{html.escape(wheel.name.filename)}</a><br>")
    return _page(f"Links for {project}", lines)


def _project_document(project: str, files: list[IndexedWheel]) -> bytes:
    return _document(
        {
            "name": project,
            "versions": list(dict.fromkeys(str(wheel.name.version) for wheel in files)),
            "files": [
                {
                    "filename": wheel.name.filename,
                    "url": f"../../{quote(wheel.name.filename)}",
                    "hashes": {"sha256": wheel.sha256},
                    "size": wheel.size,
                    "core-metadata": {"sha256": wheel.metadata_sha256},
                    **({"requires-python": wheel.requires_python} if wheel.requires_python else {}),
                }
                for wheel in files
            ],
        }
    )


def _root_page(projects: list[str]) -> bytes:
    return _page("Simple index", [f'<a href="{project}/">{project}</a><br>' for project in projects])


def _root_document(projects: list[str]) -> bytes:
    return _document({"projects": [{"name": project} for project in projects]})


def _page(title: str, lines: list[str]) -> bytes:
    head = [
        "<!DOCTYPE html>",
        "<html><head>",
        '<meta charset="utf-8">',
        '<meta name="pypi:repository-version" content="1.1">',
        _GENERATOR,
        f"<title>{title}</title>",
        "</head><body>",
    ]
    return "\n".join([*head, *lines, "</body></html>", ""]).encode()


def _document(content: dict[str, object]) -> bytes:
    return (json.dumps({"meta": {"api-version": "1.1"}, **content}, indent=2) + "\n").encode()


def _remove_stale(directory: Path, root: Path, projects: set[str], wheels: set[str]) -> None:
    with translated(f"cannot tidy {root}"):
        for folder in root.iterdir():
            page = folder / "index.html"
            if folder.name not in projects and page.is_file() and _GENERATOR.encode() in page.read_bytes():
                shutil.rmtree(folder)
        for path in directory.glob("*.whl.metadata"):
            if path.name.removesuffix(".metadata") not in wheels:
                with contextlib.suppress(FileNotFoundError):
                    path.unlink()
