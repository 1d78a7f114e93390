"""The package index: which releases a project has, and which files each.

Simple repository API in its JSON form (PEP 691, with sizes and times by PEP 700) or, where an index has only
that, in HTML (PEP 503; yanked files by PEP 592).
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from hashlib import sha256 as _sha256
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urljoin, urlsplit, urlunsplit

from packaging.version import InvalidVersion, Version

from forktool.adapters.http import Http, StatusError, shown
from forktool.adapters.state import State, translated
from forktool.errors import OutsideError, RequestError

DEFAULT_INDEX = "https://pypi.org/simple"
_VARIABLES = ("FORKTOOL_INDEX_URL", "UV_DEFAULT_INDEX", "UV_INDEX_URL", "PIP_INDEX_URL")
_JSON = "application/vnd.pypi.simple.v1+json"
_ACCEPT = f"{_JSON}, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.1"


@dataclass(frozen=True, kw_only=True, slots=True)
class IndexFile:
    """One file of a release.

    Attributes:
        sha256: 64 hexadecimal digits; None where the index gives no such hash.
        size: bytes, where the index gives them.
        yanked: the reason, perhaps empty; None for a file that is not yanked.
    """

    filename: str
    url: str
    sha256: str | None
    size: int | None
    yanked: str | None

    @property
    def is_wheel(self) -> bool:
        """Whether it is a wheel, not a source distribution."""
        return self.filename.endswith(".whl")


@dataclass(frozen=True, kw_only=True, slots=True)
class Release:
    """One version of a project, with its files in the index's order."""

    version: Version
    files: tuple[IndexFile, ...]

    @property
    def yanked(self) -> str | None:
        """Why the release was taken back; None unless all its files were (PEP 592)."""
        if any(file.yanked is None for file in self.files):
            return None
        return next((file.yanked for file in self.files if file.yanked), "")

    @property
    def sdist(self) -> IndexFile | None:
        """The source distribution, as `.tar.gz` (PEP 625); one that is not yanked before one that is."""
        found = [file for file in self.files if file.filename.endswith(".tar.gz")]
        return min(found, key=lambda file: file.yanked is not None, default=None)

    def wheel_to_read(self) -> IndexFile | None:
        """The wheel whose sources to read: pure, else manylinux x86_64, else any; the highest build."""
        return _best(self.files, _reading_rank)

    def wheel_to_run(self, tags: Iterable[str] | None = None) -> IndexFile | None:
        """The wheel that an installer would choose.

        Args:
            tags: compatibility tags, best first, such as `cp38-abi3-manylinux_2_28_x86_64`; None for those of
                the running interpreter.
        """
        if tags is None:
            from packaging.tags import sys_tags

            tags = map(str, sys_tags())
        order = {tag: -rank for rank, tag in enumerate(tags)}

        def rank(wheel_tags: frozenset[str]) -> int | None:
            return max((order[tag] for tag in wheel_tags if tag in order), default=None)

        return _best(self.files, rank)


def _reading_rank(tags: frozenset[str]) -> int:
    if any(tag.endswith("-none-any") for tag in tags):
        return 3
    if any("manylinux" in tag and tag.endswith("_x86_64") for tag in tags):
        return 2
    return 1 if any("linux" in tag for tag in tags) else 0


def _best(files: Iterable[IndexFile], rank: Callable[[frozenset[str]], int | None]) -> IndexFile | None:
    from packaging.utils import parse_wheel_filename

    found = []
    for file in files:
        if not file.is_wheel:
            continue
        _name, _version, build, tags = parse_wheel_filename(file.filename)
        value = rank(frozenset(map(str, tags)))
        if value is not None:
            found.append(((file.yanked is None, value, build or (), file.filename), file))
    return max(found, key=lambda item: item[0])[1] if found else None


def index_url(configured: str | None, environment: Mapping[str, str] | None = None) -> str:
    """The index to ask: patchset.toml's, else that of the environment, else PyPI.

    `FORKTOOL_INDEX_URL` comes first, then what uv and pip read: `UV_DEFAULT_INDEX`, `UV_INDEX_URL`,
    `PIP_INDEX_URL`. Their configuration files are not read.
    """
    found = os.environ if environment is None else environment
    chosen = configured or next((found[name] for name in _VARIABLES if found.get(name)), DEFAULT_INDEX)
    # uv allows `name=URL`.
    name, equals, url = chosen.partition("=")
    return (url if equals and "://" not in name else chosen).rstrip("/")


def canonical_name(project: str) -> str:
    """A project's name as the index spells it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", project).lower()


class PackageIndex:
    """The releases of projects, asked once a run and kept in the state folder with the time.

    Args:
        url: the simple API's root, see `index_url`.
    """

    def __init__(self, *, http: Http, state: State, url: str) -> None:
        self.url = url
        self._http = http
        self._state = state
        self._asked: dict[str, tuple[Release, ...]] = {}
        self._known: dict[str, tuple[Release, ...]] = {}

    def known(self, project: str) -> tuple[Release, ...]:
        """The releases as last listed, without asking; empty where they never were."""
        if project not in self._known:
            kept = self._kept(project)
            self._known[project] = self._read(kept, project) if kept is not None else ()
        return self._asked.get(project) or self._known[project]

    def listed_at(self, project: str) -> str | None:
        """When the kept listing was current, as ISO 8601 in UTC."""
        kept = self._kept(project)
        return kept.fetched if kept is not None else None

    def releases(self, project: str) -> tuple[Release, ...]:
        """The releases now, oldest first. Offline, those last listed.

        Raises:
            RequestError: the index has no such project.
            NetworkError: the index was not reached (`known` may still have an answer).
            OutsideError: the answer is no listing.
        """
        if project in self._asked:
            return self._asked[project]
        kept = self._kept(project)
        listing = kept if kept is not None and self._http.offline else self._ask(project, kept)
        self._asked[project] = self._read(listing, project)
        return self._asked[project]

    def _ask(self, project: str, kept: _Listing | None) -> _Listing:
        url = self._project_url(project)
        try:
            answer = self._http.get(url, accept=_ACCEPT, etag=kept.etag if kept else None)
        except StatusError as error:
            if error.status == 404:
                raise RequestError(
                    f"{project} is not on the package index {shown(self.url)}",
                    hint="correct `package` or `index_url` in patchset.toml, or --package",
                ) from error
            raise
        now = datetime.now(UTC).isoformat(timespec="seconds")
        if answer.body is None and kept is not None:
            listing = _Listing(
                url=kept.url, fetched=now, etag=kept.etag, content_type=kept.content_type, body=kept.body
            )
        else:
            listing = _Listing(
                url=shown(answer.url),  # no password goes into the state folder
                fetched=now,
                etag=answer.etag,
                content_type=answer.content_type,
                body=(answer.body or b"").decode("utf-8", "replace"),
            )
        self._read(listing, project)  # a listing that cannot be read is not kept
        self._state.write(self._path(project), listing.encoded())
        return listing

    def _read(self, listing: _Listing, project: str) -> tuple[Release, ...]:
        user, at, host = urlsplit(self.url).netloc.rpartition("@")
        page = urlsplit(listing.url)
        if at and page.netloc == host:
            listing = replace(listing, url=urlunsplit(page._replace(netloc=f"{user}@{host}")))
        return _releases(listing, project)

    def _project_url(self, project: str) -> str:
        return f"{self.url}/{canonical_name(project)}/"

    def _path(self, project: str) -> Path:
        key = _sha256(self._project_url(project).encode()).hexdigest()[:12]
        return self._state.home / "index" / f"{canonical_name(project)}-{key}.json"

    def _kept(self, project: str) -> _Listing | None:
        path = self._path(project)
        with translated(f"cannot read {path}"):
            return _Listing.decoded(path.read_bytes()) if path.is_file() else None


@dataclass(frozen=True, kw_only=True, slots=True)
class _Listing:
    """One answer of the index."""

    url: str
    fetched: str
    etag: str | None
    content_type: str
    body: str

    def encoded(self) -> bytes:
        fields = {name: getattr(self, name) for name in ("url", "fetched", "etag", "content_type", "body")}
        return json.dumps(fields).encode()

    @classmethod
    def decoded(cls, text: bytes) -> _Listing | None:
        # A file of another version of forktool, or one that was edited: as if it were not there.
        try:
            return cls(**json.loads(text))
        except (ValueError, TypeError):
            return None


def _releases(listing: _Listing, project: str) -> tuple[Release, ...]:
    is_json = "json" in listing.content_type
    try:
        files = _json_files(listing) if is_json else _html_files(listing)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise OutsideError(
            f"{shown(listing.url)}: the answer is not a listing of files (PEP 691, PEP 503)",
            hint="set index_url in patchset.toml to the root of a simple index",
        ) from error
    wanted = canonical_name(project)
    grouped: dict[Version, list[IndexFile]] = {}
    for file in files:
        version = _version_of(file.filename, wanted)
        if version is not None:
            grouped.setdefault(version, []).append(file)
    return tuple(Release(version=version, files=tuple(grouped[version])) for version in sorted(grouped))


def _version_of(filename: str, project: str) -> Version | None:
    """The version in a file's name; None for another project's file, and for kinds that are of no use here."""
    from packaging.utils import (
        InvalidSdistFilename,
        InvalidWheelFilename,
        parse_sdist_filename,
        parse_wheel_filename,
    )

    try:
        if filename.endswith(".whl"):
            name, version, _build, _tags = parse_wheel_filename(filename)
        elif filename.endswith(".tar.gz"):
            name, version = parse_sdist_filename(filename)
        else:
            return None
    except (InvalidWheelFilename, InvalidSdistFilename, InvalidVersion):
        return None
    return version if name == project else None


def _json_files(listing: _Listing) -> list[IndexFile]:
    found = []
    for item in json.loads(listing.body)["files"]:
        yanked = item.get("yanked", False)
        found.append(
            IndexFile(
                filename=item["filename"],
                url=_file_url(listing.url, item["url"]),
                sha256=item["hashes"].get("sha256"),
                size=item.get("size"),
                yanked=None if yanked is False else "" if yanked is True else yanked,
            )
        )
    return found


class _Anchors(HTMLParser):
    """The links of a page, and its base."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self.base = url
        self.found: list[dict[str, str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = {name: value or "" for name, value in attrs}
        if tag == "base" and "href" in attributes:
            self.base = urljoin(self.base, attributes["href"])
        if tag == "a" and "href" in attributes:
            self.found.append(attributes)


def _html_files(listing: _Listing) -> list[IndexFile]:
    page = _Anchors(listing.url)
    page.feed(listing.body)
    page.close()
    if not page.found and "<html" not in listing.body.lower():
        raise ValueError(listing.content_type)
    found = []
    for attributes in page.found:
        url, _hash, fragment = _file_url(page.base, attributes["href"]).partition("#")
        kind, _equals, digest = fragment.partition("=")
        found.append(
            IndexFile(
                filename=unquote(urlsplit(url).path.rpartition("/")[2]),
                url=url,
                sha256=digest if kind == "sha256" and digest else None,
                size=None,
                yanked=attributes.get("data-yanked"),
            )
        )
    return found


def _file_url(page: str, href: str) -> str:
    """A file's URL, absolute; on the index's own host it needs the index's credentials, if it has any."""
    url = urlsplit(urljoin(page, href))
    user, at, host = urlsplit(page).netloc.rpartition("@")
    if at and url.netloc == host:
        url = url._replace(netloc=f"{user}@{host}")
    return urlunsplit(url)
