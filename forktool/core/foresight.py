"""A guess at what a merge will give, so that the next merge on the same file need not wait for it.

A guess decides nothing: git merges every file, and what was guessed wrongly is merged again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from forktool.core.diff import FileDiff, Hunk

_CONTEXTS = (3, 1, 0)


def guess_merge(files: Iterable[FileDiff], path: str, ours: bytes) -> bytes | None:
    """What a file of the new tree becomes when a patch's hunks are found in it, each in one place.

    Args:
        files: the patch.
        path: the file.
        ours: its content in the new tree.

    Returns:
        None where a hunk is found nowhere or more than once, or the patch does more than edit the file.
    """
    result = ours
    for file in files:
        if path not in file.paths:
            continue
        if file.old_path != path or file.new_path != path or file.binary is not None:
            return None
        for hunk in file.hunks:
            placed = _placed(hunk, result)
            if placed is None:
                return None
            result = placed
    return result


def _placed(hunk: Hunk, text: bytes) -> bytes | None:
    for context in _CONTEXTS:
        lines = _trimmed(hunk.lines, context)
        old = b"".join(line[1:] for line in lines if line[:1] != b"+")
        if old and text.count(old) == 1:
            return text.replace(old, b"".join(line[1:] for line in lines if line[:1] != b"-"))
    return None


def _trimmed(lines: Sequence[bytes], context: int) -> Sequence[bytes]:
    """The lines of a hunk with at most so many lines of context at each end."""
    changed = [at for at, line in enumerate(lines) if line[:1] != b" "]
    if not changed:
        return lines
    return lines[max(0, changed[0] - context) : changed[-1] + 1 + context]
