"""Definitions, scopes and elements of Python source."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forktool.core.elements import ElementKind, elements, located_elements
from forktool.core.syntax import (
    Definition,
    DefinitionKind,
    Span,
    definitions,
    has_syntax_error,
    parse,
    repeated_definitions,
    scope_at,
    statement_around,
)

MODULE = b'''import os

@register("a")
class Outer(Base, metaclass=Meta):
    """Says something."""

    class Inner:
        def run(self):
            def local():
                return 1
            return local

    async def go(self) -> int:
        return 2

def last(): pass
'''


def names(source: bytes, kind: ElementKind, scope: str | None = None) -> list[str]:
    return sorted(
        one.name
        for one, count in elements(source).items()
        for _ in range(count)
        if one.kind is kind and scope in (None, one.scope)
    )


def test_definitions_are_dotted_and_hold_their_decorators() -> None:
    found = {one.qualified_name: one for one in definitions(MODULE)}
    assert list(found) == [
        "Outer", "Outer.Inner", "Outer.Inner.run", "Outer.Inner.run.local", "Outer.go", "last",
    ]  # fmt: skip
    assert found["Outer"] == Definition(
        qualified_name="Outer",
        kind=DefinitionKind.CLASS,
        start_line=3,
        end_line=14,
        block_line=0,
        decorators=('register("a")',),
    )
    assert (found["Outer.Inner.run.local"].start_line, found["Outer.Inner.run.local"].end_line) == (9, 10)
    assert found["Outer.go"].kind is DefinitionKind.FUNCTION


@pytest.mark.parametrize(
    ("line", "scope"),
    [
        (0, ""), (1, ""), (2, ""), (3, "Outer"), (5, "Outer"), (6, "Outer"), (8, "Outer.Inner.run"),
        (10, "Outer.Inner.run.local"), (11, "Outer.Inner.run"), (12, "Outer"), (14, "Outer.go"), (15, ""),
        (16, "last"), (17, ""), (99, ""),
    ],
)  # fmt: skip
def test_scope_at_a_line(line: int, scope: str) -> None:
    assert scope_at(MODULE, line) == scope


def test_scopes_do_not_depend_on_line_ends() -> None:
    crlf = MODULE.replace(b"\n", b"\r\n")
    assert [scope_at(crlf, line) for line in range(1, 17)] == [
        scope_at(MODULE, line) for line in range(1, 17)
    ]
    assert elements(crlf) == elements(MODULE)


@pytest.mark.parametrize(
    ("source", "broken"),
    [
        (b"", False),
        (b"x = 1", False),
        (b"\xef\xbb\xbfx = 1\n", False),
        (b"# caf\xe9\nname = 'd\xe9j\xe0'\n", False),
        (b"def f(:\n    pass\n", True),
        (b"x = [1, 2\n", True),
    ],
)
def test_syntax_errors(source: bytes, broken: bool) -> None:
    assert has_syntax_error(source) is broken


def test_a_file_with_errors_still_has_its_definitions() -> None:
    source = b"def good():\n    return 1\n\nx = = 2\n\nclass Also:\n    def inner(self): pass\n"
    assert has_syntax_error(source)
    assert {one.qualified_name for one in definitions(source)} >= {"good", "Also", "Also.inner"}


def test_repeated_definitions_are_those_that_replace_each_other() -> None:
    source = b"""
def twice(): pass
def twice(): pass
@overload
def over(a: int): ...
@overload
def over(a: str): ...
def over(a): pass
class A:
    @property
    def p(self): pass
    @p.setter
    def p(self, value): pass
    def m(self): pass
    def m(self): pass
if WINDOWS:
    def here(): pass
else:
    def here(): pass
try:
    from fast import f
except ImportError:
    def f(): pass
@sizes.register
def _(x: int): pass
@sizes.register(str)
def _(x): pass
"""
    assert repeated_definitions(source) == {"twice": 2, "A.m": 2}


def test_elements_of_a_class() -> None:
    source = b"""
@final
class Model(nn.Module, SupportsPP, metaclass=Meta):
    kinds: list[str] = ['a', "b",]

    def forward(self, x: Tensor, *, scale=1.0, **rest) -> Tensor:
        from .layers import (Norm as N,
                             Linear)
        return N(x)
"""
    assert names(source, ElementKind.DEFINITION) == ["Model", "forward"]
    assert names(source, ElementKind.BASE, "Model") == ["SupportsPP", "metaclass=Meta", "nn.Module"]
    assert names(source, ElementKind.DECORATOR, "Model") == ["@final"]
    assert names(source, ElementKind.PARAMETER, "Model.forward") == ["*", "**rest", "scale", "self", "x"]
    assert names(source, ElementKind.DEFAULT) == ["scale=1.0"]
    assert names(source, ElementKind.ANNOTATION) == ["-> Tensor", "x: Tensor"]
    assert names(source, ElementKind.IMPORT, "Model.forward") == [
        "from .layers import Linear",
        "from .layers import Norm as N",
    ]
    assert names(source, ElementKind.LITERAL, "Model") == ['"a"', '"b"']
    assert {one.owner for one in elements(source) if one.kind is ElementKind.LITERAL} == {"kinds"}
    assert names(source, ElementKind.STATEMENT, "Model.forward") == ["return N(x)"]


def test_the_name_that_a_literal_is_assigned_to_does_not_tell_elements_apart() -> None:
    old, new = (
        b'def f():\n    old = ["a", "b"]\n',
        b'def f():\n    new = [\n        "a",\n        "b",\n    ]\n',
    )
    literals = [{one for one in elements(source) if one.kind is ElementKind.LITERAL} for source in (old, new)]
    assert literals[0] == literals[1]
    assert len(literals[0]) == 2


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (b"x = f(a, b)\n", b"x=f( a,\n   b,\n)\n"),
        (b"x = 'a'\n", b'x = "a"\n'),
        (b"if (a and\n    b):\n    pass\n", b"if a and b:\n    pass\n"),
        (b'raise E("one "\n        "two")\n', b"raise E('one two')\n"),
        (b"x = y  # why\n", b"x = y\n"),
        (b"d = {'k': 1, **rest}\n", b'd = {\n    "k": 1,\n    **rest,\n}\n'),
        (b"def f(a,\n      b=1): pass\n", b"def f(a, b=1,): pass\n"),
    ],
)
def test_layout_does_not_count(one: bytes, other: bytes) -> None:
    assert elements(one) == elements(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (b"x = f(a, b)\n", b"x = f(a, c)\n"),
        (b"x = (a + b) * c\n", b"x = a + b * c\n"),
        (b"return_value = not a\n", b"return_value = a\n"),
        (b"x = 'a'\n", b"x = b'a'\n"),
        (b"if a and b: pass\n", b"if a or b: pass\n"),
        (b"return True\n", b"return False\n"),
        (b"def f(a=1): pass\n", b"def f(a=2): pass\n"),
    ],
)
def test_meaning_counts(one: bytes, other: bytes) -> None:
    assert elements(one) != elements(other)


def test_an_added_argument_or_operand_is_one_more_element() -> None:
    before = elements(b"x = f(a, b)\nif p and q: pass\n")
    after = elements(b"x = f(a, b, c=1)\nif p and q and r: pass\n")
    assert not before - after
    assert [(one.kind, one.name) for one in after - before] == [
        (ElementKind.ARGUMENT, "f(c=1)"),
        (ElementKind.OPERAND, "and r"),
    ]


def test_docstrings_comments_and_bare_keywords_are_no_elements() -> None:
    assert not elements(b'"""Doc."""\n# why\npass\nfor_ever = 1\n') - elements(b"for_ever = 1\n")
    assert not elements(b"def f():\n    return\n") - elements(b"def f():\n    pass\n")


def test_elements_of_some_scopes_only() -> None:
    everything = elements(MODULE)
    some = frozenset({"Outer", "Outer.Inner.run"})
    assert elements(MODULE, some) == {one: n for one, n in everything.items() if one.scope in some}
    assert {one.scope for one in elements(MODULE, some)} == some


def test_located_elements_know_their_lines() -> None:
    source = b'x = [\n    "a",\n    "b",\n]\n'
    where = {one.element.name: (one.first, one.last) for one in located_elements(source)}
    assert where == {'"a"': (2, 2), '"b"': (3, 3), "x=[…]": (1, 4)}


def test_the_statement_around_a_place() -> None:
    source = b"def f():\n    x = [\n        1,\n        2,\n    ]\n    if a:\n        b\n        c\n    d\n"
    assert statement_around(source, 3, 4) == Span(first=2, last=5)
    assert statement_around(source, 7, 8) == Span(first=6, last=8)
    assert statement_around(source, 9, 9) is None
    assert statement_around(source, 5, 6) is None


def test_deep_nesting_is_no_trouble() -> None:
    source = (
        b"x = "
        + b"[" * 300
        + b"1"
        + b"]" * 300
        + b"\ny = "
        + b" + ".join(b"a%d" % n for n in range(2000))
        + b"\n"
    )
    assert any(one.name.startswith("y=a0+a1+") for one in elements(source))


LINES = st.sampled_from(
    [
        "x = 1\n",
        "def f(a):\n",
        "    return a\n",
        "class C:\n",
        "    y = [1,\n",
        "    ]\n",
        "'''\n",
        "\n",
        "if x:\n",
        ")\n",
    ]
)


@given(st.lists(LINES), st.lists(LINES), st.lists(LINES))
def test_a_tree_from_a_near_version_is_the_tree(head: list[str], old: list[str], new: list[str]) -> None:
    near = "".join((*head, *old, *head)).encode()
    source = "".join((*head, *new, *head, "# end\n")).encode()
    parse(near)
    tree = parse(source, near)
    text = str(tree.root_node)
    # A file of its own, so that the remembered tree is not asked: the comment is the only difference.
    other = parse(source.replace(b"# end", b"# fin"))
    assert text == str(other.root_node)


@given(st.binary(max_size=300))
def test_any_bytes_can_be_read(source: bytes) -> None:
    count = source.count(b"\n") + 1
    assert all(1 <= one.start_line <= one.end_line <= count for one in definitions(source))
    assert {scope_at(source, line) for line in range(1, count + 1)} <= {
        "",
        *(one.qualified_name for one in definitions(source)),
    }
    assert all(1 <= one.first <= one.last <= count for one in located_elements(source))
