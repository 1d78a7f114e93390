"""Pushing to a fork over HTTP: the lease, the token, the refusals."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from forktool.adapters.git_push import Fork
from forktool.adapters.git_store import GitStore
from forktool.adapters.hooks import run_hooks
from forktool.core.objects import Entry, Mode, NewObject, Oid, Person, encode_commit, new_object
from forktool.errors import GitError, NetworkError, StoppedError
from tests.support.github_git import git
from tests.support.github_server import GitHubServer
from tests.support.pull_requests import FORK, TOKEN, UPSTREAM
from tests.support.story import Story

WHO = Person(name="A", email="a@b.org", when="1750000000 +0000")


@pytest.fixture
def hub(story: Story, tmp_path: Path) -> Iterator[GitHubServer]:
    story.release("v1.0", {"a.py": "a = 1\n"})
    server = GitHubServer(tmp_path / "hub")
    server.host(UPSTREAM, story.upstream / ".git")
    server.login(TOKEN, "maintainer", "repo")
    server.fork(UPSTREAM, FORK)
    with server.running():
        yield server


@pytest.fixture
def store(tmp_path: Path, story: Story, hub: GitHubServer) -> Iterator[GitStore]:
    made = GitStore(tmp_path / "store.git")
    made.create()
    made.git("fetch", "--quiet", "--depth=1", story.upstream.as_uri(), "main")
    with made:
        yield made


def commit(store: GitStore, parent: str, content: str) -> Oid:
    blob = new_object("blob", content.encode())
    root, trees = store.changed_tree(store.tree_of(Oid(parent)), {"a.py": Entry(Mode.FILE, blob.oid)})
    made = new_object(
        "commit", encode_commit(tree=root, parents=(Oid(parent),), author=WHO, committer=WHO, message="m\n")
    )
    objects: list[NewObject] = [blob, *trees, made]
    store.persist(objects)
    return made.oid


def test_a_branch_is_made_then_moved_only_from_what_is_expected(
    hub: GitHubServer, store: GitStore, story: Story
) -> None:
    main = story.git("rev-parse", "main").strip()
    first, second = commit(store, main, "a = 2\n"), commit(store, main, "a = 3\n")
    fork = Fork(store, f"{hub.web}/{FORK}.git", TOKEN)

    assert fork.tip("b") is None
    assert fork.push("b", first, expected=None) is True
    assert fork.tip("b") == first
    assert fork.push("b", first, expected=first) is False
    with pytest.raises(StoppedError, match=rf"somebody else pushed to b of {hub.web}/{FORK}.git meanwhile"):
        fork.push("b", second, expected=None)
    assert fork.push("b", second, expected=first) is True
    assert fork.tip("b") == second


def test_a_push_between_our_look_and_ours_is_not_lost(
    hub: GitHubServer, store: GitStore, story: Story
) -> None:
    main = story.git("rev-parse", "main").strip()
    first, second = commit(store, main, "a = 2\n"), commit(store, main, "a = 3\n")
    fork = Fork(store, f"{hub.web}/{FORK}.git", TOKEN)
    fork.push("b", first, expected=None)
    path = hub.repositories[FORK].path

    with pytest.raises(StoppedError, match="somebody else pushed"):
        fork.push(
            "b", second, expected=first, before=lambda: git(path, "update-ref", "refs/heads/b", main) and None
        )
    assert git(path, "rev-parse", "refs/heads/b") == main


def test_refusals_are_one_line_each(hub: GitHubServer, store: GitStore, story: Story) -> None:
    main = story.git("rev-parse", "main").strip()
    made = commit(store, main, "a = 2\n")
    url = f"{hub.web}/{FORK}.git"
    with pytest.raises(NetworkError, match=r"refuses the push") as caught:
        Fork(store, url, "tok_wrong").push("b", made, expected=None)
    assert "Contents: write" in str(caught.value.hint)
    hub.login("tok_stranger", "stranger", "repo")
    with pytest.raises(NetworkError, match=r"refuses the push"):
        Fork(store, url, "tok_stranger").push("b", made, expected=None)
    with pytest.raises(NetworkError, match=r"^http://localhost:\d+/no/where\.git: ") as caught:
        Fork(store, f"{hub.web}/no/where.git", TOKEN).tip("b")
    assert TOKEN not in caught.value.message
    hook = hub.repositories[FORK].path / "hooks/pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\nexit 1\n")
    hook.chmod(0o755)
    with pytest.raises(GitError, match=r"rejects b: pre-receive hook declined"):
        Fork(store, url, TOKEN).push("b", made, expected=None)


def test_a_commit_of_the_fork_is_read_without_its_files(hub: GitHubServer, store: GitStore) -> None:
    path = hub.repositories[FORK].path
    theirs = git(
        path,
        "-c",
        "user.name=R",
        "-c",
        "user.email=r@b.org",
        "commit-tree",
        "main^{tree}",
        "-p",
        "main",
        "-m",
        "Hm",
    )
    git(path, "update-ref", "refs/heads/b", theirs)
    found = Fork(store, f"{hub.web}/{FORK}.git", TOKEN).message(Oid(theirs))
    assert found is not None
    author, committer, message = found
    assert author.startswith(b"R <r@b.org> ")
    assert author == committer
    assert message == b"Hm\n"
    assert Fork(store, f"{hub.web}/{FORK}.git", TOKEN).message(Oid("1" * 40)) is None


LOCAL_HOOKS = """\
repos:
- repo: local
  hooks:
  - {id: no-tabs, name: No tabs, language: system, entry: "sh tools/no_tabs.sh", files: '\\.py$'}
"""
NO_TABS = 'for file in "$@"; do if grep -q "$(printf "\\t")" "$file"; then exit 1; fi; done\n'


@pytest.mark.skipif(shutil.which("pre-commit") is None, reason="pre-commit is not installed")
@pytest.mark.parametrize(
    ("content", "passed", "detail"), [("a = 2\n", True, ""), ("\ta = 2\n", False, "No tabs")]
)
def test_upstreams_own_hooks_run_on_the_touched_files(
    store: GitStore, story: Story, content: str, passed: bool, detail: str
) -> None:
    story.commit(
        {".pre-commit-config.yaml": LOCAL_HOOKS, "tools/no_tabs.sh": NO_TABS, "a.py": content}, "Hooks"
    )
    store.git("fetch", "--quiet", "--depth=1", story.upstream.as_uri(), "main")
    tree = store.tree(store.tree_of(Oid(story.git("rev-parse", "main").strip())), label="main")

    found = run_hooks(store, tree, ["a.py", "gone.py"])

    assert (found.ran, found.passed, found.detail) == (True, passed, detail)


def test_hooks_that_cannot_run_are_no_failure(
    store: GitStore, story: Story, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bare = store.tree(store.tree_of(Oid(story.git("rev-parse", "main").strip())), label="main")
    assert run_hooks(store, bare, ["a.py"]).detail == "upstream has no pre-commit configuration"
    story.commit({".pre-commit-config.yaml": LOCAL_HOOKS}, "Hooks")
    store.git("fetch", "--quiet", "--depth=1", story.upstream.as_uri(), "main")
    tree = store.tree(store.tree_of(Oid(story.git("rev-parse", "main").strip())), label="main")
    only_git = tmp_path / "bin"
    only_git.mkdir()
    for name in ("git", "sh"):
        (only_git / name).symlink_to(str(shutil.which(name)))
    monkeypatch.setenv("PATH", str(only_git))
    found = run_hooks(store, tree, ["a.py"])
    assert (found.ran, found.detail) == (False, "pre-commit is not installed")
