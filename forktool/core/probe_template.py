"""The first draft of a probe for a patch that has just come in."""

from __future__ import annotations

from forktool.core.series import Patch

_HEAD = '''\
"""Does a tree still need {name}? Red on the bare base, green with the patch.

A draft: it looks for one line of the patch, word for word. Upstream will word the same change differently, so
ask for what the change is for instead: a class's bases, a list's elements, a function called on plain inputs.
"""

'''


def probe_template(patch: Patch) -> str:
    """A probe that passes where the longest line that the patch adds to each text file is there."""
    parts = [_HEAD.format(name=patch.name)]
    for number, (path, line) in enumerate(_added(patch), 1):
        suffix = "" if number == 1 else f"_{number}"
        parts.append(f"\ndef test_the_change_is_there{suffix}(tree):\n")
        if line is None:
            parts.append(f"    assert not tree.exists({path!r})\n")
        else:
            parts.append(f"    assert {line!r} in tree.read_text({path!r})\n")
        parts.append("\n")
    return "".join(parts).rstrip("\n") + "\n"


def _added(patch: Patch) -> list[tuple[str, str | None]]:
    found: list[tuple[str, str | None]] = []
    for file in patch.files:
        if file.new_path is None and file.old_path is not None:
            found.append((file.old_path, None))
        elif file.new_path is not None:
            lines = [line[1:].strip() for hunk in file.hunks for line in hunk.lines if line[:1] == b"+"]
            longest = max(lines, key=len, default=b"")
            if longest:
                found.append((file.new_path, longest.decode("utf-8", "replace")))
    return found
