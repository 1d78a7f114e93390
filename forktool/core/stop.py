"""What a person needs to settle a stop: what conflicts, where, why upstream changed there, and where things went."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from enum import StrEnum

from forktool.core.moved import Moved
from forktool.core.objects import Entry, Mode, Oid
from forktool.core.verdict import Outcome

_ASIDE = re.compile(r"~[0-9a-f]{40}$")
_GITHUB = re.compile(
    r"(?:(?:https?|git|ssh)://(?:[^@/]+@)?|[^@/:]+@)github\.com[:/]([^/]+/[^/]+?)(?:\.git)?/?"
)


class ConflictKind(StrEnum):
    """What the two sides did to a path."""

    TEXT = "both changed the same lines"
    BOTH_ADDED = "both added it"
    DELETED_UPSTREAM = "deleted upstream, changed by the patch"
    DELETED_BY_PATCH = "changed upstream, deleted by the patch"
    BINARY = "both changed it, and it is not text"
    LINK = "both changed what it links to"
    SUBMODULE = "the two sides disagree on a submodule"
    GONE = "both sides moved or deleted it"
    IN_THE_WAY = "a file on one side, a folder on the other"
    MOVED_UPSTREAM = "upstream's new place for it"
    MOVED_BY_PATCH = "the patch's new place for it"


def conflict_kind(
    path: str, base: Entry | None, ours: Entry | None, theirs: Entry | None, *, is_marked: bool
) -> ConflictKind:
    """The kind of a path's conflict, from its stages in the index (git-read-tree(1), "3-way merge").

    Args:
        path: as the merge names it.
        base: stage 1.
        ours: stage 2: upstream's, with the patches carried so far.
        theirs: stage 3: the patch's.
        is_marked: git wrote its text with conflict markers.
    """
    present = [entry for entry in (base, ours, theirs) if entry is not None]
    if any(entry.mode is Mode.GITLINK for entry in present):
        return ConflictKind.SUBMODULE
    if _ASIDE.search(path):
        return ConflictKind.IN_THE_WAY
    if ours is not None and theirs is not None:
        if is_marked:
            return ConflictKind.TEXT if base is not None else ConflictKind.BOTH_ADDED
        links = any(entry.mode is Mode.SYMLINK for entry in (ours, theirs))
        return ConflictKind.LINK if links else ConflictKind.BINARY
    if base is not None and (ours is not None or theirs is not None):
        return ConflictKind.DELETED_UPSTREAM if ours is None else ConflictKind.DELETED_BY_PATCH
    if base is not None:
        return ConflictKind.GONE
    return ConflictKind.MOVED_BY_PATCH if ours is None else ConflictKind.MOVED_UPSTREAM


def asked_path(path: str) -> str:
    """The path without the `~COMMIT` that git adds to a file whose name a folder has on the other side."""
    return _ASIDE.sub("", path)


def settling(
    kind: ConflictKind, path: str, ours: Oid | None, theirs: Oid | None, *, place: str | None = None
) -> tuple[str, ...]:
    """The commands that settle a conflict in no text, each with what it chooses after a `#`; () for text.

    Args:
        kind: of the conflict.
        path: where it is.
        ours: upstream's blob or commit.
        theirs: the patch's.
        place: where upstream has now what the patch changes, if that is known.
    """
    name = shlex.quote(path)
    match kind:
        case ConflictKind.TEXT | ConflictKind.BOTH_ADDED:
            return ()
        case ConflictKind.DELETED_UPSTREAM:
            there = () if place is None else (_settled_there(name, shlex.quote(place)),)
            return (
                *there,
                f"git rm {name}  # leave it deleted",
                f"git add {name}  # keep it, as the patch has it",
            )
        case ConflictKind.DELETED_BY_PATCH:
            return (f"git rm {name}  # delete it all the same", f"git add {name}  # keep upstream's")
        case ConflictKind.BINARY | ConflictKind.LINK:
            return (
                f"git checkout --ours -- {name} && git add {name}  # upstream's",
                f"git checkout --theirs -- {name} && git add {name}  # the patch's",
            )
        case ConflictKind.SUBMODULE:
            chosen = [(oid, whose) for oid, whose in ((ours, "upstream's"), (theirs, "the patch's")) if oid]
            return tuple(
                f"git update-index --cacheinfo {Mode.GITLINK},{oid},{name}  # {whose}"
                for oid, whose in chosen
            )
        case ConflictKind.GONE:
            return (f"git rm {name}  # its old name goes",)
        case ConflictKind.IN_THE_WAY:
            # The merge put the file beside the folder, under a name that begins so.
            return (
                f"git add {name}~* && git mv {name}~* NEW_NAME  # keep the file under another name",
                f"git rm {name}~*  # do without the file",
            )
        case ConflictKind.MOVED_UPSTREAM | ConflictKind.MOVED_BY_PATCH:
            return (f"git add {name}  # keep it here", f"git rm {name}  # do without it here")


def _settled_there(name: str, there: str) -> str:
    return f"git add {there} && git rm {name}  # once the change is made in the former"


def pull_requests_url(repository: str | None, slug: object = None) -> str | None:
    """The URL of upstream's pull requests without the number; None where upstream is not known to be on GitHub.

    Args:
        repository: upstream's URL or path.
        slug: `OWNER/NAME` on github.com, where patchset.toml names it for pull requests.
    """
    match = _GITHUB.fullmatch(repository or "")
    name = match[1] if match else slug if isinstance(slug, str) else None
    return f"https://github.com/{name}/pull/" if name else None


@dataclass(frozen=True, kw_only=True, slots=True)
class Cause:
    """A commit of upstream; `date` is its committer's day, `number` its pull request."""

    oid: Oid
    date: str
    subject: str
    number: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class StopRegion:
    """One conflict of a text. `line` is that of the first marker in the work tree; the three texts are zdiff3's."""

    line: int
    definition: str
    upstream: str
    base: str
    patch: str
    causes: tuple[Cause, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class StopConflict:
    """One path in conflict.

    Attributes:
        path: where it is in the work tree.
        kind: what the two sides did to it.
        message: git's own words for it; "" for two changes of the same lines.
        regions: the conflicts in its text.
        causes: upstream's commits on the path as a whole, where no lines can be named.
        deleted_by: the commit that removed it upstream.
        moved_from: its path on the base, when the merge followed it from there.
        renamed_to: where upstream moved it, when the merge did not follow it there.
        moved: the definitions that the patch edits and that upstream moved or renamed.
        commands: what settles it without an editor.
    """

    path: str
    kind: ConflictKind
    message: str = ""
    regions: tuple[StopRegion, ...] = ()
    causes: tuple[Cause, ...] = ()
    deleted_by: Cause | None = None
    moved_from: str | None = None
    renamed_to: str | None = None
    moved: tuple[Moved, ...] = ()
    commands: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Explained:
    """Where a rebase stopped, and everything that a person needs there.

    Attributes:
        subject: of the patch.
        reason: its trailer `Reason`: why it is carried.
        links: its trailers `Forwarded` and `Origin`, in that order.
        outcome: its verdict, with evidence and findings.
        labels: what the base and upstream's new tree are called.
        conflicts: its paths in conflict.
        unknown: what could not be looked up, and how it can be next time; one line each.
    """

    subject: str
    reason: str | None
    links: tuple[tuple[str, str], ...]
    outcome: Outcome
    labels: tuple[str, str]
    conflicts: tuple[StopConflict, ...] = ()
    unknown: tuple[str, ...] = ()
