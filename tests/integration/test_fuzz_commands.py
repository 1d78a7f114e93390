"""Random series on random upstreams, through the command line, from the first status to the last export."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from pathlib import Path

import pytest
from hypothesis import assume, event, given, note
from hypothesis import strategies as st

from tests.cli.test_environment import HOSTILE, OTHERWISE, file_of
from tests.support.budget import budget
from tests.support.line_accounts import words_of
from tests.support.random_forks import Fork, Ran
from tests.support.random_worlds import World, absorbed_worlds, git, worlds

HOW = st.sampled_from(["both", "both", "theirs", "own"])


def checked(fork: Fork, project: Path | None = None) -> None:
    """`check` finds nothing that is broken; that two patches say the same is no fault."""
    ran = fork.run("check", "--json", project=project)
    assert ran.code in (0, 1), ran.err
    broken = [problem for problem in ran.document["problems"] if problem["kind"] != "duplicate"]
    assert not broken, broken


@budget(3)
@given(world=worlds())
def test_import_apply_and_export_are_the_identity(world: World) -> None:
    assume(world.patches)
    with tempfile.TemporaryDirectory(prefix="fuzz-") as name:
        fork = Fork(world, Path(name))
        checked(fork)
        before = fork.snapshot()
        made = fork.series_commits()
        trees = git(fork.bare, "log", "--reverse", "--format=%T", "v1.0..patches").decode().split()
        assert [tree for _commit, tree in made] == trees
        messages = "%an <%ae> %ad%n%B"
        told = [
            git(folder, "log", "--reverse", f"--format={messages}", "--date=raw", f"{base}..{tip}")
            for folder, base, tip in (
                (fork.bare, "v1.0", "patches"), (fork.folder / "applied", "refs/forktool/base", "HEAD"),
            )
        ]  # fmt: skip
        assert told[0] == told[1]
        assert fork.tree_by_am("v1.0") == trees[-1]

        exported = fork.run("export", str(fork.folder / "applied"))
        assert exported.out == "nothing changed\n"
        assert fork.snapshot() == before
        ways = {
            "files": [str(fork.patchset / f"{patch}.patch") for patch in world.names],
            "folder": [str(fork.patchset)],
            "commits": [str(fork.bare), "v1.0..patches"],
        }
        for way, sources in ways.items():
            project = fork.folder / way
            project.mkdir()
            fork.start(project)
            taken = fork.run("import", *sources, project=project)
            assert taken.code == 0, (way, taken.err)
            series = (project / "patchset/series").read_text().splitlines()[1:]
            assert [(project / "patchset" / line).read_bytes() for line in series] == fork.texts, way
            if way == "folder":
                assert series == [f"{patch}.patch" for patch in world.names]


@budget(4)
@given(world=worlds(), order=st.permutations(range(3)), history=st.booleans())
def test_verdicts_depend_neither_on_the_order_of_tags_nor_on_what_is_cached(
    world: World, order: list[int], history: bool
) -> None:
    assume(world.patches)
    with tempfile.TemporaryDirectory(prefix="fuzz-") as name:
        fork = Fork(world, Path(name), history=history)
        tags = world.tag_names
        other = [tags[place] for place in order if place < len(tags)]
        told = [fork.run("status", "--json", "--onto", *tags)]
        told.append(fork.run("status", "--json", "--onto", *other))
        shutil.rmtree(fork.state)
        told.append(fork.run("status", "--json", "--onto", *other))
        told.append(fork.run("status", "--json", "--onto", *tags))
        for tag in tags:
            alone = fork.run("rebase", tag, "--dry-run", "--json")
            assert alone.verdicts == {patch: verdicts[tag] for patch, verdicts in _by_tag(told[0]).items()}, (
                tag
            )
        told.append(fork.run("status", "--json", "--onto", *other))
        assert len({ran.code for ran in told}) == 1
        by_tag = [_by_tag(ran) for ran in told]
        assert by_tag.count(by_tag[0]) == len(by_tag)


def _by_tag(ran: Ran) -> dict[str, dict[str, str]]:
    return {patch["name"]: dict(sorted(patch["verdicts"].items())) for patch in ran.document["patches"]}


@budget(3)
@given(world=worlds(), which=st.integers(0, 2), shift=st.integers(0, len(HOSTILE) - 12))
def test_the_same_input_gives_the_same_bytes_and_ids_everywhere(world: World, which: int, shift: int) -> None:
    assume(world.patches)
    tag = world.tag_names[which % len(world.tags)]
    with tempfile.TemporaryDirectory(prefix="fuzz-") as name, pytest.MonkeyPatch.context() as patch:
        fork = Fork(world, Path(name))
        elsewhere = fork.clone("elsewhere")
        told = [_everything(fork, tag, fork.project)]
        patch.setenv("TZ", "Pacific/Kiritimati")
        patch.setenv("LC_ALL", "C")
        patch.setenv("HOME", name)
        patch.setenv("XDG_CONFIG_HOME", str(Path(name) / "config"))
        settings = HOSTILE[shift : shift + 12] + OTHERWISE[shift % 7 : shift % 7 + 3]
        (Path(name) / ".gitconfig").write_text(file_of(settings))
        patch.chdir(elsewhere)
        time.tzset()
        mask = os.umask(0o077)
        try:
            told.append(_everything(fork, tag, elsewhere))
        finally:
            os.umask(mask)
            patch.undo()
            time.tzset()
        assert told[0] == told[1]


def _everything(fork: Fork, tag: str, project: Path) -> tuple[object, ...]:
    """A rebase with its answer, the patchset after it, and the ids of the series' commits."""
    answer = fork.run("rebase", tag, "--json", project=project)
    while answer.code == 3:
        answer = fork.run("rebase", "--skip", "--json", project=project)
    shutil.rmtree(fork.folder / "applied", ignore_errors=True)
    return answer.code, answer.document, fork.snapshot(project), fork.series_commits(project)


@budget(9)
@given(world=worlds(), which=st.integers(0, 2), how=HOW, history=st.booleans())
def test_a_rebase_to_its_end(world: World, which: int, how: str, history: bool) -> None:
    """Stops are settled by hand; abort restores; recorded resolutions settle them for a colleague."""
    assume(world.patches)
    tag = world.tag_names[which % len(world.tags)]
    with tempfile.TemporaryDirectory(prefix="fuzz-") as name:
        fork = Fork(world, Path(name), history=history)
        before = fork.snapshot()
        ran = fork.run("rebase", tag, "--json")
        note(ran.out)
        if ran.code == 3:
            assert fork.snapshot() == before, "a stop changes nothing"
            assert fork.run("rebase", "--abort").code == 0
            assert fork.snapshot() == before
            assert fork.state_files().keys() == {".gitignore", "README"}, list(fork.state_files())
            again = fork.run("rebase", tag, "--json")
            assert (again.code, again.document["patches"]) == (ran.code, ran.document["patches"])
            colleague = fork.clone("colleague")
        _verdicts_are_true(world, ran, tag)
        is_by_texts, ran = _finish(fork, ran, how)
        _series_is_sound(fork, tag)
        if is_by_texts and how != "theirs":
            event("replayed from recorded resolutions")
            _replays_for_a_colleague(fork, colleague, tag)


def _finish(fork: Fork, ran: Ran, how: str) -> tuple[bool, Ran]:
    """Go on to the end; whether every stop was a conflict of texts that was settled there and then."""
    stops, by_texts = 0, True
    while ran.code == 3:
        stops += 1
        assert stops < 30, ran.err
        name = next(name for name, verdict in ran.verdicts.items() if verdict in ("conflict", "suspect"))
        verdict = ran.verdicts[name]
        event(f"stop {verdict}")
        unmerged = fork.unmerged()
        if unmerged:
            texts = fork.settle(how)
            by_texts = by_texts and texts and verdict == "conflict"
        else:
            by_texts = False
            if verdict == "suspect":
                assert fork.run("keep", name).code == 0
        after = fork.run("rebase", "--continue", "--json")
        note(f"{name} {verdict}: {after.code} {after.out} {after.err}")
        if after.code == 3 and (not after.out or after.verdicts.get(name) in ("suspect", "conflict")):
            # Nothing was settled, or what was made of it is a suspect: a person drops it.
            by_texts = False
            after = fork.run("rebase", "--skip", "--json")
        ran = after
    assert ran.code == 0, ran.err
    return bool(stops) and by_texts, ran


def _verdicts_are_true(world: World, ran: Ran, tag: str) -> None:
    """What upstream does not have, or took back, is not dropped as if it had it."""
    there = world.at(tag)
    for number, (name, verdict) in enumerate(ran.verdicts.items()):
        if verdict in ("absorbed", "obsolete"):
            event(f"dropped as {verdict}")
            before, after = world.before(number), world.patches[number].tree
            if number not in world.has_of(tag):
                brought = words_of(after) - words_of(before)
                assert not brought or brought & words_of(there), f"{name}: nothing of it is in {tag}"
            touched = {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}
            assert any(there.get(path) != before.get(path) for path in touched), (
                f"{name} was taken back by {tag}"
            )


@budget(8)
@given(world=absorbed_worlds(), history=st.booleans())
def test_what_upstream_took_whole_is_never_carried_in_silence(world: World, history: bool) -> None:
    assume(world.patches and words_of(world.patches[0].tree) - words_of(world.base))
    with tempfile.TemporaryDirectory(prefix="fuzz-") as name:
        fork = Fork(world, Path(name), history=history)
        ran = fork.run("rebase", "v1.1", "--dry-run", "--json")
        event(ran.verdicts["p1"])
        assert ran.verdicts["p1"] in ("absorbed", "partly-absorbed", "suspect", "conflict"), ran.out


def _series_is_sound(fork: Fork, tag: str) -> None:
    assert not fork.conflict.exists()
    checked(fork)
    commits = fork.series_commits()
    tree = commits[-1][1] if commits else git(fork.bare, "rev-parse", f"{tag}^{{tree}}").decode().strip()
    assert fork.tree_by_am(tag) == tree, "git am makes another tree of the series"
    after = fork.snapshot()
    again = fork.run("rebase", tag, "--json")
    assert again.code == 0, again.out
    assert set(again.verdicts.values()) <= {"unchanged"}, again.verdicts
    assert fork.snapshot() == after
    assert fork.run("export", str(fork.folder / "applied")).out == "nothing changed\n"


def _replays_for_a_colleague(fork: Fork, colleague: Path, tag: str) -> None:
    """The old series with the recorded resolutions gives the new one, without a stop."""
    recorded = fork.patchset / "resolutions"
    if recorded.is_dir():
        shutil.copytree(recorded, colleague / "patchset/resolutions")
    done = fork.run("rebase", tag, "--json", project=colleague)
    assert done.code == 0, done.out
    here, there = fork.snapshot(), fork.snapshot(colleague)
    for files in (here, there):
        files.pop("dropped.toml", None)
    assert here == there
