"""Stories of `forktool wheel`, on a package whose releases are a git repository and wheels made of it."""

from __future__ import annotations

import json
import shutil
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tests.support.story import Result, Story
from tests.support.wheels import TAG, make_wheel, sample_files

GATE = "ALLOWED = ['llama', 'qwen', 'kimi_k2']\n"
PROFILE = """\
[rules]
native = ["csrc/"]
metadata = ["pyproject.toml"]
shipped = ["acme/"]

[build]
version-variable = "ACME_VERSION"
programs = []
"""
BACKEND = """
import os, zipfile

def prepare(folder):
    version = os.environ["ACME_VERSION"]
    info = f"acme-{version}.dist-info"
    members = {
        "acme/__init__.py": b"",
        "acme/_version.py": f"__version__ = '{version}'\\n".encode(),
        f"{info}/METADATA": f"Metadata-Version: 2.1\\nName: acme\\nVersion: {version}\\n\\n".encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n",
    }
    import base64, hashlib
    rows = [
        f"{name},sha256={base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b'=').decode()},{len(data)}"
        for name, data in members.items()
    ]
    members[f"{info}/RECORD"] = "\\n".join([*rows, f"{info}/RECORD,,", ""]).encode()
    name = f"acme-{version}-py3-none-any.whl"
    with zipfile.ZipFile(os.path.join(folder, name), "w") as archive:
        for member, data in members.items():
            archive.writestr(member, data)
    return name

def build_wheel(folder, config_settings=None, metadata_directory=None):
    if os.path.exists("broken"):
        raise RuntimeError("the compiler says no")
    return prepare(folder)
"""
PYPROJECT = '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'


def start(story: Story, *, profile: str = PROFILE) -> Path:
    """Release v1.2.0 and start a patchset on it; returns the published wheel."""
    sources = {name: content for name, content in sample_files().items() if name != "acme/_C.abi3.so"}
    del sources["acme/_version.py"]
    story.release(
        "v1.2.0",
        {
            **sources,
            "csrc/a.c": "int a;\n",
            "tests/test_a.py": "",
            "pyproject.toml": PYPROJECT,
            "backend.py": BACKEND,
        },
    )
    story.start("v1.2.0")
    (story.project / "patchset" / "wheel.toml").write_text(profile)
    return make_wheel(story.project)


def wheel(story: Story, *words: str, code: int = 0) -> Any:
    result = story.run("wheel", "--json", *words)
    assert result.code == code, result.out + result.err
    return result.document


def refused(result: Result, code: int, error: str) -> str:
    """The command ended with this code and one error line; returns the hint."""
    assert result.code == code, result.out + result.err
    lines = result.err.splitlines()
    assert [line for line in lines if line.startswith("error:")] == [f"error: {error}"]
    return next((line.removeprefix("hint: ") for line in lines if line.startswith("hint:")), "")


def test_a_series_on_shipped_files_is_an_overlay(story: Story) -> None:
    source = start(story)
    story.patch("gate", {"acme/gate.py": GATE, "tests/test_a.py": "assert True\n"})
    story.patch(
        "tool", {"acme/tool.sh": "#!/bin/sh\n"}, edit=lambda root: (root / "acme/tool.sh").chmod(0o755)
    )

    found = wheel(story, "--wheel", str(source))

    assert found["route"] == "overlay"
    assert found["version"].startswith("1.2.0+fork.2.g")
    assert found["patches"] == [
        {"name": "gate", "verdict": "unchanged"},
        {"name": "tool", "verdict": "unchanged"},
    ]
    assert found["paths"] == [
        {"path": "acme/gate.py", "route": "overlay", "rule": "acme/"},
        {"path": "acme/tool.sh", "route": "overlay", "rule": "acme/"},
        {"path": "tests/test_a.py", "route": "outside", "rule": "tests/"},
    ]
    assert (found["changed"], found["added"]) == (["acme/_version.py", "acme/gate.py"], ["acme/tool.sh"])
    assert found["verification"]["problems"] == []
    path = story.project / found["path"]
    assert path == story.project / "dist" / f"acme-{found['version']}-{TAG}.whl"
    with zipfile.ZipFile(path) as archive:
        assert archive.read("acme/gate.py").decode() == GATE
        assert archive.getinfo("acme/tool.sh").external_attr >> 16 == 0o100755
        stated = json.loads(archive.read(f"acme-{found['version']}.dist-info/forktool.json"))
    assert stated["tree"] == found["tree"]
    assert stated["files"] == {"added": ["acme/tool.sh"], "changed": ["acme/gate.py"], "deleted": []}
    assert [patch["name"] for patch in stated["patches"]] == ["gate", "tool"]


def test_a_dry_run_writes_nothing(story: Story) -> None:
    source = start(story)
    story.patch("gate", {"acme/gate.py": GATE})
    for flag in ("--dry-run", "--print"):
        found = wheel(story, flag, "--wheel", str(source))
        assert found["dry_run"] is True
        assert not (story.project / "dist").exists()
    assert wheel(story, "--wheel", str(source))["version"] == found["version"]


def test_a_series_on_another_tag_is_replayed_first(story: Story) -> None:
    start(story)
    story.patch("gate", {"acme/gate.py": GATE})
    story.release("v1.3.0", {"acme/gate.py": "import os\n" + sample_files()["acme/gate.py"].decode()})
    files = sample_files("1.3.0") | {"acme/gate.py": b"import os\n" + sample_files()["acme/gate.py"]}
    source = make_wheel(story.project, files, version="1.3.0")

    found = wheel(story, "v1.3.0", "--wheel", str(source))

    assert found["tag"] == "v1.3.0"
    assert found["version"].startswith("1.3.0+fork.1.g")
    with zipfile.ZipFile(story.project / found["path"]) as archive:
        assert archive.read("acme/gate.py").decode() == "import os\n" + GATE


def test_a_series_that_stops_on_the_way_makes_no_wheel(story: Story) -> None:
    start(story)
    story.patch("gate", {"acme/gate.py": GATE})
    story.release("v1.3.0", {"acme/gate.py": "ALLOWED = None\n"})
    result = story.run("wheel", "v1.3.0", "--output", "out")
    assert refused(result, 3, "the series does not reach v1.3.0: gate stops") == "forktool rebase v1.3.0"
    assert not (story.project / "out").exists()


def test_refuses_what_does_not_fit(story: Story) -> None:
    source = start(story)
    result = story.run("wheel", "--wheel", str(source))
    refused(result, 2, "no patch is carried on v1.2.0: the published wheel is what you want")
    story.patch("doc", {"tests/test_a.py": "assert True\n"})
    result = story.run("wheel", "--wheel", str(source))
    assert "changes nothing that a wheel of" in result.err
    assert result.code == 2
    story.patch("gate", {"acme/gate.py": GATE})
    other = make_wheel(story.project, sample_files() | {"acme/gate.py": b"other\n"})
    result = story.run("wheel", "--wheel", str(other))
    refused(result, 4, f"acme/gate.py in {other.name} differs from the file that the series was made on")
    older = make_wheel(story.project, version="1.1.0")
    result = story.run("wheel", "--wheel", str(older))
    hint = refused(result, 2, f"{older.name} is of 1.1.0, and the series goes on v1.2.0")
    assert hint == f"forktool wheel v1.1.0 --wheel {older}"
    result = story.run("wheel", "--wheel", "none.whl")
    assert result.code == 2
    assert result.err.startswith("error: none.whl is not the name of a wheel: ")
    refused(story.run("wheel", "--wheel", source.name + "x/" + source.name), 2,
            f"{source.name}x/{source.name} is not a file")  # fmt: skip
    assert not (story.project / "dist").exists()


def test_a_damaged_wheel_leaves_nothing(story: Story) -> None:
    source = start(story)
    story.patch("gate", {"acme/gate.py": GATE})
    content = source.read_bytes()
    with zipfile.ZipFile(source) as archive:
        untouched = archive.getinfo("acme/_C.abi3.so")
        at = untouched.header_offset + 30 + len(untouched.filename)
    damaged = content[:at] + bytes(8) + content[at + 8 :]
    source.write_bytes(damaged)
    result = story.run("wheel", "--wheel", str(source))
    assert result.code == 4
    errors = [line for line in result.err.splitlines() if line.startswith("error:")]
    assert len(errors) == 1
    assert "acme/_C.abi3.so" in errors[0]
    assert not (story.project / "dist").exists()
    assert source.read_bytes() == damaged


def test_gpus_are_for_a_source_build(story: Story) -> None:
    source = start(story)
    story.patch("gate", {"acme/gate.py": GATE})
    result = story.run("wheel", "--dry-run", "--wheel", str(source), "--arch", "10.0")
    assert result.code == 0
    assert "warning: --arch is for a source build; an overlay is for the GPUs of its wheel" in result.err


def test_a_link_cannot_be_shipped(story: Story) -> None:
    source = start(story)
    story.patch("link", {}, edit=lambda root: (root / "acme/link.py").symlink_to("gate.py"))
    result = story.run("wheel", "--wheel", str(source))
    refused(result, 2, "acme/link.py is no ordinary file, and a wheel holds nothing else")


def test_a_native_series_prints_its_build(story: Story) -> None:
    start(story)
    story.patch("kernel", {"csrc/a.c": "int b;\n"})

    found = wheel(story, "--print")
    assert found["route"] == "native"
    assert found["environment"]["ACME_VERSION"] == found["version"]
    assert found["command"][1:] == ["-m", "build", "--wheel", "--outdir", str(story.project / "dist"), "."]

    shown = story.run("wheel", "--print").out
    assert "  native    csrc/a.c  (csrc/)" in shown
    assert f"export ACME_VERSION={found['version']}" in shown
    assert not (story.project / "dist").exists()


def test_a_native_series_says_what_is_missing(story: Story) -> None:
    start(story, profile=PROFILE.replace("programs = []", 'programs = ["no-such-compiler"]'))
    story.patch("kernel", {"csrc/a.c": "int b;\n"})
    result = story.run("wheel")
    refused(result, 4, "a source build needs no-such-compiler on PATH")
    assert not (story.project / "dist").exists()


def test_a_native_series_is_built_where_it_can_be(story: Story) -> None:
    start(story)
    story.patch("kernel", {"csrc/a.c": "int b;\n"})
    found = wheel(story)
    assert found["path"] == f"dist/acme-{found['version']}-py3-none-any.whl"
    assert found["verification"]["problems"] == []
    assert [patch["name"] for patch in found["verification"]["patches"]] == ["kernel"]


def test_a_build_that_fails_leaves_its_log(story: Story) -> None:
    start(story)
    story.patch("kernel", {"csrc/a.c": "int b;\n", "broken": "yes\n"})
    result = story.run("wheel")
    assert result.code == 4
    assert "error: the build failed (exit status 1): " in result.err
    log = Path(result.err.rpartition("hint: less ")[2].strip())
    assert "the compiler says no" in log.read_text()


def test_verify_and_index_take_what_was_made(story: Story) -> None:
    source = start(story)
    story.patch("gate", {"acme/gate.py": GATE})
    made = story.project / wheel(story, "--wheel", str(source))["path"]

    result = story.run("wheel", "verify", str(made))
    assert result.code == 0
    assert "carries 1 patches on" in result.out
    assert "gate  unchanged" in result.out

    found = wheel(story, "index", "dist")
    assert [item["filename"] for item in found["wheels"]] == [made.name]
    assert (story.project / "dist/simple/acme/index.html").is_file()
    shutil.rmtree(story.project / "dist/simple")
    assert wheel(story, "index", "dist", "--dry-run")["wheels"] == [made.name]
    assert not (story.project / "dist/simple").exists()

    made.write_bytes(made.read_bytes()[:-9])
    found = wheel(story, "verify", str(made), str(source), code=1)
    assert "is damaged" in found[0]["problems"][0]
    assert found[1]["problems"] == [f"WHEEL says cp38-abi3-linux_x86_64, and the file name {TAG}"]


@pytest.mark.parametrize("words", [("verify",), ("index",), ("v1", "v2"), ("index", "a", "b")])
def test_other_words_are_no_request(story: Story, words: tuple[str, ...]) -> None:
    start(story)
    result = story.run("wheel", *words)
    assert result.code == 2
    assert result.err.count("error:") == 1
