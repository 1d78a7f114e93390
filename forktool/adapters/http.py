"""Asking and downloading over HTTP: the only import of `requests`.

Proxies, certificates and credentials come from the environment as `requests` reads it (`HTTPS_PROXY`,
`REQUESTS_CA_BUNDLE`, `~/.netrc`). Only GET is ever sent, so trying again is safe.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit, urlunsplit

from forktool import __version__
from forktool.adapters.part_file import PartFile
from forktool.errors import DiskError, IntegrityError, NetworkError, RequestError

if TYPE_CHECKING:
    from requests import Response, Session

CHUNK = 1 << 18
CONNECTIONS = 8
_ATTEMPTS = 4
"""How often a download that broke off is taken up again before the run gives up."""


class StatusError(NetworkError):
    """The server answered, with a status of 400 or above."""

    def __init__(self, url: str, status: int, reason: str) -> None:
        hints = {
            401: "put the credentials into ~/.netrc",
            403: "put the credentials into ~/.netrc",
            407: "set HTTPS_PROXY with the proxy's credentials",
        }
        super().__init__(f"{shown(url)}: HTTP {status} {reason}".rstrip(), hint=hints.get(status))
        self.status = status


class OfflineError(NetworkError):
    """`--offline` forbids what would have to be asked."""


class NoRangeError(NetworkError):
    """The server does not hand out parts of this file."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """The body of one answer; `body` is None where the server says that the caller's copy is current."""

    url: str
    body: bytes | None
    content_type: str
    etag: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """A range of a file: `body` begins at byte `start` of `total`."""

    start: int
    total: int
    body: bytes


def shown(url: str) -> str:
    """A URL as messages may show it: without user and password."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def _no_advance(_amount: int) -> None:
    pass


class Http:
    """One session of requests; safe to use from threads.

    Args:
        offline: refuse every request.
        timeout: seconds to connect, and seconds without a byte.
    """

    def __init__(self, *, offline: bool = False, timeout: tuple[float, float] = (10.0, 60.0)) -> None:
        self.offline = offline
        self._timeout = timeout
        self._session: Session | None = None
        self._lock = threading.Lock()
        self.received = 0
        """Bytes of bodies received so far."""

    def close(self) -> None:
        """End the connections."""
        if self._session is not None:
            self._session.close()
            self._session = None

    def get(self, url: str, *, accept: str = "*/*", etag: str | None = None) -> Answer:
        """Fetch a small document.

        Args:
            url: http or https.
            accept: the `Accept` header.
            etag: of the copy that the caller holds; the answer's body is None where it is current.

        Raises:
            RequestError: the URL makes no sense.
            StatusError: the server refused.
            NetworkError: the host was not reached, broke off, or `offline` is set.
        """
        headers = {"Accept": accept}
        if etag is not None:
            headers["If-None-Match"] = etag
        with self._asked(url, headers) as response:
            if response.status_code == 304:
                return Answer(url=url, body=None, content_type="", etag=etag)
            with _translated(url, self._timeout):
                body = response.content
            self._count(len(body))
            content_type = response.headers.get("Content-Type", "").partition(";")[0].strip().lower()
            return Answer(
                url=response.url, body=body, content_type=content_type, etag=response.headers.get("ETag")
            )

    def part(self, url: str, first: int, last: int | None = None) -> Part:
        """Fetch bytes `first` to `last` (inclusive) of a file; a negative `first` counts from its end.

        Raises:
            NoRangeError: the server sends whole files only; nothing was read.
            StatusError: the server refused.
            NetworkError: see `get`.
        """
        span = str(first) if first < 0 else f"{first}-{'' if last is None else last}"
        headers = {"Range": f"bytes={span}", "Accept-Encoding": "identity"}
        with self._asked(url, headers) as response:
            found = re.fullmatch(r"bytes (\d+)-(\d+)/(\d+)", response.headers.get("Content-Range", ""))
            if response.status_code != 206 or found is None:
                raise NoRangeError(f"{shown(url)}: the server sends no ranges")
            with _translated(url, self._timeout):
                body = response.content
            self._count(len(body))
            start, end, total = map(int, found.groups())
            if len(body) != end - start + 1 or (first >= 0 and start != first):
                raise NetworkError(
                    f"{shown(url)}: asked for bytes {span}, got {start}-{start + len(body) - 1}"
                )
            return Part(start=start, total=total, body=body)

    def download(
        self,
        url: str,
        target: Path,
        *,
        sha256: str | None,
        size: int | None = None,
        advance: Callable[[int], None] = _no_advance,
        durable: bool = True,
    ) -> None:
        """Fetch a file; `target` appears whole and checked, or not at all.

        The bytes so far are in `target.part`; a broken download goes on from there, in this run or the next.
        They are thrown away when the server's file has changed, when the hash is wrong and when the disk is full.

        Args:
            url: http or https.
            target: where the file goes.
            sha256: 64 hexadecimal digits, or None where the index gives none.
            size: bytes, where the index gives them.
            advance: told of each piece, in bytes.
            durable: wait until the disk has it.

        Raises:
            IntegrityError: another hash or size than promised.
            DiskError: the file system refused.
            NetworkError: see `get`; also after several attempts that broke off.
        """
        piece = PartFile(target)
        restarted = False
        for attempt in range(_ATTEMPTS):
            before = piece.length()
            try:
                whole = self._continue_download(url, piece, size, advance, resume=sha256 is not None)
            except StatusError as error:
                if error.status != 416 or restarted:
                    raise
                piece.discard()
                restarted = True
                continue
            except NetworkError as error:
                # Go on only while there is progress: a server that cuts at the same byte will do so for ever.
                if isinstance(error, OfflineError) or piece.length() <= before or attempt == _ATTEMPTS - 1:
                    raise
                continue
            wrong = piece.wrong(sha256, size)
            if wrong is None:
                piece.finish(durable=durable)
                return
            piece.discard()
            if whole or restarted:
                raise IntegrityError(
                    f"{shown(url)}: {wrong}", hint="run the command again, or try another index_url"
                )
            restarted = True
        raise NetworkError(f"{shown(url)}: broke off {_ATTEMPTS} times", hint="run the command again")

    def _continue_download(
        self, url: str, piece: PartFile, size: int | None, advance: Callable[[int], None], *, resume: bool
    ) -> bool:
        """One request; True where it brought the whole file, not the rest of one."""
        start, validator = piece.start(resume=resume)
        headers = {"Accept-Encoding": "identity"}
        if start and start == size:
            advance(start)
            return False
        if start:
            headers["Range"] = f"bytes={start}-"
            if validator is not None:
                headers["If-Range"] = validator
        with self._asked(url, headers) as response:
            resumed = response.status_code == 206 and response.headers.get("Content-Range", "").startswith(
                f"bytes {start}-"
            )
            if start and not resumed:
                piece.discard()
            if resumed:
                advance(start)
            piece.remember(response.headers.get("ETag"))
            with piece.appending() as write:
                try:
                    with _translated(url, self._timeout):
                        for chunk in response.raw.stream(CHUNK, decode_content=False):
                            write(chunk)
                            advance(len(chunk))
                            self._count(len(chunk))
                except DiskError:
                    piece.discard()
                    raise
            return not resumed

    @contextmanager
    def _asked(self, url: str, headers: Mapping[str, str]) -> Iterator[Response]:
        if self.offline:
            raise OfflineError(
                f"{shown(url)} is needed and --offline forbids it", hint="run the command without --offline"
            )
        session = self._ready()
        with _translated(url, self._timeout):
            response = session.get(url, headers=dict(headers), stream=True, timeout=self._timeout)
        try:
            if response.status_code >= 400:
                raise StatusError(url, response.status_code, response.reason or "")
            yield response
        finally:
            response.close()

    def _ready(self) -> Session:
        with self._lock:
            if self._session is None:
                import requests
                from requests.adapters import HTTPAdapter
                from urllib3.util import Retry

                again = Retry(
                    total=3,
                    connect=2,
                    read=1,
                    status=2,
                    status_forcelist=(429, 502, 503, 504),
                    backoff_factor=0.2,
                    raise_on_status=False,
                    respect_retry_after_header=False,
                )
                self._session = requests.Session()
                self._session.headers["User-Agent"] = f"forktool/{__version__}"
                for scheme in ("http://", "https://"):
                    self._session.mount(
                        scheme, HTTPAdapter(max_retries=again, pool_maxsize=CONNECTIONS, pool_block=True)
                    )
            return self._session

    def _count(self, amount: int) -> None:
        with self._lock:
            self.received += amount


@contextmanager
def _translated(url: str, timeout: tuple[float, float]) -> Iterator[None]:
    """Turn what requests and urllib3 raise into our errors, each kind with its own words."""
    import requests
    import urllib3.exceptions as low

    host = urlsplit(url).hostname or shown(url)
    offline_hint = "check the network and the proxy settings; --offline works with what is already here"
    try:
        yield
    except (
        requests.exceptions.InvalidURL,
        requests.exceptions.MissingSchema,
        requests.exceptions.InvalidSchema,
    ) as error:
        raise RequestError(f"{shown(url)!r} is not an http or https URL") from error
    except (requests.exceptions.SSLError, low.SSLError) as error:
        raise NetworkError(
            f"{host}: the TLS certificate was refused: {_reason(error)}",
            hint="set REQUESTS_CA_BUNDLE to your authority's certificate",
        ) from error
    except (requests.exceptions.ProxyError, low.ProxyError) as error:
        raise NetworkError(
            f"{host}: the proxy failed: {_reason(error)}", hint="check HTTPS_PROXY and NO_PROXY"
        ) from error
    except (requests.exceptions.Timeout, low.TimeoutError) as error:
        raise NetworkError(
            f"{host} did not answer within {max(timeout):g} s", hint="run the command again"
        ) from error
    except (
        requests.exceptions.ChunkedEncodingError,
        low.ProtocolError,
        low.DecodeError,
        requests.exceptions.ContentDecodingError,
    ) as error:
        raise NetworkError(
            f"{shown(url)}: the connection broke off: {_reason(error)}", hint="run the command again"
        ) from error
    except requests.exceptions.ConnectionError as error:
        if "timed out" in str(error).lower():
            raise NetworkError(
                f"{host} did not answer within {max(timeout):g} s", hint="run the command again"
            ) from error
        raise NetworkError(f"cannot reach {host}: {_reason(error)}", hint=offline_hint) from error
    except (requests.exceptions.RequestException, low.HTTPError) as error:
        raise NetworkError(f"{host}: {_reason(error)}", hint=offline_hint) from error


def _reason(error: BaseException) -> str:
    """The innermost reason in a few words: these libraries nest and repeat the whole object's repr."""
    seen: BaseException = error
    while True:
        inner = getattr(seen, "reason", None) or next(
            (item for item in reversed(seen.args) if isinstance(item, BaseException)), None
        )
        if not isinstance(inner, BaseException) or inner is seen:
            break
        seen = inner
    text = getattr(seen, "strerror", None) or str(seen)
    return re.sub(r"^.*?>: |^\S+\(.*?\): ", "", text).strip().splitlines()[0] if text else type(seen).__name__
