"""Random series on random upstreams, replayed: each patch's change is there once, and no line of upstream is lost.

What a merge must give is told by git's cherry-pick and by counting lines. `--hypothesis-profile deep` runs thousands.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

from hypothesis import assume, event, given, note
from hypothesis import strategies as st

from forktool.adapters.git_store import GitStore
from forktool.adapters.patchset_files import Patchset
from forktool.adapters.probes import Probes
from forktool.adapters.state import State
from forktool.commands.replaying import Replayed, Replayer
from forktool.commands.series_commits import commits_on_tag
from forktool.core.config import parse_config
from forktool.core.objects import Oid
from forktool.core.series import Base, PatchName, Series, parse_patch
from forktool.core.verdict import Choice, Decision, MergeKind, Verdict
from tests.support.budget import budget
from tests.support.line_accounts import Merge, complaints, touched, touched_by_git, tree_files
from tests.support.random_worlds import World, git, patch_files, worlds, write

CONFIG = '[upstream]\nrepository = "/nowhere"\n[base]\ntag = "v1.0"\n'


class Laboratory:
    """One world as a repository with a work tree that plain git works in."""

    def __init__(self, world: World, folder: Path) -> None:
        self.world = world
        self.bare = folder / "fork.git"
        write(world, self.bare, with_patches=True)
        self.work = folder / "work"
        git(self.bare, "worktree", "add", "--quiet", "--detach", str(self.work), "v1.0")
        texts = patch_files(self.bare, folder / "patches")
        patches = tuple(
            parse_patch(PatchName(name), text, file=f"{name}.patch")
            for name, text in zip(world.names, texts, strict=True)
        )
        self.patchset = Patchset(
            path=folder, config=parse_config(CONFIG, file="t"),
            series=Series(base=Base(tag="v1.0", tree=None), patches=patches), probes={},
        )  # fmt: skip
        self.commits = git(self.bare, "rev-list", "--reverse", "v1.0..patches").decode().split()
        self.state = State(folder / "state")

    def parent(self, patch: int) -> str:
        return self.commits[patch - 1] if patch else "v1.0"

    def cherry_pick(self, patch: int, onto: str) -> str | None:
        """The tree that git makes of one patch on a commit; None where it stops."""
        git(self.work, "reset", "--quiet", "--hard", onto)
        git(self.work, "cherry-pick", "--no-commit", self.commits[patch], check=False)
        if git(self.work, "ls-files", "--unmerged"):
            return None
        return git(self.work, "write-tree").decode().strip()

    def replays(self, tag: str) -> Iterator[tuple[Replayed, dict[PatchName, Decision], dict[str, Oid]]]:
        """Replay to the end: what stops is kept where it can be, else dropped. Gives the commits, too."""
        decisions: dict[PatchName, Decision] = {}
        with GitStore(self.bare) as store:
            commits = [Oid(git(self.bare, "rev-parse", name).decode().strip()) for name in ("v1.0", tag)]
            trees = [
                store.tree(store.tree_of(oid), label=name)
                for oid, name in zip(commits, ("v1.0", tag), strict=True)
            ]
            while True:
                replayer = Replayer(self.patchset, trees[0], store, Probes({}, self.state))
                replayed = replayer.replay([trees[1]], decisions=decisions)[0]
                chain = commits_on_tag(replayed, store, commits[1], trees[1])
                store.persist(chain.objects)
                yield replayed, decisions, {"": commits[1], **chain.commits}
                if replayed.stop is None:
                    return
                name = replayed.stop.patch.name
                verdict = next(step.outcome.verdict for step in replayed.steps if step.patch.name == name)
                is_kept = verdict is Verdict.SUSPECT and name not in decisions
                decisions[name] = Decision(choice=Choice.KEEP if is_kept else Choice.DROP, reason="fuzz")


@budget(30)
@given(world=worlds(), which=st.integers(0, 2))
def test_each_patch_is_carried_once_and_nothing_of_upstream_is_lost(world: World, which: int) -> None:
    assume(world.patches)
    replay_and_judge(world, which)


def replay_and_judge(world: World, which: int) -> None:
    tag = world.tag_names[which % len(world.tags)]
    with tempfile.TemporaryDirectory(prefix="fuzz-") as name:
        laboratory = Laboratory(world, Path(name))
        judged = 0
        for replayed, decisions, commits in laboratory.replays(tag):
            _judge(laboratory, replayed, decisions, commits, start=judged)
            judged = sum(step.facts is not None for step in replayed.steps) - 1


def _judge(
    laboratory: Laboratory,
    replayed: Replayed,
    decisions: dict[PatchName, Decision],
    commits: dict[str, Oid],
    *,
    start: int,
) -> None:
    world, bare = laboratory.world, laboratory.bare
    ours = str(commits[""])
    for number, step in enumerate(replayed.steps):
        outcome, facts = step.outcome, step.facts
        if facts is None:
            assert outcome.verdict is Verdict.NOT_REACHED
            continue
        if number >= start:
            note(f"{replayed.onto.label} {outcome}")
            event(f"{facts.merge} {outcome.verdict}")
            if number in world.has_of(replayed.onto.label):
                event(f"upstream has some of it: {outcome.verdict}")
            result = commits.get(step.patch.name)
            decision = decisions.get(step.patch.name)
            by_git = laboratory.cherry_pick(number, ours)
            if outcome.verdict.is_dropped:
                assert decision is not None, "without history and probe there is one kind of evidence at most"
                continue
            if outcome.verdict is Verdict.CONFLICT:
                assert by_git is None, "git merges it cleanly"
            if facts.merge in (MergeKind.UNTOUCHED, MergeKind.CLEAN):
                assert by_git is not None, "git stops here"
            if result is not None and by_git is not None:
                made = git(bare, "rev-parse", f"{result}^{{tree}}").decode().strip()
                assert made == by_git, git(bare, "diff", by_git, made).decode("utf-8", "replace")
            if result is not None and decision is None:
                merge = Merge(
                    base=world.before(number), patched=world.patches[number].tree,
                    ours=tree_files(bare, ours), result=tree_files(bare, result),
                )  # fmt: skip
                by_words = facts.merge is MergeKind.RESOLVED
                added, removed = touched(merge.base, merge.patched)
                if complaints(merge, added, removed, by_words=by_words):
                    plus, minus = touched_by_git(bare, laboratory.parent(number), laboratory.commits[number])
                    found = complaints(merge, added | plus, removed | minus, by_words=by_words)
                    assert not found, found
        if step.patch.name in commits:
            ours = str(commits[step.patch.name])
