"""Stories of what upstream's history says of a patch."""

from __future__ import annotations

from typing import Any

from tests.support.story import Files, Story

TEN = "line_10 = 'ten'"


def lines(first: int, last: int, **other: str) -> str:
    return "".join(
        f"{other.get(f'line_{number}', f'line_{number} = {number}')}\n" for number in range(first, last + 1)
    )


PLAIN = lines(1, 30)
PATCHED = lines(1, 30, line_10=TEN)


def start(story: Story, *, history: str = "full", files: Files | None = None) -> None:
    story.release("v1.0", {"a.py": PLAIN, "b.py": "b = 1\n", **(files or {})})
    story.start("v1.0")
    config = story.project / "patchset/patchset.toml"
    config.write_text(
        config.read_text().replace('sources = ["git"]', f'sources = ["git"]\nhistory = "{history}"')
    )


def evidence(patch: Any, kind: str) -> list[str]:
    return [item["detail"] for item in patch["evidence"] if item["kind"] == kind]


def test_a_patch_that_a_commit_made_too_is_absorbed_on_its_patch_id_and_content(story: Story) -> None:
    start(story)
    story.patch("ten", {"a.py": PATCHED})
    made = story.commit({"a.py": PATCHED, "c.py": "c = 1\n"}, "[Core] Say ten (#361)")
    story.release("v1.1", {"b.py": "b = 2\n"})

    result = story.run("rebase", "v1.1", "--json")

    assert result.code == 0, result.out + result.err
    assert result.verdicts == {"ten": "absorbed"}
    assert evidence(result.patch("ten"), "history") == [
        f'commit {made[:12]} "[Core] Say ten" (#361): same patch-id'
    ]
    assert evidence(result.patch("ten"), "content")
    assert made[:12] in (story.project / "patchset/dropped.toml").read_text()


def test_without_history_content_alone_asks(story: Story) -> None:
    start(story, history="shallow")
    story.patch("ten", {"a.py": PATCHED})
    story.commit({"a.py": PATCHED}, "Say ten (#361)")
    story.release("v1.1", {"b.py": "b = 2\n"})

    result = story.run("rebase", "v1.1", "--json")

    assert result.code == 3
    assert result.verdicts == {"ten": "suspect"}
    assert evidence(result.patch("ten"), "history") == []
    assert not (story.project / ".forktool/history").exists()


def test_a_green_probe_and_a_patch_id_agree_however_upstream_went_on(story: Story) -> None:
    start(story)
    story.patch("ten", {"a.py": PATCHED}, probe='assert "ten" in tree.read_text("a.py")')
    made = story.commit({"a.py": PATCHED}, "Say ten")
    story.release("v1.1", {"a.py": "numbers = {10: 'ten'}\n"})

    result = story.run("rebase", "v1.1", "--json")

    assert result.code == 0, result.out + result.err
    assert result.verdicts == {"ten": "absorbed"}
    assert evidence(result.patch("ten"), "history") == [
        f'commit {made[:12]} "Say ten": same patch-id, all of it; later commits changed it'
    ]
    assert evidence(result.patch("ten"), "probe") == ["green on the bare tree"]


def test_a_pull_request_is_found_by_its_number_where_upstream_words_it_its_own_way(story: Story) -> None:
    start(story, files={"gate.py": 'ALLOWED = [\n    "llama",\n]\n'})
    message = "Accept kimi\n\nReason: a test\nForwarded: https://github.com/acme/tool/pull/361\n"
    story.patch("kimi", {"gate.py": 'ALLOWED = [\n    "llama",\n    "kimi",\n]\n'}, message=message)
    made = story.commit({"gate.py": 'ALLOWED = ["llama", "kimi", "qwen"]\n'}, "Accept more models (#361)")
    story.release("v1.1")

    result = story.run("rebase", "v1.1", "--json")

    assert result.code == 0, result.out + result.err
    assert result.verdicts == {"kimi": "absorbed"}
    assert evidence(result.patch("kimi"), "history") == [
        f'commit {made[:12]} "Accept more models" (#361): pull request #361'
    ]


def test_a_pull_request_that_upstream_merged_in_part_asks(story: Story) -> None:
    start(story)
    message = "Say both\n\nReason: a test\nForwarded: https://github.com/acme/tool/pull/361\n"
    both = lines(1, 30, line_10=TEN, line_20="line_20 = 'twenty'")
    story.patch("both", {"a.py": both}, message=message)
    story.commit({"a.py": PATCHED}, "Say ten (#361)")
    story.release("v1.1")

    result = story.run("rebase", "v1.1", "--json")

    assert result.code == 3
    assert result.verdicts == {"both": "suspect"}


def test_what_was_merged_and_reverted_is_carried(story: Story) -> None:
    start(story)
    story.patch("ten", {"a.py": PATCHED}, message="Say ten (#361)\n\nReason: a test\n")
    story.commit({"a.py": PATCHED}, "Say ten (#361)")
    story.git("revert", "--no-edit", "HEAD")
    story.release("v1.1", {"a.py": "import os\n" + PLAIN})

    result = story.run("rebase", "v1.1", "--json")

    assert result.code == 0, result.out + result.err
    assert result.verdicts == {"ten": "refreshed"}
    assert evidence(result.patch("ten"), "history") == []
    assert TEN in story.carried("a.py")


def test_what_was_merged_and_taken_back_without_a_word_is_carried(story: Story) -> None:
    start(story)
    story.patch("ten", {"a.py": PATCHED}, message="Say ten (#361)\n\nReason: a test\n")
    story.commit({"a.py": PATCHED}, "Say ten (#361)")
    story.release("v1.1", {"a.py": "import os\n" + PLAIN}, message="Tidy up")

    result = story.run("rebase", "v1.1", "--json")

    assert result.code == 0, result.out + result.err
    assert result.verdicts == {"ten": "refreshed"}
    assert evidence(result.patch("ten"), "history") == []


def test_what_is_on_main_but_not_in_the_tag_is_carried(story: Story) -> None:
    start(story)
    story.patch("ten", {"a.py": PATCHED}, message="Say ten (#361)\n\nReason: a test\n")
    story.git("checkout", "--quiet", "-b", "release")
    story.release("v1.1", {"a.py": "import os\n" + PLAIN})
    story.git("checkout", "--quiet", "main")
    story.commit({"a.py": PATCHED}, "Say ten (#361)")
    story.release("v1.2", {"b.py": "b = 2\n"})

    result = story.run("status", "--onto", "v1.1", "v1.2", "--json")

    assert result.code == 0, result.out + result.err
    (ten,) = result.document["patches"]
    assert ten["verdicts"] == {"v1.1": "refreshed", "v1.2": "absorbed"}
    assert len(list((story.project / ".forktool/history").iterdir())) == 1
    assert story.run("rebase", "v1.1").code == 0
    assert TEN in story.carried("a.py")


def test_a_commit_cherry_picked_to_a_release_branch_is_found_there(story: Story) -> None:
    start(story)
    story.patch("ten", {"a.py": PATCHED})
    story.git("checkout", "--quiet", "-b", "release")
    story.commit({"b.py": "b = 2\n"}, "Prepare the release")
    story.git("checkout", "--quiet", "main")
    original = story.commit({"a.py": PATCHED}, "Say ten (#361)")
    story.git("checkout", "--quiet", "release")
    story.git("cherry-pick", "-x", original)
    picked = story.git("rev-parse", "HEAD").strip()
    story.git("tag", "v1.1")

    result = story.run("rebase", "v1.1", "--json", "--dry-run")

    assert picked != original
    assert result.verdicts == {"ten": "absorbed"}
    assert evidence(result.patch("ten"), "history") == [
        f'commit {picked[:12]} "Say ten" (#361): same patch-id'
    ]
    # A revert names the commit on main; the cherry-picked one answers to that.
    story.release("v1.2", {"a.py": PLAIN}, message=f"Undo\n\nThis reverts commit {original}.")
    later = story.run("rebase", "v1.2", "--json", "--dry-run")
    assert later.verdicts == {"ten": "unchanged"}
