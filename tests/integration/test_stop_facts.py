"""What is looked up of a stop agrees with git: its zdiff3 form, and its history of lines."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forktool.adapters.git_causes import GitCauses
from forktool.adapters.git_history import GitHistory
from forktool.adapters.git_search import files_defining, files_with_most, is_complete
from forktool.adapters.git_store import GitStore
from forktool.adapters.state import State
from forktool.core.objects import Oid
from forktool.core.zdiff3 import regions, side, zealous
from tests.support.story import Story

LINES = st.lists(st.sampled_from("abcdef"), max_size=12).map(
    lambda words: "".join(f"{word}\n" for word in words)
)


@settings(max_examples=60, deadline=None)
@given(base=LINES, ours=LINES, theirs=LINES)
def test_our_zdiff3_is_git_s(base: str, ours: str, theirs: str) -> None:
    with tempfile.TemporaryDirectory() as name:
        for file, text in (("base", base), ("ours", ours), ("theirs", theirs)):
            (Path(name) / file).write_text(text)
        diff3, zdiff3 = (
            subprocess.run(
                ["git", "merge-file", "-p", style, "-L", "ours", "-L", "base", "-L", "theirs", "ours", "base", "theirs"],
                cwd=name, capture_output=True, check=False,
            ).stdout
            for style in ("--diff3", "--zdiff3")
        )  # fmt: skip

    assert zealous(diff3) == zdiff3
    # A region's places are where its lines are.
    for found in regions(diff3):
        assert zdiff3.split(b"\n")[found.line - 1] == b"<<<<<<< ours"
        for text, lines, at in (
            (side(diff3, lambda one: one.ours), found.ours, found.ours_at),
            (side(diff3, lambda one: one.base), found.base, found.base_at),
            (side(diff3, lambda one: one.theirs), found.theirs, found.theirs_at),
        ):
            there = text.splitlines(keepends=True)[at - 1 :]
            assert b"".join(there).startswith(lines)


TEXT = "".join(f"line_{number} = {number}\n" for number in range(1, 31))


@pytest.fixture
def store(story: Story, tmp_path: Path) -> Iterator[GitStore]:
    """The private store on upstream's own objects."""
    with GitStore(tmp_path / "store.git") as made:
        made.create()
        (made.path / "objects/info/alternates").write_text(f"{story.upstream}/.git/objects\n")
        yield made


def causes(store: GitStore, tmp_path: Path, base: str, tag: str) -> GitCauses:
    history = GitHistory(store, State(tmp_path / "state"))
    return GitCauses(store, history, base=Oid(base), tag=Oid(tag))


def test_commits_are_found_by_line_through_merges_and_renames(
    story: Story, store: GitStore, tmp_path: Path
) -> None:
    base = story.release("v1", {"a.py": TEXT})
    story.commit({"a.py": TEXT.replace("= 5\n", "= 0x5\n")}, "Five (#5)")
    story.git("checkout", "--quiet", "-b", "side", base)
    ten = story.commit({"a.py": TEXT.replace("= 10\n", "= 0xA\n")}, "Ten (#10)")
    story.git("checkout", "--quiet", "main")
    story.git("merge", "--quiet", "--no-edit", "side")
    story.git("mv", "a.py", "b.py")
    story.git("commit", "--quiet", "--message", "Move")
    moved = (story.upstream / "b.py").read_text()
    again = story.commit({"b.py": "import os\n" + moved.replace("= 0xA\n", "= 0o12\n")}, "Ten again")
    tag = story.release("v2", {"z.py": "z = 1\n"})

    found = causes(store, tmp_path, base, tag).of_lines([("b.py", 11, 11), ("b.py", 20, 21), ("b.py", 6, 6)])

    assert [(one.oid, one.number) for one in found["b.py", 11, 11]] == [(again, None), (ten, 10)]
    assert found["b.py", 20, 21] == ()
    assert [one.subject for one in found["b.py", 6, 6]] == ["Five"]


def test_nothing_is_found_where_nothing_can_be(story: Story, store: GitStore, tmp_path: Path) -> None:
    base = story.release("v1", {"a.py": TEXT})
    tag = story.release("v2", {"a.py": TEXT.replace("= 5\n", "= 0x5\n")})
    story.git("checkout", "--quiet", "--orphan", "alone")
    alone = story.release("v3")

    known = causes(store, tmp_path, base, tag)
    assert known.is_known
    assert known.of_lines([("gone.py", 1, 1), ("a.py", 900, 901)]) == {
        ("gone.py", 1, 1): (),
        ("a.py", 900, 901): (),
    }
    assert known.of_deletion("a.py") is None
    assert known.renamed("a.py") is None
    unrelated = causes(store, tmp_path, base, alone)
    assert not unrelated.is_known
    assert unrelated.of_lines([("a.py", 1, 30)]) == {}
    assert unrelated.of_deletion("a.py") is None


def test_a_path_s_commits_and_its_way_through_renames(story: Story, store: GitStore, tmp_path: Path) -> None:
    base = story.release("v1", {"a b.py": TEXT, "gone.py": "x = 1\n" * 9})
    first = story.commit({"a b.py": None, "two.py": TEXT}, "Two (#2)")
    second = story.commit({"two.py": None, "three.py": TEXT + "end = 1\n"}, "Three (#3)")
    third = story.commit({"gone.py": None}, "Gone")
    tag = story.release("v2")

    known = causes(store, tmp_path, base, tag)

    assert known.renamed("a b.py") == "three.py"
    assert known.renamed("gone.py") is None
    deleted = [known.of_deletion(path) for path in ("a b.py", "two.py", "gone.py")]
    assert [one.oid if one is not None else None for one in deleted] == [first, second, third]
    assert [one.oid for one in known.of_path("three.py")] == [second, first]


def test_a_tree_is_searched_by_name_and_by_lines(story: Story, store: GitStore) -> None:
    commit = story.release(
        "v1",
        {
            "a.py": "class Reader:\n    async def read(self):\n        one = 1\n        two = 2\n",
            "b é.py": "def read(x): ...\none = 1\n",
            "c.txt": "def read(\n",
            "d.py": "readers = read(1)\nclass Reader(Base): ...\n",
        },
    )
    tree = store.tree_of(Oid(commit))

    assert is_complete(store, tree)
    assert files_defining(store, tree, "read") == ("a.py", "b é.py")
    assert files_defining(store, tree, "Reader") == ("a.py", "d.py")
    assert files_defining(store, tree, "nothing") == ()
    assert files_with_most(store, tree, [b"one = 1", b"two = 2"]) == ("a.py", "b é.py")
    assert files_with_most(store, tree, []) == ()
