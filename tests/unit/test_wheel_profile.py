from __future__ import annotations

from pathlib import Path

import pytest
from packaging.version import Version

from forktool.core.wheel_plan import Route, classify_paths, fit_archs
from forktool.core.wheel_profile import default_profile, parse_profile
from forktool.errors import PatchsetError

VLLM = Path(__file__).parents[2] / "patchset" / "wheel.toml"


@pytest.mark.parametrize(
    ("path", "route"),
    [
        ("vllm/config/speculative.py", Route.OVERLAY),
        ("vllm/vllm_flash_attn/flash_attn_interface.py", Route.OVERLAY),
        ("vllm/_custom_ops.py", Route.OVERLAY),
        ("vllm/grpc/vllm_engine.proto", Route.NATIVE),
        ("csrc/cpu/pos_encoding.cpp", Route.NATIVE),
        ("rust/src/lib.rs", Route.NATIVE),
        ("requirements/cuda.txt", Route.METADATA),
        ("pyproject.toml", Route.METADATA),
        ("tests/kernels/test_x.py", Route.OUTSIDE),
        ("docker/Dockerfile", Route.OUTSIDE),
    ],
)
def test_the_profile_of_vllm_sends_each_path_its_way(path: str, route: Route) -> None:
    rules = parse_profile(VLLM.read_text(encoding="utf-8"), where="wheel.toml").rules
    assert classify_paths([path], rules).route is route


def test_the_profile_of_vllm_builds_for_blackwell() -> None:
    build = parse_profile(VLLM.read_text(encoding="utf-8"), where="wheel.toml").build
    assert fit_archs(("10.0", "10.3", "12.0"), build.archs, Version("13.0"))[0] == ("10.0", "12.0")
    assert fit_archs(("10.0", "12.0"), build.archs, Version("12.9"))[0] == ("10.0", "12.0")
    assert build.version_variable == "VLLM_VERSION_OVERRIDE"
    assert build.compiler_launchers == ("sccache", "ccache")
    assert build.memory_per_job == 8 << 30
    assert "torch" in build.metadata_skips
    assert "torch/version.py" in build.stubs


def test_without_a_file_the_package_is_what_ships() -> None:
    profile = default_profile("Some-Package")
    assert classify_paths(["some_package/a.py"], profile.rules).route is Route.OVERLAY
    assert classify_paths(["src/some_package/a.c"], profile.rules).route is Route.NATIVE
    assert profile.build.version_variable == "SETUPTOOLS_SCM_PRETEND_VERSION"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[rules", "W: "),
        ("[rules]\nnativ = []", "W: rules.nativ is not a word"),
        ("rules = 1", "W: rules cannot be 1"),
        ("[rules]\nnative = [1]", r"W: rules.native cannot be \[1\]"),
        ("[build]\nmemory-per-job-gib = true", "W: build.memory-per-job-gib cannot be True"),
        ("[build]\nenvironment = { A = 1 }", "W: build.environment cannot be"),
        ("[[build.archs]]\ncuda-from = 'new'", "W: build.archs.cuda-from cannot be 'new'"),
        ("[metadata]\nstub = {}", "W: metadata.stub is not a word"),
    ],
)
def test_names_what_is_wrong_in_the_file(text: str, problem: str) -> None:
    with pytest.raises(PatchsetError, match=problem):
        parse_profile(text, where="W")
