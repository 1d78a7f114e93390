"""A replay gives the tree that `git cherry-pick` gives, and stops at the same paths, whatever both sides did."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from forktool.adapters.git_store import GitStore
from forktool.adapters.patchset_files import Patchset
from forktool.adapters.probes import Probes
from forktool.adapters.state import State
from forktool.commands.replaying import Replayer
from forktool.core.config import parse_config
from forktool.core.objects import Oid
from forktool.core.series import Base, PatchName, Series, parse_patch
from forktool.core.verdict import Choice, Decision

NAME = PatchName("edit")
CONFIG = '[upstream]\nrepository = "/nowhere"\n[base]\ntag = "v1"\n'
# Few different lines, so that many places look alike, as blank lines, brackets and `return None` do.
LINE = st.sampled_from(["", "a", "b", "    return None", "}", "x = 1", "y = 2", "\r", "\x0c", "é"])
EDIT = st.tuples(st.integers(0, 30), st.sampled_from(["insert", "delete", "replace", "repeat"]), LINE)


def edited(lines: list[str], edits: list[tuple[int, str, str]]) -> list[str]:
    result = list(lines)
    for place, kind, line in edits:
        at = place % (len(result) + 1)
        if kind == "insert":
            result.insert(at, line)
        elif kind == "repeat":
            result[at:at] = result[at : at + 3]
        elif at < len(result):
            result[at : at + 1] = [] if kind == "delete" else [line]
    return result


@st.composite
def three_versions(draw: st.DrawFn) -> tuple[str, str, str]:
    base = draw(st.lists(LINE, max_size=25))
    sides = [base, *(edited(base, draw(st.lists(EDIT, max_size=4))) for _ in range(2))]
    ends = [draw(st.sampled_from(["\n", "\n", "\n", ""])) for _ in sides]
    one, two, three = ("\n".join(lines) + end for lines, end in zip(sides, ends, strict=True))
    return one, two, three


@dataclass(frozen=True, slots=True)
class Repository:
    """A work tree that plain git works in; its objects are read by the product."""

    path: Path

    def git(self, *args: str, check: bool = True) -> bytes:
        who = {f"GIT_{role}_{key}": value for role in ("AUTHOR", "COMMITTER")
               for key, value in (("NAME", "A"), ("EMAIL", "a@example.org"), ("DATE", "1750000000 +0000"))}  # fmt: skip
        done = subprocess.run(
            ["git", *args], cwd=self.path, env={**os.environ, **who}, capture_output=True, check=False
        )
        assert done.returncode == 0 or not check, done.stderr
        return done.stdout

    def commit(self, files: dict[str, str]) -> Oid:
        for name, text in files.items():
            (self.path / name).write_bytes(text.encode())
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message", "edit\n\nbody")
        return Oid(self.git("rev-parse", "HEAD").decode().strip())


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    made = Repository(tmp_path / "repository")
    made.path.mkdir()
    made.git("init", "--quiet")
    made.commit({"never.txt": "touched\n"})
    made.git("tag", "root")
    return made


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(versions=st.lists(three_versions(), min_size=1, max_size=8))
def test_random_edits_on_both_sides(
    repository: Repository, tmp_path: Path, versions: list[tuple[str, str, str]]
) -> None:
    assume(any(base != patched for base, patched, _ in versions))
    sides = [{f"{at}.txt": texts[side] for at, texts in enumerate(versions)} for side in range(3)]
    repository.git("checkout", "--quiet", "--force", "--detach", "root")
    base = repository.commit(sides[0])
    patched = repository.commit(sides[1])
    text = repository.git(
        *("format-patch", "--stdout", "-1", "--full-index", "--binary", "--keep-subject", "--zero-commit"),
        *("--no-signature", "--no-stat"),
    )
    repository.git("checkout", "--quiet", "--force", "--detach", base)
    upstream = repository.commit(sides[2])
    repository.git("cherry-pick", "--no-commit", patched, check=False)
    unmerged = repository.git("diff", "--name-only", "--diff-filter=U").decode().split()

    series = Series(base=Base(tag="v1", tree=None), patches=(parse_patch(NAME, text, file="edit.patch"),))
    patchset = Patchset(path=tmp_path, config=parse_config(CONFIG, file="t"), series=series, probes={})
    with GitStore(repository.path / ".git") as store:
        trees = [store.tree(store.tree_of(commit), label=commit[:7]) for commit in (base, upstream)]
        replayer = Replayer(patchset, trees[0], store, Probes({}, State(tmp_path / "state")))
        keep = Decision(choice=Choice.KEEP, reason="whatever it looks like")
        replayed = replayer.replay([trees[1]], decisions={NAME: keep})[0]
        made, _objects = store.changed_tree(trees[1].root, replayed.result.changes)

    assert sorted(replayed.steps[0].outcome.conflicts) == sorted(unmerged)
    if not unmerged:
        assert made == repository.git("write-tree").decode().strip()
