"""`forktool import --installed`: what was changed by hand in an installed package, as patches to adopt."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Any

from packaging.version import Version

from forktool.adapters.git_format import diff_text
from forktool.adapters.git_merge import merge_contents
from forktool.adapters.git_store import GitStore, GitTree
from forktool.adapters.patchset_files import Patchset
from forktool.adapters.remote import ask, local_target, ssh_target
from forktool.adapters.upstream import Upstream
from forktool.commands.project import Project
from forktool.core.apply import apply_patch
from forktool.core.archive import matches
from forktool.core.loose_mail import Offered, read_offered
from forktool.core.objects import Entry, Mode, Oid, blob_id, new_object
from forktool.core.tree import Overlay, SourceTree
from forktool.core.versions import TagPattern
from forktool.errors import RequestError


@dataclass(frozen=True, kw_only=True, slots=True)
class Installed:
    """Where to look: a Python or environment (empty for the active one), another machine, another name."""

    python: str
    host: str | None = None
    distribution: str | None = None
    in_one: bool = False


def installed_changes(
    project: Project,
    patchset: Patchset,
    store: GitStore,
    upstream: Upstream,
    base: GitTree,
    installed: Installed,
    *,
    has_message: bool,
) -> list[Offered]:
    """The edits of an installed package, one patch a file or all in one, made to follow the series.

    An edit is what differs from the release's own source; it is merged three-way with what the series does to the same
    file, so it does not matter whether the series is in the installation.

    Args:
        project: the project.
        patchset: the series that the patches will follow.
        store: for merges and diffs.
        upstream: knows the installed release's tree.
        base: the tree of the series.
        installed: where to look.
        has_message: whether the user gives a message.

    Raises:
        RequestError: nothing was changed, nothing of it can be carried, or it conflicts with the series.
    """
    name = installed.distribution or patchset.config.upstream.package
    if name is None:
        raise RequestError(
            "patchset.toml names no package", hint="forktool import --installed --distribution NAME"
        )
    python = installed.python or None
    target = ssh_target(installed.host, python) if installed.host else local_target(python)
    request = {"action": "inspect", "distributions": [name], "paths": [], "compare": True, "contents": True}
    seen = ask(target, request)
    tag = _tag(patchset, seen)
    release: SourceTree = base if tag == base.label else upstream.light_tree(upstream.resolve(tag))
    edited, left_out = _edits(seen, release, patchset.config.upstream.generated)
    for reason in left_out:
        project.console.warning(f"left out: {reason}")
    where = f"{seen['distribution']} {seen['version']} in {seen['location']}"
    if not edited.changes:
        raise RequestError(f"{where} has no change that a patch could carry")
    result = _merged(patchset, store, base, release, edited, where)
    groups = [tuple(result.changes)] if installed.in_one else [(path,) for path in sorted(result.changes)]
    offered = [
        item for group in groups if (item := _offered(store, patchset, base, result, group)) is not None
    ]
    if not offered:
        raise RequestError(f"the series has every change of {where} already")
    message = f"Take over what was changed in the installed {seen['distribution']} {seen['version']}"
    if has_message:
        return offered
    return [replace(item, message=_message(item, message, seen)) for item in offered]


def _tag(patchset: Patchset, seen: Mapping[str, Any]) -> str:
    pattern = TagPattern(patchset.config.upstream.tag_pattern)
    release = Version(Version(seen["version"]).public)
    base = patchset.series.base.tag
    return base if pattern.version(base) == release else pattern.tag(release)


def _edits(
    seen: Mapping[str, Any], release: SourceTree, generated: Iterable[str]
) -> tuple[Overlay, list[str]]:
    """The release's tree with the edits in it, and why the others are not."""
    edited = Overlay(release)
    left_out: list[str] = []
    patterns = tuple(generated)
    for name in sorted({*seen["contents"], *seen["missing"]}):
        if ".dist-info/" in name or name.startswith("../") or matches(name, patterns):
            continue
        path = (
            name if release.entry(name) is not None or release.entry(f"src/{name}") is None else f"src/{name}"
        )
        before = release.entry(path)
        document = seen["contents"].get(name)
        if document is None:
            if before is not None:
                edited.set(path, None)
        elif document["content"] is None:
            left_out.append(f"{name} is too large for a patch")
        elif before is None and name not in seen["added"]:
            left_out.append(f"{name} is not in the source tree of {release.label}: the build makes it")
        else:
            content = base64.b64decode(document["content"])
            mode = before.mode if before is not None else Mode.FILE
            if before is None and document["executable"]:
                mode = Mode.EXECUTABLE
            if before is None or before.oid != blob_id(content):
                edited.set(path, Entry(mode, blob_id(content)), content)
    return edited, left_out


def _merged(
    patchset: Patchset, store: GitStore, base: GitTree, release: SourceTree, edited: Overlay, where: str
) -> Overlay:
    """The series' own result with the edits on top: only what they add to it is in `changes`."""
    series = _series_result(patchset, base)
    paths = tuple(edited.changes)
    labels = (release.label, f"the series on {base.label}", where)
    merge = merge_contents(store, paths, base=release, ours=series, theirs=edited, labels=labels)
    if not merge.is_clean:
        raise RequestError(
            f"{', '.join(merge.conflicts)}: the edit in {where} and the series change the same lines",
            hint="forktool live status says which patches are in; drop the one that the edit replaces",
        )
    result = Overlay(series, label=f"the series on {base.label} with the edits")
    for path, entry in merge.changes.items():
        result.set(path, entry, None if entry is None else merge.contents.get(entry.oid))
    return result


def _series_result(patchset: Patchset, base: GitTree) -> Overlay:
    series = Overlay(base)
    for patch in patchset.series.patches:
        apply_patch(patch, series, file=str(patchset.file(patch.name)))
    return series


def _offered(
    store: GitStore, patchset: Patchset, base: GitTree, result: Overlay, paths: tuple[str, ...]
) -> Offered | None:
    series = _series_result(patchset, base)
    before = _stored(store, base.root, series, tuple(series.changes))
    after = _stored(store, before, result, paths)
    text = diff_text(store, before, after)
    if not text:
        return None
    files = [item for piece in read_offered(text, source=_source(paths)) for item in piece.files]
    name = f"hot-fix-{PurePosixPath(paths[0]).stem}" if len(paths) == 1 else "hot-fix"
    return Offered(source=_source(paths), line=1, files=tuple(files), name=name)


def _stored(store: GitStore, root: Oid, overlay: Overlay, paths: tuple[str, ...]) -> Oid:
    """A tree with some paths as the overlay has them, visible to git for this run."""
    changes = {path: overlay.entry(path) for path in paths}
    new_root, trees = store.changed_tree(root, changes)
    blobs = [
        new_object("blob", content)
        for path, entry in changes.items()
        if entry is not None and (content := overlay.read(path)) is not None
    ]
    store.quarantine([*trees, *blobs])
    return new_root


def _source(paths: tuple[str, ...]) -> str:
    return paths[0] if len(paths) == 1 else "installed"


def _message(item: Offered, otherwise: str, seen: Mapping[str, Any]) -> str:
    subject = f"Change {item.source} as it was installed" if item.source != "installed" else otherwise
    return (
        f"{subject}\n\nTaken from {seen['distribution']} {seen['version']} on {seen['host']}. Say here what was wrong,"
        "\nand what this changes.\n"
    )
