"""Looking for text in a tree of the private store, without a work tree: `git grep` (git-grep(1))."""

from __future__ import annotations

from collections.abc import Sequence

from forktool.adapters.git_store import GitStore
from forktool.core.objects import Oid

_FILES = ("*.py", "*.pyi")


def is_complete(store: GitStore, tree: Oid) -> bool:
    """Whether all contents of a tree are there, so that reading them fetches nothing."""
    if store.try_git("config", "--get-regexp", r"^remote\..*\.promisor$").returncode:
        return True
    listed = store.try_git("rev-list", "--objects", "--missing=print", "--no-object-names", tree)
    return listed.returncode == 0 and b"?" not in listed.stdout


def files_defining(store: GitStore, tree: Oid, name: str) -> tuple[str, ...]:
    """The Python files with a class or function of that name, at any depth."""
    # Fixed strings take a third of the time of a regular expression.
    heads = (f"def {name}(", f"class {name}(", f"class {name}:")
    return tuple(
        _grep(store, tree, "--files-with-matches", *(word for head in heads for word in ("-e", head)))
    )


def files_with_most(store: GitStore, tree: Oid, lines: Sequence[bytes]) -> tuple[str, ...]:
    """The Python files that hold some of these texts, those with most such lines first."""
    if not lines:
        return ()
    words = [word for line in lines for word in ("-e", line.decode("utf-8", "surrogateescape"))]
    counts: dict[str, int] = {}
    for row in _grep(store, tree, "--count", *words):
        path, _nul, count = row.rpartition("\0")
        counts[path] = int(count)
    return tuple(sorted(counts, key=lambda path: (-counts[path], path)))


def _grep(store: GitStore, tree: Oid, *args: str) -> list[str]:
    done = store.try_git(
        "grep", "--no-color", "--full-name", "-z", "-I", "-F", *args, tree, "--", *_FILES,
        configuration=("-c", "grep.threads=0", "-c", "grep.fullName=true"),
    )  # fmt: skip
    text = done.stdout.decode("utf-8", "surrogateescape")
    # With -z a NUL ends each file name, and with --count a line feed each row.
    rows = text.split("\0") if "--files-with-matches" in args else text.split("\n")
    return [row.removeprefix(f"{tree}:") for row in rows if row]
