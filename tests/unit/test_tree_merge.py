"""Conflicts in Python in which each side changed something of its own."""

from __future__ import annotations

import ast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forktool.core.findings import FindingKind
from forktool.core.names import find_unbound
from forktool.core.pieces import Kept, edits_of, in_regions
from forktool.core.soundness import has_moved, is_sound
from forktool.core.structural import resolve
from forktool.core.tree_merge import merge_sources


def settled(base: str, ours: str, theirs: str) -> str | None:
    """The whole file as one conflict."""
    text = f"<<<<<<< v2\n{ours}||||||| base\n{base}=======\n{theirs}>>>>>>> patch\n"
    found = resolve("a.py", conflicted=text.encode())
    return None if found is None else found.content.decode()


@pytest.mark.parametrize(
    ("base", "ours", "theirs", "result"),
    [
        pytest.param(
            "def f():\n    a = one()\n    b = two()\n",
            "def f():\n    a = one(1)\n    b = two()\n",
            "def f():\n    a = one()\n    b = two(2)\n",
            "def f():\n    a = one(1)\n    b = two(2)\n",
            id="neighbouring statements",
        ),
        pytest.param(
            "def f():\n    a = one()\n    b = two()\n    return b\n",
            "def f():\n    log('in')\n    b = two()\n    return b\n",
            "def f():\n    a = one()\n    warn('out')\n    return b\n",
            "def f():\n    log('in')\n    warn('out')\n    return b\n",
            id="each replaces a statement of its own",
        ),
        pytest.param(
            "class A:\n    def one(self):\n        return 1\n",
            "class A:\n    def one(self):\n        return 1\n\n    def two(self):\n        return 2\n",
            "class A:\n    def one(self):\n        return 1\n\n    def three(self):\n        return 3\n",
            "class A:\n    def one(self):\n        return 1\n\n    def two(self):\n        return 2\n"
            "\n    def three(self):\n        return 3\n",
            id="two methods at one place",
        ),
        pytest.param(
            "class A:\n    def one(self):\n        return 1\n\n    def two(self):\n        return 2\n",
            "class A:\n    def one(self):\n        return 1\n",
            "class A:\n    def one(self):\n        return 1\n\n    def two(self):\n        return 2\n"
            "\n    def three(self):\n        return 3\n",
            "class A:\n    def one(self):\n        return 1\n\n    def three(self):\n        return 3\n",
            id="a method behind one that upstream lacks",
        ),
        pytest.param(
            "class A:\n    x = 1\n\n    def f(self):\n        pass\n",
            "class A:\n    def f(self):\n        pass\n",
            "class A:\n    x = 1\n    y = 2\n\n    def f(self):\n        pass\n",
            "class A:\n    y = 2\n\n    def f(self):\n        pass\n",
            id="the first statement is gone",
        ),
        pytest.param(
            "x = f(a, b)\n",
            "x = f(a1, b)\n",
            "x = f(a, b2)\n",
            "x = f(a1, b2)\n",
            id="two arguments of one call",
        ),
        pytest.param(
            "x = f(a,\n      b)\n",
            "x = f(a,\n      b,\n      c=1)\n",
            "x = f(a,\n      b2)\n",
            "x = f(a,\n      b2,\n      c=1)\n",
            id="an argument beside an edited one",
        ),
        pytest.param(
            "from m import (\n    a,\n    b,\n)\n",
            "from m import (\n    b,\n    c,\n)\n",
            "from m import (\n    a,\n    b,\n    d,\n)\n",
            "from m import (\n    b,\n    c,\n    d,\n)\n",
            id="imports added, and one taken away",
        ),
        pytest.param(
            "import b\nimport d\n",
            "import b\nimport c\nimport d\n",
            "import a\nimport b\nimport d\n",
            "import a\nimport b\nimport c\nimport d\n",
            id="imports at two places",
        ),
        pytest.param(
            "x = {\n    'a': 1,\n    'b': 2,\n}\n",
            "x = {\n    'a': 1,\n    'b': 3,\n}\n",
            "x = {\n    'a': 1,\n    'b': 2,\n    'c': 4,\n}\n",
            "x = {\n    'a': 1,\n    'b': 3,\n    'c': 4,\n}\n",
            id="a value and a new entry",
        ),
        pytest.param(
            "@one\ndef f():\n    return 1\n",
            "@one\n@two\ndef f():\n    return 1\n",
            "@one\ndef f():\n    return 2\n",
            "@one\n@two\ndef f():\n    return 2\n",
            id="a decorator and the body",
        ),
        pytest.param(
            "def f():\n    return 1\n",
            "@one\ndef f():\n    return 1\n",
            "def f(a=0):\n    return 1\n",
            "@one\ndef f(a=0):\n    return 1\n",
            id="the first decorator and a parameter",
        ),
        pytest.param(
            "if a:\n    one()\nelse:\n    two()\n",
            "if a:\n    one(1)\nelse:\n    two()\n",
            "if a:\n    one()\nelif b:\n    three()\nelse:\n    two()\n",
            "if a:\n    one(1)\nelif b:\n    three()\nelse:\n    two()\n",
            id="a clause and the block before it",
        ),
        pytest.param(
            "x = f('a', b)\n",
            'x = f("a", b)\n',
            "x = f('a', c)\n",
            'x = f("a", c)\n',
            id="other quotes, and an edit",
        ),
        pytest.param(
            "def f():\n    one()\n    two()\n",
            "def f():\n    one()\n    # upstream says\n    two()\n",
            "def f():\n    one(1)\n    two()\n",
            "def f():\n    one(1)\n    # upstream says\n    two()\n",
            id="a comment and the statement above",
        ),
        pytest.param(
            "A = 1\n", "A = 1\nB = 2\n", "A = 1\nC = 3\n", "A = 1\nB = 2\nC = 3\n", id="two constants"
        ),
        pytest.param(
            "def f():\n    one()\n",
            "def f():\n    one()\n    same()\n    more()\n",
            "def f():\n    one(1)\n    same()\n",
            "def f():\n    one(1)\n    same()\n    more()\n",
            id="what both added is there once",
        ),
    ],
)
def test_changes_of_different_things_are_both_made(base: str, ours: str, theirs: str, result: str) -> None:
    assert settled(base, ours, theirs) == result
    ast.parse(result)


@pytest.mark.parametrize(
    ("base", "ours", "theirs"),
    [
        pytest.param("x = 1\n", "x = 2\n", "x = 3\n", id="one value"),
        pytest.param("x = 'one'\n", "x = 'one two'\n", "x = 'zero one'\n", id="one string"),
        pytest.param(
            "def f():\n    a()\n",
            "def f():\n    a()\n    b()\n",
            "def f():\n    a()\n    c()\n",
            id="two statements",
        ),
        pytest.param(
            "def f():\n    a()\n",
            "def f():\n    a()\n    x = 1\n",
            "def f():\n    a()\n    y = 2\n",
            id="two assignments in a function",
        ),
        pytest.param(
            "a = 1\n",
            "a = 1\n\n\ndef f():\n    return 1\n",
            "a = 1\n\n\ndef f():\n    return 2\n",
            id="one name",
        ),
        pytest.param(
            "def f():\n    a()\n    b()\n",
            "def f():\n    b()\n",
            "def f():\n    a(1)\n    b()\n",
            id="edited",
        ),
        pytest.param("x = f(a)\n", "x = g(a)\n", "x = f(a, 1)\n", id="another callee"),
        pytest.param("x = f(a)\n", "x = f(a, 1)\n", "x = f(a, 2)\n", id="two arguments for one place"),
        pytest.param("x = {'a': 1}\n", "x = {'a': 1, 'b': 2}\n", "x = {'a': 1, 'b': 3}\n", id="one key"),
        pytest.param(
            "if a:\n    one()\n    two()\n    three()\n",
            "if a:\n    one()\ntwo_or_more()\ntwo()\nthree()\n",
            "if a:\n    one()\n    extra()\n    two()\n    three()\n",
            id="upstream moved what the patch adds beside",
        ),
        pytest.param(
            "def f():\n    with a:\n        one()\n    two(1, 'x')\n",
            "def f():\n    with a:\n        one()\n        two(1, 'x')\n",
            "def f():\n    with a:\n        one()\n    three()\n",
            id="upstream indented what the patch replaces",
        ),
        pytest.param(
            "def f():\n    with a:\n        one()\n        two(1, 'x')\n",
            "def f():\n    with a:\n        one()\n    two(1, 'x')\n",
            "def f():\n    with a:\n        one()\n        two(1, 'x')\n        three()\n",
            id="upstream took out of a block what the patch adds behind",
        ),
        pytest.param("a = 1\nb = 1\n", "a = 1\nyours = 1\n", "a = 1\nmine = 2\n", id="one replaced twice"),
        pytest.param("x = [a, 1]\n", "x = [b(), 1]\n", "x = [not c, 1]\n", id="one element replaced twice"),
        pytest.param("", "a = 1\n", "b = 2\n", id="two new files"),
        pytest.param("# one\na = 1\n", "# two\na = 1\n", "# three\na = 1\n", id="one comment"),
        pytest.param("a = 1; b = 2\n", "a = 2; b = 2\n", "a = 1; b = 3\n", id="statements that share a line"),
        pytest.param("x = f(a)\n", "x = f(a\n", "x = f(b)\n", id="a side that does not parse"),
    ],
)
def test_whatever_does_not_plainly_add_up_stays_a_conflict(base: str, ours: str, theirs: str) -> None:
    assert settled(base, ours, theirs) is None


STATEMENTS = st.lists(st.integers(0, 40), min_size=3, max_size=9, unique=True)


@st.composite
def edited(draw: st.DrawFn) -> tuple[list[str], dict[int, str], dict[int, str]]:
    """Statements, and what each side makes of some of them; no statement is changed by both."""
    base = [f"call_{number}(first_{number}, second_{number})" for number in draw(STATEMENTS)]
    order = draw(st.permutations(range(len(base))))
    cut, end = sorted((draw(st.integers(0, len(base))), draw(st.integers(0, len(base)))))
    sides = [
        {place: draw(st.sampled_from([base[place].replace("first", name), ""])) for place in places}
        for name, places in (("ours", order[:cut]), ("theirs", order[cut:end]))
    ]
    return base, sides[0], sides[1]


def written(base: list[str], *edits: dict[int, str]) -> str:
    lines = list(base)
    for edit in edits:
        for place, line in edit.items():
            lines[place] = line
    return "def f():\n    start()\n" + "".join(f"    {line}\n" for line in lines if line) + "    end()\n"


@settings(deadline=None)
@given(edited())
def test_edits_of_different_statements_are_the_same_as_one_after_the_other(
    case: tuple[list[str], dict[int, str], dict[int, str]],
) -> None:
    base, ours, theirs = case
    result = settled(written(base), written(base, ours), written(base, theirs))
    assert result == written(base, ours, theirs)
    assert result == settled(written(base), written(base, theirs), written(base, ours))


@settings(deadline=None)
@given(STATEMENTS, st.data())
def test_two_edits_of_one_leaf_are_refused(numbers: list[int], data: st.DataObject) -> None:
    base = [f"call_{number}(first_{number}, second_{number})" for number in numbers]
    place = data.draw(st.integers(0, len(base) - 1))
    sides = [written(base, {place: base[place].replace("first", name)}) for name in ("ours", "theirs")]
    assert settled(written(base), *sides) is None


PARTS = st.lists(
    st.sampled_from(
        [
            "a = 1\n",
            "b = f(x, y)\n",
            "def g():\n    return 1\n",
            "# note\n",
            "\n",
            "import m\n",
            "b = f(x, z)\n",
            "a = 2\n",
        ]
    ),
    max_size=6,
)


@settings(deadline=None)
@given(PARTS, PARTS, PARTS)
def test_no_line_is_invented_lost_or_doubled(base: list[str], ours: list[str], theirs: list[str]) -> None:
    texts = ["".join(parts) for parts in (base, ours, theirs)]
    result = settled(*texts)
    if result is None:
        return
    assert is_sound(result.encode(), base=texts[0].encode(), ours=texts[1].encode(), theirs=texts[2].encode())
    counts = [[line for line in text.splitlines() if line.strip()] for text in (*texts, result)]
    for line in {line for lines in counts for line in lines}:
        before, mine, other, there = (lines.count(line) for lines in counts)
        if before == mine == other:
            assert there == before, line
        if before <= min(mine, other) and "f(" not in line:
            assert max(mine, other) <= there <= mine + other - before, line


def test_a_name_that_upstream_does_not_bind_is_a_finding() -> None:
    patched = b"from m import mock\n\n\ndef f():\n    return mock(1)\n"
    upstream = b"def g():\n    return 1\n"
    merged = upstream + b"\n\ndef f():\n    return mock(1)\n"
    found = find_unbound("a.py", patched=patched, upstream=upstream, merged=merged)
    assert [(one.kind, one.detail) for one in found] == [
        (FindingKind.UNBOUND_NAME, "`mock` is used and not defined")
    ]
    assert not find_unbound(
        "a.py", patched=patched, upstream=upstream, merged=b"from m import mock\n" + merged
    )
    assert not find_unbound("a.txt", patched=patched, upstream=upstream, merged=merged)


def test_an_attribute_that_its_class_sets_no_more_is_a_finding() -> None:
    patched = (
        b"class A:\n    def __init__(self):\n        self.x = 1\n\n    def f(self):\n        return self.x\n"
    )
    merged = b"class A:\n    def f(self):\n        return self.x\n"
    found = find_unbound("a.py", patched=patched, upstream=merged, merged=merged)
    assert [one.detail for one in found] == ["`x` is used and not defined"]


def test_tokens_that_no_side_wrote_are_unsound() -> None:
    base, ours, theirs = b"a = 1\n", b"a = 1\nb = 2\n", b"a = 1\nc = 3\n"
    assert is_sound(b"a = 1\nb = 2\nc = 3\n", base=base, ours=ours, theirs=theirs)
    for merged in (b"a = 1\nb = 2\n", b"a = 1\nb = 2\nc = 4\n", b"a = 1\nb = 2\nc = 3\nc = 3\n", b"a = (\n"):
        assert not is_sound(merged, base=base, ours=ours, theirs=theirs)


def test_only_a_disputed_statement_that_a_side_kept_has_moved() -> None:
    base = b"with a:\n    one()\n    two()\n"
    moved = b"with a:\n    one()\ntwo()\n"
    assert has_moved(moved, base=base, disputed=b"    two()\n")
    assert not has_moved(moved, base=base, disputed=b"    one()\n")
    assert not has_moved(b"with a:\n    one()\n", base=base, disputed=b"    two()\n")
    assert not has_moved(b"with b:\n    one()\n    two()\n", base=base, disputed=b"    two()\n")


def test_edits_outside_the_regions_are_none() -> None:
    source = b"one\ntwo\nthree\n"
    assert in_regions(source, edits_of(source, [Kept(0, 4), b"2\n", Kept(8, 14)]), [(4, 8)]) == [b"2\n"]
    assert in_regions(source, edits_of(source, [b"1\n", Kept(4, 14)]), [(4, 8)]) is None
    blank = b"a\n\nb\n"
    assert in_regions(blank, edits_of(blank, [Kept(0, 2), b"\nn\n", Kept(2, 5)]), [(3, 3)]) == [b"n\n\n"]


def test_what_is_the_same_on_all_sides_stays_in_place() -> None:
    source = b"def f():\n    return 1\n"
    pieces = merge_sources(source, source, source)
    assert pieces is not None
    assert edits_of(source, pieces) == ()
