"""Stories of `forktool pr submit`: a search, a push, one draft pull request."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.github_git import git
from tests.support.github_server import GitHubServer
from tests.support.pull_requests import (
    FORK,
    TOKEN,
    UPSTREAM,
    configure,
    fork_branch,
    hosted,
    submitted,
)  # fmt: skip
from tests.support.story import Story


@pytest.fixture
def hub(story: Story, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[GitHubServer]:
    with hosted(story, tmp_path, monkeypatch) as server:
        yield server


def test_submit_pushes_and_opens_one_draft_and_submitting_again_changes_nothing(
    story: Story, hub: GitHubServer
) -> None:
    first = submitted(story)

    assert first["action"] == "created"
    (pull,) = hub.pulls[UPSTREAM].values()
    assert pull["draft"] is True
    assert pull["maintainer_can_modify"] is True
    assert pull["head"][:2] == ("maintainer", "forktool/kimi")
    assert pull["base"] == "main"
    assert pull["title"] == "[Spec Decode] Accept Kimi-K2 as a target"
    assert (
        "Duplicate search: none of 0 open and closed pull requests and issues does the same." in pull["body"]
    )
    assert pull["files"] == ("engine/gate.py",)
    again = story.run("pr", "submit", "kimi", "--json")
    assert again.document["pulls"][0]["action"] == "unchanged"
    assert again.document["pulls"][0]["number"] == first["number"]
    assert len(hub.pulls[UPSTREAM]) == 1
    assert hub.calls("PATCH", "/pulls/") == []


def test_a_body_that_upstreams_job_rewrote_is_not_edited_again(story: Story, hub: GitHubServer) -> None:
    number = submitted(story)["number"]
    pull = hub.pulls[UPSTREAM][number]
    pull["body"] = "<!-- a comment of theirs -->\r\n" + pull["body"].replace("\n", "\r\n") + "\r\n\r\n\r\n"

    result = story.run("pr", "submit", "kimi", "--json")

    assert result.document["pulls"][0]["action"] == "unchanged"
    file = story.project / ".forktool/pr/kimi.md"
    file.write_text(file.read_text().replace("Add it.", "Add it, at the end."))
    assert story.run("pr", "submit", "kimi", "--json").document["pulls"][0]["action"] == "updated"
    assert "Add it, at the end." in hub.pulls[UPSTREAM][number]["body"]


def test_an_upstream_that_moved_on_is_followed_by_the_same_pull_request(
    story: Story, hub: GitHubServer
) -> None:
    number = submitted(story)["number"]
    before = fork_branch(hub, "forktool/kimi")
    story.commit({"engine/new.py": "new = 1\n"}, "Upstream moves")

    second = submitted(story)

    assert second["number"] == number
    after = fork_branch(hub, "forktool/kimi")
    assert after != before
    assert git(hub.repositories[FORK].path, "rev-parse", f"{after}^") == git(
        story.upstream, "rev-parse", "main"
    )
    assert fork_branch(hub, "main") != git(story.upstream, "rev-parse", "main")  # the fork's own branch stays


@pytest.mark.parametrize(("when", "status"), [("after", 502), ("after", 0)])
def test_an_answer_that_was_lost_is_adopted_and_never_makes_two(
    story: Story, hub: GitHubServer, when: str, status: int
) -> None:
    hub.fault("POST", "/pulls$", when, status)

    entry = submitted(story)

    assert entry["action"] == "adopted"
    assert len(hub.pulls[UPSTREAM]) == 1
    assert len(hub.calls("POST", "/pulls$")) == 1


@pytest.mark.parametrize("status", [502, 0])
def test_a_request_that_failed_before_it_did_anything_is_reported_and_can_be_repeated(
    story: Story, hub: GitHubServer, status: int
) -> None:
    story.run("pr", "draft", "kimi", "--no-hooks")
    hub.fault("POST", "/pulls$", "before", status)

    result = story.run("pr", "submit", "kimi")

    assert result.code == 4
    assert result.err.count("error:") == 1
    assert "hint:" in result.err
    assert hub.pulls[UPSTREAM] == {}
    assert len(hub.calls("POST", "/pulls$")) == 1
    assert story.run("pr", "submit", "kimi").code == 0
    assert len(hub.pulls[UPSTREAM]) == 1


@pytest.mark.parametrize(
    "path", ["/repos/upstream-org/engine$", "/search/issues", "/pulls$", "/repos/maintainer/engine$"]
)
def test_reads_that_fail_twice_are_tried_again(story: Story, hub: GitHubServer, path: str) -> None:
    hub.fault("GET", path, "before", 502, times=2)

    assert submitted(story)["action"] == "created"


def test_the_fork_is_made_when_it_is_not_there(story: Story, hub: GitHubServer) -> None:
    configure(story, f'upstream = "{UPSTREAM}"', f'base-url = "{hub.base_url}"')
    del hub.repositories[FORK]
    shutil.rmtree(hub.root / f"{FORK}.git")

    assert submitted(story)["action"] == "created"
    assert len(hub.calls("POST", "/forks$")) == 1
    assert hub.calls("POST", "/forks$")[0].body == {"default_branch_only": True}
    assert len(hub.calls("GET", f"/repos/{FORK}$")) > hub.fork_delay


def test_a_repository_of_that_name_that_is_no_fork_is_refused(story: Story, hub: GitHubServer) -> None:
    hub.repositories[FORK].parent = None
    story.run("pr", "draft", "kimi", "--no-hooks")

    result = story.run("pr", "submit", "kimi")

    assert result.code == 2
    assert f"{FORK} is no fork of {UPSTREAM}" in result.err
    assert "git-receive-pack" not in str(hub.asked)


def test_a_branch_that_someone_else_pushed_to_is_not_overwritten(story: Story, hub: GitHubServer) -> None:
    submitted(story)
    fork = hub.repositories[FORK].path
    theirs = git(
        fork, "-c", "user.name=Reviewer", "-c", "user.email=r@example.org", "commit-tree",
        "forktool/kimi^{tree}", "-p", "forktool/kimi", "-m", "A reviewer's fix",
    )  # fmt: skip
    git(fork, "update-ref", "refs/heads/forktool/kimi", theirs)

    result = story.run("pr", "submit", "kimi")

    assert result.code == 3
    assert f"forktool/kimi of {FORK} names {theirs[:12]}, which forktool did not push" in result.err
    assert f"forktool pr submit kimi --replace {theirs}" in result.err
    assert fork_branch(hub, "forktool/kimi") == theirs
    assert story.run("pr", "submit", "kimi", "--replace", theirs).code == 0
    assert fork_branch(hub, "forktool/kimi") != theirs


def test_another_machine_takes_the_branch_up_without_our_record(story: Story, hub: GitHubServer) -> None:
    number = submitted(story)["number"]
    (story.project / ".forktool/pr/kimi.json").unlink()
    story.commit({"engine/new.py": "new = 1\n"}, "Upstream moves")
    story.run("pr", "draft", "kimi", "--no-hooks", "--force")

    result = story.run("pr", "submit", "kimi", "--json")

    assert result.code == 0, result.err
    assert result.document["pulls"][0]["number"] == number


def test_a_likely_duplicate_stops_until_a_reason_is_given(story: Story, hub: GitHubServer) -> None:
    other = hub.add_pull(
        UPSTREAM,
        title="[Model] Kimi-K2 accepted as EAGLE-3 target",
        body="Adds `kimi_k2`.",
        files=("engine/gate.py",),
    )
    hub.add_pull(UPSTREAM, title="[Doc] Fix a typo", files=("README.md",))
    issue = hub.add_issue(UPSTREAM, title="Kimi-K2 is refused as target", body="kimi_k2")
    story.run("pr", "draft", "kimi", "--no-hooks")

    stopped = story.run("pr", "submit", "kimi")

    assert stopped.code == 3
    assert f"! #{other} open pull request: [Model] Kimi-K2 accepted as EAGLE-3 target" in stopped.out
    assert "touches engine/gate.py" in stopped.out
    assert f"  #{issue} open issue" in stopped.out
    assert "typo" not in stopped.out
    assert (
        'hint: read them; if none does the same: forktool pr submit kimi --not-duplicate "REASON"'
        in stopped.err
    )
    assert fork_branch(hub, "forktool/kimi") == ""
    assert len(hub.pulls[UPSTREAM]) == 2

    result = story.run("pr", "submit", "kimi", "--not-duplicate", f"#{other} is for another gate", "--json")
    assert result.code == 0
    number = result.document["pulls"][0]["number"]
    assert f"Not a duplicate: #{other} is for another gate" in hub.pulls[UPSTREAM][number]["body"]


def test_a_body_over_githubs_limit_is_cut_with_a_link_to_all_of_it(story: Story, hub: GitHubServer) -> None:
    story.run("pr", "draft", "kimi", "--no-hooks")
    file = story.project / ".forktool/pr/kimi.md"
    file.write_text(file.read_text() + "\n" + "a line of the report\n" * 4000)

    result = story.run("pr", "submit", "kimi", "--json")

    assert result.code == 0, result.err
    assert "over GitHub's 65,536 characters; it was cut, with a link" in result.err
    (pull,) = hub.pulls[UPSTREAM].values()
    assert len(pull["body"]) <= 65_536
    link = re.search(rf"\[the full report\]\({hub.web}/{FORK}/blob/([0-9a-f]{{40}})/kimi\.md\)", pull["body"])
    assert link is not None
    whole = git(hub.repositories[FORK].path, "show", f"{link[1]}:kimi.md")
    assert whole.count("a line of the report") == 4000
    assert story.run("pr", "submit", "kimi", "--json").document["pulls"][0]["action"] == "unchanged"


def test_a_dry_run_searches_and_pushes_nothing(story: Story, hub: GitHubServer) -> None:
    story.run("pr", "draft", "kimi", "--no-hooks")

    result = story.run("pr", "submit", "kimi", "--dry-run")

    assert result.code == 0
    assert {item.method for item in hub.asked} == {"GET"}
    assert hub.pulls[UPSTREAM] == {}


def test_a_draft_that_its_patch_left_behind_is_refused(story: Story, hub: GitHubServer) -> None:
    assert story.run("pr", "submit", "kimi").err.startswith(
        "error: kimi has no draft\nhint: forktool pr draft kimi"
    )
    story.run("pr", "draft", "kimi", "--no-hooks")
    file = story.project / "patchset/kimi.patch"
    file.write_text(file.read_text().replace("Add it.", "Add it now."))

    result = story.run("pr", "submit", "kimi")

    assert result.code == 2
    assert "kimi changed since its draft was written" in result.err
    assert hub.asked == []


def test_no_secret_is_printed_passed_as_an_argument_or_kept(
    story: Story, hub: GitHubServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    story.run("pr", "draft", "kimi", "--no-hooks")

    result = story.run("pr", "submit", "kimi", "--verbose")

    assert result.code == 0
    assert "push --porcelain" in result.err
    assert TOKEN not in result.out + result.err
    assert any(item.method == "GIT" and item.token == TOKEN for item in hub.asked)
    for file in (story.project / ".forktool").rglob("*"):
        if file.is_file():
            assert TOKEN.encode() not in file.read_bytes(), file


def test_a_branch_that_upstream_renamed_is_named(story: Story, hub: GitHubServer) -> None:
    story.run("pr", "draft", "kimi", "--no-hooks")
    story.git("branch", "--move", "main", "trunk")
    hub.repositories[UPSTREAM].branch = "trunk"

    drafted = story.run("pr", "draft", "kimi", "--no-hooks", "--onto", "main")
    assert drafted.code == 2
    assert "has no branch main; its default branch is trunk" in drafted.err
    assert "hint: name it: --onto trunk" in drafted.err
    submitted = story.run("pr", "submit", "kimi")
    assert submitted.code == 2
    assert f"{UPSTREAM} has no branch main any more; its default branch is trunk" in submitted.err
    assert "hint: forktool pr draft kimi" in submitted.err
    assert fork_branch(hub, "forktool/kimi") == ""
    assert story.run("pr", "draft", "kimi", "--no-hooks").code == 0
    assert story.run("pr", "submit", "kimi").code == 0


# What GitHub refuses: each one line and a hint, and nothing half-done


def refused(story: Story, hub: GitHubServer, code: int) -> str:
    """Submit, expect `code`, one error line and one hint, and that no pull request and no branch came of it."""
    assert story.run("pr", "draft", "kimi", "--no-hooks").code == 0
    result = story.run("pr", "submit", "kimi")
    assert result.code == code, result.err
    lines = [line for line in result.err.splitlines() if not line.startswith("pushing ")]
    assert [line.partition(":")[0] for line in lines] == ["error", "hint"], result.err
    assert result.out == ""
    assert hub.pulls[UPSTREAM] == {}
    return lines[0]


def test_no_network(story: Story, hub: GitHubServer) -> None:
    configure(story, f'upstream = "{UPSTREAM}"', f'fork = "{FORK}"', 'base-url = "http://localhost:9"')
    assert refused(story, hub, 4).startswith("error: cannot reach localhost: Connection refused")
    offline = story.run("pr", "submit", "kimi", "--offline")
    assert offline.code == 4
    assert "GitHub must be asked and --offline forbids it" in offline.err


def test_no_login(story: Story, hub: GitHubServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("FORKTOOL_GITHUB_TOKEN")
    assert story.run("pr", "draft", "kimi", "--no-hooks").code == 0
    only_git = tmp_path / "only-git"
    only_git.mkdir()
    (only_git / "git").symlink_to(str(shutil.which("git")))
    monkeypatch.setenv("PATH", str(only_git))
    result = story.run("pr", "submit", "kimi")
    assert result.code == 2
    assert result.err.startswith(
        "error: there is no login for localhost\nhint: set FORKTOOL_GITHUB_TOKEN, or: gh auth"
    )


def test_a_token_that_expired(story: Story, hub: GitHubServer) -> None:
    del hub.tokens[TOKEN]
    assert refused(story, hub, 4) == "error: localhost refuses the login (401): Bad credentials"


def test_a_token_without_the_scope(story: Story, hub: GitHubServer) -> None:
    hub.login(TOKEN, "maintainer", "gist")
    assert refused(story, hub, 4) == (
        f"error: cannot set the branch forktool/upstream of {FORK}: the token lacks the scope public_repo or repo; "
        "it has gist (403)"
    )
    assert fork_branch(hub, "forktool/kimi") == ""


def test_a_private_fork_that_the_token_may_not_see(story: Story, hub: GitHubServer) -> None:
    hub.repositories[FORK].private = True
    hub.login(TOKEN, "maintainer", "public_repo")
    assert refused(story, hub, 4) == (
        f"error: cannot read {FORK}: the token lacks the scope repo; it has public_repo (404)"
    )
    assert hub.calls("POST", "/forks$") == []


def test_an_archived_upstream(story: Story, hub: GitHubServer) -> None:
    hub.repositories[UPSTREAM].archived = True
    assert refused(story, hub, 2) == f"error: {UPSTREAM} is archived: it takes no pull requests"
    assert fork_branch(hub, "forktool/kimi") == ""


def test_a_renamed_upstream(story: Story, hub: GitHubServer) -> None:
    hub.repositories["upstream-org/motor"] = hub.repositories.pop(UPSTREAM)
    hub.repositories["upstream-org/motor"].name = "upstream-org/motor"
    hub.renamed[UPSTREAM] = "upstream-org/motor"
    assert refused(story, hub, 2) == f"error: {UPSTREAM} is now upstream-org/motor"


def test_an_upstream_that_is_not_there(story: Story, hub: GitHubServer) -> None:
    configure(story, 'upstream = "nobody/nothing"', f'base-url = "{hub.base_url}"')
    assert refused(story, hub, 4) == (
        "error: cannot read nobody/nothing: localhost has no such thing, or the login may not see it (404)"
    )


def test_a_head_that_github_does_not_see_yet(story: Story, hub: GitHubServer) -> None:
    hub.fault(
        "POST", "/pulls$", "before", 422,
        document={"message": "Validation Failed", "errors": [{"field": "head", "code": "invalid"}]},
    )  # fmt: skip
    assert refused(story, hub, 4) == (
        "error: cannot open the pull request of maintainer:forktool/kimi: head is invalid (422)"
    )
    assert story.run("pr", "submit", "kimi").code == 0


def test_a_rate_limit(story: Story, hub: GitHubServer) -> None:
    hub.fault(
        "GET", "/search/issues", "before", 403,
        document={"message": "API rate limit exceeded for user ID 7."},
        headers={"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": str(int(time.time()) + 600)},
    )  # fmt: skip
    line = refused(story, hub, 4)
    assert re.fullmatch(
        r"error: localhost limits the rate of requests until \d\d:\d\d:\d\d UTC, \d+ s from now", line
    )
    assert fork_branch(hub, "forktool/kimi") == ""


def test_patchset_without_an_upstream_repository(story: Story, hub: GitHubServer) -> None:
    configure(story, f'fork = "{FORK}"')
    assert refused(story, hub, 2).endswith("patchset.toml names no repository for pull requests")
