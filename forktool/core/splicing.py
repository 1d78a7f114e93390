"""The cheap proof that a merge went well: upstream's file with just the patch's definitions put in.

Most patches edit definitions that upstream left alone. Where each of them stands in the new file, to the byte and
once, and the merged file is the new file with those definitions exchanged, nothing was lost, doubled or misplaced,
and upstream has none of the change there: no syntax needs to be read.
"""

from __future__ import annotations

import itertools
import re

_TOP = re.compile(rb"^(?:@|(?:async[ \t]+)?def\b|class\b)", re.MULTILINE)
_WORD = re.compile(rb"\w+")


def splice(before: bytes, after: bytes, upstream: bytes) -> bytes | None:
    """`upstream` with the top-level definitions that differ between `before` and `after` exchanged.

    Args:
        before: a Python file without the patch.
        after: the file with it.
        upstream: the file in the new tree.

    Returns:
        None where a changed part of `before` is not in `upstream` once, or definitions came or went.
    """
    old, new = _parts(before), _parts(after)
    if len(old) != len(new):
        return None
    result = upstream
    for was, now in zip(old, new, strict=True):
        if was == now:
            continue
        if not _TOP.match(was) or result.count(was) != 1:
            return None
        result = result.replace(was, now)
    return result


def new_words(before: bytes, after: bytes) -> frozenset[bytes]:
    """The words that the patch brings into the file."""
    return frozenset(_WORD.findall(after)) - frozenset(_WORD.findall(before))


def _parts(source: bytes) -> list[bytes]:
    """The file cut where top-level definitions and their decorators begin."""
    starts = [0, *(match.start() for match in _TOP.finditer(source)), len(source)]
    return [source[begin:end] for begin, end in itertools.pairwise(starts) if begin < end]
