"""Files of a published wheel, read in place with HTTP range requests.

A wheel holds its packages' sources byte for byte; a few files and the zip's directory are a thousandth of it.
Every answer is kept in the state folder under the wheel's sha256, so that asking again needs no network.
"""

from __future__ import annotations

import contextlib
import io
import json
import secrets
import threading
import zlib
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from forktool.adapters.http import Http, shown
from forktool.adapters.package_index import IndexFile
from forktool.adapters.state import State, translated
from forktool.core.archive import matches
from forktool.core.objects import Entry, Mode, Oid, blob_id
from forktool.errors import IntegrityError, OutsideError

if TYPE_CHECKING:
    from remotezip import RemoteZip

FIRST_READ = 32 << 10
"""Bytes from the wheel's end: the whole directory of a small wheel; that of a large one takes a second request."""
_APART = frozenset({"test", "tests", "testing", "doc", "docs", "examples", "benchmarks"})
"""Folders inside a package that projects like to leave out of their wheels."""


class NotInWheelError(OutsideError):
    """The wheel cannot say what upstream's tree has at a path."""


class WheelTree:
    """A `SourceTree` of the files below a wheel's top-level packages.

    That a file is *not* in the tree is believed for Python files of the wheel's packages only; about everything
    else (`tests/`, `csrc/`, package data that is not there) the wheel says nothing.

    Args:
        file: the wheel, as the index lists it.
        label: the tag.
        generated: patterns of files that the build adds; they are not in the tree.
    """

    def __init__(
        self, *, http: Http, state: State, file: IndexFile, label: str, generated: Iterable[str] = ()
    ) -> None:
        self._http = http
        self._file = file
        self._label = label
        self._generated = tuple(generated)
        self._key = file.sha256 or sha256(shown(file.url).encode()).hexdigest()
        self._folder = state.directory("downloads", "ranges")
        self._blobs = state.directory("downloads", "blobs")
        self._lock = threading.RLock()
        self._zip: RemoteZip | None = None
        self._answers: dict[str, Entry | None] = {}
        self._folders: dict[str, bool] = {}
        self._read_answers()
        self._contents: dict[Oid, bytes] = {}

    @property
    def label(self) -> str:
        """The tag it was asked for by."""
        return self._label

    def entry(self, path: str) -> Entry | None:
        """See `SourceTree.entry`.

        Raises:
            NotInWheelError: the wheel cannot tell.
            NoRangeError: the server sends whole files only.
            IntegrityError: the wheel is broken.
            NetworkError: it was not reached, or `--offline` forbids it.
        """
        self.prefetch((path,))
        return self._answers[path]

    def read(self, path: str) -> bytes | None:
        """See `SourceTree.read`; raises what `entry` raises."""
        entry = self.entry(path)
        return None if entry is None else self._content(entry.oid)

    def has_folder(self, path: str) -> bool:
        """See `SourceTree.has_folder`; raises what `entry` raises."""
        with self._lock:
            if path not in self._folders:
                self._folders[path] = self._ask_folder(path)
                self._keep_answers()
            return self._folders[path]

    def prefetch(self, paths: Iterable[str]) -> None:
        """Fetch what is not known yet of these paths; raises what `entry` raises."""
        with self._lock:
            missing = [path for path in dict.fromkeys(paths) if not self._is_known(path)]
            if not missing:
                return
            try:
                for path in missing:
                    self._answers[path] = self._ask(path)
            finally:
                self._keep_answers()

    def close(self) -> None:
        """Forget the zip's directory; what was answered stays."""
        with self._lock:
            if self._zip is not None:
                self._zip.close()
                self._zip = None

    def _is_known(self, path: str) -> bool:
        if path not in self._answers:
            return False
        entry = self._answers[path]
        return entry is None or entry.oid in self._contents or self._blob_path(entry.oid).is_file()

    def _ask(self, path: str) -> Entry | None:
        if matches(path, self._generated):
            return None
        archive = self._opened()
        try:
            member = archive.getinfo(path)
        except KeyError:
            if self._is_absent(archive, path):
                return None
            raise NotInWheelError(
                f"{self._file.filename} does not say whether {self._label} has {path}"
            ) from None
        import zipfile

        try:
            content = archive.read(member)
        except (zipfile.BadZipFile, zlib.error, EOFError, ValueError, NotImplementedError) as error:
            raise self._broken(f"{path}: {error}") from error
        mode = Mode.EXECUTABLE if (member.external_attr >> 16) & 0o100 else Mode.FILE
        entry = Entry(mode, blob_id(content))
        self._contents[entry.oid] = content
        _write(self._blob_path(entry.oid), content)
        return entry

    def _ask_folder(self, path: str) -> bool:
        archive = self._opened()
        below = (name for name in archive.NameToInfo if name.startswith(f"{path}/"))
        if f"{path.partition('/')[0]}/__init__.py" in archive.NameToInfo:
            if any(not matches(name, self._generated) for name in below):
                return True
            if not _APART.intersection(path.split("/")[1:]):
                return False
        raise NotInWheelError(f"{self._file.filename} does not say whether {self._label} has {path}/")

    def _is_absent(self, archive: RemoteZip, path: str) -> bool:
        """Whether a path that the wheel lacks is surely not in the tree."""
        folder, slash, _name = path.partition("/")
        if not slash or not path.endswith(".py") or _APART.intersection(path.split("/")[1:-1]):
            return False
        return f"{folder}/__init__.py" in archive.NameToInfo

    def _opened(self) -> RemoteZip:
        if self._zip is None:
            import zipfile

            from remotezip import RemoteZip, RemoteZipError

            ranges = _Ranges(self._http, self._file.url, self._folder / f"{self._key}.tail")
            try:
                self._zip = RemoteZip(self._file.url, FIRST_READ, fetcher=lambda *_args, **_options: ranges)
            except (zipfile.BadZipFile, RemoteZipError, ValueError) as error:
                ranges.forget()
                raise self._broken(str(error)) from error
            ranges.keep(self._zip.start_dir)
        return self._zip

    def _broken(self, reason: str) -> IntegrityError:
        return IntegrityError(
            f"{self._file.filename} is not a sound wheel: {reason}", hint="run the command again"
        )

    def _content(self, oid: Oid) -> bytes:
        content = self._contents.get(oid)
        if content is None:
            path = self._blob_path(oid)
            with translated(f"cannot read {path}"):
                content = path.read_bytes()
            if blob_id(content) != oid:
                with contextlib.suppress(OSError):
                    path.unlink()
                raise IntegrityError(f"{path} has changed since it was written", hint="run the command again")
            self._contents[oid] = content
        return content

    def _blob_path(self, oid: Oid) -> Path:
        return self._blobs / oid[:2] / oid[2:]

    def _read_answers(self) -> None:
        # A file that is torn, or was written under other rules: as if it were not there.
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
            kept = json.loads((self._folder / f"{self._key}.json").read_bytes())
            if kept["generated"] == list(self._generated):
                paths = {
                    name: Entry(Mode(found[0]), Oid(found[1])) if found else None
                    for name, found in kept["paths"].items()
                }
                self._answers, self._folders = paths, dict(kept["folders"])

    def _keep_answers(self) -> None:
        paths = {path: [entry.mode, entry.oid] if entry else None for path, entry in self._answers.items()}
        document = {
            "wheel": self._file.filename,
            "generated": self._generated,
            "paths": paths,
            "folders": self._folders,
        }
        _write(self._folder / f"{self._key}.json", json.dumps(document).encode())


class _Ranges:
    """What RemoteZip asks for ranges; the zip's directory is kept in a file.

    The kept file is the wheel from the start of its directory to its end, after eight bytes: where that starts.
    """

    def __init__(self, http: Http, url: str, kept: Path) -> None:
        self._http = http
        self._url = url
        self._kept = kept
        self._pieces: list[tuple[int, bytes]] = []
        self._is_kept = False

    def fetch(self, span: tuple[int, int | None], stream: bool = False) -> object:  # noqa: ARG002
        """A range as RemoteZip wants it; its fetcher protocol passes `stream` by name."""
        from remotezip import PartialBuffer

        first, last = span
        if first < 0:
            with contextlib.suppress(OSError, ValueError):
                content = self._kept.read_bytes()
                start = int.from_bytes(content[:8], "big")
                self._is_kept = True
                return PartialBuffer(io.BytesIO(content[8:]), start, len(content) - 8, stream=False)
        part = self._http.part(self._url, first, last)
        if not self._is_kept and len(self._pieces) < 2:
            self._pieces.append((part.start, part.body))
        return PartialBuffer(io.BytesIO(part.body), part.start, len(part.body), stream=False)

    def keep(self, directory: int) -> None:
        """Keep the directory, which starts at byte `directory` of the wheel."""
        if self._is_kept:
            return
        tail_start, tail = self._pieces[0]
        if directory >= tail_start:
            content = tail[directory - tail_start :]
        else:
            start, body = self._pieces[1]
            content = body[directory - start :] + tail[start + len(body) - tail_start :]
        _write(self._kept, directory.to_bytes(8, "big") + content)
        self._is_kept = True
        self._pieces.clear()

    def forget(self) -> None:
        """Delete the kept directory: it was not one."""
        with contextlib.suppress(OSError):
            self._kept.unlink()


def _write(path: Path, content: bytes) -> None:
    # Whole or not at all, but not forced to the disk: what a crash of the machine tears is noticed and asked again.
    with translated(f"cannot write {path}"):
        path.parent.mkdir(exist_ok=True)
        temporary = path.with_name(f".{secrets.token_hex(8)}.tmp")
        try:
            temporary.write_bytes(content)
            temporary.replace(path)
        except BaseException:
            with contextlib.suppress(OSError):
                temporary.unlink()
            raise
