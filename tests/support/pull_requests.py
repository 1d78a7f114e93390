"""A fork's story with GitHub in it: upstream is hosted, a patchset sits on it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.github_server import GitHubServer
from tests.support.story import Story

UPSTREAM, FORK, TOKEN = "upstream-org/engine", "maintainer/engine", "tok_maintainer"

TEMPLATE = """\
PLEASE FILL IN THE DESCRIPTION HERE.

## Purpose

## Test Plan

## Test Result

---
<details>
<summary> Checklist </summary>

- [ ] The purpose of the PR, such as "Fix some issue".
- [ ] The test plan, such as providing test command.
- [ ] The test results, such as pasting the results.
- [ ] (Optional) The necessary documentation update.
</details>

**BEFORE SUBMITTING, PLEASE READ <https://example.org>** (anything below is removed)
"""
NEW_TEMPLATE = """\
<!-- markdownlint-disable -->

## Overview

<!-- Summarize the change. -->

## Claims

## Validation

## Details

---

<details>
<summary> Pull Request Checklist </summary>

- [ ] I used the `/pr-checklist` skill. (Mandatory for agents, optional for humans).
- [ ] AI assistance was used during the creation of this PR.
- [ ] **Design Fit:** Minimizes impact on core components.
</details>

**BEFORE SUBMITTING, PLEASE READ <https://example.org>**
"""
PR_TITLE = """\
name: PR title
jobs:
  check-format:
    steps:
      - run: |
          pattern='^(\\[[^][]+\\])+ +[^[:space:]].*$'
          if [[ "$PR_TITLE" =~ $pattern ]]; then exit 0; fi
"""
GUIDE = "Large changes (>500 LOC excluding kernel/data/config/test) need an RFC.\n"
GATE = 'SUPPORTED = [\n    "llama",\n    "qwen",\n]\n'
OTHER = "".join(f"line_{number} = {number}\n" for number in range(1, 31))
MESSAGE = """\
[Spec Decode] Accept Kimi-K2 as a target

The gate refuses every model type but a few, and
kimi_k2 is not among them. Thanks to @somebody.

Add it. The test is a substring test.

Reason: our deployment speculates
Forwarded: no
Signed-off-by: A Maintainer <maintainer@example.org>
"""
PROBE = 'assert "kimi_k2" in tree.literal("engine/gate.py", "SUPPORTED")'


@contextmanager
def hosted(
    story: Story, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, prefix: str = "", fork: bool = True
) -> Iterator[GitHubServer]:
    """Upstream with two releases and a moving main, on a GitHub; a patchset of one patch on the first release."""
    files = {
        "engine/gate.py": GATE, "engine/other.py": OTHER, ".github/PULL_REQUEST_TEMPLATE.md": TEMPLATE,
        "docs/contributing/README.md": GUIDE, ".github/workflows/pr-title.yml": PR_TITLE,
    }  # fmt: skip
    story.release("v1.0", files)
    story.start("v1.0")
    story.patch(
        "kimi",
        {"engine/gate.py": GATE.replace("]", '    "kimi_k2",\n]')},
        message=MESSAGE,
        probe=PROBE,
    )
    story.commit({"engine/other.py": OTHER + "more = 1\n"}, "Move on")
    server = GitHubServer(tmp_path / "hub", prefix=prefix)
    server.host(UPSTREAM, story.upstream / ".git")
    server.login(TOKEN, "maintainer", "repo", "workflow")
    with server.running():
        configure(story, f'upstream = "{UPSTREAM}"', f'fork = "{FORK}"', f'base-url = "{server.base_url}"')
        monkeypatch.setenv("FORKTOOL_GITHUB_TOKEN", TOKEN)
        if fork:
            server.fork(UPSTREAM, FORK)
        yield server


def configure(story: Story, *lines: str) -> None:
    """Set the table [pull-request]."""
    file = story.project / "patchset/patchset.toml"
    text = file.read_text().partition("\n[pull-request]")[0]
    file.write_text(text + "\n[pull-request]\n" + "\n".join(lines) + "\n")


def fork_branch(server: GitHubServer, branch: str) -> str:
    """What a branch of the fork names, empty where there is none."""
    from tests.support.github_git import git

    return git(
        server.repositories[FORK].path, "rev-parse", "--verify", "-q", f"refs/heads/{branch}", check=False
    )


def submitted(story: Story, *more: str) -> dict[str, Any]:
    """Draft and submit the patch; the answer's entry."""
    assert story.run("pr", "draft", "kimi", "--no-hooks").code == 0
    result = story.run("pr", "submit", "kimi", "--json", *more)
    assert result.code == 0, result.err
    (entry,) = result.document["pulls"]
    return dict(entry)
