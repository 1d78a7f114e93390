from __future__ import annotations

import pytest

from forktool.core.archive import TreePlan, is_generated, matches
from forktool.core.objects import Mode
from forktool.errors import IntegrityError


@pytest.mark.parametrize(
    ("path", "pattern", "is_match"),
    [
        ("vllm/_version.py", "vllm/_version.py", True),
        ("a/vllm/_version.py", "vllm/_version.py", False),
        ("vllm/_version.pyx", "vllm/_version.py", False),
        ("vllm/x.so", "vllm/*.so", True),
        ("vllm/a/x.so", "vllm/*.so", False),
        ("vllm/a/x.so", "vllm/**/*.so", True),
        ("vllm/x.so", "vllm/**/*.so", True),
        ("csrc/a/b/generated/k.cu", "csrc/**/generated/", True),
        ("csrc/generated/k.cu", "csrc/**/generated/", True),
        ("csrc/generated.cu", "csrc/**/generated/", False),
        ("csrc/a/regenerated/k.cu", "csrc/**/generated/", False),
        ("a1", "a?", True),
        ("a/", "a?", False),
        ("a+b(c)", "a+b(c)", True),
        ("deep/down/here", "deep/**", True),
    ],
)
def test_patterns(path: str, pattern: str, *, is_match: bool) -> None:
    assert matches(path, ("nothing/at/all", pattern)) is is_match


@pytest.mark.parametrize(
    "path",
    [
        "PKG-INFO",
        "vllm.egg-info/SOURCES.txt",
        "src/a.egg-info/x/y",
        "vllm/__pycache__/a.cpython.pyc",
        "a/b.pyc",
    ],
)
def test_what_the_build_always_adds(path: str) -> None:
    assert is_generated(path, b"", ())


@pytest.mark.parametrize(
    "path", ["docs/PKG-INFO", "vllm/egg-info/x", "setup.py", "vllm/_version.py", "sub/setup.cfg"]
)
def test_what_is_upstreams(path: str) -> None:
    assert not is_generated(path, b"[egg_info]\ntag_build =\n", ())


@pytest.mark.parametrize(
    ("content", "is_added"),
    [
        (b"[egg_info]\ntag_build = \ntag_date = 0\n\n", True),
        (b"[egg_info]\r\ntag_build = \r\ntag_date = 0\r\n\r\n", True),
        (b"[egg_info]\ntag_build = rc1\ntag_date = 0\n", True),
        (b"[metadata]\nname = demo\n\n[egg_info]\ntag_build = \ntag_date = 0\n", False),
        (b"[egg_info]\ntag_build = \n[flake8]\nmax-line-length = 80\n", False),
        (b"# ours\n[egg_info]\ntag_build =\n", False),
    ],
)
def test_a_setup_cfg_is_generated_when_it_says_nothing_else(content: bytes, *, is_added: bool) -> None:
    assert is_generated("setup.cfg", content, ()) is is_added


def test_the_top_folder_is_stripped() -> None:
    plan = TreePlan("demo.tar.gz")
    assert plan.path("demo-1.0/") is None
    assert plan.path("demo-1.0/a/b.py") == "a/b.py"
    assert plan.path("./demo-1.0//a/./c") == "a/c"
    assert plan.path(".") is None


@pytest.mark.parametrize(
    ("member", "reason"),
    [
        ("/etc/passwd", "absolute path"),
        ("C:\\windows\\x", "absolute path"),
        ("demo-1.0/../x", "leads out"),
        ("..", "leads out"),
        ("other/x", "beside the top folder demo-1.0/"),
        ("demo-1.0/.git/config", "git repository"),
        ("demo-1.0/a/.GIT/hooks/x", "git repository"),
        ("demo-1.0/a\nb", "line break"),
    ],
)
def test_a_member_that_no_tree_may_hold_is_named(member: str, reason: str) -> None:
    plan = TreePlan("demo.tar.gz")
    plan.path("demo-1.0/setup.py")
    with pytest.raises(IntegrityError, match=reason) as caught:
        plan.path(member)
    assert caught.value.message.startswith(f"demo.tar.gz: {member!r} ")


@pytest.mark.parametrize("target", ["b", "../b", "./b", "../a/b", "../../b"])
def test_a_link_inside_is_kept(target: str) -> None:
    plan = TreePlan("demo.tar.gz")
    plan.add_link("a/c/link", target, content=7)
    assert plan.finish() == {"a/c/link": (Mode.SYMLINK, 7)}


@pytest.mark.parametrize("target", ["/etc/passwd", "../../../b", "x/../../b", "../x/..", "..//..//.."])
def test_a_link_that_leads_or_might_lead_out_is_refused(target: str) -> None:
    with pytest.raises(IntegrityError, match="'a/c/link' links out of the tree"):
        TreePlan("demo.tar.gz").add_link("a/c/link", target, content=0)


def test_a_file_below_a_link_is_refused() -> None:
    plan = TreePlan("demo.tar.gz")
    plan.add_link("a", "b", content=0)
    plan.add_file("a/x", executable=False, content=1)
    with pytest.raises(IntegrityError, match="'a/x' lies below a, which is a link"):
        plan.finish()


def test_a_file_below_a_file_is_refused() -> None:
    plan = TreePlan("demo.tar.gz")
    plan.add_file("a/x/y", executable=False, content=1)
    plan.add_file("a", executable=False, content=0)
    with pytest.raises(IntegrityError, match="lies below a, which is a file"):
        plan.finish()


def test_the_last_of_two_members_counts() -> None:
    plan = TreePlan("demo.tar.gz")
    plan.add_link("a", "b", content=0)
    plan.add_file("a", executable=True, content=1)
    assert plan.finish() == {"a": (Mode.EXECUTABLE, 1)}


def test_a_hard_link_is_the_file_again() -> None:
    plan = TreePlan("demo.tar.gz")
    plan.path("demo-1/")
    plan.add_file("a", executable=True, content=3)
    plan.add_hard_link("b", "demo-1/a")
    assert plan.finish() == {"a": (Mode.EXECUTABLE, 3), "b": (Mode.EXECUTABLE, 3)}
    with pytest.raises(IntegrityError, match="is a hard link to demo-1/none, which is not in the tree"):
        plan.add_hard_link("c", "demo-1/none")


def test_an_archive_without_files_is_refused() -> None:
    with pytest.raises(IntegrityError, match=r"demo\.tar\.gz holds no files"):
        TreePlan("demo.tar.gz").finish()
