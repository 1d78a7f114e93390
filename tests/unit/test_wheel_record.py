from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forktool.core.wheel_record import (
    Row,
    find_clashes,
    format_record,
    is_safe_member,
    matches,
    parse_record,
    record_problems,
    row_of,
)
from forktool.errors import IntegrityError

INFO = "a-1.dist-info"


def test_row_of_a_file_is_what_pip_writes() -> None:
    # sha256 of b"x\n" is 73cb3858a687a8494ca3323053016282f3dad39d42cf62ca4e79dda2aac7d9ac.
    assert row_of("a.py", b"x\n") == Row("a.py", "sha256=c8s4WKaHqElMozIwUwFigvPa051Cz2LKTnndoqrH2aw", "2")


def test_reads_quoted_paths_and_skips_blank_lines() -> None:
    rows = parse_record(b'"E=1,N=2.json",sha256=x,3\n\na.py,,\n', where="W")
    assert rows["E=1,N=2.json"] == Row("E=1,N=2.json", "sha256=x", "3")
    assert list(rows) == ["E=1,N=2.json", "a.py"]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"a.py,sha256=x\n", "line 1 of RECORD has 2 fields"),
        (b"a.py,,\na.py,,\n", "lists a.py twice"),
        (b"\xff,,\n", "cannot be read"),
        (b'"a.py,,\n', "cannot be read"),
    ],
)
def test_refuses_a_malformed_record(content: bytes, problem: str) -> None:
    with pytest.raises(IntegrityError, match=problem):
        parse_record(content, where="W")


@given(st.lists(st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1), unique=True))
def test_record_round_trips(paths: list[str]) -> None:
    rows = [row_of(path, path.encode()) for path in paths]
    assert list(parse_record(format_record(rows), where="W").values()) == rows


def test_matches_needs_hash_and_size() -> None:
    row = row_of("a", b"one")
    assert matches(row, b"one")
    assert not matches(row, b"two")
    assert not matches(Row("a", row.digest, "4"), b"one")
    assert matches(Row("a", row.digest, ""), b"one")
    assert not matches(Row("a", "md5=x", "3"), b"one")


@pytest.mark.parametrize(
    ("names", "clash"),
    [
        (["a/B.py", "a/b.py"], ("a/B.py", "a/b.py")),
        (["a/\u00e9.py", "a/e\u0301.py"], ("a/\u00e9.py", "a/e\u0301.py")),
        (["a/b", "a/b/c"], ("a/b", "a/b/c")),
        (["a/b/c", "A/B"], ("A/B", "a/b/c")),
    ],
)
def test_finds_names_that_cannot_lie_beside_each_other(names: list[str], clash: tuple[str, str]) -> None:
    assert find_clashes(names) == (clash,)


def test_a_folder_entry_clashes_with_nothing_inside_it() -> None:
    assert find_clashes(["a/", "a/b.py", "a/c/d.py", "a/c/"]) == ()


@pytest.mark.parametrize(
    "path", ["", "/etc/passwd", "../x", "a/../b", "a//b", "a\\b", "./a", "a/.", "C:x", "a\nb"]
)
def test_unsafe_members(path: str) -> None:
    assert not is_safe_member(path)


@pytest.mark.parametrize("path", ["a", "a/b.py", "a/...", "a/.b", "E=1,N=2 x.json", "日/ü", "a/"])
def test_safe_members(path: str) -> None:
    assert is_safe_member(path)


def test_a_right_wheel_has_no_problems() -> None:
    rows = {row.path: row for row in (row_of("a.py", b""), Row(f"{INFO}/RECORD"))}
    names = ["a.py", f"{INFO}/", f"{INFO}/RECORD", f"{INFO}/RECORD.jws"]
    assert record_problems(names, rows, INFO) == ()


def test_names_each_problem_of_a_record() -> None:
    rows = {row.path: row for row in (Row("weak.py", "md5=x", "1"), row_of("gone.py", b""))}
    assert record_problems(["weak.py", "new.py"], rows, INFO) == (
        "RECORD gives no usable hash for weak.py",
        "new.py is missing from RECORD",
        "RECORD lists gone.py, which is not there",
    )
