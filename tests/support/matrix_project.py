"""A project with a matrix of fake cells, and wheels that hold a scripted server in place of vLLM."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from zipfile import ZipFile

HERE = Path(__file__).parent
SERVERS = {
    "vllm": ("vllm/entrypoints/cli/main.py", HERE / "fake_vllm_server.py"),
    "sglang": ("sglang/launch_server.py", HERE / "fake_sglang_server.py"),
}

CELLS = """\
[load]
concurrency = [1, 4]
requests = 4
tokens = 8
rounds = 1

[thresholds]
acceptance-rate = 0.5

[models.tiny]
path = "models/tiny"
drafter = "drafter"

[drafters.drafter]
path = "models/drafter"

[gpus.sm100]
capability = "10.0"

[[include]]
model = "tiny"
gpu = "cpu"
checks = ["right", "accepted"]
timeout = 30
answer-tokens = 16
"""


def make_wheel(
    folder: Path,
    version: str = "0.16.0",
    *,
    name: str = "vllm",
    behaviour: Mapping[str, Any] | None = None,
    record: Mapping[str, Any] | None = None,
    behaviour_text: str | None = None,
    notes: str | None = None,
) -> Path:
    """A real wheel of the name vllm or sglang whose server is the scripted one.

    `behaviour` overrides every model's script; `record` becomes forktool.json in its dist-info. `behaviour_text` is the
    same script in other spacing, and `notes` a module that does nothing.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}-{version}-py3-none-any.whl"
    info = f"{name}-{version}.dist-info"
    module, server = SERVERS[name]
    packages = [parent for parent in Path(module).parents if parent.name]
    members = {
        **{f"{package}/__init__.py": b"" for package in packages},
        module: server.read_bytes(),
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n".encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    if behaviour is not None:
        members[f"{packages[0]}/behaviour.json"] = (behaviour_text or json.dumps(behaviour)).encode()
    if notes is not None:
        members[f"{name}/notes.py"] = notes.encode()
    if record is not None:
        members[f"{info}/forktool.json"] = json.dumps(record).encode()
    lines = [f"{name},sha256={_digest(content)},{len(content)}" for name, content in members.items()]
    members[f"{info}/RECORD"] = "\n".join([*lines, f"{info}/RECORD,,"]).encode() + b"\n"
    with ZipFile(path, "w") as archive:
        for member, content in members.items():
            archive.writestr(member, content)
    return path


def _digest(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()


def write_project(folder: Path, *, cells: str = CELLS, script: Mapping[str, Any] | None = None) -> Path:
    """A patchset folder with a matrix, and the models that it names; returns the patchset."""
    patchset = folder / "patchset"
    model = patchset / "models" / "tiny"
    model.mkdir(parents=True, exist_ok=True)
    (patchset / "models" / "drafter").mkdir(exist_ok=True)
    (model / "script.json").write_text(json.dumps(script or {}), encoding="utf-8")
    (patchset / "matrix.toml").write_text(cells, encoding="utf-8")
    return patchset
