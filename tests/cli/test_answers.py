"""The answers' form, and where a project may lie."""

from __future__ import annotations

import shutil

import pytest

from tests.support.story import Story

TEXT = "".join(f"line_{number} = {number}\n" for number in range(1, 31))
TEN = TEXT.replace("line_10 = 10", "line_10 = 'ten'")
VERDICTS = {
    "unchanged", "refreshed", "resolved", "absorbed", "partly-absorbed", "obsolete", "suspect", "conflict",
    "not-reached",
}  # fmt: skip


def series(story: Story) -> None:
    """One patch that is carried, one that doubles a definition, one that stops, one behind them."""
    doubled = TEXT + "def y():\n    return 1\n\n\n" + TEXT.replace("line", "more")
    story.release(
        "v1.0", {"a.py": TEXT, "b.py": TEXT, "c.py": TEXT + TEXT.replace("line", "more"), "d.py": TEXT}
    )
    story.start("v1.0")
    story.patch("carried", {"a.py": TEN})
    story.patch("doubles", {"c.py": doubled})
    story.patch("stops", {"b.py": TEN})
    story.patch("behind", {"d.py": TEN})
    story.release(
        "v1.1", {"a.py": "import os\n" + TEXT, "b.py": TEXT.replace("line_10 = 10", "line_10 = 0x0A")}
    )
    story.release("v1.2", {"c.py": TEXT + TEXT.replace("line", "more") + "\n\ndef y():\n    return 1\n"})


def check_items(patch: dict[str, object]) -> None:
    evidence, findings, conflicts = patch["evidence"], patch["findings"], patch["conflicts"]
    assert isinstance(evidence, list)
    assert isinstance(findings, list)
    assert isinstance(conflicts, list)
    for one in evidence:
        assert {"kind", "detail"} <= set(one)
        assert one["kind"] in {"history", "content", "target-gone", "probe", "merge", "decision"}
        assert one["detail"]
        assert "\n" not in one["detail"]
    for one in findings:
        assert {"kind", "path", "detail"} <= set(one)
    assert all(isinstance(path, str) for path in conflicts)


def test_rebase_answers_in_the_form_that_is_promised(story: Story) -> None:
    series(story)

    document = story.run("rebase", "v1.1", "--json").document

    assert list(document) == ["base", "onto", "complete", "patches", "stop"]
    assert (document["base"], document["onto"], document["complete"]) == ("v1.0", "v1.1", False)
    assert [patch["name"] for patch in document["patches"]] == ["carried", "doubles", "stops", "behind"]
    for patch in document["patches"]:
        assert list(patch) == ["name", "verdict", "evidence", "findings", "conflicts"]
        assert patch["verdict"] in VERDICTS
        check_items(patch)
    assert [patch["verdict"] for patch in document["patches"]] == [
        "refreshed",
        "unchanged",
        "conflict",
        "not-reached",
    ]
    assert document["patches"][2]["conflicts"] == ["b.py"]
    suspect = story.run("rebase", "v1.2", "--dry-run", "--json").patch("doubles")
    assert suspect["verdict"] == "suspect"
    assert {finding["path"] for finding in suspect["findings"]} <= {"c.py"}
    assert story.run("rebase", "--abort").code == 0


def test_status_answers_in_the_form_that_is_promised(story: Story) -> None:
    series(story)

    result = story.run("status", "--onto", "v1.0..v1.2", "--json")

    document = result.document
    assert result.code == 3
    assert {"base", "tags", "complete", "patches"} <= set(document)
    assert (document["base"], document["tags"], document["complete"]) == ("v1.0", ["v1.1", "v1.2"], False)
    for patch in document["patches"]:
        assert {"name", "verdicts", "evidence", "findings", "conflicts"} <= set(patch)
        assert list(patch["verdicts"]) == ["v1.1", "v1.2"]
        assert set(patch["verdicts"].values()) <= VERDICTS
        check_items(patch)
    assert document["patches"][0]["verdicts"] == {"v1.1": "refreshed", "v1.2": "refreshed"}
    assert document["patches"][1]["verdicts"] == {"v1.1": "unchanged", "v1.2": "suspect"}
    plain = story.run("status", "--json").document
    assert (plain["base"], plain["tags"], plain["complete"]) == ("v1.0", [], True)


@pytest.mark.parametrize("below", ["patchset/probes", "a/b"])
def test_a_rebase_from_a_folder_below_the_project(
    story: Story, monkeypatch: pytest.MonkeyPatch, below: str
) -> None:
    series(story)
    folder = story.project / below
    folder.mkdir(parents=True, exist_ok=True)
    monkeypatch.chdir(folder)

    assert story.run("rebase", "v1.1").code == 3
    assert (story.project / ".forktool/rebase.json").exists()
    assert story.run("rebase", "--abort").code == 0
    assert not (folder / ".forktool").exists()


def test_a_patchset_elsewhere_whose_path_has_spaces(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    series(story)
    elsewhere = story.project.parent / "else where é" / "my patches"
    shutil.copytree(story.project / "patchset", elsewhere)
    before = story.snapshot()

    stopped = story.run("--patchset", str(elsewhere), "rebase", "v1.1")
    assert stopped.code == 3
    work = elsewhere.parent / ".forktool/conflict"
    assert str(work) in stopped.err
    (work / "b.py").write_text(TEXT.replace("line_10 = 10", "line_10 = 'TEN'"))
    monkeypatch.chdir(elsewhere.parent)
    assert story.run("rebase", "--continue", "--patchset", "my patches").code == 0
    assert 'tag = "v1.1"' in (elsewhere / "patchset.toml").read_text()
    assert story.snapshot() == before


def test_a_base_that_is_another_tree_than_the_recorded_one_is_refused(story: Story) -> None:
    series(story)
    before = story.snapshot()
    shutil.rmtree(story.project / ".forktool")
    story.git("checkout", "--quiet", "v1.0")
    story.release("v1.0", {"a.py": TEXT + "moved = True\n"})

    for command in (["rebase", "v1.1"], ["check"], ["apply", str(story.applied)]):
        result = story.run(*command)
        assert result.code == 4, command
        assert "v1.0 is tree " in result.err
        assert "patchset.toml records " in result.err
        assert "hint: the tag moved" in result.err
    assert story.snapshot() == before
    assert not story.applied.exists()


def test_tags_that_no_release_has_are_named_beside_the_nearest(story: Story) -> None:
    series(story)

    result = story.run("rebase", "v1.3")

    assert result.code == 2
    assert "v1.3" in result.err
    assert "v1.2" in result.err
