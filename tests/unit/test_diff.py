"""Git's diff format, strictly: paths, hunks, binary blocks, and each error with its line."""

from __future__ import annotations

import base64
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forktool.core.binary_diff import BinaryChange
from forktool.core.diff import HunkMismatchError, apply_hunks, is_inside, parse_diff, split_lines, unquote
from forktool.core.objects import Mode
from forktool.errors import PatchsetError

HEAD = "diff --git a/x b/x\nindex 1111111..2222222 100644\n--- a/x\n+++ b/x\n"


def parsed(text: str | bytes):  # type: ignore[no-untyped-def]
    (file,) = parse_diff(text if isinstance(text, bytes) else text.encode(), name="it.patch", first_line=5)
    return file


def error(text: str) -> str:
    with pytest.raises(PatchsetError) as caught:
        parse_diff(text.encode(), name="it.patch", first_line=5)
    return caught.value.message


@given(st.binary())
def test_lines_are_split_at_line_feeds_only(content: bytes) -> None:
    lines = split_lines(content)

    assert b"".join(lines) == content
    assert all(line.endswith(b"\n") for line in lines[:-1])
    assert sum(line.count(b"\n") for line in lines) == content.count(b"\n")


@pytest.mark.parametrize(
    ("header", "path"),
    [
        ("a/x b/y b/x b/y", "x b/y"),
        ("a/x b/x b/x b/x b/x b/x", None),
        ('"a/\\346\\226\\207 \\t\\"\\\\.py" "b/\\346\\226\\207 \\t\\"\\\\.py"', '文 \t"\\.py'),
        ("a/with space b/with space", "with space"),
    ],
)
def test_names_with_spaces_and_quotes(header: str, path: str | None) -> None:
    file = parsed(f"diff --git {header}\nold mode 100644\nnew mode 100755\n")

    assert file.old_path == file.new_path
    assert file.new_path == (path or "x b/x b/x")
    assert (file.old_mode, file.new_mode) == (Mode.FILE, Mode.EXECUTABLE)


def test_names_of_a_rename_come_from_its_lines() -> None:
    file = parsed("diff --git a/x b/y b/x b/z\nsimilarity index 100%\nrename from x b/y\nrename to x b/z\n")

    assert (file.old_path, file.new_path, file.is_copy) == ("x b/y", "x b/z", False)
    assert file.paths == ("x b/z", "x b/y")


@pytest.mark.parametrize(
    "path", ["../x", "x/../../y", ".git/config", "x/.GIT/hooks", "/etc/passwd", "x//y", "."]
)
def test_a_path_out_of_the_tree_is_an_error(path: str) -> None:
    assert not is_inside(path)
    assert "is no path inside a source tree" in error(f"diff --git a/{path} b/{path}\nnew file mode 100644\n")


def test_a_file_that_is_new_or_gone_has_one_path() -> None:
    assert parsed("diff --git a/x b/x\nnew file mode 120000\n").paths == ("x",)
    gone = parsed("diff --git a/x b/x\ndeleted file mode 100755\nindex 1..2\n")
    assert (gone.old_path, gone.new_path, gone.old_mode) == ("x", None, Mode.EXECUTABLE)


def test_the_sections_and_ends_of_hunks() -> None:
    file = parsed(
        HEAD
        + "@@ -3 +3,2 @@ def f():\n-a\n\\ No newline at end of file\n+b\n+c\n\\ No newline at end of file\n"
        "-- \n2.39\n"
    )

    (hunk,) = file.hunks
    assert (hunk.old_start, hunk.new_start, hunk.section) == (3, 3, b"def f():")
    assert (hunk.old_lines, hunk.new_lines) == ([b"a"], [b"b\n", b"c"])
    assert file.line == 5


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("rubbish\n", 5, "expected `diff --git`"),
        ("diff --git x y\n", 5, "does not begin with a/ or b/"),
        (HEAD + "@@ -1,2 +1 @@\n-a\n", 9, "the hunk ends before its last line"),
        (HEAD + "@@ -1 +1 @@\n-a\n-b\n+c\n", 9, "other numbers of lines"),
        (HEAD + "@@ oops @@\n", 9, "malformed hunk header"),
        (HEAD, 9, "expected a hunk"),
        ("diff --git a/x b/x\n--- a/x\n@@\n", 7, "expected a `+++` line"),
        ("diff --git a/x b/x\nnew file mode 100666\n", 6, "is not a file mode"),
        ("diff --git a/x b/x\nBinary files a/x and b/x differ\n", 6, "does not hold it"),
        ("diff --git a/x b/x\nGIT binary patch\nlateral 3\n", 7, "expected `literal SIZE`"),
        ("diff --git a/x b/x\nGIT binary patch\nliteral 3\nA\x7f\x7f\n\n", 8, "not base 85"),
        ("diff --git a/x b/x\nGIT binary patch\nliteral 3\nCabcde\n\n", 7, "zlib refuses it"),
    ],
)
def test_each_error_names_its_line(text: str, line: int, reason: str) -> None:
    message = error(text)

    assert message.startswith(f"it.patch:{line}: ")
    assert reason in message


def test_a_hunk_is_applied_at_its_line_or_not_at_all() -> None:
    hunks = parsed(HEAD + "@@ -2,2 +2,2 @@\n b\n-c\n+C\n").hunks

    assert apply_hunks(hunks, b"a\nb\nc\nd\n") == b"a\nb\nC\nd\n"
    with pytest.raises(HunkMismatchError) as caught:
        apply_hunks(hunks, b"a\nx\nb\nc\n")
    assert (caught.value.line, caught.value.expected, caught.value.found) == (2, b"b\n", b"x\n")
    with pytest.raises(HunkMismatchError) as caught:
        apply_hunks(hunks, b"a\nb\n")
    assert (caught.value.line, caught.value.found) == (3, None)
    with pytest.raises(HunkMismatchError):
        apply_hunks([*hunks, *hunks], b"a\nb\nc\nd\n")


def block(kind: str, payload: bytes) -> str:
    packed = zlib.compress(payload)
    lines = []
    for at in range(0, len(packed), 52):
        piece = packed[at : at + 52]
        size = chr(64 + len(piece)) if len(piece) <= 26 else chr(70 + len(piece))
        lines.append(size + base64.b85encode(piece, pad=True).decode() + "\n")
    return f"{kind} {len(payload)}\n" + "".join(lines) + "\n"


@given(st.binary(max_size=300))
def test_a_literal_comes_back(payload: bytes) -> None:
    file = parsed(
        "diff --git a/x b/x\nGIT binary patch\n" + block("literal", payload) + block("literal", b"old")
    )

    assert file.binary == BinaryChange(is_delta=False, size=len(payload), payload=payload)
    assert file.binary.apply(b"anything") == payload


def test_a_delta_copies_inserts_and_refuses_another_base() -> None:
    delta = bytes([10, 8, 0x91, 4, 4, 4]) + b"new!"  # copy 4 bytes from 4, insert 4
    change = BinaryChange(is_delta=True, size=len(delta), payload=delta)

    assert change.apply(b"0123456789") == b"4567new!"
    for wrong in (b"012345678", b""):
        with pytest.raises(ValueError, match="another old file"):
            change.apply(wrong)
    with pytest.raises(ValueError, match="damaged"):
        BinaryChange(is_delta=True, size=3, payload=delta[:4]).apply(b"0123456789")
    with pytest.raises(ValueError, match="damaged"):
        BinaryChange(is_delta=True, size=3, payload=bytes([10, 9, 0x91, 4, 4])).apply(b"0123456789")


def test_unquoting_is_only_for_quoted_names() -> None:
    assert unquote(b"plain\\n") == "plain\\n"
    assert unquote(b'"a\\n\\a\\303\\251"') == "a\n\aé"
    assert unquote(b'"\\377"') == "\udcff"
    assert unquote(b"name \t") == "name "
