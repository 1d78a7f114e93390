"""patchset.toml: what is upstream, which tag the series sits on, and this fork's policy."""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from forktool.core.objects import Oid, is_oid
from forktool.core.series import Base
from forktool.core.upstream_config import History, SourceKind, UpstreamConfig
from forktool.errors import PatchsetError

_TABLES = {
    "upstream": ("package", "repository", "sources", "tag", "generated", "index", "history"),
    "base": ("tag", "tree"),
    "policy": ("signed-off-by", "probe", "reason"),
}
_FREE_TABLES = ("wheel", "matrix", "pull-request")

_Choice = TypeVar("_Choice", SourceKind, History)


@dataclass(frozen=True, kw_only=True, slots=True)
class Policy:
    """What `check` asks of every patch."""

    signed_off_by: bool = True
    probe: bool = True
    reason: bool = True


@dataclass(frozen=True, kw_only=True, slots=True)
class Config:
    """The whole file. `tables` holds the tables that only one command reads, as they are."""

    upstream: UpstreamConfig
    base: Base
    policy: Policy = field(default_factory=Policy)
    tables: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


def parse_config(text: str, *, file: str) -> Config:
    """Read patchset.toml.

    Raises:
        PatchsetError: malformed TOML, an unknown table or key (names the nearest), a value of the wrong kind.
    """
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise PatchsetError(f"{file}: {error}") from error
    reader = _Reader(text, file, document)
    reader.check_names()
    upstream = reader.table("upstream")
    package, repository = reader.text(upstream, "package"), reader.text(upstream, "repository")
    if package is None and repository is None:
        raise PatchsetError(f"{file}: [upstream] needs a package or a repository")
    tag_pattern = reader.text(upstream, "tag") or "v{version}"
    if tag_pattern.count("{version}") != 1:
        raise reader.error("tag", "must hold {version} once")
    base = reader.table("base")
    tag = reader.text(base, "tag")
    if tag is None:
        raise PatchsetError(f"{file}: [base] needs a tag")
    tree = reader.text(base, "tree")
    if tree is not None and not is_oid(tree):
        raise reader.error("tree", "must be a full tree id, 40 hexadecimal digits")
    policy = reader.table("policy")
    return Config(
        upstream=UpstreamConfig(
            package=package,
            repository=repository,
            sources=tuple(
                reader.choice(SourceKind, "sources", name)
                for name in reader.texts(upstream, "sources", default=("sdist", "git"))
            ),
            tag_pattern=tag_pattern,
            generated=tuple(reader.texts(upstream, "generated", default=())),
            index_url=reader.text(upstream, "index"),
            history=reader.choice(History, "history", reader.text(upstream, "history") or History.SHALLOW),
        ),
        base=Base(tag=tag, tree=Oid(tree) if tree else None),
        policy=Policy(
            signed_off_by=reader.flag(policy, "signed-off-by"),
            probe=reader.flag(policy, "probe"),
            reason=reader.flag(policy, "reason"),
        ),
        tables={name: reader.table(name) for name in _FREE_TABLES if name in document},
    )


class _Reader:
    def __init__(self, text: str, file: str, document: Mapping[str, Any]) -> None:
        self.lines = text.splitlines()
        self.file = file
        self.document = document

    def error(self, key: str, problem: str) -> PatchsetError:
        pattern = re.compile(rf"\s*\[?\s*\"?{re.escape(key)}\b")
        number = next((n for n, line in enumerate(self.lines, 1) if pattern.match(line)), 1)
        return PatchsetError(f"{self.file}:{number}: {key} {problem}")

    def check_names(self) -> None:
        self._known(self.document, (*_TABLES, *_FREE_TABLES))
        for table, keys in _TABLES.items():
            self._known(self.table(table), keys)

    def _known(self, names: Iterable[str], allowed: tuple[str, ...]) -> None:
        for name in names:
            if name not in allowed:
                near = difflib.get_close_matches(name, allowed, n=1)
                raise self.error(
                    name, f"is not known here; {f'did you mean {near[0]}?' if near else ', '.join(allowed)}"
                )

    def table(self, name: str) -> Mapping[str, Any]:
        value = self.document.get(name, {})
        if not isinstance(value, dict):
            raise self.error(name, "must be a table")
        return value

    def text(self, table: Mapping[str, Any], key: str) -> str | None:
        value = table.get(key)
        if value is not None and (not isinstance(value, str) or not value.strip()):
            raise self.error(key, "must be a text that is not empty")
        return value

    def texts(self, table: Mapping[str, Any], key: str, *, default: tuple[str, ...]) -> Iterable[str]:
        value = table.get(key, default)
        if not isinstance(value, list | tuple) or not all(isinstance(item, str) for item in value):
            raise self.error(key, "must be a list of texts")
        return value

    def flag(self, table: Mapping[str, Any], key: str) -> bool:
        value = table.get(key, True)
        if not isinstance(value, bool):
            raise self.error(key, "must be true or false")
        return value

    def choice(self, kind: type[_Choice], key: str, name: str) -> _Choice:
        try:
            return kind(name)
        except ValueError:
            raise self.error(key, f"must be one of {', '.join(kind)}, not {name}") from None
