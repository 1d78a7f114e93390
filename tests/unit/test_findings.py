"""What a clean merge can have got wrong."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forktool.core.findings import FindingKind, find_problems, rough_scopes
from forktool.core.syntax import line_scopes

K = FindingKind


def problems(
    base: bytes | None,
    patched: bytes | None,
    upstream: bytes | None,
    merged: bytes | None,
    path: str = "pkg/a.py",
) -> list[tuple[FindingKind, str]]:
    found = find_problems(path, base=base, patched=patched, upstream=upstream, merged=merged)
    assert all(one.path == path for one in found)
    return [(one.kind, one.detail) for one in found]


TWIN = b"""class %s:
    def __init__(self, size):
        self.size = size
        self.norm = Norm(size)

    def forward(self, x):
        y = self.norm(x)
        return y * self.size

"""
TWINS = TWIN % b"A" + TWIN % b"B"


def patch_class(source: bytes, name: bytes) -> bytes:
    head, tail = source.split(b"class %s:" % name)
    return (
        head
        + b"class %s:" % name
        + tail.replace(b"        return y", b"        y = clamp(y)\n        return y", 1)
    )


def test_a_hunk_in_the_right_class_is_no_problem() -> None:
    upstream = TWIN % b"New" + TWINS
    assert problems(TWINS, patch_class(TWINS, b"B"), upstream, patch_class(upstream, b"B")) == []


def test_a_hunk_that_landed_in_a_twin_class() -> None:
    upstream = TWIN % b"A" + TWIN % b"New" + TWIN % b"B"
    assert problems(TWINS, patch_class(TWINS, b"B"), upstream, patch_class(upstream, b"New")) == [
        (K.MOVED_SCOPE, "`y = clamp(y)` belongs in B.forward and is in New.forward")
    ]


def test_a_class_that_upstream_renamed_takes_its_hunk_along() -> None:
    upstream = TWINS.replace(b"class B", b"class Better")
    assert problems(TWINS, patch_class(TWINS, b"B"), upstream, patch_class(upstream, b"Better")) == []


def test_a_body_that_upstream_moved_to_a_new_method_is_shown() -> None:
    upstream = TWINS.replace(
        b"class B:\n", b"class B:\n    def call(self, x):\n        return self.forward_impl(x)\n\n"
    )
    head, tail = upstream.split(b"class B:")
    upstream = (
        head
        + b"class B:"
        + tail.replace(b"def forward(", b"def forward_impl(").replace(b"def call(", b"def forward(")
    )
    merged = patch_class(upstream, b"B")
    assert problems(TWINS, patch_class(TWINS, b"B"), upstream, merged) == [
        (K.MOVED_SCOPE, "`y = clamp(y)` belongs in B.forward and is in B.forward_impl")
    ]


def test_one_line_that_both_put_behind_different_blank_lines() -> None:
    base = b"a,\n\n\n,b\n"
    merged = b"a,\n\nsetting = 1\n\nsetting = 1\n,b\n"
    patched, upstream = b"a,\n\nsetting = 1\n\n,b\n", b"a,\n\n\nsetting = 1\n,b\n"
    assert problems(base, patched, upstream, merged, "a.txt") == [
        (K.DUPLICATE_LINES, "`setting = 1` is there twice")
    ]


FUNCTIONS = b"def x():\n    return one()\n\n\ndef z():\n    return two()\n"
Y = b"def y(a):\n    b = a + 1\n    return b\n\n\n"


def test_one_function_that_both_added_at_different_places() -> None:
    patched = FUNCTIONS.replace(b"def z", Y + b"def z")
    upstream = FUNCTIONS + b"\n\n" + Y.rstrip() + b"\n"
    merged = patched + b"\n\n" + Y.rstrip() + b"\n"
    assert problems(FUNCTIONS, patched, upstream, merged) == [
        (K.DUPLICATE_LINES, "`def y(a):` and 2 more is there twice in y"),
        (K.DUPLICATE_DEFINITION, "y is defined 2 times"),
    ]


def test_one_function_that_both_added_in_different_words() -> None:
    patched = FUNCTIONS.replace(b"def z", Y + b"def z")
    upstream = FUNCTIONS + b"\n\ndef y(a, limit=None):\n    return min(a + 1, limit)\n"
    merged = patched + b"\n\ndef y(a, limit=None):\n    return min(a + 1, limit)\n"
    assert problems(FUNCTIONS, patched, upstream, merged) == [
        (K.DUPLICATE_DEFINITION, "y is defined 2 times")
    ]


def test_a_function_that_both_moved() -> None:
    base = Y + FUNCTIONS
    patched = FUNCTIONS.replace(b"def z", Y + b"def z")
    upstream = FUNCTIONS + b"\n\n" + Y.rstrip() + b"\n"
    merged = patched + b"\n\n" + Y.rstrip() + b"\n"
    assert K.DUPLICATE_DEFINITION in [kind for kind, _ in problems(base, patched, upstream, merged)]


@pytest.mark.parametrize(
    "added",
    [
        b"@overload\ndef x(a: int): ...\n@overload\ndef x(a: str): ...\n",
        b"if FAST:\n    def y(): return 1\nelse:\n    def y(): return 2\n",
        b"try:\n    from fast import y\nexcept ImportError:\n    def y(): return 2\n",
        b"class P:\n    @property\n    def v(self): return 1\n    @v.setter\n    def v(self, to): self.w = to\n",
    ],
)
def test_definitions_that_may_share_a_name(added: bytes) -> None:
    patched = added + FUNCTIONS
    upstream = FUNCTIONS + b"\nmore = 1\n"
    assert problems(FUNCTIONS, patched, upstream, patched + b"\nmore = 1\n") == []


def test_a_duplicate_that_upstream_has_itself_is_not_ours() -> None:
    upstream = FUNCTIONS + b"def x():\n    return three()\n"
    patched = FUNCTIONS.replace(b"two()", b"two(2)")
    assert problems(FUNCTIONS, patched, upstream, upstream.replace(b"two()", b"two(2)")) == []


def literal(*rows: str, name: str = "names") -> bytes:
    return "".join([f"{name} = [\n", *(f"    {row},\n" for row in rows), "]\n"]).encode()


def test_an_element_twice_in_one_list() -> None:
    base = literal('"a"', '"b"', '"c"', '"d"')
    patched, upstream = (
        literal('"new"', '"a"', '"b"', '"c"', '"d"'),
        literal('"a"', '"b"', '"c"', '"d"', "'new'"),
    )
    merged = literal('"new"', '"a"', '"b"', '"c"', '"d"', "'new'")
    assert problems(base, patched, upstream, merged) == [
        (K.DUPLICATE_ELEMENT, 'literal element "new" is there 2 times')
    ]


def test_an_element_once_in_each_of_two_lists_is_no_problem() -> None:
    one, two = literal('"a"', name="one"), literal('"b"', name="two")
    mine, theirs = literal('"a"', '"new"', name="one"), literal('"b"', "'new'", name="two")
    assert problems(one + two, mine + two, one + theirs, mine + theirs) == []


def test_a_key_twice_in_one_dictionary() -> None:
    def table(*rows: bytes) -> bytes:
        return b"class T:\n    table = {\n" + b"".join(b"        %s,\n" % row for row in rows) + b"    }\n"

    base = table(b'"a": 1', b'"b": 2', b'"c": 3')
    patched = table(b'"k": 4', b'"a": 1', b'"b": 2', b'"c": 3')
    upstream = table(b'"a": 1', b'"b": 2', b'"c": 3', b'"k": 5')
    merged = table(b'"k": 4', b'"a": 1', b'"b": 2', b'"c": 3', b'"k": 5')
    assert problems(base, patched, upstream, merged) == [
        (K.DUPLICATE_ELEMENT, 'literal element "k" is there 2 times in T')
    ]


def test_a_base_class_twice() -> None:
    def model(*bases: bytes) -> bytes:
        return b"class M(\n" + b"".join(b"    %s,\n" % base for base in bases) + b"):\n    size = 1\n"

    base, patched = model(b"Aa", b"Bb", b"Cc"), model(b"New", b"Aa", b"Bb", b"Cc")
    upstream = model(b"Aa", b"Bb", b"Cc", b"New")
    assert problems(base, patched, upstream, model(b"New", b"Aa", b"Bb", b"Cc", b"New")) == [
        (K.DUPLICATE_LINES, "`New` is there twice in M"),
        (K.DUPLICATE_ELEMENT, "base class New is there 2 times in M"),
    ]


def test_an_import_twice() -> None:
    base = b"import a\nimport b\nimport c\n\nuse(a, b, c)\n"
    patched, upstream = (
        b"from m import n\n" + base,
        base.replace(b"import c\n", b"import c\nfrom m import (n, o)\n"),
    )
    merged = b"from m import n\n" + upstream
    assert problems(base, patched, upstream, merged) == [
        (K.DUPLICATE_IMPORT, "from m import n is there 2 times")
    ]


def test_lost_lines_of_both_sides() -> None:
    base = b"def f():\n    one()\n    two()\n    three()\n"
    patched = base.replace(b"    two()\n", b"    two()\n    ours(1)\n")
    upstream = base.replace(b"    one()\n", b"    one()\n    theirs(1)\n")
    assert problems(base, patched, upstream, patched) == [
        (K.LOST_UPSTREAM, "upstream's line is missing: `theirs(1)`")
    ]
    assert problems(base, patched, upstream, upstream) == [
        (K.LOST_PATCH, "the patch's line is missing: `ours(1)`")
    ]
    both = upstream.replace(b"    two()\n", b"    two()\n    ours(1)\n")
    assert problems(base, patched, upstream, both) == []


def test_lines_that_the_patch_deletes_are_not_lost() -> None:
    base = b"def f():\n    one()\n    two()\n    three()\n"
    patched, upstream = (
        base.replace(b"    three()\n", b""),
        base.replace(b"    one()", b"    one()\n    more()"),
    )
    assert problems(base, patched, upstream, upstream.replace(b"    three()\n", b"")) == []


def test_the_union_of_two_one_line_lists_lost_nothing() -> None:
    base = b'names = ["a"]\nrest()\n'
    patched, upstream, merged = (
        b"names = [%s]\nrest()\n" % row for row in (b'"a", "k"', b'"a", "n"', b'"a", "n", "k"')
    )
    assert problems(base, patched, upstream, merged) == []
    assert problems(base, patched, upstream, patched) == [
        (K.LOST_UPSTREAM, 'upstream\'s line is missing: `names = ["a", "n"]`')
    ]


def test_a_merge_that_does_not_parse() -> None:
    base = b"x = 1\ny = 2\n"
    assert problems(base, b"x = 2\ny = 2\n", b"x = 1\ny = 3\n", b"x = 2\n\ty = = 3\n") == [
        (K.SYNTAX_ERROR, "the merged file does not parse")
    ]
    broken = b"x = = 1\ny = 2\n"
    assert problems(broken, b"x = = 2\ny = 2\n", b"x = = 1\ny = 3\n", b"x = = 2\ny = 3\n") == []


def test_conflict_markers() -> None:
    base, patched, upstream = b"a\nb\n", b"a\nours one\n", b"a\ntheirs one\n"
    merged = b"a\n<<<<<<< v1\ntheirs one\n||||||| base\nb\n=======\nours one\n>>>>>>> patch\n"
    assert problems(base, patched, upstream, merged, "a.md") == [
        (K.CONFLICT_MARKERS, "conflict markers from line 2 on")
    ]
    assert problems(merged, merged + b"more text\n", merged, merged + b"more text\n", "a.md") == []


def test_deleted_files() -> None:
    assert problems(b"x = 1\n", None, b"x = 1\n", None) == []
    assert problems(b"x = 1\n", None, b"x = 2\n", None) == [
        (K.LOST_UPSTREAM, "the file that upstream changed is gone")
    ]
    assert problems(b"x = 1\n", b"x = 2\n", None, None) == [
        (K.LOST_PATCH, "the file that the patch changes is gone")
    ]


@pytest.mark.parametrize("content", [b"caf\xe9 one\r\n\x0cbar two\r", b"no end", b""])
def test_odd_bytes_are_lines_too(content: bytes) -> None:
    assert (
        problems(content, content + b"\nmine one", content + b"\x00", content + b"\x00\nmine one", "a.bin")
        == []
    )


LINES = st.lists(
    st.sampled_from(
        ["x = 1", "def f():", "    return g(1)", "class A:", "    def f(self):", "    )", "", "if a:"]
    )
)


@given(LINES, LINES, st.sampled_from(["a.py", "a.txt"]))
def test_nothing_is_wrong_where_upstream_did_not_change(
    base: list[str], patched: list[str], path: str
) -> None:
    old, new = "\n".join(base).encode(), "\n".join(patched).encode()
    assert find_problems(path, base=old, patched=new, upstream=old, merged=new) == ()


@given(LINES, LINES, st.sampled_from(["a.py", "a.txt"]))
def test_nothing_is_wrong_where_upstream_has_all_of_it(
    base: list[str], patched: list[str], path: str
) -> None:
    old, new = "\n".join(base).encode(), "\n".join(patched).encode()
    assert find_problems(path, base=old, patched=new, upstream=new, merged=new) == ()


def test_rough_scopes_agree_with_the_syntax_on_ordinary_code() -> None:
    source = (
        TWINS + FUNCTIONS + b"\nasync def go(\n    a,\n):\n    if a:\n        b = '''\ntext\n'''\n        c\n"
    )
    exact, rough = line_scopes(source), rough_scopes(source, source.count(b"\n"))
    telling = [place for place, line in enumerate(source.split(b"\n")) if len(line.strip()) > 1]
    assert [rough(place) for place in telling] == [exact[place] for place in telling]
    assert [rough_scopes(source, place)(place) for place in telling] == [exact[place] for place in telling]
