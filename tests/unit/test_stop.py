"""What a stop says: kinds of conflict, the commands that settle them, moved definitions, and what is cut."""

from __future__ import annotations

import pytest

from forktool.core.moved import Moved, edited_definitions, find_moved, search_words
from forktool.core.objects import Entry, Mode, Oid
from forktool.core.series import PatchName
from forktool.core.stop import (
    Cause,
    ConflictKind,
    Explained,
    StopConflict,
    StopRegion,
    asked_path,
    conflict_kind,
    pull_requests_url,
    settling,
)
from forktool.core.stop_report import stop_document, stop_lines
from forktool.core.verdict import Outcome, Verdict
from forktool.core.zdiff3 import line_in, regions, side, zealous

FILE = Entry(Mode.FILE, Oid("1" * 40))
OTHER = Entry(Mode.FILE, Oid("2" * 40))
LINK = Entry(Mode.SYMLINK, Oid("3" * 40))
SUBMODULE = Entry(Mode.GITLINK, Oid("4" * 40))


@pytest.mark.parametrize(
    ("base", "ours", "theirs", "is_marked", "kind"),
    [
        (FILE, OTHER, OTHER, True, ConflictKind.TEXT),
        (None, FILE, OTHER, True, ConflictKind.BOTH_ADDED),
        (FILE, OTHER, OTHER, False, ConflictKind.BINARY),
        (None, FILE, OTHER, False, ConflictKind.BINARY),
        (LINK, LINK, LINK, False, ConflictKind.LINK),
        (FILE, None, OTHER, False, ConflictKind.DELETED_UPSTREAM),
        (FILE, OTHER, None, False, ConflictKind.DELETED_BY_PATCH),
        (FILE, None, None, False, ConflictKind.GONE),
        (None, FILE, None, False, ConflictKind.MOVED_UPSTREAM),
        (None, None, FILE, False, ConflictKind.MOVED_BY_PATCH),
        (SUBMODULE, SUBMODULE, SUBMODULE, False, ConflictKind.SUBMODULE),
        (SUBMODULE, None, SUBMODULE, False, ConflictKind.SUBMODULE),
    ],
)
def test_the_stages_tell_the_kind(
    base: Entry | None, ours: Entry | None, theirs: Entry | None, *, is_marked: bool, kind: ConflictKind
) -> None:
    assert conflict_kind("a", base, ours, theirs, is_marked=is_marked) is kind


def test_a_file_in_the_way_of_a_folder_is_known_by_the_name_that_git_gives_it() -> None:
    moved_aside = f"a b~{'5' * 40}"

    assert conflict_kind(moved_aside, None, FILE, None, is_marked=False) is ConflictKind.IN_THE_WAY
    assert asked_path(moved_aside) == "a b"
    assert asked_path("a~1") == "a~1"
    assert settling(ConflictKind.IN_THE_WAY, "a b", None, None) == (
        "git add 'a b'~* && git mv 'a b'~* NEW_NAME  # keep the file under another name",
        "git rm 'a b'~*  # do without the file",
    )


def test_a_submodule_is_settled_by_the_commit_of_one_side() -> None:
    assert settling(ConflictKind.SUBMODULE, "lib", Oid("4" * 40), Oid("5" * 40)) == (
        f"git update-index --cacheinfo 160000,{'4' * 40},lib  # upstream's",
        f"git update-index --cacheinfo 160000,{'5' * 40},lib  # the patch's",
    )


@pytest.mark.parametrize(
    ("repository", "slug", "url"),
    [
        ("https://github.com/acme/reader.git", None, "https://github.com/acme/reader/pull/"),
        ("https://github.com/acme/reader", "other/name", "https://github.com/acme/reader/pull/"),
        ("https://token@github.com/acme/reader/", None, "https://github.com/acme/reader/pull/"),
        ("git@github.com:acme/reader.git", None, "https://github.com/acme/reader/pull/"),
        ("ssh://git@github.com/acme/reader", None, "https://github.com/acme/reader/pull/"),
        ("/srv/reader", "acme/reader", "https://github.com/acme/reader/pull/"),
        ("/srv/github.com/acme/reader", None, None),
        ("https://gitlab.com/acme/reader", None, None),
        ("https://github.com.evil.example/acme/reader", None, None),
        (None, None, None),
        (None, 7, None),
    ],
)
def test_only_github_has_urls_of_pull_requests(repository: str | None, slug: object, url: str | None) -> None:
    assert pull_requests_url(repository, slug) == url


MARKED = (
    b"head\n<<<<<<< v2:b.py\nsame\nours\nend\n||||||| v1:a.py\nbase\n=======\nsame\ntheirs\nend\n"
    b">>>>>>> mine:a.py\ntail\n<<<<<<< v2:b.py\n||||||| v1:a.py\nx\n=======\ny\n>>>>>>> mine:a.py\n"
)


def test_common_edges_stand_outside_and_labels_say_whose_a_side_is() -> None:
    assert zealous(MARKED, words=(b"upstream", b"base", b"patch")) == (
        b"head\nsame\n<<<<<<< upstream v2:b.py\nours\n||||||| base v1:a.py\nbase\n=======\ntheirs\n"
        b">>>>>>> patch mine:a.py\nend\ntail\n"
        b"<<<<<<< upstream v2:b.py\n||||||| base v1:a.py\nx\n=======\ny\n>>>>>>> patch mine:a.py\n"
    )
    assert zealous(b"no conflict\n") == b"no conflict\n"
    assert zealous(b"<<<<<<< ours\na\n=======\nb\n>>>>>>> theirs\n") == (
        b"<<<<<<< ours\na\n=======\nb\n>>>>>>> theirs\n"
    )


def test_regions_know_where_their_sides_stand() -> None:
    first, second = regions(MARKED)

    assert (first.line, first.ours_at, first.base_at, first.theirs_at) == (3, 3, 2, 3)
    assert (first.ours, first.base, first.theirs) == (b"ours\n", b"base\n", b"theirs\n")
    assert (second.line, second.ours_at, second.base_at, second.theirs_at) == (12, 6, 4, 6)
    assert (second.ours, second.base, second.theirs) == (b"", b"x\n", b"y\n")
    assert side(MARKED, lambda one: one.theirs) == b"head\nsame\ntheirs\nend\ntail\ny\n"


@pytest.mark.parametrize(
    ("text", "other", "line", "there"),
    [
        (b"a\nb\nc\n", b"a\nb\nc\n", 2, 2),
        (b"a\nb\nc\n", b"new\na\nb\nc\n", 2, 3),
        (b"new\na\nb\nc\n", b"a\nb\nc\n", 3, 2),
        (b"a\nb\nc\n", b"a\nB1\nB2\nc\n", 3, 4),
        (b"a\nb\nc\n", b"a\nB1\nB2\nc\n", 2, 2),
        (b"a\nb\nc\n", b"a\nc\n", 2, 2),
        (b"a\nb\nc\n", b"", 3, 1),
    ],
)
def test_a_line_is_found_in_another_version(text: bytes, other: bytes, line: int, there: int) -> None:
    assert line_in(other, text, line) == there


OLD = b"""import os


class Reader:
    def read(self, path):
        handle = self.open(path)
        text = os.read(handle, 4096)
        self.count += len(text)
        self.last = path
        return text

    def close(self):
        pass
"""


def moved(source: str, path: str = "new.py", name: str = "Reader.read") -> Moved | None:
    return find_moved(name, OLD, "old.py", {path: source.encode()})


def test_a_definition_is_found_by_its_body_under_another_name() -> None:
    there = OLD.decode().replace("class Reader", "class File").replace("def read", "def read_all")

    assert moved(f"# moved\n{there}") == Moved(
        name="Reader.read", path="new.py", new_name="File.read_all", line=6, likeness=1.0
    )


def test_the_same_name_needs_less_of_the_body_than_another() -> None:
    body = "        text = os.read(handle, 4096)\n        self.count += len(text)\n"
    other = "        a = 1\n        b = 2\n        c = 3\n"

    found = moved(f"class Reader:\n    def read(self, path):\n{body}{other}")
    assert found is not None
    assert found.likeness == pytest.approx(0.4)
    assert moved(f"class Reader:\n    def fetch(self, path):\n{body}{other}") is None
    assert moved(f"class Reader:\n    def read(self, path):\n{other}") is None


def test_a_body_that_says_little_is_not_known_again_under_another_name() -> None:
    assert moved("class Reader:\n    def shut(self):\n        pass\n", name="Reader.close") is None


def test_the_definition_in_its_old_place_is_not_where_it_moved() -> None:
    assert find_moved("Reader.read", OLD, "old.py", {"old.py": OLD}) is None
    assert find_moved("Reader.gone", OLD, "old.py", {"old.py": OLD}) is None


def test_the_longest_lines_of_a_definition_are_searched_for() -> None:
    assert search_words(OLD, "Reader.read") == (
        b"text = os.read(handle, 4096)",
        b"handle = self.open(path)",
        b"self.count += len(text)",
        b"def read(self, path):",
        b"self.last = path",
        b"return text",
    )
    assert search_words(OLD, "Reader.gone") == ()


def test_what_a_patch_adds_is_inside_of_what_the_base_has() -> None:
    after = OLD.replace(b"    def close", b"    def peek(self):\n        return 1\n\n    def close")

    assert edited_definitions(OLD, after, [8]) == ("Reader.read",)
    assert edited_definitions(OLD, after, [13, 8]) == ("Reader", "Reader.read")
    assert edited_definitions(OLD, after, [1]) == ()


CAUSES = tuple(
    Cause(oid=Oid(f"{number:040x}"), date="2026-01-02", subject=f"Change {number}", number=number)
    for number in range(1, 8)
)


def explained(*conflicts: StopConflict) -> Explained:
    return Explained(
        subject="Say ten",
        reason=None,
        links=(),
        outcome=Outcome(name=PatchName("ten"), verdict=Verdict.CONFLICT),
        labels=("v1", "v2"),
        conflicts=conflicts,
    )


def region(line: int, text: str = "x\n", causes: tuple[Cause, ...] = ()) -> StopRegion:
    return StopRegion(line=line, definition="", upstream=text, base="", patch="y\n", causes=causes)


def test_only_so_many_conflicts_are_shown_and_the_others_counted() -> None:
    many = StopConflict(path="a.py", kind=ConflictKind.TEXT, regions=tuple(region(at) for at in range(1, 10)))

    lines = stop_lines(explained(many), pull_requests=None)

    assert [line for line in lines if line.startswith("a.py:")] == [f"a.py:{at}" for at in range(1, 7)]
    assert lines[-1] == "… 3 more conflicts in a.py"


def test_the_same_commits_are_not_listed_twice_in_a_row() -> None:
    both = StopConflict(
        path="a.py", kind=ConflictKind.TEXT, regions=(region(1, causes=CAUSES), region(9, causes=CAUSES))
    )

    lines = stop_lines(explained(both), pull_requests="https://github.com/acme/reader/pull/")

    assert lines.count("  upstream changed this in:") == 1
    assert lines.count("  upstream changed this in the same commits") == 1
    assert lines.count("      https://github.com/acme/reader/pull/5") == 1
    assert "    … and 2 more" in lines


def test_a_long_line_is_shown_where_it_differs() -> None:
    call = "    result = compute(" + "argument, " * 20 + "last"
    texts = {"base": f"{call})\n", "patch": f"{call}=1)\n"}
    one = StopRegion(line=1, definition="", upstream="x\n", **texts)

    lines = stop_lines(
        explained(StopConflict(path="a.py", kind=ConflictKind.TEXT, regions=(one,))), pull_requests=None
    )

    base, patch = (line for line in lines if "result" in line)
    assert base.startswith("      result = compute(argument, argumen…")
    assert base.endswith("argument, last)")
    assert patch.endswith("argument, last=1)")
    assert len(base) <= 100


def test_no_line_of_a_stop_is_wider_than_a_terminal() -> None:
    wide = StopConflict(
        path="a.py",
        kind=ConflictKind.DELETED_UPSTREAM,
        message="word " * 60,
        regions=(region(1, "\t" + "wide " * 60 + "\n"),),
        deleted_by=Cause(oid=Oid("1" * 40), date="2026-01-02", subject="Long " * 60),
        moved=(Moved(name="a" * 60, path="b" * 30, new_name="c" * 30, line=1, likeness=0.5),),
    )

    lines = stop_lines(explained(wide), pull_requests=None)

    assert max(map(len, lines)) == 100
    assert all(line == line.rstrip() for line in lines)


def test_json_has_a_url_only_where_there_is_one() -> None:
    one = StopConflict(path="a.py", kind=ConflictKind.TEXT, causes=CAUSES[:1])

    for pull_requests, url in ((None, None), ("https://x/pull/", "https://x/pull/1")):
        document = stop_document(explained(one), work_tree=None, pull_requests=pull_requests, commands=())
        assert document["conflicts"][0]["causes"] == [
            {"commit": CAUSES[0].oid, "date": "2026-01-02", "subject": "Change 1", "number": 1, "url": url}
        ]
    assert document["forwarded"] is None
    assert document["work_tree"] is None
