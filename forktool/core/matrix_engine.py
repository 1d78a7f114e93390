"""What the matrix must know of an inference engine, and how a server's end is told apart."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

from forktool.core.matrix import Cell
from forktool.core.prometheus import Sample


class Stage(StrEnum):
    """How far a server came."""

    CONFIGURATION = "configuration"
    LOADING = "loading"
    READY = "ready"


class StartFailure(StrEnum):
    """Why a server never answered."""

    REFUSED = "refused at configuration"
    DIED = "died while loading"
    OUT_OF_MEMORY = "out of memory"
    TIMED_OUT = "timed out"
    BACKEND_CANNOT = "backend cannot"
    NO_PROGRAM = "the program could not be started"


@dataclass(frozen=True, kw_only=True, slots=True)
class StartReport:
    """How a start failed: the kind, and the log's line that says why."""

    kind: StartFailure
    cause: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Acceptance:
    """Counters of speculation since the server started, or the difference of two readings."""

    drafts: int
    drafted: int
    accepted: int
    by_position: tuple[int, ...]

    def minus(self, earlier: Acceptance) -> Acceptance:
        """What happened after an earlier reading."""
        before = (*earlier.by_position, *(0 for _ in self.by_position))
        return Acceptance(
            drafts=self.drafts - earlier.drafts,
            drafted=self.drafted - earlier.drafted,
            accepted=self.accepted - earlier.accepted,
            by_position=tuple(now - then for now, then in zip(self.by_position, before, strict=False)),
        )

    @property
    def rate(self) -> float:
        """Accepted / drafted tokens; 0 when nothing was drafted."""
        return self.accepted / self.drafted if self.drafted else 0.0

    @property
    def length(self) -> float:
        """Tokens a step, the target's own one counted."""
        return 1 + self.accepted / self.drafts if self.drafts else 1.0

    @property
    def position_rates(self) -> tuple[float, ...]:
        """For each draft position, the share of drafts whose token there was accepted."""
        return tuple(count / self.drafts if self.drafts else 0.0 for count in self.by_position)


def added(counts: Iterable[Acceptance]) -> Acceptance | None:
    """The sum of several counts; None where there are none."""
    found = tuple(counts)
    if not found:
        return None
    columns = itertools.zip_longest(*(item.by_position for item in found), fillvalue=0)
    return Acceptance(
        drafts=sum(item.drafts for item in found),
        drafted=sum(item.drafted for item in found),
        accepted=sum(item.accepted for item in found),
        by_position=tuple(sum(column) for column in columns),
    )


Prompt = str | Sequence[int]


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """What a server answered, token by token: ids, and for each place the log-probabilities of the likeliest tokens.

    `prompt` are the ids that the server made of the prompt, where it says so.
    """

    tokens: tuple[int, ...]
    likeliest: tuple[Mapping[int, float], ...] = ()
    prompt: tuple[int, ...] = ()
    text: str = ""
    acceptance: Acceptance | None = None
    """What became of the drafts of this answer; None where the server counts for all answers together."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    """A request: a path of the server's, and the JSON that is sent there."""

    path: str
    body: Mapping[str, Any]


class Engine(Protocol):
    """One inference engine: its command line, its log, its API, its metrics. Pure; the runner does the rest."""

    name: str
    methods: tuple[str, ...]
    """The ways of speculating that it has, in the words of the matrix file."""

    def command(
        self, cell: Cell, *, python: str, model: str, drafter: str | None, port: int, speculative: bool = True
    ) -> tuple[str, ...]:
        """The server's command line, with speculation or without."""

    def environment(self, cell: Cell) -> Mapping[str, str]:
        """Variables that the engine needs, without the cell's own."""

    def loading_began(self, line: str) -> bool:
        """Whether a log line proves that the configuration was accepted."""

    def lacks(self, line: str) -> bool:
        """Whether a log line says that this backend does not have the feature at all."""

    def kills_itself(self, line: str) -> bool:
        """Whether a log line says that the server will end all its processes by SIGKILL, its own first one too."""

    def question(self, model: str, prompt: Prompt, *, tokens: int, likeliest: int) -> Question:
        """Ask for a greedy answer of exactly `tokens` tokens, with the log-probabilities of the likeliest ones."""

    def answer(self, document: Mapping[str, Any]) -> Answer:
        """Read the server's reply to such a question.

        Raises:
            KeyError, IndexError, TypeError, ValueError, AttributeError: it is no such reply.
        """

    def acceptance(self, samples: Sequence[Sample]) -> Acceptance | None:
        """The counters of speculation on `/metrics`; None where the server shows none there."""


_OUT_OF_MEMORY = re.compile(
    r"OutOfMemoryError|out of memory|No available memory for the cache|larger than the available KV cache"
    r"|Cannot allocate memory|Not enough memory\. Please try|Free memory on device .* is less than desired",
    re.IGNORECASE,
)
_PREFIX = re.compile(
    r"^(?:\x1b\[[0-9;]*m)*(?:\([\w-]+(?: pid=\d+)?\)\s*)*(?:\x1b\[[0-9;]*m)*\s*"
    r"(?:(?:INFO|WARNING|ERROR|DEBUG|CRITICAL)\s+\d\d-\d\d \d\d:\d\d:\d\d (?:\[[^\]]*\] )?)?"
)
_ANSI = re.compile(r"\x1b\[[0-9;]*m")
_RAISED = re.compile(r"^(?:[A-Za-z_][\w.]*\.)?[A-Z]\w*(?:Error|Exception|Exit|Interrupt)\b(?::\s*(.*))?$")
_SECOND_HAND = re.compile(
    r"See root cause above|Engine core initialization failed|EngineDeadError|Engine core proc"
)
_MORE = re.compile(r"^\s{0,4}(Value error|Assertion failed), (.*?)(?: \[type=.*)?$")
SIGKILL = -9


def cause_line(lines: Sequence[str]) -> str:
    """The line of a log that says why a server ended: the first error raised that does not point to another one.

    Falls back to the last line that says anything.
    """
    plain = [bare(line) for line in lines]
    for number, line in enumerate(plain):
        if _RAISED.match(line) and not _SECOND_HAND.search(line):
            # pydantic puts the message on the lines below: "1 validation error for X", "  Value error, TEXT".
            for below in plain[number + 1 : number + 4]:
                detail = _MORE.match(below)
                if detail:
                    return detail[2]
            if chained(plain, number):
                continue
            return line
    usage = next((line for line in reversed(plain) if re.search(r"\berror: ", line)), None)
    return usage or next((line.strip() for line in reversed(plain) if line.strip()), "the log is empty")


def chained(lines: Sequence[str], number: int) -> bool:
    """Whether the error at a line was caught and another was raised of it."""
    following = (line.strip() for line in lines[number + 1 : number + 4])
    return any(line.startswith("The above exception was the direct cause") for line in following)


def explain_start(
    engine: Engine, lines: Sequence[str], *, returncode: int | None, timeout: float | None = None
) -> StartReport:
    """Why a server did not come up.

    Args:
        engine: whose log it is.
        lines: the whole log.
        returncode: how the process ended, negative for a signal; None while it still ran when its time was over.
        timeout: seconds that it was given.
    """
    cause = cause_line(lines)
    if returncode is None:
        last = next((bare(line).strip() for line in reversed(lines) if line.strip()), "the log is empty")
        return StartReport(
            kind=StartFailure.TIMED_OUT, cause=f"no answer within {timeout or 0:g} s; last line: {last}"
        )
    loading = any(engine.loading_began(line) for line in lines)
    memory = next((bare(line).strip() for line in lines if _OUT_OF_MEMORY.search(line)), None)
    if memory is not None:
        return StartReport(kind=StartFailure.OUT_OF_MEMORY, cause=memory)
    if returncode == SIGKILL and not any(engine.kills_itself(line) for line in lines):
        return StartReport(
            kind=StartFailure.OUT_OF_MEMORY,
            cause="killed by signal 9, which forktool did not send: most likely the host ran out of memory",
        )
    if any(engine.lacks(bare(line)) for line in lines):
        return StartReport(kind=StartFailure.BACKEND_CANNOT, cause=cause)
    return StartReport(kind=StartFailure.DIED if loading else StartFailure.REFUSED, cause=cause)


def bare(line: str) -> str:
    """A log line without colours, process names and time stamps."""
    return _PREFIX.sub("", _ANSI.sub("", line)).rstrip()
