"""The files inside a wheel that name its version and tags, rewritten without touching anything else.

Formats: core metadata ("Core metadata specifications"), WHEEL (PEP 427), entry_points.txt ("Entry points
specification"), all at packaging.python.org.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Collection

from packaging.version import InvalidVersion, Version

from forktool.core.wheel_names import WheelName, version_tuple
from forktool.errors import IntegrityError, PatchsetError

_VERSION_FILES = frozenset({"_version.py", "__version__.py", "version.py", "__about__.py", "__init__.py"})
_VERSION_NAMES = frozenset({"__version__", "version", "VERSION"})
_TUPLE_NAMES = frozenset({"__version_tuple__", "version_tuple", "VERSION_TUPLE"})
_LINE = re.compile(rb"[^\r\n]*(?:\r\n|\r|\n|\Z)")


def headers(content: bytes) -> tuple[tuple[str, str], ...]:
    """The headers of METADATA or WHEEL, in order; a folded value keeps its line breaks."""
    head, _ = _split(content)
    return tuple(_header(line) for line in head)


def header(content: bytes, name: str) -> str | None:
    """The first value of a header, or None."""
    return next((value for key, value in headers(content) if key.lower() == name.lower()), None)


def set_version(metadata: bytes, version: Version, *, where: str) -> bytes:
    """METADATA with another version.

    Raises:
        IntegrityError: it has no `Version:` header, or several.
    """
    head, body = _split(metadata)
    places = [at for at, line in enumerate(head) if _header(line)[0].lower() == "version"]
    if len(places) != 1:
        raise IntegrityError(f"{where}: METADATA has {len(places)} Version headers, not one")
    line = head[places[0]]
    end = line[len(line.rstrip(b"\r\n")) :]
    head[places[0]] = b"Version: " + str(version).encode() + end
    return b"".join(head) + body


def repair_tags(wheel: bytes, name: WheelName) -> bytes:
    """WHEEL with the `Tag:` and `Build:` of the file name; unchanged where they agree already.

    Upstream renames its wheels to manylinux after building them and leaves `linux_x86_64` inside, which
    installers will refuse (https://github.com/astral-sh/uv/pull/20400).
    """
    head, body = _split(wheel)
    found = [_header(line) for line in head]
    tags = sorted(value for key, value in found if key.lower() == "tag")
    builds = [value for key, value in found if key.lower() == "build"]
    if tags == list(name.tag_lines) and builds == ([name.build] if name.build else []):
        return wheel
    kept = [line for line in head if _header(line)[0].lower() not in {"tag", "build"}]
    added = [f"Tag: {tag}\n".encode() for tag in name.tag_lines]
    if name.build:
        added.append(f"Build: {name.build}\n".encode())
    if kept and not kept[-1].endswith((b"\n", b"\r")):
        kept[-1] += b"\n"
    return b"".join([*kept, *added]) + body


def is_version_file(path: str) -> bool:
    """Whether a member may state the package's version: PACKAGE/_version.py and the like, one folder deep."""
    folder, _, name = path.partition("/")
    return name in _VERSION_FILES and not folder.endswith((".dist-info", ".data"))


def set_python_version(source: bytes, old: Collection[Version], new: Version) -> bytes | None:
    """A Python file with the version that it assigns replaced, or None where it assigns none.

    Rule: a module-level assignment to `__version__`, `version` or `VERSION` of a text equal to one of
    the old versions, and to `__version_tuple__` or `version_tuple` of such a version's tuple. Everything else
    keeps its bytes.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return None
    edits: list[tuple[int, int, bytes]] = []
    starts = _line_starts(source)
    for node in tree.body:
        if isinstance(node, ast.Assign):
            targets = node.targets
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            targets = [node.target]
        else:
            continue
        names = {target.id for target in targets if isinstance(target, ast.Name)}
        value = node.value
        replacement = _replacement(names, value, old, new) if value is not None else None
        if value is None or replacement is None or value.end_lineno is None or value.end_col_offset is None:
            continue
        begin = starts[value.lineno - 1] + value.col_offset
        edits.append((begin, starts[value.end_lineno - 1] + value.end_col_offset, replacement))
    if not edits:
        return None
    for begin, end, replacement in sorted(edits, reverse=True):
        source = source[:begin] + replacement + source[end:]
    return source


def merge_metadata(published: bytes, *, bare: bytes, patched: bytes, where: str) -> bytes:
    """The published METADATA with the difference that the patches make, and no other.

    Args:
        published: from the wheel.
        bare: what the build backend says of the bare tree.
        patched: what it says of the patched tree.
        where: what messages call the wheel.

    Raises:
        PatchsetError: a header that the patches remove is not in the published METADATA, or both descriptions
            differ from the bare one.
    """
    if published == bare:
        return patched
    head, body = _split(published)
    bare_head, bare_body = _split(bare)
    patched_head, patched_body = _split(patched)
    before = Counter(_header(line) for line in bare_head)
    after = Counter(_header(line) for line in patched_head)
    removed = before - after
    for gone in list(removed):
        if gone[0].lower() == "version":
            del removed[gone]
    added = [item for item in (_header(line) for line in patched_head) if after[item] > before[item]]
    result: list[tuple[str, str]] = []
    for item in (_header(line) for line in head):
        if removed[item] > 0:
            removed[item] -= 1
            result += _take_same_name(added, item[0])
        else:
            result.append(item)
    missing = [f"{name}: {value}" for (name, value), count in removed.items() if count > 0]
    if missing:
        raise PatchsetError(
            f"the patches change {missing[0]!r}, which the METADATA of {where} does not have",
            hint="build from source: forktool wheel --print",
        )
    for name, value in added:
        if name.lower() == "version":
            continue
        places = [at for at, known in enumerate(result) if known[0] == name]
        result.insert(places[-1] + 1 if places else len(result), (name, value))
    if patched_body != bare_body:
        if body != bare_body:
            raise PatchsetError(
                f"the patches change the description, and that of {where} is another one already",
                hint="build from source: forktool wheel --print",
            )
        body = patched_body
    return b"".join(f"{name}: {value}\n".encode() for name, value in result) + body


def merge_entry_points(published: bytes, *, bare: bytes, patched: bytes, where: str) -> bytes:
    """entry_points.txt with the difference that the patches make, and no other.

    Raises:
        PatchsetError: a patched entry is not in the published file as it is in the bare one.
    """
    if published == bare:
        return patched
    old, new = _entries(bare), _entries(patched)
    result = dict(_entries(published))
    for key in [*old, *(key for key in new if key not in old)]:
        if old.get(key) == new.get(key):
            continue
        if result.get(key) != old.get(key):
            raise PatchsetError(
                f"the patches change the entry point {key[1]} in [{key[0]}]; {where} has another",
                hint="build from source: forktool wheel --print",
            )
        if key in new:
            result[key] = new[key]
        else:
            del result[key]
    groups: dict[str, list[str]] = {}
    for (group, name), value in result.items():
        groups.setdefault(group, []).append(f"{name} = {value}\n")
    return "\n".join(f"[{group}]\n{''.join(lines)}" for group, lines in groups.items()).encode()


def _replacement(names: set[str], value: ast.expr, old: Collection[Version], new: Version) -> bytes | None:
    try:
        constant = ast.literal_eval(value)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return None
    if names & _VERSION_NAMES and isinstance(constant, str):
        try:
            same = Version(constant) in old
        except InvalidVersion:
            return None
        return repr(str(new)).encode() if same else None
    if names & _TUPLE_NAMES and constant in [version_tuple(version) for version in old]:
        return repr(version_tuple(new)).encode()
    return None


def _line_starts(source: bytes) -> list[int]:
    return [0, *(match.end() for match in re.finditer(rb"\r\n|\r|\n", source))]


def _split(content: bytes) -> tuple[list[bytes], bytes]:
    """The header lines, folded ones joined, and the rest with the blank line before it."""
    head: list[bytes] = []
    at = 0
    while at < len(content):
        match = _LINE.match(content, at)
        line = match.group() if match is not None else content[at:]
        if not line.strip(b"\r\n"):
            break
        if line[:1] in b" \t" and head:
            head[-1] += line
        else:
            head.append(line)
        at += len(line)
    return head, content[at:]


def _header(line: bytes) -> tuple[str, str]:
    name, _, value = line.decode("utf-8", "surrogateescape").partition(":")
    return name.strip(), value.strip(" \t\r\n")


def _take_same_name(added: list[tuple[str, str]], name: str) -> list[tuple[str, str]]:
    for item in added:
        if item[0] == name:
            added.remove(item)
            return [item]
    return []


def _entries(content: bytes) -> dict[tuple[str, str], str]:
    entries: dict[tuple[str, str], str] = {}
    group = ""
    for raw in content.decode("utf-8").splitlines():
        line = raw.strip()
        if line.startswith("[") and line.endswith("]"):
            group = line[1:-1].strip()
        elif line and line[0] not in "#;":
            name, _, value = line.partition("=")
            entries[group, name.strip()] = value.strip()
    return entries
