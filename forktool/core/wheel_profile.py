"""`patchset/wheel.toml`: what the wheels of one upstream need, as facts.

Without the file `default_profile` holds. Tables: `rules`, `build`, `build.launchers`, `build.archs` (a list),
`metadata` and `metadata.stubs`; a word that is not known is an error.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from forktool.core.wheel_plan import ArchRange, BuildProfile, WheelRules
from forktool.errors import PatchsetError

_GIB = 1 << 30


@dataclass(frozen=True, kw_only=True, slots=True)
class WheelProfile:
    """The two halves of the file."""

    rules: WheelRules
    build: BuildProfile


def default_profile(package: str) -> WheelProfile:
    """The profile of an upstream without a wheel.toml: its wheel ships the folder of the package's name."""
    folder = canonicalize_name(package).replace("-", "_")
    return WheelProfile(
        rules=WheelRules(shipped=(f"{folder}/", f"src/{folder}/")),
        build=BuildProfile(version_variable="SETUPTOOLS_SCM_PRETEND_VERSION"),
    )


def parse_profile(text: str, *, where: str) -> WheelProfile:
    """Read wheel.toml.

    Raises:
        PatchsetError: not TOML, a word that is not known, or a value of another type.
    """
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise PatchsetError(f"{where}: {error}") from error
    table = _Table(document, where, "")
    rules, build, metadata = table.table("rules"), table.table("build"), table.table("metadata")
    table.done()
    plain = WheelRules()
    profile = WheelProfile(
        rules=WheelRules(
            outside=rules.texts("outside", plain.outside),
            native=rules.texts("native", plain.native),
            metadata=rules.texts("metadata", plain.metadata),
            shipped=rules.texts("shipped", plain.shipped),
        ),
        build=_build(build, metadata),
    )
    for part in (rules, build, metadata):
        part.done()
    return profile


def _build(build: _Table, metadata: _Table) -> BuildProfile:
    launchers = build.table("launchers")
    plain = BuildProfile()
    names = tuple(launchers.content) or plain.compiler_launchers
    memory = build.take("memory-per-job-gib", int | float, plain.memory_per_job / _GIB)
    return BuildProfile(
        version_variable=build.text("version-variable", plain.version_variable),
        jobs_variable=build.text("jobs-variable", plain.jobs_variable),
        arch_variable=build.text("arch-variable", plain.arch_variable),
        environment=build.mapping("environment"),
        config_settings=build.mapping("config-settings"),
        programs=build.texts("programs", ()),
        memory_per_job=int(cast("float", memory) * _GIB),
        compiler_launchers=names,
        launcher_environment={name: launchers.mapping(name) for name in launchers.content},
        archs=tuple(_arch(item) for item in build.tables("archs")),
        metadata_environment=metadata.mapping("environment"),
        metadata_skips=tuple(canonicalize_name(name) for name in metadata.texts("skips", ())),
        stubs=metadata.mapping("stubs"),
    )


def _arch(table: _Table) -> ArchRange:
    below = table.text("cuda-below", "")
    found = ArchRange(
        cuda_from=table.version("cuda-from", table.text("cuda-from", "")),
        cuda_below=table.version("cuda-below", below) if below else None,
        archs=table.texts("archs", ()),
        covers=table.mapping("covers"),
    )
    table.done()
    return found


class _Table:
    """A TOML table that remembers what was asked of it, so that a misspelled word is found."""

    def __init__(self, content: Mapping[str, object], where: str, name: str) -> None:
        self.content = content
        self._where = where
        self._name = name
        self._asked: set[str] = set()

    def take(self, key: str, kind: type | object, default: object) -> object:
        self._asked.add(key)
        value = self.content.get(key, default)
        if not isinstance(value, kind) or isinstance(value, bool):  # type: ignore[arg-type]
            raise self._wrong(key, value)
        return value

    def text(self, key: str, default: str) -> str:
        return cast("str", self.take(key, str, default))

    def version(self, key: str, text: str) -> Version:
        try:
            return Version(text)
        except InvalidVersion as error:
            raise self._wrong(key, text) from error

    def texts(self, key: str, default: tuple[str, ...]) -> tuple[str, ...]:
        values = cast("list[object]", self.take(key, list, list(default)))
        if not all(isinstance(item, str) for item in values):
            raise self._wrong(key, values)
        return tuple(cast("list[str]", values))

    def mapping(self, key: str) -> dict[str, str]:
        values = cast("dict[str, object]", self.take(key, dict, {}))
        if not all(isinstance(item, str) for item in values.values()):
            raise self._wrong(key, values)
        return cast("dict[str, str]", values)

    def table(self, key: str) -> _Table:
        content = cast("dict[str, object]", self.take(key, dict, {}))
        return _Table(content, self._where, f"{self._name}{key}.")

    def tables(self, key: str) -> list[_Table]:
        items = cast("list[object]", self.take(key, list, []))
        if not all(isinstance(item, dict) for item in items):
            raise self._wrong(key, items)
        return [_Table(cast("dict[str, object]", item), self._where, f"{self._name}{key}.") for item in items]

    def done(self) -> None:
        unknown = sorted(set(self.content) - self._asked)
        if unknown:
            raise PatchsetError(f"{self._where}: {self._name}{unknown[0]} is not a word of this file")

    def _wrong(self, key: str, value: object) -> PatchsetError:
        return PatchsetError(f"{self._where}: {self._name}{key} cannot be {value!r}")
