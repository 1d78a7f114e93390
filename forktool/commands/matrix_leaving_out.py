"""A series without some of its patches: those behind them are merged, as a rebase would, not refused."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from forktool.adapters.git_format import format_patches
from forktool.adapters.git_merge import merge_contents
from forktool.adapters.git_store import GitStore
from forktool.adapters.patchset_files import Patchset
from forktool.adapters.upstream import Upstream
from forktool.commands.base import base_tree
from forktool.commands.series_commits import Chain, SeriesCommits
from forktool.core.apply import apply_patch
from forktool.core.objects import Entry
from forktool.core.series import Patch
from forktool.core.tree import Overlay, SourceTree
from forktool.errors import PatchsetError, RequestError


def leave_out(
    patchset: Patchset, store: GitStore, upstream: Upstream, names: Collection[str]
) -> dict[str, bytes]:
    """The patch files of a series without some patches, on the same base.

    Returns:
        The text of each patch that stays, by name, in the series' order.

    Raises:
        PatchsetError: a patch that stays needs one that goes: their changes meet.
        RequestError: a name is not in the series.
        IntegrityError, GitError: the base is not the recorded tree, or git failed.
    """
    absent = sorted(set(names) - {str(name) for name in patchset.series.names})
    if absent:
        raise RequestError(f"{absent[0]} is not in the series", hint="forktool status")
    base = base_tree(upstream, patchset)
    commit = upstream.commit(patchset.series.base.tag)
    full, ours = Overlay(base), Overlay(base)
    chain = Chain(store, commit, base.root)
    kept: list[Patch] = []
    for patch in patchset.series.patches:
        before = Overlay(base)
        for path, entry in full.changes.items():
            before.set(path, entry, None if entry is None else full.blobs.get(entry.oid))
        changed = apply_patch(patch, full, file=str(patchset.file(patch.name)))
        if patch.name in names:
            continue
        entries = _carried(patch, [item.path for item in changed], before, full, ours, store, names)
        chain.add(patch, entries, ours)
        kept.append(patch)
    return _texts(store, chain.result(), kept)


def _carried(
    patch: Patch,
    paths: list[str],
    before: SourceTree,
    after: Overlay,
    ours: Overlay,
    store: GitStore,
    names: Collection[str],
) -> dict[str, Entry | None]:
    """Bring one patch's changes into `ours`; returns the entries that it set."""
    if all(ours.entry(path) == before.entry(path) for path in paths):
        for path in paths:
            entry = after.entry(path)
            ours.set(path, entry, None if entry is None else after.blobs.get(entry.oid, after.read(path)))
        return {path: ours.entry(path) for path in paths}
    labels = ("its parent", "the series without " + ", ".join(sorted(names)), patch.name)
    merged = merge_contents(store, paths, base=before, ours=ours, theirs=after, labels=labels)
    if not merged.is_clean:
        raise PatchsetError(
            f"{patch.name} needs {', '.join(sorted(names))}: both change the same lines of "
            f"{', '.join(sorted(merged.conflicts))}"
        )
    for path, entry in merged.changes.items():
        ours.set(path, entry, None if entry is None else merged.contents.get(entry.oid))
    return dict(merged.changes)


def _texts(store: GitStore, commits: SeriesCommits, kept: list[Patch]) -> dict[str, bytes]:
    store.quarantine(commits.objects)
    texts = format_patches(store, commits.base, commits.tip)
    if len(texts) != len(kept):
        raise PatchsetError("a patch changes nothing any more once the others are left out")
    return {str(patch.name): text for patch, text in zip(kept, texts, strict=True)}


def write_series(folder: Path, patches: dict[str, bytes], gone: Collection[str]) -> None:
    """Write such a series over a copy of the patchset."""
    for name in gone:
        (folder / f"{name}.patch").unlink(missing_ok=True)
    for name, text in patches.items():
        (folder / f"{name}.patch").write_bytes(text)
    (folder / "series").write_text("".join(f"{name}.patch\n" for name in patches), encoding="utf-8")
