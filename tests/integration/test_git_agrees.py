"""What core reads of a patch is what git does with it: every payload, every header, both ways."""

from __future__ import annotations

import itertools
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from forktool.adapters.git_format import format_patches
from forktool.adapters.git_repo import commit_diff, commits
from forktool.adapters.git_store import GitStore
from forktool.core.adoption import adopt_files, is_contained
from forktool.core.apply import apply_patch
from forktool.core.diff import split_lines
from forktool.core.loose_diff import read_sections
from forktool.core.loose_mail import read_offered
from forktool.core.mail import parse_mail, unsafe_lines
from forktool.core.objects import Oid, Person, encode_commit, new_object
from forktool.core.series import PatchName, parse_patch
from forktool.core.tree import Overlay
from tests.support.story import Files, Story

Edit = Callable[[Path], None]


def _make(root: Path, files: Files) -> None:
    for name, content in files.items():
        path = root / name
        path.unlink(missing_ok=True)
        if content is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content if isinstance(content, bytes) else content.encode())


def _symlink(name: str, target: str) -> Edit:
    def edit(root: Path) -> None:
        (root / name).unlink(missing_ok=True)
        (root / name).symlink_to(target)

    return edit


def _chmod(name: str, mode: int) -> Edit:
    return lambda root: (root / name).chmod(mode)


def _move(old: str, new: str, *, then: str | None = None) -> Edit:
    def edit(root: Path) -> None:
        (root / new).parent.mkdir(parents=True, exist_ok=True)
        (root / old).rename(root / new)
        if then is not None:
            (root / new).write_text(then)

    return edit


def _many(*edits: Edit) -> Edit:
    def edit(root: Path) -> None:
        for one in edits:
            one(root)

    return edit


LONG = "".join(f"line {number}\n" for number in range(80))
NOISE = bytes((i * i * 31 + i // 7) % 256 for i in range(5000))

PAYLOADS: dict[str, tuple[Files, Files, Edit | None]] = {
    "text": ({"a": LONG}, {"a": LONG.replace("line 40\n", "x\ny\n").replace("line 3\n", "")}, None),
    "binary literal": ({"a": b"\0\1\2"}, {"a": b"\xff\0" * 40}, None),
    "binary delta": ({"a": NOISE}, {"a": NOISE[:2000] + b"\0new" + NOISE[2010:]}, None),
    "binary new and gone": ({"a": NOISE}, {"a": None, "b": NOISE[::-1]}, None),
    "binary empty": ({"a": NOISE}, {"a": b""}, None),
    "rename": ({"a": LONG}, {}, _move("a", "d/b")),
    "rename and edit": ({"a": LONG}, {}, _move("a", "d/b", then=LONG.replace("line 7\n", "seven\n"))),
    "rename and mode": ({"a": LONG}, {}, _many(_move("a", "b"), _chmod("b", 0o755))),
    "rename with odd names": ({"x b/y": LONG}, {}, _move("x b/y", "x b/ b/z")),
    "mode": ({"a": LONG, "b": ""}, {}, _many(_chmod("a", 0o755), _chmod("b", 0o755))),
    "mode and edit": ({"a": LONG}, {"a": LONG + "end\n"}, _chmod("a", 0o755)),
    "link new": ({"a": "1"}, {}, _symlink("link", "a")),
    "file to link": ({"a": LONG, "b": "1"}, {}, _symlink("a", "b")),
    "link to file": ({"b": "1"}, {}, None),
    "empty new": ({"b": "1"}, {"a": "", "d/__init__.py": ""}, None),
    "empty gone": ({"a": "", "b": "1"}, {"a": None}, None),
    "newline lost": ({"a": "1\n2\n"}, {"a": "1\n2"}, None),
    "newline gained": ({"a": "1\n2"}, {"a": "1\n2\n"}, None),
    "no newline at all": ({"a": "1\n2"}, {"a": "3\n2"}, None),
    "no newline, appended": ({"a": "1\n2"}, {"a": "1\n2\n3"}, None),
    "no newline, new": ({"b": "1"}, {"a": "only"}, None),
    "lone cr": ({"a": "1\r2\n3\n\r\n4\n"}, {"a": "1\r2\nx\ry\n\r\n4\n"}, None),
    "ends in cr": ({"a": "1\n2\r"}, {"a": "0\n2\r"}, None),
    "crlf": ({"a": LONG.replace("\n", "\r\n")}, {"a": LONG.replace("\n", "\r\n").replace("line 9\r", "nine\r")}, None),
    "crlf to lf": ({"a": "1\r\n2\r\n3\r\n"}, {"a": "1\n2\n3\n"}, None),
    "form feed": ({"a": "1\n\f\n2\v\n3\n"}, {"a": "1\n\f\n2\v\nx\f\n"}, None),
    "latin-1": ({"a": b"caf\xe9\n1\n"}, {"a": b"caf\xe9\n\xfc\n"}, None),
    "unicode separators": ({"a": "1\u2028\x85\n2\n"}, {"a": "1\u2028\x85\n3\x1c\n"}, None),
    "names": ({"x b/y": "1\n", "文 件.py": "1\n"}, {"x b/y": "2\n", "文 件.py": "2\n", "q\"u\\o\tte\n": "3\n"}, None),
    "names new and gone": ({"x b/y": "1\n", "a b/x": "2\n"}, {"x b/y": None, "b b/x b/x": "3\n", "é\x01": "4\n"}, None),
    "name ends in space": ({"a ": "1\n"}, {"a ": "2\n"}, None),
    "minus and plus": ({"a": "-- x\n++ y\n@@ -1 +1 @@\ndiff --git a/x b/x\n"}, {"a": "-- z\n++ y\n--- y\n"
    "+++ q\n"}, None),
    "signature alike": ({"a": "- \n-\n-- \n"}, {"a": "1\n"}, None),
    "file to folder": ({"a": "1\n", "c": "1"}, {"a": None, "a/b": "2\n"}, None),
    "folder to file": ({"a/b": "1\n", "c": "1"}, {"a/b": None}, None),
    "at the very start": ({"a": LONG}, {"a": "first\n" + LONG}, None),
    "all gone but one": ({"a": LONG}, {"a": "line 5\n"}, None),
    "tab in name": ({"a\tb": "1\n"}, {"a\tb": "2\n"}, None),
}  # fmt: skip


@pytest.fixture
def made(story: Story, request: pytest.FixtureRequest) -> tuple[Story, str, str]:
    """Two commits: the trees of one payload."""
    before, after, edit = PAYLOADS[request.param]
    root = story.upstream
    if request.param == "link to file":
        _symlink("a", "b")(root)
    old = story.release("old", before)
    _make(root, after)
    if request.param == "link to file":
        (root / "a").unlink()
        (root / "a").write_text(LONG)
    if request.param == "folder to file":
        (root / "a").rmdir()
        (root / "a").write_text("2\n")
    if edit is not None:
        edit(root)
    story.git("add", "--all")
    story.git("commit", "--quiet", "--message", "Change it")
    return story, old, story.git("rev-parse", "HEAD").strip()


def _store(story: Story) -> GitStore:
    store = GitStore(story.project / "store.git")
    store.create()
    store.git("fetch", "--quiet", str(story.upstream), "HEAD:refs/heads/all")
    return store


@pytest.mark.parametrize("made", PAYLOADS, indirect=True)
def test_a_payload_is_applied_as_git_has_it(made: tuple[Story, str, str]) -> None:
    story, old, new = made
    with _store(story) as store:
        before, after = (store.tree_of(Oid(commit)) for commit in (old, new))
        (text,) = format_patches(store, Oid(old), Oid(new))
        patch = parse_patch(PatchName("it"), text, file="it.patch")
        overlay = Overlay(store.tree(before, label="old"))
        changes = apply_patch(patch, overlay, file="it.patch")
        assert store.changed_tree(before, {change.path: change.after for change in changes})[0] == after
        assert {change.path for change in changes} == set(
            filter(None, story.git("diff", "--no-renames", "--name-only", "-z", old, new).split("\0"))
        )


@pytest.mark.parametrize("made", PAYLOADS, indirect=True)
@pytest.mark.parametrize("how", ["mail", "user's git", "no ids", "crlf headers"])
def test_a_payload_is_adopted_as_git_has_it(made: tuple[Story, str, str], how: str) -> None:
    story, old, new = made
    with _store(story) as store:
        before, after = (store.tree_of(Oid(commit)) for commit in (old, new))
        if how == "user's git":
            story.git("config", "diff.noprefix", "true")
            story.git("config", "diff.context", "9")
            (commit,) = commits(story.upstream, f"{old}..{new}")
            (section,) = read_sections(split_lines(commit_diff(story.upstream, commit)), source="it")
            files = tuple(section.files)
        else:
            (text,) = format_patches(store, Oid(old), Oid(new))
            if how == "no ids":
                if b"GIT binary patch" in text:
                    pytest.skip("a binary patch is nothing without its ids")
                text = b"".join(line for line in split_lines(text) if not line.startswith(b"index "))
            if how == "crlf headers":
                heads = (b"diff --git", b"---", b"+++", b"@@", b"index", b"Subject")
                text = b"".join(
                    line[:-1] + b"\r\n" if line.startswith(heads) else line
                    for line in split_lines(text)
                )  # fmt: skip
                if b"--- x\r\n" in text or b"--- \r\n" in text:
                    pytest.skip("its payload looks like headers")
            (offered,) = read_offered(text, source="it")
            files = offered.files
        folders = tuple(name for name, entry in store.read_tree(before).items() if entry.mode == "040000")
        overlay = Overlay(store.tree(before, label="old"))
        adopted = adopt_files(files, overlay, source="it", folders=folders)
        assert store.changed_tree(before, {c.path: c.after for c in adopted.changes})[0] == after
        if how in ("mail", "user's git"):
            assert adopted.notes == ()
            assert is_contained(files, Overlay(store.tree(after, label="new")), folders=folders)
        assert not is_contained(files, Overlay(store.tree(before, label="old")), folders=folders)


def test_a_submodule_moves(story: Story) -> None:
    (one, two) = (story.release(name, {"x": name}) for name in ("one", "two"))
    trees = []
    for target in (None, one, two, None):
        story.git("read-tree", "--empty")
        story.git("add", "x")
        if target is not None:
            story.git("update-index", "--add", "--cacheinfo", f"160000,{target},sub")
        story.git("commit", "--quiet", "--allow-empty", "--message", f"sub {target}")
        trees.append(story.git("rev-parse", "HEAD").strip())
    with _store(story) as store:
        for old, new in itertools.pairwise(trees):
            (text,) = format_patches(store, Oid(old), Oid(new))
            before, after = (store.tree_of(Oid(commit)) for commit in (old, new))
            overlay = Overlay(store.tree(before, label="old"))
            changes = apply_patch(
                parse_patch(PatchName("it"), text, file="it.patch"), overlay, file="it.patch"
            )
            assert store.changed_tree(before, {change.path: change.after for change in changes})[0] == after
            (offered,) = read_offered(text, source="it")
            adopted = adopt_files(
                offered.files, Overlay(store.tree(before, label="old")), source="it", folders=()
            )
            assert adopted.changes == changes


def test_a_copy_reads_the_file_as_it_was(story: Story) -> None:
    old = story.release("old", {"a": LONG})
    story.write({"a": LONG.replace("line 1\n", "one\n"), "b": LONG.replace("line 70\n", "seventy\n")})
    story.git("add", "--all")
    story.git("commit", "--quiet", "--message", "Copy")
    new = story.git("rev-parse", "HEAD").strip()
    text = story.git(
        "format-patch",
        "--keep-subject",
        "--zero-commit",
        "--no-signature",
        "--no-stat",
        "--full-index",
        "-C",
        "-C",
        "--stdout",
        "-1",
    ).encode()
    assert b"copy from a" in text
    with _store(story) as store:
        before, after = (store.tree_of(Oid(commit)) for commit in (old, new))
        patch = parse_patch(PatchName("it"), text, file="it.patch")
        changes = apply_patch(patch, Overlay(store.tree(before, label="old")), file="it.patch")
        assert store.changed_tree(before, {change.path: change.after for change in changes})[0] == after
        (offered,) = read_offered(text, source="it")
        adopted = adopt_files(
            offered.files, Overlay(store.tree(before, label="old")), source="it", folders=()
        )
        assert set(adopted.changes) == set(changes)


SUBJECTS = (
    "[Bugfix][V1] Fix KV cache [ROCm] (#12345)",
    "A subject that goes on for so long that git has to fold it somewhere, and then goes on for quite a while more",
    "Ünïcode subject that goes on for so long that git has to fold its encoded words, and thén goes on for môre",
    "日本語の件名はとても長いのでエンコードされた語をいくつにも分けなければならないかもしれません、たぶんきっと",
    "has =?UTF-8?q?an_encoded_word?= in it",
    "=?",
    "what? =really?",
    "🚀 emoji",
)
AUTHORS = (
    ("José \"Q\" O'N", "jose@example.org"),
    ('"Quoted"', "q@example.org"),
    ('"Ümlaut"', "u@example.org"),
    ("A. B. Smith, Jr.", "a.b+c@example.org"),
    ("back\\slash (comment)", "b@example.org"),
    ("李 雷", "li@example.org"),
    ("A name that is so long that git has to fold the header of it somewhere in its midst", "n@example.org"),
)  # fmt: skip
DATES = ("4102444800 +0000", "86400 -0930", "1750000000 +1345", "253370764800 +0100")


def _commit_of(store: GitStore, person: Person, message: str) -> tuple[Oid, Oid]:
    """A commit made byte for byte, past what `git commit` cleans."""
    blob = new_object("blob", b"x\n")
    root, trees = store.changed_tree(
        Oid("4b825dc642cb6eb9a060e54bf8d69288fbee4904"), {"x": _file_entry(blob.oid)}
    )
    empty = new_object("tree", b"")
    base = new_object(
        "commit", encode_commit(tree=empty.oid, parents=(), author=person, committer=person, message="base\n")
    )
    top = new_object(
        "commit",
        encode_commit(tree=root, parents=(base.oid,), author=person, committer=person, message=message),
    )
    store.quarantine([blob, *trees, empty, base, top])
    return base.oid, top.oid


def _file_entry(oid: Oid):  # type: ignore[no-untyped-def]
    from forktool.core.objects import Entry, Mode

    return Entry(Mode.FILE, oid)


@pytest.mark.parametrize(
    ("subject", "author"), [*zip(SUBJECTS, [*AUTHORS, AUTHORS[0]], strict=True)], ids=range(8)
)
def test_headers_come_back_as_they_were(tmp_path: Path, subject: str, author: tuple[str, str]) -> None:
    with GitStore(tmp_path / "store.git") as store:
        store.create()
        for date in DATES:
            person = Person(name=author[0], email=author[1], when=date)
            message = f"{subject}\n\nBody — with a dash.\n\n  indented\n"
            (text,) = format_patches(store, *_commit_of(store, person, message))
            mail = parse_mail(text, name="it")
            assert (mail.message, mail.author) == (message, person)
            (offered,) = read_offered(text, source="it")
            assert offered.message == message
            assert offered.author == author
            assert offered.when == date


_TRAPS = (
    "", "text", "---", "--- ", "--- a/x", "---\t", "----", " ---", "-- ", "--", "diff -u",
    "diff --git a/x b/x", "diff", " diff --git a/x b/x", "Index: x", "Index:", "From: A <a@b>",
    "from: a <a@b>", "From:x", "Subject: x", "subject: y", "Date: Thu, 1 Jan 1970 00:00:00 +0000",
    ">From x", "From here", f"From {'0' * 40} Mon Sep 17 00:00:00 2001",
    f">From {'0' * 40} Mon Sep 17 00:00:00 2001", "[PATCH] x", "[PATCH]", "Key: value", "@@ -1 +1 @@",
    "+++ b/x", "*** x", "Content-Type: text/html", "X-Header: y", "\tFrom: A <a@b>", "-----", "-- >8 --",
    "- item", "+ item", "From a@b Mon Jan 1 10:00:00 2024",
)  # fmt: skip
_LINES = st.lists(
    st.one_of(st.sampled_from(_TRAPS), st.text(alphabet="abFS-: <>@[]\té", max_size=12)), max_size=6
)


@settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    derandomize=True,
)
@given(body=_LINES)
def test_a_message_that_passes_the_lint_is_left_alone_by_git(tmp_path: Path, body: list[str]) -> None:
    body = [line.rstrip() if line.strip() == "" else line.rstrip(" \t") for line in body]
    text = "\n".join(body).strip("\n")
    message = f"Subject\n\n{text}\n" if text.strip() else "Subject\n"
    if list(unsafe_lines(message)):
        return
    person = Person(name="Ann", email="ann@example.org", when="1750000000 +0000")
    store = GitStore(tmp_path / "store.git")
    store.create()
    with store:
        (patch,) = format_patches(store, *_commit_of(store, person, message))
    done = subprocess.run(
        ["git", "-c", "mailinfo.scissors=true", "mailinfo", "-b", "--encoding=UTF-8", "msg", "diff"],
        input=patch,
        capture_output=True,
        check=True,
        env={**os.environ, "LC_ALL": "C"},
        cwd=tmp_path,
    )  # fmt: skip
    mail = parse_mail(patch, name="it")
    assert mail.message == message
    assert (tmp_path / "diff").read_bytes().lstrip(b"\n") == mail.diff
    assert (tmp_path / "msg").read_text().strip("\n") == message.partition("\n")[2].strip("\n")
    assert b"Author: Ann\nEmail: ann@example.org\nSubject: Subject\n" in done.stdout
    (offered,) = read_offered(patch, source="it")
    assert offered.message == message


_WORDS = st.lists(st.sampled_from(("a\n", "b\n", "\n", "c  \n", "\td\n", "e\r\n")), max_size=14)


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    derandomize=True,
)
@given(before=_WORDS, after=_WORDS, tails=st.tuples(st.booleans(), st.booleans()))
def test_any_diff_of_git_is_applied(
    tmp_path: Path, before: list[str], after: list[str], tails: tuple[bool, bool]
) -> None:
    texts = [
        "".join(lines) + ("end" if tail else "") for lines, tail in zip((before, after), tails, strict=True)
    ]
    old, new = (text.encode() for text in texts)
    (tmp_path / "old").write_bytes(old)
    (tmp_path / "new").write_bytes(new)
    done = subprocess.run(
        ["git", "diff", "--no-index", "--full-index", "--", "old", "new"],
        cwd=tmp_path,
        capture_output=True,
        check=False,
    )
    if old == new:
        return
    diff = done.stdout.replace(b"/old", b"/f").replace(b"/new", b"/f")
    with GitStore(tmp_path / "store.git") as store:
        store.create()
        blob = new_object("blob", old)
        root, trees = store.changed_tree(
            Oid("4b825dc642cb6eb9a060e54bf8d69288fbee4904"), {"f": _file_entry(blob.oid)}
        )
        store.quarantine([blob, *trees])
        tree = Overlay(store.tree(root, label="old"))
        (section,) = read_sections(split_lines(diff), source="it")
        adopt_files(section.files, tree, source="it", folders=())
        assert tree.read("f") == new
