"""`forktool pr draft`: the pull request of a patch, on upstream's own branch and by upstream's own template."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from forktool.adapters.draft_files import (
    Draft,
    body_file,
    digest,
    load_draft,
    save_draft,
    text_of,
    was_edited,
)
from forktool.adapters.git_source import GitSource
from forktool.adapters.git_store import GitStore, GitTree
from forktool.adapters.hooks import run_hooks
from forktool.adapters.patchset_files import CONFIG, Patchset
from forktool.adapters.state import translated
from forktool.commands.alone import Alone, Found
from forktool.commands.project import Project
from forktool.commands.replaying import Replayed
from forktool.commands.series_commits import SeriesCommits, commits_on_tag
from forktool.core.diff import FileDiff, parse_diff
from forktool.core.evidence import MatrixEvidence, check_tree, parse_evidence
from forktool.core.objects import Oid
from forktool.core.pr_rules import GUIDES, TITLE_WORKFLOW, documentation_of, size_of, title_rule
from forktool.core.pr_template import NO_TEMPLATE, PATHS, parse_template
from forktool.core.pull_request import (
    Composed,
    Hooks,
    Known,
    PullRequestConfig,
    compose,
    pull_request_config,
    upstream_message,
)
from forktool.core.report import outcome_lines
from forktool.core.series import Patch, PatchName
from forktool.core.verdict import Outcome, ProbeColour, Verdict
from forktool.errors import ExitCode, PatchsetError, RequestError


def config_of(patchset: Patchset) -> PullRequestConfig:
    """The table `[pull-request]`.

    Raises:
        PatchsetError: it is malformed.
    """
    return pull_request_config(
        patchset.config.tables.get("pull-request", {}), file=str(patchset.path / CONFIG)
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class _Drafted:
    """How one patch went: a draft, or why there is none."""

    name: PatchName
    outcome: Outcome
    todo: tuple[str, ...] = ()
    title: str = ""
    commit: Oid | None = None
    found: Found | None = None


def draft(
    project: Project,
    *,
    names: Sequence[str],
    onto: str | None,
    evidence: str | None,
    hooks: bool,
    force: bool,
    dry_run: bool,
) -> ExitCode:
    """Write the draft of each patch's pull request; push nothing.

    Args:
        project: the project.
        names: patches, each by itself.
        onto: upstream's branch; None takes its default branch.
        evidence: the matrix's results; None takes those in the state folder where they are of this tree.
        hooks: run upstream's pre-commit hooks.
        force: also over a draft that a person edited.
        dry_run: show the text, write nothing.

    Returns:
        DONE; NO where upstream has a patch already; STOPPED where a person must look at one first.

    Raises:
        RequestError: no such patch or branch; upstream's rules refuse a title; a draft was edited.
        PatchsetError: the evidence is of another tree.
        NetworkError: upstream was not reached.
    """
    with project.state.lock(), project.store() as store:
        patchset = project.read()
        patches = [patchset.series.find(name) for name in names]
        if not force and not dry_run:
            _refuse_edited(project, patches)
        with project.upstream(patchset, store) as upstream:
            source = upstream.repository()
            branch, _tip = source.branch(onto)
            tip = source.fetch_branch(branch)
            upstream.prepare([patchset.series.base.tag])
            drafting = _Drafting(
                project=project,
                patchset=patchset,
                store=store,
                source=source,
                alone=Alone(project, patchset, store, upstream),
                branch=branch,
                tip=tip,
                evidence=evidence,
                hooks=hooks and not project.offline,
                dry_run=dry_run,
            )
            drafted = [drafting.draft(patch) for patch in patches]
    _show(project, branch, tip, drafted, dry_run=dry_run)
    if any(item.outcome.verdict.is_stop for item in drafted):
        return ExitCode.STOPPED
    return ExitCode.NO if any(item.commit is None for item in drafted) else ExitCode.DONE


def _refuse_edited(project: Project, patches: Sequence[Patch]) -> None:
    for patch in patches:
        kept = load_draft(project.state, patch.name)
        if kept is not None and was_edited(project.state, kept):
            raise RequestError(
                f"{body_file(project.state, patch.name)} was edited by hand",
                hint=f"forktool pr draft {patch.name} --force writes it anew",
            )


@dataclass(frozen=True, kw_only=True)
class _Drafting:
    project: Project
    patchset: Patchset
    store: GitStore
    source: GitSource
    alone: Alone
    branch: str
    tip: Oid
    evidence: str | None
    hooks: bool
    dry_run: bool

    def draft(self, patch: Patch) -> _Drafted:
        label = f"{self.branch} at {self.tip[:12]}"
        self.source.fetch_files(self.tip, (*self.alone.paths(patch.name), *PATHS, *GUIDES, TITLE_WORKFLOW))
        onto = self.store.tree(self.store.tree_of(self.tip), label=label)
        replayed = self.alone.replay(patch.name, onto)
        outcome = replayed.steps[0].outcome
        if outcome.verdict.is_dropped:
            return _Drafted(name=patch.name, outcome=outcome, found=self._absorbed_by(patch))
        if outcome.verdict.is_stop:
            return _Drafted(name=patch.name, outcome=outcome)
        chain = commits_on_tag(_for_upstream(replayed), self.store, self.tip, onto)
        self.store.quarantine(chain.objects)
        composed = self._composed(patch, replayed, onto, chain)
        if not self.dry_run:
            self._write(patch, composed, chain)
        else:
            self.project.console.raw(text_of(composed.title, composed.body))
        return _Drafted(
            name=patch.name, outcome=outcome, todo=composed.todo, title=composed.title, commit=chain.tip
        )

    def _absorbed_by(self, patch: Patch) -> Found | None:
        """The commit of the branch since which upstream has the change."""
        base = self.patchset.series.base.tag
        if base not in self.source.tags() or self.source.branch(self.branch)[1] != self.tip:
            return None
        self.source.fetch_branch(self.branch, since=base)
        history = self.source.first_parents(self.tip)
        return self.alone.first_commit(patch.name, self.source, history, lambda found: found.is_dropped)

    def _composed(self, patch: Patch, replayed: Replayed, onto: GitTree, chain: SeriesCommits) -> Composed:
        tree = self.store.tree(chain.trees[patch.name], label=f"{onto.label} with {patch.name}")
        files = self._files(onto, tree)
        facts = replayed.steps[0].facts
        template = next((text for path in PATHS if (text := onto.read(path)) is not None), None)
        hooks = Hooks(ran=False, detail="not asked for")
        if self.hooks:
            hooks = run_hooks(self.store, tree, [path for file in files for path in file.paths])
            if not hooks.ran:
                self.project.console.note(f"upstream's pre-commit hooks did not run: {hooks.detail}")
        known = Known(
            patch=patch,
            onto=onto.label,
            probe_bare=facts.probe_bare if facts is not None else ProbeColour.ABSENT,
            probe_patched=facts.probe_patched if facts is not None else None,
            probe_tests=self._tests(patch.name),
            matrix=self._matrix(tree),
            size=size_of(files, onto.read),
            documentation=documentation_of(files),
            hooks=hooks,
        )
        return compose(
            known,
            parse_template(template.decode("utf-8", "replace") if template is not None else NO_TEMPLATE),
            title_rule(onto.read),
            config_of(self.patchset),
        )

    def _files(self, onto: GitTree, tree: GitTree) -> tuple[FileDiff, ...]:
        from forktool.adapters.git_format import diff_text

        return parse_diff(diff_text(self.store, onto.root, tree.root), name="the change")

    def _matrix(self, tree: GitTree) -> MatrixEvidence | None:
        file = Path(self.evidence) if self.evidence is not None else _results(self.project)
        if self.evidence is None and not file.is_file():
            return None
        with translated(f"cannot read {file}"):
            text = file.read_text(encoding="utf-8")
        try:
            found = parse_evidence(text, file=str(file))
            check_tree(found, tree.root, file=str(file))
        except PatchsetError as error:
            if self.evidence is not None:
                raise
            # Nobody asked for it: the last run of the matrix was about something else.
            self.project.console.warning(f"{error.message}; left out")
            return None
        return found

    def _tests(self, name: PatchName) -> tuple[str, ...]:
        file = self.patchset.probes.get(name)
        if file is None:
            return ()
        with translated(f"cannot read {file}"):
            module = ast.parse(file.read_bytes())
        return tuple(
            _words(node)
            for node in module.body
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test")
        )

    def _write(self, patch: Patch, composed: Composed, chain: SeriesCommits) -> None:
        state = self.project.state
        previous = load_draft(state, patch.name)
        self.store.persist(chain.objects)
        self.store.update_refs({f"refs/forktool/pr/{patch.name}": chain.tip})
        text = text_of(composed.title, composed.body)
        state.write(body_file(state, patch.name), text.encode("utf-8", "surrogateescape"))
        save_draft(
            state,
            Draft(
                name=patch.name,
                patch=patch.digest,
                base=self.branch,
                onto=self.tip,
                tree=chain.trees[patch.name],
                commit=chain.tip,
                written=digest(text),
                pushed=previous.pushed if previous is not None else None,
            ),
        )


def _results(project: Project) -> Path:
    return project.state.home / "matrix" / "results.json"


def _for_upstream(replayed: Replayed) -> Replayed:
    """The replay with upstream's form of each message."""
    steps = tuple(
        replace(step, patch=replace(step.patch, message=upstream_message(step.patch.message)))
        for step in replayed.steps
    )
    return replace(replayed, steps=steps)


def _words(test: ast.FunctionDef) -> str:
    said = (ast.get_docstring(test) or "").partition("\n")[0].rstrip(".")
    return said or test.name.removeprefix("test_").replace("_", " ")


def _show(project: Project, branch: str, tip: Oid, drafted: Sequence[_Drafted], *, dry_run: bool) -> None:
    console = project.console
    console.document(
        {
            "branch": branch,
            "onto": tip,
            "drafts": [
                {
                    "name": item.name,
                    "verdict": item.outcome.verdict.value,
                    "title": item.title or None,
                    "commit": item.commit,
                    "file": str(body_file(project.state, item.name)) if item.commit and not dry_run else None,
                    "todo": list(item.todo),
                    "absorbed_by": (
                        {"commit": item.found.commit, "subject": item.found.subject} if item.found else None
                    ),
                }
                for item in drafted
            ],
        }
    )
    for item in drafted:
        name = item.name
        if item.commit is None:
            for line in outcome_lines(item.outcome, width=len(name)):
                console.answer(line)
            if item.found is not None:
                since = "upstream has it" if item.outcome.verdict is Verdict.ABSORBED else "not needed"
                console.answer(f"  {since} since {item.found.commit[:12]}: {item.found.subject}")
            if item.outcome.verdict.is_stop:
                console.hint(
                    f"{name} does not go onto {branch} by itself: if it needs another patch, submit that first"
                )
            elif item.outcome.verdict in (Verdict.ABSORBED, Verdict.OBSOLETE):
                console.hint(
                    f"there is nothing to submit; forktool status --onto TAG tells when {name} can go"
                )
            continue
        where = "would be " if dry_run else ""
        console.answer(f"{name}: {item.title}")
        console.answer(f"  {where}{body_file(project.state, name)}, commit {item.commit[:12]} on {branch}")
        for todo in item.todo:
            console.note(f"  to do: {todo}")
        if not dry_run:
            console.hint(f"read and edit {body_file(project.state, name)}, then: forktool pr submit {name}")
