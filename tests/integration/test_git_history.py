from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from forktool.adapters.git_history import GitHistory
from forktool.adapters.git_store import GitStore
from forktool.adapters.state import State
from forktool.core.history import Sign
from forktool.core.objects import Oid
from forktool.core.series import Patch, PatchName, parse_patch

_WHO = {
    f"GIT_{role}_{key}": value
    for role in ("AUTHOR", "COMMITTER")
    for key, value in (("NAME", "Ann"), ("EMAIL", "ann@example.org"))
}


class Upstream:
    """A work tree whose objects the store borrows."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        self.git("init", "-q", "-b", "main")

    def git(self, *args: str, stdin: bytes | None = None) -> str:
        environment = {**os.environ, **_WHO, "GIT_CONFIG_GLOBAL": os.devnull}
        done = subprocess.run(
            ["git", *args], cwd=self.folder, env=environment, input=stdin, capture_output=True, check=True
        )
        return done.stdout.decode().strip()

    def commit(self, message: str, **files: str | bytes) -> Oid:
        for name, content in files.items():
            path = self.folder / name.replace("__", "/")
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "--cleanup=verbatim", "-m", message)
        return Oid(self.git("rev-parse", "HEAD"))

    def patch(self, commit: Oid, subject: str = "Mine") -> Patch:
        head = (
            f"From {'0' * 40} Mon Sep 17 00:00:00 2001\nFrom: A <a@example.org>\n"
            f"Date: Thu, 1 Jan 2026 00:00:00 +0000\nSubject: {subject}\n\n\n"
        )
        diff = self.git("diff", "--full-index", "--binary", f"{commit}^", commit) + "\n"
        return parse_patch(PatchName("p"), (head + diff).encode(), file="p.patch")


@pytest.fixture
def upstream(tmp_path: Path) -> Upstream:
    return Upstream(tmp_path / "upstream")


@pytest.fixture
def store(tmp_path: Path, upstream: Upstream) -> Iterator[GitStore]:
    made = GitStore(tmp_path / "state/upstream.git")
    made.create()
    (made.path / "objects/info").mkdir(exist_ok=True)
    (made.path / "objects/info/alternates").write_text(f"{upstream.folder / '.git/objects'}\n")
    with made:
        yield made


@pytest.fixture
def history(tmp_path: Path, store: GitStore) -> GitHistory:
    return GitHistory(store, State(tmp_path / "state"))


LINES = "".join(f"line_{number} = {number}\n" for number in range(30))


def test_a_commit_is_found_among_others_in_every_kind_of_file(
    upstream: Upstream, history: GitHistory
) -> None:
    files: dict[str, str | bytes] = {
        "a.py": LINES,
        "ä b.txt": "-- one\ntwo\n",
        "bin": b"\0one",
        "gone": "gone\n",
    }
    base = upstream.commit("Base", **files)
    (upstream.folder / "gone").unlink()
    changed: dict[str, str | bytes] = {
        "a.py": LINES.replace("= 7\n", "= 'seven'\n"),
        "ä b.txt": "++ one\ntwo\n",
        "bin": b"\0two",
    }
    wanted = upstream.commit("Change it all", **changed, new="new\n")
    tag = upstream.commit("Later", **{"a.py": f"import os\n{changed['a.py']!s}"})
    patch = upstream.patch(wanted)

    found = history.read(base, [tag], patch.paths)[tag]

    assert [commit.oid for commit in found.commits] == [tag, wanted]
    assert {marks.path for marks in found.commits[1].marks} == {*files, "new"}
    assert [(one.oid, one.sign) for one in found.absorbers(patch)] == [(wanted, Sign.PATCH_ID)]


def test_a_merged_pull_request_is_one_change_whatever_commits_it_had(
    upstream: Upstream, history: GitHistory
) -> None:
    base = upstream.commit("Base", **{"a.py": LINES})
    upstream.git("checkout", "-q", "-b", "topic")
    seven = LINES.replace("= 7\n", "= 'seven'\n")
    upstream.commit("start", **{"a.py": seven})
    upstream.commit("finish", **{"a.py": seven.replace("= 20\n", "= 'twenty'\n")})
    upstream.git("checkout", "-q", "main")
    upstream.commit("Meanwhile", **{"b.py": "b = 1\n"})
    upstream.git("merge", "-q", "--no-ff", "-m", "Merge pull request #361 from ann/topic", "topic")
    tag = Oid(upstream.git("rev-parse", "HEAD"))
    upstream.git("checkout", "-q", "-b", "fork", base)
    patch = upstream.patch(upstream.commit("Both", **{"a.py": seven.replace("= 20\n", "= 'twenty'\n")}))

    (one,) = history.read(base, [tag], patch.paths)[tag].absorbers(patch)

    assert one.oid == tag
    assert one.sign is Sign.PATCH_ID
    assert "#361" in one.detail


def test_what_has_no_history_costs_no_process(
    upstream: Upstream, history: GitHistory, store: GitStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = upstream.commit("Release 1", a="1\n")
    tree = upstream.git("rev-parse", f"{base}^{{tree}}")
    alone = Oid(upstream.git("commit-tree", tree, "-m", "a release without parents"))
    tag = upstream.commit("Release 2", a="2\n")
    (store.path / "shallow").write_text(f"{tag}\n")
    monkeypatch.setattr(GitStore, "try_git", None)

    assert history.read(base, [alone, tag, base], ["a"]) == {}
    assert history.read(base, [], ["a"]) == {}
    assert not (store.path.parent / "history").exists()


def test_histories_that_do_not_meet_say_nothing(upstream: Upstream, history: GitHistory) -> None:
    base = upstream.commit("Base", a="1\n")
    upstream.git("checkout", "-q", "--orphan", "other")
    upstream.commit("Other base", a="1\n")
    tag = upstream.commit("Other", a="2\n")
    assert history.read(base, [tag], ["a"]) == {}


def test_one_walk_serves_all_tags_and_is_kept(
    upstream: Upstream, history: GitHistory, store: GitStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = upstream.commit("Base", a="1\n")
    first = upstream.commit("First", a="2\n")
    second = upstream.commit("Second", a="3\n")
    asked: list[str] = []
    real = GitStore.try_git

    def counted(self: GitStore, *args: str | Path, **options: object) -> object:
        asked.append(next(str(arg) for arg in args if not str(arg).startswith("--")))
        return real(self, *args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(GitStore, "try_git", counted)
    found = history.read(base, [first, second], ["a"])
    assert [commit.oid for commit in found[first].commits] == [first]
    assert [commit.oid for commit in found[second].commits] == [second, first]
    assert asked.count("log") == 2
    again = GitHistory(store, State(store.path.parent)).read(base, [second, first], ["a"])
    assert again == found
    assert asked.count("log") == 2
    (kept,) = (store.path.parent / "history").iterdir()
    kept.write_bytes(b"{}")
    assert history.read(base, [first, second], ["a"]) == found
    assert asked.count("log") == 4


def test_only_the_newest_walks_are_kept(upstream: Upstream, history: GitHistory, store: GitStore) -> None:
    base = upstream.commit("Base", a="1\n")
    tag = upstream.commit("Next", a="2\n")
    for number in range(12):
        history.read(base, [tag], ["a", f"b{number}"])
    assert len(list((store.path.parent / "history").iterdir())) == 8


def test_hostile_settings_change_nothing(
    upstream: Upstream, history: GitHistory, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    base = upstream.commit("Base", **{"a.py": LINES})
    tag = upstream.commit("Seven", **{"a.py": LINES.replace("= 7\n", "= 'seven'\n")})
    patch = upstream.patch(tag)
    config = tmp_path / "config"
    config.write_text(
        "[diff]\nnoprefix = true\nmnemonicPrefix = true\nexternal = false\nalgorithm = histogram\n"
        "[color]\nui = always\n[log]\nshowSignature = true\nfollow = true\n[format]\npretty = oneline\n"
    )
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))
    monkeypatch.setenv("GIT_CONFIG_SYSTEM", str(config))
    (one,) = history.read(base, [tag], patch.paths)[tag].absorbers(patch)
    assert one.sign is Sign.PATCH_ID
