"""A patch on its recorded base: applied exactly, in memory, checked against the ids it names."""

from __future__ import annotations

import re
from dataclasses import dataclass

from forktool.core.diff import FileDiff, HunkMismatchError, apply_hunks
from forktool.core.objects import NULL_OID, Entry, Mode, Oid, blob_id, is_oid
from forktool.core.series import Patch
from forktool.core.tree import Overlay
from forktool.errors import PatchsetError

_SUBMODULE = re.compile(rb"Subproject commit ([0-9a-f]{40})(-dirty)?\n?")


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """What a patch did to one path: the entry before and after, None where there is no file."""

    path: str
    before: Entry | None
    after: Entry | None


def apply_patch(patch: Patch, tree: Overlay, *, file: str) -> tuple[Change, ...]:
    """Apply a patch to `tree` and say what it changed; net changes only, one for a path.

    Args:
        patch: the patch.
        tree: its base with the patches before it; changed in place.
        file: the patch's path, for errors.

    Raises:
        PatchsetError: it does not apply exactly; names file, line and what stands there instead.
    """
    before = {path: tree.entry(path) for path in patch.paths}
    # Every old side is read before anything is written: a copy's or a rename's source is the file as it was.
    results = [(diff, _result(diff, tree, patch=patch, file=file)) for diff in patch.files]
    for diff, _result_of in results:
        if diff.old_path is not None and diff.new_path != diff.old_path and not diff.is_copy:
            tree.set(diff.old_path, None)
    written: set[str] = set()
    for diff, result in results:
        if diff.new_path is not None and result is not None:
            _make_way(diff, tree, written, where=f"{file}:{diff.line}")
            tree.set(diff.new_path, *result)
    changes = (Change(path=path, before=entry, after=tree.entry(path)) for path, entry in before.items())
    return tuple(change for change in changes if change.before != change.after)


def _make_way(diff: FileDiff, tree: Overlay, written: set[str], *, where: str) -> None:
    path = diff.new_path or ""
    if path in written:
        raise PatchsetError(f"{where}: {path} is changed a second time")
    written.add(path)
    if path == diff.old_path:
        return
    reason = obstacle(path, tree)
    if reason is not None:
        raise PatchsetError(f"{where}: {reason}")


def obstacle(path: str, tree: Overlay) -> str | None:
    """Why a new file cannot be at `path`, or None: a file or a folder is there, or a file is where a folder must be."""
    if tree.entry(path) is not None:
        return f"{path} is already in {tree.label}"
    folders = path.split("/")[:-1]
    for depth in range(1, len(folders) + 1):
        folder = "/".join(folders[:depth])
        if tree.entry(folder) is not None:
            return f"{folder} is a file in {tree.label}, so {path} cannot be"
    emptied = any(gone.startswith(f"{path}/") and entry is None for gone, entry in tree.changes.items())
    if not emptied and tree.has_folder(path):
        return f"{path} is a folder in {tree.label}"
    return None


def _result(diff: FileDiff, tree: Overlay, *, patch: Patch, file: str) -> tuple[Entry, bytes | None] | None:
    """The new entry and its content; None where the path goes."""
    where = f"{file}:{diff.line}"
    old_entry = _old_entry(diff, tree, where=where)
    if diff.new_path is None:
        if diff.hunks and diff.old_oid is None and _new_content(diff, tree, patch=patch, file=file):
            raise PatchsetError(f"{where}: {diff.old_path} holds more than the patch removes")
        return None
    mode = diff.new_mode or (old_entry.mode if old_entry else None) or Mode.FILE
    if mode is Mode.GITLINK:
        return Entry(mode, _submodule(diff, old_entry, where)), None
    if old_entry is not None and not diff.hunks and diff.binary is None:
        return Entry(mode, old_entry.oid), tree.read(diff.old_path) if diff.old_path else None
    content = _new_content(diff, tree, patch=patch, file=file)
    oid = blob_id(content)
    if diff.new_oid is not None and is_oid(diff.new_oid) and diff.new_oid != oid:
        raise PatchsetError(
            f"{where}: the result for {diff.new_path} is blob {oid[:12]}, the patch says {diff.new_oid[:12]}",
            hint=f"the patch was edited by hand; make it exact with: forktool import {file}",
        )
    return Entry(mode, oid), content


def _old_entry(diff: FileDiff, tree: Overlay, *, where: str) -> Entry | None:
    if diff.old_path is None:
        return None
    entry = tree.entry(diff.old_path)
    if entry is None:
        raise PatchsetError(f"{where}: {diff.old_path} is not in {tree.label}")
    named = diff.old_oid
    if named is not None and is_oid(named) and named not in (entry.oid, NULL_OID):
        raise PatchsetError(
            f"{where}: {diff.old_path} is blob {entry.oid[:12]} in {tree.label}, the patch was made on {named[:12]}",
            hint="the patches before it changed, or the base did: see `forktool check`",
        )
    if diff.old_mode is not None and diff.old_mode is not entry.mode:
        raise PatchsetError(
            f"{where}: {diff.old_path} has mode {entry.mode} in {tree.label}, the patch was made on {diff.old_mode}"
        )
    return entry


def _submodule(diff: FileDiff, old_entry: Entry | None, where: str) -> Oid:
    if old_entry is not None and not diff.hunks:
        return old_entry.oid  # only renamed
    for hunk in diff.hunks:
        for line in hunk.new_lines:
            match = _SUBMODULE.fullmatch(line)
            if match:
                return Oid(match[1].decode())
    raise PatchsetError(f"{where}: the submodule {diff.new_path} names no commit")


def _new_content(diff: FileDiff, tree: Overlay, *, patch: Patch, file: str) -> bytes:
    old = tree.read(diff.old_path) if diff.old_path is not None else b""
    if old is None:
        raise PatchsetError(f"{file}:{diff.line}: {diff.old_path} cannot be read in {tree.label}")
    if diff.binary is not None:
        try:
            return diff.binary.apply(old)
        except ValueError as error:
            raise PatchsetError(f"{file}:{diff.line}: binary patch for {diff.new_path}: {error}") from error
    try:
        return apply_hunks(diff.hunks, old)
    except HunkMismatchError as error:
        found = "the end of the file" if error.found is None else repr(_text(error.found))
        raise PatchsetError(
            f"{file}:{diff.line}: does not apply to {diff.old_path} line {error.line} of {tree.label}: "
            f"expected {_text(error.expected)!r}, found {found}",
            hint=f"{patch.name} must apply exactly to its base; take it in again with: forktool import {file}",
        ) from error


def _text(line: bytes) -> str:
    return line.decode("utf-8", "replace").rstrip("\n")
