from __future__ import annotations

from forktool.core.splicing import new_words, splice

CLASS_A, CLASS_B = (b"class %s:\n    def f(self):\n        return 1\n" % name for name in (b"A", b"B"))
BEFORE = b"import os\n\n\n" + CLASS_A + b"\n\n" + CLASS_B
AFTER = BEFORE.replace(
    b"class B:\n    def f(self):\n        return 1", b"class B:\n    def f(self):\n        return 2"
)


def test_a_definition_that_upstream_left_alone_is_exchanged() -> None:
    upstream = b"import sys\n" + BEFORE.replace(
        b"class B", b"class New:\n    def f(self):\n        return 1\n\n\nclass B"
    )

    assert splice(BEFORE, AFTER, upstream) == upstream.removesuffix(b"1\n") + b"2\n"


def test_a_definition_that_upstream_edited_proves_nothing() -> None:
    upstream = BEFORE.replace(b"class B:\n", b"class B:\n    x = 0\n\n")

    assert splice(BEFORE, AFTER, upstream) is None


def test_a_definition_that_stands_twice_proves_nothing() -> None:
    assert splice(BEFORE, AFTER, BEFORE + b"\n\n" + BEFORE) is None


def test_a_change_outside_of_definitions_proves_nothing() -> None:
    assert splice(BEFORE, BEFORE.replace(b"import os", b"import io"), BEFORE + b"\n\nx = 1\n") is None


def test_a_definition_that_the_patch_adds_proves_nothing() -> None:
    assert splice(BEFORE, BEFORE + b"\n\nclass C:\n    pass\n", BEFORE) is None


def test_the_words_that_a_patch_brings() -> None:
    assert new_words(b"a = [b]", b"a = [b, kimi_k2]") == {b"kimi_k2"}
