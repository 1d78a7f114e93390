"""Whether a merged Python file is the sum of its two sides: a check that knows nothing of how it was merged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from forktool.core.elements import normal_text
from forktool.core.syntax import Node, has_syntax_error, parse, text

_LAYOUT = frozenset({",", "(", ")"})
_OPENED = frozenset({"module", "class_definition", "function_definition", "decorated_definition", "block"})


def is_sound(merged: bytes, *, base: bytes, ours: bytes, theirs: bytes) -> bool:
    """Whether the result parses, and has each token as often as the base and the sides' changes make it.

    A token that both sides added or took away may be there as if one of them had.
    """
    parse(merged, ours)
    if any(map(has_syntax_error, (merged, ours, theirs))):
        return False
    there, before, mine, other = _tokens((merged, base, ours, theirs))
    for token in there.keys() | before.keys() | mine.keys() | other.keys():
        grown = mine[token] - before[token], other[token] - before[token]
        together = sum(grown)
        alone = max(grown) if min(grown) > 0 else min(grown) if max(grown) < 0 else together
        least, most = sorted((together, alone))
        if not before[token] + least <= there[token] <= before[token] + most:
            return False
    return True


def _tokens(sources: Sequence[bytes]) -> list[Counter[str]]:
    """The tokens of each file and its comments, but for those that layout adds or takes away.

    What all files have in the same words as often says nothing and is left out.
    """
    parts = [_parts(parse(source).root_node) for source in sources]
    counts = [Counter(node.text or b"" for node in nodes) for nodes in parts]
    found: list[Counter[str]] = []
    for nodes in parts:
        left = [node for node in nodes if len({count[node.text or b""] for count in counts}) > 1]
        found.append(Counter(token for node in left for token in _leaves(node) if token not in _LAYOUT))
    return found


def _parts(root: Node) -> list[Node]:
    """The file taken apart into statements, down to those of a function's body."""
    found: list[Node] = []
    stack = [root]
    while stack:
        node = stack.pop()
        if node.type in _OPENED:
            stack += node.children
        else:
            found.append(node)
    return found


def _leaves(root: Node) -> list[str]:
    found: list[str] = []
    stack = [root]
    while stack:
        node = stack.pop()
        if node.type == "string":
            found.append(normal_text(node))
        elif not node.child_count:
            found.append(text(node))
        else:
            stack += node.children
    return found
