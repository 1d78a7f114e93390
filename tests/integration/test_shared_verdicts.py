"""A verdict does not depend on which other trees are asked about, though trees share what is the same on them."""

from __future__ import annotations

from pathlib import Path

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from forktool.adapters.git_format import diff_text
from forktool.adapters.git_store import GitStore, GitTree
from forktool.adapters.patchset_files import Patchset
from forktool.adapters.probes import Probes
from forktool.adapters.state import State
from forktool.commands.replaying import Replayed, Replayer
from forktool.core.config import parse_config
from forktool.core.objects import EMPTY_TREE, Entry, Mode, new_object
from forktool.core.series import Base, Patch, PatchName, Series, parse_patch

CONFIG = '[upstream]\nrepository = "/nowhere"\n[base]\ntag = "v1"\n'
PATHS = ("a.py", "folder/b.py", "folder/c.txt")
BASE = dict.fromkeys(
    PATHS, "def one():\n    return 1\n\n\ndef two():\n    return 2\n\n\nNAMES = [\n    'x',\n    'y',\n]\n"
)
EDIT = st.tuples(
    st.sampled_from(PATHS),
    st.sampled_from([
        ("return 1", "return 1 + 0"), ("return 1", "return one() + 1"), ("return 2", "return 2 + 0"),
        ("def two", "def added():\n    return 0\n\n\ndef two"), ("    'y',\n", "    'y',\n    'z',\n"),
        ("    'y',\n", "    'y',\n    'w',\n"), ("def one():\n    return 1\n\n\n", ""), ("", None),
    ]),
)  # fmt: skip
EDITS = st.lists(EDIT, min_size=1, max_size=3)


def edited(files: dict[str, str], edits: list[tuple[str, tuple[str, str | None]]]) -> dict[str, str]:
    result = dict(files)
    for path, (old, new) in edits:
        if path not in result:
            continue
        if new is None:
            del result[path]
        else:
            result[path] = result[path].replace(old, new)
    return result


def stored(store: GitStore, files: dict[str, str], label: str) -> GitTree:
    blobs = {path: new_object("blob", text.encode()) for path, text in files.items()}
    root, trees = store.changed_tree(
        EMPTY_TREE, {path: Entry(Mode.FILE, blob.oid) for path, blob in blobs.items()}
    )
    store.quarantine([*blobs.values(), *trees])
    return store.tree(root, label=label)


def patch(store: GitStore, number: int, old: GitTree, new: GitTree) -> Patch:
    head = (
        f"From {'0' * 40} Mon Sep 17 00:00:00 2001\nFrom: A <a@example.org>\n"
        f"Date: Thu, 1 Jan 2026 00:00:00 +0000\nSubject: Edit {number}\n\n"
    )
    name = PatchName(f"edit-{number}")
    return parse_patch(name, head.encode() + diff_text(store, old.root, new.root), file=f"{name}.patch")


def seen(replayed: Replayed) -> object:
    """All of a replay that anyone is shown or that is written."""
    stop = replayed.stop
    return (
        [(step.outcome, step.facts, dict(step.changes), step.review) for step in replayed.steps],
        dict(replayed.result.changes),
        None if stop is None else (stop.patch.name, dict(stop.stages), dict(stop.texts), stop.messages),
    )


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(series=st.lists(EDITS, min_size=1, max_size=4), releases=st.lists(EDITS, min_size=2, max_size=4))
@example(
    series=[[("a.py", ("return 1", "return 1 + 0"))], [("a.py", ("    'y',\n", "    'y',\n    'z',\n"))]],
    releases=[
        [("a.py", ("    'y',\n", "    'y',\n    'w',\n"))],
        [("folder/b.py", ("return 2", "return 2 + 0"))],
        [("a.py", ("return 1", "return one() + 1"))],
    ],
)
def test_each_tree_by_itself_and_all_together(
    tmp_path: Path,
    series: list[list[tuple[str, tuple[str, str | None]]]],
    releases: list[list[tuple[str, tuple[str, str | None]]]],
) -> None:
    store = GitStore(tmp_path / "store.git")
    store.create()
    with store:
        base = stored(store, BASE, "v1")
        patches, files, before = [], BASE, base
        for number, edits in enumerate(series):
            files = edited(files, edits)
            after = stored(store, files, "after")
            if after.root != before.root:
                patches.append(patch(store, number, before, after))
            before = after
        if not patches:
            return
        # Every release is there twice, and the next one stands on it: most files are the same on most of them.
        trees, files = [], BASE
        for number, edits in enumerate(releases, 2):
            files = edited(files, edits)
            trees += [stored(store, files, f"v{number}"), stored(store, files, f"v{number}.post1")]
        patchset = Patchset(
            path=tmp_path / "patchset",
            config=parse_config(CONFIG, file="t"),
            series=Series(base=Base(tag="v1", tree=None), patches=tuple(patches)),
            probes={},
        )

        def replay(some: list[GitTree]) -> list[object]:
            state = State(tmp_path / "state")
            return [seen(one) for one in Replayer(patchset, base, store, Probes({}, state)).replay(some)]

        alone = [replay([tree])[0] for tree in trees]
        assert replay(trees) == alone
        assert replay(trees[::-1]) == alone[::-1]
