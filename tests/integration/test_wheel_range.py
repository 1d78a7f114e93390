from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from forktool.adapters.http import Http, NoRangeError, OfflineError
from forktool.adapters.package_index import IndexFile
from forktool.adapters.state import State
from forktool.adapters.wheel_range import NotInWheelError, WheelTree
from forktool.core.objects import Entry, Mode, blob_id
from forktool.errors import IntegrityError, NetworkError
from tests.support.archives import wheel
from tests.support.index_server import IndexServer

NAME = "demo-1.0-py3-none-any.whl"
SOURCE = b"".join(b"line %d of it\n" % number for number in range(400))
FILES = {
    "demo/__init__.py": b"",
    "demo/a.py": SOURCE,
    "demo/run": b"#!/bin/sh\n",
    "demo/_version.py": b"1.0",
    "demo/kernels.so": os.urandom(400_000),
    "demo/sub/b.py": b"b\n",
    "demo/configs/c.json": b"{}",
}


@pytest.fixture
def server() -> Iterator[IndexServer]:
    with IndexServer().running() as index:
        index.add("demo", NAME, wheel("demo", "1.0", FILES, executable=["demo/run"]))
        yield index


@pytest.fixture
def http() -> Iterator[Http]:
    made = Http(timeout=(2, 2))
    yield made
    made.close()


def _file(server: IndexServer) -> IndexFile:
    content = server.files["demo"][NAME].content
    return IndexFile(
        filename=NAME,
        url=server.file_url("demo", NAME),
        sha256=hashlib.sha256(content).hexdigest(),
        size=len(content),
        yanked=None,
    )


def _tree(server: IndexServer, http: Http, home: Path) -> WheelTree:
    return WheelTree(
        http=http, state=State(home), file=_file(server), label="v1.0", generated=("demo/_version.py",)
    )


def test_files_come_by_range_as_they_are(server: IndexServer, http: Http, tmp_path: Path) -> None:
    tree = _tree(server, http, tmp_path)
    assert tree.label == "v1.0"
    assert tree.read("demo/a.py") == SOURCE
    assert tree.entry("demo/a.py") == Entry(Mode.FILE, blob_id(SOURCE))
    assert tree.entry("demo/run") == Entry(Mode.EXECUTABLE, blob_id(b"#!/bin/sh\n"))
    assert tree.read("demo/__init__.py") == b""
    assert all(item.range for item in server.asked)
    # The 400 kB beside them were not fetched, beyond the first read from the end.
    assert http.received < 50_000


def test_what_is_surely_not_there(server: IndexServer, http: Http, tmp_path: Path) -> None:
    tree = _tree(server, http, tmp_path)
    assert tree.entry("demo/gone.py") is None
    assert tree.read("demo/old/gone.py") is None
    assert tree.entry("demo/_version.py") is None, "the build adds it: it is not in the tree"
    assert tree.has_folder("demo/sub")
    assert not tree.has_folder("demo/old")


@pytest.mark.parametrize(
    "path",
    ["tests/test_a.py", "setup.py", "csrc/k.cu", "demo/configs/d.json", "demo/tests/test_a.py", "other/a.py"],
)
def test_what_a_wheel_cannot_tell(server: IndexServer, http: Http, tmp_path: Path, path: str) -> None:
    with pytest.raises(NotInWheelError, match=f"does not say whether v1.0 has {path}"):
        _tree(server, http, tmp_path).entry(path)


@pytest.mark.parametrize("path", ["tests", "csrc", "demo/tests", "other/a"])
def test_folders_that_a_wheel_cannot_tell(server: IndexServer, http: Http, tmp_path: Path, path: str) -> None:
    with pytest.raises(NotInWheelError):
        _tree(server, http, tmp_path).has_folder(path)


def test_asking_again_needs_no_network(server: IndexServer, http: Http, tmp_path: Path) -> None:
    first = _tree(server, http, tmp_path)
    first.prefetch(("demo/a.py", "demo/gone.py", "demo/a.py"))
    first.has_folder("demo/sub")
    first.close()
    assert first.read("demo/a.py") == SOURCE
    asked = len(server.asked)
    again = _tree(server, Http(offline=True), tmp_path)
    again.prefetch(("demo/a.py", "demo/gone.py"))
    assert again.read("demo/a.py") == SOURCE
    assert again.entry("demo/gone.py") is None
    assert again.has_folder("demo/sub")
    # The directory is kept: what it alone answers is answered too, and only a new file needs the network.
    assert again.entry("demo/other.py") is None
    with pytest.raises(OfflineError):
        again.read("demo/sub/b.py")
    assert len(server.asked) == asked
    online = _tree(server, http, tmp_path)
    assert online.read("demo/sub/b.py") == b"b\n"
    assert len(server.asked) == asked + 1


def test_a_large_directory_takes_a_second_request(server: IndexServer, http: Http, tmp_path: Path) -> None:
    many = {f"demo/module_with_a_long_name_{number:05}.py": b"" for number in range(1500)}
    server.add("demo", NAME, wheel("demo", "1.0", {**FILES, **many}))
    assert _tree(server, http, tmp_path).read("demo/a.py") == SOURCE
    assert len(server.asked) == 3
    again = _tree(server, http, tmp_path)
    assert again.read("demo/sub/b.py") == b"b\n"
    assert len(server.asked) == 4


def test_other_rules_for_generated_files_are_another_tree(
    server: IndexServer, http: Http, tmp_path: Path
) -> None:
    assert _tree(server, http, tmp_path).entry("demo/_version.py") is None
    bare = WheelTree(http=http, state=State(tmp_path), file=_file(server), label="v1.0")
    assert bare.read("demo/_version.py") == b"1.0"


def test_a_server_without_ranges(server: IndexServer, http: Http, tmp_path: Path) -> None:
    server.faults.no_ranges = True
    with pytest.raises(NoRangeError, match="sends no ranges"):
        _tree(server, http, tmp_path).read("demo/a.py")
    assert http.received == 0


def test_a_kept_answer_that_was_changed_is_not_believed(
    server: IndexServer, http: Http, tmp_path: Path
) -> None:
    _tree(server, http, tmp_path).read("demo/a.py")
    oid = blob_id(SOURCE)
    blob = tmp_path / "downloads" / "blobs" / oid[:2] / oid[2:]
    blob.write_bytes(b"something else")
    with pytest.raises(IntegrityError, match="has changed since it was written"):
        _tree(server, http, tmp_path).read("demo/a.py")
    assert _tree(server, http, tmp_path).read("demo/a.py") == SOURCE
    [answers] = (tmp_path / "downloads" / "ranges").glob("*.json")
    answers.write_bytes(b"{ torn")
    assert _tree(server, http, tmp_path).read("demo/a.py") == SOURCE
    blob.unlink()
    assert _tree(server, http, tmp_path).read("demo/a.py") == SOURCE


def test_a_wheel_with_wrong_bytes(server: IndexServer, http: Http, tmp_path: Path) -> None:
    content = bytearray(server.files["demo"][NAME].content)
    at = content.index(b"demo/a.py") + 40
    content[at : at + 20] = b"\xff" * 20
    server.add("demo", NAME, bytes(content))
    with pytest.raises(IntegrityError, match="is not a sound wheel"):
        _tree(server, http, tmp_path).read("demo/a.py")


def test_a_file_that_is_no_wheel(server: IndexServer, http: Http, tmp_path: Path) -> None:
    server.add("demo", NAME, b"nothing of the kind" * 100)
    with pytest.raises(IntegrityError, match="is not a sound wheel"):
        _tree(server, http, tmp_path).read("demo/a.py")


def test_a_server_that_breaks_off(server: IndexServer, http: Http, tmp_path: Path) -> None:
    server.faults.cut_after[NAME] = [100]
    with pytest.raises(NetworkError, match="broke off"):
        _tree(server, http, tmp_path).read("demo/a.py")
    assert _tree(server, http, tmp_path).read("demo/a.py") == SOURCE
