"""Whether another reader sees in a patch what git sees in it.

Review tools and scripts read patches with unidiff or parsers like it. A patch that git applies as it must can still
look different there: a quoted path stays quoted, a folder called `x b` makes it unreadable. That is no fault of the
patch, but its author should know before somebody reviews the wrong lines. Seen with unidiff 1.0.1.
"""

from __future__ import annotations

from unidiff.errors import UnidiffParseError
from unidiff.patch import PatchedFile, PatchSet

from forktool.core.diff import FileDiff
from forktool.core.mail import parse_mail
from forktool.core.series import Patch


def misreading(patch: Patch) -> str | None:
    """What unidiff reads differently; None where it reads the same paths and as many lines."""
    diff = parse_mail(patch.text, name=patch.name).diff
    try:
        read = PatchSet.from_string(diff.decode("utf-8", "surrogateescape"))
    except UnidiffParseError as error:
        return f"it cannot read the diff: {error}".rstrip()
    if len(read) != len(patch.files):
        return f"it sees {len(read)} changed files, git {len(patch.files)}"
    differences = (_difference(one, other) for one, other in zip(patch.files, read, strict=True))
    return next((found for found in differences if found is not None), None)


def _difference(file: FileDiff, read: PatchedFile) -> str | None:
    path = file.paths[0]
    if read.path != path:
        return f"it sees {read.path} where git sees {path}"
    counts = (file.count(b"+"), file.count(b"-"))
    if (read.added, read.removed) != counts:
        return f"it sees +{read.added} -{read.removed} in {path}, git +{counts[0]} -{counts[1]}"
    return None
