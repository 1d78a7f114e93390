"""Functions of file contents that remember their last answers."""

from __future__ import annotations

from forktool.core.foresight import guess_merge
from forktool.core.remembered import remembered
from forktool.core.series import PatchName, parse_patch
from forktool.core.syntax import SYNTAX_LIMIT, is_python, syntax_unread


def asked(*, count: int, size: int, questions: list[bytes]) -> list[bytes]:
    """What a function was really run for."""
    run: list[bytes] = []

    @remembered(count=count, size=size)
    def function(source: bytes) -> int:
        run.append(source)
        return len(source)

    assert [function(one) for one in questions] == [len(one) for one in questions]
    return run


def test_an_answer_is_remembered() -> None:
    assert asked(count=2, size=100, questions=[b"a", b"b", b"a", b"b"]) == [b"a", b"b"]


def test_the_oldest_answer_goes_where_there_are_too_many() -> None:
    assert asked(count=2, size=100, questions=[b"a", b"b", b"a", b"c", b"a", b"b"]) == [
        b"a",
        b"b",
        b"c",
        b"b",
    ]


def test_large_questions_push_out_small_ones_and_the_last_one_stays() -> None:
    large = b"x" * 200

    assert asked(count=9, size=100, questions=[b"a", large, large, b"a"]) == [b"a", large, b"a"]


def test_keywords_count_as_positions_do() -> None:
    run: list[bytes] = []

    @remembered(count=1, size=2)
    def function(path: str, *, source: bytes) -> str:
        run.append(source)
        return f"{path}{len(source)}"

    assert [function("p", source=b"ab"), function("p", source=b"ab"), function("q", source=b"ab")] == [
        "p2",
        "p2",
        "q2",
    ]
    assert run == [b"ab", b"ab"]


def test_a_file_too_large_for_its_syntax() -> None:
    large = b"#" * (SYNTAX_LIMIT + 1)

    assert is_python("a.py", b"x", None)
    assert not is_python("a.py", b"x", large)
    assert syntax_unread("a.py", b"x", None) == ""
    assert syntax_unread("a.py", b"x", large) == "a.py has 4 MB: judged on its lines, its syntax is not read"
    assert syntax_unread("a.csv", large) == ""


PATCH = b"""From 0000000000000000000000000000000000000000 Mon Sep 17 00:00:00 2001
From: A <a@example.org>
Date: Thu, 1 Jan 2026 00:00:00 +0000
Subject: Edit

diff --git a/a.py b/a.py
index 1111111..2222222 100644
--- a/a.py
+++ b/a.py
@@ -1,5 +1,5 @@
 one
 two
-three
+3
 four
 five
"""


def guess(ours: bytes, path: str = "a.py") -> bytes | None:
    return guess_merge(parse_patch(PatchName("edit"), PATCH, file="edit.patch").files, path, ours)


def test_a_guess_finds_the_hunk_elsewhere_and_with_less_context() -> None:
    assert guess(b"zero\none\ntwo\nthree\nfour\nfive\n") == b"zero\none\ntwo\n3\nfour\nfive\n"
    assert guess(b"two\nthree\nfour\n") == b"two\n3\nfour\n"
    assert guess(b"x\nthree\ny\n") == b"x\n3\ny\n"


def test_there_is_no_guess_where_the_place_is_gone_or_is_there_twice() -> None:
    assert guess(b"one\ntwo\nfour\nfive\n") is None
    assert guess(b"three\nthree\n") is None


def test_a_guess_leaves_files_alone_that_the_patch_does_not_touch() -> None:
    assert guess(b"three\n", "b.py") == b"three\n"
