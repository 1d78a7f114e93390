"""Any sequence of commands on a random fork: no traceback, a sound patchset, and nothing lost to an abort or a kill."""

from __future__ import annotations

import contextlib
import io
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import note
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.cli.test_killed import killed_at
from tests.support.budget import budget_of, is_deep
from tests.support.random_forks import Fork, Ran
from tests.support.random_worlds import World, git, worlds

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork.*:DeprecationWarning"),
    *([pytest.mark.timeout(0)] if is_deep() else []),
]

PLACES = st.integers(0, 5)


class Sequence(RuleBasedStateMachine):
    """A maintainer who types anything, and whose machine may die at any instant."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="fuzz-"))
        self.fork: Fork | None = None
        self.stopped_with: dict[str, bytes] | None = None
        self.dead: dict[str, bytes] | None = None

    def teardown(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    @initialize(world=worlds(patches=4, commits=2))
    def begin(self, world: World) -> None:
        note(repr(world))
        self.fork = Fork(world, self.folder)

    def forktool(self, *words: str) -> Ran:
        fork = self.there()
        ran = fork.run(*words)
        note(f"{' '.join(words)}: {ran.code} {ran.err[-300:]}")
        self.stopped_with = fork.snapshot() if (fork.state / "rebase.json").exists() else None
        return ran

    def there(self) -> Fork:
        assert self.fork is not None
        return self.fork

    def name(self, place: int) -> str:
        names = [*self.there().names, "no-such-patch"]
        return names[place % len(names)]

    @rule(place=PLACES, dry=st.booleans())
    def rebase(self, place: int, dry: bool) -> None:
        tags = ["v1.0", *self.there().world.tag_names]
        before = self.there().snapshot()
        was_stopped = self.stopped_with is not None
        ran = self.forktool("rebase", tags[place % len(tags)], *(["--dry-run"] if dry else []))
        if dry or ran.code != 0 or was_stopped:
            assert self.there().snapshot() == before

    @rule(how=st.sampled_from(["--continue", "--skip", "--abort"]))
    def go_on(self, how: str) -> None:
        before = self.there().snapshot()
        was_stopped = self.stopped_with is not None
        ran = self.forktool("rebase", how)
        if not was_stopped:
            assert ran.code == 2
        if how == "--abort" or ran.code != 0:
            assert self.there().snapshot() == before
        if how == "--abort" and was_stopped:
            assert ran.code == 0
            assert self.stopped_with is None
            assert not self.there().conflict.exists()

    @precondition(lambda self: self.stopped_with is not None)
    @rule(how=st.sampled_from(["both", "ours", "theirs", "own", "gone"]), add=st.booleans())
    def settle(self, how: str, add: bool) -> None:
        if self.there().conflict.exists():
            self.there().settle(how, add=add)
            self.forktool("rebase", "--continue")

    @precondition(lambda self: self.stopped_with is not None)
    @rule(place=PLACES)
    def meddle(self, place: int) -> None:
        """A person does something odd in the work tree."""
        work = self.there().conflict
        if place == 0:
            shutil.rmtree(work, ignore_errors=True)
        elif work.exists() and place == 1:
            (work / "stray.txt").write_text("stray\n")
        elif work.exists() and place == 2:
            git(work, "reset", "--quiet", "--hard", check=False)
        elif work.exists() and place == 3:
            git(work, "add", "--all")
            git(work, "commit", "--quiet", "--allow-empty", "--message", "mine")
        elif work.exists():
            (work / "never.txt").write_text(f"touched {place}\n")

    @rule(place=PLACES)
    def keep(self, place: int) -> None:
        self.forktool("keep", self.name(place))

    @rule(place=PLACES, dry=st.booleans())
    def drop(self, place: int, dry: bool) -> None:
        before = self.there().snapshot()
        ran = self.forktool("drop", self.name(place), "--reason", "fuzz", *(["--dry-run"] if dry else []))
        if dry or ran.code != 0:
            assert self.there().snapshot() == before

    @rule(place=PLACES)
    def status(self, place: int) -> None:
        tags = self.there().world.tag_names
        ran = self.forktool("status", *(["--onto", tags[place % len(tags)], "v1.0"] if place else []))
        assert ran.code in (0, 3)

    @rule()
    def apply_and_export(self) -> None:
        target = self.folder / "applied"
        ran = self.forktool("apply", str(target), *(["--force"] if target.exists() else []))
        assert ran.code == 0
        before = self.there().snapshot()
        assert self.forktool("export", str(target)).out == "nothing changed\n"
        assert self.there().snapshot() == before

    @rule(place=PLACES, after=st.booleans())
    def bring_in(self, place: int, after: bool) -> None:
        fork = self.there()
        if not fork.texts:
            return
        file = self.folder / "offered.patch"
        file.write_bytes(fork.texts[place % len(fork.texts)])
        before = fork.snapshot()
        words = ["--after", self.name(place)] if after else []
        ran = self.forktool("import", str(file), *words)
        if ran.code != 0:
            assert fork.snapshot() == before

    @rule(
        words=st.sampled_from(
            [("rebase", "v1.1"), ("rebase", "--continue"), ("rebase", "--skip"), ("rebase", "--abort")]
        ),
        step=st.integers(1, 90),
    )
    def die(self, words: tuple[str, ...], step: int) -> None:
        """The process is killed at some instant; the patchset is the old or the new one after the next command."""
        fork = self.there()
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            count = killed_at(step, (*words, "--patchset", str(fork.patchset)))
        note(f"killed {' '.join(words)} at {step}: {count}")
        listed = self.forktool("status")
        assert listed.code == 0, listed.err
        after = fork.snapshot()
        assert not [name for name in after if name.endswith(".tmp")], sorted(after)

    @invariant()
    def patchset_is_as_it_was(self) -> None:
        if self.fork is not None and self.stopped_with is not None:
            assert self.fork.snapshot() == self.stopped_with, "a stop leaves the patchset alone"

    @invariant()
    def patchset_is_sound(self) -> None:
        if self.fork is None:
            return
        ran = self.fork.run("check", "--json")
        assert ran.code in (0, 1), ran.err
        broken = [problem for problem in ran.document["problems"] if problem["kind"] != "duplicate"]
        assert not broken, broken


TestSequence = Sequence.TestCase
TestSequence.settings = budget_of(3, steps=10)
