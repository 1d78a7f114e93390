"""The GPU adapter on a stand-in for NVML: a GPU is what cannot be had here."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from forktool.adapters.gpus import read_gpus, usable_gpus, wait_until_free
from tests.support.nvml import nvml


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    return lambda module: monkeypatch.setitem(sys.modules, "pynvml", module)


@pytest.mark.parametrize("as_bytes", [False, True])
def test_what_is_there(install: Any, as_bytes: bool) -> None:
    install(nvml(used=[[0.5, 20.0]], as_bytes=as_bytes))
    seen = read_gpus()
    assert (seen.driver, seen.missing) == ("580.65.06", None)
    assert [(gpu.uuid, gpu.capability, gpu.memory, gpu.used) for gpu in seen.gpus] == [
        ("GPU-0", "10.0", 180, 0.5),
        ("GPU-1", "10.0", 180, 20.0),
    ]


def test_why_nothing_is_there(install: Any) -> None:
    install(None)
    assert "nvidia-ml-py is not installed" in str(read_gpus().missing)
    install(nvml(used=[], fails="Driver Not Loaded"))
    assert read_gpus().missing == "no GPU can be seen: NVML says Driver Not Loaded"
    install(nvml(used=[[]]))
    assert read_gpus().missing == "the driver sees no GPU"


def test_only_what_may_be_used(install: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    install(nvml(used=[[0.0, 0.0, 0.0]]))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,GPU-0")
    assert [gpu.index for gpu in usable_gpus().gpus] == [2, 0]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "7")
    assert usable_gpus().missing == "CUDA_VISIBLE_DEVICES=7 names no GPU that is here"
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert usable_gpus().gpus == ()


def test_devices_of_a_batch_system_are_taken_as_named(install: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    install(None)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1,3")
    assert usable_gpus().gpus == ()
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    given = usable_gpus().gpus
    assert [gpu.uuid for gpu in given] == ["1", "3"]
    assert wait_until_free(given, timeout=0) is None


def test_memory_must_be_free_before_the_next_cell(install: Any) -> None:
    install(nvml(used=[[0.4, 0.2], [90.0, 0.2], [40.0, 0.2], [0.6, 0.2]]))
    gpus = read_gpus().gpus
    assert wait_until_free(gpus, timeout=10) is None
    install(nvml(used=[[90.0, 0.2]]))
    assert wait_until_free(gpus, timeout=0.1) == "GPU 0 still holds 90.0 GiB, 0.4 before"
    assert wait_until_free(gpus[1:], timeout=0.1) is None


def test_what_others_held_before_is_not_waited_for(install: Any) -> None:
    install(nvml(used=[[20.0], [20.3]]))
    gpus = read_gpus().gpus
    assert wait_until_free(gpus, timeout=0.1) is None
