from __future__ import annotations

import io
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from forktool.adapters.console import Console
from forktool.adapters.git_store import GitStore
from forktool.adapters.http import Http, OfflineError
from forktool.adapters.state import State
from forktool.adapters.upstream import Upstream
from forktool.core.objects import Entry, Mode, blob_id
from forktool.core.upstream_config import SourceKind, UpstreamConfig
from forktool.core.versions import between
from forktool.errors import IntegrityError, NetworkError, RequestError
from tests.support.archives import sdist, wheel
from tests.support.index_server import IndexServer


def _files(version: str) -> dict[str, bytes]:
    return {
        "setup.py": b"from setuptools import setup\n",
        "demo/__init__.py": b"",
        "demo/a.py": f"VERSION = {version!r}\n".encode(),
        "demo/_version.py": version.encode(),
        "demo/steady.py": b"same\n" * 100,
        "tests/test_a.py": b"def test(): ...\n",
    }


def _add(server: IndexServer, version: str, *, has_sdist: bool = True, yanked: bool | str = False) -> None:
    files = _files(version)
    packaged = {path: content for path, content in files.items() if path.startswith("demo/")}
    packaged["demo/kernels.so"] = os.urandom(60_000)
    server.add("demo", f"demo-{version}-py3-none-any.whl", wheel("demo", version, packaged), yanked=yanked)
    if has_sdist:
        server.add("demo", f"demo-{version}.tar.gz", sdist("demo", version, files), yanked=yanked)


@pytest.fixture
def server() -> Iterator[IndexServer]:
    with IndexServer().running() as index:
        for version in ("0.16.0", "0.17.0", "0.17.1"):
            _add(index, version)
        _add(index, "0.15.0", has_sdist=False)
        _add(index, "0.18.0", yanked="wrong results")
        yield index


@pytest.fixture
def config(server: IndexServer) -> UpstreamConfig:
    return UpstreamConfig(package="demo", index_url=server.url, generated=("demo/_version.py",))


class Made(Upstream):
    said: io.StringIO


@pytest.fixture
def open_upstream(tmp_path: Path) -> Iterator[Callable[..., Made]]:
    opened: list[tuple[Made, GitStore]] = []

    def make(config: UpstreamConfig, *, home: Path | None = None, offline: bool = False) -> Made:
        state = State(home or tmp_path / "state")
        store = GitStore(state.directory() / "upstream.git")
        said = io.StringIO()
        made = Made(
            config,
            state=state,
            store=store,
            console=Console(stderr=said),
            http=Http(offline=offline, timeout=(2, 2)),
        )
        made.said = said
        opened.append((made, store))
        return made

    yield make
    for made, store in opened:
        made.close()
        store.close()


Opener = Callable[..., Made]


def _git_upstream(folder: Path, *versions: str) -> Path:
    folder.mkdir()
    env = {"PATH": os.environ["PATH"], "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull}
    identity = ("-c", "user.name=A", "-c", "user.email=a@example.org")

    def git(*args: str) -> None:
        subprocess.run(["git", *identity, *args], cwd=folder, env=env, check=True, capture_output=True)

    git("init", "-q")
    git("config", "uploadpack.allowFilter", "true")
    for version in versions:
        for path, content in _files(version).items():
            if path != "demo/_version.py":
                (folder / path).parent.mkdir(exist_ok=True)
                (folder / path).write_bytes(content)
        git("add", "-A")
        git("commit", "-q", "-m", version)
        git("tag", f"v{version}")
    return folder


def test_the_tags_of_the_index(open_upstream: Opener, config: UpstreamConfig) -> None:
    upstream = open_upstream(config)
    assert upstream.tags() == ("v0.15.0", "v0.16.0", "v0.17.0", "v0.17.1")
    assert upstream.newest() == "v0.17.1"
    assert between("v0.16.0..v0.17.1", upstream.tags(), upstream.pattern, name="demo") == (
        "v0.17.0",
        "v0.17.1",
    )


def test_a_release_becomes_a_commit_and_its_tree(
    open_upstream: Opener, config: UpstreamConfig, tmp_path: Path
) -> None:
    upstream = open_upstream(config)
    tree = upstream.tree("0.17.0")
    assert tree.label == "v0.17.0"
    assert tree.read("demo/a.py") == b"VERSION = '0.17.0'\n"
    assert tree.read("tests/test_a.py") == b"def test(): ...\n"
    assert tree.entry("demo/_version.py") is None
    assert tree.entry("PKG-INFO") is None
    assert upstream.prepare(("v0.16.0", "v0.17.0")) == {
        "v0.16.0": upstream.commit("v0.16.0"),
        "v0.17.0": upstream.commit("v0.17.0"),
    }
    assert not list((tmp_path / "state" / "downloads").iterdir()), "the archive is in the store now"


def test_the_same_commit_on_another_machine_in_another_order(
    open_upstream: Opener, config: UpstreamConfig, tmp_path: Path
) -> None:
    here = open_upstream(config, home=tmp_path / "here")
    there = open_upstream(config, home=tmp_path / "there")
    first = [here.commit(tag) for tag in ("v0.16.0", "v0.17.0")]
    assert [there.commit(tag) for tag in ("v0.17.0", "v0.16.0")] == first[::-1]


def test_a_second_run_asks_nothing_but_for_new_tags(
    open_upstream: Opener, config: UpstreamConfig, server: IndexServer
) -> None:
    first = open_upstream(config).prepare(("v0.16.0", "v0.17.0"))
    asked = len(server.asked)
    again = open_upstream(config)
    assert again.prepare(("v0.16.0", "0.17.0")) == first
    assert again.tree("v0.17.0").read("demo/a.py") is not None
    assert len(server.asked) == asked
    again.tags()
    again.newest()
    assert len(server.asked) == asked + 1
    offline = open_upstream(config, offline=True)
    assert offline.tags() == again.tags()
    assert offline.prepare(("v0.16.0",))["v0.16.0"] == first["v0.16.0"]
    assert len(server.asked) == asked + 1
    with pytest.raises(OfflineError, match="--offline forbids it"):
        offline.tree("v0.17.1")


def test_an_unknown_tag_names_its_neighbours(open_upstream: Opener, config: UpstreamConfig) -> None:
    with pytest.raises(RequestError) as caught:
        open_upstream(config).tree("v0.16.2")
    assert caught.value.message == "v0.16.2 is not a release of demo; nearest: v0.16.0, v0.17.0"
    assert (caught.value.exit_code, caught.value.hint) == (2, "use v0.17.0")
    with pytest.raises(RequestError, match=r"main is not a release of demo; nearest: v0\.17\.1"):
        open_upstream(config).resolve("main")


def test_a_new_tag_is_looked_for_when_it_is_not_known(
    open_upstream: Opener, config: UpstreamConfig, server: IndexServer
) -> None:
    open_upstream(config).tags()
    _add(server, "0.19.0")
    assert open_upstream(config).resolve("v0.19.0") == "v0.19.0"


def test_a_yanked_release_is_used_only_when_asked_for(open_upstream: Opener, config: UpstreamConfig) -> None:
    upstream = open_upstream(config)
    assert "v0.18.0" not in upstream.tags()
    assert upstream.resolve("v0.18.0") == "v0.18.0"
    assert upstream.tree("v0.18.0").read("demo/a.py") == b"VERSION = '0.18.0'\n"
    assert upstream.said.getvalue() == "warning: demo has taken v0.18.0 back (yanked): wrong results\n"


def test_a_release_without_an_sdist(open_upstream: Opener, config: UpstreamConfig, tmp_path: Path) -> None:
    with pytest.raises(RequestError) as caught:
        open_upstream(config).tree("v0.15.0")
    assert caught.value.message == (
        "no source has the tree of v0.15.0: demo 0.15.0 has no source distribution; no repository is configured"
    )
    assert caught.value.hint == 'set `repository`, and sources = ["sdist", "git"], in patchset.toml'
    both = replace(config, repository=str(_git_upstream(tmp_path / "git", "0.15.0", "0.16.0rc1")))
    upstream = open_upstream(both)
    assert upstream.tags()[:3] == ("v0.15.0", "v0.16.0rc1", "v0.16.0")
    assert upstream.tree("v0.15.0").read("demo/a.py") == b"VERSION = '0.15.0'\n"
    assert upstream.tree("v0.16.0rc1").read("demo/a.py") == b"VERSION = '0.16.0rc1'\n"


def test_the_order_of_the_sources_decides(
    open_upstream: Opener, config: UpstreamConfig, tmp_path: Path
) -> None:
    repository = str(_git_upstream(tmp_path / "git", "0.16.0", "0.17.0"))
    sdist_first = open_upstream(replace(config, repository=repository), home=tmp_path / "a")
    git_first = open_upstream(
        replace(config, repository=repository, sources=(SourceKind.GIT, SourceKind.SDIST)),
        home=tmp_path / "b",
    )
    one, other = sdist_first.tree("v0.16.0"), git_first.tree("v0.16.0")
    assert one.root == other.root, "one tree, by either way"
    assert sdist_first.commit("v0.16.0") != git_first.commit("v0.16.0")
    # What git does not have comes from the index.
    assert git_first.tree("v0.17.1").read("demo/a.py") == b"VERSION = '0.17.1'\n"


def test_git_alone(open_upstream: Opener, tmp_path: Path) -> None:
    repository = _git_upstream(tmp_path / "git", "1.0", "1.1")
    config = UpstreamConfig(repository=str(repository))
    upstream = open_upstream(config)
    assert upstream.tags() == ("v1.0", "v1.1")
    commits = upstream.prepare(("v1.0", "v1.1"), ("demo/a.py",))
    assert len(set(commits.values())) == 2
    [tree] = upstream.light_trees(("v1.1",), ("demo/a.py",))
    repository.rename(tmp_path / "gone")
    assert tree.read("demo/a.py") == b"VERSION = '1.1'\n"


def test_an_unreachable_source_is_passed_over_while_another_has_the_tree(
    open_upstream: Opener, config: UpstreamConfig, tmp_path: Path
) -> None:
    repository = _git_upstream(tmp_path / "git", "0.16.0", "0.17.0")
    both = replace(config, repository=str(repository), sources=(SourceKind.GIT, SourceKind.SDIST))
    open_upstream(both).tags()
    repository.rename(tmp_path / "gone")
    url = repository.as_uri()
    upstream = open_upstream(replace(both, repository=url))
    assert upstream.tree("v0.17.0").read("demo/a.py") == b"VERSION = '0.17.0'\n"


def test_no_source_at_all(open_upstream: Opener) -> None:
    with pytest.raises(RequestError, match="no upstream source is configured"):
        open_upstream(UpstreamConfig())
    with pytest.raises(RequestError, match="no upstream source is configured"):
        open_upstream(UpstreamConfig(repository="x", sources=(SourceKind.SDIST,)))


def test_no_network(open_upstream: Opener, config: UpstreamConfig, tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        dead = f"http://127.0.0.1:{free.getsockname()[1]}/simple"
    cold = open_upstream(replace(config, index_url=dead), home=tmp_path / "cold")
    with pytest.raises(NetworkError, match=r"cannot reach 127\.0\.0\.1") as caught:
        cold.tags()
    assert caught.value.exit_code == 4


def test_a_listing_that_cannot_be_renewed_is_used_with_a_warning(
    open_upstream: Opener, config: UpstreamConfig, server: IndexServer
) -> None:
    tags = open_upstream(config).tags()
    server.faults.status["demo"] = [500, 500]
    upstream = open_upstream(config)
    assert upstream.tags() == tags
    assert upstream.tags() == tags
    assert upstream.said.getvalue().startswith("warning: ")
    assert upstream.said.getvalue().count("HTTP 500") == 1
    assert "new tags are not seen" in upstream.said.getvalue()


@pytest.mark.parametrize("fault", ["hash", "size", "truncated", "no gzip"])
def test_a_bad_archive_is_an_error_of_its_own_and_leaves_nothing(
    open_upstream: Opener, config: UpstreamConfig, server: IndexServer, tmp_path: Path, fault: str
) -> None:
    name = "demo-0.17.0.tar.gz"
    hosted = server.files["demo"][name]
    message = {
        "hash": "its sha256 is",
        "size": "the index says 7",
        "truncated": "is cut off",
        "no gzip": "is not a gzip archive",
    }[fault]
    if fault == "hash":
        hosted.listed_sha256 = "ab" * 32
    elif fault == "size":
        hosted.listed_size = 7
    elif fault == "truncated":
        hosted.content = hosted.content[:-30]
    else:
        hosted.content = b"no archive"
    upstream = open_upstream(config)
    with pytest.raises(IntegrityError, match=message) as caught:
        upstream.prepare(("v0.16.0", "v0.17.0"))
    assert caught.value.exit_code == 4
    assert not list((tmp_path / "state").glob("downloads/*"))
    again = open_upstream(config, offline=True)
    assert again.tree("v0.16.0").read("demo/a.py") is not None, "the other one is there"
    with pytest.raises(OfflineError):
        again.tree("v0.17.0")


def test_an_archive_whose_hash_is_not_listed_is_not_trusted(
    open_upstream: Opener, config: UpstreamConfig, server: IndexServer
) -> None:
    server.faults.no_hashes = True
    with pytest.raises(IntegrityError, match=r"gives no sha256 for demo-0\.17\.0\.tar\.gz"):
        open_upstream(config).tree("v0.17.0")
    assert not server.asked_for(".tar.gz")


def test_a_download_that_breaks_off_goes_on_in_the_next_run(
    open_upstream: Opener, config: UpstreamConfig, server: IndexServer
) -> None:
    name = "demo-0.17.0.tar.gz"
    size = len(server.files["demo"][name].content)
    server.faults.cut_after[name] = [size // 2, 0]
    with pytest.raises(NetworkError, match="broke off"):
        open_upstream(config).tree("v0.17.0")
    assert open_upstream(config).tree("v0.17.0").read("demo/a.py") == b"VERSION = '0.17.0'\n"
    assert server.asked_for(name)[-1].range == f"bytes={size // 2}-"


def test_light_trees_come_from_wheels(
    open_upstream: Opener, config: UpstreamConfig, server: IndexServer, tmp_path: Path
) -> None:
    upstream = open_upstream(config)
    trees = upstream.light_trees(("v0.15.0", "v0.16.0", "v0.17.0"), ("demo/a.py", "demo/gone.py"))
    assert [tree.read("demo/a.py") for tree in trees] == [
        f"VERSION = '{version}'\n".encode() for version in ("0.15.0", "0.16.0", "0.17.0")
    ]
    assert [tree.label for tree in trees] == ["v0.15.0", "v0.16.0", "v0.17.0"]
    assert trees[1].entry("demo/gone.py") is None
    assert trees[1].entry("demo/_version.py") is None
    assert trees[1].has_folder("demo")
    assert not server.asked_for(".tar.gz")
    assert not (tmp_path / "state" / "upstream.git").exists()
    asked = len(server.asked)
    again = open_upstream(config, offline=True)
    assert again.light_tree("v0.17.0").read("demo/a.py") == b"VERSION = '0.17.0'\n"
    assert len(server.asked) == asked


def test_what_a_wheel_cannot_tell_comes_from_the_sdist(
    open_upstream: Opener, config: UpstreamConfig, server: IndexServer
) -> None:
    upstream = open_upstream(config)
    later = upstream.light_tree("v0.16.0", ("demo/a.py",))
    assert not server.asked_for(".tar.gz")
    assert later.read("tests/test_a.py") == b"def test(): ...\n"
    assert len(server.asked_for("demo-0.16.0.tar.gz")) == 1
    assert later.read("demo/a.py") == b"VERSION = '0.16.0'\n"
    at_once = upstream.light_tree("v0.17.0", ("demo/a.py", "setup.py"))
    assert len(server.asked_for("demo-0.17.0.tar.gz")) == 1
    assert at_once.entry("setup.py") == upstream.tree("v0.17.0").entry("setup.py")


def test_an_imported_tag_answers_from_the_store(
    open_upstream: Opener, config: UpstreamConfig, server: IndexServer
) -> None:
    open_upstream(config).commit("v0.16.0")
    tree = open_upstream(config).light_tree("v0.16.0", ("demo/a.py",))
    assert tree.read("tests/test_a.py") is not None
    assert not server.asked_for(".whl")


def test_an_index_without_ranges_gives_sdists(
    open_upstream: Opener, config: UpstreamConfig, server: IndexServer
) -> None:
    server.faults.no_ranges = True
    trees = open_upstream(config).light_trees(("v0.16.0", "v0.17.0"), ("demo/a.py",))
    assert [tree.read("demo/a.py") for tree in trees] == [b"VERSION = '0.16.0'\n", b"VERSION = '0.17.0'\n"]
    assert len(server.asked_for(".tar.gz")) == 2


def test_other_rules_make_another_tree(open_upstream: Opener, config: UpstreamConfig) -> None:
    first = open_upstream(config).tree("v0.16.0")
    second = open_upstream(replace(config, generated=())).tree("v0.16.0")
    assert first.entry("demo/_version.py") is None
    assert second.read("demo/_version.py") == b"0.16.0"


def test_light_and_whole_tree_agree(open_upstream: Opener, config: UpstreamConfig) -> None:
    upstream = open_upstream(config)
    paths = tuple(path for path in _files("") if path.startswith("demo/"))
    light = upstream.light_tree("v0.17.1", paths)
    found = [light.entry(path) for path in paths]
    whole = upstream.tree("v0.17.1")
    assert found == [whole.entry(path) for path in paths]
    assert whole.entry("demo/steady.py") == Entry(Mode.FILE, blob_id(b"same\n" * 100))


def test_the_executable_bit_of_a_python_file_is_the_one_given(
    open_upstream: Opener, config: UpstreamConfig, server: IndexServer
) -> None:
    files = _files("0.16.0")
    server.add("demo", "demo-0.16.0.tar.gz", sdist("demo", "0.16.0", files, executable=["demo/a.py"]))
    upstream = open_upstream(config)
    base = upstream.tree("v0.16.0")
    paths = ("demo/a.py", "demo/steady.py")
    [plain] = upstream.light_trees(("v0.17.0",), paths)
    [like] = upstream.light_trees(("v0.17.0",), paths, modes={"demo/a.py": Mode.EXECUTABLE})
    content = blob_id(b"VERSION = '0.17.0'\n")
    assert plain.entry("demo/a.py") == Entry(Mode.FILE, content)
    assert like.entry("demo/a.py") == Entry(Mode.EXECUTABLE, content)
    assert like.entry("demo/steady.py") == base.entry("demo/steady.py")


def test_options_of_the_user_change_nothing(
    open_upstream: Opener, config: UpstreamConfig, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    expected = open_upstream(config, home=tmp_path / "plain").commit("v0.16.0")
    hostile = tmp_path / "gitconfig"
    hostile.write_text("[core]\nautocrlf = true\n[commit]\ngpgSign = true\n[user]\nuseConfigOnly = true\n")
    for name, value in {
        "GIT_CONFIG_GLOBAL": str(hostile),
        "GIT_DIR": "/nonexistent",
        "TZ": "Asia/Tokyo",
    }.items():
        monkeypatch.setenv(name, value)
    assert open_upstream(config, home=tmp_path / "hostile").commit("v0.16.0") == expected


_KILLED = """
import sys
from pathlib import Path
from forktool.adapters.console import Console
from forktool.adapters.git_store import GitStore
from forktool.adapters.state import State
from forktool.adapters.upstream import Upstream
from forktool.core.upstream_config import UpstreamConfig

home, url = sys.argv[1:]
state = State(Path(home))
config = UpstreamConfig(package="demo", index_url=url, generated=("demo/_version.py",))
with GitStore(state.directory() / "upstream.git") as store:
    with Upstream(config, state=state, store=store, console=Console()) as upstream:
        print(upstream.commit("v0.20.0"), flush=True)
"""


@pytest.mark.parametrize("at", range(6))
def test_a_kill_at_any_instant_loses_nothing(
    open_upstream: Opener, config: UpstreamConfig, server: IndexServer, tmp_path: Path, at: int
) -> None:
    many = {f"demo/m{number}.py": os.urandom(4000) for number in range(1500)}
    content = sdist("demo", "0.20.0", {**_files("0.20.0"), **many})
    server.add("demo", "demo-0.20.0.tar.gz", content)
    server.add("demo", "demo-0.20.0-py3-none-any.whl", wheel("demo", "0.20.0", many))
    home = tmp_path / "killed"
    running = subprocess.Popen([sys.executable, "-c", _KILLED, str(home), server.url], stdout=subprocess.PIPE)
    with running:
        assert running.stdout is not None
        # From the first byte of the archive to the commit there is about half a second.
        while running.poll() is None and not server.asked_for("demo-0.20.0.tar.gz"):
            time.sleep(0.005)
        time.sleep(at * 0.08)
        running.kill()
        running.stdout.read()
    again = open_upstream(config, home=home)
    tree = again.tree("v0.20.0")
    assert [tree.read(path) for path in many] == list(many.values())
    subprocess.run(["git", "--git-dir", home / "upstream.git", "fsck", "--full", "--strict"], check=True)
    assert not list((home / "downloads").iterdir())
    assert not list((home / "upstream.git").rglob("tmp_*"))
