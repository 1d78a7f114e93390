"""Names for new patches, out of their subjects."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Container

from forktool.core.series import PatchName

LONGEST = 50
"""Characters of a name: what `ls` and a series file still show on one line."""


def slug(text: str) -> str:
    """A name out of a text, at most `LONGEST` characters, cut between words; empty where nothing can be kept.

    Leading `[tags]` and a trailing `(#123)` say how upstream sorts its pull requests, not what the patch does.
    """
    bare = re.sub(r"\s*\(#\d+\)\s*$", "", re.sub(r"^(\s*\[[^\]]*\])+", "", text))
    plain = unicodedata.normalize("NFKD", bare if re.search(r"\w", bare) else text)
    ascii_text = plain.encode("ascii", "ignore").decode().lower()
    words = re.findall(r"[a-z0-9]+(?:[._+][a-z0-9]+)*", ascii_text)
    name = ""
    for word in words:
        longer = f"{name}-{word}" if name else word
        if len(longer) > LONGEST:
            break
        name = longer
    name = name or "".join(words)[:LONGEST]
    return re.sub(r"\.(patch|lock)$", r"-\1", name)


def unique_name(text: str, taken: Container[str]) -> PatchName:
    """The slug of a text, with a number where it is taken."""
    name = slug(text) or "patch"
    number = 1
    candidate = name
    while candidate in taken:
        number += 1
        candidate = f"{name[: LONGEST - len(str(number)) - 1]}-{number}"
    return PatchName(candidate)
