"""`forktool pr submit`: search for duplicates, push to the fork, open or update a draft pull request."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from forktool.adapters.draft_files import Draft, load_draft, read_text, save_draft
from forktool.adapters.git_push import Fork
from forktool.adapters.git_store import GitStore
from forktool.adapters.github import GitHub
from forktool.adapters.github_answers import Hosted, Submitted
from forktool.adapters.github_login import find_login
from forktool.adapters.http import OfflineError
from forktool.adapters.patchset_files import CONFIG, Patchset
from forktool.commands.pr import config_of
from forktool.commands.project import Project
from forktool.core.duplicates import Match, queries, ranked, statement, wanted
from forktool.core.objects import EMPTY_TREE, Entry, Mode, Oid, encode_commit, is_oid, new_object
from forktool.core.pr_template import LIMIT, shortened
from forktool.core.pull_request import PullRequestConfig, branch_name, upstream_message, with_duplicates
from forktool.core.series import Patch
from forktool.errors import ExitCode, RequestError, StoppedError

SYNC_BRANCH = "forktool/upstream"
"""A branch of the fork on the upstream commit that a pull request starts from; its other branches stay as they are."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Ready:
    """A draft that may be submitted, and what was found that is like it."""

    patch: Patch
    draft: Draft
    title: str
    body: str
    matches: tuple[Match, ...]


def connect(project: Project, config: PullRequestConfig, *, wait: float) -> tuple[GitHub, str]:
    """GitHub, and the upstream repository's name there.

    Raises:
        RequestError: patchset.toml names no upstream, or there is no login.
        NetworkError: `--offline` forbids it.
    """
    if config.upstream is None:
        raise RequestError(
            f"{project.path / CONFIG} names no repository for pull requests",
            hint='set `upstream = "OWNER/NAME"` under [pull-request] in patchset.toml',
        )
    if project.offline:
        raise OfflineError("GitHub must be asked and --offline forbids it", hint="run it without --offline")
    return GitHub(base_url=config.base_url, login=find_login(config.base_url), wait=wait), config.upstream


def submit(
    project: Project,
    *,
    names: Sequence[str],
    not_duplicate: str | None,
    replaces: str | None,
    wait: float,
    dry_run: bool,
) -> ExitCode:
    """Submit drafts, each as a draft pull request of its own.

    Args:
        project: the project.
        names: patches that have a draft.
        not_duplicate: why what looks alike does not do the same; goes into the body.
        replaces: the commit of the fork's branch that may be overwritten, where it is not one of ours.
        wait: the longest time in seconds to wait for a rate limit to end.
        dry_run: search and check, push and open nothing.

    Returns:
        DONE, or STOPPED where something that is likely a duplicate was found.

    Raises:
        RequestError: no draft, or one that the patch or upstream has left behind.
        StoppedError: somebody else pushed to the fork's branch.
        OutsideError: GitHub or git refuses, or was not reached.
    """
    if replaces is not None and not is_oid(replaces):
        raise RequestError(f"{replaces} is no full commit id", hint="--replace takes 40 hexadecimal digits")
    with project.state.lock(), project.store() as store:
        patchset = project.read()
        config = config_of(patchset)
        github, name = connect(project, config, wait=wait)
        drafts = [_checked(project, patchset, store, patch) for patch in names]
        upstream = _upstream(github, name, drafts)
        submitting = _Submitting(
            project=project, store=store, github=github, upstream=upstream, config=config, replaces=replaces,
            not_duplicate=not_duplicate, dry_run=dry_run,
        )  # fmt: skip
        return submitting.run([patchset.series.find(patch) for patch in names], drafts)


def _checked(project: Project, patchset: Patchset, store: GitStore, name: str) -> Draft:
    patch = patchset.series.find(name)
    kept = load_draft(project.state, patch.name)
    again = f"forktool pr draft {name}"
    if kept is None:
        raise RequestError(f"{name} has no draft", hint=again)
    if kept.patch != patch.digest:
        raise RequestError(f"{name} changed since its draft was written", hint=again)
    if store.resolve(f"{kept.commit}^{{commit}}") is None:
        raise RequestError(f"the commit of {name}'s draft is gone from {store.path}", hint=again)
    return kept


def _upstream(github: GitHub, name: str, drafts: Sequence[Draft]) -> Hosted:
    """Upstream's repository, fit to take these drafts.

    Raises:
        RequestError: it is archived, was renamed, or lost the branch that a draft is for.
    """
    found = github.repository(name)
    if found.name.lower() != name.lower():
        raise RequestError(
            f"{name} is now {found.name}",
            hint=f'set `upstream = "{found.name}"` under [pull-request] in patchset.toml',
        )
    if found.is_archived:
        raise RequestError(
            f"{name} is archived: it takes no pull requests",
            hint="look where its work went on, at " + found.url,
        )
    for item in drafts:
        if item.base != found.default_branch and not github.has_branch(name, item.base):
            raise RequestError(
                f"{name} has no branch {item.base} any more; its default branch is {found.default_branch}",
                hint=f"forktool pr draft {item.name}",
            )
    return found


@dataclass(frozen=True, kw_only=True)
class _Submitting:
    project: Project
    store: GitStore
    github: GitHub
    upstream: Hosted
    config: PullRequestConfig
    replaces: str | None
    not_duplicate: str | None
    dry_run: bool

    def run(self, patches: Sequence[Patch], drafts: Sequence[Draft]) -> ExitCode:
        fork = self.github.ensure_fork(self.upstream.name, self.config.fork, dry_run=True)
        owner = fork.name.partition("/")[0] if fork is not None else None
        ready = [self._searched(patch, item, owner) for patch, item in zip(patches, drafts, strict=True)]
        blocked = [
            item for item in ready if self.not_duplicate is None and any(m.is_likely for m in item.matches)
        ]
        results: list[tuple[_Ready, Submitted | None]] = [(item, None) for item in ready]
        if not blocked and not self.dry_run:
            made = fork or self.github.ensure_fork(self.upstream.name, self.config.fork)
            if made is None:
                raise RequestError(f"{self.upstream.name} has no fork", hint="set `fork` in patchset.toml")
            results = [(item, self._submit(item, made)) for item in ready]
        self._show(results, blocked)
        return ExitCode.STOPPED if blocked else ExitCode.DONE

    def _searched(self, patch: Patch, item: Draft, owner: str | None) -> _Ready:
        title, body = read_text(self.project.state, patch.name)
        own = (
            self.github.find_pull(self.upstream.name, f"{owner}:{branch_name(patch.name)}") if owner else None
        )
        sought = wanted(patch)
        found = self.github.search(self.upstream.name, queries(sought), with_paths=bool(sought.paths))
        found = tuple(candidate for candidate in found if own is None or candidate.number != own.number)
        matches = ranked(sought, found)
        body = with_duplicates(body, statement(matches, len(found), self.not_duplicate))
        if own is not None:
            # It stands already: what came after it does not stop its updates.
            matches = ()
        return _Ready(patch=patch, draft=item, title=title, body=body, matches=matches)

    def _submit(self, item: _Ready, fork: Hosted) -> Submitted:
        branch = branch_name(item.patch.name)
        git = Fork(self.store, fork.clone_url, self.github.token())
        self._push(git, fork, item, branch)
        body = item.body
        if len(body) > LIMIT:
            body = shortened(body, self._full_report(git, fork, item))
            self.project.console.warning(
                f"{item.patch.name}: the body is over GitHub's {LIMIT:,} characters; it was cut, with a link"
            )
        return self.github.upsert_pull(
            self.upstream.name,
            head=f"{fork.name.partition('/')[0]}:{branch}",
            base=item.draft.base,
            title=item.title,
            body=body,
        )

    def _push(self, git: Fork, fork: Hosted, item: _Ready, branch: str) -> None:
        there = git.tip(branch)
        if there is not None and there != item.draft.commit and not self._may_replace(git, item, there):
            raise StoppedError(
                f"{branch} of {fork.name} names {there[:12]}, which forktool did not push",
                hint=f"look at {fork.url}/commits/{branch}; to overwrite it: "
                f"forktool pr submit {item.patch.name} --replace {there}",
            )
        # git must find upstream's commit among the fork's branches: else it would push upstream's history, which is
        # not here in full.
        if there is None or there != item.draft.commit:
            self.github.point(fork.name, SYNC_BRANCH, item.draft.onto)
        self.project.console.note(f"pushing {branch} to {fork.name}")
        git.push(branch, item.draft.commit, expected=there)
        save_draft(self.project.state, replace(item.draft, pushed=item.draft.commit))

    def _may_replace(self, git: Fork, item: _Ready, there: Oid) -> bool:
        if there in (item.draft.pushed, self.replaces):
            return True
        # Another machine of ours may have pushed it: our commits have their author as committer, to the second.
        found = git.message(there)
        if found is None:
            return False
        author, committer, message = found
        ours = upstream_message(item.patch.message).encode("utf-8", "surrogateescape")
        return (
            author == committer == str(item.patch.author).encode("utf-8", "surrogateescape")
            and message == ours
        )

    def _full_report(self, git: Fork, fork: Hosted, item: _Ready) -> str:
        """Push the whole body as a file of its own branch, and return its URL."""
        blob = new_object("blob", item.body.encode("utf-8", "surrogateescape"))
        file = f"{item.patch.name}.md"
        root, trees = self.store.changed_tree(EMPTY_TREE, {file: Entry(Mode.FILE, blob.oid)})
        author = item.patch.author
        message = f"The full report on {item.patch.name}\n"
        body = encode_commit(tree=root, parents=(), author=author, committer=author, message=message)
        commit = new_object("commit", body)
        self.store.persist([blob, *trees, commit])
        branch = f"forktool/report/{item.patch.name}"
        git.push(branch, commit.oid, expected=git.tip(branch))
        return f"{fork.url}/blob/{commit.oid}/{file}"

    def _show(self, results: Sequence[tuple[_Ready, Submitted | None]], blocked: Sequence[_Ready]) -> None:
        console = self.project.console
        console.document(
            {
                "upstream": self.upstream.name,
                "submitted": not blocked and not self.dry_run,
                "pulls": [
                    {
                        "name": item.patch.name,
                        "title": item.title,
                        "action": made.action if made is not None else None,
                        "number": made.number if made is not None else None,
                        "url": made.url if made is not None else None,
                        "candidates": [_candidate(found) for found in item.matches],
                    }
                    for item, made in results
                ],
            }
        )
        for item, made in results:
            name = item.patch.name
            if made is not None:
                console.answer(f"{name}: {made.action} #{made.number} (draft): {made.url}")
            else:
                console.answer(f"{name}: {'likely a duplicate' if item in blocked else 'not submitted'}")
            for found in item.matches[:5]:
                mark = "!" if found.is_likely else " "
                about = found.candidate
                console.answer(f"  {mark} #{about.number} {about.state} {about.kind}: {about.title}")
                console.answer(f"      {'; '.join(found.reasons)}; {about.url}")
        if blocked:
            console.hint(
                f'read them; if none does the same: forktool pr submit {blocked[0].patch.name} --not-duplicate "REASON"'
            )
        elif not self.dry_run:
            console.hint("the pull request is a draft; a person marks it ready, on GitHub")


def _candidate(found: Match) -> dict[str, object]:
    about = found.candidate
    return {
        "number": about.number,
        "kind": about.kind.value,
        "state": about.state,
        "title": about.title,
        "url": about.url,
        "score": found.score,
        "likely": found.is_likely,
        "reasons": list(found.reasons),
    }
