"""Real vLLM releases from the package index."""

from __future__ import annotations

import hashlib
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from forktool.adapters.console import Console
from forktool.adapters.git_store import GitStore
from forktool.adapters.http import Http
from forktool.adapters.package_index import PackageIndex, index_url
from forktool.adapters.state import State
from forktool.adapters.upstream import Upstream
from forktool.core.objects import Entry, Mode, blob_id
from forktool.core.upstream_config import UpstreamConfig
from forktool.core.versions import between
from forktool.errors import NetworkError, RequestError

pytestmark = pytest.mark.upstream

CONFIG = UpstreamConfig(package="vllm", generated=("vllm/_version.py",))
PATHS = (
    "vllm/config/speculative.py",
    "vllm/model_executor/models/deepseek_v2.py",
    "vllm/model_executor/models/kimi_k25.py",
    "vllm/model_executor/models/interfaces.py",
    "vllm/model_executor/layers/rotary_embedding/base.py",
    "vllm/v1/attention/backends/utils.py",
    "vllm/v1/attention/backends/flash_attn.py",  # executable in the sdist, not in the wheel
)


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> State:
    made = State(tmp_path_factory.mktemp("state"))
    http = Http(timeout=(5, 10))
    try:
        PackageIndex(http=http, state=made, url=index_url(None)).releases("vllm")
    except NetworkError as error:
        pytest.skip(f"the package index is not reachable: {error.message}")
    finally:
        http.close()
    return made


@pytest.fixture
def upstream(state: State) -> Iterator[Upstream]:
    with (
        GitStore(state.directory() / "upstream.git") as store,
        Upstream(CONFIG, state=state, store=store, console=Console()) as made,
    ):
        yield made


def _unpacked(archive: Path) -> dict[str, Entry]:
    """The archive's files by tar's own account, without what we know to be generated in it."""
    found = {}
    with tarfile.open(archive) as opened:
        for member in opened:
            path = member.name.partition("/")[2]
            stream = opened.extractfile(member)
            if stream is not None:
                mode = Mode.EXECUTABLE if member.mode & 0o100 else Mode.FILE
                found[path] = Entry(mode, blob_id(stream.read()))
    for path in list(found):
        if path in {"PKG-INFO", "setup.cfg", "vllm/_version.py"} or path.startswith("vllm.egg-info/"):
            del found[path]
    return found


def test_an_sdist_becomes_the_tree_it_holds(upstream: Upstream, state: State, tmp_path: Path) -> None:
    release = next(
        item for item in upstream_index(upstream, state).known("vllm") if str(item.version) == "0.16.0"
    )
    assert release.sdist is not None
    archive = tmp_path / release.sdist.filename
    upstream.http.download(release.sdist.url, archive, sha256=release.sdist.sha256, size=release.sdist.size)
    assert hashlib.sha256(archive.read_bytes()).hexdigest() == (
        "1f684bb31fbef59d862e2fe666e23a41f1d39d93f86215ce1ce1db89a8f5665b"
    )
    # The same on every machine: this is the id, for good.
    assert upstream.commit("v0.16.0") == "58322f01834806215a848a51f81b3a00c45dda25"
    tree = upstream.tree("v0.16.0")
    assert tree.root == "a6a0368e0226280697639297c1e6d9b077ebac79"
    expected = _unpacked(archive)
    assert len(expected) == 3988
    assert {path: tree.entry(path) for path in expected} == expected


def upstream_index(upstream: Upstream, state: State) -> PackageIndex:
    return PackageIndex(http=upstream.http, state=state, url=index_url(None))


@pytest.mark.parametrize("tag", ["v0.16.0", "v0.33.0"])
def test_the_wheel_says_what_the_sdist_says(upstream: Upstream, state: State, tag: str) -> None:
    with GitStore(state.home / "none.git") as nothing:
        light = Upstream(CONFIG, state=state, store=nothing, console=Console())
        found = light.light_tree(tag, PATHS, modes={PATHS[-1]: Mode.EXECUTABLE})
        entries = [found.entry(path) for path in PATHS]
        contents = [found.read(path) for path in PATHS]
        light.close()
    whole = upstream.tree(tag)
    assert entries == [whole.entry(path) for path in PATHS]
    assert contents == [whole.read(path) for path in PATHS]
    assert sum(entry is not None for entry in entries) >= 6


def test_the_release_that_was_never_made(upstream: Upstream) -> None:
    with pytest.raises(RequestError) as caught:
        upstream.tree("v0.16.2")
    assert caught.value.message == "v0.16.2 is not a release of vllm; nearest: v0.16.0, v0.17.0"


def test_a_release_without_an_sdist(upstream: Upstream) -> None:
    with pytest.raises(RequestError, match=r"vllm 0\.15\.0 has no source distribution"):
        upstream.tree("v0.15.0")


def test_every_release_by_range_within_its_budget(tmp_path: Path, state: State) -> None:
    cold = State(tmp_path / "cold")

    def ask() -> tuple[float, int, list[bytes | None]]:
        started = time.monotonic()
        with (
            GitStore(cold.home / "upstream.git") as store,
            Upstream(CONFIG, state=cold, store=store, console=Console()) as upstream,
        ):
            tags = ("v0.16.0", *between("v0.16.0..v0.33.0", upstream.tags(), upstream.pattern, name="vllm"))
            assert len(tags) == 26
            contents = [tree.read(PATHS[0]) for tree in upstream.light_trees(tags, PATHS)]
            received = upstream.http.received
        return time.monotonic() - started, received, contents

    seconds, received, contents = ask()
    assert all(content and b"class SpeculativeConfig" in content for content in contents)
    assert received <= 40_000_000
    assert seconds <= 20
    again, received, _same = ask()
    assert received <= 1_000_000, "the listing alone"
    assert again <= 2
