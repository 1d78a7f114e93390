"""The static index, judged by pip and uv over HTTP and from the file system."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from packaging.version import Version

from forktool.adapters.wheel_index import write_index
from forktool.adapters.wheel_overlay import overlay
from forktool.errors import IntegrityError, RequestError
from tests.support.wheels import make_wheel

UV = shutil.which("uv") or shutil.which("uv", path=str(Path(sys.executable).parent))
CLEAN = {name: text for name, text in os.environ.items() if not name.startswith(("PIP_", "UV_"))} | {
    "PIP_CONFIG_FILE": os.devnull,
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "UV_NO_CONFIG": "1",
}
VERSION = "1.2.0+kimi.1.gabcdef0123"


@pytest.fixture
def dist(tmp_path: Path) -> Path:
    folder = tmp_path / "dist"
    folder.mkdir()
    source = make_wheel(tmp_path, tag="py3-none-any")
    overlay(source, folder, changes={"acme/gate.py": b"patched = 1\n"}, version=Version(VERSION))
    return folder


@pytest.fixture
def served(dist: Path) -> Iterator[tuple[str, list[str]]]:
    """The folder over HTTP: the index's URL, and the paths that were asked for."""
    asked: list[str] = []

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            asked.append(self.path)

    write_index(dist)
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(dist)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/simple/", asked
    server.shutdown()
    thread.join()
    server.server_close()


def installed(folder: Path) -> str:
    assert (folder / "acme" / "gate.py").read_bytes() == b"patched = 1\n"
    return next(folder.glob("acme-*.dist-info")).name


def pip(index: str, target: Path) -> None:
    command = [sys.executable, "-m", "pip", "install", "--no-cache-dir", "--index-url", index]
    result = subprocess.run(
        [*command, "--target", target, "acme==1.2.0"], capture_output=True, text=True, env=CLEAN
    )
    assert result.returncode == 0, result.stderr


def uv(index: str, target: Path) -> None:
    assert UV is not None
    command = [UV, "pip", "install", "--no-cache", "--python", sys.executable, "--index-url", index]
    result = subprocess.run(
        [*command, "--target", target, "acme==1.2.0"], capture_output=True, text=True, env=CLEAN
    )
    assert result.returncode == 0, result.stderr


def test_pip_installs_over_http_and_takes_the_metadata_file(
    served: tuple[str, list[str]], tmp_path: Path
) -> None:
    pip(served[0], tmp_path / "site")
    assert installed(tmp_path / "site") == f"acme-{VERSION}.dist-info"
    assert any(path.endswith(".whl.metadata") for path in served[1])


def test_pip_installs_from_a_folder(dist: Path, tmp_path: Path) -> None:
    index = write_index(dist)
    pip(index.root.resolve().as_uri(), tmp_path / "site")
    assert installed(tmp_path / "site") == f"acme-{VERSION}.dist-info"


@pytest.mark.skipif(UV is None, reason="uv is not installed")
def test_uv_installs_over_http_and_takes_the_metadata_file(
    served: tuple[str, list[str]], tmp_path: Path
) -> None:
    uv(served[0], tmp_path / "site")
    assert installed(tmp_path / "site") == f"acme-{VERSION}.dist-info"
    assert any(path.endswith(".whl.metadata") for path in served[1])


@pytest.mark.skipif(UV is None, reason="uv is not installed")
def test_uv_installs_from_a_folder(dist: Path, tmp_path: Path) -> None:
    index = write_index(dist)
    uv(index.root.resolve().as_uri(), tmp_path / "site")
    assert installed(tmp_path / "site") == f"acme-{VERSION}.dist-info"


def test_states_hash_size_and_metadata(dist: Path) -> None:
    wheel = next(dist.glob("*.whl"))
    index = write_index(dist)
    sha256 = hashlib.sha256(wheel.read_bytes()).hexdigest()
    metadata = hashlib.sha256(Path(f"{wheel}.metadata").read_bytes()).hexdigest()
    document = json.loads((index.root / "acme" / "index.json").read_bytes())
    name = f"acme-{VERSION}-py3-none-any.whl"
    assert document["meta"] == {"api-version": "1.1"}
    assert document["versions"] == [VERSION]
    assert document["files"] == [
        {
            "filename": name,
            "url": f"../../{name.replace('+', '%2B')}",
            "hashes": {"sha256": sha256},
            "size": wheel.stat().st_size,
            "core-metadata": {"sha256": metadata},
            "requires-python": ">=3.8",
        }
    ]
    page = (index.root / "acme" / "index.html").read_text(encoding="utf-8")
    assert f'href="../../{name.replace("+", "%2B")}#sha256={sha256}"' in page
    assert f'data-core-metadata="sha256={metadata}"' in page
    assert 'data-requires-python="&gt;=3.8"' in page
    assert json.loads((index.root / "index.json").read_bytes())["projects"] == [{"name": "acme"}]


def test_forgets_wheels_that_are_gone_and_leaves_what_is_not_its_own(dist: Path, tmp_path: Path) -> None:
    write_index(dist)
    own = dist / "simple" / "own"
    own.mkdir()
    (own / "index.html").write_text("mine", encoding="utf-8")
    (dist / "simple" / "acme").rename(dist / "simple" / "gone")
    for path in dist.glob("*.whl"):
        path.unlink()
    make_wheel(dist, tag="py3-none-any", version="2.0.0")
    index = write_index(dist)
    assert sorted(path.name for path in index.root.iterdir()) == ["acme", "index.html", "index.json", "own"]
    assert [path.name for path in dist.glob("*.metadata")] == ["acme-2.0.0-py3-none-any.whl.metadata"]


def test_sorts_versions_as_versions(dist: Path) -> None:
    for version in ("1.10.0", "1.9.0"):
        make_wheel(dist, tag="py3-none-any", version=version)
    index = write_index(dist)
    assert [str(wheel.name.version) for wheel in index.wheels if wheel.name.version.local is None] == [
        "1.10.0",
        "1.9.0",
    ]
    document = json.loads((index.root / "acme" / "index.json").read_bytes())
    assert document["versions"] == [VERSION, "1.9.0", "1.10.0"]


def test_refuses_a_folder_without_wheels_and_damaged_wheels(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="no wheels in"):
        write_index(tmp_path)
    with pytest.raises(RequestError, match="not a folder"):
        write_index(tmp_path / "none")
    path = make_wheel(tmp_path)
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(IntegrityError, match="damaged"):
        write_index(tmp_path)
