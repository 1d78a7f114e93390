from __future__ import annotations

import json

import pytest

from forktool.core.provenance import CarriedPatch, Provenance, format_provenance, parse_provenance
from forktool.errors import IntegrityError

PROVENANCE = Provenance(
    version="0.16.0+kimi.1.gabc",
    package="vllm",
    base_version="0.16.0",
    base_tag="v0.16.0",
    base_tree="a" * 40,
    tree="b" * 40,
    published_filename="vllm-0.16.0-cp38-abi3-manylinux_2_31_x86_64.whl",
    published_sha256="c" * 64,
    label="kimi",
    series_digest="d" * 64,
    patches=(CarriedPatch(name="x", sha256="e" * 64, subject="Ünder", verdict="carried", kind="backport"),),
    changed=("vllm/b.py", "vllm/a.py"),
)


def test_round_trips_and_sorts_the_files() -> None:
    content = format_provenance(PROVENANCE)
    found = parse_provenance(content, where="W")
    assert found.changed == ("vllm/a.py", "vllm/b.py")
    assert format_provenance(found) == content
    assert found.patches == PROVENANCE.patches


def test_states_schema_base_and_tree() -> None:
    document = json.loads(format_provenance(PROVENANCE))
    assert document["schema"] == 1
    assert document["base"] == {"package": "vllm", "version": "0.16.0", "tag": "v0.16.0", "tree": "a" * 40}
    assert document["tree"] == "b" * 40


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"schema": 2}, "not of schema 1"),
        ({"base": {}}, "lacks or misspells"),
        ({"tree": 1}, "lacks or misspells"),
        ({"files": {"changed": "x", "added": [], "deleted": []}}, "lacks or misspells"),
        ({"patches": [{"name": "x"}]}, "lacks or misspells"),
    ],
)
def test_refuses_another_document(change: dict[str, object], problem: str) -> None:
    document = json.loads(format_provenance(PROVENANCE)) | change
    with pytest.raises(IntegrityError, match=problem):
        parse_provenance(json.dumps(document).encode(), where="W")


def test_refuses_what_is_not_json() -> None:
    with pytest.raises(IntegrityError, match="not JSON"):
        parse_provenance(b"{", where="W")
