"""Probes that misbehave, and what their answers are worth beside the other evidence."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.story import Story

TEXT = "".join(f"line_{number} = {number}\n" for number in range(1, 31))
PATCHED = TEXT.replace("line_10 = 10", "line_10 = 'ten'")
MOVED = "import os\n"


def start(story: Story, probe: str | None, upstream: str | None = MOVED + TEXT) -> None:
    story.release("v1.0", {"a.py": TEXT, "b.py": "b = 1\n"})
    story.start("v1.0")
    story.patch("ten", {"a.py": PATCHED}, probe=probe)
    story.release("v1.1", {"a.py": upstream})


def test_a_probe_that_hangs_is_ended_and_named(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("forktool.adapters.probes._SILENCE_LIMIT_S", 1.5)
    start(story, "import time\ntime.sleep(60)")
    before = story.snapshot()

    result = story.run("rebase", "v1.1")

    assert result.code == 4
    assert "probes/ten.py on v1.1: the probe hangs: no sign of life for 1.5 s, killed" in result.err
    assert story.snapshot() == before


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("import os\nos._exit(0)", "it said nothing"),
        ("import pytest\npytest.exit('enough')", "a probe ended pytest"),
        ("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)", "it said nothing"),
    ],
)  # fmt: skip
def test_a_probe_that_ends_its_process_is_an_error_and_names_itself(
    story: Story, body: str, said: str
) -> None:
    start(story, body)

    result = story.run("rebase", "v1.1")

    assert result.code == 4
    assert f"probes/ten.py on v1.1: the process that runs the probes died: {said}" in result.err


def test_a_probe_that_cannot_be_imported_is_the_patchset_s_fault(story: Story) -> None:
    start(story, "assert tree")
    file = story.project / "patchset/probes/ten.py"
    file.write_text("import no_such_module\n\n\n" + file.read_text())

    for command in (["rebase", "v1.1"], ["check"], ["status", "--onto", "v1.1"]):
        result = story.run(*command)
        assert result.code == 2
        assert "probes/ten.py: the probe cannot be run: " in result.err
        assert "No module named 'no_such_module'" in result.err


@pytest.mark.parametrize(
    "body", ["import sys\nsys.exit(0)", "import no_such_module", "assert tree.read_text('no.py')"]
)
def test_a_probe_that_fails_in_any_way_is_red(story: Story, body: str) -> None:
    start(story, body)

    result = story.run("rebase", "v1.1", "--json")

    assert result.code == 3
    assert result.verdicts == {"ten": "suspect"}
    assert any(
        "red on the patched tree: test_it: " in one["detail"] for one in result.patch("ten")["evidence"]
    )


def test_what_a_probe_prints_and_reads_from_stdin_disturbs_nothing(story: Story) -> None:
    start(
        story,
        "import os, sys\nprint('x' * 1_000_000)\nos.write(1, b'{}\\n' * 1000)\nsys.stderr.write('y' * 100_000)\n"
        "assert os.read(0, 10) == b''\nassert \"'ten'\" in tree.read_text('a.py')",
    )

    result = story.run("rebase", "v1.1", "--json")

    assert result.code == 0, result.err
    assert result.verdicts == {"ten": "refreshed"}
    assert "xxx" not in result.out + result.err


def test_the_answer_of_a_probe_that_looks_outside_its_tree_is_never_kept(
    story: Story, tmp_path: Path
) -> None:
    weather = tmp_path / "weather"
    weather.touch()
    start(story, f"assert \"'ten'\" in tree.read_text('a.py')\nassert open({str(weather)!r}) and True")
    assert story.run("check").code == 0
    weather.unlink()
    assert story.run("check").code == 1
    weather.touch()
    assert story.run("check").code == 0


def test_a_probe_is_asked_once_of_the_same_files(story: Story, tmp_path: Path) -> None:
    start(story, "assert \"'ten'\" in tree.read_text('a.py')")
    assert story.run("check").code == 0

    again = story.run("-v", "check")

    assert again.code == 0
    assert "probe_worker" not in again.err
    assert "cat-file" in again.err


def test_check_wants_red_then_green_then_red_without_the_patch(story: Story) -> None:
    start(story, "assert tree.exists('a.py')")
    assert "green on the bare base, must be red" in story.run("check").out
    story.probe("ten", "assert not tree.exists('a.py')")
    assert "red on the patched base, must be green" in story.run("check").out
    story.probe("ten", "import pytest\npytest.skip('not here')")
    assert "absent on the bare base, must be red" in story.run("check").out
    (story.project / "patchset/probes/ten.py").write_text("def test_it():\n    assert False\n")
    assert "absent on the bare base, must be red" in story.run("check").out
    story.probe("ten", "assert \"'ten'\" in tree.read_text('a.py')")
    assert story.run("check").code == 0


def test_a_patch_without_a_probe_fails_check_and_is_a_warning_in_rebase(story: Story) -> None:
    start(story, None)
    assert story.run("check").code == 1
    assert "ten: probe: no probe probes/ten.py" in story.run("check").out
    result = story.run("rebase", "v1.1")
    assert result.code == 0
    assert "warning: ten has no probe" in result.err


def test_a_green_probe_alone_is_a_suspect_and_keep_carries_it(story: Story) -> None:
    start(story, "assert tree.exists('b.py')")
    before = story.snapshot()

    stopped = story.run("rebase", "v1.1", "--json")

    assert stopped.code == 3
    assert stopped.verdicts == {"ten": "suspect"}
    assert [one["kind"] for one in stopped.patch("ten")["evidence"]] == ["probe"]
    assert "forktool keep ten" in stopped.err
    assert "forktool drop ten --reason" in stopped.err
    assert story.run("rebase", "--continue").code == 3, "nothing is decided yet"
    assert story.snapshot() == before
    assert story.run("keep", "ten").code == 0
    done = story.run("rebase", "--continue", "--json")
    assert done.code == 0, done.err
    assert done.verdicts == {"ten": "refreshed"}
    assert story.carried("a.py") == MOVED + PATCHED


def test_a_red_probe_against_full_content_is_a_suspect_and_drop_settles_it(story: Story) -> None:
    start(
        story, "assert \"'ten'\" in tree.read_text('a.py') and tree.exists('never')", upstream=MOVED + PATCHED
    )

    stopped = story.run("rebase", "v1.1", "--json")

    assert stopped.code == 3
    assert stopped.verdicts == {"ten": "suspect"}
    assert {one["kind"] for one in stopped.patch("ten")["evidence"]} == {"content", "probe"}
    assert story.run("drop", "ten", "--reason", "").code == 2
    assert story.run("drop", "ten", "--reason", "upstream has it in #17").code == 0
    assert story.run("rebase", "--continue").code == 0
    dropped = (story.project / "patchset/dropped.toml").read_text()
    assert "upstream has it in #17" in dropped
    assert 'tag = "v1.1"' in dropped
    assert not (story.project / "patchset/probes/ten.py").exists()


def test_what_the_patch_edits_is_gone_and_the_probe_is_green_is_obsolete(story: Story) -> None:
    start(story, "assert not tree.exists('a.py') or \"'ten'\" in tree.read_text('a.py')", upstream=None)

    result = story.run("rebase", "v1.1", "--json")

    assert result.code == 0, result.out
    assert result.verdicts == {"ten": "obsolete"}
    assert [one["kind"] for one in result.patch("ten")["evidence"]] == ["target-gone", "probe"]


def test_a_probe_that_is_red_on_the_result_of_a_clean_merge_is_a_suspect_that_names_both(
    story: Story,
) -> None:
    start(
        story,
        "text = tree.read_text('a.py')\nassert \"'ten'\" in text\nassert 'breaks' not in text",
        upstream=MOVED + TEXT + "breaks = True\n",
    )

    result = story.run("rebase", "v1.1", "--json")

    assert result.code == 3
    assert result.verdicts == {"ten": "suspect"}
    assert [one["kind"] for one in result.patch("ten")["evidence"]] == ["probe"]
    assert "red on the patched tree" in result.patch("ten")["evidence"][0]["detail"]
