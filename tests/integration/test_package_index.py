from __future__ import annotations

import hashlib
import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name

from forktool.adapters.http import Answer, Http, OfflineError, StatusError
from forktool.adapters.package_index import IndexFile, PackageIndex, Release, canonical_name, index_url
from forktool.adapters.state import State
from forktool.errors import NetworkError, OutsideError, RequestError
from tests.support.index_server import IndexServer


@pytest.fixture
def server() -> Iterator[IndexServer]:
    with IndexServer().running() as index:
        index.add("demo", "demo-1.10.0.tar.gz", b"ten")
        index.add("demo", "demo-1.9.0.tar.gz", b"nine")
        index.add("demo", "demo-1.9.0-py3-none-any.whl", b"nine's wheel")
        index.add("demo", "demo-1.11.0-py3-none-any.whl", b"no sdist")
        index.add("demo", "demo-1.12.0.tar.gz", b"taken back", yanked="it eats files")
        index.add("demo", "demo-1.13.0.tar.gz", b"taken back", yanked=True)
        index.add("demo", "demo-1.13.0-py3-none-any.whl", b"not taken back")
        index.add("demo", "demo-1.9.0.zip", b"legacy")
        index.add("demo", "demo-1.9.0-py2.7.egg", b"legacy")
        index.add("demo", "demo-nonsense.tar.gz", b"legacy")
        index.add("demo", "demo_extras-1.0.tar.gz", b"another project")
        yield index


@pytest.fixture
def http() -> Iterator[Http]:
    made = Http(timeout=(2, 2))
    yield made
    made.close()


def _index(server: IndexServer, http: Http, home: Path) -> PackageIndex:
    return PackageIndex(http=http, state=State(home), url=server.url)


@pytest.mark.parametrize("no_json", [False, True])
def test_releases_by_version_with_their_files(
    server: IndexServer, http: Http, tmp_path: Path, *, no_json: bool
) -> None:
    server.faults.no_json = no_json
    releases = _index(server, http, tmp_path).releases("Demo")
    assert [str(release.version) for release in releases] == ["1.9.0", "1.10.0", "1.11.0", "1.12.0", "1.13.0"]
    nine, _ten, eleven, twelve, thirteen = releases
    assert nine.sdist is not None
    assert nine.sdist == IndexFile(
        filename="demo-1.9.0.tar.gz",
        url=server.file_url("demo", "demo-1.9.0.tar.gz"),
        sha256=hashlib.sha256(b"nine").hexdigest(),
        size=None if no_json else 4,
        yanked=None,
    )
    assert eleven.sdist is None
    assert twelve.yanked == "it eats files"
    # One file that is not yanked keeps the release (PEP 592).
    assert thirteen.yanked is None
    assert thirteen.sdist is not None
    assert thirteen.sdist.yanked == ""
    assert {item.agent for item in server.asked} == {"forktool/0.1.0"}


def test_the_listing_is_asked_once_a_run_and_kept(server: IndexServer, http: Http, tmp_path: Path) -> None:
    index = _index(server, http, tmp_path)
    assert index.known("demo") == ()
    releases = index.releases("demo")
    assert index.releases("demo") is releases
    assert len(server.asked) == 1
    again = _index(server, http, tmp_path)
    assert again.known("demo") == releases
    assert again.listed_at("demo") is not None
    assert len(server.asked) == 1
    # The next run asks whether it has changed, and gets no body.
    received = http.received
    assert again.releases("demo") == releases
    assert server.asked[-1].if_none_match is not None
    assert http.received == received
    server.add("demo", "demo-2.0.tar.gz", b"new")
    assert str(_index(server, http, tmp_path).releases("demo")[-1].version) == "2.0"


def test_offline_answers_from_what_was_kept(server: IndexServer, http: Http, tmp_path: Path) -> None:
    releases = _index(server, http, tmp_path).releases("demo")
    offline = _index(server, Http(offline=True), tmp_path)
    assert offline.releases("demo") == releases
    assert len(server.asked) == 1
    with pytest.raises(OfflineError, match="--offline forbids it"):
        offline.releases("other")


def test_a_project_that_is_not_there(server: IndexServer, http: Http, tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="absent is not on the package index") as caught:
        _index(server, http, tmp_path).releases("absent")
    assert caught.value.exit_code == 2


def test_a_server_error_is_tried_again_and_then_told(server: IndexServer, http: Http, tmp_path: Path) -> None:
    server.faults.status["demo"] = [503, 503]
    assert _index(server, http, tmp_path).releases("demo")
    server.faults.status["demo"] = [500]
    with pytest.raises(StatusError, match="HTTP 500"):
        _index(server, http, tmp_path).releases("demo")


def test_no_network(http: Http, tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    index = PackageIndex(http=http, state=State(tmp_path), url=f"http://127.0.0.1:{port}/simple")
    with pytest.raises(NetworkError, match=r"cannot reach 127\.0\.0\.1: .*refused") as caught:
        index.releases("demo")
    assert caught.value.exit_code == 4
    assert not list(tmp_path.rglob("*.json"))


@pytest.mark.parametrize("url", ["file:///srv/simple", "ftp://127.0.0.1/simple", "simple"])
def test_an_index_that_is_not_http(http: Http, tmp_path: Path, url: str) -> None:
    with pytest.raises(RequestError, match="is not an http or https URL"):
        PackageIndex(http=http, state=State(tmp_path), url=url).releases("demo")


@pytest.mark.parametrize("content_type", ["application/json", "text/plain"])
def test_an_answer_that_is_no_listing_is_not_kept(tmp_path: Path, content_type: str) -> None:
    class Plain(Http):
        def get(self, url: str, **_options: object) -> Answer:
            return Answer(url=url, body=b'{"message": "welcome"}', content_type=content_type, etag=None)

    with pytest.raises(OutsideError, match="not a listing of files") as caught:
        PackageIndex(http=Plain(), state=State(tmp_path), url="http://127.0.0.1/simple").releases("demo")
    assert caught.value.hint is not None
    assert not list(tmp_path.rglob("*.json"))


def test_credentials_go_to_the_index_and_into_no_file(
    server: IndexServer, http: Http, tmp_path: Path
) -> None:
    url = server.url.replace("//", "//user:secret@")
    for _run in range(2):
        index = PackageIndex(http=http, state=State(tmp_path), url=url)
        release = index.releases("demo")[0]
        assert release.sdist is not None
        assert release.sdist.url.startswith("http://user:secret@127.0.0.1")
    assert server.asked[0].authorization is not None
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and b"secret" in path.read_bytes()]
    with pytest.raises(RequestError) as caught:
        index.releases("absent")
    assert "secret" not in caught.value.message


def test_a_kept_listing_that_is_broken_is_asked_again(
    server: IndexServer, http: Http, tmp_path: Path
) -> None:
    _index(server, http, tmp_path).releases("demo")
    [kept] = (tmp_path / "index").glob("*.json")
    kept.write_text(json.dumps({"url": "x"}))
    assert _index(server, http, tmp_path).known("demo") == ()
    assert _index(server, http, tmp_path).releases("demo")


def test_which_index() -> None:
    assert index_url(None, {}) == "https://pypi.org/simple"
    assert index_url(None, {"PIP_INDEX_URL": "http://p/s/", "UV_INDEX_URL": ""}) == "http://p/s"
    assert index_url(None, {"PIP_INDEX_URL": "http://p", "FORKTOOL_INDEX_URL": "http://f"}) == "http://f"
    assert index_url(None, {"UV_DEFAULT_INDEX": "ours=http://u/simple?a=b"}) == "http://u/simple?a=b"
    assert index_url("http://mine/simple", {"FORKTOOL_INDEX_URL": "http://f"}) == "http://mine/simple"


def _release(*names: str, yanked: str = "") -> Release:
    from packaging.version import Version

    files = tuple(
        IndexFile(
            filename=name,
            url=f"http://x/{name}",
            sha256=None,
            size=None,
            yanked="" if name == yanked else None,
        )
        for name in names
    )
    return Release(version=Version("0.20.1"), files=files)


def test_the_wheel_to_read_is_the_highest_build_for_linux() -> None:
    x86 = "vllm-0.20.1-cp38-abi3-manylinux_2_35_x86_64.whl"
    rebuilt = "vllm-0.20.1-1-cp38-abi3-manylinux_2_35_x86_64.whl"
    tenth = "vllm-0.20.1-10-cp38-abi3-manylinux_2_35_x86_64.whl"
    arm = "vllm-0.20.1-11-cp38-abi3-manylinux_2_35_aarch64.whl"
    pure = "vllm-0.20.1-py3-none-any.whl"

    def chosen(*names: str, yanked: str = "") -> str | None:
        found = _release(*names, "vllm-0.20.1.tar.gz", yanked=yanked).wheel_to_read()
        return found.filename if found is not None else None

    assert chosen(x86, rebuilt, tenth, arm) == tenth
    assert chosen(x86, rebuilt, tenth, arm, yanked=tenth) == rebuilt
    assert chosen(arm, "vllm-0.20.1-cp312-cp312-win_amd64.whl") == arm
    assert chosen(x86, pure) == pure
    assert chosen() is None


def test_the_wheel_to_run_is_the_best_for_the_machine() -> None:
    new = "vllm-0.20.1-cp38-abi3-manylinux_2_35_x86_64.whl"
    old = "vllm-0.20.1-1-cp38-abi3-manylinux_2_28_x86_64.whl"
    tags = ["cp38-abi3-manylinux_2_35_x86_64", "cp38-abi3-manylinux_2_28_x86_64"]
    release = _release(new, old)
    assert (found := release.wheel_to_run(tags)) is not None
    assert found.filename == new
    assert (found := release.wheel_to_run(tags[1:])) is not None
    assert found.filename == old
    assert release.wheel_to_run(["cp38-abi3-macosx_11_0_arm64"]) is None
    assert (found := _release("demo-0.20.1-py3-none-any.whl").wheel_to_run()) is not None


@pytest.mark.parametrize("name", ["vllm", "Zope.Interface", "a__b--c", "A-_.b"])
def test_names_are_spelled_as_packaging_spells_them(name: str) -> None:
    assert canonical_name(name) == canonicalize_name(name)
