"""How much of a patch another version of a file has."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from forktool.core.content import Content, compare_content, hunk_presence

GATE = b"""class Speculation:
    def check(self):
        if self.tokens <= 0:
            raise ValueError("no tokens")

        third_kind_supported = [
            "alpaca",
            "quokka",
            "puffin",
        ]
        if self.kind == "third" and not any(name in self.target for name in third_kind_supported):
            raise ValueError(f"only for {third_kind_supported}")
        return self
"""
PATCHED = GATE.replace(
    b'            "puffin",\n', b'            "puffin",\n            "kite",\n            "deep",\n'
)
RENAMED = GATE.replace(b"third_kind_supported", b"hidden_states_supported").replace(
    b'            "puffin",\n', b'            "puffin",\n            "newt",\n'
)
ABSORBED = RENAMED.replace(
    b'            "newt",\n',
    b"            'newt',\n            'deep_two',\n            'deep',\n            'kite',\n",
)
GONE = b"""class Speculation:
    def check(self):
        if self.tokens <= 0:
            raise ValueError("no tokens")
        return self
"""


def compare(
    before: bytes | None, after: bytes | None, upstream: bytes | None, path: str = "pkg/a.py"
) -> Content:
    return compare_content(path, before=before, after=after, upstream=upstream)


def test_a_renamed_list_with_other_additions_has_nothing_of_ours() -> None:
    content = compare(GATE, PATCHED, RENAMED)
    assert (content.share, content.target_gone, content.is_full) == (0.0, False, False)
    assert (content.elements_added, content.elements_added_present) == (2, 0)
    assert content.missing == (
        'literal element "kite" in Speculation.check',
        'literal element "deep" in Speculation.check',
    )
    assert content.detail == "0 of 2 added elements are in Speculation.check"


def test_a_renamed_list_that_gained_ours_among_others_has_all() -> None:
    content = compare(GATE, PATCHED, ABSORBED)
    assert (content.share, content.target_gone, content.is_full) == (1.0, False, True)
    assert content.detail == "2 of 2 added elements are in Speculation.check"
    assert content.missing == ()
    assert (content.lines_added, content.lines_added_present) == (2, 0)  # other quotes: lines see nothing


def test_one_of_two_is_a_half() -> None:
    content = compare(GATE, PATCHED, RENAMED.replace(b'"newt"', b'"kite"'))
    assert (content.share, content.elements_added_present) == (0.5, 1)
    assert content.missing == ('literal element "deep" in Speculation.check',)


def test_a_gate_that_is_gone() -> None:
    content = compare(GATE, PATCHED, GONE)
    assert (content.share, content.target_gone) == (0.0, True)
    assert content.detail == "Speculation.check no longer has third_kind_supported"


def test_a_method_or_file_that_is_gone() -> None:
    assert (
        compare(GATE, PATCHED, b"class Speculation:\n    limit = 1\n").detail == "Speculation.check is gone"
    )
    gone = compare(GATE, PATCHED, None)
    assert (gone.target_gone, gone.share, gone.detail) == (True, 0.0, "pkg/a.py is gone")


def test_the_same_words_in_another_method_are_no_evidence() -> None:
    elsewhere = GATE + b'\n    def other(self):\n        names = ["kite", "deep"]\n        return names\n'
    assert compare(GATE, PATCHED, elsewhere).share == 0.0


def test_a_line_that_was_there_before_is_no_evidence() -> None:
    before = b"def f(a):\n    if a:\n        return x\n    b = 2\n"
    after = before + b"    return x\n"
    assert compare(before, after, before).share == 0.0
    assert compare(before, after, before + b"    c = 3\n").share == 0.0
    assert compare(before, after, before + b"    c = 3\n    return x\n").share == 1.0


def test_a_count_that_only_partly_grew_is_partly_present() -> None:
    before = b"def f(a):\n    use(a)\n"
    after = before + b"    use(a)\n    use(a)\n"
    assert compare(before, after, before + b"    use(a)\n").share == 0.5


def test_a_patch_that_only_removes() -> None:
    before = b"def f(a):\n    assert a > 0\n    return a + 1\n"
    after = b"def f(a):\n    return a + 1\n"
    kept = compare(before, after, before.replace(b"return a + 1", b"return a + 2"))
    assert (kept.share, kept.target_gone) == (0.0, False)
    assert kept.missing == ("not seen gone: statement assert a>0 in f",)
    gone = compare(before, after, b"def f(a):\n    log(a)\n    return a + 1\n")
    assert (gone.share, gone.target_gone) == (1.0, False)
    assert gone.detail == "1 of 1 removed element is gone from f"


def test_what_moved_away_with_its_function_is_not_gone() -> None:
    before = b"def f(a):\n    assert a > 0\n    return a + 1\n"
    after = b"def f(a):\n    return a + 1\n"
    renamed = compare(before, after, before.replace(b"def f", b"def g"))
    assert (renamed.share, renamed.target_gone, renamed.detail) == (0.0, True, "f is gone")
    assert compare(before, after, None).share == 0.0
    (hunk,) = hunk_presence(
        "pkg/a.py", before=before, after=after, upstream=before.replace(b"def f", b"def g")
    )
    assert not hunk.is_present


def test_a_patch_that_removes_a_function() -> None:
    before = b"def f(a):\n    return a + 1\n\n\ndef g(b):\n    return b\n"
    after = b"def g(b):\n    return b\n"
    content = compare(before, after, b"def g(b):\n    return b + 2\n")
    assert (content.share, content.target_gone) == (1.0, False)
    assert compare(before, after, before).share == 0.0


def test_a_removal_without_its_replacement_is_no_share() -> None:
    before = b"def f(a):\n    limit = 1\n    return a\n"
    after = before.replace(b"limit = 1", b"limit = 2")
    other = compare(before, after, before.replace(b"limit = 1", b"bound = a.bound"))
    assert (other.share, other.elements_removed_gone, other.target_gone) == (0.0, 1, True)
    assert compare(before, after, after + b"\n\ndef g(): pass\n").share == 1.0


def test_an_insertion_into_a_method_that_is_there_is_not_gone() -> None:
    before = b"class A:\n    def f(self):\n        one(self)\n        two(self)\n"
    after = before.replace(b"        two", b"        fix(self)\n        two")
    content = compare(before, after, b"class A:\n    def f(self):\n        quite(different)\n")
    assert (content.share, content.target_gone) == (0.0, False)


def test_an_insertion_into_a_block_that_is_gone() -> None:
    before = b"def f(a):\n    if a.is_slow:\n        warn(a)\n        slow(a)\n    return a\n"
    after = before.replace(b"        slow", b"        fix(a)\n        slow")
    assert compare(before, after, b"def f(a):\n    return a\n").target_gone
    assert not compare(before, after, before.replace(b"return a", b"return b")).target_gone


def test_bases_methods_and_imports_in_upstreams_own_words() -> None:
    before = b"""from .interfaces import HasA, HasB

class Model(nn.Module, HasA):
    def forward(self, x):
        return self.model(x)
"""
    after = b"""from .interfaces import HasA, HasB, HasC

class Model(nn.Module, HasA, HasC):
    def forward(self, x):
        return self.model(x)

    def set_layers(self, layers: tuple[int, ...]) -> None:
        self.model.layers = layers
"""
    upstream = b"""from .interfaces import (
    HasA,
    HasB,
    HasC,
    HasD,
)

class Model(
    nn.Module,
    HasA,
    HasD,
    HasC,
):
    def forward(self, x):
        return self.model(x)

    def set_layers(self, layers: tuple[int, ...]) -> None:
        self.inner.model.layers = tuple(layers)
"""
    content = compare(before, after, upstream)
    assert content.missing == ("statement self.model.layers=layers in Model.set_layers",)
    assert content.elements_added == content.elements_added_present + 1 == 8
    assert content.share == pytest.approx(7 / 8)
    assert content.detail == "7 of 8 added elements are in pkg/a.py"


def test_files_that_are_not_python_are_judged_on_lines() -> None:
    before, after = b"[tool]\na = 1\nb = 2\n", b"[tool]\na = 1\nfix = true\nb = 2\n"
    content = compare(before, after, b"[tool]\na = 3\nfix  =  true\n", path="conf.toml")
    assert (content.share, content.elements_added, content.lines_added) == (1.0, 0, 1)
    assert content.detail == "1 of 1 added line is in conf.toml"
    assert compare(before, after, before, path="conf.toml").missing == ("fix = true",)
    assert compare(before, after, b"[other]\nc = 1\n", path="conf.toml").target_gone


def test_one_of_several_equal_lines_is_no_evidence_without_scopes() -> None:
    before = b"one:\n  retry: true\n  a: 11\ntwo:\n  retry: true\n  b: 22\n"
    after = before.replace(b"  retry: true\n", b"", 1)
    other = before.replace(b"  retry: true\n  b", b"  b")
    assert not compare(before, after, other, path="a.yaml").is_telling
    assert compare(before, after, after, path="a.yaml").share == 1.0


def test_trivial_lines_are_no_evidence() -> None:
    before = b"def f(a):\n    g(a)\n"
    after = before + b"\n    # a comment\n    pass\n"
    content = compare(before, after, before)
    assert (content.lines_added, content.elements_added, content.share, content.is_telling) == (
        0,
        0,
        0.0,
        False,
    )
    assert content.detail == "nothing in pkg/a.py that can be judged"


def test_new_and_deleted_files() -> None:
    new = b"def f():\n    return 1\n"
    assert compare(None, new, None).share == 0.0
    assert not compare(None, new, None).target_gone
    assert compare(None, new, b"# ours\ndef f():\n    return 1\n").share == 1.0
    assert compare(new, None, None).share == 1.0
    assert compare(new, None, new).share == 0.0
    assert compare(None, b"", None).share == 0.0
    assert compare(None, b"", b"").share == 1.0


def test_hunks_are_judged_one_by_one() -> None:
    before = b"import a\n\n\ndef f(x):\n    one(x)\n    two(x)\n\n\n\n\n\n\n\ndef g(y):\n    three(y)\n"
    after = before.replace(b"    two(x)", b"    fix(x)\n    two(x)").replace(b"three(y)", b"four(y)")
    upstream = before.replace(b"    two(x)", b"    two(x)\n    fix(x)")
    found = hunk_presence("pkg/a.py", before=before, after=after, upstream=upstream)
    assert [(one.is_telling, one.is_present) for one in found] == [(True, True), (True, False)]
    assert [one.change.old_start for one in found] == [5, 14]
    everything = hunk_presence("pkg/a.py", before=before, after=after, upstream=after)
    assert all(one.is_present for one in everything)
    nothing = hunk_presence("pkg/a.py", before=before, after=after, upstream=before)
    assert not any(one.is_present for one in nothing)


def test_a_hunk_that_moves_a_line_inside_its_definition_is_never_upstreams() -> None:
    before = b"def f(x):\n    one(x)\n" + b"".join(b"    s%d(x)\n" % n for n in range(9)) + b"    last(x)\n"
    after = before.replace(b"    one(x)\n", b"") + b"    one(x)\n"
    found = hunk_presence("pkg/a.py", before=before, after=after, upstream=before)
    assert [one.is_present for one in found] == [False, False]


def test_a_comment_is_not_telling() -> None:
    before = b"def f(x):\n    one(x)\n"
    after = b"def f(x):\n    # why\n    one(x)\n"
    (hunk,) = hunk_presence("pkg/a.py", before=before, after=after, upstream=after)
    assert (hunk.is_telling, hunk.is_present) == (False, False)


STATEMENTS = (
    [f"call_{n}(value)" for n in range(6)]
    + [f"name_{n} = [1, {n}]" for n in range(4)]
    + ["return value", "pass"]
)


@st.composite
def modules(draw: st.DrawFn) -> bytes:
    parts: list[str] = []
    for name in draw(st.lists(st.sampled_from("fgh"), max_size=3, unique=True)):
        parts.append(f"def {name}(value):")
        parts += [
            f"    {line}" for line in draw(st.lists(st.sampled_from(STATEMENTS), min_size=1, max_size=6))
        ]
    return "\n".join((*parts, "")).encode()


@given(modules(), modules(), st.sampled_from(["a.py", "a.txt"]))
def test_all_is_present_in_the_patched_file_and_nothing_in_the_base(
    before: bytes, after: bytes, path: str
) -> None:
    full = compare(before, after, after, path)
    assume(full.is_telling)
    assert (full.share, full.is_full, full.target_gone, full.missing) == (1.0, True, False, ())
    bare = compare(before, after, before, path)
    assert (bare.share, bare.is_full) == (0.0, False)
    assert not any(one.is_present for one in hunk_presence(path, before=before, after=after, upstream=before))


@given(modules(), modules(), modules())
def test_what_is_met_is_part_of_what_is_wanted(before: bytes, after: bytes, upstream: bytes) -> None:
    content = compare(before, after, upstream)
    assert 0.0 <= content.share <= 1.0
    assert content.elements_added_present <= content.elements_added
    assert content.elements_removed_gone <= content.elements_removed
    assert content.lines_added_present <= content.lines_added
    assert content.lines_removed_gone <= content.lines_removed
    assert bool(content.missing) == (content.is_telling and not content.is_full)
