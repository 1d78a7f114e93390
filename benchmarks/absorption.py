"""How well absorbed patches are recognised, on the history of any git clone.

A commit X between A and B is backported to A where its cherry-pick is clean, and is then a series of one patch on A. On
B upstream has it: that is known by construction, unless X was reverted before B. A commit between B and a later C,
backported the same way, is the opposite: upstream does not have it on B. No patch has a probe.
"""

from __future__ import annotations

import argparse
import random
import re
import shutil
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from forktool.adapters.git_format import diff_text
from forktool.adapters.git_history import GitHistory
from forktool.adapters.git_store import GitStore, GitTree
from forktool.adapters.patchset_files import Patchset
from forktool.adapters.probes import Probes
from forktool.adapters.process import Completed
from forktool.adapters.state import State
from forktool.commands.replaying import Replayed, Replayer
from forktool.core.config import parse_config
from forktool.core.history import History
from forktool.core.objects import NewObject, Oid, Person, encode_commit, new_object
from forktool.core.series import Patch, PatchName, Series, parse_patch
from forktool.core.verdict import Facts, MergeKind, Verdict
from forktool.errors import PatchsetError

_REVERTS = re.compile(r"This reverts commit ([0-9a-f]{40})")
_NAME = PatchName("backport")
_NOBODY = Person(name="bench", email="bench@example.org", when="0 +0000")
_ROWS = (
    "absorbed",
    "partly-absorbed",
    "obsolete",
    "asks: upstream has it",
    "asks: a finding",
    "conflict",
    "carried",
)
_OWN_WORDS = "A change in the fork's own words"


@dataclass(frozen=True, kw_only=True, slots=True)
class Backport:
    """A commit as a patch on the base: its result there, and its diff."""

    commit: Oid
    subject: str
    tree: Oid
    diff: bytes

    def patch(self, subject: str) -> Patch:
        """The patch, under a subject."""
        return parse_patch(_NAME, self.mail(subject), file="backport.patch")

    def mail(self, subject: str) -> bytes:
        """The same as git format-patch writes it."""
        head = (
            f"From {'0' * 40} Mon Sep 17 00:00:00 2001\nFrom: bench <bench@example.org>\n"
            f"Date: Thu, 1 Jan 2026 00:00:00 +0000\nSubject: {subject}\nMIME-Version: 1.0\n"
            "Content-Type: text/plain; charset=UTF-8\nContent-Transfer-Encoding: 8bit\n\n\n"
        )
        return head.encode() + self.diff


class Laboratory:
    """A scratch repository that borrows the objects of the one that is measured, and never writes to it."""

    def __init__(self, folder: Path, repository: Path) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        self.state = State(folder)
        self.store = GitStore(self.state.directory() / "upstream.git")
        self.store.create()
        objects = self.store.path / "objects" / "info"
        objects.mkdir(exist_ok=True)
        source = repository / ".git" if (repository / ".git").is_dir() else repository
        (objects / "alternates").write_text(f"{source.resolve() / 'objects'}\n")
        self._source = source
        self._config = parse_config(
            '[upstream]\nrepository = "."\nsources = ["git"]\n[base]\ntag = "base"\n', file="patchset.toml"
        )

    def resolve(self, revision: str) -> Oid:
        """A revision of the measured repository."""
        found = self.store.try_git(
            "--git-dir", self._source, "rev-parse", "--verify", "--end-of-options", f"{revision}^{{commit}}"
        )
        if found.returncode:
            raise SystemExit(f"no commit is called {revision}")
        return Oid(found.stdout.decode().strip())

    def refs(self) -> list[tuple[str, Oid]]:
        """The measured repository's branches and tags: short name, commit."""
        names = ("refs/heads", "refs/tags", "refs/remotes")
        found = self.store.git(
            "--git-dir",
            self._source,
            "for-each-ref",
            "--format=%(objectname)%00%(*objectname)%00%(refname)",
            *names,
        ).decode("utf-8", "surrogateescape")
        rows = (line.split("\0") for line in found.splitlines())
        return [(name.split("/", 2)[2], Oid(peeled or oid)) for oid, peeled, name in rows]

    def only_parent(self, commit: Oid) -> Oid | None:
        """The parent of a commit that has one; None for a root or a merge."""
        _kind, body = self.store.read_object(commit)
        parents = re.findall(rb"^parent ([0-9a-f]{40})$", body.partition(b"\n\n")[0], re.MULTILINE)
        return Oid(parents[0].decode()) if len(parents) == 1 else None

    def commits(self, base: Oid, tip: Oid) -> list[tuple[Oid, str, str]]:
        """Commits that are no merges: id, subject, whole message."""
        text = self.store.git("log", "-z", "--no-merges", "--format=%H%x1f%s%x1f%B", f"{base}..{tip}").decode(
            "utf-8", "replace"
        )
        rows = (record.split("\x1f", 2) for record in text.split("\0") if record)
        return [(Oid(oid), subject, message) for oid, subject, message in rows]

    def backport(self, base: Oid, commit: Oid, subject: str) -> Backport | None:
        """A commit on the base; None where its cherry-pick is not clean or changes nothing."""
        parent = self.resolve(f"{commit}^")
        root = self.store.tree_of(base)
        tree = self._pick(self.store.tree_of(parent), root, self.store.tree_of(commit))
        if tree is None or tree == root:
            return None
        return Backport(commit=commit, subject=subject, tree=tree, diff=diff_text(self.store, root, tree))

    def is_back(self, backport: Backport, base: GitTree, onto: GitTree) -> bool:
        """Whether B has, line by line, nothing of it any more: every removed line is back, no added one is there."""
        after = self.store.tree(backport.tree, label="patched")
        for path in backport.patch(_OWN_WORDS).paths:
            old, new, there = (Counter((tree.read(path) or b"").split(b"\n")) for tree in (base, after, onto))
            removed, added = old - new, new - old
            if any(there[line] < old[line] for line in removed) or any(
                there[line] > old[line] for line in added
            ):
                return False
        return True

    def plain_git(self, backport: Backport, base: Oid, onto: Oid) -> str:
        """What a plain cherry-pick onto the new tag does."""
        there = self.store.tree_of(onto)
        tree = self._pick(self.store.tree_of(base), there, backport.tree)
        if tree is None:
            return "conflict"
        return "absorbed" if tree == there else "carried"

    def _pick(self, parent: Oid, ours: Oid, theirs: Oid) -> Oid | None:
        """What git's cherry-pick makes of three trees; None where it conflicts."""
        done = self.merge(parent, ours, theirs)
        return None if done.returncode else Oid(done.stdout.split(b"\n", 1)[0].decode())

    def merge(self, parent: Oid, ours: Oid, theirs: Oid, *flags: str) -> Completed:
        """Three trees merged by git trees, as its cherry-pick does it. git 2.39 takes commits only."""
        root = self._commit(parent)
        left, right = self._commit(ours, root), self._commit(theirs, root)
        self.store.quarantine([root, left, right])
        return self.store.try_git("merge-tree", "--write-tree", *flags, left.oid, right.oid)

    def _commit(self, tree: Oid, parent: NewObject | None = None) -> NewObject:
        parents = () if parent is None else (parent.oid,)
        body = encode_commit(tree=tree, parents=parents, author=_NOBODY, committer=_NOBODY, message="bench\n")
        return new_object("commit", body)

    def judge(self, patch: Patch, base: GitTree, onto: GitTree, history: History | None) -> str:
        """The row that a patch's verdict belongs to."""
        step = self.replay(patch, base, onto, history).steps[0]
        verdict = step.outcome.verdict
        if verdict is Verdict.SUSPECT:
            return "asks: upstream has it" if _has_it(step.facts) else "asks: a finding"
        return "carried" if verdict in _CARRIED else verdict.value

    def replay(self, patch: Patch, base: GitTree, onto: GitTree, history: History | None = None) -> Replayed:
        """The series of one patch without a probe, carried from its base onto another tree."""
        patchset = Patchset(
            path=self.state.home,
            config=self._config,
            series=Series(base=self._config.base, patches=(patch,)),
            probes={},
        )
        found = {onto.label: {_NAME: history.absorbers(patch)}} if history is not None else {}
        replayer = Replayer(patchset, base, self.store, Probes({}, self.state))
        return replayer.replay([onto], history=found)[0]


_CARRIED = (Verdict.UNCHANGED, Verdict.REFRESHED, Verdict.RESOLVED)


def _has_it(facts: Facts | None) -> bool:
    if facts is None:
        return False
    content = facts.content
    there = content is not None and content.is_mostly_there
    return bool(facts.absorbed) or there or facts.merge is MergeKind.EMPTY


def _sample(
    laboratory: Laboratory, base: Oid, commits: Iterable[tuple[Oid, str, str]], count: int
) -> Iterator[Backport]:
    for oid, subject, _message in commits:
        if count == 0:
            return
        backport = laboratory.backport(base, oid, subject)
        if backport is None:
            continue
        try:
            backport.patch(_OWN_WORDS)
        except PatchsetError:
            continue
        count -= 1
        yield backport


def run(folder: Path, arguments: list[str]) -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(prog="absorption", description=__doc__)
    parser.add_argument("--repo", type=Path, required=True)
    parser.add_argument("--base", required=True, metavar="A")
    parser.add_argument("--onto", required=True, metavar="B")
    parser.add_argument("--later", metavar="C", help="negatives are taken from B..C")
    parser.add_argument("--sample", type=int, default=150, metavar="N")
    parser.add_argument("--negatives", type=int, metavar="N", help="default: as many as --sample")
    parser.add_argument("--seed", type=int, default=1, metavar="S")
    parser.add_argument(
        "--list", action="store_true", help="name the commits outside the rows that are right"
    )
    options = parser.parse_args(arguments)
    laboratory = Laboratory(folder / "absorption", options.repo)
    with laboratory.store:
        _measure(laboratory, options)


def _measure(laboratory: Laboratory, options: argparse.Namespace) -> None:
    base, onto = laboratory.resolve(options.base), laboratory.resolve(options.onto)
    between = laboratory.commits(base, onto)
    reverts = {oid: set(_REVERTS.findall(message)) for oid, _subject, message in between}
    # A revert that was itself reverted took nothing back.
    undone = {target for targets in reverts.values() for target in targets}
    reverted = {target for oid, targets in reverts.items() if oid not in undone for target in targets}
    chosen = random.Random(options.seed)
    positives = [row for row in between if row[0] not in undone]
    chosen.shuffle(positives)
    trees = (
        laboratory.store.tree(laboratory.store.tree_of(base), label="base"),
        laboratory.store.tree(laboratory.store.tree_of(onto), label="onto"),
    )
    sampled = list(_sample(laboratory, base, positives, options.sample))
    back = [one for one in sampled if laboratory.is_back(one, *trees)]
    sampled = [one for one in sampled if one not in back]
    gone = list(_sample(laboratory, base, [row for row in between if row[0] in reverted], options.sample))
    later: list[Backport] = []
    if options.later:
        after = laboratory.commits(onto, laboratory.resolve(options.later))
        chosen.shuffle(after)
        later = list(_sample(laboratory, base, after, options.negatives or options.sample))
    everything = [*sampled, *back, *gone, *later]
    begin = time.perf_counter()
    paths = {path for backport in everything for path in backport.patch(_OWN_WORDS).paths}
    history = GitHistory(laboratory.store, laboratory.state).read(base, [onto], paths).get(onto)
    walked = time.perf_counter() - begin
    print(f"\n{options.base} -> {options.onto}: {len(between)} commits; the walk took {walked:.1f} s")
    for title, wrong, right, backports in (
        ("upstream has it", ("carried", "conflict", "asks: a finding"), "absorbed", sampled),
        ("reverted before B", ("absorbed", "obsolete"), "carried", gone),
        ("taken back before B without a word", ("absorbed", "obsolete"), "carried", back),
        (
            "upstream does not have it yet",
            ("absorbed", "obsolete", "asks: upstream has it"),
            "carried",
            later,
        ),
    ):
        if backports:
            _table(laboratory, title, wrong, right, backports, base, onto, trees, history, options.list)


def _table(
    laboratory: Laboratory,
    title: str,
    wrong: Sequence[str],
    right: str,
    backports: Sequence[Backport],
    base: Oid,
    onto: Oid,
    trees: tuple[GitTree, GitTree],
    history: History | None,
    listing: bool,
) -> None:
    columns: dict[str, Counter[str]] = {}
    listed: list[str] = []
    begin = time.perf_counter()
    for backport in backports:
        own = backport.patch(_OWN_WORDS)
        rows = {
            "git": laboratory.plain_git(backport, base, onto),
            "content": laboratory.judge(own, *trees, None),
            "history, own words": laboratory.judge(own, *trees, history),
            "history": laboratory.judge(backport.patch(backport.subject), *trees, history),
        }
        for column, row in rows.items():
            columns.setdefault(column, Counter())[row] += 1
            if row in wrong and column != "git":
                listed.append(f"    {column}: {row}: {backport.commit[:12]} {backport.subject}")
    spent = time.perf_counter() - begin
    print(f"\n  {title}: {len(backports)} patches ({spent / len(backports) * 1000:.0f} ms each, all columns)")
    print(f"  {'':<24}" + "".join(f"{column:>20}" for column in columns))
    for row in _ROWS:
        cells = (f"{counts[row]} ({100 * counts[row] / len(backports):.1f} %)" for counts in columns.values())
        print(
            f"  {row:<24}" + "".join(f"{cell:>20}" for cell in cells) + ("  <- right" if row == right else "")
        )
    for line in listed if listing else ():
        print(line)
