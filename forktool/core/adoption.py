"""An offered diff on a tree: every path found, every hunk placed by its content, or refused."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from forktool.core.apply import Change, obstacle
from forktool.core.diff import apply_hunks
from forktool.core.locate import NotLocatedError, locate, may_be_there
from forktool.core.loose_diff import LooseFile, LooseHunk, RefusedError
from forktool.core.loose_names import Paths, parts_of
from forktool.core.objects import Entry, Mode, Oid, blob_id
from forktool.core.tree import Overlay

_SUBMODULE = re.compile(rb"Subproject commit ([0-9a-f]{40})(?:-dirty)?\n?")
_ID = re.compile(r"[0-9a-f]{7,40}")
ANOTHER_BASE = "import it from git with `forktool import REPO A..B`, or edit it to fit"


@dataclass(frozen=True, kw_only=True, slots=True)
class Adopted:
    """What a patch did to a tree, one change a path, and what had to be corrected to read it."""

    changes: tuple[Change, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Result:
    file: LooseFile
    old_path: str | None
    new_path: str | None
    entry: Entry | None
    content: bytes | None


def adopt_files(
    files: Iterable[LooseFile], tree: Overlay, *, source: str, folders: tuple[str, ...]
) -> Adopted:
    """Do to `tree` what the diffs say.

    Args:
        files: the diffs of one patch, in their order.
        tree: changed in place; of no use after a refusal.
        source: what errors call the patch.
        folders: the tree's top folders.

    Raises:
        RefusedError: a path is not there, a hunk fits nowhere or at several places, a binary file's old content
            is another; names the patch's line.
    """
    adoption = _Adoption(tree, source, folders)
    before: dict[str, Entry | None] = {}
    for group in _rounds(files):
        for file in group:
            if file.old_name is not None:
                adoption.existing(
                    file
                )  # what these names lose on the way to the tree, a new file's loses too
        results = [adoption.result(file) for file in group]
        for result in results:
            for path in (result.old_path, result.new_path):
                if path is not None:
                    before.setdefault(path, tree.entry(path))
        adoption.write(results)
    changes = (Change(path=path, before=entry, after=tree.entry(path)) for path, entry in before.items())
    return Adopted(
        changes=tuple(change for change in changes if change.before != change.after),
        notes=tuple(dict.fromkeys(adoption.notes)),
    )


def is_contained(files: Iterable[LooseFile], tree: Overlay, *, folders: tuple[str, ...]) -> bool:
    """Whether a tree already holds all that the diffs make: what they add is there, what they remove is not."""
    adoption = _Adoption(tree, "", folders)
    offered = list(files)
    # A change of type is written as a deletion and a creation: only the latter leaves something to see.
    made = {parts_of(file.new_name)[file.is_prefixed :] for file in offered if file.new_name is not None}
    gone = [file for file in offered if file.new_name is None]
    made_again = [file for file in gone if parts_of(file.old_name or "")[file.is_prefixed :] in made]
    found = [adoption.is_there(file) for file in offered if file not in made_again]
    return bool(found) and all(found)


def _rounds(files: Iterable[LooseFile]) -> Iterable[list[LooseFile]]:
    """Diffs that are read against the same state. Joined diffs may change a file twice: one after the other."""
    group: list[LooseFile] = []
    seen: set[str] = set()
    for file in files:
        name = file.new_name or file.old_name or ""
        # A change of type is a deletion and a creation of one path, in one step.
        is_type_change = bool(group) and group[-1].new_name is None and file.old_name is None
        if name in seen and not is_type_change:
            yield group
            group, seen = [], set()
        group.append(file)
        seen.add(name)
    if group:
        yield group


class _Adoption:
    def __init__(self, tree: Overlay, source: str, folders: tuple[str, ...]) -> None:
        self.tree = tree
        self.source = source
        self.paths = Paths(tree=tree, folders=folders)
        self.notes: list[str] = []

    def refused(self, line: int, reason: str, *, hint: str | None = None) -> RefusedError:
        return RefusedError(self.source, line, reason, hint=hint)

    def result(self, file: LooseFile) -> _Result:
        old_path, new_path = self.sides(file)
        old = self.tree.entry(old_path) if old_path is not None else None
        content = self.old_content(file, old_path, old)
        is_proven = old is not None and self.is_named(file, old)
        if new_path is None:
            self.check_deleted(file, old_path or "", content, is_proven=is_proven)
            return _Result(file=file, old_path=old_path, new_path=None, entry=None, content=None)
        mode = file.new_mode or (old.mode if old else None) or file.kind or Mode.FILE
        after = self.new_content(file, old_path, new_path, content, is_proven=is_proven)
        if mode is Mode.GITLINK:
            match = _SUBMODULE.fullmatch(after)
            if match is None:
                raise self.refused(file.line, f"the submodule {new_path} names no commit")
            return _Result(
                file=file,
                old_path=old_path,
                new_path=new_path,
                entry=Entry(mode, Oid(match[1].decode())),
                content=None,
            )
        entry = Entry(mode, blob_id(after))
        return _Result(file=file, old_path=old_path, new_path=new_path, entry=entry, content=after)

    def sides(self, file: LooseFile) -> tuple[str | None, str | None]:
        """The paths of both sides in the tree."""
        old_path = None
        if file.old_name is not None:
            old_path = self.existing(file)
            if old_path is None and not file.may_create:
                name = file.old_name or file.new_name or ""
                raise self.refused(
                    file.line, f"{'/'.join(parts_of(name))} is not in {self.tree.label}", hint=ANOTHER_BASE
                )
        if file.new_name is None:
            return old_path, None
        if old_path is not None and not (file.is_rename or file.is_copy):
            return old_path, old_path
        new_path = self.new(file)
        return old_path, new_path

    def existing(self, file: LooseFile) -> str | None:
        names = [file.old_name] if file.is_rename or file.is_copy else [file.new_name, file.old_name]
        found = [
            path
            for name in names
            if name is not None
            for path in [self.paths.existing(name, is_prefixed=file.is_prefixed)]
            if path is not None
        ]
        # `x.py.orig` or `vllm.orig/x.py` on one side: the side that says more of the path is right.
        return max(found, key=lambda path: path.count("/"), default=None)

    def new(self, file: LooseFile) -> str:
        name = file.new_name or ""
        path = self.paths.new(name, is_prefixed=file.is_prefixed, is_git=file.is_git)
        if path is None:
            raise self.refused(
                file.line,
                f"where the new file {name} belongs in {self.tree.label} is not certain",
                hint="write its path as a/PATH below the root of the source tree",
            )
        return path

    def is_named(self, file: LooseFile, entry: Entry) -> bool:
        """Whether the `index` line names this very content; a note where it names another."""
        named = file.old_id
        if named is None:
            return False
        if _ID.fullmatch(named) and named.strip("0") and entry.oid.startswith(named):
            return True
        if file.hunks and named.strip("0"):
            self.notes.append(
                f"line {file.line}: the index line names {named[:12]}, {self.tree.label} has {entry.oid[:12]}: "
                "placed by content"
            )
        return False

    def old_content(self, file: LooseFile, path: str | None, entry: Entry | None) -> bytes:
        if path is None or entry is None:
            return b""
        was = file.old_mode or file.kind
        if was is not None and _kind(was) != _kind(entry.mode):
            raise self.refused(
                file.line,
                f"{path} is {_kind(entry.mode)} in {self.tree.label}, the patch changes {_kind(was)}",
            )
        if entry.mode is Mode.GITLINK:
            return b"Subproject commit %s\n" % entry.oid.encode()
        return self.tree.read(path) or b""

    def new_content(
        self, file: LooseFile, old_path: str | None, new_path: str, content: bytes, *, is_proven: bool
    ) -> bytes:
        if file.binary is not None:
            if old_path is not None and not is_proven:
                raise self.refused(
                    file.line,
                    f"the binary patch was made on another {old_path} than that of {self.tree.label}",
                    hint=ANOTHER_BASE,
                )
            try:
                return file.binary.apply(content)
            except ValueError as error:
                raise self.refused(file.line, f"binary patch for {new_path}: {error}") from error
        if old_path is None:
            return self.created(file)
        return self.hunks(file, old_path, content, is_proven=is_proven)

    def created(self, file: LooseFile) -> bytes:
        if len(file.hunks) > 1:
            raise self.refused(file.hunks[1].line, "a new file with a second hunk")
        lines = list(file.hunks[0].lines) if file.hunks else []
        wrong = next((at for at, line in enumerate(lines) if line[:1] != b"+"), None)
        if wrong is not None:
            # An editor may have left an empty line after the last one.
            if wrong < len(lines) - file.hunks[0].loose_tail:
                raise self.refused(file.hunks[0].numbers[wrong], "a new file cannot have old lines")
            lines = lines[:wrong]
        text = [line[1:] for line in lines]
        if file.has_crlf and text and all(line.endswith(b"\r\n") for line in text if line.endswith(b"\n")):
            self.notes.append(f"line {file.line}: the patch has CRLF throughout; the new file gets LF")
            text = [line.removesuffix(b"\r\n") + b"\n" if line.endswith(b"\n") else line for line in text]
        return b"".join(text)

    def hunks(self, file: LooseFile, path: str, content: bytes, *, is_proven: bool) -> bytes:
        located = []
        for hunk in file.hunks:
            try:
                place = locate(hunk, content, path=path, is_proven=is_proven)
            except NotLocatedError as error:
                raise self.not_located(hunk, path, content, error) from error
            located.append((place.hunk, hunk.line))
            if place.note:
                self.notes.append(place.note)
        located.sort(key=lambda pair: pair[0].old_start)
        end = 0
        for hunk_there, line in located:
            count = len(hunk_there.old_lines)
            if hunk_there.old_start - (count > 0) < end:
                raise self.refused(line, f"two hunks change the same lines of {path}")
            end = hunk_there.old_start - (count > 0) + count
        return apply_hunks([hunk_there for hunk_there, _line in located], content)

    def not_located(self, hunk: LooseHunk, path: str, content: bytes, error: NotLocatedError) -> RefusedError:
        if error.is_ambiguous:
            hint = "make the patch with more context (`git diff -U20`), or with its `index` line"
            return self.refused(error.line, error.reason, hint=hint)
        label = f" of {self.tree.label}"
        if may_be_there(hunk, content):
            return self.refused(hunk.line, f"{path}{label} already has what this hunk makes")
        return self.refused(error.line, f"{error.reason} (in {path}{label})", hint=ANOTHER_BASE)

    def check_deleted(self, file: LooseFile, path: str, content: bytes, *, is_proven: bool) -> None:
        if is_proven or not content:
            return
        if not file.hunks:
            raise self.refused(file.line, f"the patch deletes {path} and does not show what it held")
        if self.hunks(file, path, content, is_proven=False):
            raise self.refused(
                file.line, f"{path} of {self.tree.label} holds more than the patch removes", hint=ANOTHER_BASE
            )

    def write(self, results: list[_Result]) -> None:
        for result in results:
            if result.old_path is not None and result.old_path != result.new_path and not result.file.is_copy:
                self.tree.set(result.old_path, None)
        for result in results:
            if result.new_path is not None:
                reason = obstacle(result.new_path, self.tree) if result.new_path != result.old_path else None
                if reason is not None:
                    raise self.refused(result.file.line, reason)
                self.tree.set(result.new_path, result.entry, result.content)

    def is_there(self, file: LooseFile) -> bool:
        try:
            return self._is_there(file)
        except RefusedError:
            return False

    def _is_there(self, file: LooseFile) -> bool:
        if file.new_name is None:
            return self.existing(file) is None
        path = self.paths.existing(file.new_name, is_prefixed=file.is_prefixed)
        if path is None and not (file.is_rename or file.is_copy):
            path = self.existing(file)
        entry = self.tree.entry(path) if path is not None else None
        if path is None or entry is None:
            return False
        if file.is_rename and self.paths.existing(file.old_name or "", is_prefixed=file.is_prefixed):
            return False
        if file.new_mode is not None and file.new_mode is not entry.mode:
            return False
        content = self.tree.read(path)
        if content is None:
            return file.new_id is not None and file.new_id == entry.oid
        if file.old_name is None and file.binary is None:
            return content == self.created(file)
        if file.binary is not None:
            return file.new_id == entry.oid or (not file.binary.is_delta and content == file.binary.payload)
        return all(may_be_there(hunk, content) for hunk in file.hunks)


def _kind(mode: Mode) -> str:
    kinds = {Mode.SYMLINK: "a symbolic link", Mode.GITLINK: "a submodule"}
    return kinds.get(mode, "a file")
