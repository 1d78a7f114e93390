"""Conflicts that the syntax settles, and results of that which are not trusted."""

from __future__ import annotations

import pytest

from tests.support.story import Story

BASE = "import os\n\n\ndef paths():\n    one = os.sep\n    two = 2\n    return one, two\n"
PATCHED = BASE.replace("two = 2", "two = os.linesep")


@pytest.fixture
def fork(story: Story) -> Story:
    story.release("v1.0", {"a.py": BASE})
    story.start("v1.0")
    story.patch("line-ends", {"a.py": PATCHED})
    return story


def test_changes_of_neighbouring_statements_are_settled_and_shown(fork: Story) -> None:
    fork.release("v1.1", {"a.py": BASE.replace("os.sep", "os.altsep or os.sep")})
    shown = fork.run("rebase", "v1.1", "--dry-run")
    assert shown.code == 0, shown.err
    assert "* line-ends  resolved" in shown.out
    assert "a.py:5: both sides changed it; look at the result" in shown.out
    assert "result |     one = os.altsep or os.sep\n" in shown.out
    assert "result |     two = os.linesep\n" in shown.out


def test_a_settled_conflict_that_leaves_a_name_unbound_stays_a_conflict(fork: Story) -> None:
    fork.release("v1.1", {"a.py": BASE.replace("import os\n\n\n", "").replace("os.sep", "'/'")})
    stopped = fork.run("rebase", "v1.1", "--dry-run", "--json")
    assert stopped.code == 3
    assert stopped.verdicts == {"line-ends": "conflict"}
    assert {
        "kind": "unbound-name",
        "path": "a.py",
        "detail": "`os` is used and not defined",
    } in stopped.patch("line-ends")["findings"]
