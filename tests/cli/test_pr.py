"""Stories of `forktool pr draft`: upstream's template, filled with what is known."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.github_git import git
from tests.support.github_server import GitHubServer
from tests.support.pull_requests import (
    GATE,
    MESSAGE,
    NEW_TEMPLATE,
    OTHER,
    UPSTREAM,
    configure,
    hosted,
)  # fmt: skip
from tests.support.story import Story


@pytest.fixture
def hub(story: Story, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[GitHubServer]:
    with hosted(story, tmp_path, monkeypatch) as server:
        yield server


def body_of(story: Story, name: str = "kimi") -> str:
    return (story.project / f".forktool/pr/{name}.md").read_text()


def test_a_draft_follows_the_template_of_the_branch_and_strips_the_forks_trailers(
    story: Story, hub: GitHubServer
) -> None:
    result = story.run("pr", "draft", "kimi", "--no-hooks")

    assert result.code == 0, result.err
    text = body_of(story)
    assert text.startswith("[Spec Decode] Accept Kimi-K2 as a target\n\n## Purpose\n")
    headings = re.findall(r"^## .*$", text, re.MULTILINE)
    assert headings == ["## Purpose", "## Test Plan", "## Test Result"]
    assert "The gate refuses every model type but a few, and kimi_k2 is not among them." in text
    assert "`@somebody`" in text
    assert "| it | fail | pass |" in text
    assert "Size: +1 −0 lines, 1 as docs/contributing/README.md counts them" in text
    assert '- [x] The purpose of the PR, such as "Fix some issue".' in text
    assert "- [ ] (Optional) The necessary documentation update." in text
    assert "BEFORE SUBMITTING" not in text
    assert "PLEASE FILL" not in text
    assert not re.search(r"^(Reason|Forwarded):", text, re.MULTILINE)
    commit = json.loads((story.project / ".forktool/pr/kimi.json").read_text())
    store = story.project / ".forktool/upstream.git"
    assert git(store, "rev-parse", f"{commit['commit']}^") == git(story.upstream, "rev-parse", "main")
    message = git(store, "log", "-1", "--format=%B", commit["commit"])
    assert message.endswith("Signed-off-by: A Maintainer <maintainer@example.org>")
    assert "Forwarded" not in message
    assert git(store, "diff", "--numstat", f"{commit['commit']}^", commit["commit"]) == "1\t0\tengine/gate.py"
    assert hub.asked == []


def test_a_draft_follows_a_template_of_other_sections(story: Story, hub: GitHubServer) -> None:
    story.commit({".github/PULL_REQUEST_TEMPLATE.md": NEW_TEMPLATE}, "Another template")
    configure(
        story, f'upstream = "{UPSTREAM}"', 'ai-assistance = "A model wrote the first version; I read it."'
    )

    result = story.run("pr", "draft", "kimi", "--no-hooks", "--json")

    assert result.code == 0, result.err
    text = body_of(story)
    assert re.findall(r"^## .*$", text, re.MULTILINE) == [
        "## Overview",
        "## Claims",
        "## Validation",
        "## Details",
    ]
    assert "- [x] AI assistance was used during the creation of this PR." in text
    assert "- [ ] I used the `/pr-checklist` skill." in text
    assert "AI assistance: A model wrote the first version; I read it." in text
    (entry,) = result.document["drafts"]
    assert entry["verdict"] == "unchanged"
    assert any(todo.startswith("tick if true: I used the `/pr-checklist` skill") for todo in entry["todo"])
    assert any("no matrix evidence" in todo for todo in entry["todo"])


def test_what_upstream_has_already_is_said_with_its_commit(story: Story, hub: GitHubServer) -> None:
    story.commit({"engine/other.py": OTHER + "more = 2\n"}, "Something else")
    landed = story.commit({"engine/gate.py": GATE.replace("]", '    "kimi_k2",\n]')}, "Support Kimi (#77)")
    story.commit({"engine/other.py": OTHER + "more = 3\n"}, "Move on again")

    result = story.run("pr", "draft", "kimi", "--no-hooks")

    assert result.code == 1
    assert f"upstream has it since {landed[:12]}: Support Kimi (#77)" in result.out
    assert not (story.project / ".forktool/pr/kimi.md").exists()
    document = story.run("pr", "draft", "kimi", "--no-hooks", "--json").document
    assert document["drafts"][0]["absorbed_by"] == {"commit": landed, "subject": "Support Kimi (#77)"}


def test_a_patch_in_the_middle_goes_upstream_without_those_before_it(story: Story, hub: GitHubServer) -> None:
    story.patch(
        "ten",
        {"engine/other.py": OTHER.replace("line_10 = 10", "line_10 = 'ten'")},
        message=MESSAGE.replace("Accept Kimi-K2 as a target", "Spell ten"),
        probe='assert "\'ten\'" in tree.read_text("engine/other.py")',
    )

    result = story.run("pr", "draft", "ten", "--no-hooks")

    assert result.code == 0, result.err
    commit = json.loads((story.project / ".forktool/pr/ten.json").read_text())["commit"]
    store = story.project / ".forktool/upstream.git"
    assert git(store, "diff", "--name-only", f"{commit}^", commit) == "engine/other.py"


def test_a_patch_that_conflicts_with_main_stops(story: Story, hub: GitHubServer) -> None:
    story.commit(
        {"engine/gate.py": GATE.replace('[\n    "llama",\n    "qwen",\n]', "load()")}, "Close the list"
    )

    result = story.run("pr", "draft", "kimi", "--no-hooks")

    assert result.code == 3
    assert "conflict" in result.out
    assert not (story.project / ".forktool/pr").exists()


def test_a_title_that_upstream_refuses_names_the_rule(story: Story, hub: GitHubServer) -> None:
    story.patch("plain", {"engine/b.py": "b = 1\n"}, message=MESSAGE.replace("[Spec Decode] ", ""))

    result = story.run("pr", "draft", "plain", "--no-hooks")

    assert result.code == 2
    assert "is no title for upstream: it must match" in result.err
    assert ".github/workflows/pr-title.yml" in result.err
    assert "hint: set plain =" in result.err
    configure(story, f'upstream = "{UPSTREAM}"', "[pull-request.titles]", 'plain = "[Bugfix] Accept Kimi-K2"')
    assert story.run("pr", "draft", "plain", "--no-hooks").code == 0
    assert body_of(story, "plain").startswith("[Bugfix] Accept Kimi-K2\n\n")


def test_evidence_of_this_tree_makes_a_table_and_of_another_tree_is_refused(
    story: Story, hub: GitHubServer
) -> None:
    story.run("pr", "draft", "kimi", "--no-hooks")
    tree = json.loads((story.project / ".forktool/pr/kimi.json").read_text())["tree"]
    gates = [{"check": "accepted", "outcome": "passed", "detail": "acceptance rate 0.5178"}]
    cells = [
        {"identifier": "kimi-eagle3", "outcome": "passed", "gates": gates, "evidence": {"gpus": ["B200"]}},
        {"identifier": "kimi-plain", "outcome": "passed", "evidence": {"gpus": ["B200"]}},
    ]
    results = story.project / ".forktool/matrix/results.json"
    results.parent.mkdir()
    results.write_text(json.dumps({"tree": tree, "wheel_sha256": "ab" * 32, "cells": cells}))

    assert story.run("pr", "draft", "kimi", "--no-hooks").code == 0
    text = body_of(story)
    assert "| cell | hardware | result | accepted |" in text
    assert "| kimi-eagle3 | 1x B200 | passed | acceptance rate 0.5178 |" in text
    assert "| kimi-plain | 1x B200 | passed | – |" in text

    results.write_text(json.dumps({"tree": "1" * 40, "cells": cells}))
    left_out = story.run("pr", "draft", "kimi", "--no-hooks")
    assert left_out.code == 0
    assert "the matrix tested tree 111111111111, the tree at hand is" in left_out.err
    assert "kimi-eagle3" not in body_of(story)
    refused = story.run("pr", "draft", "kimi", "--no-hooks", "--evidence", str(results))
    assert refused.code == 2
    assert "the matrix tested tree 111111111111, the tree at hand is" in refused.err
    assert "hint: forktool matrix run" in refused.err


def test_an_edited_draft_is_not_overwritten(story: Story, hub: GitHubServer) -> None:
    story.run("pr", "draft", "kimi", "--no-hooks")
    file = story.project / ".forktool/pr/kimi.md"
    file.write_text(file.read_text() + "\nMy own words.\n")

    refused = story.run("pr", "draft", "kimi", "--no-hooks")

    assert refused.code == 2
    assert "was edited by hand" in refused.err
    assert "My own words." in file.read_text()
    assert story.run("pr", "draft", "kimi", "--no-hooks", "--force").code == 0
    assert "My own words." not in file.read_text()


def test_a_dry_run_shows_the_text_and_writes_nothing(story: Story, hub: GitHubServer) -> None:
    result = story.run("pr", "draft", "kimi", "--no-hooks", "--dry-run")

    assert result.code == 0
    assert "## Test Result" in result.out
    assert not (story.project / ".forktool/pr").exists()
