"""The series on a tag as a wheel needs it: the files that change, and which patch is in with which verdict."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from packaging.version import Version

from forktool.adapters.git_store import GitStore, GitTree
from forktool.adapters.patchset_files import Patchset
from forktool.adapters.state import translated
from forktool.adapters.upstream import Upstream
from forktool.commands.absorbing import absorbers
from forktool.commands.base import base_tree
from forktool.commands.project import Project
from forktool.commands.replaying import Replayer
from forktool.core.apply import apply_patch
from forktool.core.objects import Mode, NewObject, Oid, new_object
from forktool.core.provenance import CarriedPatch
from forktool.core.series import Patch
from forktool.core.trailers import values
from forktool.core.tree import Overlay
from forktool.core.verdict import Verdict
from forktool.core.wheel_plan import member_of
from forktool.errors import GitError, PatchsetError, RequestError, StoppedError


@dataclass(frozen=True, kw_only=True, slots=True)
class SeriesOnTag:
    """The patched tree of a tag. `root` is its git tree id, `objects` what the store lacks of it."""

    tag: str
    version: Version
    bare: GitTree
    tree: Overlay
    root: Oid
    objects: tuple[NewObject, ...]
    carried: tuple[tuple[Patch, Verdict], ...]

    @property
    def paths(self) -> tuple[str, ...]:
        """The paths that differ from the bare tree, sorted."""
        return tuple(
            sorted(path for path, entry in self.tree.changes.items() if entry != self.bare.entry(path))
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class MemberChanges:
    """What an overlay is told, by member name: new contents, the contents upstream has, and modes that differ."""

    changes: Mapping[str, bytes | None]
    base: Mapping[str, bytes | None]
    modes: Mapping[str, int]


def carry_series(
    project: Project, patchset: Patchset, store: GitStore, upstream: Upstream, tag: str | None
) -> SeriesOnTag:
    """The series on a tag; on its own base it applies exactly, elsewhere it is replayed.

    Raises:
        StoppedError: the replay stops at a patch.
        RequestError: no such tag, or one that names no version.
        PatchsetError: a patch does not apply to the base.
    """
    base = patchset.series.base.tag
    onto = upstream.resolve(tag) if tag is not None else base
    version = upstream.pattern.version(onto)
    if version is None:
        raise RequestError(f"{onto} names no version, and a wheel needs one", hint="forktool wheel TAG")
    upstream.prepare(dict.fromkeys([base, onto]))
    root = base_tree(upstream, patchset)
    if onto == base:
        tree = Overlay(root)
        for patch in patchset.series.patches:
            apply_patch(patch, tree, file=str(patchset.file(patch.name)))
        carried = tuple((patch, Verdict.UNCHANGED) for patch in patchset.series.patches)
    else:
        root = store.tree(store.tree_of(upstream.commit(onto)), label=onto)
        replayed = Replayer(patchset, base_tree(upstream, patchset), store, project.probes(patchset)).replay(
            [root], history=absorbers(project, patchset, store, upstream, [onto])
        )[0]
        if replayed.stop is not None:
            raise StoppedError(
                f"the series does not reach {onto}: {replayed.stop.patch.name} stops",
                hint=f"forktool rebase {onto}",
            )
        tree = replayed.result
        carried = tuple((step.patch, step.outcome.verdict) for step in replayed.carried)
    if not carried:
        raise PatchsetError(f"no patch is carried on {onto}: the published wheel is what you want")
    oid, trees = store.changed_tree(root.root, tree.changes)
    blobs = [
        new_object("blob", tree.blobs[entry.oid])
        for entry in tree.changes.values()
        if entry is not None and entry.oid in tree.blobs
    ]
    return SeriesOnTag(
        tag=onto, version=version, bare=root, tree=tree, root=oid, objects=(*blobs, *trees), carried=carried
    )


def member_changes(series: SeriesOnTag, paths: Iterable[str]) -> MemberChanges:
    """Turn paths of the tree into members of the wheel.

    Raises:
        PatchsetError: a symbolic link or a submodule, which no wheel can hold.
    """
    changes: dict[str, bytes | None] = {}
    base: dict[str, bytes | None] = {}
    modes: dict[str, int] = {}
    for path in paths:
        name = member_of(path)
        before, after = series.bare.entry(path), series.tree.entry(path)
        for entry in (before, after):
            if entry is not None and entry.mode not in {Mode.FILE, Mode.EXECUTABLE}:
                raise PatchsetError(f"{path} is no ordinary file, and a wheel holds nothing else")
        changes[name] = series.tree.read(path)
        base[name] = series.bare.read(path)
        if after is not None and after.mode is not (before.mode if before is not None else Mode.FILE):
            modes[name] = 0o755 if after.mode is Mode.EXECUTABLE else 0o644
    return MemberChanges(changes=changes, base=base, modes=modes)


def carried_patch(patch: Patch, verdict: Verdict) -> CarriedPatch:
    """What the provenance says of a patch; a trailer that names where upstream has it makes it a backport."""
    applied = values(patch.trailers, "Applied-Upstream")
    links = [*applied, *values(patch.trailers, "Forwarded"), *values(patch.trailers, "Bug")]
    return CarriedPatch(
        name=patch.name,
        sha256=patch.digest,
        subject=patch.subject,
        verdict=verdict.value,
        kind="backport" if applied else "unofficial",
        references=tuple(dict.fromkeys(link for link in links if link.startswith(("https://", "http://")))),
    )


def unpack_tree(store: GitStore, tree: Oid, folder: Path) -> Path:
    """Write the files of a tree into a new folder, for programs that need one. Returns the folder.

    Raises:
        GitError: git cannot write them.
        DiskError: the folder cannot be made.
    """
    with translated(f"cannot make {folder}"):
        folder.mkdir(parents=True)
    index = folder.with_name(f"{folder.name}.index")
    environment = {"GIT_INDEX_FILE": str(index.absolute()), "GIT_WORK_TREE": str(folder.absolute())}
    try:
        for command in (["read-tree", tree], ["checkout-index", "--all", "--force"]):
            done = store.try_git(*command, env=environment)
            if done.returncode:
                raise GitError(f"git {command[0]} for {folder}: {done.last_line}")
    finally:
        with translated(f"cannot remove {index}"):
            index.unlink(missing_ok=True)
    return folder
