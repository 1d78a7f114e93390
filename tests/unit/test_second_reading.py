"""What another reader of patches sees in them."""

from __future__ import annotations

from pathlib import Path

import pytest

from forktool.core.second_reading import misreading
from forktool.core.series import Patch, PatchName, parse_patch

HEAD = (
    "From 0000000000000000000000000000000000000000 Mon Sep 17 00:00:00 2001\nFrom: A U Thor <a@example.org>\n"
    "Date: Thu, 1 Jan 2026 00:00:00 +0000\nSubject: change\n\n---\n"
)
EDIT = "diff --git a/x.py b/x.py\nindex 1111111..2222222 100644\n--- a/x.py\n+++ b/x.py\n"


def patch(diff: bytes) -> Patch:
    return parse_patch(PatchName("change"), HEAD.encode() + diff + b"-- \n", file="change.patch")


@pytest.mark.parametrize(
    "diff",
    [
        EDIT.encode() + b"@@ -1,2 +1,3 @@\n a\n-b\n+c\n+d\n",
        EDIT.encode() + b"@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+b\n\\ No newline at end of file\n",
        EDIT.encode() + b"@@ -1 +1 @@\n-caf\xe9\n+caf\xe9s\n",
        EDIT.encode() + b"@@ -1 +1 @@\n-a\r\n+b\r\n",
        EDIT.encode() + b"@@ -1 +1 @@\n-a\x0cb\n+a\x0cc\n",
        EDIT.encode() + b"@@ -1 +1 @@\n-a\n+b\rc\n",
        b"diff --git a/x.py b/y.py\nsimilarity index 100%\nrename from x.py\nrename to y.py\n",
        b"diff --git a/x.py b/x.py\nold mode 100644\nnew mode 100755\n",
        b"diff --git a/x.py b/x.py\nnew file mode 100644\nindex 0000000..e69de29\n",
    ],
    ids=["edit", "no newline", "latin-1", "crlf", "form feed", "lone cr", "rename", "mode", "empty file"],
)
def test_an_ordinary_patch_reads_the_same(diff: bytes) -> None:
    assert misreading(patch(diff)) is None


def test_the_series_of_this_repository_reads_the_same() -> None:
    files = sorted(Path("patchset").glob("*.patch"))
    assert files
    for file in files:
        read = parse_patch(PatchName(file.stem), file.read_bytes(), file=str(file))
        assert misreading(read) is None


def test_a_quoted_path_stays_quoted() -> None:
    diff = EDIT.replace("a/x.py", '"a/\\303\\251.py"').replace("b/x.py", '"b/\\303\\251.py"')
    found = misreading(patch(diff.encode() + b"@@ -1 +1 @@\n-a\n+b\n"))
    assert found == 'it sees "\\303\\251.py" where git sees é.py'


def test_a_directory_that_ends_like_a_prefix_is_unreadable() -> None:
    diff = EDIT.replace("a/x.py", "a/x b/y.py\t").replace("b/x.py", "b/x b/y.py\t").replace("\t b/", " b/")
    diff = diff.replace("y.py\t\nindex", "y.py\nindex")
    found = misreading(patch(diff.encode() + b"@@ -1 +1 @@\n-a\n+b\n"))
    assert found is not None
    assert found.startswith("it cannot read the diff: Target without source")
