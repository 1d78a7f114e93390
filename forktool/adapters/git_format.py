"""Commits to patch files: one pinned `git format-patch`, so that no configuration changes a byte."""

from __future__ import annotations

import tempfile
from pathlib import Path

from forktool.adapters.git_store import GitStore
from forktool.adapters.state import translated
from forktool.core.objects import Oid

# Each of these was seen to change format-patch's bytes when a user's configuration sets it otherwise.
_PINNED = (
    "-c", "diff.noprefix=false",
    "-c", "diff.mnemonicPrefix=false",
    "-c", "diff.renames=true",
    "-c", "diff.renameLimit=0",
    "-c", "diff.algorithm=myers",
    "-c", "diff.context=3",
    "-c", "diff.interHunkContext=0",
    "-c", "diff.suppressBlankEmpty=false",
    "-c", "diff.orderFile=/dev/null",
    "-c", "diff.ignoreSubmodules=none",
    "-c", "diff.submodule=short",
    "-c", "diff.indentHeuristic=true",
    "-c", "format.attach=",
    "-c", "format.notes=false",
    "-c", "format.signOff=false",
    "-c", "format.useAutoBase=false",
    "-c", "format.encodeEmailHeaders=true",
    "-c", "i18n.logOutputEncoding=UTF-8",
)  # fmt: skip
_FLAGS = (
    "--keep-subject", "--full-index", "--binary", "--zero-commit", "--no-signature", "--no-stat", "--no-numbered",
    "--no-thread", "--no-attach", "--no-to", "--no-cc", "--no-add-header", "--no-base", "--no-cover-letter",
    "--src-prefix=a/", "--dst-prefix=b/",
)  # fmt: skip


def format_patches(store: GitStore, base: Oid, tip: Oid) -> list[bytes]:
    """The patch files of the commits after `base` up to `tip`, oldest first.

    A commit that changes nothing has no patch file: the list is then shorter than the range.

    Raises:
        GitError: git failed.
        DiskError: there is no room for temporary files.
    """
    with tempfile.TemporaryDirectory(prefix="forktool-patches-") as name:
        store.git(
            "format-patch",
            *_FLAGS,
            "--quiet",
            "--output-directory",
            name,
            f"{base}..{tip}",
            configuration=_PINNED,
        )
        with translated(f"cannot read {name}"):
            # The number has as many digits as it needs: 10,000 patches must not sort before the second.
            files = sorted(Path(name).iterdir(), key=lambda file: int(file.name.partition("-")[0]))
            return [file.read_bytes() for file in files]


def diff_text(store: GitStore, old: Oid, new: Oid) -> bytes:
    """The difference of two trees, in the same pinned form as a patch file's diff.

    Raises:
        GitError: git failed.
    """
    flags = ("--full-index", "--binary", "--src-prefix=a/", "--dst-prefix=b/", "-M")
    return store.git("diff-tree", "-r", "-p", *flags, old, new, configuration=_PINNED)


def range_diff(store: GitStore, old: tuple[Oid, Oid], new: tuple[Oid, Oid]) -> str:
    """`git range-diff` of two ranges, as (base, tip).

    The creation factor of 100 pairs a patch with its successor however much it changed; git's own 60 shows a much
    changed patch as one that left and one that came (bitcoin/bitcoin#34656).

    Raises:
        GitError: git failed.
    """
    ranges = (f"{old[0]}..{old[1]}", f"{new[0]}..{new[1]}")
    short = ("-c", "core.abbrev=12")
    text = store.git(
        "range-diff", "--no-color", "--creation-factor=100", *ranges, configuration=(*_PINNED, *short)
    )
    return text.decode("utf-8", "replace")
