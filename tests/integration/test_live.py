"""`forktool live` on real environments."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from forktool.adapters import live_agent
from forktool.errors import ExitCode
from tests.support.installed import Environment, build_wheel, run, snapshot
from tests.support.story import Result, Story

MAIN = "def main():\n    return 'old'\n\n\ndef other():\n    return 1\n"
DEMO = {
    "demo/__init__.py": "",
    "demo/main.py": MAIN,
    "demo/gone.py": "gone = True\n",
    "demo/sub/__init__.py": "",
    "demo/sub/deep.py": "deep = 1\n",
}
BACKEND = """\
import os, zipfile

def build_editable(folder, config_settings=None, metadata_directory=None):
    members = {
        "demo.pth": os.getcwd() + "\\n",
        "demo-1.0.dist-info/METADATA": "Metadata-Version: 2.1\\nName: demo\\nVersion: 1.0\\n",
        "demo-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n",
    }
    members["demo-1.0.dist-info/RECORD"] = "".join(f"{name},,\\n" for name in [*members, "demo-1.0.dist-info/RECORD"])
    with zipfile.ZipFile(os.path.join(folder, "demo-1.0-py3-none-any.whl"), "w") as archive:
        for name, text in members.items():
            archive.writestr(name, text)
    return "demo-1.0-py3-none-any.whl"
"""
UPSTREAM = {**DEMO, "tests/test_main.py": "assert True\n", "csrc/kernel.cu": "int x;\n"}


@pytest.fixture
def fork(story: Story) -> Story:
    """A series of two patches on demo 1.0: one changes, adds and deletes, the other changes another place."""
    story.release("v1.0", UPSTREAM)
    story.start("v1.0")
    story.patch(
        "first",
        {
            "demo/main.py": MAIN.replace("'old'", "'new'"),
            "demo/gone.py": None,
            "demo/extra/__init__.py": "",
            "demo/extra/more.py": "more = 1\n",
            "tests/test_main.py": "assert 1\n",
        },
    )
    story.patch("second", {"demo/main.py": MAIN.replace("'old'", "'new'").replace("return 1", "return 2")})
    return story


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    return build_wheel(tmp_path / "wheels", DEMO)


@pytest.fixture(params=["pip", "uv"])
def environment(request: pytest.FixtureRequest, tmp_path: Path, wheel: Path) -> Environment:
    made = Environment(tmp_path / "env", request.param)
    made.install(wheel)
    return made


@pytest.fixture
def plain(tmp_path: Path, wheel: Path) -> Environment:
    """The quickest environment, for what does not depend on the installer."""
    made = Environment(tmp_path / "env")
    made.install(wheel)
    return made


def live(story: Story, action: str, environment: Environment, *options: str) -> Result:
    return story.run("live", action, "--distribution", "demo", "--python", str(environment.python), *options)


def states(result: Result) -> dict[str, str]:
    return {patch["name"]: patch["state"] for patch in result.document["patches"]}


def unmatched_rows(site: Path) -> list[str]:
    """The rows of RECORD whose hash or size is not that of the file, or whose file is missing."""
    wrong = []
    record = next(site.glob("demo-*.dist-info/RECORD"))
    for name, digest, size in csv.reader(record.read_text().splitlines()):
        path = site / name
        if digest and (
            not path.is_file()
            or live_agent.hashed(str(path), digest) != digest
            or path.stat().st_size != int(size)
        ):
            wrong.append(name)
    return wrong


def test_apply_and_revert_are_exact(fork: Story, environment: Environment) -> None:
    assert environment.evaluate("demo.main.main()") == "old"  # leaves a cache behind
    before = snapshot(environment.site)

    result = live(fork, "apply", environment)

    assert result.code == ExitCode.DONE, result.err
    assert environment.evaluate("demo.main.main(), demo.main.other()") == "('new', 2)"
    assert environment.evaluate("__import__('demo.extra.more').extra.more.more") == "1"
    assert not (environment.site / "demo/gone.py").exists()
    assert unmatched_rows(environment.site) == []
    assert states(live(fork, "status", environment, "--json")) == {"first": "in", "second": "in"}
    assert "already" in live(fork, "apply", environment).out

    assert live(fork, "revert", environment).code == ExitCode.DONE
    assert snapshot(environment.site) == before
    assert environment.evaluate("demo.main.main()") == "old"


def test_uninstall_after_apply_leaves_nothing(fork: Story, environment: Environment) -> None:
    assert live(fork, "apply", environment).code == 0
    environment.evaluate("demo.main.main(), __import__('demo.extra.more')")
    environment.uninstall()
    assert [name for name in snapshot(environment.site) if "demo" in name] == []


def test_reinstall_after_apply_is_a_clean_package(fork: Story, environment: Environment, wheel: Path) -> None:
    assert live(fork, "apply", environment).code == 0
    environment.reinstall(wheel)
    assert states(live(fork, "status", environment, "--json")) == {"first": "not in", "second": "not in"}
    assert [name for name in snapshot(environment.site) if "forktool" in name or "extra" in name] == []


def test_a_dry_run_writes_nothing(fork: Story, plain: Environment) -> None:
    before = snapshot(plain.site)
    result = live(fork, "apply", plain, "--dry-run", "--json")
    assert result.code == 0
    actions = {(file["action"], file["path"]) for file in result.document["files"]}
    assert actions == {
        ("write", "demo/main.py"), ("delete", "demo/gone.py"), ("add", "demo/extra/__init__.py"),
        ("add", "demo/extra/more.py"),
    }  # fmt: skip
    assert snapshot(plain.site) == before


def test_hard_links_into_a_cache_are_never_written_through(fork: Story, tmp_path: Path, wheel: Path) -> None:
    first, second = (Environment(tmp_path / name, "uv") for name in ("one", "two"))
    for made in (first, second):
        made.install(wheel, "--link-mode", "hardlink", "--cache-dir", str(tmp_path / "cache"))
    assert (first.site / "demo/main.py").stat().st_nlink > 2
    assert live(fork, "apply", first).code == 0
    assert second.evaluate("demo.main.main()") == "old"
    assert live(fork, "revert", first).code == 0
    assert first.evaluate("demo.main.main()") == "old"


def test_links_into_a_cache_come_back_as_links(fork: Story, tmp_path: Path, wheel: Path) -> None:
    made = Environment(tmp_path / "env", "uv")
    made.install(wheel, "--link-mode", "symlink", "--cache-dir", str(tmp_path / "cache"))
    before = snapshot(made.site)
    cached = {path: path.read_bytes() for path in (tmp_path / "cache").rglob("*") if path.is_file()}
    assert before["demo/main.py"][0] == "link"
    assert live(fork, "apply", made).code == 0
    assert made.evaluate("demo.main.main()") == "new"
    assert live(fork, "revert", made).code == 0
    assert snapshot(made.site) == before
    assert {path: path.read_bytes() for path in cached} == cached


def test_caches_of_every_kind_are_dropped_and_only_those(fork: Story, plain: Environment) -> None:
    compiled = "import py_compile; m = py_compile.PycInvalidationMode.UNCHECKED_HASH; "
    for name in ("main", "sub/deep"):
        path = plain.site / f"demo/{name}.py"
        for level in ("-1", "1"):
            run(
                str(plain.python),
                "-c",
                f"{compiled}py_compile.compile({str(path)!r}, invalidation_mode=m, optimize={level})",
            )
    kept = plain.site / "demo/sub/__pycache__"
    before = snapshot(plain.site)
    assert live(fork, "apply", plain).code == 0
    assert plain.evaluate("demo.main.main()") == "new"
    assert set(snapshot(kept)) == {
        Path(name).name for name in before if name.startswith("demo/sub/__pycache__/")
    }
    assert live(fork, "revert", plain).code == 0
    assert snapshot(plain.site) == before


def test_an_edit_by_hand_is_refused_and_kept(fork: Story, plain: Environment) -> None:
    path = plain.site / "demo/main.py"
    path.unlink()
    path.write_text(MAIN.replace("'old'", "'mine'"))
    before = snapshot(plain.site)
    result = live(fork, "apply", plain)
    assert result.code == ExitCode.REQUEST
    assert "demo/main.py was edited" in result.err
    assert "forktool import --installed" in result.err
    assert snapshot(plain.site) == before
    document = live(fork, "status", plain, "--json").document
    assert document["differs"] == ["demo/main.py"]
    assert {patch["name"]: patch["state"] for patch in document["patches"]}["first"] == "unclear"


def test_a_patch_that_was_put_in_by_hand_is_known(fork: Story, plain: Environment) -> None:
    path = plain.site / "demo/main.py"
    path.unlink()
    path.write_text(MAIN.replace("return 1", "return 2"))
    before = snapshot(plain.site)
    assert states(live(fork, "status", plain, "--json")) == {"first": "not in", "second": "in"}
    assert live(fork, "apply", plain).code == 0
    assert plain.evaluate("demo.main.main(), demo.main.other()") == "('new', 2)"
    assert live(fork, "revert", plain).code == 0
    assert snapshot(plain.site) == before


def test_an_edit_after_apply_is_not_lost(fork: Story, plain: Environment) -> None:
    assert live(fork, "apply", plain).code == 0
    path = plain.site / "demo/main.py"
    path.write_text(path.read_text() + "mine = 1\n")
    before = snapshot(plain.site)
    for action in ("revert", "apply"):
        result = live(fork, action, plain)
        assert result.code == ExitCode.REQUEST
        assert "demo/main.py was edited after" in result.err
        assert snapshot(plain.site) == before


def test_apply_follows_the_series(fork: Story, plain: Environment) -> None:
    before = snapshot(plain.site)
    assert live(fork, "apply", plain).code == 0
    assert fork.run("drop", "second", "--reason", "not needed").code == 0
    assert live(fork, "status", plain, "--json").code == 0
    assert live(fork, "apply", plain).code == 0
    assert plain.evaluate("demo.main.main(), demo.main.other()") == "('new', 1)"
    assert fork.run("drop", "first", "--reason", "not needed").code == 0
    assert live(fork, "apply", plain).code == 0
    assert snapshot(plain.site) == before


def test_another_version_is_refused(fork: Story, tmp_path: Path) -> None:
    made = Environment(tmp_path / "env")
    made.install(build_wheel(tmp_path / "wheels", DEMO, version="1.1"))
    result = live(fork, "apply", made)
    assert result.code == ExitCode.REQUEST
    assert "demo 1.1 is installed, the series sits on v1.0" in result.err
    assert "forktool rebase v1.1" in result.err


def test_a_wheel_with_a_local_label_is_the_release(fork: Story, tmp_path: Path) -> None:
    made = Environment(tmp_path / "env")
    made.install(build_wheel(tmp_path / "wheels", DEMO, version="1.0+fork.1"))
    assert live(fork, "apply", made).code == 0


def test_a_native_patch_is_refused(fork: Story, plain: Environment) -> None:
    fork.patch("kernel", {"csrc/kernel.cu": "int y;\n"})
    before = snapshot(plain.site)
    result = live(fork, "apply", plain)
    assert result.code == ExitCode.REQUEST
    assert "csrc/kernel.cu is not in an installed package" in result.err
    assert snapshot(plain.site) == before


def test_what_cannot_be_changed_safely_is_refused(fork: Story, plain: Environment, tmp_path: Path) -> None:
    info = next(plain.site.glob("demo-*.dist-info"))
    (info / "direct_url.json").write_text(json.dumps({"url": "file:///x", "dir_info": {"editable": True}}))
    assert "editable install" in live(fork, "apply", plain).err
    (info / "direct_url.json").unlink()
    (info / "INSTALLER").write_text("conda\n")
    assert "installed by conda" in live(fork, "apply", plain).err
    (info / "INSTALLER").write_text("pip\n")
    (info / "RECORD").rename(tmp_path / "RECORD")
    assert "has no RECORD" in live(fork, "apply", plain).err


def test_a_real_editable_install_is_refused(fork: Story, tmp_path: Path) -> None:
    """Made by pip with a backend of its own, so that nothing is fetched."""
    made = Environment(tmp_path / "env", "pip")
    source = tmp_path / "source"
    project = '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
    fork.write({**DEMO, "pyproject.toml": project, "backend.py": BACKEND}, root=source)
    made.pip("install", "--quiet", "--no-deps", "--no-index", "--editable", str(source))
    assert made.evaluate("demo.main.main()") == "old"
    result = live(fork, "apply", made)
    assert result.code == ExitCode.REQUEST
    assert "is an editable install" in result.err
    assert (source / "demo/main.py").read_text() == MAIN


def test_another_copy_in_front_is_refused(
    fork: Story, plain: Environment, tmp_path: Path, monkeypatch
) -> None:
    (tmp_path / "checkout/demo").mkdir(parents=True)
    (tmp_path / "checkout/demo/__init__.py").write_text("")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "checkout"))
    result = live(fork, "apply", plain)
    assert result.code == ExitCode.REQUEST
    assert "Python imports demo from" in result.err


def test_the_current_folder_is_not_imported_from(fork: Story, plain: Environment) -> None:
    (fork.project / "json.py").write_text("raise SystemExit('imported')\n")
    (fork.project / "demo").mkdir()
    (fork.project / "demo/__init__.py").write_text("")
    assert live(fork, "apply", plain).code == 0


def test_a_git_repository_above_changes_nothing(fork: Story, tmp_path: Path, wheel: Path) -> None:
    above = tmp_path / "repository"
    above.mkdir()
    fork.git("init", "--quiet", cwd=above)
    (above / ".gitignore").write_text("*\n")
    made = Environment(above / "env")
    made.install(wheel)
    assert live(fork, "apply", made).code == 0
    assert made.evaluate("demo.main.main()") == "new"


def test_a_folder_that_leads_elsewhere_is_refused(fork: Story, plain: Environment, tmp_path: Path) -> None:
    (plain.site / "demo").rename(tmp_path / "elsewhere")
    (plain.site / "demo").symlink_to(tmp_path / "elsewhere")
    result = live(fork, "apply", plain)
    assert result.code == ExitCode.REQUEST
    assert "demo" in result.err
    assert (tmp_path / "elsewhere/main.py").read_text() == MAIN


def test_the_parent_python_is_not_changed_from_an_environment(fork: Story, tmp_path: Path) -> None:
    made = Environment(tmp_path / "env")
    config = made.root / "pyvenv.cfg"
    config.write_text(config.read_text().replace("packages = false", "packages = true"))
    if subprocess.run([made.python, "-c", "import pip"], capture_output=True, check=False).returncode:
        pytest.skip("the Python of the tests has no pip to ask about")
    result = fork.run("live", "status", "--distribution", "pip", "--python", str(made.root))
    assert result.code == ExitCode.REQUEST
    assert "belongs to the Python that this environment was made from" in result.err


def test_a_path_that_somebody_added_is_followed(fork: Story, tmp_path: Path, plain: Environment) -> None:
    child = Environment(tmp_path / "child")
    (child.site / "parent.pth").write_text(f"{plain.site}\n")
    assert live(fork, "apply", child).code == 0
    assert plain.evaluate("demo.main.main()") == "new"


def test_user_site_is_changed(fork: Story, tmp_path: Path, wheel: Path) -> None:
    base = Path(sys.base_prefix) / "bin" / "python3"
    if subprocess.run([base, "-m", "pip", "--version"], capture_output=True, check=False).returncode:
        pytest.skip(f"{base} has no pip")
    options = ("--user", "--no-deps", "--no-index", "--quiet", "--break-system-packages")
    run(str(base), "-m", "pip", "install", "--disable-pip-version-check", *options, str(wheel))
    arguments = ("--distribution", "demo", "--python", str(base))
    assert fork.run("live", "apply", *arguments).code == 0
    location = fork.run("live", "status", *arguments, "--json").document["location"]
    assert location.startswith(os.environ["HOME"])
    assert fork.run("live", "revert", *arguments).code == 0


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission_is_one_error(fork: Story, plain: Environment) -> None:
    plain.site.chmod(0o555)
    before = snapshot(plain.site)
    try:
        result = live(fork, "apply", plain)
    finally:
        plain.site.chmod(0o755)
    assert result.code == ExitCode.OUTSIDE
    assert "Permission denied" in result.err
    assert snapshot(plain.site) == before


def test_running_processes_are_named(fork: Story, plain: Environment) -> None:
    command = "import demo.main, time; print('ready', flush=True); time.sleep(60)"
    with subprocess.Popen([plain.python, "-c", command], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        try:
            document = live(fork, "status", plain, "--json").document
            result = live(fork, "apply", plain)
        finally:
            process.kill()
    assert [item["pid"] for item in document["processes"]] == [process.pid]
    assert f"{process.pid} keep the old code until they are restarted" in result.err


def test_no_such_package_or_python(fork: Story, plain: Environment, tmp_path: Path) -> None:
    result = fork.run("live", "status", "--distribution", "other", "--python", str(plain.python))
    assert result.code == ExitCode.REQUEST
    assert "has no other installed" in result.err
    result = fork.run("live", "status", "--distribution", "demo", "--python", str(tmp_path / "nowhere"))
    assert result.code == ExitCode.REQUEST
    assert "is not there" in result.err


DRIVER = r"""
import base64, io, json, os, signal, stat, sys
agent, request, folder, mode = sys.argv[1:5]
source = open(agent).read()
names = {"__name__": "live_agent"}
exec(compile(source, "live_agent.py", "exec"), names)
request = json.load(open(request))

OPERATIONS = ("open", "replace", "unlink", "mkdir", "rmdir", "fsync", "fchmod", "chown", "utime", "symlink")

def arm(at):
    count = [0]
    def wrap(name, call):
        def counted(*args, **options):
            count[0] += 1
            if count[0] == at:
                if mode == "kill":
                    os.kill(os.getpid(), signal.SIGKILL)
                raise OSError(28, "No space left on device", str(args[0]))
            return call(*args, **options)
        return counted
    for name in OPERATIONS:
        setattr(os, name, wrap(name, getattr(os, name)))

def forked(action, at):
    child = os.fork()
    if child == 0:
        sys.stdout = io.StringIO()
        if at:
            arm(at)
        try:
            names["main"]({**request, "action": action, "token": "t"})
            code = 1 if '"refused"' in sys.stdout.getvalue() else 0
        except BaseException as error:
            sys.stderr.write(repr(error))
            code = 2
        os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

def look():
    found = {}
    for root, folders, files in os.walk(folder):
        for name in folders:
            found[os.path.relpath(os.path.join(root, name), folder)] = "folder"
        for name in files:
            path = os.path.join(root, name)
            status = os.lstat(path)
            content = base64.b64encode(open(path, "rb").read()).decode()
            found[os.path.relpath(path, folder)] = [status.st_mode, status.st_mtime_ns, content]
    return found

def texts(found):
    return {name: item if item == "folder" else [item[0], item[2]] for name, item in found.items()}

old = look()
assert forked("apply", 0) == 0
new = texts(look())
assert forked("revert", 0) == 0
assert look() == old, "revert is not exact"
def journal_free(found):
    # Times are in the journal.
    return {name: item for name, item in found.items() if not name.endswith("journal.json")}

results = []
for first in ("apply", "revert"):
    at = 0
    while True:
        at += 1
        if first == "revert":
            assert forked("apply", 0) == 0
        code = forked(first, at)
        middle = texts(look())
        whole = middle == texts(old) or journal_free(middle) == journal_free(new)
        if at % 2:
            assert forked("apply", 0) == 0, (first, at)
            assert journal_free(texts(look())) == journal_free(new), (first, at, "apply again")
        assert forked("revert", 0) == 0, (first, at)
        assert look() == old, (first, at, "revert")
        results.append([first, at, code, whole])
        if code == 0:
            break
print(json.dumps(results))
"""


@pytest.mark.parametrize("mode", ["kill", "full"])
def test_a_kill_or_a_full_disk_at_any_operation(
    fork: Story, plain: Environment, tmp_path: Path, mode: str
) -> None:
    """Before every system call that changes something the process is killed, or the disk is full."""
    plain.evaluate("demo.main.main()")
    request = {"distributions": ["demo"], "note": {}, "paths": ["demo/main.py"], "changes": []}
    for path, text in (
        ("demo/main.py", "def main():\n    return 'new'\n"), ("demo/gone.py", None), ("demo/extra/more.py", "x = 1\n"),
    ):  # fmt: skip
        old = plain.site / path
        request["changes"].append(
            {
                "path": path,
                "content": None if text is None else live_agent.base64.b64encode(text.encode()).decode(),
                "expect": live_agent.sha256(old.read_bytes()) if old.exists() else None,
                "executable": None,
            }
        )
    (tmp_path / "request.json").write_text(json.dumps(request))
    (tmp_path / "driver.py").write_text(DRIVER)
    started = time.monotonic()
    answer = run(
        str(plain.python), "-B", str(tmp_path / "driver.py"), live_agent.__file__, str(tmp_path / "request.json"),
        str(plain.site), mode,
    )  # fmt: skip
    results = json.loads(answer)
    applies = [entry for entry in results if entry[0] == "apply"]
    reverts = [entry for entry in results if entry[0] == "revert"]
    assert len(applies) > 40
    assert len(reverts) > 20
    assert {entry[2] for entry in applies[:-1]} == ({-9} if mode == "kill" else {1})
    if mode == "full":
        # A disk that is full while something is written takes the change back at once.
        assert [entry for entry in applies if not entry[3]] == []
    assert time.monotonic() - started < 60
