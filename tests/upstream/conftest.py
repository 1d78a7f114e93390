"""Real vLLM releases, from the package index; skipped with the reason where it cannot be reached."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from forktool.adapters.package_index import index_url
from forktool.cli import main
from tests.support.story import Result

_PATCHSET = Path(__file__).parents[2] / "patchset"


@pytest.fixture(scope="session")
def index() -> str:
    """The package index's URL; the tests here are skipped where it does not answer."""
    url = index_url(None)
    try:
        answer = requests.head(f"{url}/vllm/", timeout=20)
    except requests.RequestException as error:
        pytest.skip(f"the package index {url} cannot be reached: {type(error).__name__}")
    if answer.status_code != requests.codes.ok:
        pytest.skip(f"the package index {url} answers {answer.status_code} for vllm")
    return url


@pytest.fixture(scope="session")
def fetched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A state folder in which releases are kept for all tests here."""
    kept = os.environ.get("FORKTOOL_TEST_CACHE")
    return Path(kept) / "state" if kept else tmp_path_factory.mktemp("state")


@pytest.fixture
def home(fetched: Path, tmp_path: Path) -> Iterator[Path]:
    """A state folder of the test's own, with what earlier tests fetched; what it fetches is kept for later ones."""
    own = tmp_path / "state"
    _share(fetched, own)
    yield own
    _share(own, fetched)


def _share(source: Path, target: Path) -> None:
    """Give one state folder what another has fetched: trees and downloads, no rebase in progress."""
    for name in ("upstream.git", "downloads", "index", "probes"):
        if (source / name).is_dir():
            shutil.copytree(source / name, target / name, copy_function=_link_or_copy, dirs_exist_ok=True)


def _link_or_copy(source: str, target: str) -> None:
    if Path(target).exists():
        if not source.endswith((".pack", ".idx", ".whl")):
            shutil.copy2(source, target)
    elif source.endswith((".pack", ".idx", ".whl")):
        os.link(source, target)
    else:
        shutil.copy2(source, target)


@pytest.fixture
def forktool(
    index: str, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Callable[..., Result]:
    """Run forktool on a copy of this repository's patchset, which is made anew for each test."""
    project = tmp_path / "project"
    shutil.copytree(_PATCHSET, project / "patchset", ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.chdir(project)
    monkeypatch.setenv("FORKTOOL_HOME", str(home))

    def run(*argv: str, **_: Any) -> Result:
        capfd.readouterr()
        code = main(argv)
        output = capfd.readouterr()
        return Result(code, output.out, output.err)

    return run
