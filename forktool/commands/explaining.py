"""What is looked up of a stop: the texts in conflict, why upstream changed there, and where definitions went.

All of it is for a person to read; none of it decides anything.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cached_property

from forktool.adapters.git_causes import GitCauses, Lines
from forktool.adapters.git_history import GitHistory
from forktool.adapters.git_search import files_defining, files_with_most, is_complete
from forktool.adapters.git_store import GitStore, GitTree
from forktool.adapters.patchset_files import Patchset
from forktool.adapters.upstream import Upstream
from forktool.commands.project import Project
from forktool.commands.replayed import Replayed, Stop
from forktool.core.diff import split_lines
from forktool.core.lines import changes
from forktool.core.moved import (
    Moved,
    edited_definitions,
    find_definition,
    find_moved,
    kept_elsewhere,
    search_words,
)
from forktool.core.objects import Oid
from forktool.core.stop import (
    Cause,
    ConflictKind,
    Explained,
    StopConflict,
    StopRegion,
    asked_path,
    conflict_kind,
    settling,
)
from forktool.core.syntax import is_python
from forktool.core.trailers import first_value
from forktool.core.tree import Overlay
from forktool.core.upstream_config import History, SourceKind
from forktool.core.verdict import Outcome
from forktool.core.zdiff3 import Region, line_in, regions, side, zealous

_REGIONS = 6
"""Conflicts of which the causes are looked up, a git process each."""
_DEFINITIONS = 5
"""Definitions that are searched for, two git processes each."""
_LARGE = 4_000_000
"""Bytes of a file above which lines are not followed from one version to another."""
_CANDIDATES = 8
"""Files that are parsed for a definition: those that share most lines with it, and those that define its name."""
_SAID = ("CONFLICT (content)", "CONFLICT (add/add)", "CONFLICT (modify/delete)")
"""Git's messages that say no more than the kind of the conflict."""


def explain(
    project: Project, patchset: Patchset, store: GitStore, upstream: Upstream, replayed: Replayed
) -> Explained | None:
    """Everything that a person needs to settle a stop; None where nothing stopped.

    Raises:
        GitError: git failed.
    """
    stop = replayed.stop
    if stop is None:
        return None
    outcome = next(step.outcome for step in replayed.steps if step.patch is stop.patch)
    history = GitHistory(store, project.state, repository=patchset.config.upstream.repository)
    causes = GitCauses(
        store,
        history,
        base=upstream.commit(patchset.series.base.tag),
        tag=upstream.commit(replayed.onto.label),
    )
    return _Explanation(patchset, store, causes, replayed, stop, outcome).whole()


class _Explanation:
    def __init__(
        self,
        patchset: Patchset,
        store: GitStore,
        causes: GitCauses,
        replayed: Replayed,
        stop: Stop,
        outcome: Outcome,
    ) -> None:
        self._patchset = patchset
        self._store = store
        self._causes = causes
        self._onto = replayed.onto
        self._target: Overlay = replayed.result
        self._stop = stop
        self._outcome = outcome
        self._old_paths = {new: old for old, new in stop.moved.items()} | {
            file.new_path: file.old_path
            for file in stop.patch.files
            if file.new_path is not None and file.old_path not in (None, file.new_path)
        }
        self._searched: dict[str, Moved | None] = {}
        self._was_not_searched = False

    def whole(self) -> Explained:
        patch = self._stop.patch
        conflicts = tuple(self._conflict(path) for path in self._outcome.conflicts)
        links = [(key, first_value(patch.trailers, key)) for key in ("Forwarded", "Origin")]
        return Explained(
            subject=patch.subject,
            reason=first_value(patch.trailers, "Reason"),
            links=tuple((key, value) for key, value in links if value is not None and "://" in value),
            outcome=self._outcome,
            labels=(self._patchset.series.base.tag, self._onto.label),
            conflicts=conflicts,
            unknown=tuple(self._unknown()) if conflicts else (),
        )

    def _unknown(self) -> Iterator[str]:
        config = self._patchset.config.upstream
        if not self._causes.is_known:
            missing = [] if config.repository else ["repository = URL"]
            if config.sources[:1] != (SourceKind.GIT,):
                missing.append(f'sources = ["{SourceKind.GIT}"]')
            if config.history is not History.FULL:
                missing.append(f'history = "{History.FULL}"')
            if missing:
                yield f"why upstream changed it is not known: set {', '.join(missing)} under [upstream]"
            else:
                yield "why upstream changed it is not known: its history is not here"
        if self._was_not_searched:
            yield (
                f"where upstream moved it is not looked for: {self._onto.label} is here in part; "
                f'set history = "{History.FULL}" under [upstream]'
            )

    def _conflict(self, path: str) -> StopConflict:
        stages, marked = self._stop.stages[path], self._stop.texts.get(path)
        kind = conflict_kind(path, stages.base, stages.ours, stages.theirs, is_marked=marked is not None)
        is_text = kind in (ConflictKind.TEXT, ConflictKind.BOTH_ADDED)
        message = next((text for text in self._stop.messages if _speaks_of(text, asked_path(path))), "")
        deleted_by, renamed_to = None, None
        if kind is ConflictKind.DELETED_UPSTREAM:
            deleted_by, renamed_to = self._causes.of_deletion(path), self._causes.renamed(path)
        whole: tuple[Cause, ...] = ()
        if kind in (ConflictKind.DELETED_BY_PATCH, ConflictKind.BINARY, ConflictKind.LINK):
            whole = self._causes.of_path(path)
        before, after = self._sides(path)
        names = self._edited(path, before, after) if before is not None else ()
        ours = self._target.read(path) if is_text else None
        gone = [name for name in names if ours is None or find_definition(ours, name) is None]
        moved = tuple(self._moved(gone, path, before)) if before is not None else ()
        if marked is not None and before is not None and after is not None and ours is not None:
            moved += tuple(self._elsewhere(path, marked, before, after, ours))
        place = renamed_to or next((one.path for one in moved), None)
        return StopConflict(
            path=asked_path(path),
            kind=kind,
            message=message.removeprefix("CONFLICT ").strip(),
            regions=tuple(self._regions(path, marked, before, after)) if marked is not None else (),
            causes=whole,
            deleted_by=deleted_by,
            moved_from=next((old for old, new in self._stop.moved.items() if new == path), None),
            renamed_to=renamed_to,
            moved=moved,
            commands=settling(
                kind,
                asked_path(path),
                stages.ours.oid if stages.ours is not None else None,
                stages.theirs.oid if stages.theirs is not None else None,
                place=place,
            ),
        )

    def _sides(self, path: str) -> tuple[bytes | None, bytes | None]:
        """The file on the base, without the patch and with it, wherever either side has it now."""
        old = self._old_paths.get(path, path) or path
        before = self._stop.sides.get(old, (None, None))[0]
        after = self._stop.sides.get(path, (None, None))[1] or self._stop.sides.get(old, (None, None))[1]
        return before, after

    # Texts

    def _regions(
        self, path: str, marked: bytes, before: bytes | None, after: bytes | None
    ) -> Iterator[StopRegion]:
        for region in regions(marked):
            yield StopRegion(
                line=region.line,
                definition=_definition(path, marked, region, before or b"", after or b""),
                upstream=region.ours.decode("utf-8", "replace"),
                base=region.base.decode("utf-8", "replace"),
                patch=region.theirs.decode("utf-8", "replace"),
                causes=self._causes_of_regions.get((path, region.line), ()),
            )

    @cached_property
    def _causes_of_regions(self) -> Mapping[tuple[str, int], tuple[Cause, ...]]:
        """Path and line of a conflict to upstream's commits on it, for the first conflicts."""
        if not self._causes.is_known:
            return {}
        wanted: dict[tuple[str, int], Lines] = {}
        for path in self._outcome.conflicts:
            marked, ours = self._stop.texts.get(path), self._target.read(path)
            if marked is None or ours is None or len(marked) > _LARGE:
                continue
            for region in regions(marked)[: _REGIONS - len(wanted)]:
                wanted[path, region.line] = self._lines(path, marked, region, ours)
        found = self._causes.of_lines(wanted.values())
        return {place: found[lines] for place, lines in wanted.items()}

    def _lines(self, path: str, marked: bytes, region: Region, ours: bytes) -> Lines:
        """The lines that upstream's side has changed, or those around what it removed, in the tag's own file."""
        new, old = split_lines(region.ours), split_lines(region.base)
        above = 0
        while above < min(len(new), len(old)) and new[above] == old[above]:
            above += 1
        below = 0
        while below < min(len(new), len(old)) - above and new[-1 - below] == old[-1 - below]:
            below += 1
        first, last = region.ours_at + above, region.ours_at + len(new) - below - 1
        if first > last:
            first, last = first - 1, first
        text = side(marked, lambda conflict: conflict.ours)
        bare = self._onto.read(path)
        for there in (ours, bare if bare is not None else ours):
            first, last = line_in(there, text, first), line_in(there, text, last)
            text = there
        count = len(split_lines(text))
        first = max(1, min(first, count))
        return path, first, max(first, min(last, count))

    # Places

    def _edited(self, path: str, before: bytes, after: bytes | None) -> tuple[str, ...]:
        """The definitions of the file on the base that the patch edits."""
        if not is_python(path) or after is None or len(before) > _LARGE:
            return ()
        found: dict[str, None] = {}
        for change in changes(before, after):
            new = range(change.new_start + 1, change.new_end + 1)
            old = range(change.old_start + 1, change.old_end + 1)
            names = edited_definitions(before, after, new) if new else edited_definitions(before, before, old)
            found |= dict.fromkeys(names)
        return tuple(found)

    def _moved(self, names: list[str], path: str, before: bytes) -> Iterator[Moved]:
        for name in names:
            if name not in self._searched and len(self._searched) < _DEFINITIONS:
                self._searched[name] = self._search(name, path, before)
            found = self._searched.get(name)
            if found is not None:
                yield found

    def _elsewhere(
        self, path: str, marked: bytes, before: bytes, after: bytes, ours: bytes
    ) -> Iterator[Moved]:
        """The definitions that upstream still has in the file, but not at the conflict; with lines of the work tree."""
        text = side(marked, lambda conflict: conflict.ours)
        told: set[str] = set()
        for region in regions(marked)[:_REGIONS]:
            name = _definition(path, marked, region, before, after)
            if not name or name in told:
                continue
            told.add(name)
            found = kept_elsewhere(name, before, path, ours, line_in(ours, text, region.ours_at))
            if found is not None:
                yield replace(found, line=line_in(zealous(marked), ours, found.line))

    def _search(self, name: str, path: str, before: bytes) -> Moved | None:
        tree = self._tree
        if tree is None:
            self._was_not_searched = True
            return None
        alike = files_with_most(self._store, tree, search_words(before, name))[:_CANDIDATES]
        named = files_defining(self._store, tree, name.rpartition(".")[2])
        if len(named) > _CANDIDATES:
            named = ()
        candidates: Mapping[str, bytes] = {
            there: content
            for there in dict.fromkeys((path, *alike, *named))
            if (content := self._target.read(there)) is not None
        }
        return find_moved(name, before, path, candidates)

    @cached_property
    def _tree(self) -> Oid | None:
        """The new tree, where all of it can be searched without fetching anything."""
        onto = self._onto
        return onto.root if isinstance(onto, GitTree) and is_complete(self._store, onto.root) else None


def _speaks_of(message: str, path: str) -> bool:
    """Whether git says more of a path's conflict than its kind does."""
    is_more = message.startswith("CONFLICT") and not message.startswith(_SAID)
    return is_more and path in message


def _definition(path: str, marked: bytes, region: Region, before: bytes, after: bytes) -> str:
    """The definition that the patch edits at a conflict: what the base calls it."""
    if not is_python(path) or len(marked) > _LARGE:
        return ""
    if region.theirs:
        text, source, at, lines = side(marked, lambda one: one.theirs), after, region.theirs_at, region.theirs
    else:
        text, source, at, lines = side(marked, lambda one: one.base), before, region.base_at, region.base
    telling = next((place for place, line in enumerate(split_lines(lines)) if line.strip()), 0)
    found = edited_definitions(before, source, [line_in(source, text, at + telling)])
    return found[0] if found else ""
