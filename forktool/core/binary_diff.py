"""`GIT binary patch` blocks: base 85, zlib, and git's deltas (git-diff(1), --binary; gitformat-pack(5))."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class BinaryChange:
    """A `GIT binary patch` block: the whole new content, or a git delta against the old one."""

    is_delta: bool
    size: int
    payload: bytes

    def apply(self, before: bytes) -> bytes:
        """The new content.

        Raises:
            ValueError: the payload does not fit `before`.
        """
        result = _apply_delta(before, self.payload) if self.is_delta else self.payload
        if len(result) != self.size and not self.is_delta:
            raise ValueError(f"{len(result)} bytes instead of {self.size}")
        return result


class DamagedBinaryError(ValueError):
    """A block that cannot be read; `at` is the index of the line."""

    def __init__(self, message: str, at: int) -> None:
        super().__init__(message)
        self.at = at


def read_binary(lines: Sequence[bytes], at: int) -> tuple[BinaryChange, int]:
    """The change whose `GIT binary patch` line is `lines[at]`, and the index of the first line after it.

    git writes a second block that leads back to the old content; it is checked and left.

    Raises:
        DamagedBinaryError: a block is malformed.
    """
    change, at = _block(lines, at + 1)
    if at < len(lines) and lines[at].startswith((b"literal ", b"delta ")):
        _back, at = _block(lines, at)
    return change, at


def _block(lines: Sequence[bytes], at: int) -> tuple[BinaryChange, int]:
    start = at
    kind, _, size = (lines[at] if at < len(lines) else b"").strip().partition(b" ")
    if kind not in (b"literal", b"delta") or not size.isdigit():
        raise DamagedBinaryError("expected `literal SIZE` or `delta SIZE`", at)
    at += 1
    packed = bytearray()
    while at < len(lines) and lines[at].strip():
        line = lines[at].rstrip(b"\r\n")
        length = line[0] - 64 if line[0] <= 90 else line[0] - 70  # A-Z: 1..26, a-z: 27..52
        try:
            packed += base64.b85decode(line[1:])[:length]
        except ValueError:
            raise DamagedBinaryError("damaged binary patch: not base 85", at) from None
        at += 1
    try:
        payload = zlib.decompress(packed)
    except zlib.error:
        raise DamagedBinaryError("damaged binary patch: zlib refuses it", start) from None
    if len(payload) != int(size):
        raise DamagedBinaryError(f"damaged binary patch: {len(payload)} bytes, not {int(size)}", start)
    return BinaryChange(is_delta=kind == b"delta", size=int(size), payload=payload), at + 1


def _apply_delta(base: bytes, delta: bytes) -> bytes:
    """Apply a git delta; see gitformat-pack(5), "Deltified representation".

    Raises:
        ValueError: it is for another base, or damaged.
    """
    at = 0

    def number() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = delta[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if not byte & 0x80:
                return value

    try:
        source_size, result_size = number(), number()
        if source_size != len(base):
            raise ValueError("the delta is for another old file")
        result = bytearray()
        while at < len(delta):
            operation = delta[at]
            at += 1
            if not operation & 0x80:
                result += delta[at : at + operation]
                at += operation
                continue
            offset = size = 0
            for bit in range(4):
                if operation & (1 << bit):
                    offset |= delta[at] << (8 * bit)
                    at += 1
            for bit in range(3):
                if operation & (0x10 << bit):
                    size |= delta[at] << (8 * bit)
                    at += 1
            result += base[offset : offset + (size or 0x10000)]
    except IndexError:
        raise ValueError("the delta is damaged") from None
    if len(result) != result_size:
        raise ValueError("the delta is damaged")
    return bytes(result)
