"""How well a change is carried to an older branch, on the history of any git clone.

A commit Y on some branch that says `(cherry picked from commit X)` shows what its maintainers made of X there. X is
replayed onto Y's parent, as a series of one patch on X's parent and without a probe; the truth is Y's tree. Maintainers
also edit a backport by hand, or leave a part of it out, so another tree than theirs is not always a wrong merge:
`--list` names those, and `--dump` writes them down for a person to look at.
"""

from __future__ import annotations

import argparse
import random
import re
import shutil
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

from benchmarks.absorption import Backport, Laboratory
from benchmarks.peers import GitAm, mergiraf, patch_as_quilt
from forktool.adapters.git_format import diff_text
from forktool.adapters.git_merge import differences
from forktool.commands.replaying import Replayed
from forktool.core.objects import Entry, Mode, Oid, new_object
from forktool.core.structural import resolve
from forktool.core.verdict import MergeKind, Verdict
from forktool.errors import ForktoolError

_PICKED = re.compile(r"\(cherry picked from commit ([0-9a-f]{7,40})\)")
_RIGHT, _DIFFERS, _STOPS, _ERRORS = "right", "differs", "stops", "errors"
_ASKS = {
    _RIGHT: "asks: right if kept",
    _DIFFERS: "asks: differs if kept",
    _STOPS: "asks: in conflict",
}
_DROPS = {_RIGHT: "absorbed: drops, right", _DIFFERS: "absorbed: drops, differs"}
_ROWS = (_RIGHT, _DIFFERS, _STOPS, *_ASKS.values(), *_DROPS.values(), _ERRORS)
_SETTLED = frozenset({_RIGHT, _DIFFERS, *_DROPS.values()})
_OURS, _GIT, _AM, _PATCH, _MERGIRAF = "forktool", "git merge", "git am -3", "patch (quilt)", "mergiraf"


@dataclass(frozen=True, kw_only=True, slots=True)
class Pair:
    """A commit, the one that its maintainers made of it on another branch, and the parents of both."""

    commit: Oid
    parent: Oid
    pick: Oid
    onto: Oid
    subject: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    """A pair as trees, and the change as a patch."""

    pair: Pair
    base: Oid
    onto: Oid
    theirs: Oid
    truth: Oid
    backport: Backport


@dataclass(kw_only=True, slots=True)
class Found:
    """What each column made of one pair; `files` are the paths in which git's own merge conflicts."""

    case: Case
    rows: dict[str, str] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)
    replayed: Replayed | None = None

    @property
    def only_ours(self) -> bool:
        """Whether git stops, and forktool does not."""
        return self.rows[_GIT] == _STOPS and self.rows[_OURS] in _SETTLED

    @property
    def only_git(self) -> bool:
        """Whether forktool stops, or drops the change, and git does not."""
        return self.rows[_GIT] in (_RIGHT, _DIFFERS) and self.rows[_OURS] not in (_RIGHT, _DIFFERS)


def find_pairs(laboratory: Laboratory, glob: str) -> list[Pair]:
    """All pairs on the branches and tags whose short names match, by the id of Y."""
    refs = laboratory.refs()
    tips = [oid for name, oid in refs if fnmatchcase(name, glob)]
    if not tips:
        raise SystemExit(f"no branch or tag matches {glob}")
    text = laboratory.store.git(
        "log", "-z", "--no-merges", "--fixed-strings", "--grep=(cherry picked from commit ",
        "--format=%H%x1f%P%x1f%s%x1f%B", "--stdin", stdin="\n".join(dict.fromkeys(tips)).encode(),
    ).decode("utf-8", "replace")  # fmt: skip
    said: list[tuple[Oid, Oid, str, str]] = []
    for record in text.split("\0"):
        oid, parents, subject, message = (record.split("\x1f", 3) + [""] * 4)[:4]
        names = _PICKED.findall(message)
        if names and parents and " " not in parents:
            said.append((Oid(oid), Oid(parents), subject, names[-1]))
    # One process for all: an abbreviation that is ambiguous or unknown comes back with another word than `commit`.
    asked = "".join(f"{name}^{{commit}}\n" for *_rest, name in said)
    answers = laboratory.store.git("cat-file", "--batch-check", stdin=asked.encode()).decode().splitlines()
    pairs: list[Pair] = []
    for (pick, onto, subject, _name), answer in zip(said, _per_question(answers), strict=True):
        words = answer.split()
        if len(words) == 3 and words[1] == "commit" and words[0] != pick:
            commit = Oid(words[0])
            parent = laboratory.only_parent(commit)
            if parent is not None:
                pairs.append(Pair(commit=commit, parent=parent, pick=pick, onto=onto, subject=subject))
    return sorted(pairs, key=lambda pair: pair.pick)


def _per_question(answers: Iterable[str]) -> list[str]:
    """cat-file's answers without the hints that it gives about an ambiguous name."""
    return [line for line in answers if line.endswith((" missing", " ambiguous")) or " commit " in line]


def run(folder: Path, arguments: list[str]) -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(prog="backports", description=__doc__)
    parser.add_argument("--repo", type=Path, required=True)
    parser.add_argument("--branches", default="*", metavar="GLOB", help="of branches and tags; default: all")
    parser.add_argument("--sample", type=int, metavar="N", help="so many pairs; default: all")
    parser.add_argument("--skip", type=int, default=0, metavar="N", help="leave out the first N of the order")
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="of the order")
    parser.add_argument("--peers", type=int, metavar="N", help="git am and patch on N of them; default: all")
    parser.add_argument("--list", action="store_true", help="name the pairs to look at")
    parser.add_argument("--dump", type=Path, metavar="FOLDER", help="write each conflict of git's as files")
    options = parser.parse_args(arguments)
    laboratory = Laboratory(folder / "backports", options.repo)
    with laboratory.store:
        bench = Bench(laboratory, folder / "backports-am", has_mergiraf=shutil.which("mergiraf") is not None)
        pairs = find_pairs(laboratory, options.branches)
        print(f"\n{options.repo} at {laboratory.resolve('HEAD')}: {len(pairs)} pairs on {options.branches}")
        random.Random(options.seed).shuffle(pairs)
        end = None if options.sample is None else options.skip + options.sample
        found: list[Found] = []
        for pair in pairs[options.skip : end]:
            case = bench.case(pair)
            if case is not None:
                with_peers = options.peers is None or len(found) < options.peers
                found.append(bench.judge(case, with_peers=with_peers))
        bench.show(found, options)


class Bench:
    """Every column on one pair after the other."""

    def __init__(self, laboratory: Laboratory, folder: Path, *, has_mergiraf: bool) -> None:
        self._laboratory = laboratory
        self._store = laboratory.store
        self._am = GitAm(folder, [laboratory.store.path / "objects"])
        self._has_mergiraf = has_mergiraf
        self._seconds: dict[str, float] = {}

    def case(self, pair: Pair) -> Case | None:
        """The pair's trees; None where one of the commits changes nothing."""
        base, theirs, onto, truth = map(self._store.tree_of, (pair.parent, pair.commit, pair.onto, pair.pick))
        if base == theirs or onto == truth:
            return None
        diff = diff_text(self._store, base, theirs)
        backport = Backport(commit=pair.commit, subject=pair.subject, tree=theirs, diff=diff)
        return Case(pair=pair, base=base, onto=onto, theirs=theirs, truth=truth, backport=backport)

    def judge(self, case: Case, *, with_peers: bool) -> Found:
        """The row of each column."""
        found = Found(case=case)
        # The first that reads the trees pays for it: they are read before any clock runs.
        for tree in (case.base, case.onto, case.theirs, case.truth):
            self._store.read_tree(tree)
        begin = time.perf_counter()
        found.rows[_GIT] = self._git(found)
        begin = self._clock(_GIT, begin)
        found.rows[_OURS] = self._ours(found)
        self._clock(_OURS, begin)
        if with_peers:
            paths = sorted(differences(self._store, case.base, case.theirs))
            mail = case.backport.mail("A backport")
            begin = time.perf_counter()
            found.rows[_AM] = _row(case, self._am.apply(mail, paths, case.pair.onto))
            begin = self._clock(_AM, begin)
            found.rows[_PATCH] = _row(case, patch_as_quilt(self._store, case.backport.diff, paths, case.onto))
            self._clock(_PATCH, begin)
        if self._has_mergiraf:
            begin = time.perf_counter()
            found.rows[_MERGIRAF] = self._mergiraf(found)
            self._clock(_MERGIRAF, begin)
        return found

    def _clock(self, column: str, begin: float) -> float:
        now = time.perf_counter()
        self._seconds[column] = self._seconds.get(column, 0.0) + now - begin
        return now

    def _git(self, found: Found) -> str:
        case = found.case
        done = self._laboratory.merge(case.base, case.onto, case.theirs, "-z", "--name-only")
        if done.returncode not in (0, 1):
            return _ERRORS
        fields = done.stdout.split(b"\0")
        tree = Oid(fields[0].decode())
        if not done.returncode:
            return _row(case, tree)
        names = fields[1 : fields.index(b"", 1)]
        merged = self._store.tree(tree, label="merged")
        for name in sorted(set(names)):
            path = name.decode("utf-8", "surrogateescape")
            found.files[path] = merged.read(path) or b""
        return _STOPS

    def _ours(self, found: Found) -> str:
        case = found.case
        base, onto = self._store.tree(case.base, label="base"), self._store.tree(case.onto, label="onto")
        try:
            patch = case.backport.patch("A backport")
            replayed = found.replayed = self._laboratory.replay(patch, base, onto)
        except ForktoolError:
            return _ERRORS
        step = replayed.steps[0]
        verdict = step.outcome.verdict
        if verdict is Verdict.CONFLICT:
            return _STOPS
        if verdict is Verdict.SUSPECT:
            in_conflict = step.facts is not None and step.facts.merge is MergeKind.CONFLICT
            return _ASKS[_STOPS if in_conflict else self._ended(case, step.changes)]
        if verdict.is_dropped:
            return _DROPS[_row(case, case.onto)]
        return self._ended(case, replayed.result.changes)

    def _ended(self, case: Case, changes: Mapping[str, Entry | None]) -> str:
        return _row(case, self._store.changed_tree(case.onto, changes)[0])

    def _mergiraf(self, found: Found) -> str:
        """The merge of git, with mergiraf's result for each file that conflicts: it is made to be called so."""
        if found.rows[_GIT] != _STOPS:
            return found.rows[_GIT]
        case = found.case
        sides = {path: self._sides(case, path) for path in found.files}
        if any(text is None for texts in sides.values() for text in texts):
            return _STOPS
        texts = {
            path: (base or b"", ours or b"", theirs or b"") for path, (base, ours, theirs) in sides.items()
        }
        solved = mergiraf(texts)
        if solved is None:
            return _STOPS
        done = self._laboratory.merge(case.base, case.onto, case.theirs, "-z", "--name-only")
        root = Oid(done.stdout.split(b"\0", 1)[0].decode())
        tree = self._store.tree(root, label="merged")
        changes = {
            path: Entry((tree.entry(path) or Entry(Mode.FILE, root)).mode, new_object("blob", text).oid)
            for path, text in solved.items()
        }
        return _row(case, self._store.changed_tree(root, changes)[0])

    def _sides(self, case: Case, path: str) -> tuple[bytes | None, bytes | None, bytes | None]:
        base, ours, theirs = (
            self._store.tree(root, label="side").read(path) for root in (case.base, case.onto, case.theirs)
        )
        return base, ours, theirs

    def show(self, found: Sequence[Found], options: argparse.Namespace) -> None:
        """Print all that was found."""
        print(f"  {len(found)} of them, seed {options.seed}, from {options.skip}")
        _table(found, self._seconds)
        if not self._has_mergiraf:
            print(f"  {_MERGIRAF}: not installed")
        self._compare(found)
        self._by_file(found)
        if options.list:
            self._listed(found)
        if options.dump is not None:
            for one in found:
                self._dump(one, options.dump)

    def _compare(self, found: Sequence[Found]) -> None:
        stops = Counter(
            column for one in found for column in (_GIT, _OURS) if one.rows[column] not in _SETTLED
        )
        settled = Counter(one.rows[_OURS] == _RIGHT for one in found if one.only_ours)
        fewer = 100 * (1 - stops[_OURS] / stops[_GIT]) if stops[_GIT] else 0.0
        print(
            f"\n  stops: git {stops[_GIT]}, forktool {stops[_OURS]} with all that it asks: {fewer:.1f} % fewer"
        )
        print(
            f"  git stops and forktool settles: {settled.total()}, of these the maintainers' tree {settled[True]}, "
            f"another {settled[False]}"
        )
        lost = Counter(f"{one.rows[_GIT]} -> {one.rows[_OURS]}" for one in found if one.only_git)
        print(f"  git settles and forktool does not: {lost.total()}" + _counts(lost))

    def _by_file(self, found: Sequence[Found]) -> None:
        """The files in which git conflicts: in a pair that forktool settles, and each by itself."""
        here: dict[str, Counter[str]] = {}
        for one in found:
            for path, merged in one.files.items():
                suffix = Path(path).suffix or "no suffix"
                counts = here.setdefault(suffix, Counter())
                counts["files"] += 1
                if one.only_ours:
                    counts[f"in a pair: {self._file_row(one, path, self._result(one, path))}"] += 1
                resolution = resolve(path, conflicted=merged)
                if resolution is not None:
                    counts[f"alone: {self._file_row(one, path, resolution.content)}"] += 1
        if not here:
            return
        columns = (
            "files",
            *(f"{how}: {row}" for how in ("in a pair", "alone") for row in (_RIGHT, _DIFFERS)),
        )
        print("\n  files in which git conflicts, as forktool settles them in a settled pair, and each alone")
        print(f"  {'':<14}" + "".join(f"{column:>20}" for column in columns))
        for suffix, counts in sorted(here.items(), key=lambda item: (-item[1]["files"], item[0])):
            print(f"  {suffix:<14}" + "".join(f"{counts[column]:>20}" for column in columns))

    def _file_row(self, one: Found, path: str, content: bytes | None) -> str:
        truth = self._store.tree(one.case.truth, label="truth").read(path)
        return _RIGHT if content == truth else _DIFFERS

    def _result(self, one: Found, path: str) -> bytes | None:
        """A file as forktool left it where it settled the pair."""
        return one.replayed.result.read(path) if one.replayed is not None else None

    def _listed(self, found: Sequence[Found]) -> None:
        for title, chosen in (
            ("git stops, forktool settles, another tree than the maintainers'",
             [one for one in found if one.only_ours and one.rows[_OURS] != _RIGHT]),
            ("git settles, forktool does not", [one for one in found if one.only_git]),
            ("git's tree is right, forktool's another",
             [one for one in found if one.rows[_GIT] == _RIGHT and one.rows[_OURS] == _DIFFERS]),
            ("errors", [one for one in found if one.rows[_OURS] == _ERRORS]),
        ):  # fmt: skip
            print(f"\n  {title}: {len(chosen)}")
            for one in chosen:
                self._name(one)

    def _name(self, one: Found) -> None:
        pair = one.case.pair
        print(f"    {pair.pick} from {pair.commit}: {one.rows[_OURS]}: {pair.subject}")
        if one.replayed is not None:
            outcome = one.replayed.steps[0].outcome
            for detail in (*(e.detail for e in outcome.evidence), *(str(f) for f in outcome.findings)):
                print(f"        {detail}")
        for path in one.files if one.only_ours else ():
            print(f"        {self._file_row(one, path, self._result(one, path))}: {path}")

    def _dump(self, one: Found, folder: Path) -> None:
        """A folder for each file in which git conflicts: all its versions, git's markers, and our result."""
        pair = one.case.pair
        for path, merged in one.files.items():
            place = folder / pair.pick[:12] / path.replace("/", "__")
            place.mkdir(parents=True, exist_ok=True)
            base, ours, theirs = self._sides(one.case, path)
            resolution = resolve(path, conflicted=merged)
            alone = None if resolution is None else resolution.content
            texts = {
                "base": base, "ours": ours, "theirs": theirs, "merged": merged,
                "truth": self._store.tree(one.case.truth, label="truth").read(path),
                "result": self._result(one, path) if one.only_ours else alone,
            }  # fmt: skip
            for name, text in texts.items():
                (place / name).unlink(missing_ok=True)
                if text is not None:
                    (place / name).write_bytes(text)
            about = f"{pair.pick} picks {pair.commit}\n{pair.subject}\n{path}\nforktool: {one.rows[_OURS]}\n"
            (place / "about").write_text(about, encoding="utf-8", errors="surrogateescape")


def _row(case: Case, tree: Oid | None) -> str:
    if tree is None:
        return _STOPS
    return _RIGHT if tree == case.truth else _DIFFERS


def _counts(counts: Counter[str]) -> str:
    return f" ({', '.join(f'{row}: {count}' for row, count in sorted(counts.items()))})" if counts else ""


def _table(found: Sequence[Found], seconds: Mapping[str, float]) -> None:
    columns = [
        name for name in (_OURS, _GIT, _AM, _PATCH, _MERGIRAF) if any(name in one.rows for one in found)
    ]
    rows = {column: Counter(one.rows[column] for one in found if column in one.rows) for column in columns}
    print(f"\n  {'':<24}" + "".join(f"{column:>18}" for column in columns))
    for row in _ROWS:
        if any(counts[row] for counts in rows.values()):
            cells = (
                f"{counts[row]} ({100 * counts[row] / counts.total():.1f} %)" for counts in rows.values()
            )
            print(f"  {row:<24}" + "".join(f"{cell:>18}" for cell in cells))
    print(f"  {'pairs':<24}" + "".join(f"{counts.total():>18}" for counts in rows.values()))
    each = (f"{1000 * seconds[column] / counts.total():.0f} ms" for column, counts in rows.items())
    print(f"  {'time a pair':<24}" + "".join(f"{cell:>18}" for cell in each))
