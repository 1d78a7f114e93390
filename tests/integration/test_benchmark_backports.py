"""The backport benchmark counts what it says, on a repository whose every pair is known."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BASE = "".join(f"line {number}\n" for number in range(30))
NAMES = "NAMES = [\n    'one',\n]\n"


class Upstream:
    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir()
        self.git("init", "--quiet", "--initial-branch=main")

    def git(self, *args: str) -> str:
        who = {f"GIT_{role}_{key}": "x@y" for role in ("AUTHOR", "COMMITTER") for key in ("NAME", "EMAIL")}
        when = {f"GIT_{role}_DATE": "2026-01-01T00:00:00Z" for role in ("AUTHOR", "COMMITTER")}
        done = subprocess.run(
            ["git", *args], cwd=self.path, env={**os.environ, **who, **when}, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def commit(self, message: str, files: Mapping[str, str]) -> str:
        for name, text in files.items():
            (self.path / name).write_text(text)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", message)
        return self.git("rev-parse", "HEAD")


@pytest.fixture(scope="module")
def upstream(tmp_path_factory: pytest.TempPathFactory) -> Upstream:
    """A branch of seven picks: five pairs, of which git stops on two."""
    made = Upstream(tmp_path_factory.mktemp("backports") / "upstream")
    made.commit("Start", {"a.txt": BASE, "b.txt": BASE, "names.py": NAMES, "c.txt": BASE})
    made.git("branch", "stable-1")
    first = made.commit("First", {"a.txt": BASE.replace("line 3\n", "line three\n")})
    edited = made.commit("Edited", {"b.txt": BASE.replace("line 5\n", "line five\n")})
    named = made.commit("Name", {"names.py": NAMES.replace("]", "    'newer',\n]")})
    other = made.commit("Other", {"c.txt": BASE.replace("line 7\n", "line seven\n")})
    again = made.commit("Again", {"a.txt": (made.path / "a.txt").read_text() + "the end\n"})
    made.git("checkout", "--quiet", "stable-1")

    def pick(subject: str, named: str, files: Mapping[str, str], before: str = "") -> None:
        made.commit(f"{subject}\n\n{before}(cherry picked from commit {named})", files)

    pick("First", first, {"a.txt": BASE.replace("line 3\n", "line three\n")})
    pick("Edited", edited[:12], {"b.txt": BASE.replace("line 5\n", "line 5, or five\n")})
    made.commit(
        "Own", {"names.py": NAMES.replace("]", "    'own',\n]"), "c.txt": BASE.replace("line 7\n", "7\n")}
    )
    pick("Name", named, {"names.py": NAMES.replace("]", "    'own',\n    'newer',\n]")})
    pick("Other", other, {"c.txt": BASE.replace("line 7\n", "7 (seven)\n")})
    text = (made.path / "a.txt").read_text() + "the end\n"
    pick("Again", again, {"a.txt": text}, before=f"(cherry picked from commit {first})\n")
    pick("Unknown", "1234567" * 5 + "12345", {"c.txt": "unknown\n"})
    made.commit("No pick", {"c.txt": "no pick\n"})
    return made


def bench(folder: Path, *args: str | Path) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", "backports", *args],
        cwd=ROOT, env={**os.environ, "FORKTOOL_BENCH": str(folder)}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def row(text: str, name: str) -> list[int]:
    line = next(line for line in text.splitlines() if line.startswith(f"  {name:<24}"))
    return [int(cell) for cell in re.findall(r"(\d+)(?: \([\d.]+ %\)|$| (?= ))", line[26:])]


def test_counts_each_pair_in_its_row(upstream: Upstream, tmp_path: Path) -> None:
    text = bench(tmp_path, "--repo", upstream.path, "--branches", "stable-*", "--list")
    assert f"at {upstream.git('rev-parse', 'HEAD')}: 5 pairs on stable-*" in text
    # forktool, git merge, git am -3, patch
    assert row(text, "right") == [3, 2, 2, 2]
    assert row(text, "differs") == [1, 1, 1, 2]  # patch's fuzz puts the new name first
    assert row(text, "stops") == [1, 2, 2, 1]
    assert "stops: git 2, forktool 1 with all that it asks: 50.0 % fewer" in text
    assert "git stops and forktool settles: 1, of these the maintainers' tree 1, another 0" in text
    assert "git settles and forktool does not: 0" in text
    assert "git stops, forktool settles, another tree than the maintainers': 0" in text
    assert "errors: 0" in text


def test_all_branches_by_default_and_none_that_matches(upstream: Upstream, tmp_path: Path) -> None:
    assert ": 5 pairs on *" in bench(tmp_path, "--repo", upstream.path, "--peers", "0")
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", "backports", "--repo", upstream.path, "--branches", "old-*"],
        cwd=ROOT, env={**os.environ, "FORKTOOL_BENCH": str(tmp_path)}, capture_output=True, text=True,
    )  # fmt: skip
    assert (done.returncode, done.stderr.strip()) == (1, "no branch or tag matches old-*")


def test_a_seed_gives_one_order_and_skip_the_rest_of_it(upstream: Upstream, tmp_path: Path) -> None:
    def rights(*args: str) -> int:
        text = bench(tmp_path, "--repo", upstream.path, "--branches", "stable-1", "--peers", "0", *args)
        return row(text, "right")[1] if "\n  right " in text else 0

    parts = [
        rights("--sample", "2", "--seed", "3"),
        rights("--sample", "3", "--skip", "2", "--seed", "3"),
    ]
    assert sum(parts) == rights() == 2
    assert parts[0] == rights("--sample", "2", "--seed", "3")


def test_writes_every_version_of_a_conflict(upstream: Upstream, tmp_path: Path) -> None:
    dump = tmp_path / "dump"
    bench(tmp_path, "--repo", upstream.path, "--branches", "stable-*", "--peers", "0", "--dump", dump)
    places = {place.name: place for place in dump.glob("*/*")}
    assert set(places) == {"names.py", "c.txt"}
    texts = {file.name: file.read_text() for file in places["names.py"].iterdir()}
    assert texts["ours"] == NAMES.replace("]", "    'own',\n]")
    assert texts["theirs"] == NAMES.replace("]", "    'newer',\n]")
    assert texts["result"] == texts["truth"] == NAMES.replace("]", "    'own',\n    'newer',\n]")
    assert "<<<<<<<" in texts["merged"]
    assert "forktool: right" in texts["about"]
    assert not (places["c.txt"] / "result").exists()
    assert (places["c.txt"] / "truth").read_text() == BASE.replace("line 7\n", "7 (seven)\n")


def test_asks_mergiraf_where_it_is_installed(
    upstream: Upstream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The program itself is on no index: this one takes their side of every conflict."""
    program = tmp_path / "bin" / "mergiraf"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\n[ "$1" = merge ] && cp "$4" "$8"\n')
    program.chmod(0o755)
    assert "mergiraf: not installed" in bench(tmp_path, "--repo", upstream.path, "--branches", "stable-*")
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    text = bench(tmp_path, "--repo", upstream.path, "--branches", "stable-*", "--peers", "0")
    assert "not installed" not in text
    assert row(text, "right") == [3, 2, 2]
    assert row(text, "differs") == [1, 1, 3]
