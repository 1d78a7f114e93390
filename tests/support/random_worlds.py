"""Random upstreams and random series on them, made with plain git alone.

A world is a base tree, patches on it, and upstream's commits after it with one to three tags. Upstream may absorb
patches, whole, in part or in its own words, and take back what it did. `write` makes it a repository.
"""

from __future__ import annotations

import difflib
import os
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from tests.support.random_edits import Author, Edit, edited, edits, split

Node = tuple[str, bytes]
"""Mode and content (a link's target)."""
Tree = dict[bytes, Node]

FILE, EXECUTABLE, LINK = "100644", "100755", "120000"
PYTHON = (b"pkg/core/a.py", b"pkg/b.py", b"top.py", b"pkg/core/deep/er/c.py")
TEXT = (
    b"notes.txt", b"pkg/core/data.yaml", b"caf\xe9.txt", b"na me \xc3\xa9/x b/y.txt", b'quote" and \\ back.cfg',
    b"pkg/a.py.txt", b"-dash", b"b/b/b", b"tab\there.txt",
)  # fmt: skip
NEW = (
    b"pkg/new.py", b"pkg/core/new.txt", b"new folder/\xe6\x96\x87.py", b"pkg/core/deep/z.py", b"new\xff.txt",
    b"top.txt", b"pkg/b/inner.py", b"deep/er/est/x.py", b" b/ leading",
)  # fmt: skip
SUBJECTS = (
    "Change what {0} does", "[Bugfix][V1] Fix {0} [ROCm] (#1{0})", "Ändere {0} é", "[Patches] really {0}", "fix: {0}",
    "A subject of {0} that is so long that git folds it over two lines of the header of its mail, as it does (#9{0})",
    "{0}", "{0} = ?utf-8?q?no?=", "Use {0}.", 'Say "{0}" <at> {0}',
)  # fmt: skip
BODIES = (
    "", "Reason: a test", "Some prose\nover two lines.\n\nReason: a test\nSigned-off-by: A B <a@example.org>",
    "From here on we say more.\n\n    indented\n\n- a list\n- of things", "Ünïcödé\n\nOrigin: elsewhere",
    "> quoted\n\n#comment that stays\n\nBug: https://example.org/1",
)  # fmt: skip
AUTHORS = (
    ("A Maintainer", "maintainer@example.org"), ('José "Q" O\'N', "jose@example.org"), ("X., Y", "x@example.org"),
    ("李 明", "li@example.org"),
)  # fmt: skip
EPOCH = 1_750_000_000

Act = tuple[str, int, int, tuple[Edit, ...]]
"""What a commit does to one file: its kind, which file, which form, and edits."""


@dataclass(frozen=True, slots=True)
class Commit:
    """A state of the tree with the message that made it."""

    tree: Tree
    message: str
    author: tuple[str, str] = AUTHORS[0]


@dataclass(slots=True)
class World:
    """A base, the trees after each patch, and upstream's commits, with a tag after some of them."""

    base: Tree
    patches: list[Commit]
    upstream: list[Commit]
    tags: list[int]
    """After how many of upstream's commits each tag stands; v1.1 is the first of them."""
    taken: list[set[int]] = field(default_factory=list)
    """Of which patches each of upstream's commits holds something."""

    def __repr__(self) -> str:
        """What a person needs to see the world: each commit as what it changes."""
        lines = [f"base {_changes({}, self.base)}"]
        trees = [self.base, *(commit.tree for commit in self.patches)]
        lines += [
            f"{name} {_changes(before, after)}"
            for name, before, after in zip(self.names, trees, trees[1:], strict=False)
        ]
        trees = [self.base, *(commit.tree for commit in self.upstream)]
        lines += [
            f"upstream {taken or ''} {commit.message!r} {_changes(before, commit.tree)}"
            for before, commit, taken in zip(trees, self.upstream, self.taken, strict=False)
        ]
        return "\n".join([*lines, f"tags {self.tags}"])[:12000]

    def _repr_pretty_(self, printer: Any, _cycle: bool) -> None:
        printer.text(repr(self))

    @property
    def tag_names(self) -> list[str]:
        """The tags after the base."""
        return [f"v1.{number}" for number in range(1, len(self.tags) + 1)]

    @property
    def names(self) -> list[str]:
        """The patches."""
        return [f"p{number}" for number in range(1, len(self.patches) + 1)]

    def has_of(self, tag: str) -> set[int]:
        """The indices of patches of which a commit up to the tag took anything."""
        count = self.tags[self.tag_names.index(tag)]
        return set().union(*self.taken[:count])

    def at(self, tag: str) -> Tree:
        """The tree of a tag."""
        count = self.tags[self.tag_names.index(tag)]
        return self.upstream[count - 1].tree if count else self.base

    def before(self, patch: int) -> Tree:
        """The tree that a patch was made on."""
        return self.patches[patch - 1].tree if patch else self.base


def _changes(before: Tree, after: Tree) -> str:
    """Each path that differs, whole where it is new, else as a diff."""
    words: list[str] = []
    for path in sorted(before.keys() | after.keys()):
        old, new = before.get(path), after.get(path)
        if old == new:
            continue
        if old is None or new is None or b"\0" in new[1]:
            words.append(f"{path!r}: {new!r}"[:2000])
            continue
        diff = difflib.diff_bytes(difflib.unified_diff, split(old[1]), split(new[1]), n=3)
        words.append(f"{path!r}: {old[0]} {new[0]} {b''.join(diff)!r}")
    return "\n  ".join(["", *words])


def _acts(kinds: tuple[str, ...]) -> st.SearchStrategy[Act]:
    return st.tuples(
        st.sampled_from(kinds),
        st.integers(0, 11),
        st.integers(0, 8),
        st.lists(edits, min_size=1, max_size=3).map(tuple),
    )


_PATCH_ACTS = _acts(
    ("edit",) * 20 + ("create", "create", "remove", "rename", "rename", "rename", "mode", "link", "copy")
)
_UPSTREAM_ACTS = _acts(
    ("edit",) * 9 + ("create", "remove", "rename", "rename-folder", "mode", "absorb", "absorb", "absorb-part")
    + ("absorb-reworded", "revert", "split", "claim")
)  # fmt: skip


@st.composite
def worlds(draw: st.DrawFn, *, patches: int = 6, commits: int = 3) -> World:
    """A world; small numbers make small ones."""
    base = _base(draw)
    author = Author("p")
    made: list[Commit] = []
    tree = base
    for number in range(draw(st.integers(1, patches))):
        after = tree
        for act in draw(st.lists(_PATCH_ACTS, min_size=1, max_size=3)):
            after = _done(after, act, author)
        if after == tree:
            continue
        subject = draw(st.sampled_from(SUBJECTS)).format(f"n{number}")
        body = draw(st.sampled_from(BODIES))
        message = f"{subject}\n\n{body}\n" if body else f"{subject}\n"
        made.append(Commit(after, message, draw(st.sampled_from(AUTHORS))))
        tree = after
    world = World(base, made, [], [])
    _write_upstream(draw, world, commits)
    return world


_INSERTIONS = ("insert", "define", "import", "item")


@st.composite
def absorbed_worlds(draw: st.DrawFn) -> World:
    """A world whose upstream took its first patch, whole and as it is, and otherwise only wrote new lines elsewhere."""
    world = draw(worlds(patches=3, commits=0))
    if not world.patches:
        return world
    first = world.patches[0]
    touched = {
        path for path in world.base.keys() | first.tree.keys() if world.base.get(path) != first.tree.get(path)
    }
    author = Author("u")
    before = draw(st.lists(edits, max_size=2))
    after = draw(st.lists(edits, max_size=3))
    tree = _unrelated(world.base, before, touched, author)
    commits = [Commit(tree, "Upstream before")]
    tree = {path: node for path, node in tree.items() if path not in touched} | {
        path: first.tree[path] for path in touched if path in first.tree
    }
    message = first.message if draw(st.booleans()) else "Upstream's own words"
    commits.append(Commit(tree, message))
    tree = _unrelated(tree, after, touched if draw(st.booleans()) else set(), author)
    commits.append(Commit(tree, "Upstream after"))
    return World(world.base, world.patches, commits, [len(commits)], [set(), {0}, set()])


def _unrelated(tree: Tree, changes: list[Edit], without: set[bytes], author: Author) -> Tree:
    """New lines in files, or in new files, that a patch does not touch."""
    after = dict(tree)
    for kind, place, size, form in changes:
        paths = [path for path in sorted(after) if path not in without and after[path][0] != LINK
                 and b"\0" not in after[path][1]]  # fmt: skip
        path = paths[place % len(paths)]
        edit = (_INSERTIONS[form % 4] if kind not in _INSERTIONS else kind, place, size, form)
        after[path] = (after[path][0], edited(after[path][1], edit, author))
    return after


def _base(draw: st.DrawFn) -> Tree:
    author = Author("b")
    tree: Tree = {b"never.txt": (FILE, b"touched\n")}
    blocks = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5)), min_size=2, max_size=8)
    for path in draw(st.lists(st.sampled_from(PYTHON), min_size=1, max_size=3, unique=True)):
        tree[path] = (FILE, b"".join(line + b"\n" for line in author.python(draw(blocks))))
    for path in draw(st.lists(st.sampled_from(TEXT), max_size=3, unique=True)):
        lines = author.prose(draw(st.lists(st.integers(0, 11), min_size=6, max_size=30)))
        form = draw(st.integers(0, 5))
        if form == 1:
            lines = [line + b"\r" for line in lines]
        elif form == 2:
            lines = [line + b" \xfc\xdf" for line in lines]
        elif form == 3:
            lines = [line + b"\x0c\r." for line in lines]
        content = b"".join(line + b"\n" for line in lines)
        tree[path] = (EXECUTABLE if form == 4 else FILE, content[:-1] if form == 5 else content)
    if draw(st.booleans()):
        tree[b"pkg/link"] = (LINK, b"b.py")
    if draw(st.booleans()):
        tree[b"pkg/bytes.bin"] = (FILE, bytes(range(64)) * 9)
    return tree


def _write_upstream(draw: st.DrawFn, world: World, commits: int) -> None:
    author = Author("u")
    tree, previous = world.base, [world.base]
    for _ in range(draw(st.integers(1, 3))):
        for number in range(draw(st.integers(0, commits))):
            after, taken, subject = tree, set[int](), f"Upstream {len(world.upstream)} {number}"
            for act in draw(st.lists(_UPSTREAM_ACTS, min_size=1, max_size=2)):
                kind, which, form, _edits = act
                if kind.startswith("absorb"):
                    if world.patches:
                        patch = which % len(world.patches)
                        after, done = _absorbed(world, patch, after, kind, form, author)
                        if done:
                            taken.add(patch)
                            subject = (
                                world.patches[patch].message if form % 2 else f"{subject}\n\nAs proposed."
                            )
                elif kind == "claim" and world.patches:
                    subject = world.patches[which % len(world.patches)].message
                elif kind == "revert":
                    after = _reverted(after, previous, which)
                    subject = f'Revert "{subject}"'
                else:
                    after = _done(after, act, author)
            world.upstream.append(Commit(after, subject))
            world.taken.append(taken)
            previous.append(after)
            tree = after
        world.tags.append(len(world.upstream))


def _done(tree: Tree, act: Act, author: Author) -> Tree:
    """The tree after one act; the same where it finds nothing to do."""
    kind, which, form, changes = act
    after = dict(tree)
    paths = sorted(path for path in tree if path != b"never.txt")
    if kind == "create" or not paths:
        _put(after, NEW[which % len(NEW)], _new_file(NEW[which % len(NEW)], form, author))
        return after
    path = paths[which % len(paths)]
    mode, content = tree[path]
    if kind == "edit":
        if mode == LINK:
            after[path] = (LINK, author.word())
        elif b"\0" in content:
            at = form * 50 + 1
            after[path] = (mode, content[:at] + author.word() + content[at:])
        else:
            for edit in changes:
                content = edited(content, edit, author)
            after[path] = (mode, content)
    elif kind == "remove":
        del after[path]
    elif kind in ("rename", "copy", "split"):
        target = NEW[form % len(NEW)]
        if _is_free(after, target, without=path):
            if kind == "rename":
                del after[path]
                for edit in changes[: form % 3]:
                    content = (
                        edited(content, edit, author) if mode != LINK and b"\0" not in content else content
                    )
            elif kind == "split" and mode != LINK:
                lines = split(content)
                half = len(lines) // 2
                after[path] = (mode, b"".join(lines[:half]))
                content = b"".join(lines[half:])
            after[target] = (mode, content)
    elif kind == "rename-folder":
        folder = path.rpartition(b"/")[0]
        if folder:
            for old in [old for old in tree if old.startswith(folder + b"/")]:
                target = b"moved/" + old[len(folder) + 1 :]
                if _is_free(after, target, without=old):
                    after[target] = after.pop(old)
    elif kind == "mode" and mode != LINK:
        after[path] = (EXECUTABLE if mode == FILE else FILE, content)
    elif kind == "link":
        after[path] = (LINK, b"../" + author.word()) if mode != LINK else (FILE, author.line(0) + b"\n")
    return after


def _new_file(path: bytes, form: int, author: Author) -> Node:
    if form == 0:
        return FILE, b""
    if form == 1:
        return FILE, author.line(0)
    lines = author.python([(form % 4, form)]) if path.endswith(b".py") else author.prose([3, 0, form, 4])
    return EXECUTABLE if form == 7 else FILE, b"".join(line + b"\n" for line in lines)


def _put(tree: Tree, path: bytes, node: Node) -> None:
    if _is_free(tree, path):
        tree[path] = node


def _is_free(tree: Tree, path: bytes, *, without: bytes = b"") -> bool:
    """Whether a file can be there: neither a file, nor a folder, nor below a file."""
    parts = path.split(b"/")
    above = {b"/".join(parts[:depth]) for depth in range(1, len(parts) + 1)}
    return not any(
        other in above or other.startswith(path + b"/") for other in tree if other != without
    ) and not (without and (without in above or without.startswith(path + b"/")))


def _reverted(tree: Tree, previous: list[Tree], which: int) -> Tree:
    """What one of upstream's commits did to whole files, taken back where nobody touched them since."""
    if len(previous) < 2:
        return tree
    at = 1 + which % (len(previous) - 1)
    older, newer = previous[at - 1], previous[at]
    after = dict(tree)
    for path in older.keys() | newer.keys():
        if older.get(path) == newer.get(path) or after.get(path) != newer.get(path):
            continue
        after.pop(path, None)
        if path in older and _is_free(after, path):
            after[path] = older[path]
    return after


def _absorbed(
    world: World, patch: int, tree: Tree, kind: str, form: int, author: Author
) -> tuple[Tree, bool]:
    """Upstream's tree with a patch taken in, as far as its old lines are found there."""
    before, after = world.before(patch), world.patches[patch].tree
    result = dict(tree)
    paths = sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path))
    if kind == "absorb-part":
        paths = paths[: 1 + form % max(1, len(paths))]
    for path in paths:
        old, new, there = before.get(path), after.get(path), tree.get(path)
        if there == old:
            result.pop(path, None)
            if new is not None and _is_free(result, path):
                result[path] = new
        elif old is not None and new is not None and there is not None and LINK not in (new[0], there[0]):
            result[path] = (new[0], patched(old[1], new[1], there[1], some=kind == "absorb-part"))
    if kind == "absorb-reworded":
        for path in paths:
            if path in result and result[path][0] != LINK and b"\0" not in result[path][1]:
                content = result[path][1]
                for edit in (("rename", form, 0, 0), ("space", form * 3, 2, 0)):
                    content = edited(content, edit, author)
                result[path] = (result[path][0], content)
    return result, result != tree


def patched(old: bytes, new: bytes, there: bytes, *, some: bool) -> bytes:
    """`there` with the changes from `old` to `new` whose old lines, with a line around them, are there just once."""
    before, after = split(old), split(new)
    lines = split(there)
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    for tag, i, j, k, m in reversed(matcher.get_opcodes()):
        if tag == "equal":
            continue
        low, high = max(0, i - 1), min(len(before), j + 1)
        wanted = before[low:high]
        places = [n for n in range(len(lines) - len(wanted) + 1) if lines[n : n + len(wanted)] == wanted]
        if len(places) == 1:
            at = places[0]
            lines[at : at + len(wanted)] = [*before[low:i], *after[k:m], *before[j:high]]
            if some:
                break
    return b"".join(lines)


# Writing a world down.


def git(folder: Path, *args: str, stdin: bytes = b"", check: bool = True) -> bytes:
    """Run plain git as an ordinary user would, with a fixed identity."""
    who = {f"GIT_{role}_{key}": value for role in ("AUTHOR", "COMMITTER")
           for key, value in (("NAME", "A"), ("EMAIL", "a@example.org"), ("DATE", "1750000000 +0000"))}  # fmt: skip
    done = subprocess.run(
        ["git", *args], cwd=folder, env={**os.environ, **who}, input=stdin, capture_output=True, check=False
    )
    assert done.returncode == 0 or not check, (args, done.stderr.decode("utf-8", "replace"))
    return done.stdout


def write(world: World, path: Path, *, with_patches: bool) -> None:
    """Make a repository of a world: `main` with the tags, and the patches on `refs/heads/patches`."""
    path.mkdir()
    git(path, "init", "--quiet", "--bare", "--initial-branch=main")
    git(path, "config", "uploadpack.allowFilter", "true")
    git(path, "config", "uploadpack.allowAnySHA1InWant", "true")
    stream: list[bytes] = []
    clock = EPOCH
    stream += _commit("refs/heads/main", Commit(world.base, "Base\n"), {}, clock)
    stream += [b"reset refs/tags/v1.0\nfrom refs/heads/main\n\n"]
    if with_patches:
        stream += [b"reset refs/heads/patches\nfrom refs/heads/main\n\n"]
        tree = world.base
        for number, commit in enumerate(world.patches):
            stream += _commit("refs/heads/patches", commit, tree, clock + 1000 + number)
            tree = commit.tree
    tree = world.base
    for number in range(len(world.upstream) + 1):
        for tag, count in zip(world.tag_names, world.tags, strict=True):
            if count == number:
                stream += [b"reset refs/tags/%s\nfrom refs/heads/main\n\n" % tag.encode()]
        if number < len(world.upstream):
            stream += _commit("refs/heads/main", world.upstream[number], tree, clock + 5000 + number)
            tree = world.upstream[number].tree
    git(path, "fast-import", "--quiet", "--force", stdin=b"".join(stream))


def _commit(ref: str, commit: Commit, before: Mapping[bytes, Node], when: int) -> Iterable[bytes]:
    name, address = commit.author
    message = commit.message.encode()
    yield b"commit %s\n" % ref.encode()
    yield f"author {name} <{address}> {when} +0130\n".encode()
    yield f"committer A <a@example.org> {when} +0000\n".encode()
    yield b"data %d\n%s\n" % (len(message), message)
    for path in before.keys() - commit.tree.keys():
        yield b"D %s\n" % _quoted(path)
    for path in sorted(commit.tree):
        if before.get(path) != commit.tree[path]:
            mode, content = commit.tree[path]
            yield b"M %s inline %s\ndata %d\n%s\n" % (mode.encode(), _quoted(path), len(content), content)
    yield b"\n"


def _quoted(path: bytes) -> bytes:
    special = {0x22: b'\\"', 0x5C: b"\\\\", 0x0A: b"\\n"}
    return b'"' + b"".join(special.get(byte, bytes([byte])) for byte in path) + b'"'


_FORMAT = (
    "format-patch", "--keep-subject", "--full-index", "--binary", "--zero-commit", "--no-signature", "--no-stat",
    "--no-numbered", "--quiet",
)  # fmt: skip


def patch_files(repository: Path, folder: Path) -> list[bytes]:
    """The patches of a repository that `write` made, as `git format-patch` writes them."""
    folder.mkdir()
    git(repository, *_FORMAT, "--output-directory", str(folder), "refs/tags/v1.0..refs/heads/patches")
    return [file.read_bytes() for file in sorted(folder.iterdir())]
