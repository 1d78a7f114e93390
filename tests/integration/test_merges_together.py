"""Merges made together, ahead, or on a part of the trees are what git makes of each by itself, on the whole trees."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from forktool.adapters.git_merge import Merge, contents_to_write, merge_contents, merge_entries
from forktool.adapters.git_store import GitStore, GitTree
from forktool.adapters.known_merges import KnownMerges
from forktool.adapters.moved_files import MovedFiles
from forktool.core.objects import EMPTY_TREE, Entry, Mode, new_object
from forktool.core.tree import Overlay

LABELS = ("v1", "v2", "edit")
Files = dict[str, str]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[GitStore]:
    made = GitStore(tmp_path / "store.git")
    made.create()
    with made:
        yield made


def stored(store: GitStore, files: Files, label: str) -> GitTree:
    blobs = {path: new_object("blob", text.encode()) for path, text in files.items()}
    root, trees = store.changed_tree(
        EMPTY_TREE, {path: Entry(Mode.FILE, blob.oid) for path, blob in blobs.items()}
    )
    store.quarantine([*blobs.values(), *trees])
    return store.tree(root, label=label)


def write(tree: Overlay, path: str, text: str | None) -> None:
    if text is None:
        tree.set(path, None)
        return
    blob = new_object("blob", text.encode())
    tree.set(path, Entry(Mode.FILE, blob.oid), blob.body)


def whole(store: GitStore, sides: tuple[Overlay, Overlay, Overlay], paths: set[str]) -> Merge:
    """The merge of all there is."""
    files = {
        path: (sides[0].entry(path), sides[1].entry(path), sides[2].entry(path)) for path in sorted(paths)
    }
    return merge_entries(store, files, contents_to_write(sides, paths), labels=LABELS)


# Files of one folder look alike to some degree, so that git has a choice which one moved where.
FOLDERS = ("a", "a/in", "b", "c/deep/er")
NAMES = tuple(f"{folder}/{name}.py" for folder in FOLDERS for name in "xyz")
TEXTS = {
    path: "".join(f"{path if line % 3 else path[0]} line {line}\n" for line in range(9)) for path in NAMES
}
PATH = st.sampled_from(NAMES)
UPSTREAM = st.one_of(
    st.tuples(st.just("edit"), PATH, PATH),
    st.tuples(st.just("remove"), PATH, PATH),
    st.tuples(st.just("move"), PATH, st.sampled_from(["a/new.py", "d/x.py", "d/y.py", "b/in/z.py", "e.py"])),
    st.tuples(st.just("move folder"), st.sampled_from(FOLDERS), st.sampled_from(["d", "b/moved", "a/in/er"])),
)
EDIT = st.one_of(
    st.tuples(st.just("edit"), PATH),
    st.tuples(st.just("remove"), PATH),
    st.tuples(st.just("add"), st.sampled_from(["a/added.py", "b/added.py", "c/deep/er/added.py", "d/added.py"])),
)  # fmt: skip


def moved_upstream(steps: list[tuple[str, str, str]]) -> Files:
    files = dict(TEXTS)
    for kind, what, where in steps:
        if kind == "move folder":
            for path in [path for path in files if path.startswith(f"{what}/")]:
                files[f"{where}/{path.rpartition('/')[2]}"] = files.pop(path)
        elif what not in files:
            continue
        elif kind == "edit":
            files[what] = files[what].replace("line 7", "upstream's line 7")
        else:
            text = files.pop(what)
            if kind == "move":
                files[where] = text
    return {
        path: text for path, text in files.items() if not any(other.startswith(f"{path}/") for other in files)
    }


def edit(tree: Overlay, steps: list[tuple[str, str]], line: int) -> list[str]:
    """Make some changes; the paths that they are to."""
    for kind, path in steps:
        text = tree.read(path)
        if kind == "add":
            write(tree, path, f"added {line}\n")
        elif text is not None:
            changed = text.decode().replace(f"line {line}", f"the patch's line {line}")
            write(tree, path, None if kind == "remove" else changed)
    return [path for _kind, path in steps]


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    upstream=st.lists(UPSTREAM, min_size=1, max_size=5),
    earlier=st.lists(EDIT, max_size=3),
    patch=st.lists(EDIT, min_size=1, max_size=3),
)
@example(upstream=[("move folder", "a", "d")], earlier=[("add", "b/added.py")], patch=[("add", "a/added.py")])
@example(upstream=[("move", "a/x.py", "d/x.py")], earlier=[("edit", "a/x.py")], patch=[("edit", "a/x.py")])
@example(upstream=[("remove", "b/y.py", "")], earlier=[], patch=[("edit", "b/y.py"), ("add", "b/added.py")])
def test_only_what_came_and_went_decides_where_files_moved(
    store: GitStore, upstream: list[tuple[str, str, str]], earlier: list[tuple[str, str]],
    patch: list[tuple[str, str]],
) -> None:  # fmt: skip
    moved = moved_upstream(upstream)
    root, onto = stored(store, TEXTS, "v1"), stored(store, moved, "v2")
    base, ours, theirs = Overlay(root), Overlay(onto), Overlay(root)
    # An earlier patch that was carried where its files still are, and left out where they are not.
    before = edit(base, earlier, 2)
    edit(theirs, earlier, 2)
    edit(ours, [(kind, path) for kind, path in earlier if onto.entry(path) is not None], 2)
    touched = edit(theirs, patch, 4)
    one_sided = [path for path in before if (base.entry(path) is None) is not (ours.entry(path) is None)]

    sides = (base, ours, theirs)
    expected = whole(store, sides, {*TEXTS, *moved, *before, *touched})
    found = MovedFiles(store, root, onto).merge(
        [*touched, *one_sided], base=base, ours=ours, theirs=theirs, labels=LABELS
    )

    assert found == expected


LINE = st.sampled_from(["", "a", "b", "    return None", "x = 1", "y = 2", "é", "z = 3"])
TEXT = st.lists(LINE, max_size=12).map("\n".join)


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(versions=st.lists(st.tuples(TEXT, TEXT, TEXT), min_size=1, max_size=6))
@example(versions=[("a\nb\n", "a\nx = 1\n", "a\ny = 2\n"), ("\0a", "\0b", "\0c")])
def test_merges_of_many_files_together(store: GitStore, versions: list[tuple[str, str, str]]) -> None:
    paths = [f"folder/file-{at}.py" for at in range(len(versions))]
    trees = [
        stored(store, {path: texts[side] for path, texts in zip(paths, versions, strict=True)}, f"v{side}")
        for side in range(3)
    ]
    known = KnownMerges(store)

    for chosen in ([paths[0]], paths, list(reversed(paths))):
        sides = {"base": trees[0], "ours": trees[1], "theirs": trees[2]}
        alone = merge_contents(store, chosen, **sides, labels=LABELS)
        together = known.merge(chosen, **sides, labels=LABELS)
        assert together is not None
        assert (together.changes, together.contents) == (alone.changes, alone.contents)
        assert together.conflicts == alone.conflicts
        assert sorted(together.messages) == sorted(alone.messages)


def test_a_file_that_is_missing_on_a_side_is_not_merged_by_its_contents(store: GitStore) -> None:
    with_it, without = stored(store, {"x.py": "x\n"}, "v1"), store.tree(EMPTY_TREE, label="v2")

    assert (
        KnownMerges(store).merge(["x.py"], base=with_it, ours=without, theirs=with_it, labels=LABELS) is None
    )


def test_a_link_is_not_merged_by_its_contents(store: GitStore) -> None:
    tree, link = stored(store, {"x.py": "x\n"}, "v1"), Overlay(stored(store, {}, "v2"))
    target = new_object("blob", b"y.py")
    link.set("x.py", Entry(Mode.SYMLINK, target.oid), target.body)

    assert KnownMerges(store).merge(["x.py"], base=tree, ours=link, theirs=tree, labels=LABELS) is None
