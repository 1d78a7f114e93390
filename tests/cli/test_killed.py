"""kill -9, Ctrl-C and a second forktool, at any instant: the patchset is the old one or the new one."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from forktool.adapters import git_store
from forktool.cli import main
from tests.support.story import Story

pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork.*:DeprecationWarning")

TEXT = "".join(f"line_{number} = {number}\n" for number in range(1, 31))
SETTLED = TEXT.replace("line_10 = 10", "line_10 = 'TEN'")
# Python's audit events (library/audit_events) for everything that a rebase does to the outside.
OUTSIDE = frozenset(
    {"open", "os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.truncate", "os.chmod", "shutil.rmtree",
     "shutil.copyfile", "subprocess.Popen", "fcntl.flock"}
)  # fmt: skip


def is_outside(event: str, arguments: tuple[object, ...]) -> bool:
    if event != "open":
        return event in OUTSIDE
    return bool(isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR))


def killed_at(step: int, argv: tuple[str, ...]) -> int:
    """Run forktool in a process that kills itself at its `step`-th act on the outside.

    Returns:
        0 where it was killed, else how many acts there were.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        count = 0

        def hook(event: str, arguments: tuple[object, ...]) -> None:
            nonlocal count
            if is_outside(event, arguments):
                count += 1
                if count == step:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(hook)
        try:
            main(argv)
            os.write(writer, str(count).encode())
        finally:
            os._exit(0)
    os.close(writer)
    _pid, status = os.waitpid(child, 0)
    with open(reader, "rb") as stream:  # noqa: PTH123 - a descriptor, not a path
        counted = stream.read()
    if counted:
        return int(counted)
    assert os.WIFSIGNALED(status)
    assert os.WTERMSIG(status) == signal.SIGKILL
    return 0


def points(total: int, number: int) -> list[int]:
    """Some instants of all, evenly spread, with the last ones, where files are written."""
    return sorted({1 + step * (total - 1) // (number - 1) for step in range(number)})


def series(story: Story) -> None:
    """Three patches: one is absorbed, one refreshed, one stops on v1.1 and not on v1.2."""
    story.release("v1.0", {"a.py": TEXT, "b.py": "b = 1\n", "c.py": TEXT})
    story.start("v1.0")
    story.patch("gone", {"b.py": "b = 1\nc = 2\n"}, probe="assert 'c = 2' in tree.read_text('b.py')")
    story.patch("moves", {"c.py": TEXT.replace("line_10 = 10", "line_10 = 'ten'")})
    story.patch("stops", {"a.py": TEXT.replace("line_10 = 10", "line_10 = 'ten'")})
    story.release("v1.2", {"b.py": "b = 1\nc = 2\n", "c.py": "import os\n" + TEXT})
    story.release("v1.1", {"a.py": TEXT.replace("line_10 = 10", "line_10 = 0x0A")})


@pytest.fixture(autouse=True)
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A place for scratch objects that no other test uses: what is swept there is an act too, and they are counted."""
    (tmp_path / "memory").mkdir()
    monkeypatch.setattr(git_store, "MEMORY", tmp_path / "memory")


class Saved:
    """A project to come back to, again and again."""

    def __init__(self, story: Story) -> None:
        self._folders = [
            story.project / "patchset",
            story.project / ".forktool",
            story.project.parent / "memory",
        ]
        self._copy = Path(tempfile.mkdtemp(dir=story.project.parent))
        for folder in self._folders:
            shutil.copytree(folder, self._copy / folder.name, symlinks=True)

    def restore(self) -> None:
        for folder in self._folders:
            shutil.rmtree(folder)
            shutil.copytree(self._copy / folder.name, folder, symlinks=True)


def test_kill_9_at_twenty_points_of_a_rebase(story: Story) -> None:
    series(story)
    assert (
        story.run("rebase", "v1.2", "--dry-run").code == 0
    )  # both tags are fetched, the probe's answers are known
    old, saved = story.snapshot(), Saved(story)
    total = killed_at(0, ("rebase", "v1.2"))
    new = story.snapshot()
    assert new != old
    assert total >= 20

    ended = []
    for number, step in enumerate(points(total, 20)):
        saved.restore()
        assert killed_at(step, ("rebase", "v1.2")) == 0
        aborted = story.run("rebase", "--abort")
        assert aborted.code == 2, "no rebase stopped"
        ended.append(story.snapshot() == new)
        assert ended[-1] or story.snapshot() == old, step
        if number % 4 == 0:
            again = story.run("rebase", "v1.2")
            assert again.code == 0, (step, again.err)
            assert story.snapshot() == new, step
    assert ended == sorted(ended), "from some instant on it is the new one"
    assert ended[0] is False
    assert ended[-1] is True


def test_kill_9_on_the_way_to_a_stop_and_on_the_way_on(story: Story) -> None:
    series(story)
    old = story.snapshot()
    assert story.run("rebase", "v1.1", "--dry-run").code == 3
    saved = Saved(story)
    for step in points(killed_at(0, ("rebase", "v1.1")), 6):
        saved.restore()
        assert killed_at(step, ("rebase", "v1.1")) == 0
        assert story.snapshot() == old
        assert story.run("rebase", "--abort").code in (0, 2)
        assert story.run("rebase", "v1.1").code == 3, step

    work = story.project / ".forktool/conflict/a.py"
    work.write_text(SETTLED)
    saved = Saved(story)
    total = killed_at(0, ("rebase", "--continue"))
    new = story.snapshot()
    assert new != old
    for step in points(total, 6):
        saved.restore()
        assert killed_at(step, ("rebase", "--continue")) == 0
        done = story.run("rebase", "--continue")
        if done.code == 2:  # it was all done but for cleaning up
            assert "no rebase is in progress" in done.err
        else:
            assert done.code == 0, (step, done.err)
        assert story.snapshot() == new, step
    assert story.run("rebase", "v1.1").code == 0


def forktool(story: Story, *words: str) -> subprocess.Popen[bytes]:
    """The program itself, in a process group of its own."""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    return subprocess.Popen(
        [sys.executable, "-m", "forktool", *words],
        cwd=story.project,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


def test_kill_9_of_the_program_itself_after_some_time(story: Story) -> None:
    series(story)
    old = story.snapshot()
    for delay in (0.2, 0.5, 0.9):
        shutil.rmtree(story.project / ".forktool")
        with forktool(story, "rebase", "v1.1") as program:
            time.sleep(delay)
            os.killpg(program.pid, signal.SIGKILL)
        assert story.snapshot() == old
        story.run("rebase", "--abort")
        again = story.run("rebase", "v1.1", "--dry-run")
        assert again.code == 3, again.err


def test_lock_files_of_a_git_that_was_killed_stop_nothing(story: Story) -> None:
    series(story)
    store = story.project / ".forktool/upstream.git"
    locks = [
        store / "config.lock",
        store / "shallow.lock",
        store / "packed-refs.lock",
        store / "refs/heads/x.lock",
    ]
    for lock in locks:
        lock.touch()

    assert story.run("rebase", "v1.1").code == 3

    assert not any(lock.exists() for lock in locks)


HANGS = "import pathlib, time\npathlib.Path({mark!r}).touch()\ntime.sleep(60)"


def wait_for(mark: Path, program: subprocess.Popen[bytes]) -> None:
    while not mark.exists():
        assert program.poll() is None, program.communicate()
        time.sleep(0.01)


def is_alive(group: int) -> bool:
    """Whether a process of the group still runs after a moment; one that only waits to be reaped does not."""
    for _ in range(100):
        listed = subprocess.run(
            ["ps", "-e", "-o", "pgid=,stat="], capture_output=True, text=True, check=True
        ).stdout
        states = [
            state for number, state in (line.split() for line in listed.splitlines()) if int(number) == group
        ]
        if all(state.startswith("Z") for state in states):
            return False
        time.sleep(0.02)
    return True


def test_a_second_forktool_is_refused_and_ctrl_c_of_the_first_leaves_nothing(
    story: Story, tmp_path: Path
) -> None:
    mark = tmp_path / "started"
    story.release("v1.0", {"a.py": TEXT})
    story.start("v1.0")
    story.patch(
        "ten", {"a.py": TEXT.replace("line_10 = 10", "line_10 = 'ten'")}, probe=HANGS.format(mark=str(mark))
    )
    story.release("v1.1", {"a.py": "import os\n" + TEXT})
    before = story.snapshot()

    with forktool(story, "rebase", "v1.1") as first:
        wait_for(mark, first)
        for words in (["rebase", "v1.1"], ["rebase", "--abort"], ["check"], ["status", "--onto", "v1.1"]):
            second = story.run(*words)
            assert second.code == 4, words
            assert f"in use by process {first.pid}" in second.err
        assert story.run("status").code == 0, "looking at the series needs no lock"
        os.kill(first.pid, signal.SIGINT)
        _out, err = first.communicate(timeout=20)

    assert first.returncode == 130
    assert err.splitlines()[-1] == b"error: interrupted"
    assert not is_alive(first.pid), "the process that ran the probe is still there"
    assert story.snapshot() == before
    assert not list((story.project / ".forktool").glob("**/*.tmp"))
    story.probe("ten", "assert 'ten' in tree.read_text('a.py')")
    assert story.run("rebase", "v1.1").code == 0


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_of_the_whole_group_ends_130_and_leaves_the_old_patchset(
    story: Story, tmp_path: Path, sent: signal.Signals
) -> None:
    """As a terminal sends it: to forktool and to the git that it waits for."""
    mark = tmp_path / "started"
    slow = tmp_path / "slow-ssh"
    slow.write_text(f"#!/bin/sh\ntouch {mark}\nexec sleep 60\n")
    slow.chmod(0o755)
    series(story)
    config = story.project / "patchset/patchset.toml"
    config.write_text(config.read_text().replace(str(story.upstream), "ssh://host.invalid/upstream"))
    before = story.snapshot()
    os.environ["GIT_SSH_COMMAND"] = str(slow)
    try:
        program = forktool(story, "rebase", "v1.1")
    finally:
        del os.environ["GIT_SSH_COMMAND"]
    with program:
        wait_for(mark, program)
        os.killpg(program.pid, sent)
        program.communicate(timeout=20)

    assert program.returncode == 130
    assert not is_alive(program.pid)
    assert story.snapshot() == before


def test_status_finishes_a_write_that_was_left_half_way_with_the_lock_only(story: Story) -> None:
    series(story)
    assert story.run("rebase", "v1.2").code == 0
    new = story.snapshot()
    staging = story.project / ".forktool/write"
    (staging / "files").mkdir(parents=True)
    (staging / "files/series").write_text("# half-way\n")
    patchset = story.project / "patchset"
    journal = {"patchset": str(patchset), "write": ["series"], "remove": [], "forget": []}
    (staging / "journal.json").write_text(json.dumps(journal))

    with (story.project / ".forktool/lock").open("a") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        refused = story.run("status")
    assert refused.code == 4
    assert "is in use by" in refused.err
    assert story.snapshot() == new

    assert story.run("status").code == 0
    assert (patchset / "series").read_text() == "# half-way\n"
    assert not (staging / "journal.json").exists()
