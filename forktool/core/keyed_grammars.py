"""TOML, JSON and YAML as entries, read by tree-sitter's grammars of them, which tell the place of every value."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from importlib import import_module

from tree_sitter import Language, Node, Parser

from forktool.core.entries import Entry, Kind
from forktool.core.spans import Span, Text

_BEHIND_MEMBER = re.compile(rb"[ \t]*,?[ \t]*(#[^\n]*)?\r?\n?")
_BEHIND_ENTRY = re.compile(rb"[ \t]*(#[^\n]*)?\r?\n?")


@cache
def _parser(name: str) -> Parser:
    # Each grammar is loaded when the first file of its kind is in conflict, and not before.
    return Parser(Language(import_module(f"tree_sitter_{name}").language()))


def read_toml(source: bytes) -> Entry | None:
    """A TOML document (toml.io, v1.0): its tables, their keys, and arrays that are written over several lines."""
    text = Text(source, (b"#",))
    root = _parser("toml").parse(source).root_node
    if root.has_error:
        return None
    return text.document(Kind.MAPPING, [_toml(text, child) for child in _named(root)])


def _toml(text: Text, node: Node) -> Span:
    if node.type == "pair":
        return _valued(text, node, node.named_children[0], node.named_children[-1], separated=False)
    members = [child for child in _named(node) if child.type == "pair"]
    header = text.lines[node.start_point.row].partition(b"#")[0].strip()
    return _span(
        text, node, header.decode("utf-8", "replace"), Kind.MAPPING, [_toml(text, m) for m in members]
    )


def read_json(source: bytes) -> Entry | None:
    """A JSON document (RFC 8259): objects and arrays that are written over several lines."""
    text = Text(source, ())
    root = _parser("json").parse(source).root_node
    values = _named(root)
    if root.has_error or len(values) != 1:
        return None
    span = _value(text, values[0], "")
    entry = text.entry(span, span.first, in_commas=False) if span.members else None
    return None if span.first or len(text.lines) > span.last + 1 else entry


def _value(text: Text, node: Node, key: str) -> Span:
    if node.type == "object":
        pairs = [
            _valued(text, pair, pair.named_children[0], pair.named_children[-1]) for pair in _named(node)
        ]
        return _span(text, node, key, Kind.MAPPING, pairs, separated=True)
    if node.type == "array":
        plain = all(child.type not in ("object", "array", "inline_table") for child in _named(node))
        members = [_value(text, child, _text(child)) for child in _named(node)]
        kind = Kind.LIST if plain else Kind.STEPS
        return _span(text, node, key, kind, members, separated=True)
    return _span(text, node, key, Kind.LEAF, ())


def _valued(text: Text, node: Node, key: Node, value: Node, *, separated: bool = True) -> Span:
    inner = _value(text, value, _text(key))
    whole = _span(text, node, _text(key), inner.kind, inner.members, separated=True)
    if inner.first != whole.first or (not separated and not _ends_line(text, node, _BEHIND_ENTRY)):
        return _span(text, node, _text(key), Kind.LEAF, ())
    return whole


def read_yaml(source: bytes) -> Entry | None:
    """One YAML document (YAML 1.2) of block mappings and sequences; what has an anchor is one value."""
    text = Text(source, (b"#",))
    root = _parser("yaml").parse(source).root_node
    documents = [child for child in root.named_children if child.type == "document"]
    if root.has_error or len(documents) != 1 or not _are_known(root):
        return None
    block = _block(documents[0])
    if block is None:
        return None
    kind, members = _yaml(text, block)
    # What closes the document, `...`, is no comment: such a file is left alone.
    return text.document(kind, members)


def _block(node: Node) -> Node | None:
    """The block mapping or sequence that a document, a pair or an item has as its value."""
    for child in node.named_children:
        if child.type == "block_node":
            inner = [one for one in child.named_children if one.type != "comment"]
            if len(inner) == 1 and inner[0].type in ("block_mapping", "block_sequence"):
                return inner[0]
    return None


def _yaml(text: Text, block: Node) -> tuple[Kind, list[Span]]:
    members = _named(block)
    if block.type == "block_mapping":
        return Kind.MAPPING, [_pair(text, pair) for pair in members]
    inner = [_block(item) for item in members]
    first_keys = {_first_key(one) for one in inner}
    kind = Kind.LIST if len(first_keys) == 1 and None not in first_keys else Kind.STEPS
    return kind, [_item(text, item, one) for item, one in zip(members, inner, strict=True)]


def _first_key(block: Node | None) -> str | None:
    """The key of a mapping of one pair, "" for a scalar; None for whatever else."""
    if block is None:
        return ""
    pairs = _named(block)
    if block.type != "block_mapping" or len(pairs) != 1:
        return None
    return _text(pairs[0].named_children[0])


def _pair(text: Text, pair: Node) -> Span:
    key = pair.child_by_field_name("key")
    block = _block(pair)
    name = "" if key is None else _text(key)
    if block is None or (key is not None and key.end_point.row != pair.start_point.row):
        return _span(text, pair, name, Kind.LEAF, ())
    return _span(text, pair, name, *_yaml(text, block))


def _item(text: Text, item: Node, block: Node | None) -> Span:
    """An item of a sequence; a mapping's first pair stands behind the dash and names it."""
    if block is None or block.type != "block_mapping":
        return _span(text, item, _text(item), Kind.LEAF, ())
    first, *rest = _named(block)
    whole = _span(text, item, _text(first), Kind.MAPPING, [_pair(text, pair) for pair in rest])
    return replace(whole, opens=first.end_point.row)


def _span(
    text: Text, node: Node, key: str, kind: Kind, members: Sequence[Span], *, separated: bool = False
) -> Span:
    first, last, stop = node.start_point.row, node.end_point.row, node.end_point.column
    if stop == 0 and last > first:
        last, stop = last - 1, len(text.lines[last - 1])
    if kind is not Kind.LEAF:
        # A table of TOML ends where the next one starts; the last lines of a value are its own, though.
        last = max(text.last(first, last), *(member.last for member in members[-1:]), first)
    whole = bool(members) and (not separated or _have_lines(text, members))
    return Span(
        key=key, first=first, last=last, kind=kind if whole else Kind.LEAF, members=tuple(members) if whole else (),
        stop=stop if last == node.end_point.row else None, is_separated=separated,
    )  # fmt: skip


def _have_lines(text: Text, members: Sequence[Span]) -> bool:
    """Whether each member of a list with commas has lines of its own."""
    reached = -1
    for member in members:
        if member.first <= reached or member.stop is None:
            return False
        if _BEHIND_MEMBER.fullmatch(text.lines[member.last][member.stop :]) is None:
            return False
        reached = member.last
    return True


def _ends_line(text: Text, node: Node, behind: re.Pattern[bytes]) -> bool:
    line = text.lines[node.end_point.row]
    return behind.fullmatch(line[node.end_point.column :]) is not None


def _named(node: Node) -> list[Node]:
    return [child for child in node.named_children if child.type != "comment"]


def _text(node: Node) -> str:
    return " ".join((node.text or b"").decode("utf-8", "surrogateescape").split())


def _are_known(node: Node) -> bool:
    """Whether every anchor is set once, and before it is used."""
    known: set[bytes] = set()
    waiting = [node]
    while waiting:
        here = waiting.pop()
        if here.type in ("anchor", "alias"):
            name = (here.text or b"")[1:]
            if (name in known) == (here.type == "anchor"):
                return False
            known.add(name)
        waiting += reversed(here.named_children)
    return True
