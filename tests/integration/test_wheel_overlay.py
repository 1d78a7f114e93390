from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from packaging.version import Version

from forktool.adapters import zip_copy
from forktool.adapters.wheel_overlay import OverlayResult, overlay
from forktool.adapters.wheel_verify import verify_wheel
from forktool.core.wheel_record import parse_record
from forktool.errors import (
    ForktoolError,
    IntegrityError,
    OutsideError,
    PatchsetError,
    RequestError,
)
from tests.support.wheels import TAG, WHEN, make_wheel, sample_files

VERSION = Version("1.2.0+kimi.1.gabcdef0123")
GATE = b"ALLOWED = ['llama', 'qwen', 'kimi_k2']\n"
INFO = f"acme-{VERSION}.dist-info"


def patched(source: Path, folder: Path, **options: object) -> OverlayResult:
    changes = options.pop("changes", {"acme/gate.py": GATE})
    return overlay(source, folder, changes=changes, version=VERSION, **options)  # type: ignore[arg-type]


def test_the_patched_wheel_is_right_in_every_name(tmp_path: Path) -> None:
    source = make_wheel(tmp_path, comment=b"built by hand")
    before = source.read_bytes()
    result = patched(source, tmp_path / "dist")
    assert result.path == tmp_path / "dist" / f"acme-{VERSION}-{TAG}.whl"
    assert result.sha256 == hashlib.sha256(result.path.read_bytes()).hexdigest()
    assert result.size == result.path.stat().st_size
    assert (result.changed, result.added, result.deleted) == (("acme/_version.py", "acme/gate.py"), (), ())
    assert result.version_files == ("acme/_version.py",)
    assert result.tags_repaired
    assert source.read_bytes() == before
    with zipfile.ZipFile(result.path) as archive:
        assert archive.testzip() is None
        assert archive.comment == b"built by hand"
        assert archive.read("acme/gate.py") == GATE
        assert b"\nVersion: 1.2.0+kimi.1.gabcdef0123\n" in archive.read(f"{INFO}/METADATA")
        assert f"Tag: {TAG}".encode() in archive.read(f"{INFO}/WHEEL")
        assert archive.read("acme/_version.py") == (
            b"__version__ = version = '1.2.0+kimi.1.gabcdef0123'\n"
            b"__version_tuple__ = version_tuple = (1, 2, 0, 'kimi.1.gabcdef0123')\n"
            b"__commit_id__ = commit_id = 'gabc'\n"
        )
        assert archive.namelist()[-1] == f"{INFO}/RECORD"
        rows = parse_record(archive.read(f"{INFO}/RECORD"), where="W")
        assert list(rows) == archive.namelist()
        assert all(item.date_time == WHEN for item in archive.infolist())
        assert all(item.external_attr == 0o100664 << 16 for item in archive.infolist())
    assert verify_wheel(result.path, tools=False).problems == ()
    assert list((tmp_path / "dist").iterdir()) == [result.path]


def test_unchanged_members_keep_their_compressed_bytes(tmp_path: Path) -> None:
    source = make_wheel(tmp_path)
    result = patched(source, tmp_path / "dist")

    def raw(path: Path, name: str) -> bytes:
        with zipfile.ZipFile(path) as archive:
            entry = archive.getinfo(name)
        with path.open("rb") as stream:
            stream.seek(entry.header_offset + 30 + len(name.encode()))
            return stream.read(entry.compress_size)

    assert raw(result.path, "acme/_C.abi3.so") == raw(source, "acme/_C.abi3.so")


def test_two_runs_give_the_same_bytes(tmp_path: Path) -> None:
    source = make_wheel(tmp_path)
    extra = {"forktool.json": b"{}\n", "sboms/x.json": b"{}"}
    first = patched(source, tmp_path / "a", extra_dist_info=extra)
    second = patched(source, tmp_path / "b", extra_dist_info=extra, fsync=True, full_check=True)
    assert first.sha256 == second.sha256
    assert first.path.read_bytes() == second.path.read_bytes()


def test_adds_deletes_and_sets_modes(tmp_path: Path) -> None:
    source = make_wheel(tmp_path)
    result = patched(
        source,
        tmp_path,
        changes={
            "acme/new/run.sh": b"#!/bin/sh\n",
            "acme/E=1,N=2.json": None,
            "acme/gate.py": GATE,
            "acme/a.py": b"",
        },
        modes={"acme/new/run.sh": 0o755},
    )
    assert result.added == ("acme/a.py", "acme/new/run.sh")
    assert result.deleted == ("acme/E=1,N=2.json",)
    with zipfile.ZipFile(result.path) as archive:
        assert "acme/E=1,N=2.json" not in archive.namelist()
        assert archive.getinfo("acme/new/run.sh").external_attr >> 16 == 0o100755
        assert archive.getinfo("acme/a.py").external_attr >> 16 == 0o100644
        assert archive.getinfo("acme/a.py").date_time == WHEN
        last_of_package = max(i for i, name in enumerate(archive.namelist()) if name.startswith("acme/"))
        assert all(INFO in name for name in archive.namelist()[last_of_package + 1 :])
    assert verify_wheel(result.path, tools=False).problems == ()


def test_a_mode_alone_is_a_change(tmp_path: Path) -> None:
    source = make_wheel(tmp_path)
    same = sample_files()["acme/gate.py"]
    assert "acme/gate.py" not in patched(source, tmp_path, changes={"acme/gate.py": same}).changed
    result = patched(source, tmp_path, changes={"acme/gate.py": same}, modes={"acme/gate.py": 0o755})
    with zipfile.ZipFile(result.path) as archive:
        assert archive.getinfo("acme/gate.py").external_attr >> 16 == 0o100755


def test_renames_the_data_folder_and_drops_signatures(tmp_path: Path) -> None:
    files = sample_files() | {"acme-1.2.0.data/scripts/run": b"#!python\n", "acme-1.2.0.data/": b""}
    source = make_wheel(
        tmp_path,
        files,
        extra_info={"RECORD.jws": b"{}", "RECORD.p7s": b"x"},
        unrecorded=frozenset({"acme-1.2.0.dist-info/RECORD.jws", "acme-1.2.0.dist-info/RECORD.p7s"}),
    )
    result = patched(source, tmp_path)
    with zipfile.ZipFile(result.path) as archive:
        names = archive.namelist()
        assert f"acme-{VERSION}.data/scripts/run" in names
        assert f"acme-{VERSION}.data/" in names
        assert not any(name.startswith("acme-1.2.0.") for name in names)
        assert not any("RECORD." in name for name in names)
    assert verify_wheel(result.path, tools=False).problems == ()


def test_descriptors_and_extra_fields_are_understood(tmp_path: Path) -> None:
    def shape(entry: zipfile.ZipInfo) -> None:
        entry.extra = b"UT\x05\x00\x03abcd"

    source = make_wheel(tmp_path, descriptors=True, shape=shape)
    result = patched(source, tmp_path / "dist")
    with zipfile.ZipFile(result.path) as archive:
        assert archive.testzip() is None
        assert archive.getinfo("acme/_C.abi3.so").extra == b"UT\x05\x00\x03abcd"
        assert archive.getinfo("acme/_C.abi3.so").flag_bits == 0


def test_metadata_given_by_the_caller_gets_the_version(tmp_path: Path) -> None:
    given = b"Metadata-Version: 2.1\nName: acme\nVersion: 1.2.0\nRequires-Dist: more\n"
    result = patched(make_wheel(tmp_path), tmp_path, extra_dist_info={"METADATA": given})
    with zipfile.ZipFile(result.path) as archive:
        assert archive.read(f"{INFO}/METADATA") == given.replace(b"1.2.0", str(VERSION).encode())
    assert verify_wheel(result.path, tools=False).problems == ()


def test_a_patched_init_that_states_the_version_follows(tmp_path: Path) -> None:
    source = make_wheel(tmp_path, {"acme/__init__.py": b"__version__ = '1.2.0'\n"})
    result = patched(source, tmp_path, changes={"acme/__init__.py": b"__version__ = '1.2.0'\nx = 1\n"})
    with zipfile.ZipFile(result.path) as archive:
        assert archive.read("acme/__init__.py") == b"__version__ = '1.2.0+kimi.1.gabcdef0123'\nx = 1\n"


def test_a_build_for_another_cuda_states_only_its_public_version(tmp_path: Path) -> None:
    source = make_wheel(tmp_path, sample_files("1.2.0"), version="1.2.0+cu129")
    result = overlay(source, tmp_path, changes={}, version=Version("1.2.0+cu129.kimi.1"))
    with zipfile.ZipFile(result.path) as archive:
        assert b"'1.2.0+cu129.kimi.1'" in archive.read("acme/_version.py")


@contextmanager
def nothing_left(folder: Path, source: Path | None = None) -> Iterator[None]:
    """Nothing new lies in the folder, and the source is as it was."""
    names = sorted(path.name for path in folder.iterdir())
    content = source.read_bytes() if source is not None and source.exists() else None
    yield
    assert sorted(path.name for path in folder.iterdir()) == names
    if source is not None and content is not None:
        assert source.read_bytes() == content


def refused(source: Path, kind: type[ForktoolError], problem: str, **options: object) -> None:
    with nothing_left(source.parent, source), pytest.raises(kind, match=problem) as caught:
        patched(source, source.parent, **options)
    assert "\n" not in caught.value.message


def test_refuses_a_wheel_cut_at_many_places(tmp_path: Path) -> None:
    source = make_wheel(tmp_path)
    whole = source.read_bytes()
    for length in range(0, len(whole), max(1, len(whole) // 97)):
        source.write_bytes(whole[:length])
        refused(source, IntegrityError, "damaged")


def test_refuses_a_touched_member_that_was_tampered_with(tmp_path: Path) -> None:
    source = make_wheel(tmp_path, shape=lambda entry: setattr(entry, "compress_type", zipfile.ZIP_STORED))
    source.write_bytes(source.read_bytes().replace(b"'llama', 'qwen'", b"'llama', 'evil'"))
    refused(source, IntegrityError, "acme/gate.py: Bad CRC-32")


def test_a_full_check_finds_damage_in_any_member(tmp_path: Path) -> None:
    source = make_wheel(tmp_path, shape=lambda entry: setattr(entry, "compress_type", zipfile.ZIP_STORED))
    source.write_bytes(source.read_bytes().replace(b"from ._version", b"from ._Version"))
    refused(source, IntegrityError, r"acme/__init__\.py", full_check=True)


def test_refuses_a_member_whose_record_hash_is_another(tmp_path: Path) -> None:
    right = make_wheel(tmp_path)
    with zipfile.ZipFile(right) as archive:
        record = archive.read("acme-1.2.0.dist-info/RECORD")
    wrong = dict(sample_files(), **{"acme/gate.py": b"ALLOWED = ['llama', 'evil']\n"})
    source = make_wheel(tmp_path, wrong, record=record)
    refused(source, IntegrityError, "acme/gate.py is not what RECORD says")


def test_refuses_a_member_that_record_does_not_list(tmp_path: Path) -> None:
    source = make_wheel(tmp_path, unrecorded=frozenset({"acme/_C.abi3.so"}))
    refused(source, IntegrityError, r"acme/_C\.abi3\.so is missing from RECORD")


def test_refuses_a_record_that_lists_more(tmp_path: Path) -> None:
    source = make_wheel(tmp_path)
    with zipfile.ZipFile(source) as archive:
        record = archive.read("acme-1.2.0.dist-info/RECORD")
    source = make_wheel(tmp_path, record=b"acme/gone.py,sha256=x,1\n" + record)
    refused(source, IntegrityError, "RECORD lists acme/gone.py, which is not there")


def test_refuses_names_that_clash(tmp_path: Path) -> None:
    source = make_wheel(tmp_path, sample_files() | {"acme/GATE.py": b""})
    refused(source, IntegrityError, "acme/gate.py and acme/GATE.py clash")


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"acme/Gate.py": b""}, "acme/Gate.py and acme/gate.py would clash"),
        ({"acme/gate.py/x.py": b""}, "acme/gate.py/x.py and acme/gate.py would clash"),
        ({"acme": b""}, "would clash"),
        ({"../x.py": b""}, "has no place"),
        ({"/x.py": b""}, "has no place"),
        ({"acme-1.2.0.dist-info/RECORD": b""}, "has no place"),
        ({"acme/none.py": None}, "deletes acme/none.py, which"),
    ],
)
def test_refuses_changes_that_have_no_place(
    tmp_path: Path, changes: dict[str, bytes | None], problem: str
) -> None:
    refused(make_wheel(tmp_path), PatchsetError, problem, changes=changes)


def test_a_file_may_take_the_place_of_one_that_goes(tmp_path: Path) -> None:
    source = make_wheel(tmp_path)
    result = patched(source, tmp_path, changes={"acme/gate.py": None, "acme/gate.py/__init__.py": b""})
    assert verify_wheel(result.path, tools=False).problems == ()


@pytest.mark.parametrize("version", ["1.3.0+kimi.1", "1.2.0.post1+kimi.1", "1.2.0rc1+kimi.1"])
def test_refuses_another_release(tmp_path: Path, version: str) -> None:
    source = make_wheel(tmp_path)
    with nothing_left(tmp_path, source), pytest.raises(PatchsetError, match=r"is 1\.2\.0$"):
        overlay(source, tmp_path, changes={}, version=Version(version))


def test_a_release_may_be_written_with_fewer_zeros(tmp_path: Path) -> None:
    assert overlay(make_wheel(tmp_path), tmp_path, changes={}, version=Version("1.2+kimi.1")).path.is_file()


def test_refuses_a_version_without_a_local_part(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="local version"):
        overlay(make_wheel(tmp_path), tmp_path, changes={}, version=Version("1.2.0"))


def test_never_writes_over_its_source(tmp_path: Path) -> None:
    result = patched(make_wheel(tmp_path), tmp_path)
    with nothing_left(tmp_path, result.path), pytest.raises(RequestError, match="written over itself"):
        overlay(result.path, tmp_path, changes={}, version=VERSION)
    again = overlay(
        result.path, tmp_path / "b", changes={}, version=VERSION, extra_dist_info={"x.json": b"{}"}
    )
    assert verify_wheel(again.path, tools=False).problems == ()


def test_refuses_a_wheel_of_other_files_than_the_base(tmp_path: Path) -> None:
    source = make_wheel(tmp_path)
    right = sample_files()["acme/gate.py"]
    assert patched(source, tmp_path / "ok", base={"acme/gate.py": right, "acme/new.py": None}).path.is_file()
    refused(source, IntegrityError, "acme/gate.py in .* differs", base={"acme/gate.py": b"other"})
    refused(source, IntegrityError, "already holds acme/gate.py", base={"acme/gate.py": None})
    refused(source, IntegrityError, "holds no acme/new.py", base={"acme/new.py": b""})


def test_refuses_a_wheel_that_was_only_renamed(tmp_path: Path) -> None:
    source = make_wheel(tmp_path)
    renamed = source.rename(source.with_name(source.name.replace("1.2.0", "1.3.0")))
    with pytest.raises(IntegrityError, match="named as another wheel than its folder"):
        overlay(renamed, tmp_path, changes={}, version=Version("1.3.0+x"))


@pytest.mark.parametrize("name", ["RECORD", "RECORD.jws", "WHEEL", "../x", "/x"])
def test_refuses_dist_info_files_that_are_made_here(tmp_path: Path, name: str) -> None:
    refused(make_wheel(tmp_path), RequestError, "not for the caller", extra_dist_info={name: b""})


def test_says_when_the_wheel_is_not_there(tmp_path: Path) -> None:
    refused(tmp_path / f"acme-1.2.0-{TAG}.whl", OutsideError, "cannot read")


LIMITED = """
import resource, sys
from pathlib import Path
from packaging.version import Version
from forktool.adapters.wheel_overlay import overlay
from forktool.errors import DiskError
source, folder = Path(sys.argv[1]), Path(sys.argv[2])
size = int(sys.argv[3])
for limit in sorted({*range(0, size, max(1, size // 200)), size - 1}):
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    try:
        overlay(source, folder, changes={"acme/gate.py": b"x"}, version=Version("1.2.0+kimi.1"), fsync=True)
    except DiskError as error:
        assert "cannot write" in error.message and "File too large" in error.message, error.message
    else:
        sys.exit(f"no error at {limit}")
    if list(folder.iterdir()):
        sys.exit(f"left behind at {limit}: {list(folder.iterdir())}")
resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
print(overlay(source, folder, changes={"acme/gate.py": b"x"}, version=Version("1.2.0+kimi.1")).size)
"""


def test_a_file_that_may_not_grow_leaves_nothing_at_any_size(tmp_path: Path) -> None:
    source = make_wheel(tmp_path)
    before = source.read_bytes()
    size = overlay(
        source, tmp_path / "a", changes={"acme/gate.py": b"x"}, version=Version("1.2.0+kimi.1")
    ).size
    folder = tmp_path / "b"
    folder.mkdir()
    script = [sys.executable, "-c", LIMITED, source, folder, str(size)]
    result = subprocess.run(script, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == str(size)
    assert source.read_bytes() == before


FULL = """
import sys
from pathlib import Path
from packaging.version import Version
from forktool.adapters.wheel_overlay import overlay
from forktool.errors import DiskError
source, folder = Path(sys.argv[1]), Path(sys.argv[2])
try:
    overlay(source, folder, changes={"acme/gate.py": b"x"}, version=Version("1.2.0+kimi.1"), fsync=True)
except DiskError as error:
    print(error.message.rpartition(": ")[2], "|", error.hint, "|", list(folder.iterdir()))
"""


def test_a_full_disk_is_one_error_and_leaves_nothing(tmp_path: Path) -> None:
    source = make_wheel(tmp_path, sample_files() | {"acme/big.so": os.urandom(200_000)})
    disk = tmp_path / "disk"
    disk.mkdir()
    space = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c"]
    mount = 'mount -t tmpfs -o size=128k tmpfs "$1" && shift && exec "$@"'
    if shutil.which("unshare") is None or subprocess.run([*space, mount, "sh", disk, "true"]).returncode:
        pytest.skip("a small disk needs Linux with user namespaces")
    result = subprocess.run(
        [*space, mount, "sh", disk, sys.executable, "-c", FULL, source, disk], capture_output=True, text=True
    )
    assert result.stderr == ""
    assert result.stdout == (
        "No space left on device | free some space, or choose another folder with --output | []\n"
    )


def test_an_older_result_survives_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = make_wheel(tmp_path)
    result = patched(source, tmp_path)
    before = result.path.read_bytes()

    def stop(*_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(zip_copy.os, "write", stop)
    with nothing_left(tmp_path, source), pytest.raises(KeyboardInterrupt):
        patched(source, tmp_path)
    assert result.path.read_bytes() == before


def test_sweeps_what_a_killed_run_left_but_not_a_running_ones(tmp_path: Path) -> None:
    source = make_wheel(tmp_path)
    target = patched(source, tmp_path).path
    left = tmp_path / f".{target.name}.aaaaaaaa.tmp"
    left.write_bytes(b"x")
    running = tmp_path / f".{target.name}.bbbbbbbb.tmp"
    with running.open("wb") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        patched(source, tmp_path)
        assert not left.exists()
        assert running.exists()


def test_memory_does_not_grow_with_the_wheel(tmp_path: Path) -> None:
    big = sample_files() | {"acme/big.so": bytes(200 << 20)}
    source = make_wheel(
        tmp_path, big, shape=lambda entry: setattr(entry, "compress_type", zipfile.ZIP_STORED)
    )
    code = (
        "import resource, sys\nfrom pathlib import Path\nfrom packaging.version import Version\n"
        "from forktool.adapters.wheel_overlay import overlay\n"
        "overlay(Path(sys.argv[1]), Path(sys.argv[2]), changes={'acme/gate.py': b''}, version=Version('1.2.0+k'),"
        " full_check=True)\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    )
    # A child's peak starts at its parent's size where it is forked, so a small shell stands between.
    result = subprocess.run(
        ["sh", "-c", '"$0" "$@"; :', sys.executable, "-c", code, source, tmp_path / "dist"],
        capture_output=True,
        text=True,
        check=True,
    )
    unit = 1 if sys.platform == "darwin" else 1024
    assert int(result.stdout) * unit <= 64 << 20
