from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.version import Version

from forktool.core.versions import TagPattern, between, find, nearest, newest, ordered, unknown_tag
from forktool.errors import RequestError

V = TagPattern()
VLLM = (
    *("v0.15.1", "v0.16.0", "v0.17.0", "v0.17.1", "v0.18.0", "v0.18.0rc1", "v0.18.0.post1", "v0.19.0.dev3"),
    *("v0.10.0", "v0.9.2", "nightly", "v0.33.0", "v0.34.0rc1"),
)


def test_a_tag_is_a_version_in_the_pattern() -> None:
    assert V.version("v0.16.0") == Version("0.16.0")
    assert V.version("0.16.0") is None
    assert V.version("v") is None
    assert V.version("vnightly") is None
    assert V.tag("0.16.0") == "v0.16.0"
    released = TagPattern("release/{version}-final")
    assert released.version("release/1.2-final") == Version("1.2")
    assert released.version("release/1.2") is None
    assert released.version("release/-final") is None
    assert released.tag(Version("1.2")) == "release/1.2-final"


def test_affixes_that_overlap_leave_no_version() -> None:
    assert TagPattern("a{version}a").version("a") is None


@pytest.mark.parametrize("text", ["v", "{version}{version}", ""])
def test_a_pattern_without_one_hole_is_refused(text: str) -> None:
    with pytest.raises(RequestError, match="once") as caught:
        TagPattern(text)
    assert caught.value.hint == 'write tag_pattern = "v{version}" in patchset.toml'


def test_the_glob_escapes_what_git_would_match() -> None:
    assert V.glob() == "v*"
    assert TagPattern("a[1]*{version}?").glob() == r"a\[1]\**\?"


def test_order_is_by_version_not_by_text() -> None:
    assert ordered(VLLM, V) == (
        *("v0.9.2", "v0.10.0", "v0.15.1", "v0.16.0", "v0.17.0", "v0.17.1", "v0.18.0rc1", "v0.18.0"),
        *("v0.18.0.post1", "v0.19.0.dev3", "v0.33.0", "v0.34.0rc1"),
    )


def test_two_spellings_of_one_version_are_one_tag() -> None:
    assert ordered(("v1.0.0", "v1.0", "v0.9"), V) == ("v0.9", "v1.0")
    assert ordered(("v1.0", "v1.0.0", "v0.9"), V) == ("v0.9", "v1.0")


def test_the_newest_is_final() -> None:
    assert newest(VLLM, V) == "v0.33.0"
    assert newest(("v1.0rc1", "v1.0.dev1"), V) is None
    assert newest(("v1.0", "v1.0.post1"), V) == "v1.0.post1"


def test_a_tag_is_found_by_text_or_by_version() -> None:
    assert find("v0.17.0", VLLM, V) == "v0.17.0"
    assert find("0.17.0", VLLM, V) == "v0.17.0"
    assert find("v0.17", VLLM, V) == "v0.17.0"
    assert find("nightly", VLLM, V) == "nightly"
    assert find("v0.16.2", VLLM, V) is None
    assert find("main", VLLM, V) is None


def test_the_nearest_of_a_release_that_was_never_made() -> None:
    assert nearest("v0.16.2", VLLM, V) == ("v0.16.0", "v0.17.0")
    assert nearest("0.16.2", VLLM, V) == ("v0.16.0", "v0.17.0")
    assert nearest("v99", VLLM, V) == ("v0.33.0",)
    assert nearest("v0.1", VLLM, V) == ("v0.9.2",)
    # A pre-release is named for one who asks for a pre-release only.
    assert nearest("v0.18.0rc0", VLLM, V) == ("v0.17.1", "v0.18.0rc1")
    assert nearest("v0.17.9", VLLM, V) == ("v0.17.1", "v0.18.0")
    assert nearest("main", VLLM, V) == ("v0.33.0",)
    assert nearest("v1", (), V) == ()
    assert nearest("v2", ("v1rc1",), V) == ("v1rc1",)


def test_the_error_for_an_unknown_tag_names_them() -> None:
    error = unknown_tag("v0.16.2", VLLM, V, name="vllm")
    assert error.message == "v0.16.2 is not a release of vllm; nearest: v0.16.0, v0.17.0"
    assert error.exit_code == 2
    assert unknown_tag("v1", (), V, name="demo").message == "v1 is not a release of demo, which has none"


def test_a_span_is_open_on_the_left_and_closed_on_the_right() -> None:
    assert between("v0.16.0..v0.18.0", VLLM, V, name="vllm") == ("v0.17.0", "v0.17.1", "v0.18.0")
    assert between("0.17.1..", VLLM, V, name="vllm") == ("v0.18.0", "v0.18.0.post1", "v0.33.0")
    # A pre-release between is left out; one that is named counts.
    assert between("v0.17.1..v0.18.0rc1", VLLM, V, name="vllm") == ("v0.18.0rc1",)
    assert between("v0.18.0rc1..v0.18.0", VLLM, V, name="vllm") == ("v0.18.0",)


@pytest.mark.parametrize(
    ("span", "message", "hint"),
    [
        ("v0.16.0", "is not a span", "write it as v0.16.0..v0.17.0"),
        ("..v0.17.0", "is not a span", "write it as v0.16.0..v0.17.0"),
        ("v0.16.0...v0.17.0", "is not a span", "write it as v0.16.0..v0.17.0"),
        ("v0.16.2..v0.17.0", "v0.16.2 is not a release", "use v0.17.0"),
        ("v0.16.0..v0.16.2", "v0.16.2 is not a release", "use v0.17.0"),
        ("v0.17.0..v0.16.0", "is not newer", "write it as v0.16.0..v0.17.0"),
        ("v0.17.0..v0.17.0", "is not newer", None),
    ],
)
def test_a_span_that_makes_no_sense_is_refused(span: str, message: str, hint: str | None) -> None:
    with pytest.raises(RequestError, match=message) as caught:
        between(span, VLLM, V, name="vllm")
    assert caught.value.hint == hint


_VERSIONS = st.builds(
    lambda parts, suffix: ".".join(map(str, parts)) + suffix,
    st.lists(st.integers(0, 40), min_size=1, max_size=4),
    st.sampled_from(["", "rc1", ".dev2", ".post1", "a3"]),
)


@given(st.lists(_VERSIONS, max_size=12), _VERSIONS)
def test_neighbours_lie_on_both_sides_with_no_final_release_between(versions: list[str], asked: str) -> None:
    tags = [V.tag(version) for version in versions]
    if find(asked, tags, V) is not None:
        return
    found = [version for tag in nearest(asked, tags, V) if (version := V.version(tag)) is not None]
    wanted = Version(asked)
    finals = [version for version in map(Version, versions) if not version.is_prerelease]
    if found and finals:
        low = [version for version in found if version < wanted]
        high = [version for version in found if version > wanted]
        assert len(low) <= 1
        assert len(high) <= 1
        for version in finals:
            assert not (low and low[0] < version < wanted)
            assert not (high and wanted < version < high[0])


@given(_VERSIONS, st.text("abc-/", max_size=4), st.text("abc-/", max_size=4))
def test_tag_and_version_go_both_ways(version: str, before: str, after: str) -> None:
    pattern = TagPattern(f"{before}{{version}}{after}")
    assert pattern.version(pattern.tag(version)) == Version(version)
