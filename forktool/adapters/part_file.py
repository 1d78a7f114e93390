"""A download in progress: the bytes so far, and what they are the beginning of."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from forktool.adapters.state import translated, write_atomically


class PartFile:
    """`target.part` and the validator (RFC 9110, 13.1.5) of the file that it is a beginning of."""

    def __init__(self, target: Path) -> None:
        self._target = target
        self._path = target.with_name(target.name + ".part")
        self._note = target.with_name(target.name + ".part.json")

    def length(self) -> int:
        """Bytes so far."""
        try:
            return self._path.stat().st_size
        except OSError:
            return 0

    def start(self, *, resume: bool) -> tuple[int, str | None]:
        """Where to go on, and the `If-Range` validator: without one, only a hash makes going on safe."""
        validator = None
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            validator = json.loads(self._note.read_text(encoding="utf-8"))["etag"]
        if validator is None and not resume:
            self.discard()
        return self.length(), validator

    def remember(self, etag: str | None) -> None:
        """Note which file this is a beginning of."""
        # A weak validator must not stand in If-Range (RFC 9110, 13.1.5).
        strong = etag if etag is not None and not etag.startswith("W/") else None
        if strong is None:
            with translated(f"cannot write {self._note}"):
                self._note.unlink(missing_ok=True)
        else:
            write_atomically(self._note, json.dumps({"etag": strong}).encode())

    @contextmanager
    def appending(self) -> Iterator[Callable[[bytes], object]]:
        """Yield the function that writes on; it raises `DiskError`."""
        with translated(f"cannot write {self._path}"):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            stream = self._path.open("ab", buffering=0)

        def write(chunk: bytes) -> None:
            with translated(f"cannot write {self._path}"):
                view = memoryview(chunk)
                while view:
                    view = view[stream.write(view) :]

        with stream:
            yield write

    def wrong(self, sha256: str | None, size: int | None) -> str | None:
        """What is wrong with the whole file, or None."""
        if size is not None and self.length() != size:
            return f"got {self.length()} bytes, the index says {size}"
        if sha256 is None:
            return None
        with translated(f"cannot read {self._path}"), self._path.open("rb") as stream:
            found = hashlib.file_digest(stream, "sha256").hexdigest()
        return None if found == sha256 else f"its sha256 is {found}, the index says {sha256}"

    def finish(self, *, durable: bool) -> None:
        """Give the file its name; `durable` waits until the disk has it."""
        with translated(f"cannot write {self._target}"):
            if durable:
                with self._path.open("rb") as stream:
                    os.fsync(stream.fileno())
            # The note first: once the file has its name nobody looks for one again. After a kill in between the
            # next run goes on from the bytes alone.
            self._note.unlink(missing_ok=True)
            self._path.replace(self._target)

    def discard(self) -> None:
        """Delete what there is."""
        for path in (self._path, self._note):
            with contextlib.suppress(OSError):
                path.unlink()
