"""Where an upstream's trees come from, as patchset.toml states it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

DEFAULT_TAG_PATTERN = "v{version}"


class SourceKind(StrEnum):
    """The places that hold whole trees, by the words patchset.toml uses."""

    SDIST = "sdist"
    GIT = "git"


class History(StrEnum):
    """How much of upstream's history a git source fetches."""

    SHALLOW = "shallow"
    """The tagged commit alone, its files on demand."""
    FULL = "full"


@dataclass(frozen=True, kw_only=True, slots=True)
class UpstreamConfig:
    """The table `[upstream]` of patchset.toml.

    Attributes:
        package: the project's name on the package index.
        repository: the URL or path of its git repository.
        sources: tried in this order.
        tag_pattern: how a version is written as a tag; `{version}` stands for it.
        generated: patterns of paths that a release adds to the tagged tree (see `core.archive.matches`).
        index_url: the package index's simple API; None leaves it to the environment.
        history: how much a git source fetches.
    """

    package: str | None = None
    repository: str | None = None
    sources: tuple[SourceKind, ...] = (SourceKind.SDIST, SourceKind.GIT)
    tag_pattern: str = DEFAULT_TAG_PATTERN
    generated: tuple[str, ...] = ()
    index_url: str | None = None
    history: History = History.SHALLOW

    @property
    def name(self) -> str:
        """What messages call this upstream."""
        return self.package or self.repository or "upstream"
