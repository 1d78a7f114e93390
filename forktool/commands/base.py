"""The recorded base: the tree that the patches apply to exactly, and no other."""

from __future__ import annotations

from forktool.adapters.git_store import GitTree
from forktool.adapters.patchset_files import Patchset
from forktool.adapters.upstream import Upstream
from forktool.errors import IntegrityError


def base_tree(upstream: Upstream, patchset: Patchset) -> GitTree:
    """The base's tree, checked against the id that patchset.toml records.

    Raises:
        IntegrityError: the tag names another tree than the recorded one.
    """
    base = patchset.series.base
    tree = upstream.tree(base.tag)
    if base.tree is not None and tree.root != base.tree:
        raise IntegrityError(
            f"{base.tag} is tree {tree.root[:12]} here, {patchset.path / 'patchset.toml'} records {base.tree[:12]}",
            hint="the tag moved, or [upstream] generated or sources changed; correct [base] tree if that is meant",
        )
    return tree
