"""Diff text as people have it: names, hunks, counts, and what is refused with its line."""

from __future__ import annotations

import pytest

from forktool.core.diff import split_lines
from forktool.core.loose_diff import LooseFile, RefusedError, Section, read_sections
from forktool.core.loose_names import Paths, header_names, is_prefixed, side_name
from forktool.core.objects import Entry, Mode, blob_id


def sections(text: str) -> list[Section]:
    return read_sections(split_lines(text.encode()), source="it")


def one(text: str) -> LooseFile:
    (section,) = sections(text)
    (file,) = section.files
    return file


class Tree:
    """A source tree of names."""

    label = "base"

    def __init__(self, *paths: str) -> None:
        self.paths = paths

    def entry(self, path: str) -> Entry | None:
        return Entry(Mode.FILE, blob_id(b"")) if path in self.paths else None

    def read(self, path: str) -> bytes | None:
        return b"" if path in self.paths else None

    def has_folder(self, path: str) -> bool:
        return any(name.startswith(f"{path}/") for name in self.paths)


@pytest.mark.parametrize(
    ("line", "name", "is_gone"),
    [
        ("a/x.py", "a/x.py", False),
        ("a/x.py\t2026-01-02 03:04:05.0 +0000", "a/x.py", False),
        ("a/x.py\t1970-01-01 00:00:00.000000000 +0000", "a/x.py", True),
        ("a/x.py\t1969-12-31 19:00:00.000000000 -0500", "a/x.py", True),
        ("a/x.py   2026-01-02 03:04:05", "a/x.py", False),
        ("a/x.py\tThu Jan  1 00:00:00 1970", "a/x.py", True),
        ("a/two words.py\t", "a/two words.py", False),
        ("a/two words.py\t2026-01-02 03:04", "a/two words.py", False),
        ('"a/\\346\\226\\207\\t.py"', "a/文\t.py", False),
        ('"a/q\\"u"\t1970-01-01 00:00:00 +0000', 'a/q"u', True),
        ("/dev/null", "/dev/null", False),
        ("/dev/null\t1970-01-01", "/dev/null", True),
    ],
)
def test_a_name_of_one_side(line: str, name: str, is_gone: bool) -> None:
    assert side_name(line.encode()) == (name, is_gone)


@pytest.mark.parametrize(
    ("rest", "names"),
    [
        ("a/x b/x", ("a/x", "b/x")),
        ("a/x b/y b/x b/y", ("a/x b/y", "b/x b/y")),
        ("x.py x.py", ("x.py", "x.py")),
        ("a/x b/y", ("a/x", "b/y")),
        ('"a/\\303\\251" "b/\\303\\251"', ("a/é", "b/é")),
        ('a/x "b/\\303\\251"', ("a/x", "b/é")),
        ('"a/\\303\\251" b/x', ("a/é", "b/x")),
        ("i/x w/x", ("i/x", "w/x")),
    ],
)
def test_names_of_a_git_header(rest: str, names: tuple[str, str]) -> None:
    assert header_names(rest.encode()) == names


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("a/x", "b/x", True),
        ("i/x", "w/x", True),
        ("a/x", "a/x", False),
        ("vllm/x", "vllm/x", False),
        ("/dev/null", "b/x", True),
        ("a/x", "/dev/null", True),
        ("vllm/x", "/dev/null", False),
        ("x.orig", "x", False),
    ],
)
def test_a_prefix_tells_the_sides_apart(old: str, new: str, expected: bool) -> None:
    assert is_prefixed(old, new) is expected


SITE = "usr/local/lib/python3.12/dist-packages"


@pytest.mark.parametrize(
    ("name", "prefixed", "path"),
    [
        (f"a/{SITE}/vllm/config/x.py", True, "vllm/config/x.py"),
        (f"/{SITE}/vllm/config/x.py", False, "vllm/config/x.py"),
        ("a/vllm/config/x.py", True, "vllm/config/x.py"),
        ("./vllm/config/x.py", False, "vllm/config/x.py"),
        ("../../vllm/config/x.py", False, "vllm/config/x.py"),
        ("config/x.py", False, "vllm/config/x.py"),  # from inside the package
        (f"{SITE}/pkg/y.py", False, "src/pkg/y.py"),  # installed without its `src/`
        ("a/a/z.py", True, "a/z.py"),
        ("b/a/z.py", False, "a/z.py"),
        ("a/setup.py", True, "setup.py"),
        ("vllm-0.16.0/setup.py", False, "setup.py"),
        ("some/where/else/setup.py", False, None),
        ("a/vllm/config/gone.py", True, None),
    ],
)
def test_the_path_of_a_file_that_is_there(name: str, prefixed: bool, path: str | None) -> None:
    tree = Tree("vllm/config/x.py", "src/pkg/y.py", "a/z.py", "setup.py", "vllm/__init__.py")
    paths = Paths(tree=tree, folders=("a", "src", "vllm"))

    assert paths.existing(name, is_prefixed=prefixed) == path


@pytest.mark.parametrize(
    ("name", "prefixed", "is_git", "path"),
    [
        (f"b/{SITE}/vllm/new/x.py", True, False, "vllm/new/x.py"),
        ("b/vllm/new/x.py", True, False, "vllm/new/x.py"),
        ("vllm/new/x.py", False, False, "vllm/new/x.py"),
        ("vllm-0.16.0/vllm/new.py", False, False, "vllm/new.py"),
        ("b/brand/new.py", True, True, "brand/new.py"),
        ("b/brand/new.py", True, False, None),
        ("b/new.py", True, False, "new.py"),
        ("b/usr/share/new.py", True, True, None),
        ("b/../../etc/passwd", True, True, None),
        ("b/.git/hooks/x", True, True, None),
    ],
)
def test_the_path_of_a_new_file(name: str, prefixed: bool, is_git: bool, path: str | None) -> None:
    paths = Paths(tree=Tree("vllm/__init__.py", "tests/x.py"), folders=("tests", "vllm"))

    assert paths.new(name, is_prefixed=prefixed, is_git=is_git) == path


def test_a_new_file_loses_what_its_siblings_lose() -> None:
    paths = Paths(tree=Tree("vllm/x.py"), folders=("vllm",))
    assert paths.existing("opt/app/vllm/x.py", is_prefixed=False) == "vllm/x.py"

    assert paths.new("opt/app/brand/new.py", is_prefixed=False, is_git=False) == "brand/new.py"


def test_the_fields_of_a_git_diff() -> None:
    file = one(
        "diff --git a/x b/y\nold mode 100644\nnew mode 100755\nsimilarity index 90%\nrename from x\nrename to y\n"
        "index 1234567..89abcde\n--- a/x\n+++ b/y\n@@ -1 +1 @@ def f():\n-a\n+b\n"
    )

    assert (file.old_name, file.new_name, file.is_rename, file.is_prefixed) == ("x", "y", True, False)
    assert (file.old_mode, file.new_mode) == (Mode.FILE, Mode.EXECUTABLE)
    assert (file.old_id, file.new_id) == ("1234567", "89abcde")
    assert file.hunks[0].lines == (b"-a\n", b"+b\n")
    assert file.hunks[0].numbers == (11, 12)


def test_old_group_writable_modes_are_files() -> None:
    assert one("diff --git a/x b/x\nnew file mode 100664\nindex 0000000..e69de29\n").new_mode is Mode.FILE


def test_no_newline_markers() -> None:
    file = one(
        "--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at end of file\n+c\n\\ Kein Zeilenumbruch\n"
    )

    assert file.hunks[0].lines == (b" a\n", b"-b", b"+c")


@pytest.mark.parametrize(
    "header", ["@@ -1,3 +1,4 @@", "@@ -1,2 +1,9 @@", "@@ -1,9 +1,9 @@", "@@ -7 +9 @@", "@@", "@@ def f():"]
)
def test_counts_that_are_wrong_give_way_to_the_lines(header: str) -> None:
    text = (
        f"--- a/x\n+++ b/x\n{header}\n a\n-b\n+c\n+d\n e\n@@ -50,2 +51,2 @@\n f\n-g\n+h\ndiff --git a/y b/y\n"
        f"old mode 100644\nnew mode 100755\n"
    )
    (section,) = sections(text)

    assert [hunk.lines for hunk in section.files[0].hunks] == [
        (b" a\n", b"-b\n", b"+c\n", b"+d\n", b" e\n"),
        (b" f\n", b"-g\n", b"+h\n"),
    ]
    assert section.files[1].new_mode is Mode.EXECUTABLE
    is_right = header == "@@ -1,3 +1,4 @@"
    assert len(section.notes) == (0 if is_right else 1)


def test_counts_that_reach_into_the_next_file() -> None:
    text = "--- a/x\n+++ b/x\n@@ -1,3 +1,3 @@\n a\n-b\n+c\n--- a/y\n+++ b/y\n@@ -1 +1 @@\n-d\n+e\n"
    (section,) = sections(text)

    assert [(file.new_name, file.hunks[0].lines) for file in section.files] == [
        ("b/x", (b" a\n", b"-b\n", b"+c\n")),
        ("b/y", (b"-d\n", b"+e\n")),
    ]


def test_lines_that_look_like_headers_within_right_counts() -> None:
    file = one(
        "--- a/x\n+++ b/x\n@@ -1,4 +1,3 @@\n--- one\n-- two\n-@@ -1 +1 @@\n+++ three\n diff --git a/x b/x\n+-- \n"
    )

    assert len(file.hunks[0].lines) == 6


def test_an_empty_line_at_the_end_may_not_belong() -> None:
    file = one("--- a/x\n+++ b/x\n@@ -1,3 +1,3 @@\n a\n-b\n+c\n\n")

    assert file.hunks[0].lines[-1] == b" \n"
    assert file.hunks[0].loose_tail == 1


def test_prose_between_bare_diffs_begins_another_patch() -> None:
    found = sections(
        "First.\n\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n\nIndex: y\n=====\n--- y\n+++ y\n@@ -1 +1 @@\n-c\n+d\n\n"
        "Second.\n--- a/z\n+++ b/z\n@@ -1 +1 @@\n-e\n+f\n-- \n2.39\n\nfooter\n"
    )

    assert [(len(item.files), item.first_text) for item in found] == [(2, 1), (1, 17)]


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("--- a/x\n+++ b/x\n@@ -1 +1 @@\n a\n", 3, "changes nothing"),
        (
            "--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n a\nno sign\n+b\n",
            5,
            "the hunk's counts are wrong and 'no sign' follows",
        ),
        ("--- a/x\n+++ b/x\n@@@ -1,2 -1,2 +1,3 @@@\n  a\n++b\n", 3, "a merge"),
        ("diff --cc x\nindex 1,2..3\n", 1, "a merge"),
        (
            "diff --git a/x b/x\nindex 1..2\nGIT binary patch\nliteral 5\nrubbish!\n\n",
            4,
            "damaged binary patch",
        ),
        ("diff --git a/x b/x\nnew file mode 12\n", 1, "is not a file mode"),
        ("diff --git a/x b/x\nindex 1..2\n--- a/x\n@@ -1 +1 @@\n", 4, "expected a `+++` line"),
    ],
)
def test_what_cannot_be_read_names_its_line(text: str, line: int, reason: str) -> None:
    with pytest.raises(RefusedError) as caught:
        sections(text)

    assert (caught.value.source, caught.value.line) == ("it", line)
    assert reason in caught.value.reason
    assert caught.value.message == f"it:{line}: {caught.value.reason}"
