"""`forktool apply` and `forktool export`: the series as a git repository to edit, and back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from forktool.adapters.git_format import format_patches
from forktool.adapters.git_repo import RepositoryCommit, commits, head, uncommitted
from forktool.adapters.git_store import GitStore
from forktool.adapters.patchset_files import Patchset, series_change, write_change
from forktool.adapters.repository import fetch_head, is_ours, make_repository
from forktool.commands.base import base_tree
from forktool.commands.project import Project
from forktool.commands.series_commits import commits_on_base
from forktool.core.apply import apply_patch
from forktool.core.mail import unsafe_lines
from forktool.core.naming import unique_name
from forktool.core.objects import Oid
from forktool.core.series import Patch, PatchName, parse_patch
from forktool.core.tree import Overlay
from forktool.errors import ExitCode, PatchsetError, RequestError

BASE_REF = "refs/forktool/base"
BRANCH = "forktool"


def apply(project: Project, *, directory: str, force: bool, dry_run: bool) -> ExitCode:
    """Write the patched tree as a git repository of its own: the base, then a commit a patch, on a branch.

    Args:
        project: the project.
        directory: where; it must be empty or absent.
        force: replace a repository that this command wrote there before.
        dry_run: say what would be written.

    Raises:
        RequestError: something else is there.
        PatchsetError: a patch does not apply.
    """
    target = Path(directory)
    with project.state.lock(), project.store() as store:
        patchset = project.read()
        if target.exists() and (not target.is_dir() or any(target.iterdir())):
            if not is_ours(target, BASE_REF):
                raise RequestError(f"{target} is not empty", hint="name a new folder")
            if not force:
                raise RequestError(
                    f"{target} holds an applied series already",
                    hint=f"forktool export {target} takes its commits; forktool apply {target} --force replaces it",
                )
        base = patchset.series.base
        with project.upstream(patchset, store) as upstream:
            commit, tree = upstream.commit(base.tag), base_tree(upstream, patchset)
            upstream.complete(base.tag)
        chain = commits_on_base(patchset, store, commit, tree)
        if not dry_run:
            store.persist(chain.objects)
            refs = {
                BASE_REF: chain.base,
                f"refs/tags/{base.tag}": chain.base,
                f"refs/heads/{BRANCH}": chain.tip,
            }
            make_repository(store, target, refs, branch=BRANCH, replace=force)
    count = len(chain.commits)
    console = project.console
    console.document({"directory": str(target), "base": base.tag, "commits": dict(chain.commits.items())})
    console.answer(
        f"{'would write' if dry_run else 'wrote'} {base.tag} and {count} {'commit' if count == 1 else 'commits'} "
        f"to {target}"
    )
    console.hint(
        f"edit and commit there (git rebase --interactive {base.tag}), then: forktool export {target}"
    )
    return ExitCode.DONE


def export(project: Project, *, directory: str, dry_run: bool) -> ExitCode:
    """Read the commits of an applied series back into the patchset.

    Args:
        project: the project.
        directory: what `apply` wrote.
        dry_run: say what would change.

    Raises:
        RequestError: no applied series, uncommitted changes, a merge, an empty commit, another base.
        PatchsetError: a message would rewrite its patch; names the line.
    """
    source = Path(directory)
    with project.state.lock(), project.store() as store:
        patchset = project.read()
        if not is_ours(source, BASE_REF):
            raise RequestError(f"{source} holds no applied series", hint=f"forktool apply {source}")
        changed = uncommitted(source)
        if changed:
            raise RequestError(
                f"{source} has changes that are not committed: {', '.join(changed[:3])}",
                hint=f"git -C {source} commit --all, or git -C {source} stash",
            )
        base = patchset.series.base
        with project.upstream(patchset, store) as upstream:
            commit, tree = upstream.commit(base.tag), base_tree(upstream, patchset)
        found = _commits(source, commit, base.tag)
        names = _names(patchset, found)
        _lint(source, base.tag, tree.root, found)
        files = format_patches(store, commit, fetch_head(store, source))
        patches = dict(zip(names, files, strict=True))
        _prove(patches, Overlay(tree), [item.tree for item in found], store, tree.root)
        change = series_change(patchset, patches, drop_probes=False)
        if not dry_run:
            write_change(project.path, change, project.state)
    _report(project, patchset, patches, tuple(change.write), dry_run=dry_run)
    return ExitCode.DONE


def _commits(source: Path, base: Oid, tag: str) -> tuple[RepositoryCommit, ...]:
    if head(source) == base:
        return ()
    found = commits(source, f"{BASE_REF}..HEAD")
    if found[0].parents != (base,):
        raise RequestError(
            f"{source} does not sit on {tag} as the patchset has it",
            hint=f"git -C {source} rebase --onto {tag} {found[0].parents[0][:12]}",
        )
    return found


def _names(patchset: Patchset, found: Sequence[RepositoryCommit]) -> list[PatchName]:
    """A name for each commit: that of the patch it was, found by subject, then by author date; else a new one."""
    left = {patch.name: patch for patch in patchset.series.patches}
    names: dict[Oid, PatchName] = {}

    def pair(same: Callable[[Patch, RepositoryCommit], bool]) -> None:
        for commit in found:
            if commit.oid in names:
                continue
            name = next((name for name, patch in left.items() if same(patch, commit)), None)
            if name is not None:
                names[commit.oid] = name
                del left[name]

    pair(lambda patch, commit: patch.subject == commit.subject and patch.author == commit.author)
    pair(lambda patch, commit: patch.subject == commit.subject)
    pair(lambda patch, commit: patch.author == commit.author)
    taken = set(patchset.series.names)
    for commit in found:
        if commit.oid not in names:
            name = unique_name(commit.subject, taken)
            taken.add(name)
            names[commit.oid] = name
    return [names[commit.oid] for commit in found]


def _lint(source: Path, tag: str, root: Oid, found: Sequence[RepositoryCommit]) -> None:
    before = root
    for commit in found:
        shown = f"{source}: {commit.oid[:12]} {commit.subject!r}"
        if commit.tree == before:
            raise RequestError(f"{shown} changes nothing", hint=f"git -C {source} rebase --interactive {tag}")
        before = commit.tree
        for line in unsafe_lines(commit.message):
            raise PatchsetError(
                f"{shown} message line {line.line}: {line.reason}: {line.text!r}",
                hint=f"git -C {source} rebase --interactive {tag}, and reword it",
            )


def _prove(
    patches: Mapping[PatchName, bytes], tree: Overlay, trees: Sequence[Oid], store: GitStore, root: Oid
) -> None:
    """Each patch file, read back and applied, must give the tree of the commit that it was made of."""
    growing = store.growing_tree(root)
    for (name, text), expected in zip(patches.items(), trees, strict=True):
        patch = parse_patch(name, text, file=f"{name}.patch")
        changes = apply_patch(patch, tree, file=f"{name}.patch")
        made, _objects = growing.change({change.path: change.after for change in changes})
        if made != expected:
            raise PatchsetError(
                f"{name}.patch would not give back its commit: tree {made[:12]}, not {expected[:12]}"
            )


def _report(
    project: Project,
    patchset: Patchset,
    patches: Mapping[PatchName, bytes],
    written: Sequence[str],
    *,
    dry_run: bool,
) -> None:
    console = project.console
    removed = [name for name in patchset.series.names if name not in patches]
    console.document(
        {"series": list(patches), "written": list(written), "removed": removed, "dry_run": dry_run}
    )
    for name in written:
        console.answer(f"{'would write' if dry_run else 'wrote'} {project.path / name}")
    for name in removed:
        console.answer(f"{'would remove' if dry_run else 'removed'} {project.path / name}.patch")
    if not written and not removed:
        console.answer("nothing changed")
