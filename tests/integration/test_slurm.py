"""The Slurm runner on a real Slurm of two nodes on this machine; GPUs are device files."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from forktool.adapters import slurm
from forktool.cli import main
from forktool.errors import RequestError
from tests.support import slurm_cluster
from tests.support.matrix_project import CELLS, make_wheel, write_project

ROOT = Path(__file__).parents[2]
pytestmark = [
    pytest.mark.xdist_group("slurm"),
    pytest.mark.skipif(slurm_cluster.missing() is not None, reason=f"no Slurm: {slurm_cluster.missing()}"),
]

GPU_CELLS = (
    CELLS.replace('gpu = "cpu"', 'gpu = "sm100"')
    .replace("timeout = 30", "timeout = 120")
    .replace('capability = "10.0"', 'capability = "10.0"\nconstraint = "blackwell"')
)


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    """The cluster, for this module."""
    with slurm_cluster.held():
        slurm_cluster.up()
        try:
            yield
        finally:
            slurm_cluster.down()


@pytest.fixture
def project(cluster: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project whose jobs find this forktool."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setattr("forktool.commands.matrix_slurm._GRACE", 3.0)
    return tmp_path


def run(
    project: Path, *options: str, cells: str = GPU_CELLS, script: object = None
) -> tuple[int, dict[str, Any]]:
    write_project(project, cells=cells, script=script or {})
    wheel = make_wheel(project / "dist")
    code = main(["matrix", "run", "--runner", "slurm", "--no-blame", "--wheel", str(wheel), *options])
    return code, json.loads((project / ".forktool" / "matrix" / "results.json").read_text())


def jobs(project: Path) -> dict[str, str]:
    return {
        path.parent.name: json.loads(path.read_text())["job"]
        for path in project.glob(".forktool/**/job.json")
    }


def wait_for(what: Any, seconds: float = 60) -> Any:
    deadline = time.monotonic() + seconds
    while not (found := what()):
        assert time.monotonic() < deadline, what
        time.sleep(0.1)
    return found


def test_cells_run_with_the_gpus_that_slurm_gives_them(project: Path) -> None:
    code, results = run(
        project, cells=GPU_CELLS.replace('model = "tiny"', 'model = "tiny"\ntensor-parallel = [1, 3]')
    )
    assert code == 0
    by_name = {cell["identifier"]: cell for cell in results["cells"]}
    assert set(by_name) == {"tiny.eagle3.tp1.sm100", "tiny.eagle3.tp3.sm100"}
    devices = []
    for cell in by_name.values():
        first = cell["evidence"]["commands"][0].partition(" ")[0]
        devices.append(first.removeprefix("CUDA_VISIBLE_DEVICES=").split(","))
        assert len(cell["evidence"]["gpus"]) == len(devices[-1])
    assert sorted(len(given) for given in devices) == [1, 3]
    # Both fit on one node, and then no device is given twice.
    assert len({device for given in devices for device in given}) == 4


def test_what_slurm_will_never_run_is_a_result_not_a_crash(project: Path) -> None:
    cells = GPU_CELLS.replace('model = "tiny"', 'model = "tiny"\ntensor-parallel = [1, 9]')
    code, results = run(project, cells=cells)
    assert code == 0
    outcomes = {cell["identifier"]: (cell["outcome"], cell["reason"]) for cell in results["cells"]}
    assert outcomes["tiny.eagle3.tp1.sm100"][0] == "passed"
    assert outcomes["tiny.eagle3.tp9.sm100"][0] == "skipped"
    assert "Requested node configuration is not available" in outcomes["tiny.eagle3.tp9.sm100"][1]


def test_an_unknown_constraint_is_refused(project: Path) -> None:
    request = slurm.JobRequest(
        name="x", argv=["true"], folder=project, gpus=1, minutes=1, constraint="hopper"
    )
    with pytest.raises(RequestError, match="Slurm refuses the job"):
        slurm.submit(request)


def start(project: Path, script: object) -> subprocess.Popen[bytes]:
    """forktool in another process, on a cell that takes its time."""
    write_project(project, cells=GPU_CELLS, script=script)
    wheel = make_wheel(project / "dist")
    words = ["matrix", "run", "--runner", "slurm", "--no-blame", "--wheel", str(wheel)]
    code = f"import forktool.commands.matrix_slurm as m; m._GRACE = 3.0\nfrom forktool.cli import main\nraise SystemExit(main({words!r}))"
    return subprocess.Popen([sys.executable, "-c", code], cwd=project, stderr=subprocess.PIPE)


def running(project: Path) -> str | None:
    known = jobs(project)
    if not known:
        return None
    job = slurm.JobId(next(iter(known.values())))
    return job if slurm.states([job])[job].state == "RUNNING" else None


SLOW = {"with": {"delay": 0.1}}
"""12 prompts of 16 tokens: 19 seconds."""


def test_a_cancelled_job_is_broken_with_its_reason(project: Path) -> None:
    process = start(project, SLOW)
    job = wait_for(lambda: running(project))
    slurm.cancel([slurm.JobId(job)])
    _out, error = process.communicate(timeout=90)
    assert process.returncode == 1, error
    (cell,) = json.loads((project / ".forktool" / "matrix" / "results.json").read_text())["cells"]
    assert cell["outcome"] == "broken"
    assert f"job {job} ended as cancelled" in cell["reason"]


def test_a_requeued_job_runs_again_and_its_result_counts(project: Path) -> None:
    process = start(project, SLOW)
    job = wait_for(lambda: running(project))
    subprocess.run(["scontrol", "requeue", job], check=True)
    _out, error = process.communicate(timeout=150)
    assert process.returncode == 0, error
    (cell,) = json.loads((project / ".forktool" / "matrix" / "results.json").read_text())["cells"]
    assert cell["outcome"] == "passed"


def test_a_node_that_dies_costs_a_cell_its_time_only(project: Path) -> None:
    process = start(project, SLOW)
    job = slurm.JobId(wait_for(lambda: running(project)))
    node = int(slurm.states([job])[job].nodes.rpartition("-")[2])
    slurm_cluster.kill_node(node)
    try:
        subprocess.run(
            ["scontrol", "update", f"nodename=b200-{node}", "state=down", "reason=test"], check=True
        )
        _out, error = process.communicate(timeout=150)
    finally:
        slurm_cluster.start_node(node)
        subprocess.run(["scontrol", "update", f"nodename=b200-{node}", "state=resume"], check=False)
        wait_for(lambda: slurm_cluster.idle_nodes() == slurm_cluster.NODES)
    assert process.returncode == 0, error
    assert slurm.states([job])[job].nodes != f"b200-{node}"


def test_ctrl_c_cancels_the_jobs_and_a_kill_lets_them_be_resumed(project: Path) -> None:
    process = start(project, SLOW)
    job = slurm.JobId(wait_for(lambda: running(project)))
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 130
    wait_for(lambda: slurm.states([job])[job].ended)

    (project / ".forktool" / "matrix" / "slurm").rename(project / "ended")
    process = start(project, SLOW)
    wait_for(lambda: jobs(project) and running(project))
    process.kill()
    process.communicate()
    before = jobs(project)
    wheel = next((project / "dist").iterdir())
    words = ["matrix", "run", "--runner", "slurm", "--no-blame", "--resume", "--wheel", str(wheel)]
    assert main(words) == 0
    assert jobs(project) == before


@pytest.mark.slow
def test_many_cells_keep_the_gpus_busy(
    project: Path, record_testsuite_property: Callable[[str, object], None]
) -> None:
    """64 cells of one GPU each, on 8 GPUs: the share of the GPUs' time that was used is recorded."""
    sizes = list(range(1, 65))
    cells = GPU_CELLS.replace('model = "tiny"', f'model = "tiny"\nmethod = "eagle3"\ntokens = {sizes}')
    cells = cells.replace('checks = ["right", "accepted"]', 'checks = ["accepted"]').replace(
        "timeout = 30", "timeout = 300"
    )
    code, results = run(project, cells=cells, script={"with": {"delay": 0.05}})
    assert code == 0
    assert len(results["cells"]) == 64
    listing = subprocess.run(
        ["squeue", "--noheader", "--states=CD", "--format=%i|%S|%e"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    mine = set(jobs(project).values())
    spans = []
    for line in listing.splitlines():
        job, begin, end = line.split("|")
        if job in mine:
            spans.append((datetime.fromisoformat(begin).timestamp(), datetime.fromisoformat(end).timestamp()))
    assert len(spans) == 64
    wall = max(end for _begin, end in spans) - min(begin for begin, _end in spans)
    busy = sum(end - begin for begin, end in spans) / (wall * slurm_cluster.NODES * slurm_cluster.GPUS)
    record_testsuite_property("seconds", round(wall))
    record_testsuite_property("gpus_busy", round(busy, 3))
    assert 0 < busy <= 1
