from __future__ import annotations

import gzip
import hashlib
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest

from forktool.adapters.git_store import GitStore
from forktool.adapters.sdist import Sdist, import_sdist
from forktool.core.objects import Mode, Oid, blob_id
from forktool.errors import DiskError, IntegrityError
from tests.support.archives import WHEN, member, sdist, tar_gz

FILES = {
    "setup.py": b"from setuptools import setup\n",
    "demo/__init__.py": b"",
    "demo/_version.py": b"__version__ = '1.0'\n",
    "demo/x b/\xe6\x96\x87 \xff.py".encode("latin-1").decode("utf-8", "surrogateescape"): b"latin \xe9\r\n",
    'demo/"quoted"\\name.py': b"lone\rcr",
    "tools/run.sh": b"#!/bin/sh\n",
    "demo/big.bin": bytes(range(256)) * 2000,
}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[GitStore]:
    with GitStore(tmp_path / "upstream.git") as made:
        made.create()
        yield made


def _import(store: GitStore, folder: Path, content: bytes, *, generated: tuple[str, ...] = ()) -> Oid:
    archive = folder / "demo-1.0.tar.gz"
    archive.write_bytes(content)
    sha256 = hashlib.sha256(content).hexdigest()
    return import_sdist(
        store, archive, Sdist(package="demo", version="1.0", sha256=sha256), generated=generated
    )


def _tree(store: GitStore, commit: Oid) -> dict[str, str]:
    listed = store.git("ls-tree", "-r", "-z", commit).decode("utf-8", "surrogateescape")
    return {row.partition("\t")[2]: row[:6] for row in listed.split("\0") if row}


def _packs(store: GitStore) -> list[str]:
    return sorted(path.suffix for path in (store.path / "objects" / "pack").iterdir())


def test_the_tree_is_the_archive_without_what_the_build_added(store: GitStore, tmp_path: Path) -> None:
    commit = _import(
        store,
        tmp_path,
        sdist("demo", "1.0", FILES, executable=["tools/run.sh"]),
        generated=("demo/_version.py",),
    )
    expected = {path: "100644" for path in FILES if path != "demo/_version.py"} | {"tools/run.sh": "100755"}
    assert _tree(store, commit) == expected
    tree = store.tree(store.tree_of(commit), label="v1.0")
    for path in expected:
        assert tree.read(path) == FILES[path]
    assert store.git("fsck", "--full", "--strict", commit) == b""


def test_the_commit_says_where_it_comes_from_and_nothing_of_here(store: GitStore, tmp_path: Path) -> None:
    content = sdist("demo", "1.0", FILES)
    commit = _import(store, tmp_path, content)
    _kind, body = store.read_object(commit)
    nobody = f"upstream <upstream@forktool.invalid> {WHEN} +0000"
    digest = hashlib.sha256(content).hexdigest()
    assert body.decode() == (
        f"tree {store.tree_of(commit)}\nauthor {nobody}\ncommitter {nobody}\n\n"
        f"demo 1.0\n\nSource distribution, sha256 {digest}\n"
    )


def test_the_commit_id_is_the_same_on_every_machine_and_in_every_order(tmp_path: Path) -> None:
    first, second = sdist("demo", "1.0", FILES), sdist("demo", "1.0", {**FILES, "new.py": b"1\n"})
    found = []
    for at, contents in enumerate(((first, second), (second, first), (first, second, first))):
        with GitStore(tmp_path / str(at) / "upstream.git") as store:
            store.create()
            (tmp_path / str(at) / "dl").mkdir()
            found.append({_import(store, tmp_path / str(at) / "dl", content) for content in contents})
    assert found[0] == found[1] == found[2]
    assert len(found[0]) == 2


def test_what_the_store_has_is_not_written_again(store: GitStore, tmp_path: Path) -> None:
    first = _import(store, tmp_path, sdist("demo", "1.0", FILES))
    assert _packs(store) == [".idx", ".pack"]
    assert _import(store, tmp_path, sdist("demo", "1.0", FILES)) == first
    assert _packs(store) == [".idx", ".pack"]
    second = _import(store, tmp_path, sdist("demo", "1.0", {**FILES, "new.py": b"1\n"}))
    packs = sorted((store.path / "objects" / "pack").glob("*.pack"), key=lambda path: path.stat().st_size)
    assert packs[0].stat().st_size < 3000 < packs[1].stat().st_size
    assert store.git("fsck", "--full", "--strict", first, second) == b""


def test_several_imports_at_once(store: GitStore, tmp_path: Path) -> None:
    found: dict[int, Oid] = {}

    def one(at: int) -> None:
        folder = tmp_path / f"in{at}"
        folder.mkdir()
        found[at] = _import(store, folder, sdist("demo", "1.0", {**FILES, "n.py": str(at).encode()}))

    threads = [Thread(target=one, args=(at,)) for at in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found.values())) == 4
    assert store.git("fsck", "--full", "--strict", *found.values()) == b""


def test_a_projects_own_setup_cfg_stays(store: GitStore, tmp_path: Path) -> None:
    own = b"[metadata]\nname = demo\n\n[egg_info]\ntag_build = \ntag_date = 0\n\n"
    commit = _import(store, tmp_path, sdist("demo", "1.0", {"setup.cfg": own, "a.py": b""}))
    assert set(_tree(store, commit)) == {"setup.cfg", "a.py"}


def test_links_inside_are_kept_as_links(store: GitStore, tmp_path: Path) -> None:
    commit = _import(
        store,
        tmp_path,
        tar_gz(
            [
                member("d-1/a.md", b"text\n", mode=0o755),
                member("d-1/docs/b.md", kind=tarfile.SYMTYPE, link="../a.md"),
                member("d-1/docs/hard.md", kind=tarfile.LNKTYPE, link="d-1/a.md"),
            ]
        ),
    )
    assert _tree(store, commit) == {"a.md": "100755", "docs/b.md": "120000", "docs/hard.md": "100755"}
    entry = store.tree(store.tree_of(commit), label="x").entry("docs/b.md")
    assert entry is not None
    assert (entry.mode, entry.oid) == (Mode.SYMLINK, blob_id(b"../a.md"))


_SETUP = member("d-1/setup.py", b"x")


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (member("../evil", b"x"), r"'\.\./evil' leads out of the archive"),
        (member("d-1/../../evil", b"x"), "leads out of the archive"),
        (member("/etc/evil", b"x"), "'/etc/evil' is an absolute path"),
        (
            member("d-1/link", kind=tarfile.SYMTYPE, link="/etc/passwd"),
            "'link' links out of the tree, to /etc/passwd",
        ),
        (member("d-1/link", kind=tarfile.SYMTYPE, link="../x"), "links out of the tree"),
        (member("d-1/null", kind=tarfile.CHRTYPE), "'d-1/null' is a device"),
        (member("d-1/disk", kind=tarfile.BLKTYPE), "is a device"),
        (member("d-1/pipe", kind=tarfile.FIFOTYPE), "is a device"),
        (member("d-1/hard", kind=tarfile.LNKTYPE, link="/etc/passwd"), "'/etc/passwd' is an absolute path"),
        (member("d-1/hard", kind=tarfile.LNKTYPE, link="d-1/no"), "is a hard link to d-1/no"),
        (member("d-1/.git/hooks/pre-commit", b"x", mode=0o755), "git repository"),
        (member("e-1/x", b"x"), "beside the top folder d-1/"),
        (member("d-1/setup.py/x", b"x"), "lies below setup.py"),
    ],
)
def test_a_dangerous_member_is_refused_by_name_and_nothing_is_written(
    store: GitStore, tmp_path: Path, bad: tuple[tarfile.TarInfo, bytes], reason: str
) -> None:
    with pytest.raises(IntegrityError, match=reason) as caught:
        _import(store, tmp_path, tar_gz([_SETUP, bad]))
    assert caught.value.message.startswith("demo-1.0.tar.gz: ")
    assert _packs(store) == []
    assert not (tmp_path.parent / "evil").exists()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "cut off|holds no files|not a"),
        (b"no gzip at all", "is not a gzip archive"),
        (sdist("demo", "1.0", FILES)[:-500], "is cut off"),
        (sdist("demo", "1.0", FILES)[:2000], "is cut off"),
        (tar_gz([]), "holds no files"),
    ],
)
def test_an_archive_that_is_none_is_refused(
    store: GitStore, tmp_path: Path, content: bytes, reason: str
) -> None:
    with pytest.raises(IntegrityError, match=reason):
        _import(store, tmp_path, content)
    assert _packs(store) == []


def test_a_tar_that_is_cut_off_inside_its_gzip_is_refused(store: GitStore, tmp_path: Path) -> None:
    whole = gzip.decompress(sdist("demo", "1.0", FILES))
    with pytest.raises(IntegrityError, match="is cut off"):
        _import(store, tmp_path, gzip.compress(whole[:4000]))
    for end in range(1, len(whole.rstrip(b"\0")), 3511):
        with pytest.raises(IntegrityError):
            _import(store, tmp_path, gzip.compress(whole[:end]))
    with pytest.raises(IntegrityError, match="not a tar archive"):
        _import(store, tmp_path, gzip.compress(b"just text " * 200))
    assert _packs(store) == []


def test_a_wrong_hash_is_refused(store: GitStore, tmp_path: Path) -> None:
    archive = tmp_path / "demo-1.0.tar.gz"
    archive.write_bytes(sdist("demo", "1.0", FILES))
    with pytest.raises(IntegrityError, match=r"its sha256 is \w+, the index says ab"):
        import_sdist(store, archive, Sdist(package="demo", version="1.0", sha256="ab" * 32))


def test_an_archive_that_is_not_there(store: GitStore, tmp_path: Path) -> None:
    with pytest.raises(DiskError, match="cannot read"):
        import_sdist(store, tmp_path / "none.tar.gz", Sdist(package="d", version="1", sha256="ab" * 32))


def test_a_full_disk_leaves_no_pack(tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=300k", "tmpfs", str(small)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("mounting a small file system needs root")
    try:
        with GitStore(small / "upstream.git") as store:
            store.create()
            with pytest.raises(DiskError, match="No space left on device"):
                _import(store, tmp_path, sdist("demo", "1.0", FILES))
            assert _packs(store) == []
    finally:
        subprocess.run(["umount", str(small)], check=True)
