"""What upstream's history says of the series: which commits absorbed its patches, on which tags."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from forktool.adapters.git_history import GitHistory
from forktool.adapters.git_store import GitStore
from forktool.adapters.patchset_files import Patchset
from forktool.adapters.upstream import Upstream
from forktool.commands.project import Project
from forktool.core.history import Absorber
from forktool.core.series import PatchName

Absorbers = Mapping[PatchName, tuple[Absorber, ...]]
"""The commits that absorbed each patch."""


def absorbers(
    project: Project, patchset: Patchset, store: GitStore, upstream: Upstream, tags: Sequence[str]
) -> dict[str, Absorbers]:
    """The commits between the base and each tag that absorbed a patch; a tag without history there is left out.

    Only tags that are imported are looked at: history never makes anything be fetched.
    """
    series = patchset.series
    base = upstream.imported(series.base.tag)
    commits = {tag: commit for tag in tags if (commit := upstream.imported(tag)) is not None}
    if base is None or not commits or not series.patches:
        return {}
    read = GitHistory(store, project.state, repository=patchset.config.upstream.repository)
    found = read.read(base, tuple(commits.values()), series.paths)
    return {
        tag: {patch.name: found[commit].absorbers(patch) for patch in series.patches}
        for tag, commit in commits.items()
        if commit in found
    }
