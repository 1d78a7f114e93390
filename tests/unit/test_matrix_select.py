"""-k expressions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forktool.core.matrix_select import parse_selector, stranger
from forktool.errors import RequestError

KIMI = "kimi-k2.5-int4.eagle3.tp8.flashinfer-mla.sm100"


@pytest.mark.parametrize(
    ("expression", "selected"),
    [
        ("", True),
        ("kimi", True),
        ("KIMI", True),
        ("deepseek", False),
        ("tp8 and sm100", True),
        ("tp8 and sm90", False),
        ("sm90 or sm100", True),
        ("not sglang", True),
        ("not (kimi and tp8)", False),
        ("not kimi or tp8", True),
        ("kimi and not tp8 or sm100", True),
        (f"={KIMI}", True),
        ("=kimi", False),
        ("k2.5-int4.eagle3", True),
    ],
)
def test_an_expression_selects(expression: str, selected: bool) -> None:
    assert parse_selector(expression)(KIMI) is selected


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        ("kimi and", "column 9: a word is missing at the end"),
        ("(kimi", "column 6: a closing parenthesis is missing"),
        ("kimi tp8", "column 6: unexpected 'tp8'"),
        ("and kimi", "column 1: a word is missing before 'and'"),
        ("kimi & tp8", "column 6: unexpected '&'"),
        ("()", "column 2: a word is missing before ')'"),
    ],
)
def test_a_mistake_is_marked(expression: str, problem: str) -> None:
    with pytest.raises(RequestError) as raised:
        parse_selector(expression)
    assert problem in raised.value.message


words = st.sampled_from(["kimi", "tp8", "sm100", "deepseek", "sglang"])
trees = st.recursive(
    words.map(lambda word: (word, word in KIMI)),
    lambda inner: st.one_of(
        inner.map(lambda one: (f"not ({one[0]})", not one[1])),
        st.tuples(inner, inner).map(
            lambda two: (f"({two[0][0]}) and ({two[1][0]})", two[0][1] and two[1][1])
        ),
        st.tuples(inner, inner).map(lambda two: (f"({two[0][0]}) or ({two[1][0]})", two[0][1] or two[1][1])),
    ),
    max_leaves=8,
)


@given(trees)
def test_any_expression_means_what_python_would_mean(tree: tuple[str, bool]) -> None:
    expression, expected = tree
    assert parse_selector(expression)(KIMI) is expected


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("kimi and eagel3", "no cell has eagel3; did you mean eagle3?"),
        ("not tp4 and tp8.flashinfer-mal", "no cell has tp4; did you mean tp8?"),
        ("tp8.flashinfer-mal", "no cell has tp8.flashinfer-mal; did you mean tp8.flashinfer-mla?"),
        ("=kimi", None),
        ("kimi and llama", None),
        ("zzz", "no cell has zzz; known: eagle3, flashinfer-mla, kimi, llama, tp1, tp8"),
    ],
)
def test_a_word_that_no_cell_has_is_named_with_the_nearest(expression: str, message: str | None) -> None:
    assert stranger(expression, ["kimi.eagle3.tp8.flashinfer-mla", "llama.eagle3.tp1"]) == message
