from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from packaging.version import Version

from forktool.adapters import wheel_verify
from forktool.adapters.sbom import make_sbom, schema_problem
from forktool.adapters.wheel_overlay import overlay
from forktool.adapters.wheel_verify import verify_wheel
from forktool.core.provenance import CarriedPatch, Provenance, format_provenance
from tests.support.wheels import TAG, make_wheel, sample_files

VERSION = Version("1.2.0+kimi.1.gabcdef0123")
PROVENANCE = Provenance(
    version=str(VERSION),
    package="acme",
    base_version="1.2.0",
    base_tag="v1.2.0",
    base_tree="a" * 40,
    tree="b" * 40,
    published_filename=f"acme-1.2.0-{TAG}.whl",
    published_sha256="c" * 64,
    label="kimi",
    series_digest="d" * 64,
    patches=(
        CarriedPatch(name="gate", sha256="e" * 64, subject="Open the gate", verdict="carried"),
        CarriedPatch(
            name="fix",
            sha256="f" * 64,
            subject="Fix",
            verdict="carried",
            kind="backport",
            references=("https://github.com/acme/acme/pull/1",),
        ),
    ),
    changed=("acme/_version.py", "acme/gate.py"),
)
DIFFS = {"gate": b"--- a\n+++ b\n", "fix": b"latin-1: \xe9\n"}
WHEN = datetime(2026, 2, 26, tzinfo=UTC)


def sbom(provenance: Provenance = PROVENANCE) -> bytes:
    return make_sbom(provenance, project="acme", diffs=DIFFS, timestamp=WHEN)


def forked(
    folder: Path,
    *,
    provenance: Provenance = PROVENANCE,
    gate: bytes = b"ALLOWED = []\n",
    extra: Mapping[str, bytes] | None = None,
) -> Path:
    files = {"forktool.json": format_provenance(provenance), "sboms/forktool.cdx.json": sbom(provenance)}
    source = make_wheel(folder)
    return overlay(
        source,
        folder,
        changes={"acme/gate.py": gate},
        version=VERSION,
        extra_dist_info=files | dict(extra or {}),
    ).path


def problems(path: Path) -> tuple[str, ...]:
    return verify_wheel(path, tools=False).problems


def test_a_wheel_of_ours_is_right_and_lists_its_patches(tmp_path: Path) -> None:
    path = forked(tmp_path)
    found = verify_wheel(path, published=tmp_path / PROVENANCE.published_filename)
    assert found.problems == ()
    assert found.not_run == ()
    assert found.provenance == PROVENANCE
    for check in ("CycloneDX schema", "twine check --strict", "check-wheel-contents", "10 hashes"):
        assert check in found.checks


def test_a_published_wheel_with_the_wrong_tag_is_named(tmp_path: Path) -> None:
    found = verify_wheel(make_wheel(tmp_path), tools=False)
    assert found.problems == (f"WHEEL says cp38-abi3-linux_x86_64, and the file name {TAG}",)
    assert found.provenance is None
    assert "not made by forktool" in found.notes[0]


def test_any_right_wheel_passes(tmp_path: Path) -> None:
    assert problems(make_wheel(tmp_path, inner_tag=TAG)) == ()


def test_says_which_tools_did_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # An interpreter without the optional tools, which this one has.
    monkeypatch.setattr(wheel_verify, "_is_installed", lambda _module: False)
    found = verify_wheel(make_wheel(tmp_path, inner_tag=TAG))
    assert [line.partition(":")[0] for line in found.not_run] == [
        "twine check --strict",
        "check-wheel-contents",
    ]
    assert found.is_right


def test_twine_refuses_a_description_that_does_not_render(tmp_path: Path) -> None:
    head = b"Metadata-Version: 2.1\nName: acme\nVersion: 1.2.0\nDescription-Content-Type: text/x-rst\n"
    metadata = head + b"\nA\n=\n\n**b\n"
    source = make_wheel(tmp_path)
    path = overlay(source, tmp_path, changes={}, version=VERSION, extra_dist_info={"METADATA": metadata}).path
    found = verify_wheel(path)
    assert [line.partition(":")[0] for line in found.problems] == ["twine check --strict"]


def test_check_wheel_contents_may_be_no_worse_than_upstream(tmp_path: Path) -> None:
    # Two equal files that are not empty are its W002.
    double = {"acme/one.py": b"same = 1\n", "acme/two.py": b"same = 1\n"}
    (tmp_path / "with").mkdir()
    with_double = make_wheel(tmp_path / "with", sample_files() | double, inner_tag=TAG)
    without = make_wheel(tmp_path, inner_tag=TAG)
    path = overlay(without, tmp_path, changes=double, version=VERSION).path
    assert verify_wheel(path, published=with_double).problems == ()
    assert "W002, which" in verify_wheel(path, published=without).problems[0]
    alone = verify_wheel(path)
    assert alone.problems == ()
    assert any("W002" in note for note in alone.notes)


def test_finds_every_kind_of_damage(tmp_path: Path) -> None:
    files = dict(sample_files(), **{"acme/_C.abi3.so": b"changed"})
    with zipfile.ZipFile(make_wheel(tmp_path, inner_tag=TAG)) as archive:
        record = archive.read("acme-1.2.0.dist-info/RECORD")
    assert problems(make_wheel(tmp_path, files, record=record, inner_tag=TAG)) == (
        "acme/_C.abi3.so is not what RECORD says: the hash differs",
    )
    lines = record.decode().splitlines()
    wrong_size = "\n".join(line[:-1] + "9" if line.startswith("acme/gate.py") else line for line in lines)
    assert problems(make_wheel(tmp_path, record=wrong_size.encode(), inner_tag=TAG)) == (
        "acme/gate.py is 28 bytes and RECORD says 29",
    )


@pytest.mark.parametrize(
    ("files", "options", "problem"),
    [
        ({}, {"unrecorded": frozenset({"acme/gate.py"})}, "acme/gate.py is missing from RECORD"),
        ({"acme-1.0.data/scripts/x": b""}, {}, "the folder acme-1.0.data belongs to another version"),
        ({"acme/Gate.py": b""}, {}, "acme/gate.py and acme/Gate.py clash when they are installed"),
    ],
)
def test_finds_what_does_not_agree(
    tmp_path: Path, files: dict[str, bytes], options: dict[str, frozenset[str]], problem: str
) -> None:
    path = make_wheel(tmp_path, sample_files() | files, inner_tag=TAG, **options)  # type: ignore[arg-type]
    assert problem in problems(path)


def test_a_truncated_wheel_is_a_problem_and_no_exception(tmp_path: Path) -> None:
    path = make_wheel(tmp_path)
    path.write_bytes(path.read_bytes()[:-30])
    assert "is damaged" in problems(path)[0]


def test_finds_changed_python_that_does_not_parse(tmp_path: Path) -> None:
    found = problems(forked(tmp_path, gate=b"def f(:\n"))
    assert found == ("acme/gate.py:1: invalid syntax",)


def test_checks_what_the_provenance_says(tmp_path: Path) -> None:
    wrong = replace(PROVENANCE, added=("acme/none.py",), deleted=("acme/__init__.py",))
    assert problems(forked(tmp_path, provenance=wrong)) == (
        "acme/none.py is missing, which forktool.json lists",
        "acme/__init__.py is there, which forktool.json lists as deleted",
    )
    other = replace(PROVENANCE, version="1.2.0+kimi.2")
    assert problems(forked(tmp_path, provenance=other)) == ("forktool.json is of version 1.2.0+kimi.2",)


def test_finds_a_sbom_that_its_schema_refuses(tmp_path: Path) -> None:
    found = problems(forked(tmp_path, extra={"sboms/forktool.cdx.json": b"{}"}))
    assert found == ("sboms/forktool.cdx.json: 'bomFormat' is a required property",)


def test_the_sbom_is_valid_and_says_where_the_wheel_comes_from() -> None:
    content = sbom()
    assert schema_problem(content) is None
    assert content == sbom()
    document = json.loads(content)
    component = document["metadata"]["component"]
    assert document["metadata"]["timestamp"] == "2026-02-26T00:00:00+00:00"
    assert component["purl"] == "pkg:pypi/acme@1.2.0%2Bkimi.1.gabcdef0123"
    ancestor = component["pedigree"]["ancestors"][0]
    assert ancestor["hashes"] == [{"alg": "SHA-256", "content": "c" * 64}]
    patches = {patch["resolves"][0]["name"]: patch for patch in component["pedigree"]["patches"]}
    assert patches["gate"]["type"] == "unofficial"
    assert patches["gate"]["diff"]["text"]["content"] == "--- a\n+++ b\n"
    assert patches["fix"]["type"] == "backport"
    assert patches["fix"]["diff"]["text"]["encoding"] == "base64"
    assert patches["fix"]["resolves"][0]["references"] == ["https://github.com/acme/acme/pull/1"]


def test_the_serial_number_follows_the_tree() -> None:
    serials = {json.loads(sbom(replace(PROVENANCE, tree=c * 40)))["serialNumber"] for c in "bc"}
    assert len(serials) == 2
