"""Conflicts in which both sides only inserted."""

from __future__ import annotations

import ast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from forktool.core.markers import Conflict, join_pieces, parse_conflicts
from forktool.core.structural import ResolvedRegion, resolve


def conflict(ours: str, base: str, theirs: str) -> str:
    return f"<<<<<<< v2\n{ours}||||||| parent of ours\n{base}=======\n{theirs}>>>>>>> ours\n"


def resolved(text: str) -> str | None:
    found = resolve("pkg/a.py", conflicted=text.encode())
    return None if found is None else found.content.decode()


def test_a_list_that_upstream_renamed_and_both_appended_to() -> None:
    head = 'class S:\n    def check(self):\n        hidden_supported = [\n            "puffin",\n'
    tail = "        ]\n        return hidden_supported\n"
    ours, theirs = '            "newt",\n', '            "kite",\n            "deep",\n'
    text = head + conflict(ours, "", theirs) + tail
    found = resolve("pkg/a.py", conflicted=text.encode())
    assert found is not None
    assert found.content.decode() == head + ours + theirs + tail
    assert found.regions == (
        ResolvedRegion(
            line=5, ours=ours.encode(), base=b"", theirs=theirs.encode(), result=(ours + theirs).encode()
        ),
    )


def test_a_region_over_the_whole_renamed_assignment() -> None:
    text = conflict('hidden = ["a", "newt"]\n', 'third = ["a"]\n', 'third = ["a", "kite", "deep"]\n')
    assert resolved(text) == 'hidden = ["a", "newt", "kite", "deep"]\n'


def test_the_patch_renamed_it() -> None:
    text = conflict('names = ["a", "n"]\n', 'names = ["a"]\n', 'ours = ["a", "k"]\n')
    assert resolved(text) == 'ours = ["a", "n", "k"]\n'


def test_two_renames_stay_a_conflict() -> None:
    assert resolved(conflict('one = ["a", "n"]\n', 'names = ["a"]\n', 'two = ["a", "k"]\n')) is None


def test_an_insertion_that_both_made_is_there_once() -> None:
    head, tail = "x = [\n    'a',\n", "]\n"
    text = head + conflict("    'n',\n    'k',\n", "", '    "k",\n    "d",\n') + tail
    assert resolved(text) == head + "    'n',\n    'k',\n    \"d\",\n" + tail


def test_comments_go_with_their_elements() -> None:
    head, tail = "x = [\n    'a',  # first\n", "    # keep this sorted\n]\n"
    theirs = "    # ours, see the issue\n    'k',  # until 2.0\n"
    text = head + conflict("    'n',  # new\n", "", theirs) + tail
    assert resolved(text) == head + "    'n',  # new\n" + theirs + tail


def test_a_comment_that_both_wrote_is_there_twice() -> None:
    head, tail = "x = [\n    'a',\n", "]\n"
    text = head + conflict("    'n',  # noqa\n", "", "    'k',  # noqa\n") + tail
    assert resolved(text) == head + "    'n',  # noqa\n    'k',  # noqa\n" + tail


@pytest.mark.parametrize(
    ("ours", "base", "theirs", "result"),
    [
        # upstream broke the line, the patch did not; and the other way round
        (
            "x = [\n    'a',\n    'n',\n]\n", "x = ['a']\n", "x = ['a', 'k']\n",
            "x = [\n    'a',\n    'n',\n    'k',\n]\n",
        ),
        ("x = ['a', 'n']\n", "x = ['a']\n", "x = [\n    'a',\n    'k',\n]\n", "x = ['a', 'n', 'k']\n"),
        # a last element without a comma
        (
            "x = [\n    'a',\n    'n'\n]\n", "x = [\n    'a'\n]\n", "x = [\n    'a',\n    'k'\n]\n",
            "x = [\n    'a',\n    'n',\n    'k'\n]\n",
        ),
        ("x = ('a', 'n',)\n", "x = ('a',)\n", "x = ('a', 'k',)\n", "x = ('a', 'n', 'k',)\n"),
        ("x = ['n']\n", "x = ['a']\n", "x = ['a', 'k']\n", "x = ['n', 'k']\n"),
        ("x = ['a', 'n']\n", "x = ['a']\n", "x = ['k']\n", "x = ['k', 'n']\n"),
        ("x = ['b', 'a', 'n']\n", "x = ['a', 'b']\n", "x = ['a', 'b', 'k']\n", "x = ['b', 'a', 'n', 'k']\n"),
        ("x = {'a', 'n'}\n", "x = {'a'}\n", "x = {'a', 'k'}\n", "x = {'a', 'n', 'k'}\n"),
        ("x = {'a': 1, 'n': 2}\n", "x = {'a': 1}\n", "x = {'a': 1, 'k': 3}\n", "x = {'a': 1, 'n': 2, 'k': 3}\n"),
        ("x = ['n', 'a']\n", "x = ['a']\n", "x = ['k', 'a']\n", "x = ['n', 'k', 'a']\n"),
        ("x = ['a', 'b', 'n']\n", "x = ['a', 'b']\n", "x = ['k', 'a', 'b']\n", "x = ['k', 'a', 'b', 'n']\n"),
        ("x = ['a', 'n', 'b']\n", "x = ['a', 'b']\n", "x = ['a', 'k', 'b']\n", "x = ['a', 'n', 'k', 'b']\n"),
        ("x = ['n']\n", "x = []\n", "x = ['k']\n", "x = ['n', 'k']\n"),
        ("class M(A, N):\n", "class M(A):\n", "class M(A, K):\n", "class M(A, N, K):\n"),
        ("def f(a, n=1):\n", "def f(a):\n", "def f(a, k=2):\n", "def f(a, n=1, k=2):\n"),
        ("y = f(a, n=1)\n", "y = f(a)\n", "y = f(a, k=2)\n", "y = f(a, n=1, k=2)\n"),
        ("from m import a, n\n", "from m import a\n", "from m import a, k\n", "from m import a, n, k\n"),
        (
            "from m import (\n    a,\n    n,\n)\n", "from m import a\n", "from m import a, k\n",
            "from m import (\n    a,\n    n,\n    k,\n)\n",
        ),
        ("import b\nimport n\n", "import b\n", "import b\nimport k\n", "import b\nimport k\nimport n\n"),
        (
            "import n\n", "", "from k import (\n    a,\n    b,\n)\n",
            "from k import (\n    a,\n    b,\n)\nimport n\n",
        ),
        (
            "from m import a, n\nimport b\n", "from m import a\n", "from m import a, k\nimport c  # ours\n",
            "from m import a, n, k\nimport b\nimport c  # ours\n",
        ),
        ("x: list[str] = [f('a'), f('n')]\n", "x = [f('a')]\n", "x = [f('a'), f('k')]\n", None),
        ("x = [['a', 'n'], 1]\n", "x = [['a'], 1]\n", "x = [['a', 'k'], 1]\n", "x = [['a', 'n', 'k'], 1]\n"),
    ],
)  # fmt: skip
def test_unions(ours: str, base: str, theirs: str, result: str | None) -> None:
    body = "    pass\n" if base.startswith(("class", "def")) else ""
    head = "import os\n\n"
    expected = None if result is None else head + result + body + "end = 1\n"
    assert resolved(head + conflict(ours, base, theirs) + body + "end = 1\n") == expected
    if expected is not None:
        ast.parse(expected)


@pytest.mark.parametrize(
    ("ours", "base", "theirs"),
    [
        pytest.param("x = {'a': 1, 'k': 2}\n", "x = {'a': 1}\n", "x = {'a': 1, 'k': 3}\n", id="one key, two values"),
        pytest.param("y = f(a, k=1)\n", "y = f(a)\n", "y = f(a, k=2)\n", id="one keyword, two values"),
        pytest.param("y = f(a, n)\n", "y = f(a)\n", "y = f(a, k)\n", id="two arguments for one place"),
        pytest.param("def f(a, n): pass\n", "def f(a): pass\n", "def f(a, k): pass\n", id="two parameters"),
        pytest.param("y = g(a, n=1)\n", "y = f(a)\n", "y = f(a, k=2)\n", id="another callee"),
        pytest.param("from m import a, n as q\n", "from m import a\n", "from m import a, k as q\n", id="one alias"),
        pytest.param("from n import a, b\n", "from m import a\n", "from m import a, k\n", id="another module"),
        pytest.param("one()\n", "", "two()\n", id="statements"),
        pytest.param("import n\none()\n", "", "import k\n", id="an import and a statement"),
        pytest.param("import k as q\n", "", "import j as q\n", id="one name, two modules"),
        pytest.param("x = 1\n", "x = 2\n", "x = 3\n", id="two values"),
        pytest.param("", "x = ['a']\n", "x = ['a', 'k']\n", id="upstream deleted it"),
        pytest.param("x = f(['a', 'n'])\n", "x = ['a']\n", "x = ['a', 'k']\n", id="another shape"),
        pytest.param("x = ['a', 'n'\n", "x = ['a']\n", "x = ['a', 'k']\n", id="a side that does not parse"),
        pytest.param(
            "x = [\n    'n',\n    'a',\n]\n", "x = [\n    'a',\n]\n", "x = [\n    # ours\n    'a',\n    'k',\n]\n",
            id="a comment of ours on no element of ours",
        ),
        pytest.param(
            "x = [\n    # c\n    'a',\n    'n',\n]\n", "x = [\n    # c\n    'a',\n]\n", "x = ['a', 'k']\n",
            id="a comment that the patch deleted",
        ),
    ],
)  # fmt: skip
def test_whatever_is_more_than_insertions_stays_a_conflict(ours: str, base: str, theirs: str) -> None:
    assert resolved("import os\n\n" + conflict(ours, base, theirs) + "end = 1\n") is None


def test_all_regions_or_none() -> None:
    good = "x = [\n    'a',\n" + conflict("    'n',\n", "", "    'k',\n") + "]\n"
    assert resolved(good + good.replace("x", "y")) is not None
    assert resolved(good + conflict("y = 1\n", "y = 2\n", "y = 3\n")) is None


def test_the_first_and_the_last_statement_of_a_block() -> None:
    first = "def f():\n" + conflict("    import n\n", "", "    import k\n") + "    return 1\n"
    assert resolved(first) == "def f():\n    import k\n    import n\n    return 1\n"
    last = (
        "def f():\n    one()\n"
        + conflict("    import n\n", "", "    import k\n")
        + "\n\ndef g():\n    two()\n"
    )
    assert resolved(last) == "def f():\n    one()\n    import k\n    import n\n\n\ndef g():\n    two()\n"


def test_line_ends_are_kept() -> None:
    text = "x = [\n    'a',\n" + conflict("    'n',\n", "", "    'k',\n") + "]\n"
    assert resolved(text.replace("\n", "\r\n")) == "x = [\r\n    'a',\r\n    'n',\r\n    'k',\r\n]\r\n"


def test_bytes_that_are_not_utf_8_are_kept() -> None:
    text = "x = [\n    'caf\xe9',\n" + conflict("    'n\xe9',\n", "", "    'k\xe9',\n") + "]\n"
    found = resolve("pkg/a.py", conflicted=text.encode("latin-1"))
    assert found is not None
    assert found.content.decode("latin-1") == "x = [\n    'caf\xe9',\n    'n\xe9',\n    'k\xe9',\n]\n"


@pytest.mark.parametrize(
    "text",
    [
        "no conflict\n",
        "<<<<<<< a\nx\n=======\ny\n>>>>>>> b\n",  # git's merge style, without the base
        "<<<<<<< a\nx\n||||||| c\n=======\ny\n",
        "<<<<<<< a\n<<<<<<< a\nx\n||||||| c\n=======\ny\n>>>>>>> b\n",
        "x\n>>>>>>> b\n",
    ],
)
def test_markers_that_are_not_diff3s(text: str) -> None:
    assert parse_conflicts(text.encode()) is None
    assert resolved(text) is None


def test_other_languages_are_left_alone() -> None:
    assert resolve("a.toml", conflicted=conflict("a = 1\n", "", "b = 2\n").encode()) is None


def test_an_underline_of_equal_signs_is_text() -> None:
    text = "Title\n=======\n" + conflict("ours\n", "", "theirs\n=======\n")
    pieces = parse_conflicts(text.encode())
    assert pieces == (
        b"Title\n=======\n",
        Conflict(line=3, ours=b"ours\n", base=b"", theirs=b"theirs\n=======\n"),
        b"",
    )
    assert join_pieces(pieces, lambda one: one.theirs) == b"Title\n=======\ntheirs\n=======\n"


WORDS = st.lists(st.sampled_from("abcdefghij"), unique=True, max_size=6)


@st.composite
def grown(draw: st.DrawFn) -> tuple[list[str], list[str], list[str]]:
    base = draw(WORDS)
    sides: list[list[str]] = []
    for alphabet in ("klmnopq", "nopqrst"):
        side = list(base)
        for word in draw(st.lists(st.sampled_from(alphabet), unique=True, min_size=1, max_size=4)):
            side.insert(draw(st.integers(0, len(side))), word)
        sides.append(side)
    return base, sides[0], sides[1]


def is_subsequence(part: list[str], whole: list[str]) -> bool:
    rest = iter(whole)
    return all(word in rest for word in part)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(grown(), st.booleans(), st.booleans())
def test_a_resolved_list_is_the_union_and_the_rest_of_the_file_is_untouched(
    sides: tuple[list[str], list[str], list[str]], wide: bool, broken: bool
) -> None:
    base, ours, theirs = sides

    def written(name: str, words: list[str], *, inline: bool) -> str:
        if inline:
            return f"    {name} = {words!r}\n"
        return f"    {name} = [\n" + "".join(f"        '{word}',\n" for word in words) + "    ]\n"

    head, tail = "def f():\n    before = ['x']   # odd  \n", "    after = [ 'y' ,]\n\n\n# end"
    text = (
        head
        + conflict(
            written("new", ours, inline=wide),
            written("old", base, inline=wide),
            written("old", theirs, inline=wide != broken),
        )
        + tail
    )
    found = resolve("a.py", conflicted=text.encode())
    assert found is not None
    content = found.content.decode()
    assert content.startswith(head)
    assert content.endswith(tail)
    tree = ast.parse(content)
    lists = {
        node.targets[0].id: ast.literal_eval(node.value)  # type: ignore[attr-defined]
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
    }
    merged = lists["new"]
    assert sorted(merged) == sorted({*ours, *theirs})
    assert is_subsequence(ours, merged)
    assert is_subsequence([word for word in theirs if word in base or word not in ours], merged)
    assert (lists["before"], lists["after"]) == (["x"], ["y"])


@given(
    st.lists(
        st.sampled_from(["x = ['a', 'n']\n", "import n\n", "y()\n", "]\n", "    'k',\n", "# c\n", ""]),
        max_size=12,
    )
)
def test_text_outside_the_regions_never_changes(parts: list[str]) -> None:
    parts += [""] * 12
    head, tail = "".join(parts[:3]), "".join(parts[3:6])
    text = head + conflict(parts[6] + parts[7], parts[8], parts[9] + parts[10]) + tail
    content = resolved(text)
    assert content is None or (content.startswith(head) and content.endswith(tail))
