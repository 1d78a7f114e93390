"""Flush and hash a file while it is still being written, so that neither costs time of its own."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Event
from types import TracebackType
from typing import Self

_CHUNK = 1 << 20
_FLUSH = 48 << 20
_PAUSE = 0.002
_sync = getattr(os, "fdatasync", os.fsync)  # macOS has no fdatasync


class WriteBehind:
    """Follows a writer that only ever appends; a context around the writing.

    Leave the context when everything is written: that waits for the hash and the disk. After an exception inside
    it, nothing is waited for but the threads' end.

    Args:
        descriptor: of the file, readable.
        written: tells how many bytes are in it by now.
        fsync: flush it to the disk.
        digest: hash it.

    Raises:
        OSError: on leaving, where the disk refuses what was written.
    """

    def __init__(self, descriptor: int, written: Callable[[], int], *, fsync: bool, digest: bool) -> None:
        self._descriptor = descriptor
        self._written = written
        self._complete = Event()
        self._given_up = Event()
        self._pool = ThreadPoolExecutor(max_workers=2)
        self._flushed: Future[None] | None = self._pool.submit(self._flush) if fsync else None
        self._hashed: Future[str] | None = self._pool.submit(self._hash) if digest else None
        self.sha256: str | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._given_up.set()
        self._complete.set()
        self._pool.shutdown(wait=True)
        if kind is None:
            if self._hashed is not None:
                self.sha256 = self._hashed.result()
            if self._flushed is not None:
                self._flushed.result()

    def _flush(self) -> None:
        flushed = 0
        while not self._complete.wait(_PAUSE):
            if self._written() - flushed >= _FLUSH:
                flushed = self._written()
                _sync(self._descriptor)
        if not self._given_up.is_set():
            os.fsync(self._descriptor)

    def _hash(self) -> str:
        digest = hashlib.sha256()
        buffer = bytearray(_CHUNK)
        view = memoryview(buffer)
        at = 0
        while not self._given_up.is_set():
            complete = self._complete.is_set()
            end = self._written()
            while at < end and not self._given_up.is_set():
                count = os.preadv(self._descriptor, [view[: min(_CHUNK, end - at)]], at)
                digest.update(view[:count])
                at += count
            if complete:
                break
            self._complete.wait(_PAUSE)
        return digest.hexdigest()
