"""The series in patchset/ is an ordinary one: quilt and git apply it to the unpacked release."""

from __future__ import annotations

import os
import shutil
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from forktool.adapters.http import Http
from forktool.adapters.package_index import PackageIndex
from forktool.adapters.state import State
from tests.support.story import Result

pytestmark = [pytest.mark.upstream, pytest.mark.xdist_group("upstream")]
PATCHSET = Path(__file__).parents[2] / "patchset"


@pytest.fixture
def release(index: str, tmp_path: Path) -> Path:
    """The unpacked source distribution of v0.16.0."""
    http = Http()
    releases = PackageIndex(http=http, state=State(tmp_path / "index"), url=index).releases("vllm")
    sdist = next(release.sdist for release in releases if str(release.version) == "0.16.0")
    assert sdist is not None
    archive = tmp_path / sdist.filename
    http.download(sdist.url, archive, sha256=sdist.sha256, size=sdist.size)
    http.close()
    with tarfile.open(archive) as source:
        source.extractall(tmp_path, filter="data")
    return tmp_path / "vllm-0.16.0"


def changed(release: Path, applied: Path) -> None:
    """Every file that the series touches is as forktool applies it."""
    names = subprocess.run(
        ["git", "diff", "--name-only", "v0.16.0", "forktool"],
        cwd=applied,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    assert len(names) >= 5
    for name in names:
        assert (release / name).read_bytes() == (applied / name).read_bytes(), name


def test_quilt_applies_the_series(release: Path, tmp_path: Path, forktool: Callable[..., Result]) -> None:
    if shutil.which("quilt") is None:
        pytest.skip("quilt is not installed")
    assert forktool("apply", str(tmp_path / "applied")).code == 0

    environment = {**os.environ, "QUILT_PATCHES": str(PATCHSET)}
    done = subprocess.run(
        ["quilt", "push", "-a"], cwd=release, env=environment, capture_output=True, text=True
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "fuzz" not in done.stdout
    assert "offset" not in done.stdout
    changed(release, tmp_path / "applied")


def test_git_am_applies_the_series(release: Path, tmp_path: Path, forktool: Callable[..., Result]) -> None:
    assert forktool("apply", str(tmp_path / "applied")).code == 0
    series = [
        line for line in (PATCHSET / "series").read_text().split("\n") if line and not line.startswith("#")
    ]
    git = ["git", "-c", "user.name=T", "-c", "user.email=t@example.org"]
    for command in (["init", "--quiet"], ["add", "--all"], ["commit", "--quiet", "--message", "base"]):
        subprocess.run([*git, *command], cwd=release, check=True)

    done = subprocess.run(
        [*git, "am", "--keep-non-patch", *(str(PATCHSET / name) for name in series)],
        cwd=release, capture_output=True, text=True,
    )  # fmt: skip

    assert done.returncode == 0, done.stdout + done.stderr
    changed(release, tmp_path / "applied")
    subjects = subprocess.run(
        ["git", "log", "--format=%s", "--reverse", "-5"],
        cwd=release,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    assert subjects[0] == "[Spec Decode] Accept DeepSeek-V3 and Kimi-K2 as EAGLE-3 targets"
