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
    for diff in patch.files:
        _apply_file(diff, tree, patch=patch, file=file)
    changes = (Change(path=path, before=entry, after=tree.entry(path)) for path, entry in before.items())
    return tuple(change for change in changes if change.before != change.after)


def _apply_file(diff: FileDiff, tree: Overlay, *, patch: Patch, file: str) -> None:
    where = f"{file}:{diff.line}"
    old_entry = _old_entry(diff, tree, where=where)
    if diff.new_path is None:
        if diff.old_path is not None:
            tree.set(diff.old_path, None)
        return
    if diff.new_path != diff.old_path and tree.entry(diff.new_path) is not None:
        raise PatchsetError(f"{where}: {diff.new_path} is already in {tree.label}")
    mode = diff.new_mode or (old_entry.mode if old_entry else None) or Mode.FILE
    if mode is Mode.GITLINK:
        tree.set(diff.new_path, Entry(mode, _submodule(diff, where)))
    elif old_entry is not None and not diff.hunks and diff.binary is None:
        content = tree.read(diff.old_path) if diff.old_path else None
        tree.set(diff.new_path, Entry(mode, old_entry.oid), content)
    else:
        content = _new_content(diff, tree, patch=patch, file=file)
        oid = blob_id(content)
        if diff.new_oid is not None and is_oid(diff.new_oid) and diff.new_oid != oid:
            raise PatchsetError(
                f"{where}: the result for {diff.new_path} is blob {oid[:12]}, the patch says {diff.new_oid[:12]}",
                hint=f"the patch was edited by hand; make it exact with: forktool import {file}",
            )
        tree.set(diff.new_path, Entry(mode, oid), content)
    if diff.old_path is not None and diff.old_path != diff.new_path and not diff.is_copy:
        tree.set(diff.old_path, None)


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
    return entry


def _submodule(diff: FileDiff, where: str) -> Oid:
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
