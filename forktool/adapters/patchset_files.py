"""patchset/ on disk: the only truth. Read whole, written whole.

A write is staged in the state folder first and then copied over file by file, with a journal: if the process dies
in between, the next command finishes the copy, so the patchset is always the old one or the new one.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from forktool.adapters.state import State, translated, write_atomically
from forktool.core.config import Config, parse_config
from forktool.core.objects import Oid
from forktool.core.series import (
    Patch,
    PatchName,
    Series,
    parse_patch,
    parse_series_file,
    render_series_file,
)
from forktool.errors import PatchsetError

if TYPE_CHECKING:
    from forktool.core.wheel_profile import WheelProfile

CONFIG = "patchset.toml"
SERIES = "series"
DROPPED = "dropped.toml"
PROBES = "probes"
WHEEL_PROFILE = "wheel.toml"
RESOLUTIONS = "resolutions"


@dataclass(frozen=True, kw_only=True, slots=True)
class Patchset:
    """Everything that patchset/ says. `probes` maps a patch to its probe file where it has one."""

    path: Path
    config: Config
    series: Series
    probes: Mapping[PatchName, Path]

    def file(self, name: PatchName) -> Path:
        """Where a patch is."""
        return self.path / f"{name}.patch"


@dataclass(frozen=True, kw_only=True, slots=True)
class DroppedPatch:
    """An entry for dropped.toml."""

    name: PatchName
    tag: str
    verdict: str
    evidence: tuple[str, ...]
    subject: str


def read_patchset(path: Path) -> Patchset:
    """Read a patchset.

    Raises:
        PatchsetError: there is none, a file is malformed, or the series names a file that is not there.
    """
    config_file = path / CONFIG
    if not config_file.is_file():
        raise PatchsetError(
            f"{path} is not a patchset: it has no {CONFIG}",
            hint="forktool init --package NAME --base TAG, or name one with --patchset DIR",
        )
    config = parse_config(_text(config_file), file=str(config_file))
    series_file = path / SERIES
    names = parse_series_file(_text(series_file), file=str(series_file)) if series_file.is_file() else ()
    patches = tuple(_read_patch(path, name) for name in names)
    probes = {name: path / PROBES / f"{name}.py" for name in names}
    return Patchset(
        path=path,
        config=config,
        series=Series(base=config.base, patches=patches),
        probes={name: probe for name, probe in probes.items() if probe.is_file()},
    )


def _read_patch(path: Path, name: PatchName) -> Patch:
    file = path / f"{name}.patch"
    if not file.is_file():
        raise PatchsetError(f"{path / SERIES}: {name}.patch is not in {path}")
    with translated(f"cannot read {file}"):
        text = file.read_bytes()
    return parse_patch(name, text, file=str(file))


def _text(file: Path) -> str:
    with translated(f"cannot read {file}"):
        content = file.read_bytes()
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise PatchsetError(f"{file}: not UTF-8 text (byte {error.start})") from error


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """A new state of a patchset: files to write and to remove, by path below patchset/."""

    write: Mapping[str, bytes]
    remove: tuple[str, ...] = ()


def series_change(
    patchset: Patchset,
    patches: Mapping[PatchName, bytes],
    *,
    base_tag: str | None = None,
    base_tree: Oid | None = None,
    dropped: tuple[DroppedPatch, ...] = (),
    drop_probes: bool = True,
) -> Change:
    """The change that makes `patches`, in their order, the whole series.

    Args:
        patchset: what is there now.
        patches: name to file content.
        base_tag: the new base, where it moves.
        base_tree: the new base's tree id, where it is known.
        dropped: what to record in dropped.toml.
        drop_probes: remove the probes of patches that left.
    """
    write: dict[str, bytes] = {}
    for name, text in patches.items():
        if _bytes(patchset.file(name)) != text:
            write[f"{name}.patch"] = text
    previous = _bytes(patchset.path / SERIES) or b""
    listing = render_series_file(tuple(patches), previous=previous.decode()).encode()
    if listing != previous:
        write[SERIES] = listing
    if base_tag is not None or base_tree is not None:
        write[CONFIG] = _with_base(patchset, base_tag, base_tree)
    if dropped:
        write[DROPPED] = _with_dropped(_bytes(patchset.path / DROPPED) or b"", dropped)
    gone = [name for name in patchset.series.names if name not in patches]
    remove = [f"{name}.patch" for name in gone]
    if drop_probes:
        remove += [f"{PROBES}/{name}.py" for name in gone if name in patchset.probes]
    return Change(write=write, remove=tuple(remove))


def _bytes(file: Path) -> bytes | None:
    if not file.is_file():
        return None
    with translated(f"cannot read {file}"):
        return file.read_bytes()


def _with_base(patchset: Patchset, tag: str | None, tree: Oid | None) -> bytes:
    import tomlkit

    document = tomlkit.parse(_text(patchset.path / CONFIG))
    base = document["base"]
    if not isinstance(base, tomlkit.items.Table):
        raise PatchsetError(f"{patchset.path / CONFIG}: [base] must be a table")
    if tag is not None:
        base["tag"] = tag
    if tree is not None:
        base["tree"] = str(tree)
    return tomlkit.dumps(document).encode()


def _with_dropped(previous: bytes, dropped: tuple[DroppedPatch, ...]) -> bytes:
    import tomlkit

    document = tomlkit.parse(previous.decode())
    entries = document.setdefault("dropped", tomlkit.aot())
    for patch in dropped:
        entry = tomlkit.table()
        entry["name"] = str(patch.name)
        entry["subject"] = _utf_8(patch.subject)
        entry["tag"] = patch.tag
        entry["verdict"] = patch.verdict
        evidence = tomlkit.array()
        evidence.extend(_utf_8(line) for line in patch.evidence)
        entry["evidence"] = evidence.multiline(multiline=True)
        entries.append(entry)
    return tomlkit.dumps(document).encode()


def _utf_8(text: str) -> str:
    """The text with escapes for what is not UTF-8, such as a path that it names."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def write_change(path: Path, change: Change, state: State, *, forget: tuple[str, ...] = ()) -> None:
    """Bring patchset/ to its new state; all of it, also when the process dies on the way.

    Args:
        path: the patchset.
        change: what to write and to remove.
        state: where it is staged; its lock must be held.
        forget: files of the state folder that go away with the old patchset.

    Raises:
        DiskError: the file system refused; the patchset is the old one, or the next command finishes it.
    """
    staging = state.directory("write")
    _clear(staging)
    files = staging / "files"
    with translated(f"cannot stage the patchset in {staging}"):
        for name, content in change.write.items():
            target = files / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
    journal = {
        "patchset": str(path.resolve()),
        "write": sorted(change.write),
        "remove": list(change.remove),
        "forget": list(forget),
    }
    state.write(staging / "journal.json", json.dumps(journal, indent=1).encode())
    finish_write(state)


def is_half_written(state: State) -> bool:
    """Whether a write is under way, or was interrupted after its journal was complete."""
    return (state.home / "write" / "journal.json").is_file()


def finish_write(state: State) -> bool:
    """Finish a write that was interrupted after its journal was complete; whether there was one. Hold the lock.

    Raises:
        DiskError: the file system refused; the next command tries again.
    """
    staging = state.home / "write"
    journal_file = staging / "journal.json"
    if not journal_file.is_file():
        return False
    with translated(f"cannot finish the patchset from {staging}"):
        journal = json.loads(journal_file.read_bytes())
        path = Path(journal["patchset"])
        for name in journal["write"]:
            target = path / name
            content = (staging / "files" / name).read_bytes()
            write_atomically(target, content, temporary=target.with_name(f".{target.name}.tmp"))
        for name in journal["remove"]:
            (path / name).unlink(missing_ok=True)
        for name in journal["forget"]:
            (state.home / name).unlink(missing_ok=True)
        journal_file.unlink()
    _clear(staging)
    return True


def _clear(staging: Path) -> None:
    with translated(f"cannot clear {staging}"):
        shutil.rmtree(staging, ignore_errors=True)
        staging.mkdir(parents=True, exist_ok=True)


def read_wheel_profile(patchset: Patchset, package: str) -> WheelProfile:
    """How the wheel of a package is made: what `wheel.toml` says, or the defaults where there is none.

    Raises:
        PatchsetError: the file is malformed.
    """
    from forktool.core.wheel_profile import default_profile, parse_profile

    path = patchset.path / WHEEL_PROFILE
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return default_profile(package)
    except (OSError, UnicodeDecodeError) as error:
        raise PatchsetError(f"{path} cannot be read: {error}") from error
    return parse_profile(text, where=str(path))
