"""A long series costs processes only where it must: what git is started for does not grow with the patches."""

from __future__ import annotations

import re

import pytest

from tests.support.story import Story

FILES = 12


def module(number: int, *, upstream: bool = False) -> str:
    """Twenty functions; upstream changes every other one, and adds one before them."""
    added = f"def added_{number}():\n    return {number}\n\n\n" if upstream else ""
    return added + "\n\n".join(
        f"def function_{at}(value):\n    first = value + {at}\n    second = first * {at + (100 if upstream and at % 2 else 0)}\n"
        f"    return first, second\n"
        for at in range(20)
    )


def files(*, upstream: bool = False) -> dict[str, str]:
    return {
        f"part{number % 3}/module{number}.py": module(number, upstream=upstream) for number in range(FILES)
    }


def fork(story: Story, patches: int) -> None:
    """A series that edits every function that upstream leaves alone, in all files, round and round."""
    story.release("v1.0.0", files())
    story.release("v1.1.0", files(upstream=True))
    story.start("v1.0.0")
    story.require()
    texts = files()
    for count in range(patches):
        path, function = list(texts)[count % FILES], 2 * (count // FILES % 10)
        texts[path] = texts[path].replace(
            f"def function_{function}(value):\n    first = value",
            f"def function_{function}(value):\n    first = value * {count}",
        )
        story.patch(f"patch-{count}", {path: texts[path]})


def started(story: Story) -> int:
    """How many processes a warm dry run starts; every patch must be carried."""
    assert story.run("rebase", "v1.1.0", "--dry-run").code == 0
    result = story.run("--verbose", "rebase", "v1.1.0", "--dry-run")
    assert result.code == 0
    return len(re.findall(r"^\$ ", result.err, re.MULTILINE))


@pytest.mark.parametrize("patches", [12, 60])
def test_processes_do_not_grow_with_the_series(story: Story, patches: int) -> None:
    fork(story, patches)

    # One lists refs, one reads objects until there is something to merge and one after, one takes all blobs in, one merges.
    assert started(story) <= 8


def test_a_long_series_is_carried_as_git_carries_it(story: Story) -> None:
    fork(story, 40)

    assert story.run("rebase", "v1.1.0").code == 0

    assert story.carried_tree() == story.cherry_picked_tree("v1.1.0")
