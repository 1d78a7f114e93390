"""A package index on 127.0.0.1: PEP 691 and PEP 503 listings, ranges, and faults to switch on."""

from __future__ import annotations

import hashlib
import html
import json
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

JSON = "application/vnd.pypi.simple.v1+json"


@dataclass(kw_only=True)
class Hosted:
    """A file of the index; `listed_sha256` and `listed_size` are what the listing says of it."""

    content: bytes
    yanked: bool | str = False
    listed_sha256: str | None = None
    listed_size: int | None = None


@dataclass(kw_only=True)
class Faults:
    """What goes wrong, by file name or for all."""

    no_json: bool = False
    no_ranges: bool = False
    no_etag: bool = False
    weak_etag: bool = False
    no_hashes: bool = False
    status: dict[str, list[int]] = field(default_factory=dict)
    """Path's last part (`demo` for the listing) to statuses, each used up by one request."""
    cut_after: dict[str, list[int]] = field(default_factory=dict)
    """File name to numbers of body bytes after which the connection is closed, one a request."""
    stall: dict[str, float] = field(default_factory=dict)
    """File name to seconds to wait in the middle of the body."""


@dataclass(frozen=True, kw_only=True)
class Asked:
    """One request as it came."""

    path: str
    range: str | None
    if_range: str | None
    if_none_match: str | None
    agent: str | None
    authorization: str | None


class IndexServer:
    """The index; `files[project][filename]`."""

    def __init__(self) -> None:
        self.files: dict[str, dict[str, Hosted]] = {}
        self.faults = Faults()
        self.asked: list[Asked] = []
        self._lock = threading.Lock()
        self._server = _Server(self)
        self.port = self._server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}/simple"

    def add(self, project: str, filename: str, content: bytes, **options: Any) -> Hosted:
        hosted = Hosted(content=content, **options)
        self.files.setdefault(project, {})[filename] = hosted
        return hosted

    def file_url(self, project: str, filename: str) -> str:
        return f"http://127.0.0.1:{self.port}/files/{project}/{filename}"

    def asked_for(self, ending: str) -> list[Asked]:
        return [item for item in self.asked if item.path.rstrip("/").endswith(ending)]

    def note(self, item: Asked) -> None:
        with self._lock:
            self.asked.append(item)

    def take(self, table: dict[str, list[int]], name: str) -> int | None:
        with self._lock:
            left = table.get(name)
            return left.pop(0) if left else None

    @contextmanager
    def running(self) -> Iterator[IndexServer]:
        thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            thread.join()
            self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, index: IndexServer) -> None:
        self.index = index
        super().__init__(("127.0.0.1", 0), _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is part of the tests."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"

    def log_message(self, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        index = self.server.index
        index.note(
            Asked(
                path=self.path,
                range=self.headers.get("Range"),
                if_range=self.headers.get("If-Range"),
                if_none_match=self.headers.get("If-None-Match"),
                agent=self.headers.get("User-Agent"),
                authorization=self.headers.get("Authorization"),
            )
        )
        last = self.path.rstrip("/").rpartition("/")[2]
        status = index.take(index.faults.status, last)
        if status is not None:
            self._send(status, b"no", {})
        elif match := re.fullmatch(r"/simple/([^/]+)/", self.path):
            self._listing(match[1])
        elif match := re.fullmatch(r"/files/([^/]+)/([^/]+)", self.path):
            self._file(match[1], match[2])
        else:
            self._send(404, b"not found", {})

    def _listing(self, project: str) -> None:
        index = self.server.index
        files = index.files.get(project)
        if files is None:
            self._send(404, b"not found", {})
            return
        as_json = JSON in self.headers.get("Accept", "") and not index.faults.no_json
        body = self._as_json(project, files) if as_json else self._as_html(project, files)
        etag = f'"{hashlib.sha256(body).hexdigest()[:16]}"'
        if self.headers.get("If-None-Match") == etag and not index.faults.no_etag:
            self._send(304, b"", {"ETag": etag})
            return
        headers = {"Content-Type": JSON if as_json else "text/html; charset=utf-8"}
        if not index.faults.no_etag:
            headers["ETag"] = etag
        self._send(200, body, headers)

    def _as_json(self, project: str, files: dict[str, Hosted]) -> bytes:
        listed = []
        for name, hosted in files.items():
            digest = hosted.listed_sha256 or hashlib.sha256(hosted.content).hexdigest()
            size = hosted.listed_size if hosted.listed_size is not None else len(hosted.content)
            hashes = {} if self.server.index.faults.no_hashes else {"sha256": digest}
            listed.append(
                {
                    "filename": name,
                    "url": f"../../files/{project}/{name}",
                    "hashes": hashes,
                    "size": size,
                    "yanked": hosted.yanked,
                }
            )
        return json.dumps({"meta": {"api-version": "1.1"}, "name": project, "files": listed}).encode()

    def _as_html(self, project: str, files: dict[str, Hosted]) -> bytes:
        lines = ["<!DOCTYPE html><html><body>"]
        for name, hosted in files.items():
            digest = hosted.listed_sha256 or hashlib.sha256(hosted.content).hexdigest()
            fragment = "" if self.server.index.faults.no_hashes else f"#sha256={digest}"
            reason = "" if hosted.yanked is True else html.escape(str(hosted.yanked))
            yanked = f' data-yanked="{reason}"' if hosted.yanked is not False else ""
            lines.append(f'<a href="../../files/{project}/{name}{fragment}"{yanked}>{name}</a><br/>')
        return "\n".join([*lines, "</body></html>"]).encode()

    def _file(self, project: str, name: str) -> None:
        index = self.server.index
        hosted = index.files.get(project, {}).get(name)
        if hosted is None:
            self._send(404, b"not found", {})
            return
        content = hosted.content
        etag = f'"{hashlib.md5(content).hexdigest()}"'
        headers = {"Content-Type": "application/octet-stream"}
        if not index.faults.no_etag:
            headers["ETag"] = f"W/{etag}" if index.faults.weak_etag else etag
        wanted = self.headers.get("Range")
        if index.faults.no_ranges or self.headers.get("If-Range") not in (None, etag):
            wanted = None
        if wanted is None:
            self._send(200, content, headers, name)
            return
        first, _dash, last = wanted.removeprefix("bytes=").partition("-")
        start = int(first) if first else max(0, len(content) - int(last))
        end = min(int(last), len(content) - 1) if first and last else len(content) - 1
        if start >= len(content):
            self._send(416, b"", {"Content-Range": f"bytes */{len(content)}"})
            return
        headers["Content-Range"] = f"bytes {start}-{end}/{len(content)}"
        self._send(206, content[start : end + 1], headers, name)

    def _send(self, status: int, body: bytes, headers: dict[str, str], name: str = "") -> None:
        faults = self.server.index.faults
        self.send_response(status)
        for key, value in headers.items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        cut = self.server.index.take(faults.cut_after, name)
        if cut is not None:
            self.wfile.write(body[:cut])
            self.close_connection = True
            return
        half = len(body) // 2
        self.wfile.write(body[:half])
        if name in faults.stall:
            self.wfile.flush()
            time.sleep(faults.stall[name])
        self.wfile.write(body[half:])
