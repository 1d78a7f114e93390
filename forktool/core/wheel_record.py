"""RECORD: what a wheel says that it holds ("Recording installed projects", PEP 376 and PEP 427)."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from forktool.errors import IntegrityError

UNRECORDED = ("RECORD", "RECORD.jws", "RECORD.p7s")
"""The members of dist-info that carry no hash in RECORD; the last two sign it."""

_SAFE = re.compile(r"(?![a-zA-Z]:)[^/\\\x00-\x1f]+(?:/[^/\\\x00-\x1f]+)*")
_PARENT = re.compile(r"(?:^|/)\.{1,2}(?:/|$)")
ALGORITHMS = frozenset({"sha256", "sha384", "sha512"})
"""The hashes that count; PEP 427 forbids what is weaker than sha256."""


@dataclass(frozen=True, slots=True)
class Row:
    """One line: the path, `ALGORITHM=URLSAFE_BASE64` or nothing, and the size in bytes or nothing."""

    path: str
    digest: str = ""
    size: str = ""


def row_of(path: str, content: bytes) -> Row:
    """The line for a file."""
    return Row(path, digest_field("sha256", hashlib.sha256(content).digest()), str(len(content)))


def matches(row: Row, content: bytes) -> bool:
    """Whether content is what the row says; a row without a usable hash matches nothing."""
    algorithm = row.digest.partition("=")[0]
    if algorithm not in ALGORITHMS or row.size not in {"", str(len(content))}:
        return False
    return digest_field(algorithm, hashlib.new(algorithm, content).digest()) == row.digest


def digest_field(algorithm: str, digest: bytes) -> str:
    """A hash as RECORD spells it: unpadded, URL-safe base64."""
    return f"{algorithm}={base64.urlsafe_b64encode(digest).rstrip(b'=').decode()}"


def parse_record(content: bytes, *, where: str) -> dict[str, Row]:
    """Read RECORD, by path in the file's order.

    Raises:
        IntegrityError: not UTF-8, not CSV, a row that is not of three fields, or a path listed twice.
    """
    rows: dict[str, Row] = {}
    try:
        lines = list(csv.reader(io.StringIO(content.decode("utf-8")), strict=True))
    except (UnicodeDecodeError, csv.Error) as error:
        raise IntegrityError(f"{where}: RECORD cannot be read: {error}") from error
    for number, fields in enumerate(lines, 1):
        if not fields:
            continue
        if len(fields) != 3:
            raise IntegrityError(f"{where}: line {number} of RECORD has {len(fields)} fields, not 3")
        row = Row(*fields)
        if row.path in rows:
            raise IntegrityError(f"{where}: RECORD lists {row.path} twice")
        rows[row.path] = row
    return rows


def format_record(rows: Iterable[Row]) -> bytes:
    """Write RECORD, in the order given."""
    stream = io.StringIO()
    csv.writer(stream, lineterminator="\n").writerows((row.path, row.digest, row.size) for row in rows)
    return stream.getvalue().encode("utf-8")


def fold(path: str) -> str:
    """The path as a file system compares it that ignores case and composes characters (macOS, Windows)."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", path).casefold())


def find_clashes(paths: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """Pairs of member names that cannot be installed beside each other.

    Two names that are equal after `fold`, and a file whose name is also the folder of another.
    """
    clashes: list[tuple[str, str]] = []
    seen: dict[str, str] = {}
    folders: dict[str, str] = {}
    for path in paths:
        folded = fold(path.rstrip("/"))
        if folded in seen:
            clashes.append((seen[folded], path))
            continue
        seen[folded] = path
        parent = folded.rpartition("/")[0]
        while parent and parent not in folders:
            folders[parent] = path
            parent = parent.rpartition("/")[0]
    clashes += [
        (path, folders[folded]) for folded, path in seen.items() if folded in folders and path[-1:] != "/"
    ]
    return tuple(clashes)


def is_safe_member(path: str) -> bool:
    """Whether an installer may unpack the name: relative, no `..`, no backslash, no control character."""
    return _SAFE.fullmatch(path.removesuffix("/")) is not None and not _PARENT.search(path)


def record_problems(members: Iterable[str], rows: Mapping[str, Row], dist_info: str) -> tuple[str, ...]:
    """What makes an archive's names no correct wheel, one line each.

    Every file is in RECORD with a sha256 or better, and nothing else; names are safe and do not clash.
    Folders have no row, and neither RECORD nor its signatures need a hash.
    """
    names = list(members)
    unrecorded = {f"{dist_info}/{name}" for name in UNRECORDED}
    files = [name for name in names if not name.endswith("/")]
    held = set(files)
    problems = [f"{name!r} is not a name that can be installed" for name in names if not is_safe_member(name)]
    problems += [f"{one} and {other} clash when they are installed" for one, other in find_clashes(names)]
    for name in files:
        row = rows.get(name)
        if name in unrecorded:
            continue
        if row is None:
            problems.append(f"{name} is missing from RECORD")
        elif row.digest.partition("=")[0] not in ALGORITHMS:
            problems.append(f"RECORD gives no usable hash for {name}")
    problems += [f"RECORD lists {name}, which is not there" for name in rows if name not in held]
    return tuple(problems)
