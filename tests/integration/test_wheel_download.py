from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.version import Version

from forktool.adapters.console import Console
from forktool.adapters.http import Http
from forktool.adapters.package_index import PackageIndex
from forktool.adapters.state import State
from forktool.adapters.wheel_download import PublishedWheel, fetch_wheel, local_wheel
from forktool.errors import IntegrityError, NetworkError, RequestError
from tests.support.index_server import IndexServer
from tests.support.wheels import make_wheel


@pytest.fixture
def server(tmp_path: Path) -> Iterator[IndexServer]:
    with IndexServer().running() as index:
        wheel = make_wheel(tmp_path, tag="py3-none-any")
        index.add("acme", wheel.name, wheel.read_bytes())
        index.add("acme", "acme-1.2.0-2-py3-none-any.whl", b"the second build")
        index.add("acme", "acme-1.2.0-cp27-cp27m-win32.whl", b"for another machine")
        index.add("acme", "acme-1.3.0-cp27-cp27m-win32.whl", b"for another machine")
        yield index


class Fetcher:
    def __init__(self, server: IndexServer, home: Path) -> None:
        self.server = server
        self.home = home

    def __call__(self, version: str, *, offline: bool = False) -> PublishedWheel:
        http, state = Http(timeout=(2, 2), offline=offline), State(self.home)
        try:
            return fetch_wheel(
                PackageIndex(http=http, state=state, url=self.server.url),
                http,
                state,
                Console(stderr=io.StringIO()),
                project="Acme",
                version=Version(version),
            )
        finally:
            http.close()


@pytest.fixture
def fetch(server: IndexServer, tmp_path: Path) -> Fetcher:
    return Fetcher(server, tmp_path / "state")


def test_takes_the_highest_build_and_keeps_it(fetch: Fetcher) -> None:
    found = fetch("1.2.0")
    assert found.path.name == "acme-1.2.0-2-py3-none-any.whl"
    assert found.path.read_bytes() == b"the second build"
    assert fetch("1.2.0") == found
    assert len(fetch.server.asked_for(found.path.name)) == 1
    assert fetch("1.2.0", offline=True) == found


def test_downloads_again_what_was_damaged(fetch: Fetcher) -> None:
    found = fetch("1.2.0")
    found.path.write_bytes(b"the second bu1ld")
    assert fetch("1.2.0") == found
    assert found.path.read_bytes() == b"the second build"


def test_refuses_what_the_index_did_not_promise(fetch: Fetcher) -> None:
    fetch.server.files["acme"]["acme-1.2.0-2-py3-none-any.whl"].listed_sha256 = "0" * 64
    with pytest.raises(IntegrityError):
        fetch("1.2.0")
    assert not list(fetch.home.glob("downloads/*/*.whl"))


def test_names_the_wheels_that_do_not_fit_this_machine(fetch: Fetcher) -> None:
    with pytest.raises(RequestError, match=r"it has acme-1\.3\.0-cp27-cp27m-win32\.whl") as caught:
        fetch("1.3.0")
    assert caught.value.hint is not None
    assert "--wheel FILE" in caught.value.hint


def test_says_that_there_is_no_such_release(fetch: Fetcher) -> None:
    with pytest.raises(RequestError, match=r"has no Acme 9\.0"):
        fetch("9.0")


def test_offline_needs_what_was_fetched_before(fetch: Fetcher) -> None:
    with pytest.raises(NetworkError):
        fetch("1.2.0", offline=True)


def test_a_wheel_of_the_users_own_is_hashed(tmp_path: Path) -> None:
    path = make_wheel(tmp_path)
    assert len(local_wheel(path).sha256) == 64
    with pytest.raises(RequestError, match="is not a file"):
        local_wheel(tmp_path / "none.whl")
