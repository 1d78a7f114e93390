"""A virtual environment with a real vLLM in it: what its wheel requires, and a torch that the machine may have."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from email.parser import BytesParser
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

UV = shutil.which("uv") or shutil.which("uv", path=str(Path(sys.executable).parent))
_READY = "ready"


@dataclass(frozen=True, kw_only=True, slots=True)
class Environment:
    """A virtual environment in `folder`; `environ` is what its programs are started with."""

    folder: Path
    environ: dict[str, str]

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.folder / "bin" / "python"

    def pip(self, *arguments: str | Path) -> None:
        """Run its pip, which alone knows of wheels that pip's configuration finds on this machine."""
        run(self.python, "-m", "pip", *arguments, environ=self.environ)

    def install(self, *arguments: str | Path) -> None:
        """Install with uv where there is one, else with pip; over what is installed, with `--reinstall`."""
        if UV is None:
            words = ["--force-reinstall" if item == "--reinstall" else item for item in arguments]
            self.pip("install", "--quiet", *words)
        else:
            run(UV, "pip", "install", "--quiet", "--python", self.python, *arguments, environ=self.environ)

    def answer(self, script: Path, *arguments: str | Path) -> Any:
        """What a script prints as the JSON of its last line."""
        out = run(self.python, script, *arguments, environ=self.environ, cwd=self.folder)
        return json.loads(out.splitlines()[-1])


def run(*argv: str | Path, environ: dict[str, str], cwd: Path | None = None) -> str:
    """Run a program; its stdout, or an AssertionError with the end of what it said."""
    done = subprocess.run(list(map(str, argv)), env=environ, cwd=cwd, capture_output=True, text=True)
    assert done.returncode == 0, f"{' '.join(map(str, argv))}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
    return done.stdout


def requirements(wheel: Path) -> list[str]:
    """What a wheel requires without extras, and without torch's packages."""
    with zipfile.ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        stated = BytesParser().parsebytes(archive.read(name)).get_all("Requires-Dist", [])
    found = [Requirement(text) for text in stated]
    return [
        str(requirement)
        for requirement in found
        if not requirement.name.startswith("torch") and "extra ==" not in str(requirement.marker)
    ]


def environment_for(wheel: Path, *, torch: str, cache: Path, environ: Mapping[str, str]) -> Environment:
    """The environment that a vLLM wheel needs, without the wheel; made once and kept in `cache`.

    Args:
        wheel: whose requirements are installed.
        torch: its version here; the wheel's own pin may be on no index.
        cache: a folder; what is half-way there is made anew.
        environ: the user's, so that pip's and uv's own caches and settings serve.
    """
    wanted = requirements(wheel)
    seed = "\n".join([sys.version, torch, *wanted])
    folder = cache / f"{wheel.name.split('-')[0]}-{hashlib.sha256(seed.encode()).hexdigest()[:12]}"
    own = {
        "HF_HUB_OFFLINE": "1",
        "HF_HOME": str(folder / "home"),
        "VLLM_CACHE_ROOT": str(folder / "home"),
        "VLLM_CONFIG_ROOT": str(folder / "home"),
        "VLLM_NO_USAGE_STATS": "1",
    }
    left = {name: value for name, value in environ.items() if name not in {"PYTHONPATH", "VIRTUAL_ENV"}}
    environment = Environment(folder=folder, environ=left | own)
    if not (folder / _READY).is_file():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        run(sys.executable, "-m", "venv", folder, environ=environment.environ)
        (folder / "requirements.txt").write_text("\n".join(wanted) + "\n")
        environment.pip("install", "--quiet", f"torch=={torch}")
        environment.install("-r", folder / "requirements.txt", f"torch=={torch}")
        (folder / _READY).touch()
    return environment
