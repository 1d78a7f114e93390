"""Raw copies of archives of every shape, judged by zipfile and by Info-ZIP."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import zipfile
from pathlib import Path
from typing import IO, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forktool.adapters import zip_copy
from forktool.adapters.zip_copy import ArchiveReader, ArchiveWriter
from forktool.errors import IntegrityError, OutsideError
from tests.support.wheels import Unseekable

needs_unzip = pytest.mark.skipif(shutil.which("unzip") is None, reason="Info-ZIP's unzip is not installed")

METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)
names = st.from_regex(r"[aü日]( ?[b-f0-9=,]){0,4}(/[x-z]{1,3}){0,2}", fullmatch=True)
member = st.fixed_dictionaries(
    {
        "content": st.binary(max_size=600) | st.binary(max_size=6).map(lambda seed: seed * 700),
        "method": st.sampled_from(METHODS),
        "mode": st.sampled_from([0o100644, 0o100755, 0o120777]),
        "year": st.integers(1980, 2107),
        "second": st.integers(0, 59),
        "zip64": st.booleans(),
        "extra": st.sampled_from([b"", b"UT\x05\x00\x03abcd", b"up\x05\x00\x01wxyz"]),
        "comment": st.sampled_from([b"", b"remark"]),
    }
)
archives = st.fixed_dictionaries(
    {
        "members": st.dictionaries(names, member, max_size=6),
        "folders": st.booleans(),
        "descriptors": st.booleans(),
        "prefix": st.sampled_from([b"", b"#!/bin/sh\nprefix\n"]),
        "comment": st.binary(max_size=5).filter(lambda text: b"PK" not in text),
    }
)


def build(path: Path, plan: dict[str, object]) -> None:
    with path.open("wb") as stream:
        stream.write(cast("bytes", plan["prefix"]))
        target = cast("IO[bytes]", Unseekable(stream)) if plan["descriptors"] else stream
        with zipfile.ZipFile(target, "w") as archive:
            if plan["folders"]:
                archive.writestr(zipfile.ZipInfo("folder/", (2020, 1, 1, 0, 0, 0)), b"")
            for name, fields in cast("dict[str, dict[str, object]]", plan["members"]).items():
                entry = zipfile.ZipInfo(
                    name, (cast("int", fields["year"]), 5, 6, 7, 8, cast("int", fields["second"]))
                )
                entry.compress_type = cast("int", fields["method"])
                entry.external_attr = cast("int", fields["mode"]) << 16
                entry.extra = cast("bytes", fields["extra"])
                entry.comment = cast("bytes", fields["comment"])
                with archive.open(entry, "w", force_zip64=cast("bool", fields["zip64"])) as out:
                    out.write(cast("bytes", fields["content"]))
            archive.comment = cast("bytes", plan["comment"])


def copy(source: Path, target: Path, renames: dict[str, str] | None = None) -> int:
    with ArchiveReader(source) as reader, target.open("wb") as stream:
        writer = ArchiveWriter(stream.fileno())
        for item in reader.members:
            writer.copy(reader, item, name=(renames or {}).get(item.filename))
        if reader.members:
            writer.add("added.py", b"new\n" * 9, like=reader.members[0], mode=0o644)
        return writer.close(reader.comment)


@needs_unzip
@settings(max_examples=120, deadline=None)
@given(plan=archives)
def test_a_copy_holds_the_same(plan: dict[str, object]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "a.zip"), Path(folder, "b.zip")
        build(source, plan)
        size = copy(source, target)
        assert size == target.stat().st_size
        with zipfile.ZipFile(source) as old, zipfile.ZipFile(target) as new:
            assert new.testzip() is None
            assert new.namelist() == old.namelist() + ["added.py"] * bool(old.namelist())
            assert new.comment == old.comment
            for item in old.infolist():
                twin = new.getinfo(item.filename)
                assert new.read(twin) == old.read(item)
                for field in (
                    "date_time",
                    "compress_type",
                    "comment",
                    "CRC",
                    "compress_size",
                    "external_attr",
                ):
                    assert getattr(twin, field) == getattr(item, field), field
                assert (b"UT" in twin.extra) == (b"UT" in item.extra)
                assert not twin.flag_bits & 8
        methods = {
            fields["method"] for fields in cast("dict[str, dict[str, object]]", plan["members"]).values()
        }
        if zipfile.ZIP_LZMA not in methods and (plan["members"] or plan["folders"]):
            result = subprocess.run(["unzip", "-tqq", target], capture_output=True)
            assert result.returncode == 0, result.stdout + result.stderr


def test_a_copy_without_the_kernels_help_has_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "a.zip"
    with zipfile.ZipFile(source, "w") as archive:
        archive.writestr("big", os.urandom(3_000_000))
    copy(source, tmp_path / "kernel.zip")
    monkeypatch.delattr(zip_copy.os, "copy_file_range", raising=False)
    copy(source, tmp_path / "plain.zip")
    assert (tmp_path / "kernel.zip").read_bytes() == (tmp_path / "plain.zip").read_bytes()


def test_a_renamed_member_loses_its_unicode_path_field(tmp_path: Path) -> None:
    source, target = tmp_path / "a.zip", tmp_path / "b.zip"
    with zipfile.ZipFile(source, "w") as archive:
        entry = zipfile.ZipInfo("old", (2020, 1, 1, 0, 0, 0))
        entry.extra = b"up\x05\x00\x01wxyz" + b"UT\x05\x00\x03abcd"
        archive.writestr(entry, b"x")
    copy(source, target, {"old": "new"})
    with zipfile.ZipFile(target) as archive:
        assert archive.getinfo("new").extra == b"UT\x05\x00\x03abcd"


@needs_unzip
def test_more_members_than_the_short_index_can_count(tmp_path: Path) -> None:
    source, target = tmp_path / "a.zip", tmp_path / "b.zip"
    with zipfile.ZipFile(source, "w") as archive:
        for number in range(66_000):
            archive.writestr(zipfile.ZipInfo(f"d/{number}", (2020, 1, 1, 0, 0, 0)), b"")
    copy(source, target)
    with zipfile.ZipFile(target) as archive:
        assert len(archive.namelist()) == 66_001
    assert subprocess.run(["unzip", "-tqq", target], capture_output=True).returncode == 0


@pytest.mark.slow
@needs_unzip
def test_an_archive_beyond_four_gigabytes(tmp_path: Path) -> None:
    source, target = tmp_path / "a.zip", tmp_path / "b.zip"
    block = bytes(1 << 20)
    with zipfile.ZipFile(source, "w", zipfile.ZIP_STORED) as archive:
        with archive.open("huge", "w", force_zip64=True) as out:
            for _ in range(4100):
                out.write(block)
        archive.writestr("after", b"behind four gigabytes")
    copy(source, target)
    with zipfile.ZipFile(target) as archive:
        assert archive.getinfo("huge").file_size == 4100 << 20
        assert archive.read("after") == b"behind four gigabytes"
    assert subprocess.run(["unzip", "-tqq", target], capture_output=True).returncode == 0


def small(path: Path) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("one", b"1" * 100)
        archive.writestr("two", b"2" * 100)
    return path


def test_refuses_a_file_cut_at_any_byte(tmp_path: Path) -> None:
    whole = small(tmp_path / "whole.zip").read_bytes()
    cut = tmp_path / "cut.zip"
    for length in range(len(whole)):
        cut.write_bytes(whole[:length])
        with pytest.raises(IntegrityError, match="damaged"):
            copy(cut, tmp_path / "out.zip")


@pytest.mark.parametrize(
    ("place", "byte", "problem"),
    [
        (0, b"X", "no local header for one"),
        (30, b"X", "the local header of one names another member"),
        (26, b"\xff\xff", "one"),
    ],
)
def test_refuses_local_headers_that_lie(tmp_path: Path, place: int, byte: bytes, problem: str) -> None:
    path = small(tmp_path / "a.zip")
    content = bytearray(path.read_bytes())
    content[place : place + len(byte)] = byte
    path.write_bytes(content)
    with pytest.raises(IntegrityError, match=problem):
        copy(path, tmp_path / "out.zip")


def test_refuses_members_that_overlap(tmp_path: Path) -> None:
    path = small(tmp_path / "a.zip")
    content = path.read_bytes()
    second = content.rindex(b"PK\1\2")
    # The second index entry now points at the first member, inside its bytes.
    path.write_bytes(content[: second + 42] + (10).to_bytes(4, "little") + content[second + 46 :])
    with pytest.raises(IntegrityError, match="runs into"):
        ArchiveReader(path)


def test_refuses_encrypted_members_and_doubles(tmp_path: Path) -> None:
    path = small(tmp_path / "a.zip")
    content = path.read_bytes()
    first = content.index(b"PK\1\2")
    locked = tmp_path / "locked.zip"
    locked.write_bytes(content[: first + 8] + b"\1\0" + content[first + 10 :])
    with pytest.raises(IntegrityError, match="one is encrypted"):
        ArchiveReader(locked)
    twice = tmp_path / "twice.zip"
    twice.write_bytes(content.replace(b"two", b"one"))
    with pytest.raises(IntegrityError, match="holds one twice"):
        ArchiveReader(twice)


def test_says_when_the_file_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(OutsideError, match="No such file"):
        ArchiveReader(tmp_path / "none.zip")


def test_reading_finds_a_wrong_crc(tmp_path: Path) -> None:
    path = small(tmp_path / "a.zip")
    content = path.read_bytes()
    path.write_bytes(content.replace(b"1" * 100, b"1" * 99 + b"x"))
    with ArchiveReader(path) as reader:
        assert reader.read("two") == b"2" * 100
        with pytest.raises(IntegrityError, match=r"one: Bad CRC-32"):
            reader.read("one")
