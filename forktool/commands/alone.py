"""One patch by itself on another tree, and the upstream commit from which it fares otherwise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from forktool.adapters.git_source import GitSource
from forktool.adapters.git_store import GitStore, GitTree
from forktool.adapters.patchset_files import Patchset
from forktool.adapters.upstream import Upstream
from forktool.commands.base import base_tree
from forktool.commands.project import Project
from forktool.commands.replaying import Replayed, Replayer
from forktool.commands.series_commits import commits_on_base
from forktool.core.objects import Oid
from forktool.core.series import PatchName, Series
from forktool.core.verdict import Verdict


@dataclass(frozen=True, kw_only=True, slots=True)
class Found:
    """The first commit of a history where a patch's verdict is another one; `subject` is its first line."""

    commit: Oid
    subject: str
    verdict: Verdict


class Alone:
    """Replays single patches of one series, each without the patches before it.

    Its base is the recorded base with the patches before it, so what is merged is its own change alone.

    Raises:
        IntegrityError: the base is not the recorded tree.
        PatchsetError: a patch does not apply to the base exactly.
    """

    def __init__(self, project: Project, patchset: Patchset, store: GitStore, upstream: Upstream) -> None:
        self._patchset = patchset
        self._store = store
        self._probes = project.probes(patchset)
        tag = patchset.series.base.tag
        commit = upstream.commit(tag)
        self._base = base_tree(upstream, patchset)
        self._chain = commits_on_base(patchset, store, commit, self._base)
        store.quarantine(self._chain.objects)

    def replay(self, name: PatchName, onto: GitTree) -> Replayed:
        """One patch on one tree.

        Raises:
            GitError: git failed.
        """
        names = self._patchset.series.names
        at = names.index(name)
        base = self._base
        if at:
            base = self._store.tree(self._chain.trees[names[at - 1]], label=self._base.label)
        patch = self._patchset.series.patches[at]
        series = Series(base=self._patchset.series.base, patches=(patch,))
        return Replayer(replace(self._patchset, series=series), base, self._store, self._probes).replay(
            [onto]
        )[0]

    def verdict(self, name: PatchName, onto: GitTree) -> Verdict:
        """The verdict of one patch on one tree. Raises what `replay` raises."""
        return self.replay(name, onto).steps[0].outcome.verdict

    def paths(self, name: PatchName) -> tuple[str, ...]:
        """What a replay of the patch reads, as far as it is known."""
        patch = self._patchset.series.find(name)
        return tuple(dict.fromkeys((*patch.paths, *sorted(self._probes.reads(name)))))

    def first_commit(
        self, name: PatchName, source: GitSource, commits: Sequence[Oid], holds: Callable[[Verdict], bool]
    ) -> Found | None:
        """The first commit on whose tree the patch's verdict is as `holds` wants it, by halving.

        Args:
            name: the patch.
            source: where files' contents come from.
            commits: of one first-parent history, oldest first.
            holds: true of the last commit; of each after the first for which it is.

        Raises:
            NetworkError: contents could not be fetched.
            GitError: git failed.
        """
        if not commits:
            return None
        verdicts: dict[Oid, Verdict] = {}

        def is_so(commit: Oid) -> bool:
            source.fetch_files(commit, self.paths(name))
            tree = self._store.tree(self._store.tree_of(commit), label=commit[:12])
            verdicts[commit] = self.verdict(name, tree)
            return holds(verdicts[commit])

        low, high = 0, len(commits) - 1
        if not is_so(commits[high]):
            return None
        while low < high:
            middle = (low + high) // 2
            if is_so(commits[middle]):
                high = middle
            else:
                low = middle + 1
        commit = commits[low]
        return Found(commit=commit, subject=subject_of(self._store, commit), verdict=verdicts[commit])


def subject_of(store: GitStore, commit: Oid) -> str:
    """The first line of a commit's message."""
    body = store.read_object(commit)[1].partition(b"\n\n")[2]
    return body.decode("utf-8", "replace").lstrip("\n").partition("\n")[0]
