"""What a merge may have done to lines, told from git's own diffs: nothing here knows the product."""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.support.random_worlds import git

_ALGORITHMS = ("myers", "histogram", "patience")
_WORD = re.compile(rb"\b[bpu]\d+\b")

Lines = Counter[bytes]
Files = dict[bytes, tuple[str, bytes]]
"""Path to mode and content."""


def tree_files(repository: Path, commit: str) -> Files:
    """Path to mode and content of everything in a commit."""
    listed = [line for line in git(repository, "ls-tree", "-r", "-z", commit).split(b"\0") if line]
    names, oids = [], []
    for line in listed:
        head, _, path = line.partition(b"\t")
        mode, _kind, oid = head.decode().split()
        names.append((path, mode))
        oids.append(oid)
    found: Files = {}
    text = git(repository, "cat-file", "--batch", stdin="".join(f"{oid}\n" for oid in oids).encode())
    at = 0
    for path, mode in names:
        end = text.index(b"\n", at)
        size = int(text[at:end].split()[2])
        found[path] = (mode, text[end + 1 : end + 1 + size])
        at = end + 1 + size + 1
    return found


def lines_of(files: Files) -> Lines:
    """How often each line stands in the whole tree; white space at its end does not count."""
    return Counter(
        line.rstrip()
        for _mode, content in files.values()
        if b"\0" not in content
        for line in content.split(b"\n")
    )


def words_of(files: Mapping[bytes, tuple[str, bytes]]) -> Counter[bytes]:
    """How often each word of an author stands in the whole tree."""
    return Counter(word for _mode, content in files.values() for word in _WORD.findall(content))


def touched(before: Files, after: Files) -> tuple[Lines, Lines]:
    """The lines that a commit adds, and those that it removes, as Python's difflib has it."""
    added: Lines = Counter()
    removed: Lines = Counter()
    for path in before.keys() | after.keys():
        old, new = before.get(path, ("", b"")), after.get(path, ("", b""))
        if old == new:
            continue
        lines = [[line.rstrip() for line in content.split(b"\n")] for _mode, content in (old, new)]
        for kind, i, j, k, m in difflib.SequenceMatcher(None, *lines, autojunk=False).get_opcodes():
            if kind != "equal":
                removed.update(lines[0][i:j])
                added.update(lines[1][k:m])
    return added, removed


def touched_by_git(repository: Path, before: str, after: str) -> tuple[Lines, Lines]:
    """The lines that a commit adds, and those that it removes, as any of git's algorithms has it."""
    added: Lines = Counter()
    removed: Lines = Counter()
    for algorithm in _ALGORITHMS:
        sides: dict[bytes, Lines] = {b"+": Counter(), b"-": Counter()}
        text = git(repository, "diff", "--no-color", "-U0", "-M", f"--diff-algorithm={algorithm}", "--text",
                   before, after)  # fmt: skip
        in_hunk = False
        for line in text.split(b"\n"):
            if line.startswith(b"diff --git "):
                in_hunk = False
            elif line.startswith(b"@@"):
                in_hunk = True
            elif in_hunk and line[:1] in sides:
                sides[line[:1]][line[1:].rstrip()] += 1
        added |= sides[b"+"]
        removed |= sides[b"-"]
    return added, removed


@dataclass(frozen=True, kw_only=True, slots=True)
class Merge:
    """One carried patch: the trees of its parent and itself, and the new tree before and with it."""

    base: Files
    patched: Files
    ours: Files
    result: Files


def complaints(merge: Merge, added: Lines, removed: Lines, *, by_words: bool) -> list[str]:
    """What one carried patch did that it should not have done; [] where all is well.

    Args:
        merge: the four trees.
        added: the lines that the patch adds, as often as it may have.
        removed: those that it removes.
        by_words: whether lines may have been put together anew, as the union of two lists is.
    """
    count = words_of if by_words else lines_of
    before, after, there, made = (
        count(files) for files in (merge.base, merge.patched, merge.ours, merge.result)
    )
    if by_words:
        added, removed = _words(added), _words(removed)
    found: list[str] = []
    for line in made.keys() | there.keys() | after.keys():
        if not line:
            continue
        change = made[line] - there[line]
        if change > added[line]:
            found.append(f"{line!r} came {change} times, the patch adds it {added[line]} times")
        if change < -removed[line]:
            found.append(f"{line!r} went {-change} times, the patch removes it {removed[line]} times")
        if _WORD.search(line) and not before[line] and made[line] < after[line]:
            found.append(f"{line!r} is there {made[line]} times, the patch brings {after[line]}")
    # Upstream may have taken a file in under another name: then it is there twice, and in each once.
    most = [_most(files, count) for files in (merge.patched, merge.ours, merge.result)]
    for line, times in most[2].items():
        if _WORD.search(line) and not before[line] and times > max(most[0][line], most[1][line]):
            found.append(f"{line!r} is there {times} times in one file: applied twice")
    if not by_words:
        found += _out_of_order(merge.ours, merge.result, set(added) | set(removed))
    return found


def _most(files: Files, count: Callable[[Files], Counter[bytes]]) -> Counter[bytes]:
    """How often each line stands in the file that has it most often."""
    most: Counter[bytes] = Counter()
    for path, node in files.items():
        most |= count({path: node})
    return most


def _words(lines: Lines) -> Counter[bytes]:
    return Counter(word for line, count in lines.items() for word in _WORD.findall(line) * count)


def _out_of_order(ours: Files, result: Files, touched_lines: set[bytes]) -> list[str]:
    found: list[str] = []
    for path in ours.keys() & result.keys():
        orders = []
        for files in (ours, result):
            lines = [line.rstrip() for line in files[path][1].split(b"\n")]
            counts = Counter(lines)
            orders.append([line for line in lines if counts[line] == 1 and line not in touched_lines])
        both = set(orders[0]) & set(orders[1])
        one, other = ([line for line in order if line in both] for order in orders)
        if one != other:
            found.append(f"{path!r}: upstream's lines {one!r} are in the order {other!r}")
    return found
