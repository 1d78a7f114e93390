"""The metadata hook on a project whose backend lies in its own tree, so that nothing is downloaded."""

from __future__ import annotations

from pathlib import Path

import pytest
from packaging.version import Version

from forktool.adapters.build_backend import Described, describe_trees, patched_metadata, run_build
from forktool.core.wheel_plan import BuildPlan, BuildProfile
from forktool.errors import OutsideError, PatchsetError, ToolMissingError

BACKEND = """
import os
from pathlib import Path

import heavy

def get_requires_for_build_wheel(config_settings=None):
    return ["skipped-thing==1"]

def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    folder = Path(metadata_directory, "acme-1.dist-info")
    folder.mkdir()
    requires = Path("requires.txt").read_text().split()
    lines = ["Metadata-Version: 2.1", "Name: acme", f"Version: {os.environ['ACME_VERSION']}"]
    lines += [f"Summary: {heavy.DEVICE} {os.environ['DEVICE']}"]
    lines += [f"Requires-Dist: {name}" for name in requires]
    (folder / "METADATA").write_text("\\n".join(lines) + "\\n")
    if Path("entry_points.txt").is_file():
        (folder / "entry_points.txt").write_text(Path("entry_points.txt").read_text())
    return folder.name

def build_wheel(*arguments):
    raise RuntimeError("not to be built")
"""
PROFILE = BuildProfile(
    version_variable="ACME_VERSION",
    metadata_environment={"DEVICE": "cuda"},
    metadata_skips=("skipped-thing", "torch"),
    stubs={"heavy/__init__.py": "DEVICE = 'stub'\n"},
)


def tree(folder: Path, requires: str, *, entry_points: str | None = None, backend: str = BACKEND) -> Path:
    folder.mkdir()
    (folder / "pyproject.toml").write_text(
        '[build-system]\nrequires = ["torch==2.9.1"]\nbuild-backend = "backend"\nbackend-path = ["."]\n',
        encoding="utf-8",
    )
    (folder / "backend.py").write_text(backend, encoding="utf-8")
    (folder / "requires.txt").write_text(requires, encoding="utf-8")
    if entry_points is not None:
        (folder / "entry_points.txt").write_text(entry_points, encoding="utf-8")
    return folder


def metadata(*requires: str, summary: str = "stub cuda") -> bytes:
    lines = ["Metadata-Version: 2.1", "Name: acme", "Version: 1.2.0", f"Summary: {summary}"]
    return "\n".join([*lines, *(f"Requires-Dist: {name}" for name in requires), ""]).encode()


def test_only_what_the_patches_change_differs(tmp_path: Path) -> None:
    bare = tree(tmp_path / "bare", "torch==2.9.1 tiktoken>=0.6")
    patched = tree(
        tmp_path / "patched", "torch==2.9.1 tiktoken>=0.7", entry_points="[console_scripts]\nrun = a:b\n"
    )
    published = Described(
        metadata=metadata("torch==2.10", "tiktoken>=0.6", summary="theirs"), entry_points=None
    )
    found = patched_metadata(
        published, bare=bare, patched=patched, profile=PROFILE, version=Version("1.2.0"), where="W"
    )
    assert found.metadata == metadata("torch==2.10", "tiktoken>=0.7", summary="theirs")
    assert found.entry_points == b"[console_scripts]\nrun = a:b\n"


def test_the_hook_sees_the_version_the_stubs_and_the_environment(tmp_path: Path) -> None:
    found = describe_trees([tree(tmp_path / "a", "x")], profile=PROFILE, version=Version("1.2.0"))
    assert found == (Described(metadata=metadata("x"), entry_points=None),)


def test_a_hook_that_fails_is_one_line(tmp_path: Path) -> None:
    broken = tree(tmp_path / "a", "x", backend="raise RuntimeError('no torch here')\n")
    with pytest.raises(PatchsetError, match="cannot describe the tree: RuntimeError: no torch here"):
        describe_trees([broken], profile=PROFILE, version=Version("1.2.0"))


def test_a_backend_without_the_hook_is_named(tmp_path: Path) -> None:
    without = tree(tmp_path / "a", "x", backend="def build_wheel(*arguments):\n    raise RuntimeError\n")
    with pytest.raises(OutsideError, match="has no prepare_metadata_for_build_wheel"):
        describe_trees([without], profile=PROFILE, version=Version("1.2.0"))


def test_a_folder_without_a_project_is_named(tmp_path: Path) -> None:
    with pytest.raises(PatchsetError, match="no build backend"):
        describe_trees([tmp_path], profile=PROFILE, version=Version("1.2.0"))


def plan(*argv: str, missing: tuple[str, ...] = ()) -> BuildPlan:
    return BuildPlan(environment=(("ANSWER", "42"),), argv=argv, reasons=(), missing=missing)


def test_a_build_writes_its_log(tmp_path: Path) -> None:
    log = tmp_path / "logs" / "build.log"
    run_build(plan("sh", "-c", "echo $ANSWER; pwd; echo err >&2"), tree=tmp_path, log=log)
    assert log.read_text(encoding="utf-8") == f"42\n{tmp_path}\nerr\n"


def test_a_build_that_fails_names_its_log(tmp_path: Path) -> None:
    log = tmp_path / "build.log"
    with pytest.raises(OutsideError, match=r"exit status 3\): no compiler") as caught:
        run_build(plan("sh", "-c", "echo no compiler; exit 3"), tree=tmp_path, log=log)
    assert caught.value.hint == f"less {log}"


def test_a_build_that_lacks_something_does_not_start(tmp_path: Path) -> None:
    log = tmp_path / "build.log"
    with pytest.raises(ToolMissingError, match="a source build needs nvcc on PATH; a GPU"):
        run_build(plan("true", missing=("nvcc on PATH", "a GPU")), tree=tmp_path, log=log)
    assert not log.exists()
