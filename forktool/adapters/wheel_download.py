"""The published wheel: chosen as an installer would, downloaded once, kept by its sha256."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from packaging.version import Version

from forktool.adapters.console import Console
from forktool.adapters.http import Http
from forktool.adapters.package_index import PackageIndex, Release
from forktool.adapters.state import State, translated
from forktool.errors import IntegrityError, RequestError


@dataclass(frozen=True, kw_only=True, slots=True)
class PublishedWheel:
    """A wheel on disk and its sha256, 64 hexadecimal digits."""

    path: Path
    sha256: str


def local_wheel(path: Path) -> PublishedWheel:
    """A wheel that the user has.

    Raises:
        RequestError: there is no such file.
        DiskError: it cannot be read.
    """
    if not path.is_file():
        raise RequestError(
            f"{path} is not a file", hint="forktool wheel downloads the published wheel without --wheel"
        )
    return PublishedWheel(path=path, sha256=_sha256(path))


def fetch_wheel(
    index: PackageIndex, http: Http, state: State, console: Console, *, project: str, version: Version
) -> PublishedWheel:
    """The wheel of a release for this machine, from the state folder or the index.

    Args:
        index: where the release is listed; asked only where its kept listing lacks the version.
        http: downloads, and goes on with a broken download.
        state: keeps the wheel under downloads/.
        console: shows progress.
        project: its name on the index.
        version: exactly this one.

    Raises:
        RequestError: the index has no such release, or no wheel of it for this machine.
        IntegrityError: the index gives no sha256, or the download has another.
        NetworkError, DiskError: as `Http.download`.
    """
    release = _find(index.known(project), version) or _find(index.releases(project), version)
    if release is None:
        raise RequestError(
            f"{index.url} has no {project} {version}",
            hint="give the wheel yourself: forktool wheel --wheel FILE",
        )
    file = release.wheel_to_run()
    if file is None:
        names = ", ".join(item.filename for item in release.files if item.is_wheel) or "no wheel at all"
        raise RequestError(
            f"{project} {version} has no wheel for this machine; it has {names}",
            hint="download one of them: forktool wheel --wheel FILE",
        )
    if file.sha256 is None:
        raise IntegrityError(
            f"the index gives no sha256 for {file.filename}",
            hint="forktool wheel --wheel FILE takes it as it is",
        )
    path = state.directory("downloads", file.sha256[:16]) / file.filename
    if not path.is_file() or _sha256(path) != file.sha256:
        with console.progress(file.filename, file.size) as advance:
            http.download(file.url, path, sha256=file.sha256, size=file.size, advance=advance, durable=False)
    return PublishedWheel(path=path, sha256=file.sha256)


def _find(releases: tuple[Release, ...], version: Version) -> Release | None:
    return next((release for release in releases if release.version == version), None)


def _sha256(path: Path) -> str:
    with translated(f"cannot read {path}"), path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
