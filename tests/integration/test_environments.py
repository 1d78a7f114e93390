"""Environments of wheels: made once, made again after an interruption, refused where they cannot be."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pytest

from forktool.adapters.environments import environment, read_wheel
from forktool.adapters.process import run
from forktool.core.matrix import Setup
from forktool.errors import IntegrityError, OutsideError, RequestError
from tests.support.matrix_project import make_wheel


def test_an_environment_is_made_once(tmp_path: Path) -> None:
    wheel = read_wheel(make_wheel(tmp_path, "0.16.0+kimi.1"))
    first = environment(wheel, Setup(), home=tmp_path / "environments")
    assert first.seconds > 0
    assert (first.version, first.torch) == ("0.16.0+kimi.1", None)
    again = environment(wheel, Setup(), home=tmp_path / "environments")
    assert (again.seconds, again.python) == (0.0, first.python)
    done = run([first.python, "-c", "import vllm.entrypoints.cli.main as m; print(m.__file__)"])
    assert done.stdout.decode().startswith(str(tmp_path / "environments"))


def test_one_that_was_left_half_way_is_made_again(tmp_path: Path) -> None:
    wheel = read_wheel(make_wheel(tmp_path))
    made = environment(wheel, Setup(), home=tmp_path / "environments")
    folder = made.python.parent.parent
    (folder / "forktool.json").unlink()
    (folder / "bin" / "python").unlink()
    assert environment(wheel, Setup(), home=tmp_path / "environments").seconds > 0


def test_cells_that_run_at_once_share_it(tmp_path: Path) -> None:
    wheel = read_wheel(make_wheel(tmp_path))
    found = []
    threads = [
        threading.Thread(
            target=lambda: found.append(environment(wheel, Setup(), home=tmp_path / "environments"))
        )
        for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({item.python for item in found}) == 1
    assert sorted(item.seconds > 0 for item in found) == [False, False, True]


def test_other_bytes_or_another_setup_are_another_environment(tmp_path: Path) -> None:
    one = read_wheel(make_wheel(tmp_path / "one"))
    two = read_wheel(make_wheel(tmp_path / "two", behaviour={}))
    assert (one.version, one.sha256) != (two.version, two.sha256)
    home = tmp_path / "environments"
    places = {environment(item, Setup(), home=home).python for item in (one, two)}
    places.add(environment(one, Setup(alias="another"), home=home).python)
    assert len(places) == 3


def test_an_alias_answers_under_the_usual_name(tmp_path: Path) -> None:
    wheel = read_wheel(make_wheel(tmp_path, "0.16.0+kimi.1"))
    made = environment(replace(wheel), Setup(alias="vl"), home=tmp_path / "environments")
    code = "from importlib.metadata import version; print(version('vl'), version('vllm'))"
    assert run([made.python, "-c", code]).stdout.decode().split() == ["0.16.0+kimi.1.vllm", "0.16.0+kimi.1"]


def test_what_cannot_be_installed_says_why(tmp_path: Path) -> None:
    wheel = read_wheel(make_wheel(tmp_path))
    setup = Setup(extra=("forktool-no-such-package==1",))
    with pytest.raises(
        OutsideError, match=r"cannot make the environment: .*forktool-no-such-package"
    ) as raised:
        environment(wheel, setup, home=tmp_path / "environments", offline=True)
    assert raised.value.hint is not None


def test_wheels_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="is not there"):
        read_wheel(tmp_path / "vllm-0.16.0-py3-none-any.whl")
    with pytest.raises(RequestError, match="is not named as a wheel"):
        read_wheel(tmp_path / "vllm.zip")
    damaged = tmp_path / "vllm-0.16.0-py3-none-any.whl"
    damaged.write_bytes(b"no zip")
    with pytest.raises(IntegrityError, match="is damaged"):
        read_wheel(damaged)
