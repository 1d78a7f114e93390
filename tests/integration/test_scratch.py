"""Scratch folders: one that a killed process left goes away with the next, one that is in use stays."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from forktool.adapters.scratch import make_scratch

KILLED = """
import os, signal, sys
from pathlib import Path
from forktool.adapters.scratch import make_scratch
folder, _lock = make_scratch(Path(sys.argv[1]))
(folder / "object").write_text("x")
print(folder, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """An empty folder."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    return folder


def test_what_a_killed_process_left_is_removed_by_the_next(place: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(
        [sys.executable, "-c", KILLED, place], capture_output=True, text=True, check=False, env=environment
    )
    left = Path(done.stdout.strip())
    assert (left / "object").is_file()

    made, lock = make_scratch(place)

    assert [file.name for file in place.iterdir()] == [made.name]
    os.close(lock)


def test_what_is_in_use_stays(place: Path) -> None:
    first, first_lock = make_scratch(place)
    (first / "object").write_text("x")
    second, second_lock = make_scratch(place)

    assert first != second
    assert (first / "object").is_file()

    os.close(first_lock)
    third, third_lock = make_scratch(place)
    assert sorted(file.name for file in place.iterdir()) == sorted([second.name, third.name])
    os.close(second_lock)
    os.close(third_lock)


def test_what_is_not_ours_is_left_alone(place: Path) -> None:
    elsewhere = place / "elsewhere"
    elsewhere.mkdir()
    shared = place / "shared"
    shared.mkdir()
    (shared / "forktool-objects.lock-link").symlink_to(elsewhere)
    (shared / "forktool-objects-old").mkdir()

    _made, lock = make_scratch(shared)

    assert elsewhere.is_dir()
    assert (shared / "forktool-objects-old").is_dir()
    os.close(lock)
