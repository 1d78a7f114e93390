"""Which patch is in an installed package, and what would be written."""

from __future__ import annotations

import hashlib

import pytest

from forktool.core.live_plan import ABSENT, InstalledFile, LivePlan, Presence, plan_live
from forktool.core.objects import Entry, Mode, blob_id
from forktool.core.series import Base, PatchName, Series, parse_patch
from forktool.core.wheel_plan import WheelRules, member_of

BASE = {
    "demo/a.py": b"one = 1\ntwo = 2\nthree = 3\nfour = 4\nfive = 5\nsix = 6\nseven = 7\neight = 8\n",
    "demo/gone.py": b"gone = 1\n",
    "tests/test_a.py": b"assert 1\n",
}
HEAD = """\
From 0000000000000000000000000000000000000000 Mon Sep 17 00:00:00 2001
From: A <a@example.org>
Date: Thu, 5 Nov 2026 12:00:00 +0000
Subject: Change

"""
FIRST = """\
diff --git a/demo/a.py b/demo/a.py
--- a/demo/a.py
+++ b/demo/a.py
@@ -1,4 +1,4 @@
 one = 1
-two = 2
+two = 'two'
 three = 3
 four = 4
"""
SECOND = """\
diff --git a/demo/a.py b/demo/a.py
--- a/demo/a.py
+++ b/demo/a.py
@@ -5,4 +5,5 @@
 five = 5
 six = 6
 seven = 7
+seven_and_a_half = 7.5
 eight = 8
"""
THIRD = """\
diff --git a/demo/gone.py b/demo/gone.py
deleted file mode 100644
--- a/demo/gone.py
+++ /dev/null
@@ -1 +0,0 @@
-gone = 1
diff --git a/demo/new.py b/demo/new.py
new file mode 100755
--- /dev/null
+++ b/demo/new.py
@@ -0,0 +1 @@
+new = 1
diff --git a/tests/test_a.py b/tests/test_a.py
--- a/tests/test_a.py
+++ b/tests/test_a.py
@@ -1 +1 @@
-assert 1
+assert 2
"""
ONE = BASE["demo/a.py"].replace(b"two = 2", b"two = 'two'")
TWO = ONE.replace(b"eight", b"seven_and_a_half = 7.5\neight")


RULES = WheelRules(shipped=("demo/",))


class Tree:
    label = "v1.0"

    def __init__(self, **more: bytes) -> None:
        self._files = BASE | more

    def entry(self, path: str) -> Entry | None:
        return Entry(Mode.FILE, blob_id(self._files[path])) if path in self._files else None

    def read(self, path: str) -> bytes | None:
        return self._files.get(path)

    def has_folder(self, path: str) -> bool:
        return any(name.startswith(f"{path}/") for name in self._files)


def series(**diffs: str) -> Series:
    patches = tuple(
        parse_patch(PatchName(name), (HEAD + diff).encode(), file=name) for name, diff in diffs.items()
    )
    return Series(base=Base(tag="v1.0", tree=None), patches=patches)


ALL = series(first=FIRST, second=SECOND, third=THIRD)


def plan(of: Series = ALL, **changes: bytes | None) -> LivePlan:
    """Against a package as it was installed but for `changes` (`a` stands for demo/a.py)."""
    contents: dict[str, bytes | None] = {
        path: text for path, text in BASE.items() if path.startswith("demo/")
    }
    contents |= {f"demo/{name}.py": text for name, text in changes.items()}
    files = {
        path: InstalledFile(content=text, recorded=path in BASE, matches=text == BASE.get(path))
        for path, text in contents.items()
    }
    return plan_live(of, Tree(), files, tops=frozenset({"demo"}), rules=RULES)


def presences(found: LivePlan) -> list[str]:
    return [patch.presence.value for patch in found.patches]


def test_a_fresh_package_gets_everything() -> None:
    found = plan()
    assert presences(found) == ["not in", "not in", "not in"]
    assert found.problems == ()
    assert found.aside == ("tests/test_a.py",)
    written = {write.path: (write.content, write.executable) for write in found.writes}
    assert written == {
        "demo/a.py": (TWO, None), "demo/gone.py": (None, None), "demo/new.py": (b"new = 1\n", True)
    }  # fmt: skip
    expected = {write.path: write.expect for write in found.writes}
    assert expected["demo/a.py"] == hashlib.sha256(BASE["demo/a.py"]).hexdigest()
    assert expected["demo/new.py"] is None


def test_a_patched_package_needs_nothing() -> None:
    found = plan(a=TWO, gone=None, new=b"new = 1\n")
    assert presences(found) == ["in", "in", "in"]
    assert found.writes == ()
    assert found.problems == ()


def test_the_first_patches_alone_are_known() -> None:
    found = plan(a=ONE)
    assert presences(found) == ["in", "not in", "not in"]
    assert {write.path: write.content for write in found.writes}["demo/a.py"] == TWO


def test_a_later_patch_alone_is_known() -> None:
    only_second = TWO.replace(b"two = 'two'", b"two = 2")
    found = plan(a=only_second)
    assert presences(found) == ["not in", "in", "not in"]
    assert found.problems == ()
    assert {write.path: write.content for write in found.writes}["demo/a.py"] == TWO


def test_a_patch_with_one_of_its_files_in_is_partly_in() -> None:
    found = plan(new=b"new = 1\n")
    assert presences(found)[2] == "partly in"
    assert found.patches[2].inside == 1
    assert found.patches[2].outside == 1
    assert found.problems == ()


@pytest.mark.parametrize(
    ("place", "expected"), [(b"one = 1", ["unclear", "in"]), (b"eight = 8", ["in", "unclear"])]
)
def test_an_edit_elsewhere_is_refused_but_does_not_hide_the_other_patch(
    place: bytes, expected: list[str]
) -> None:
    found = plan(a=TWO.replace(place, place + b"  # mine"))
    assert found.problems == (
        "demo/a.py was edited: it is neither what RECORD says nor v1.0 with patches of the series",
    )
    assert presences(found)[:2] == expected
    assert "demo/a.py" not in {write.path for write in found.writes}


def test_an_edit_in_the_place_of_a_patch_is_unclear() -> None:
    found = plan(a=BASE["demo/a.py"].replace(b"two = 2", b"two = 22"))
    assert presences(found)[0] == "unclear"
    assert len(found.problems) == 1


def test_each_reason_not_to_write_has_its_words() -> None:
    other = BASE["demo/a.py"] + b"vendor = 1\n"
    files = {
        "demo/a.py": InstalledFile(content=other, recorded=True, matches=True),
        "demo/gone.py": InstalledFile(content=None, recorded=True, matches=None),
        "demo/new.py": InstalledFile(content=b"theirs\n", recorded=False, matches=None),
    }
    # A file that the series deletes may be missing, so ask about one that it changes.
    kept = series(first=FIRST, third=THIRD)
    found = plan_live(kept, Tree(), files, tops=frozenset({"demo"}), rules=RULES)
    assert found.problems == (
        "demo/a.py of this build is not that of v1.0",
        "demo/new.py is there, put by somebody else than the installer",
    )
    missing = {"demo/a.py": InstalledFile(content=None, recorded=True, matches=None)}
    found = plan_live(series(first=FIRST), Tree(), missing, tops=frozenset({"demo"}), rules=RULES)
    assert found.problems == ("demo/a.py is missing from the installation",)


def test_a_file_that_the_wheel_left_out_is_not_missing() -> None:
    found = plan_live(
        series(first=FIRST), Tree(), {"demo/a.py": ABSENT}, tops=frozenset({"demo"}), rules=RULES
    )
    assert found.patches[0].presence is Presence.NOWHERE
    assert found.problems == ("demo/a.py is not in an installed package: it needs a build",)


def test_a_block_that_is_there_twice_decides_nothing() -> None:
    found = plan(a=BASE["demo/a.py"] * 2)
    assert presences(found)[:2] == ["unclear", "unclear"]
    assert len(found.problems) == 1


@pytest.mark.parametrize(
    ("path", "problems"),
    [
        ("docs/index.md", ()),
        ("NOTES.txt", ()),
        ("csrc/kernel.cu", ("csrc/kernel.cu is not in an installed package: it needs a build",)),
        ("setup.py", ("setup.py is not in an installed package: it needs a build",)),
        ("README.md", ()),
    ],
)
def test_what_a_wheel_is_made_of_cannot_be_changed_when_installed(
    path: str, problems: tuple[str, ...]
) -> None:
    text = f"diff --git a/{path} b/{path}\n--- a/{path}\n+++ b/{path}\n@@ -1 +1 @@\n-a\n+b\n"
    found = plan_live(series(only=text), Tree(**{path: b"a\n"}), {}, tops=frozenset({"demo"}), rules=RULES)
    assert found.problems == problems
    assert found.aside == (path,)


def test_src_is_a_layout_and_not_a_package() -> None:
    assert member_of("src/demo/a.py") == "demo/a.py"
    assert member_of("demo/src/a.py") == "demo/src/a.py"
