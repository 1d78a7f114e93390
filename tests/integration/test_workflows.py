"""The workflows: their form by three linters, their rules by reading them, their work by running them with act."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.act import ROOT, Act
from tests.support.story import Story

WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
SCRIPTS = sorted((ROOT / ".github/scripts").glob("*.sh"))


def needs(tool: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(shutil.which(tool) is None, reason=f"{tool} is not installed")


def said(*command: str) -> tuple[int, str]:
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return done.returncode, done.stdout


@needs("zizmor")
def test_zizmor_finds_nothing_at_its_most_pedantic() -> None:
    code, text = said("zizmor", "--offline", "--persona", "pedantic", "--no-progress", ".github")
    assert code == 0, text
    assert "No findings to report" in text


@needs("actionlint")
def test_actionlint_finds_nothing() -> None:
    assert said("actionlint") == (0, "")


@needs("check-jsonschema")
def test_files_have_the_form_that_github_asks_for() -> None:
    files = [str(file) for file in WORKFLOWS]
    assert said("check-jsonschema", "--builtin-schema", "vendor.github-workflows", *files)[0] == 0
    code, text = said("check-jsonschema", "--builtin-schema", "vendor.dependabot", ".github/dependabot.yml")
    assert code == 0, text


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.name)
def test_the_rules_that_keep_secrets_and_hosts_safe(file: Path) -> None:
    text = file.read_text()
    code = re.sub(r"#.*", "", text)
    assert re.search(r"^permissions: \{\}$", text, re.MULTILINE)
    assert "pull_request_target" not in code
    assert text.count("uses: actions/checkout@") == text.count("persist-credentials: false")
    for used in re.findall(r"uses: (.+)", text):
        assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", used), used
    runs = re.findall(r"run: (.+)", text)
    assert runs
    assert not [run for run in runs if "${{" in run]
    assert "|" not in {run.strip() for run in runs}  # scripts have files of their own
    assert len(re.findall(r"timeout-minutes:", text)) == len(re.findall(r"runs-on:", text))


def test_only_a_dispatch_reaches_a_self_hosted_host_and_secrets_sit_in_an_environment() -> None:
    for file in WORKFLOWS:
        text = re.sub(r"#.*", "", file.read_text())
        triggers = text.partition("\non:")[2].partition("\npermissions")[0]
        if "self-hosted" in text:
            assert re.findall(r"^  (\w+):", triggers, re.MULTILINE) == ["workflow_dispatch"]
            assert "runs-on: [self-hosted, linux, x64, gpu, blackwell]" in text
        if "secrets." in text:
            assert "environment:" in text
            assert re.findall(r"^  (\w+):", triggers, re.MULTILINE) == ["workflow_dispatch"]


def test_every_script_is_used_and_every_session_exists() -> None:
    text = "".join(file.read_text() for file in (*WORKFLOWS, *SCRIPTS))
    for script in SCRIPTS:
        assert f".github/scripts/{script.name}" in text
        assert script.stat().st_mode & 0o111
        assert "set -euo pipefail" in script.read_text()
    named = {
        word for words in re.findall(r"nox --non-interactive -s ([a-z ]+)", text) for word in words.split()
    }
    assert named == {
        "lint",
        "types",
        "workflows",
        "tests",
        "watch",
        "rebase",
        "diff",
        "wheel",
        "matrix",
        "pr",
    }
    noxfile = (ROOT / "noxfile.py").read_text()
    assert {name for name in named if not re.search(rf"^def {name}\(", noxfile, re.MULTILINE)} == set()


GATE = 'SUPPORTED = [\n    "llama",\n    "qwen",\n]\n'
KIMI = GATE.replace("]", '    "kimi_k2",\n]')


@pytest.fixture
def act(story: Story, tmp_path: Path) -> Act:
    story.release("v1.0", {"gate.py": GATE, "other.py": "other = 1\n"})
    story.start("v1.0")
    story.patch("kimi", {"gate.py": KIMI}, probe='assert "kimi_k2" in tree.literal("gate.py", "SUPPORTED")')
    scratch = tmp_path / "act"
    scratch.mkdir()
    return Act(story.project, scratch)


@needs("act")
def test_a_newer_tag_becomes_a_branch_and_a_pull_request(act: Act, story: Story) -> None:
    story.release("v1.1", {"gate.py": "import os\n\n" + GATE})

    ran = act.run("rebase.yml", inputs={"tag": ""})

    assert ran.code == 0, ran.text
    assert act.git("ls-remote", "origin", "refs/heads/rebase/v1.1")
    act.git("fetch", "--quiet", "origin", "rebase/v1.1")
    assert 'tag = "v1.1"' in act.git("show", "FETCH_HEAD:patchset/patchset.toml")
    assert act.git("diff", "--name-only", "main", "FETCH_HEAD").split() == [
        "patchset/kimi.patch", "patchset/patchset.toml",
    ]  # fmt: skip
    assert (
        act.git("log", "-1", "--format=%s|%an", "FETCH_HEAD")
        == "Carry the series to v1.1|github-actions[bot]"
    )
    assert any(
        call
        == "gh pr create --base main --head rebase/v1.1 --title Carry the series to v1.1 --body-file body.md"
        for call in ran.calls
    )
    report = (act.store / "rebased/report.md").read_text()
    assert "v1.0 -> v1.1: 1 refreshed" in report
    assert "<details><summary>range-diff</summary>" in report


@needs("act")
def test_a_stop_opens_a_draft_with_the_conflict_shown(act: Act, story: Story) -> None:
    story.release("v1.1", {"gate.py": GATE.replace('[\n    "llama",\n    "qwen",\n]', "load()")})

    ran = act.run("rebase.yml", inputs={"tag": "v1.1"})

    assert ran.code == 0, ran.text
    assert ran.calls[-1].endswith("--body-file body.md --draft")
    assert not any(call.startswith("nox watch") for call in ran.calls)
    report = (act.store / "rebased/report.md").read_text()
    assert "It stopped. To settle it: `nox -s rebase -- v1.1`" in report
    assert "<<<<<<<" in report
    act.git("fetch", "--quiet", "origin", "rebase/v1.1")
    assert act.git("diff", "--name-only", "main", "FETCH_HEAD") == ""


@needs("act")
def test_a_branch_with_a_persons_commits_is_left_alone(act: Act, story: Story) -> None:
    story.release("v1.1", {"other.py": "other = 2\n"})
    act.git("checkout", "--quiet", "-b", "rebase/v1.1")
    act.git("commit", "--quiet", "--allow-empty", "--message", "Settled by hand")
    act.git("push", "--quiet", "origin", "rebase/v1.1")
    theirs = act.git("rev-parse", "HEAD")
    act.git("checkout", "--quiet", "main")
    act.git("branch", "--quiet", "-D", "rebase/v1.1")

    ran = act.run("rebase.yml", inputs={"tag": "v1.1"})

    assert ran.code == 0, ran.text
    assert act.git("ls-remote", "origin", "refs/heads/rebase/v1.1").split()[0] == theirs
    assert not any(call.startswith("gh pr") for call in ran.calls)


@needs("act")
def test_nothing_newer_opens_nothing(act: Act) -> None:
    ran = act.run("rebase.yml", inputs={"tag": ""})

    assert ran.code == 0, ran.text
    assert ran.calls == ["nox watch --json"]


@needs("act")
def test_the_nightly_watch_is_red_and_names_the_commit(act: Act, story: Story) -> None:
    commit = story.commit(
        {"gate.py": GATE.replace('[\n    "llama",\n    "qwen",\n]', "load()")}, "Close the list (#5)"
    )

    ran = act.run("watch.yml", inputs={})

    assert ran.code == 1
    assert f"kimi is conflict since `{commit[:12]}` Close the list (#5)" in ran.text
    assert f"| kimi | conflict | `{commit[:12]}` Close the list (#5) |" in ran.text


@needs("act")
@pytest.mark.parametrize(("bad", "code"), [("", 0), ("bad", 1)])
def test_one_cell_that_fails_fails_the_run_and_stops_no_other(act: Act, bad: str, code: int) -> None:
    ran = act.run("gpu-matrix.yml", inputs={"tag": "", "cells": "kimi"}, BAD_CELL=bad)

    assert ran.code == code, ran.text
    assert "nox matrix list --github -k kimi" in ran.calls
    assert [call.split()[4] for call in ran.calls if call.startswith("nox matrix run")] == [
        "=good",
        "=bad",
        "=last",
    ]
    assert sorted(path.name for path in act.store.iterdir()) == [
        "results-bad",
        "results-good",
        "results-last",
        "wheel",
    ]
    assert (act.store / "results-last/report.md").read_text() == "| cell | ok |\n"
    assert ("title=bad::forktool matrix run ended with 1" in ran.text) == bool(bad)


@needs("act")
def test_a_dispatched_pull_request_reaches_forktool_with_its_words(act: Act) -> None:
    ran = act.run("pr.yml", inputs={"action": "draft", "patches": "kimi", "not-duplicate": ""})

    assert ran.calls == ["nox pr draft kimi"]
    assert ran.code == 0, ran.text
    assert "## Purpose" in ran.text
    assert "tok_secret" not in ran.text


def test_the_pull_request_template_and_the_guides_are_there() -> None:
    for name in ("CONTRIBUTING.md", "RUNNERS.md", "pull_request_template.md", "dependabot.yml"):
        assert (ROOT / ".github" / name).is_file()
    assert "cooldown" in (ROOT / ".github/dependabot.yml").read_text()
    assert json.dumps("ubuntu-latest") not in "".join(file.read_text() for file in WORKFLOWS)
