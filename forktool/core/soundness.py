"""Whether a merged Python file is the sum of its two sides: a check that knows nothing of how it was merged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

from forktool.core.elements import normal_text
from forktool.core.syntax import (
    CLAUSES,
    COMPOUND,
    DEFINITIONS,
    IMPORTS,
    SIMPLE,
    Node,
    has_syntax_error,
    parse,
    text,
)

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


def has_moved(side: bytes, *, base: bytes, disputed: bytes) -> bool:
    """Whether a side took one of the disputed statements into another block, or out of one, and kept it.

    What the other side changed in or beside such a statement has lost its place, and no count of tokens sees it.

    Args:
        side: the whole file.
        base: what it comes from.
        disputed: the base's lines in conflict.
    """
    lines = {line.strip() for line in disputed.splitlines()}
    before, after = _places(base, lines), _places(side, lines)
    return any(
        after[line] != places and after[line].total() == places.total()
        for line, places in before.items()
        if line in after
    )


def _places(source: bytes, lines: Collection[bytes]) -> dict[bytes, Counter[tuple[str, ...]]]:
    """For simple statements by their first line: the kinds of what they stand in, from the outermost, and how often."""
    found: dict[bytes, Counter[tuple[str, ...]]] = {}
    stack: list[tuple[Node, tuple[str, ...]]] = [(parse(source).root_node, ())]
    while stack:
        node, around = stack.pop()
        for child in node.named_children:
            if child.type in SIMPLE or child.type in IMPORTS:
                line = (child.text or b"").partition(b"\n")[0].strip()
                if line in lines:
                    found.setdefault(line, Counter())[around] += 1
            elif child.type in DEFINITIONS or child.type in COMPOUND or child.type in CLAUSES:
                stack.append((child, (*around, child.type)))
            elif child.type in ("block", "decorated_definition"):
                stack.append((child, around))
    return found


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
