"""Small real wheels in real environments, and what is in them byte for byte."""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
import stat
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest


def build_wheel(folder: Path, files: Mapping[str, str], *, name: str = "demo", version: str = "1.0") -> Path:
    """A wheel of these files."""
    info = f"{name}-{version}.dist-info"
    members = {
        **{path: text.encode() for path, text in files.items()},
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n".encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": f"[console_scripts]\n{name} = {name}.main:main\n".encode(),
    }
    rows = [f"{path},{_digest(content)},{len(content)}" for path, content in members.items()]
    members[f"{info}/RECORD"] = "\n".join([*rows, f"{info}/RECORD,,", ""]).encode()
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(target, "w") as archive:
        for path, content in members.items():
            archive.writestr(zipfile.ZipInfo(path, (2025, 1, 1, 0, 0, 0)), content)
    return target


def _digest(content: bytes) -> str:
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()


class Environment:
    """A virtual environment, and the installer that puts packages into it: `pip`, `uv`, or plain `unzip`."""

    def __init__(self, root: Path, installer: str = "unzip") -> None:
        self.root = root
        self.installer = installer
        if installer == "uv":
            run(uv_program(), "venv", "--quiet", "--python", sys.executable, str(root))
        else:
            run(sys.executable, "-m", "venv", "--without-pip", str(root))

    @property
    def python(self) -> Path:
        return self.root / "bin" / "python"

    @property
    def site(self) -> Path:
        return next((self.root / "lib").glob("python*/site-packages"))

    def install(self, wheel: Path, *options: str) -> None:
        """Nothing is fetched."""
        if self.installer == "uv":
            run(
                uv_program(), "pip", "install", "--quiet", "--offline", "--no-deps", "--python", str(self.python),
                *options, str(wheel),
            )  # fmt: skip
        elif self.installer == "pip":
            self.pip("install", "--quiet", "--no-deps", "--no-index", *options, str(wheel))
        else:
            with zipfile.ZipFile(wheel) as archive:
                archive.extractall(self.site)

    def fetch(self, requirement: str, index: str) -> None:
        """Install from a package index, without dependencies."""
        if self.installer == "uv":
            options = ("--no-deps", "--default-index", index, "--python", str(self.python))
            run(uv_program(), "pip", "install", "--quiet", *options, requirement)
        else:
            self.pip("install", "--quiet", "--no-deps", "--index-url", index, requirement)

    def reinstall(self, wheel: Path) -> None:
        self.install(wheel, "--reinstall" if self.installer == "uv" else "--force-reinstall")

    def uninstall(self, name: str = "demo") -> None:
        if self.installer == "uv":
            run(uv_program(), "pip", "uninstall", "--quiet", "--python", str(self.python), name)
        else:
            self.pip("uninstall", "--quiet", "--yes", name)

    def pip(self, *args: str) -> None:
        run(pip_program(), "-m", "pip", "--disable-pip-version-check", "--python", str(self.python), *args)

    def evaluate(self, expression: str, *, cwd: Path | None = None) -> str:
        """What an expression gives after `import demo.main`, in a new process."""
        done = run(str(self.python), "-c", f"import demo.main; print(({expression}))", cwd=cwd)
        return done.strip()


def pip_program() -> str:
    """A Python that has pip: the one of the tests, or the one that it was made from."""
    for python in (sys.executable, str(Path(sys.base_prefix) / "bin" / "python3")):
        asked = subprocess.run([python, "-m", "pip", "--version"], capture_output=True, check=False)
        if asked.returncode == 0:
            return python
    pytest.skip("no pip")


def uv_program() -> str:
    found = shutil.which("uv")
    if found is None:
        pytest.skip("uv is not installed")
    return found


def run(*argv: str, cwd: Path | None = None) -> str:
    environment = {
        name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "VIRTUAL_ENV"}
    }
    done = subprocess.run(argv, capture_output=True, text=True, cwd=cwd, env=environment, check=False)
    if done.returncode:
        raise AssertionError(f"{argv}: {done.stdout}{done.stderr}")
    return done.stdout


def snapshot(folder: Path) -> dict[str, tuple[object, ...]]:
    """Every path below a folder: kind, mode, time, content or target. Other packages' caches are left out."""
    found: dict[str, tuple[object, ...]] = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if name.startswith(("pip", "setuptools", "_distutils", "__pycache__")):
            continue
        status = path.lstat()
        if stat.S_ISLNK(status.st_mode):
            found[name] = ("link", str(path.readlink()))
        elif stat.S_ISDIR(status.st_mode):
            found[name] = ("folder", stat.S_IMODE(status.st_mode))
        else:
            found[name] = ("file", stat.S_IMODE(status.st_mode), status.st_mtime_ns, path.read_bytes())
    return found
