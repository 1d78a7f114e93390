"""Conflicts in TOML, YAML, JSON, INI and requirements: right values, and what stays a conflict."""

from __future__ import annotations

import configparser
import json
import tomllib
from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from forktool.core.keyed import is_keyed
from forktool.core.structural import Resolution, resolve


def conflicted(base: str, ours: str, theirs: str) -> bytes:
    """One region from the first line that differs on any side to the last."""
    sides = [text.encode().splitlines(keepends=True) for text in (base, ours, theirs)]
    shortest = min(map(len, sides))
    front = 0
    while front < shortest and len({side[front] for side in sides}) == 1:
        front += 1
    back = 0
    while back < shortest - front and len({side[-1 - back] for side in sides}) == 1:
        back += 1
    old, mine, other = (b"".join(side[front : len(side) - back]) for side in sides)
    before, after = b"".join(sides[0][:front]), b"".join(sides[0][len(sides[0]) - back :])
    markers = (b"<<<<<<< v2\n", b"||||||| v1\n", b"=======\n", b">>>>>>> patch\n")
    return before + markers[0] + mine + markers[1] + old + markers[2] + other + markers[3] + after


def settled(path: str, base: str, ours: str, theirs: str) -> str | None:
    found = resolve(path, conflicted=conflicted(base, ours, theirs))
    return None if found is None else found.content.decode()


TOML = """# top
[project]
name = "x"
dependencies = [
  "a",
  "m",  # for m
]

[tool.ruff]
line-length = 100
"""
YAML = """---
# top
on:
  push:
    branches:
      - main
env:
  A: 1
steps:
  - name: check out
    uses: checkout
  - name: test
    run: |
      test
      # not a comment
"""
JSON = """{
  "name": "x",
  "files": [
    "a",
    "b"
  ],
  "private": true
}
"""
INI = """[metadata]
name = x

[options]
install_requires =
    a>=1
    b
python_requires = >=3.8
"""
REQUIREMENTS = """# pinned
alpha==1
beta==2  # why
-r more.txt
"""


@pytest.mark.parametrize(
    ("path", "base", "ours", "theirs", "expected"),
    [
        pytest.param(
            "pyproject.toml", TOML,
            TOML.replace('  "m",  # for m\n', '  "m",  # for m\n  "n",\n'),
            TOML.replace('  "m",  # for m\n', '  "m",  # for m\n  "z",  # for z\n'),
            TOML.replace('  "m",  # for m\n', '  "m",  # for m\n  "n",\n  "z",  # for z\n'),
            id="elements-of-a-toml-array",
        ),
        pytest.param(
            "pyproject.toml", TOML,
            TOML.replace("line-length = 100", "line-length = 110"),
            TOML.replace("line-length = 100\n", 'line-length = 100\ntarget = "py311"\n'),
            TOML.replace("line-length = 100\n", 'line-length = 110\ntarget = "py311"\n'),
            id="a-value-and-its-neighbour-in-toml",
        ),
        pytest.param(
            "pyproject.toml", TOML,
            TOML + "\n[tool.mine]\na = 1\n", TOML + "\n# theirs\n[tool.theirs]\nb = 2\n",
            TOML + "\n[tool.mine]\na = 1\n\n# theirs\n[tool.theirs]\nb = 2\n",
            id="two-toml-tables",
        ),
        pytest.param(
            "pyproject.toml", TOML,
            TOML.replace('  "m",  # for m\n', '  "m>=2",\n'), TOML.replace('  "m",', '  "f",\n  "m",'),
            TOML.replace('  "m",  # for m\n', '  "f",\n  "m>=2",\n'),
            id="an-element-before-one-that-changed",
        ),
        pytest.param(
            "ci.yml", YAML,
            YAML.replace("  A: 1\n", "  A: 1\n  B: 2\n"), YAML.replace("  A: 1\n", "  A: 1\n  # three\n  C: 3\n"),
            YAML.replace("  A: 1\n", "  A: 1\n  B: 2\n  # three\n  C: 3\n"),
            id="keys-of-a-yaml-mapping",
        ),
        pytest.param(
            "ci.yaml", YAML,
            YAML.replace("      - main\n", "      - main\n      - next\n"),
            YAML.replace("      - main\n", "      - main\n      - 'stable-*'\n"),
            YAML.replace("      - main\n", "      - main\n      - next\n      - 'stable-*'\n"),
            id="items-of-a-yaml-list",
        ),
        pytest.param(
            "ci.yml", YAML,
            YAML + "  - name: lint\n    run: lint\n", YAML + "  - name: types\n    run: types\n",
            YAML + "  - name: lint\n    run: lint\n  - name: types\n    run: types\n",
            id="steps-behind-a-block-that-ends-in-a-hash",
        ),
        pytest.param(
            "ci.yml", YAML,
            YAML.replace("    uses: checkout\n", "    uses: checkout\n    with: depth\n"),
            YAML.replace("    uses: checkout\n", "    uses: other\n"),
            YAML.replace("    uses: checkout\n", "    uses: other\n    with: depth\n"),
            id="keys-of-one-step",
        ),
        pytest.param(
            "ci.yml", "x: &x\n  a: 1\nb: *x\nc: 1\n",
            "x: &x\n  a: 1\nb: *x\nd: *x\nc: 1\n", "x: &x\n  a: 1\nb: *x\ne: *x\nc: 1\n",
            "x: &x\n  a: 1\nb: *x\nd: *x\ne: *x\nc: 1\n",
            id="uses-of-an-anchor",
        ),
        pytest.param(
            "package.json", JSON,
            JSON.replace('    "b"\n', '    "b",\n    "c"\n'), JSON.replace('    "b"\n', '    "b",\n    "d"\n'),
            JSON.replace('    "b"\n', '    "b",\n    "c",\n    "d"\n'),
            id="elements-of-a-json-array",
        ),
        pytest.param(
            "package.json", JSON,
            JSON.replace("true\n", 'true,\n  "a": {\n    "b": 1\n  }\n'),
            JSON.replace("true\n", 'false,\n  "z": null\n'),
            JSON.replace("true\n", 'false,\n  "a": {\n    "b": 1\n  },\n  "z": null\n'),
            id="members-of-a-json-object",
        ),
        pytest.param(
            "package.json", JSON,
            JSON.replace('  "private"', '  "a": 1,\n  "private"'), JSON.replace(',\n  "private": true', ""),
            JSON.replace('"private": true', '"a": 1'),
            id="the-last-member-of-a-json-object-goes",
        ),
        pytest.param(
            "setup.cfg", INI,
            INI.replace("    b\n", "    b\n    c\n"), INI.replace("    b\n", "    d>=2\n    b\n"),
            INI.replace("    b\n", "    d>=2\n    b\n    c\n"),
            id="values-of-an-ini-key",
        ),
        pytest.param(
            "tox.ini", INI,
            INI.replace("    b\npython_requires = >=3.8\n", "    b\npython_requires = >=3.9\n"),
            INI.replace("    b\npython_requires = >=3.8\n", "python_requires = >=3.8\nzip_safe = no\n"),
            INI.replace("    b\npython_requires = >=3.8\n", "python_requires = >=3.9\nzip_safe = no\n"),
            id="ini-keys-and-a-value-that-goes",
        ),
        pytest.param(
            "tox.ini", "[a]\nsetenv = A=1\n         B=2\nb = 1\n",
            "[a]\nsetenv = A=1\n         B=2\n         C=3\nb = 1\n",
            "[a]\nsetenv = A=1\n         B=2\n         D=4\nb = 1\n",
            "[a]\nsetenv = A=1\n         B=2\n         C=3\n         D=4\nb = 1\n",
            id="settings-that-start-behind-their-ini-key",
        ),
        pytest.param(
            "tox.ini", "[a]\ndeps =\n\n[b]\nc = 1\n",
            "[a]\ndeps =\n    x\n    y\n\n[b]\nc = 1\n", "[a]\ndeps =\n    x\n    z\n\n[b]\nc = 1\n",
            "[a]\ndeps =\n    x\n    y\n    z\n\n[b]\nc = 1\n",
            id="what-both-sides-put-into-an-empty-value",
        ),
        pytest.param(
            "a.yaml", "a: 1\na: 2\nb: 1\n", "a: 1\na: 2\nc: 1\nb: 1\n", "a: 1\na: 2\nd: 1\nb: 1\n",
            "a: 1\na: 2\nc: 1\nd: 1\nb: 1\n", id="a-key-that-the-file-has-twice-elsewhere",
        ),
        pytest.param(
            "a.yaml", "a: 1\n\nb: 1\n", "a: 1\nc: 1\n\n\nb: 1\n", "a: 1\n\nd: 1\nb: 1\n",
            "a: 1\nc: 1\n\nd: 1\n\n\nb: 1\n", id="blank-lines-that-differ",
        ),
        pytest.param(
            "requirements/test.txt", REQUIREMENTS,
            REQUIREMENTS.replace("beta==2  # why", "beta==3"), REQUIREMENTS.replace("beta", "alpine\nbeta"),
            REQUIREMENTS.replace("beta==2  # why", "alpine\nbeta==3"),
            id="requirements",
        ),
        pytest.param(
            "requirements-dev.txt", REQUIREMENTS,
            REQUIREMENTS.replace("beta==2  # why\n", ""), REQUIREMENTS.replace("# why\n", "# why\ngamma\n"),
            REQUIREMENTS.replace("beta==2  # why\n", "gamma\n"),
            id="a-requirement-behind-one-that-went",
        ),
        pytest.param(
            "constraints.txt", "b==1\na==1\n",
            "b==1\nd==1\n\n# group\ne==1\nf==1\na==1\n", "b==1\nc==1\na==1\n",
            "b==1\nd==1\nc==1\n\n# group\ne==1\nf==1\na==1\n",
            id="before-a-group-of-its-own",
        ),
        pytest.param(
            "constraints.txt", "a==1\nc==1\ne==1\ng==1\n",
            "a==1\nc==1\nd==1\ne==1\ng==1\n", "a==1\nb==1\nc==1\ncc==1\ne==1\ng==1\n",
            "a==1\nb==1\nc==1\ncc==1\nd==1\ne==1\ng==1\n",
            id="a-sorted-list-stays-sorted",
        ),
    ],
)  # fmt: skip
def test_keeps_both_changes(path: str, base: str, ours: str, theirs: str, expected: str) -> None:
    assert settled(path, base, ours, theirs) == expected


@pytest.mark.parametrize(
    ("path", "base", "ours", "theirs"),
    [
        pytest.param("a.toml", TOML, TOML.replace("100", "110"), TOML.replace("100", "120"), id="one-value"),
        pytest.param(
            "a.toml", TOML, TOML.replace('"m",  # for m', '"m>=1",'), TOML.replace('"m",  # for m', '"m>=2",'),
            id="one-element",
        ),
        pytest.param(
            "a.toml", TOML, TOML + "\n[tool.x]\na = 1\n", TOML + "\n[tool.x]\na = 2\n", id="one-table-twice"
        ),
        pytest.param(
            "a.toml", TOML, TOML.replace('  "m",  # for m\n', '  "m",  # for m\n  "n",\n'),
            TOML.replace('  "m",  # for m\n', ""), id="an-element-behind-one-that-the-other-side-removed",
        ),
        pytest.param(
            "a.toml", TOML, TOML.replace("line-length = 100\n", "line-length = 100\na = 1\n"),
            TOML.replace("line-length = 100\n", ""), id="a-key-behind-one-that-the-other-side-removed",
        ),
        pytest.param(
            "ci.yml", YAML, YAML.replace("  A: 1\n", "  A: 1\n  B: 2\n"), YAML.replace("  A: 1\n", "  A: 1\n  B: 3\n"),
            id="one-key-with-two-values",
        ),
        pytest.param(
            "ci.yml", YAML, YAML.replace("  A: 1\n", "  A: &a 1\n  B: *a\n"), YAML.replace("  A: 1\n", "  A: 1\n  C: &a 3\n"),
            id="an-anchor-twice",
        ),
        pytest.param(
            "ci.yml", "a: &x 1\nb: 1\nc: 1\n", "a: &x 1\nb: *x\nc: 1\n", "b: 1\nc: 2\n",
            id="an-anchor-that-goes-while-the-other-side-uses-it",
        ),
        pytest.param(
            "ci.yml", YAML, YAML.replace("  - name: test\n    run: |\n      test\n      # not a comment\n", ""),
            YAML + "  - name: types\n    run: types\n", id="a-step-that-goes",
        ),
        pytest.param(
            "ci.yml", YAML, YAML.replace("  - name: test", "  - name: tests"),
            YAML.replace("  - name: test", "  - name: lint\n    run: lint\n  - name: test"), id="a-step-with-another-name",
        ),
        pytest.param(
            "a.toml", TOML, TOML.replace("line-length = 100", "width = 100"),
            TOML.replace("line-length = 100", "line-length = 110"), id="a-key-with-another-name",
        ),
        pytest.param(
            "ci.yml", YAML, YAML.replace("# not", "# ours"), YAML.replace("      # not", "      other\n      # not"),
            id="the-inside-of-a-block-scalar",
        ),
        pytest.param(
            "ci.yml", "a: {b: 1}\n", "a: {b: 1, c: 2}\n", "a: {b: 1, d: 2}\n", id="flow-style",
        ),
        pytest.param("ci.yml", "", "a: 1\n", "b: 1\n", id="a-new-file-on-both-sides"),
        pytest.param(
            "ci.yml", "a:\n  b: 1\n", "a:\n  b: 1\n  c: 1\n", "a:\n    b: 1\n    d: 1\n", id="another-indentation"
        ),
        pytest.param(
            "ci.yml", "a: 1\n---\nb: 1\n", "a: 1\n---\nb: 1\nc: 1\n", "a: 1\n---\nb: 1\nd: 1\n", id="two-documents"
        ),
        pytest.param(
            "a.json", '{"a": [\n  1\n]}\n', '{"a": [\n  1,\n  2\n]}\n', '{"a": [\n  1,\n  3\n]}\n',
            id="a-json-object-that-opens-on-its-member's-line",
        ),
        pytest.param(
            "a.json", JSON, JSON.replace("true\n", 'true,\n  "a": 1,\n  "a": 2\n'), JSON.replace("true\n", "false\n"),
            id="a-json-key-twice",
        ),
        pytest.param(
            "setup.cfg", "[a]\nd = Some\n    words\n", "[a]\nd = Some\n    words\n    here\n",
            "[a]\nd = Some\n    words\n    there\n", id="prose-of-an-ini-key",
        ),
        pytest.param(
            "setup.cfg", INI, INI.replace("    b\n", "    b>=1\n"), INI.replace("    b\n", "    c\n"),
            id="a-value-changed-and-replaced",
        ),
        pytest.param(
            "tox.ini", "[testenv]\ncommands =\n    a\n    b\n", "[testenv]\ncommands =\n    b\n",
            "[testenv]\ncommands =\n    a\n    c\n    b\n", id="commands-are-steps",
        ),
        pytest.param(
            "requirements.txt", REQUIREMENTS, REQUIREMENTS.replace("==2", "==3"), REQUIREMENTS.replace("==2", "==4"),
            id="one-requirement",
        ),
        pytest.param(
            "requirements.txt", REQUIREMENTS, REQUIREMENTS.replace("==2", "==3"),
            REQUIREMENTS.replace("==2  # why", "==2 ; os_name == 'nt'"), id="one-requirement-with-another-marker",
        ),
        pytest.param(
            "requirements.txt", "a\nb", "a\nb\nc", "a\nb\nd", id="no-line-feed-at-the-end"
        ),
        pytest.param("notes.txt", "a\nb\n", "a\nc\nb\n", "a\nd\nb\n", id="plain-text"),
    ],
)  # fmt: skip
def test_leaves_the_rest_in_conflict(path: str, base: str, ours: str, theirs: str) -> None:
    assert settled(path, base, ours, theirs) is None


def test_shows_each_region_with_its_sides() -> None:
    base = "".join(f"[s{number}]\na = 1\n\n" for number in range(3))
    text = conflicted(base, base.replace("[s0]\n", "[s0]\nb = 1\n"), base.replace("[s0]\n", "[s0]\nc = 1\n"))
    text = text.replace(
        b"[s2]\n",
        b"[s2]\n<<<<<<< v2\nmine = 1\na = 1\n||||||| v1\na = 1\n=======\na = 1\nother = 1\n>>>>>>> p\n",
    ).replace(b">>>>>>> p\na = 1\n", b">>>>>>> p\n")
    found = resolve("x.ini", conflicted=text)
    assert isinstance(found, Resolution)
    assert [(region.line, region.ours, region.theirs, region.result) for region in found.regions] == [
        (2, b"b = 1\n", b"c = 1\n", b"b = 1\nc = 1\n"),
        (14, b"mine = 1\na = 1\n", b"a = 1\nother = 1\n", b"mine = 1\na = 1\nother = 1\n"),
    ]
    assert b"<<<" not in found.content


def test_line_ends_that_differ_stay_a_conflict() -> None:
    assert (
        settled("a.toml", TOML, TOML.replace('"a"', '"a",\n  "c"'), TOML.replace('"a"', '"a",\n  "d"'))
        is not None
    )
    windows = [text.replace("\n", "\r\n") for text in (TOML, TOML.replace('"a"', '"a",\n  "c"'))]
    both = settled("a.toml", *windows, windows[0].replace('"a"', '"a",\r\n  "d"'))
    assert both == windows[0].replace('"a"', '"a",\r\n  "c",\r\n  "d"')
    assert settled("a.toml", *windows, TOML.replace('"a"', '"a",\n  "d"')) is None


def test_deep_nesting_and_long_files_stay_a_conflict() -> None:
    deep = 3000
    text = "[\n" * deep + '"x"\n' + "]\n" * deep
    assert settled("a.json", text, text.replace('"x"', '"x",\n"y"'), text.replace('"x"', '"x",\n"z"')) is None
    long = "a: 1\n" + "# " + "x" * (4 << 20) + "\n"
    assert settled("a.yaml", long, "b: 1\n" + long, "c: 1\n" + long) is None


def test_knows_its_files() -> None:
    keyed = ("a/pyproject.toml", "x.yml", "x.yaml", "x.json", "setup.cfg", "tox.ini", "requirements.txt",
             "requirements-dev.txt", "requirements/x.txt", "lower-constraints.txt", "dev-requirements.in")  # fmt: skip
    assert all(map(is_keyed, keyed))
    assert not any(map(is_keyed, ("a.txt", "notes.md", "a.rst", "requirements.md", "a.py", "Makefile")))


# A text of each format from keys and values, and back.


def toml(values: dict[str, int]) -> str:
    return "[t]\n" + "".join(f"{key} = {value}\n" for key, value in values.items()) + "\n[u]\nx = 0\n"


def yaml(values: dict[str, int]) -> str:
    return "t:\n" + "".join(f"  {key}: {value}\n" for key, value in values.items()) + "u: 0\n"


def as_json(values: dict[str, int]) -> str:
    return json.dumps({"t": values, "u": 0}, indent=2) + "\n"


def ini(values: dict[str, int]) -> str:
    return "[t]\n" + "".join(f"{key} = {value}\n" for key, value in values.items()) + "\n[u]\nx = 0\n"


def requirements(values: dict[str, int]) -> str:
    return "".join(f"{key}=={value}\n" for key, value in values.items())


def from_ini(text: str) -> dict[str, int]:
    parser = configparser.ConfigParser()
    parser.read_string(text)
    return {key: int(value) for key, value in parser["t"].items()}


def from_lines(text: str, between: str) -> dict[str, int]:
    rows = [line.strip().split(between) for line in text.splitlines() if between in line]
    assert len({row[0] for row in rows}) == len(rows)
    return {key: int(value) for key, value in rows if key != "u"}


FORMATS: dict[str, tuple[Callable[[dict[str, int]], str], Callable[[str], dict[str, int]]]] = {
    "x.toml": (toml, lambda text: tomllib.loads(text)["t"]),
    "x.yaml": (yaml, lambda text: from_lines(text, ": ")),
    "x.json": (as_json, lambda text: json.loads(text)["t"]),
    "x.ini": (ini, from_ini),
    "requirements.txt": (requirements, lambda text: from_lines(text, "==")),
}
KEYS = [f"k{number}" for number in range(6)]
EDIT = st.tuples(st.sampled_from(["change", "remove", "add"]), st.integers(0, 9), st.integers(10, 13))


def edited(values: dict[str, int], edits: list[tuple[str, int, int]], new: str) -> dict[str, int]:
    rows = list(values.items())
    for number, (what, place, value) in enumerate(edits):
        at = place % (len(rows) + 1)
        if what == "add":
            # Few names, so that both sides add the same key now and then.
            key = f"both{value}" if value == 13 else f"{new}{number}"
            if key not in dict(rows):
                rows.insert(at, (key, value))
        elif at < len(rows) and len(rows) > 1:
            rows[at : at + 1] = [] if what == "remove" else [(rows[at][0], value)]
    return dict(rows)


@settings(deadline=None)  # a busy machine loads the grammars in the first example
@given(
    path=st.sampled_from(sorted(FORMATS)),
    count=st.integers(1, 6),
    mine=st.lists(EDIT, min_size=1, max_size=3),
    other=st.lists(EDIT, min_size=1, max_size=3),
)
def test_a_settled_conflict_has_what_both_sides_say(
    path: str, count: int, mine: list[tuple[str, int, int]], other: list[tuple[str, int, int]]
) -> None:
    write, read = FORMATS[path]
    base = dict.fromkeys(KEYS[:count], 1)
    ours, theirs = edited(base, mine, "ours"), edited(base, other, "theirs")
    assume(base != ours != theirs != base)
    texts = [write(values) for values in (base, ours, theirs)]
    result = settled(path, *texts)
    missing = -1
    expected = {}
    clash = False
    for key in {*base, *ours, *theirs}:
        old, one, another = (side.get(key, missing) for side in (base, ours, theirs))
        clash |= one != another and old not in (one, another)
        value = one if another == old else another
        if value != missing:
            expected[key] = value
    if result is None:
        only = {what for what, *_rest in (*mine, *other)} == {"change"}
        assert clash or not only  # Values of different keys always go together.
        return
    assert not clash
    assert read(result) == expected
    lines = [Counter(text.replace(",\n", "\n").splitlines()) for text in (*texts, result)]
    old_lines, our_lines, their_lines, there = lines
    assert not (our_lines - old_lines | their_lines - old_lines) - there
    assert not there & ((old_lines - our_lines) | (old_lines - their_lines)) - (our_lines | their_lines)
    assert set(there) <= {*our_lines, *their_lines}
    order = [key for key in read(result) if key in ours]
    assert order == [key for key in ours if key in expected]


@settings(deadline=None)  # a busy machine loads the grammars in the first example
@given(
    path=st.sampled_from(sorted(FORMATS)),
    count=st.integers(1, 5),
    place=st.integers(0, 5),
    mine=st.integers(1, 3),
    other=st.integers(1, 3),
)
def test_insertions_at_one_place_always_go_together(
    path: str, count: int, place: int, mine: int, other: int
) -> None:
    write, _read = FORMATS[path]
    rows = [(key, 1) for key in KEYS[::-1][:count]]
    at = place % (count + 1)
    first = [(f"mine{number}", 1) for number in range(mine)]
    second = [(f"zother{number}", 1) for number in range(other)]
    sides = [rows, rows[:at] + first + rows[at:], rows[:at] + second + rows[at:]]
    texts = [write(dict(side)) for side in sides]
    assert settled(path, *texts) == write(dict(rows[:at] + first + second + rows[at:]))
