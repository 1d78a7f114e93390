from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from forktool.adapters.http import Http, OfflineError, StatusError
from forktool.adapters.part_file import PartFile
from forktool.errors import DiskError, IntegrityError, NetworkError, RequestError
from tests.support.index_server import IndexServer

CONTENT = os.urandom(700_000)
SHA256 = hashlib.sha256(CONTENT).hexdigest()
NAME = "demo-1.0.tar.gz"


@pytest.fixture
def server() -> Iterator[IndexServer]:
    with IndexServer().running() as index:
        index.add("demo", NAME, CONTENT)
        yield index


@pytest.fixture
def http() -> Iterator[Http]:
    made = Http(timeout=(2, 1))
    yield made
    made.close()


class _Download:
    def __init__(self, server: IndexServer, http: Http, folder: Path) -> None:
        self.url = server.file_url("demo", NAME)
        self.target = folder / "downloads" / NAME
        self.part = self.target.with_name(NAME + ".part")
        self.advanced = 0
        self._http = http

    def run(self, *, sha256: str | None = SHA256, size: int | None = len(CONTENT)) -> None:
        self.advanced = 0
        self._http.download(self.url, self.target, sha256=sha256, size=size, advance=self._advance)

    def _advance(self, amount: int) -> None:
        self.advanced += amount

    def left(self) -> list[str]:
        folder = self.target.parent
        return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []

    def begin(self, content: bytes) -> None:
        self.part.parent.mkdir(parents=True)
        self.part.write_bytes(content)


@pytest.fixture
def download(server: IndexServer, http: Http, tmp_path: Path) -> _Download:
    return _Download(server, http, tmp_path)


def test_a_file_arrives_whole_and_alone(download: _Download) -> None:
    download.run()
    assert download.target.read_bytes() == CONTENT
    assert download.left() == [NAME]
    assert download.advanced == len(CONTENT)


def test_without_hash_and_size_it_arrives_too(download: _Download) -> None:
    download.run(sha256=None, size=None)
    assert download.target.read_bytes() == CONTENT


def test_a_download_that_breaks_off_goes_on_in_the_same_run(server: IndexServer, download: _Download) -> None:
    server.faults.cut_after[NAME] = [300_000, 200_000]
    download.run()
    assert download.target.read_bytes() == CONTENT
    assert [item.range for item in server.asked] == [None, "bytes=300000-", "bytes=500000-"]
    assert all(item.if_range for item in server.asked[1:])


def test_a_download_that_breaks_off_for_good_goes_on_in_the_next_run(
    server: IndexServer, http: Http, download: _Download
) -> None:
    server.faults.cut_after[NAME] = [300_000, 0]
    with pytest.raises(NetworkError, match="broke off") as caught:
        download.run()
    assert caught.value.exit_code == 4
    assert download.part.read_bytes() == CONTENT[:300_000]
    assert not download.target.exists()
    before = http.received
    download.run()
    assert http.received - before == 400_000
    assert download.advanced == len(CONTENT)
    assert download.target.read_bytes() == CONTENT
    assert download.left() == [NAME]


@pytest.mark.parametrize("fault", ["no_etag", "weak_etag"])
def test_without_a_validator_the_hash_makes_going_on_safe(
    server: IndexServer, download: _Download, fault: str
) -> None:
    setattr(server.faults, fault, True)
    server.faults.cut_after[NAME] = [300_000]
    download.run()
    assert download.target.read_bytes() == CONTENT
    assert server.asked[-1].range == "bytes=300000-"
    assert server.asked[-1].if_range is None


def test_without_validator_and_hash_it_starts_over(server: IndexServer, download: _Download) -> None:
    server.faults.no_etag = True
    server.faults.cut_after[NAME] = [300_000]
    download.run(sha256=None)
    assert download.target.read_bytes() == CONTENT
    assert [item.range for item in server.asked] == [None, None]


def test_a_server_without_ranges_starts_over(server: IndexServer, download: _Download) -> None:
    server.faults.no_ranges = True
    download.begin(CONTENT[:1000])
    download.run()
    assert download.target.read_bytes() == CONTENT
    assert download.left() == [NAME]


def test_a_part_of_an_older_file_is_thrown_away(server: IndexServer, download: _Download) -> None:
    # The server's file changes between two runs: If-Range makes it send the new one whole.
    server.files["demo"][NAME].content = os.urandom(500_000)
    server.faults.cut_after[NAME] = [300_000, 0]
    with pytest.raises(NetworkError):
        download.run()
    server.files["demo"][NAME].content = CONTENT
    download.run()
    assert download.target.read_bytes() == CONTENT


def test_a_part_of_something_else_is_thrown_away(download: _Download) -> None:
    download.begin(b"nonsense" * 1000)
    download.run()
    assert download.target.read_bytes() == CONTENT
    assert download.left() == [NAME]


def test_a_part_that_is_too_long_is_thrown_away(download: _Download) -> None:
    download.begin(CONTENT + b"more")
    download.run()
    assert download.target.read_bytes() == CONTENT


def test_a_part_that_is_whole_is_not_fetched_again(server: IndexServer, download: _Download) -> None:
    download.begin(CONTENT)
    download.run()
    assert download.target.read_bytes() == CONTENT
    assert server.asked == []


def test_a_wrong_hash_leaves_nothing(download: _Download) -> None:
    with pytest.raises(IntegrityError, match=f"its sha256 is {SHA256}, the index says 00") as caught:
        download.run(sha256="00" * 32)
    assert caught.value.exit_code == 4
    assert download.left() == []


def test_a_wrong_size_leaves_nothing(download: _Download) -> None:
    with pytest.raises(IntegrityError, match="got 700000 bytes, the index says 5"):
        download.run(size=5)
    assert download.left() == []


@pytest.mark.parametrize("status", [403, 404, 500])
def test_a_refusal_is_told_with_its_status(server: IndexServer, download: _Download, status: int) -> None:
    server.faults.status[NAME] = [status] * 9
    with pytest.raises(StatusError, match=f"HTTP {status}") as caught:
        download.run()
    assert caught.value.status == status
    assert download.left() == []
    assert len(server.asked) == 1


def test_a_busy_server_is_asked_again(server: IndexServer, download: _Download) -> None:
    server.faults.status[NAME] = [503, 429]
    download.run()
    assert download.target.read_bytes() == CONTENT


def test_a_server_that_stalls(server: IndexServer, download: _Download) -> None:
    server.faults.stall[NAME] = 1.6
    with pytest.raises(NetworkError, match=r"127\.0\.0\.1 did not answer within 2 s"):
        download.run(size=len(CONTENT) + 1)


def test_offline_asks_nobody(server: IndexServer, tmp_path: Path) -> None:
    download = _Download(server, Http(offline=True), tmp_path)
    with pytest.raises(OfflineError, match="--offline forbids it"):
        download.run()
    assert server.asked == []


def test_a_url_that_is_none(http: Http, tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="'nowhere' is not an http or https URL"):
        http.download("nowhere", tmp_path / "x", sha256=None)


def test_a_disk_that_cannot_be_written(server: IndexServer, http: Http, tmp_path: Path) -> None:
    (tmp_path / "downloads").write_text("a file where the folder should be")
    with pytest.raises(DiskError, match="cannot write"):
        _Download(server, http, tmp_path).run()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=200k", "tmpfs", str(folder)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("mounting a small file system needs root")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_leaves_nothing(server: IndexServer, http: Http, small_disk: Path) -> None:
    download = _Download(server, http, small_disk)
    with pytest.raises(DiskError, match="No space left on device") as caught:
        download.run()
    assert caught.value.exit_code == 4
    assert caught.value.hint == "free some space, or set FORKTOOL_HOME to a larger disk"
    assert download.left() == []


def test_an_end_before_the_file_has_its_name_leaves_bytes_to_go_on_from_and_no_note(tmp_path: Path) -> None:
    """A kill between the two used to leave a note that nothing ever looked for again."""
    target = tmp_path / "archive"
    (target / "in the way").mkdir(parents=True)
    piece = PartFile(target)
    piece.remember('"etag"')
    with piece.appending() as write:
        write(b"whole")
    with pytest.raises(DiskError, match="cannot write"):
        piece.finish(durable=False)
    assert sorted(path.name for path in tmp_path.glob("archive*")) == ["archive", "archive.part"]
