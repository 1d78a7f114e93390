"""Stories of `forktool import --installed`: a hot fix in site-packages becomes a patch."""

from __future__ import annotations

from pathlib import Path

import pytest

from forktool.errors import ExitCode
from tests.support.installed import Environment, build_wheel
from tests.support.story import Result, Story

GATE = 'SUPPORTED = [\n    "llama",\n    "qwen",\n]\n\n\ndef check(name):\n    return name in SUPPORTED\n'
DOS = "first = 1\r\nsecond = 2\r\nthird = 3\r\n"
FILES = {"demo/__init__.py": "", "demo/gate.py": GATE, "demo/dos.py": DOS, "demo/gone.py": "gone = 1\n"}


@pytest.fixture
def fork(story: Story) -> Story:
    story.release("v1.0", {**FILES, "setup.py": "import setuptools\n"})
    story.release("v1.1", {"demo/gate.py": GATE.replace('"llama"', '"llama4"')})
    story.start("v1.0")
    story.git("config", "--global", "user.name", "Uma User")
    story.git("config", "--global", "user.email", "uma@example.org")
    return story


@pytest.fixture
def environment(tmp_path: Path) -> Environment:
    made = Environment(tmp_path / "env")
    made.install(build_wheel(tmp_path / "wheels", FILES))
    return made


def take(story: Story, environment: Environment, *options: str) -> Result:
    return story.run("import", "--installed", str(environment.python), "--distribution", "demo", *options)


def names(result: Result) -> list[str]:
    return [item["name"] for item in result.document["imported"]]


def edit(environment: Environment, path: str, old: str, new: str) -> None:
    file = environment.site / path
    text = file.read_bytes().decode()
    assert old in text
    file.write_bytes(text.replace(old, new).encode())


def test_an_edit_a_new_and_a_deleted_file_become_a_patch_each(fork: Story, environment: Environment) -> None:
    edit(environment, "demo/gate.py", '"qwen",\n', '"qwen",\n    "kimi",\n')
    edit(environment, "demo/dos.py", "second = 2", "second = 22")
    (environment.site / "demo/gone.py").unlink()
    (environment.site / "demo/added.py").write_text("added = 1\n")
    (environment.site / "demo/__pycache__").mkdir()
    (environment.site / "demo/__pycache__/gate.cpython-311.pyc").write_bytes(b"x")

    result = take(fork, environment, "--json")

    assert result.code == ExitCode.DONE, result.err
    assert names(result) == ["hot-fix-added", "hot-fix-dos", "hot-fix-gate", "hot-fix-gone"]
    assert fork.carried("demo/gate.py") == GATE.replace('"qwen",\n', '"qwen",\n    "kimi",\n')
    assert (fork.project.parent / "applied/demo/dos.py").read_bytes() == DOS.replace(
        "= 2\r", "= 22\r"
    ).encode()
    assert fork.carried("demo/added.py") == "added = 1\n"
    assert not (fork.project.parent / "applied/demo/gone.py").exists()
    for name in names(result):
        patch = (fork.project / f"patchset/{name}.patch").read_text()
        assert "Taken from demo 1.0" in patch
        assert (fork.project / f"patchset/probes/{name}.py").is_file()
    assert fork.run("live", "status", "--python", str(environment.python), "--distribution", "demo").code == 0


def test_all_in_one_patch_with_a_name_and_a_message(fork: Story, environment: Environment) -> None:
    edit(environment, "demo/gate.py", '"qwen"', '"qwen3"')
    edit(environment, "demo/dos.py", "second = 2", "second = 22")
    result = take(
        fork, environment, "--name", "hot-fix", "--message", "Fix it at once", "--sign-off", "--json"
    )
    assert result.code == ExitCode.DONE, result.err
    assert names(result) == ["hot-fix"]
    patch = (fork.project / "patchset/hot-fix.patch").read_text()
    assert "Subject: Fix it at once" in patch
    assert "Signed-off-by: Uma User <uma@example.org>" in patch
    assert fork.carried("demo/gate.py") == GATE.replace('"qwen"', '"qwen3"')


@pytest.mark.parametrize("is_applied", [False, True])
def test_an_edit_beside_the_series_is_told_from_it(
    fork: Story, environment: Environment, is_applied: bool
) -> None:
    fork.patch("first", {"demo/gate.py": GATE.replace("return name in", "return name not in")})
    if is_applied:
        where = ("--python", str(environment.python), "--distribution", "demo")
        assert fork.run("live", "apply", *where).code == 0
    edit(environment, "demo/gate.py", '"llama"', '"llama9"')
    assert take(fork, environment, "--name", "hot-fix").code == ExitCode.DONE
    both = GATE.replace("return name in", "return name not in").replace('"llama"', '"llama9"')
    assert fork.carried("demo/gate.py") == both
    patch = (fork.project / "patchset/hot-fix.patch").read_text()
    assert "llama9" in patch
    assert "+    return name" not in patch


def test_an_edit_of_another_release_is_carried_to_the_base(fork: Story, tmp_path: Path) -> None:
    made = Environment(tmp_path / "other")
    newer = {**FILES, "demo/gate.py": GATE.replace('"llama"', '"llama4"')}
    made.install(build_wheel(tmp_path / "newer", newer, version="1.1"))
    edit(made, "demo/gate.py", "return name in SUPPORTED", "return bool(name in SUPPORTED)")
    assert take(fork, made, "--name", "hot-fix").code == ExitCode.DONE
    assert fork.carried("demo/gate.py") == GATE.replace(
        "return name in SUPPORTED", "return bool(name in SUPPORTED)"
    )


def test_an_edit_of_the_place_of_a_patch_is_refused(fork: Story, environment: Environment) -> None:
    fork.patch("first", {"demo/gate.py": GATE.replace('"qwen"', '"qwen2"')})
    edit(environment, "demo/gate.py", '"qwen"', '"qwen9"')
    before = fork.snapshot()
    result = take(fork, environment)
    assert result.code == ExitCode.REQUEST
    assert "demo/gate.py: the edit in" in result.err
    assert fork.snapshot() == before


def test_nothing_to_take(fork: Story, environment: Environment) -> None:
    result = take(fork, environment)
    assert result.code == ExitCode.REQUEST
    assert "has no change that a patch could carry" in result.err
    fork.patch("first", {"demo/gate.py": GATE.replace('"qwen"', '"qwen2"')})
    edit(environment, "demo/gate.py", '"qwen"', '"qwen2"')
    result = take(fork, environment)
    assert result.code == ExitCode.REQUEST
    assert "the series has every change" in result.err


def test_what_no_patch_can_carry_is_named(fork: Story, tmp_path: Path) -> None:
    made = Environment(tmp_path / "built")
    made.install(build_wheel(tmp_path / "built-wheels", {**FILES, "demo/generated.py": "made = 1\n"}))
    edit(made, "demo/generated.py", "made = 1", "made = 2")
    edit(made, "demo/gate.py", '"qwen"', '"qwen3"')
    result = take(fork, made, "--dry-run")
    assert result.code == ExitCode.DONE
    assert "left out: demo/generated.py is not in the source tree of v1.0" in result.err
    assert '+    "qwen3",' in result.out


def test_sources_and_installed_exclude_each_other(fork: Story) -> None:
    assert fork.run("import").code == ExitCode.REQUEST
    assert fork.run("import", "x.patch", "--installed").code == ExitCode.REQUEST
