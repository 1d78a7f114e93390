from __future__ import annotations

import pytest
from packaging.version import Version

from forktool.core.wheel_plan import (
    ArchRange,
    BuildMachine,
    BuildProfile,
    Route,
    WheelRules,
    build_plan,
    classify_paths,
    fit_archs,
    gpu_archs,
)
from forktool.errors import RequestError

RULES = WheelRules(
    native=("csrc/", "CMakeLists.txt", "pkg/*.proto"), metadata=("req/*.txt",), shipped=("pkg/",)
)
CUDA_13 = ArchRange(
    cuda_from=Version("13.0"), archs=("9.0", "10.0", "12.0"), covers={"10.3": "10.0", "12.1": "12.0"}
)
CUDA_12 = ArchRange(
    cuda_from=Version("12.8"), cuda_below=Version("13.0"), archs=("9.0", "10.0", "10.1", "12.0")
)
PROFILE = BuildProfile(
    version_variable="VERSION",
    arch_variable="ARCHS",
    environment={"DEVICE": "cuda"},
    config_settings={"--build-option": "--limited"},
    archs=(CUDA_13, CUDA_12),
    memory_per_job=8 << 30,
    launcher_environment={"ccache": {"CCACHE_NOHASHDIR": "true"}},
    programs=("nvcc",),
)


@pytest.mark.parametrize(
    ("path", "route", "rule"),
    [
        ("pkg/a/b.py", Route.OVERLAY, "pkg/"),
        ("pkg/grpc/x.proto", Route.NATIVE, "pkg/*.proto"),
        ("csrc/x.cu", Route.NATIVE, "csrc/"),
        ("CMakeLists.txt", Route.NATIVE, "CMakeLists.txt"),
        ("req/cuda.txt", Route.METADATA, "req/*.txt"),
        ("tests/csrc/x.cu", Route.OUTSIDE, "tests/"),
        ("pkgs/a.py", Route.OUTSIDE, "no rule: not in the wheel"),
    ],
)
def test_each_path_goes_by_a_rule_that_is_named(path: str, route: Route, rule: str) -> None:
    found = classify_paths([path], RULES)
    assert (found.route, found.paths[0].route, found.paths[0].rule) == (route, route, rule)


@pytest.mark.parametrize(
    ("paths", "route"),
    [
        ([], Route.OUTSIDE),
        (["tests/a.py"], Route.OUTSIDE),
        (["tests/a.py", "pkg/a.py"], Route.OVERLAY),
        (["pkg/a.py", "req/a.txt"], Route.METADATA),
        (["csrc/a.cu", "req/a.txt", "pkg/a.py"], Route.NATIVE),
    ],
)
def test_the_path_that_asks_for_most_decides(paths: list[str], route: Route) -> None:
    found = classify_paths(paths, RULES)
    assert found.route is route
    assert [item.path for item in found.of(route)] == [
        p for p in paths if classify_paths([p], RULES).route is route
    ]


def test_blackwell_is_three_capabilities() -> None:
    assert gpu_archs(["Blackwell"]) == ("10.0", "10.3", "12.0")
    assert gpu_archs(["12.0", "h200", "RTX PRO 6000"]) == ("9.0", "12.0")


@pytest.mark.parametrize("name", ["pascal?", "9", "9.x", ""])
def test_refuses_an_unknown_gpu(name: str) -> None:
    with pytest.raises(RequestError, match="no GPU is called"):
        gpu_archs([name])


def test_cuda_13_builds_for_the_family() -> None:
    assert fit_archs(("10.0", "10.3", "12.0"), (CUDA_13, CUDA_12), Version("13.0.2")) == (
        ("10.0", "12.0"),
        ("10.3 runs what is built for 10.0 on CUDA 13.0.2",),
    )


def test_cuda_12_refuses_what_upstream_cannot_build() -> None:
    with pytest.raises(RequestError, match=r"cannot build for 10\.3") as caught:
        fit_archs(("10.3",), (CUDA_13, CUDA_12), Version("12.9"))
    assert caught.value.hint is not None
    assert "10.0 10.1 12.0" in caught.value.hint


def test_refuses_a_cuda_that_nothing_is_known_of() -> None:
    with pytest.raises(RequestError, match=r"CUDA 11\.8"):
        fit_archs(("9.0",), (CUDA_13, CUDA_12), Version("11.8"))


@pytest.mark.parametrize(("cores", "gib", "jobs"), [(64, 32, 4), (2, 512, 2), (8, 4, 1), (1, 64, 1)])
def test_jobs_fit_into_cores_and_memory(cores: int, gib: int, jobs: int) -> None:
    machine = BuildMachine(cores=cores, memory=gib << 30, programs={"nvcc"}, cuda=Version("13.0"))
    plan = build_plan(
        profile=PROFILE, version=Version("1+k"), gpus=(), machine=machine, python="python3", output="dist"
    )
    assert dict(plan.environment)["MAX_JOBS"] == str(jobs)


def test_the_plan_is_complete() -> None:
    machine = BuildMachine(cores=16, memory=128 << 30, programs={"nvcc", "ccache"}, cuda=Version("13.0"))
    plan = build_plan(
        profile=PROFILE,
        version=Version("0.17.0+kimi.1.gabc"),
        gpus=["blackwell"],
        machine=machine,
        python="/py",
        output="dist",
    )
    assert plan.argv == (
        "/py", "-m", "build", "--wheel", "--config-setting=--build-option=--limited", "--outdir", "dist", ".",
    )  # fmt: skip
    assert dict(plan.environment) == {
        "DEVICE": "cuda",
        "VERSION": "0.17.0+kimi.1.gabc",
        "MAX_JOBS": "16",
        "ARCHS": "10.0 12.0",
        "CCACHE_NOHASHDIR": "true",
    }
    assert plan.missing == ()
    assert "MAX_JOBS=16: 16 cores, and 128 GiB of memory hold 16 jobs of 8 GiB" in plan.reasons
    assert "ccache is on PATH and caches what it compiles" in plan.reasons


def test_the_plan_says_what_is_missing() -> None:
    machine = BuildMachine(cores=2, memory=8 << 30, programs=set())
    plan = build_plan(
        profile=PROFILE, version=Version("1+k"), gpus=["b300"], machine=machine, python="py", output="d"
    )
    assert plan.missing == (
        "nvcc on PATH",
        "a CUDA toolkit, whose version decides the list of architectures",
    )
    assert dict(plan.environment)["ARCHS"] == "10.3"
    assert any("the next build starts over" in reason for reason in plan.reasons)
