"""A hunk's place is where its old lines are, once; never a fuzz."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forktool.core.diff import apply_hunks
from forktool.core.locate import NotLocatedError, locate, may_be_there, places
from forktool.core.loose_diff import LooseHunk

TEXT = b"one\ntwo\n\nthree\ntwo\n\nfour\n"


def hunk(*lines: bytes, start: int = 1, tail: int = 0) -> LooseHunk:
    return LooseHunk(
        old_start=start, lines=lines, numbers=tuple(range(11, 11 + len(lines))), line=10, loose_tail=tail
    )


def after(wanted: LooseHunk, content: bytes, *, is_proven: bool = False) -> tuple[bytes, str | None]:
    found = locate(wanted, content, path="x", is_proven=is_proven)
    return apply_hunks([found.hunk], content), found.note


def why(wanted: LooseHunk, content: bytes, *, is_proven: bool = False) -> tuple[int, str]:
    with pytest.raises(NotLocatedError) as caught:
        locate(wanted, content, path="x", is_proven=is_proven)
    return caught.value.line, caught.value.reason


def test_a_right_number_needs_no_note() -> None:
    assert after(hunk(b" one\n", b"-two\n", b"+2\n"), TEXT) == (TEXT.replace(b"one\ntwo", b"one\n2"), None)


def test_a_wrong_number_is_noted() -> None:
    text, note = after(hunk(b" three\n", b"-two\n", b"+2\n", start=99), TEXT)

    assert text == TEXT.replace(b"three\ntwo", b"three\n2")
    assert note == "hunk of line 10: it says line 99 of x and stands at line 4"


def test_two_places_are_both_named_even_when_the_number_fits_one() -> None:
    wanted = hunk(b"-two\n", b"+2\n", b" \n", start=5)

    assert why(wanted, TEXT) == (
        10,
        "the hunk's lines stand in x at lines 2 and 5; which are meant is not certain",
    )
    assert "at lines 2 and 5 and 1 more;" in why(wanted, TEXT + b"two\n\n")[1]
    assert after(wanted, TEXT, is_proven=True) == (TEXT.replace(b"three\ntwo", b"three\n2"), None)


def test_a_proven_file_with_a_wrong_number_is_still_searched() -> None:
    assert after(hunk(b"-four\n", b"+4\n", start=1), TEXT, is_proven=True)[0] == TEXT.replace(b"four", b"4")
    assert "at lines 2 and 5" in why(hunk(b"-two\n", b"+2\n", start=3), TEXT, is_proven=True)[1]


def test_added_lines_alone_have_no_place() -> None:
    wanted = hunk(b"+new\n", start=2)

    assert why(wanted, TEXT) == (10, "the hunk shows no line of x that says where it belongs")
    assert after(wanted, TEXT, is_proven=True)[0] == b"one\ntwo\nnew\n" + TEXT[8:]
    assert after(hunk(b"+new\n", start=0), b"")[0] == b"new\n"


def test_overlapping_places_are_two() -> None:
    assert places([b"a", b"a", b"a"], [b"a", b"a"]) == [0, 1]
    assert places([b"a"], []) == []
    assert places([b"a"], [b"a", b"b"]) == []


def test_line_endings_of_the_file_win() -> None:
    dos = TEXT.replace(b"\n", b"\r\n")

    assert after(hunk(b" one\r\n", b"-two\r\n", b"+2\r\n"), dos) == (
        dos.replace(b"one\r\ntwo", b"one\r\n2"),
        None,
    )
    text, note = after(hunk(b" one\r\n", b"-two\r\n", b"+2\r\n"), TEXT)
    assert text == TEXT.replace(b"one\ntwo", b"one\n2")
    assert note == "hunk of line 10: CRLF read as LF, as the file has it"
    text, note = after(hunk(b" one\n", b"-two\n", b"+2\n"), dos)
    assert text == dos.replace(b"one\r\ntwo", b"one\r\n2")
    assert note == "hunk of line 10: LF read as CRLF, as the file has it"


def test_a_patch_that_changes_line_endings_is_taken_as_it_is() -> None:
    assert after(hunk(b"-one\n", b"+one\r\n"), TEXT) == (TEXT.replace(b"one\n", b"one\r\n"), None)
    mixed = b"one\r\ntwo\n"
    assert why(hunk(b" one\n", b"-two\n"), mixed)[0] == 11


def test_stripped_white_space_fits_one_place_or_none() -> None:
    content = b"a  \nb\t\nc\n"
    text, note = after(hunk(b" a\n", b"-b\n", b"+B\n", b" c\n"), content)

    assert text == b"a  \nB\nc\n"
    assert note is not None
    assert "white space at the ends of its lines" in note
    assert "at lines 1 and 4" in why(hunk(b" a\n", b"+x\n", b" b\n"), content + content)[1]
    # White space that the patch has and the file lacks is no one's stripping.
    assert why(hunk(b" a \n", b"-b\n"), b"a\nb\n")[0] == 11
    # A place that fits exactly wins over one that fits when stripped.
    assert after(hunk(b" a\n", b"-b\n"), b"a \nb\na\nb\n")[0] == b"a \nb\na\n"


def test_empty_lines_at_the_end_are_dropped_when_they_do_not_fit() -> None:
    text, note = after(hunk(b" three\n", b"-two\n", b"+2\n", b" \n", b" \n", start=4, tail=2), TEXT)

    assert text == TEXT.replace(b"three\ntwo", b"three\n2")
    assert note == "hunk of line 10: the last 1 empty lines do not belong to it"


def test_the_newline_at_the_end_counts() -> None:
    assert after(hunk(b"-a", b"+a\n"), b"a")[0] == b"a\n"
    line, reason = why(hunk(b" x\n", b"-a\n"), b"x\na")
    assert line == 12
    assert reason == "the hunk fits nowhere: x has 'a' at line 2, the patch has 'a\\n'"


def test_nowhere_says_what_stands_at_the_best_place() -> None:
    assert why(hunk(b" three\n", b" two\n", b" \n", b"-five\n", start=1), TEXT) == (
        14,
        "the hunk fits nowhere: x has 'four' at line 7, the patch has 'five'",
    )
    assert (
        why(hunk(b" nine\n", start=3), TEXT)[1]
        == "the hunk fits nowhere: x has '' at line 3, the patch has 'nine'"
    )
    assert (
        why(hunk(b" four\n", b"-five\n"), TEXT)[1]
        == "the hunk fits nowhere: x ends at line 7, the patch has 'five'"
    )


@pytest.mark.parametrize(
    ("lines", "content", "expected"),
    [
        ((b" a\n", b"+b\n", b" c\n"), b"a\nb\nc\n", True),
        ((b" a\n", b"+b\n", b" c\n"), b"a\nc\n", False),
        ((b" a\n", b"+b\n"), b"a\nb\n", True),
        ((b" a\n", b"-b\n", b" c\n"), b"a\nc\n", True),
        ((b" a\n", b"-b\n", b" c\n"), b"a\nb\nc\na\nc\n", False),
        ((b"-a\n", b" b\n"), b"a\nb\n", False),
        ((b"+b\n",), b"b\n", False),
        ((b"-a\n", b"+b\n"), b"b\r\n", True),
        ((b"-a\r\n", b"+b\r\n"), b"b\n", True),
    ],
)  # fmt: skip
def test_what_is_there_already(lines: tuple[bytes, ...], content: bytes, expected: bool) -> None:
    assert may_be_there(hunk(*lines), content) is expected


LINES = st.lists(st.sampled_from((b"a\n", b"b\n", b"\n", b"c \n")), max_size=12)


@given(content=LINES, start=st.integers(0, 12), length=st.integers(1, 4), stated=st.integers(1, 12))
def test_a_place_is_found_exactly_when_there_is_one(
    content: list[bytes], start: int, length: int, stated: int
) -> None:
    old = content[start : start + length]
    if not old:
        return
    found = [at for at in range(len(content)) if content[at : at + len(old)] == old]
    wanted = hunk(*[b"-" + line for line in old], b"+new\n", start=stated)
    if len(found) > 1:
        assert f"at lines {found[0] + 1} and {found[1] + 1}" in why(wanted, b"".join(content))[1]
    else:
        rest = [*content[: found[0]], b"new\n", *content[found[0] + len(old) :]]
        assert after(wanted, b"".join(content))[0] == b"".join(rest)
