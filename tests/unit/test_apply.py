"""A patch on its base, in memory: exact, or an error that says what stands there."""

from __future__ import annotations

import pytest

from forktool.core.apply import apply_patch
from forktool.core.diff import parse_diff
from forktool.core.objects import Entry, Mode, Person, blob_id
from forktool.core.series import Patch, PatchName
from forktool.core.tree import Overlay
from forktool.errors import PatchsetError


class Files:
    """A source tree of texts."""

    label = "v1.0"

    def __init__(self, files: dict[str, bytes], *, modes: dict[str, Mode] | None = None) -> None:
        self.files = files
        self.modes = modes or {}

    def entry(self, path: str) -> Entry | None:
        if path not in self.files:
            return None
        return Entry(self.modes.get(path, Mode.FILE), blob_id(self.files[path]))

    def read(self, path: str) -> bytes | None:
        return self.files.get(path)

    def has_folder(self, path: str) -> bool:
        return any(name.startswith(f"{path}/") for name in self.files)


def applied(
    diff: str, files: dict[str, bytes], *, modes: dict[str, Mode] | None = None
) -> dict[str, bytes | None]:
    patch = Patch(
        name=PatchName("it"),
        author=Person(name="A", email="a@b", when="0 +0000"),
        message="S\n",
        files=parse_diff(diff.encode(), name="it.patch"),
        text=b"",
    )
    tree = Overlay(Files(files, modes=modes))
    changes = apply_patch(patch, tree, file="it.patch")
    return {change.path: tree.read(change.path) for change in changes}


def error(diff: str, files: dict[str, bytes], *, modes: dict[str, Mode] | None = None) -> str:
    with pytest.raises(PatchsetError) as caught:
        applied(diff, files, modes=modes)
    return caught.value.message


EDIT = "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n"
NEW = "diff --git a/{0} b/{0}\nnew file mode 100644\n--- /dev/null\n+++ b/{0}\n@@ -0,0 +1 @@\n+n\n"


def test_renames_in_a_ring_read_the_files_as_they_were() -> None:
    diff = (
        "diff --git a/x b/y\nsimilarity index 100%\nrename from x\nrename to y\n"
        "diff --git a/y b/x\nsimilarity index 100%\nrename from y\nrename to x\n"
    )
    assert applied(diff, {"x": b"1\n", "y": b"2\n"}) == {"y": b"1\n", "x": b"2\n"}


def test_a_change_that_is_no_change_is_none() -> None:
    assert applied("diff --git a/x b/x\nold mode 100644\nnew mode 100644\n", {"x": b"a\n"}) == {}


@pytest.mark.parametrize(
    ("diff", "files", "message"),
    [
        (EDIT, {}, "it.patch:1: x is not in v1.0"),
        (EDIT, {"x": b"c\n"}, "it.patch:1: does not apply to x line 1 of v1.0: expected 'a', found 'c'"),
        (
            EDIT,
            {"x": b""},
            "it.patch:1: does not apply to x line 1 of v1.0: expected 'a', found the end of the file",
        ),
        (EDIT + EDIT, {"x": b"a\n"}, "it.patch:7: x is changed a second time"),
        (NEW.format("x"), {"x": b""}, "it.patch:1: x is already in v1.0"),
        (NEW.format("x/y"), {"x": b""}, "it.patch:1: x is a file in v1.0, so x/y cannot be"),
        (NEW.format("x"), {"x/y": b""}, "it.patch:1: x is a folder in v1.0"),
        (
            "diff --git a/x b/x\ndeleted file mode 100644\n--- a/x\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n",
            {"x": b"a\nb\n"},
            "it.patch:1: x holds more than the patch removes",
        ),
        (
            f"diff --git a/x b/x\nindex {'1' * 40}..{'2' * 40} 100644\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n",
            {"x": b"a\n"},
            "it.patch:1: x is blob 78981922613b in v1.0, the patch was made on 111111111111",
        ),
        (
            EDIT.replace("--- a/x", f"index {blob_id(bytes([97, 10]))}..{'2' * 40} 100644\n--- a/x"),
            {"x": b"a\n"},
            "it.patch:1: the result for x is blob 61780798228d, the patch says 222222222222",
        ),
    ],
)
def test_each_refusal_says_what_stands_there(diff: str, files: dict[str, bytes], message: str) -> None:
    assert error(diff, files) == message


def test_another_mode_than_the_patch_was_made_on() -> None:
    diff = "diff --git a/x b/x\nindex 1234567..89abcde 100644\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n"

    assert error(diff, {"x": b"a\n"}, modes={"x": Mode.EXECUTABLE}) == (
        "it.patch:1: x has mode 100755 in v1.0, the patch was made on 100644"
    )


def test_a_file_takes_the_place_of_a_folder_that_goes() -> None:
    gone = "diff --git a/x/y b/x/y\ndeleted file mode 100644\n--- a/x/y\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n"

    assert applied(NEW.format("x") + gone, {"x/y": b"a\n"}) == {"x": b"n\n", "x/y": None}
