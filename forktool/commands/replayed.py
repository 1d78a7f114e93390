"""What a replay gives: a step a patch, the result as a tree, and where it stopped."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from forktool.adapters.git_merge import Stages
from forktool.core.apply import Change
from forktool.core.objects import Entry, Oid
from forktool.core.series import Patch
from forktool.core.tree import Overlay, SourceTree
from forktool.core.verdict import Facts, Outcome
from forktool.errors import RequestError


@dataclass(frozen=True, kw_only=True, slots=True)
class Review:
    """A conflict that was settled without a person, for one to look at: what each side said, and the result."""

    path: str
    line: int
    sides: tuple[tuple[str, bytes], ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """One patch of a replay: its verdict and, where it is carried, what it sets in the new tree."""

    patch: Patch
    outcome: Outcome
    facts: Facts | None = None
    changes: Mapping[str, Entry | None] = field(default_factory=dict)
    review: tuple[Review, ...] = ()
    """Every conflict that a structural resolution settled."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Stop:
    """Where a replay stopped: the patch, and the merge that a person must look at."""

    patch: Patch
    changes: tuple[Change, ...]
    stages: Mapping[str, Stages]
    texts: Mapping[str, bytes]
    """The conflicted files, with diff3 markers."""
    messages: tuple[str, ...]
    sides: Mapping[str, tuple[bytes | None, bytes | None]]
    """The patch's files on the base, without it and with it; None where there is no file."""
    moved: Mapping[str, str]
    """Where upstream moved them, as the merge followed: path on the base to path in the new tree."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Replayed:
    """A series on a new tree. `result` is that tree with every carried patch."""

    onto: SourceTree
    steps: tuple[Step, ...]
    result: Overlay
    stop: Stop | None = None

    @property
    def is_complete(self) -> bool:
        """Whether every patch was settled."""
        return self.stop is None

    @property
    def carried(self) -> tuple[Step, ...]:
        """The steps whose patch is in the result, in order."""
        return tuple(step for step in self.steps if step.outcome.verdict.is_carried)


@dataclass(frozen=True, kw_only=True, slots=True)
class Settled:
    """A conflict that a person settled: the entries of the paths, with their contents."""

    entries: Mapping[str, Entry | None]
    contents: Mapping[Oid, bytes]


class NeedsWholeTreeError(RequestError):
    """A tree that was read in part cannot answer: upstream moved or removed a file of the series."""
