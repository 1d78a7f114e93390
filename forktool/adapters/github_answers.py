"""What GitHub's answers become here: plain values of what PyGithub's objects hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from forktool.core.duplicates import Candidate, Kind
from forktool.core.pr_status import Pull


@dataclass(frozen=True, kw_only=True, slots=True)
class Hosted:
    """A repository as GitHub tells it; `name` is `OWNER/NAME`, `clone_url` for git, `url` for people."""

    name: str
    default_branch: str
    clone_url: str
    url: str
    is_archived: bool
    parent: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Submitted:
    """What became of a submission: `action` is created, adopted, updated or unchanged."""

    action: str
    number: int
    url: str


def hosted(found: Any) -> Hosted:
    """A repository; `found` is PyGithub's."""
    parent = found.parent
    return Hosted(
        name=found.full_name,
        default_branch=found.default_branch,
        clone_url=found.clone_url,
        url=found.html_url,
        is_archived=found.archived,
        parent=parent.full_name if parent is not None else None,
    )


def pull_of(
    found: Any,
    *,
    approvals: tuple[str, ...] = (),
    refusals: tuple[str, ...] = (),
    checks: tuple[tuple[str, int], ...] = (),
) -> Pull:
    """A pull request; `found` is PyGithub's."""
    merged = found.merged_at is not None
    return Pull(
        number=found.number,
        url=found.html_url,
        title=found.title,
        body=found.body or "",
        state="merged" if merged else found.state,
        is_draft=bool(found.draft),
        head=found.head.label,
        head_sha=found.head.sha,
        base=found.base.ref,
        mergeable=found.mergeable_state or "unknown",
        approvals=approvals,
        refusals=refusals,
        checks=checks,
        # GitHub gives an unmerged pull request the id of a test merge in this very field.
        merge_commit=found.merge_commit_sha if merged else None,
        merged_at=found.merged_at.isoformat() if found.merged_at is not None else None,
    )


def candidate_of(issue: Any, kind: Kind, paths: tuple[str, ...]) -> Candidate:
    """A pull request or an issue that a search found; `issue` is PyGithub's, `paths` its files."""
    return Candidate(
        number=issue.number,
        kind=kind,
        title=issue.title,
        state=issue.state,
        url=issue.html_url,
        body=issue.body or "",
        paths=paths,
    )
