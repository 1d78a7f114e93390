"""Stories of conflicts in files with keys: TOML, YAML and the like."""

from __future__ import annotations

from tests.support.story import Story

PROJECT = '[project]\nname = "x"\ndependencies = [\n  "torch",\n]\n\n[tool.x]\nwidth = 100\n'
WORKFLOW = "on:\n  push:\n    branches:\n      - main\njobs:\n  test:\n    runs-on: linux\n"


def test_entries_that_both_sides_add_are_resolved_and_shown(story: Story) -> None:
    story.release("v1.0", {"pyproject.toml": PROJECT, "ci.yml": WORKFLOW})
    story.start("v1.0")
    story.patch(
        "spec",
        {
            "pyproject.toml": PROJECT.replace('  "torch",\n', '  "torch",\n  "eagle",\n'),
            "ci.yml": WORKFLOW.replace("      - main\n", "      - main\n      - fork\n"),
        },
        probe='assert "eagle" in tree.read_text("pyproject.toml")',
    )
    story.release(
        "v1.1",
        {
            "pyproject.toml": PROJECT.replace('  "torch",\n', '  "torch",\n  "xgrammar",  # new\n'),
            "ci.yml": WORKFLOW.replace("      - main\n", "      - main\n      - 'release-*'\n"),
        },
    )

    result = story.run("rebase", "v1.1")

    assert result.code == 0, result.out + result.err
    assert "resolved" in result.out
    assert "structural resolution in pyproject.toml" in result.out
    assert '"xgrammar",  # new' in result.out
    assert story.carried("pyproject.toml") == PROJECT.replace(
        '  "torch",\n', '  "torch",\n  "xgrammar",  # new\n  "eagle",\n'
    )
    assert story.carried("ci.yml") == WORKFLOW.replace(
        "      - main\n", "      - main\n      - 'release-*'\n      - fork\n"
    )


def test_a_value_that_both_sides_change_is_a_conflict(story: Story) -> None:
    story.release("v1.0", {"pyproject.toml": PROJECT})
    story.start("v1.0")
    story.patch("width", {"pyproject.toml": PROJECT.replace("100", "120")})
    story.release("v1.1", {"pyproject.toml": PROJECT.replace("100", "88")})

    result = story.run("rebase", "v1.1", "--json")

    assert result.code == 3
    assert result.verdicts == {"width": "conflict"}
    assert result.patch("width")["conflicts"] == ["pyproject.toml"]
