"""Overlay of a published wheel against `cp`, and against `wheel unpack` and `wheel pack`.

`nox -s bench -- wheel [WHEEL] [--peers]`; without WHEEL the CUDA wheel of vLLM v0.16.0 is downloaded (508 MB). Whole
processes are timed, so an interpreter's start is in our times. `--peers` adds wheel unpack and pack, which take
minutes and must be installed.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

from packaging.version import Version

from benchmarks.measure import Contestant, compare, show
from forktool.adapters.console import Console
from forktool.adapters.http import Http
from forktool.adapters.package_index import PackageIndex, index_url
from forktool.adapters.state import State
from forktool.adapters.wheel_download import fetch_wheel

MEMBER = "vllm/config/speculative.py"
_OVERLAY = """
import sys, zipfile
from pathlib import Path
from packaging.version import Version
from forktool.adapters.wheel_overlay import overlay
source, folder, member, fsync, digest = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], *map(int, sys.argv[4:])
with zipfile.ZipFile(source) as archive:
    content = archive.read(member) + b"\\n# patched\\n"
version = Version(source.name.split("-")[1] + "+bench.1")
overlay(source, folder, changes={member: content}, version=version, fsync=bool(fsync), digest=bool(digest))
"""


def run(folder: Path, arguments: list[str]) -> None:
    """Print the tables."""
    peers = "--peers" in arguments
    names = [word for word in arguments if word != "--peers"]
    source = Path(names[0]).resolve() if names else _published(folder)
    scratch = folder / "wheel"
    size = source.stat().st_size / 1e6

    def contestant(name: str, *command: str | Path) -> Contestant:
        return Contestant(name=name, command=command, cwd=folder, prepare=_emptied(scratch))

    def ours(name: str, *, fsync: bool, digest: bool) -> Contestant:
        options = (str(int(fsync)), str(int(digest)))
        return contestant(name, sys.executable, "-c", _OVERLAY, source, scratch, MEMBER, *options)

    samples = compare(
        [
            ours("overlay", fsync=False, digest=False),
            ours("overlay with sha256", fsync=False, digest=True),
            contestant("cp", "cp", source, scratch),
        ]
    )
    show(f"{source.name}, {size:.0f} MB, not flushed", samples, ours="overlay", goals={"cp": 2.5})
    flushed = compare(
        [
            ours("overlay", fsync=True, digest=False),
            ours("overlay with sha256", fsync=True, digest=True),
            contestant("cp, sync", "sh", "-c", 'cp "$0" "$1" && sync "$1"', source, scratch / source.name),
        ]
    )
    show(f"{source.name}, {size:.0f} MB, on the disk", flushed, ours="overlay", goals={"cp, sync": 1.5})
    if peers:
        seconds = _unpack_and_pack(source, scratch)
        ratio = seconds / samples["overlay"].median
        print(
            f"\n  wheel unpack, wheel pack   {seconds:9.3f} s, {ratio:.0f} times the overlay  (goal >= 100)"
        )
    shutil.rmtree(scratch, ignore_errors=True)


def _published(folder: Path) -> Path:
    state, http = State(folder / "wheels"), Http()
    try:
        index = PackageIndex(http=http, state=state, url=index_url(None))
        return fetch_wheel(index, http, state, Console(), project="vllm", version=Version("0.16.0")).path
    finally:
        http.close()


def _emptied(scratch: Path) -> Callable[[], None]:
    def prepare() -> None:
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir()
        subprocess.run(
            ["sync", "-f", scratch], check=True
        )  # what the last run left to be written is not ours

    return prepare


def _unpack_and_pack(source: Path, scratch: Path) -> float:
    _emptied(scratch)()
    wheel = [sys.executable, "-m", "wheel"]
    begin = time.perf_counter()
    subprocess.run([*wheel, "unpack", "--dest", scratch, source], check=True, stdout=subprocess.DEVNULL)
    unpacked = next(scratch.iterdir())
    with (unpacked / MEMBER).open("ab") as stream:
        stream.write(b"\n# patched\n")
    subprocess.run([*wheel, "pack", "--dest-dir", scratch, unpacked], check=True, stdout=subprocess.DEVNULL)
    seconds = time.perf_counter() - begin
    with zipfile.ZipFile(next(scratch.glob("*.whl"))) as archive:
        if not archive.read(MEMBER).endswith(b"# patched\n"):
            raise SystemExit(
                "wheel pack made another wheel than the overlay: the comparison is worth nothing"
            )
    return seconds
