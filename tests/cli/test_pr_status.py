"""Stories of `forktool pr status`: what became of a pull request, and what it means."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.github_server import GitHubServer
from tests.support.pull_requests import (
    GATE,
    PROBE,
    UPSTREAM,
    fork_branch,
    hosted,
    submitted,
)  # fmt: skip
from tests.support.story import Story


@pytest.fixture
def hub(story: Story, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[GitHubServer]:
    with hosted(story, tmp_path, monkeypatch) as server:
        yield server


def test_status_tells_reviews_checks_and_what_it_means(story: Story, hub: GitHubServer) -> None:
    number = submitted(story)["number"]
    sha = fork_branch(hub, "forktool/kimi")
    hub.reviews[number] = [
        {"id": 1, "state": "APPROVED", "user": {"login": "ann"}},
        {"id": 2, "state": "COMMENTED", "user": {"login": "bob"}},
        {"id": 3, "state": "CHANGES_REQUESTED", "user": {"login": "bob"}},
    ]
    hub.check_runs[sha] = [
        {"id": 1, "status": "completed", "conclusion": "success"},
        {"id": 2, "status": "in_progress", "conclusion": None},
    ]

    result = story.run("pr", "status")

    assert result.code == 0, result.err
    assert f"kimi  #{number} draft: carry it; bob asks for changes" in result.out
    assert "approved by ann" in result.out
    assert "checks: 1 in_progress, 1 success" in result.out


def test_a_merged_pull_request_is_found_in_the_first_release_that_has_it_and_the_trailers_follow(
    story: Story, hub: GitHubServer
) -> None:
    number = submitted(story)["number"]
    story.release("v1.1", {"engine/c.py": "c = 1\n"})
    landed = story.commit({"engine/gate.py": GATE.replace("]", '    "kimi_k2",\n]')}, "Accept Kimi-K2 (#101)")
    story.release("v1.2")
    story.release("v1.3")
    hub.merge(UPSTREAM, number, landed)

    result = story.run("pr", "status", "--write")

    assert result.code == 0, result.err
    assert f"kimi  #{number} merged: in v1.2: it leaves the series with forktool rebase v1.2" in result.out
    text = (story.project / "patchset/kimi.patch").read_text()
    assert f"\nForwarded: {hub.web}/{UPSTREAM}/pull/{number}\nApplied-Upstream: v1.2\nSigned-off-by:" in text
    assert "Forwarded: no" not in text
    assert story.run("check").code == 0
    before = story.snapshot()
    assert story.run("pr", "status", "--write").code == 0
    assert story.snapshot() == before


def test_a_revert_is_seen_and_its_trailer_taken_back(story: Story, hub: GitHubServer) -> None:
    number = submitted(story)["number"]
    landed = story.commit({"engine/gate.py": GATE.replace("]", '    "kimi_k2",\n]')}, "Accept Kimi-K2 (#101)")
    story.release("v1.1")
    hub.merge(UPSTREAM, number, landed)
    story.run("pr", "status", "--write")
    assert "Applied-Upstream: v1.1" in (story.project / "patchset/kimi.patch").read_text()
    undone = story.commit({"engine/gate.py": GATE}, "Revert (#101)")
    story.release("v1.2")
    revert = hub.add_pull(UPSTREAM, title=f'Revert "Accept Kimi-K2 (#{number})"', body=f"Reverts #{number}")
    hub.merge(UPSTREAM, revert, undone)

    result = story.run("pr", "status", "--write", "--json")

    (entry,) = result.document["patches"]
    assert entry["merged_in"] == "v1.1"
    assert entry["reverted_by"] == revert
    assert entry["means"] == f"carry it; in v1.1, taken back by #{revert} (v1.2)"
    assert "Applied-Upstream" not in (story.project / "patchset/kimi.patch").read_text()


def test_a_patch_without_a_pull_request_says_so_and_dry_run_writes_nothing(
    story: Story, hub: GitHubServer
) -> None:
    before = story.snapshot()

    result = story.run("pr", "status", "--write", "--dry-run")

    assert result.code == 0
    assert "kimi  no pull request (Forwarded: no)" in result.out
    assert story.snapshot() == before
    assert PROBE in (story.project / "patchset/probes/kimi.py").read_text()
