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


def judged(story: Story, *tags: str) -> tuple[int, int]:
    """How many patches `status` judged, and how many it knew from another tag."""
    result = story.run("--verbose", "status", "--onto", *tags)
    found = re.search(r"^judged (\d+) patches on \d+ trees, and (\d+) more", result.err, re.MULTILINE)
    assert found is not None, result.err
    return int(found[1]), int(found[2])


def test_a_patch_whose_files_are_the_same_on_two_tags_is_judged_once(story: Story) -> None:
    story.release("v1.0.0", {"a.py": module(0), "b.py": module(1)})
    story.release("v1.1.0", {"a.py": module(0, upstream=True)})
    story.release("v1.2.0", {"b.py": module(1, upstream=True)})
    story.release("v1.3.0", {"other.py": "x = 1\n"})
    story.start("v1.0.0")
    for name, number in (("a", 0), ("b", 1)):
        story.patch(name, {f"{name}.py": module(number).replace("first = value + 4", "first = value + 400")})

    # a meets an edited file on all three tags, b on the last two.
    assert judged(story, "v1.1.0", "v1.2.0", "v1.3.0") == (2, 3)

    verdicts = story.run("status", "--json", "--onto", "v1.1.0", "v1.2.0", "v1.3.0").document["patches"]
    assert [patch["verdicts"] for patch in verdicts] == [
        {"v1.1.0": "refreshed", "v1.2.0": "refreshed", "v1.3.0": "refreshed"},
        {"v1.1.0": "unchanged", "v1.2.0": "refreshed", "v1.3.0": "refreshed"},
    ]


def test_a_conflict_that_is_known_from_another_tag_names_its_own(story: Story) -> None:
    story.release("v1.0.0", {"a.txt": "one\ntwo\nthree\n"})
    story.release("v1.1.0", {"a.txt": "one\n2\nthree\n"})
    story.release("v1.2.0", {"other.txt": "x\n"})
    story.start("v1.0.0")
    story.patch("a", {"a.txt": "one\nTWO\nthree\n"})

    assert judged(story, "v1.1.0", "v1.2.0") == (1, 1)
    document = story.run("status", "--json", "--onto", "v1.1.0", "v1.2.0").document["patches"][0]
    assert document["verdicts"] == {"v1.1.0": "conflict", "v1.2.0": "conflict"}
    assert document["conflicts"] == ["a.txt"]


def test_a_large_python_file_is_judged_on_its_lines_and_that_is_said(story: Story) -> None:
    rows = [f'    "row{number}": {number},\n' for number in range(250_000)]
    whole = lambda *edits: "TABLE = {\n" + "".join({**dict(enumerate(rows)), **dict(edits)}.values()) + "}\n"  # noqa: E731
    assert len(whole()) > 4 << 20
    story.release("v1.0.0", {"table.py": whole()})
    story.release("v1.1.0", {"table.py": whole((10, "    # upstream's\n"), (200, "    'mine': 1,\n"))})
    story.start("v1.0.0")
    story.require()
    story.patch("edit", {"table.py": whole((125_000, "    'edited': 1,\n"))})
    story.patch("again", {"table.py": whole((125_000, "    'edited': 1,\n"), (200, "    'mine': 1,\n"))})

    result = story.run("rebase", "v1.1.0", "--dry-run", "--json")

    detail = f"table.py has {len(whole()) / 1e6:.0f} MB: judged on its lines, its syntax is not read"
    assert {"kind": "merge", "detail": detail} in result.patch("edit")["evidence"]
    assert result.patch("edit")["verdict"] == "unchanged"
    # The second one is upstream's already, which its lines tell as well.
    assert result.patch("again")["verdict"] == "suspect"
