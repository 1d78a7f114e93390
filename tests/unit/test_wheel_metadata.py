from __future__ import annotations

import pytest
from packaging.version import Version

from forktool.core.wheel_metadata import (
    header,
    is_version_file,
    merge_entry_points,
    merge_metadata,
    repair_tags,
    set_python_version,
    set_version,
)
from forktool.core.wheel_names import parse_wheel_name
from forktool.errors import IntegrityError, PatchsetError

OLD = (Version("0.17.0"),)
NEW = Version("0.17.0+kimi.1.gabc")
NAME = parse_wheel_name("vllm-0.17.0-cp38-abi3-manylinux_2_31_x86_64.whl")


def metadata(*requires: str, body: str = "Version: not a header\n") -> bytes:
    lines = [
        "Metadata-Version: 2.4",
        "Name: vllm",
        "Version: 0.17.0",
        *(f"Requires-Dist: {r}" for r in requires),
    ]
    return ("\n".join(lines) + f"\nDynamic: license-file\n\n{body}").encode()


def test_sets_the_version_header_and_nothing_else() -> None:
    old = metadata("torch==2.9.1")
    new = set_version(old, NEW, where="W")
    assert new == old.replace(b"\nVersion: 0.17.0\n", b"\nVersion: 0.17.0+kimi.1.gabc\n")
    assert header(new, "version") == "0.17.0+kimi.1.gabc"


def test_keeps_crlf_and_a_folded_header() -> None:
    old = b"Name: a\r\nVersion: 1\r\nLicense: one\r\n        two\r\n\r\nbody\r\n"
    assert set_version(old, Version("1+x"), where="W") == old.replace(b"Version: 1\r", b"Version: 1+x\r")


@pytest.mark.parametrize("content", [b"Name: a\n\nVersion: 1\n", b"Version: 1\nVersion: 1\n"])
def test_refuses_metadata_without_one_version(content: bytes) -> None:
    with pytest.raises(IntegrityError, match="Version headers, not one"):
        set_version(content, NEW, where="W")


def test_repairs_the_tag_that_upstream_left_as_built() -> None:
    wheel = b"Wheel-Version: 1.0\nGenerator: setuptools (80)\nRoot-Is-Purelib: false\nTag: cp38-abi3-linux_x86_64\n\n"
    assert repair_tags(wheel, NAME) == wheel.replace(b"linux_x86_64", b"manylinux_2_31_x86_64")


def test_leaves_a_right_wheel_file_alone() -> None:
    wheel = b"Wheel-Version: 1.0\r\nTag: cp38-abi3-manylinux_2_31_x86_64\r\n"
    assert repair_tags(wheel, NAME) is wheel


def test_writes_every_tag_of_the_name_and_its_build() -> None:
    name = parse_wheel_name("a-1-2-py2.py3-none-any.whl")
    assert repair_tags(b"Wheel-Version: 1.0", name) == (
        b"Wheel-Version: 1.0\nTag: py2-none-any\nTag: py3-none-any\nBuild: 2\n"
    )


def test_rewrites_version_and_tuple_of_setuptools_scm() -> None:
    source = b"""\
version: str
__version_tuple__: VERSION_TUPLE
# 0.17.0 in a comment stays
__version__ = version = '0.17.0'
__version_tuple__ = version_tuple = (0, 17, 0)
__commit_id__ = commit_id = 'gb31e9326a'
"""
    assert set_python_version(source, OLD, NEW) == source.replace(
        b"= '0.17.0'", b"= '0.17.0+kimi.1.gabc'"
    ).replace(b"(0, 17, 0)", b"(0, 17, 0, 'kimi.1.gabc')")


def test_rewrites_after_non_ascii_text_and_keeps_line_ends() -> None:
    source = '"""ü"""; x = "日"; __version__: str = "0.17.0"\r\ny = 1\r\n'.encode()
    assert set_python_version(source, OLD, NEW) == source.replace(b'"0.17.0"', b"'0.17.0+kimi.1.gabc'")


@pytest.mark.parametrize(
    "source",
    [
        b"__version__ = '0.18.0'\n",
        b"__version__ = get()\n",
        b"def f():\n    __version__ = '0.17.0'\n",
        b"required = '0.17.0'\n",
        b"__version_tuple__ = (0, 18)\n",
        b"__version__ = 'dev'\n",
        b"not python(\n",
        b"\0",
    ],
)
def test_leaves_files_that_state_no_version_of_ours(source: bytes) -> None:
    assert set_python_version(source, OLD, NEW) is None


@pytest.mark.parametrize(
    ("path", "answer"),
    [
        ("vllm/_version.py", True),
        ("vllm/__init__.py", True),
        ("vllm/a/_version.py", False),
        ("vllm-1.dist-info/version.py", False),
        ("vllm-1.data/version.py", False),
        ("_version.py", False),
    ],
)
def test_which_files_may_state_the_version(path: str, answer: bool) -> None:
    assert is_version_file(path) is answer


def test_metadata_of_the_published_wheel_gives_way_when_the_backend_repeats_it() -> None:
    bare, patched = metadata("torch==2.9.1", "b"), metadata("torch==2.9.2", "b")
    assert merge_metadata(bare, bare=bare, patched=patched, where="W") == patched


def test_only_the_difference_reaches_metadata_of_another_build() -> None:
    published = metadata("torch==2.10.0+cpu", "tiktoken>=0.6.0", "numpy", body="another\n")
    bare, patched = (
        metadata("torch==2.9.1", "tiktoken>=0.6.0"),
        metadata("torch==2.9.1", "tiktoken>=0.7.0", "new"),
    )
    merged = merge_metadata(published, bare=bare, patched=patched, where="W")
    # One stands in for the other in its place; what has no counterpart comes last of its name.
    assert merged == metadata("torch==2.10.0+cpu", "tiktoken>=0.7.0", "numpy", "new", body="another\n")


def test_a_requirement_that_goes_leaves_the_published_metadata() -> None:
    merged = merge_metadata(
        metadata("x", "a", "b"), bare=metadata("a", "b"), patched=metadata("b"), where="W"
    )
    assert merged == metadata("x", "b")


def test_refuses_to_change_a_requirement_that_the_wheel_words_differently() -> None:
    with pytest.raises(PatchsetError, match=r"'Requires-Dist: torch==2.9.1', which the METADATA of W"):
        merge_metadata(
            metadata("torch==2.10.0+cpu"),
            bare=metadata("torch==2.9.1"),
            patched=metadata("torch==2.9.2"),
            where="W",
        )


def test_refuses_two_descriptions() -> None:
    with pytest.raises(PatchsetError, match="description"):
        merge_metadata(metadata(body="x"), bare=metadata(body="y"), patched=metadata(body="z"), where="W")


def test_only_the_difference_reaches_the_entry_points() -> None:
    published = b"[console_scripts]\nvllm = vllm.main:main\nextra = e:f\n\n[g]\nx = y\n"
    bare = b"[console_scripts]\nvllm = vllm.main:main\nold = o:p\n"
    patched = b"[console_scripts]\nvllm = vllm.other:main\nold = o:p\nnew = n:m\n"
    assert merge_entry_points(published, bare=bare, patched=patched, where="W") == (
        b"[console_scripts]\nvllm = vllm.other:main\nextra = e:f\nnew = n:m\n\n[g]\nx = y\n"
    )


def test_refuses_an_entry_point_that_the_wheel_has_otherwise() -> None:
    with pytest.raises(PatchsetError, match=r"entry point vllm in \[console_scripts\]"):
        merge_entry_points(
            b"[console_scripts]\nvllm = other\n",
            bare=b"[console_scripts]\nvllm = one\n",
            patched=b"[console_scripts]\nvllm = two\n",
            where="W",
        )
