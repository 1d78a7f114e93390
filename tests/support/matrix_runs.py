"""Runs of a matrix as values, for tests of reports: every outcome, and numbers for every plot."""

from __future__ import annotations

from forktool.core.lm_eval import Score, judge_lm_eval
from forktool.core.matrix import CellId, Check, Expectation, LmEval, Thresholds
from forktool.core.matrix_engine import Acceptance
from forktool.core.matrix_gates import Comparison, Measure, judge_accepted, judge_faster, judge_right
from forktool.core.matrix_result import (
    Blame,
    CellResult,
    Evidence,
    Fault,
    Gate,
    GateOutcome,
    Outcome,
    Run,
    Trial,
)

FLOORS = Thresholds(acceptance_rate=0.55, by_position=(0.7, 0.5, 0.3))
UP = Gate(check=Check.STARTS, outcome=GateOutcome.PASSED, detail="up")


def accepted(*by_position: int, drafts: int = 1000) -> Gate:
    counted = Acceptance(
        drafts=drafts, drafted=drafts * len(by_position), accepted=sum(by_position), by_position=by_position
    )
    return judge_accepted(counted, FLOORS)


def faster(*ratios: float) -> Gate:
    levels = (1, 8, 32)[: len(ratios)]
    ours = [
        Measure(
            concurrency=level,
            throughput=(100 * ratio * 0.97, 100 * ratio, 100 * ratio * 1.04),
            latency=(1.0, 1.2),
        )
        for level, ratio in zip(levels, ratios, strict=True)
    ]
    plain = [
        Measure(concurrency=level, throughput=(99.0, 100.0, 102.0), latency=(1.5, 1.6)) for level in levels
    ]
    return judge_faster(ours, plain, FLOORS)


def right() -> Gate:
    return judge_right([Comparison(prompt=number, compared=64) for number in range(12)], FLOORS)


def harness() -> Gate:
    scores = {"with": {"gsm8k": Score(value=0.951)}, "without": {"gsm8k": Score(value=0.949)}}
    return judge_lm_eval(scores, LmEval(tasks=("gsm8k",), tolerance=0.02))


def cell(name: str, outcome: Outcome, *gates: Gate, reason: str = "", **changes: object) -> CellResult:
    evidence = Evidence(
        wheel="vllm-0.16.0+kimi.5.g0123456-cp38-abi3-manylinux_2_31_x86_64.whl",
        wheel_sha256="a" * 64,
        tree="b" * 40,
        base_tag="v0.16.0",
        torch="2.9.1",
        python="3.12.8",
        driver="580.65.06",
        gpus=tuple(f"NVIDIA B200 GPU-{number}" for number in range(8)),
        host="node-7",
        commands=(f"CUDA_VISIBLE_DEVICES=0,1 python -m vllm.entrypoints.cli.main serve /models/{name}",),
        logs=(f"cells/{name}/run-1-1/server-1-with-speculation.log",),
    )
    values = {
        "identifier": CellId(name),
        "outcome": outcome,
        "expect": Expectation.PASS,
        "reason": reason,
        "gates": gates,
        "evidence": evidence,
        "started": "2026-11-29T12:00:00+00:00",
        "seconds": 812.4,
        "server_seconds": 770.0,
        "environment_seconds": 41.0,
    }
    return CellResult(**(values | changes))  # type: ignore[arg-type]


def run(*cells: CellResult, tag: str = "v0.16.0", started: str = "2026-11-29T12:00:00+00:00") -> Run:
    return Run(
        tree="b" * 40,
        wheel_sha256="a" * 64,
        wheel=f"vllm-{tag[1:]}+kimi.5.g0123456-cp38-abi3-manylinux_2_31_x86_64.whl",
        base_tag=tag,
        started=started,
        matrix="patchset/matrix.toml",
        cells=cells,
    )


KIMI = "kimi-k2.5-int4.eagle3.tp8.flashinfer-mla.sm100"

LOW = Blame(
    fault=Fault.PATCH,
    patches=("mla-decode-padded-batch",),
    reason="the cell passes without it",
    trials=(
        Trial(without=(), outcome=Outcome.FAILED, failed_check=Check.ACCEPTED, detail="accepted: 15.0 %"),
        Trial(
            without=None,
            outcome=Outcome.FAILED,
            failed_check=Check.STARTS,
            detail="refused <at> configuration",
        ),
        Trial(
            without=("mla-decode-padded-batch",),
            outcome=Outcome.PASSED,
            failed_check=None,
            detail="right; accepted",
        ),
    ),
)


def sample() -> Run:
    """A run with every outcome."""
    return run(
        cell(KIMI, Outcome.PASSED, UP, right(), harness(), accepted(840, 690, 520), faster(1.62, 1.41, 1.08)),
        cell(
            "deepseek-v3-fp8.eagle3.tp8.flashmla.sm100",
            Outcome.FAILED,
            UP,
            right(),
            accepted(310, 90, 50),
            faster(0.91, 0.72, 0.66),
            reason="accepted: 450 of 3000 draft tokens (15.0 %)",
            blame=LOW,
        ),
        cell(
            "kimi-k2.5-int4.eagle3.tp8.flashmla.sm100",
            Outcome.FAILED,
            Gate(
                check=Check.STARTS,
                outcome=GateOutcome.FAILED,
                detail="out of memory: </script><b>CUDA out of memory</b>",
            ),
            reason="out of memory",
        ),
        cell(
            "deepseek-v3-tiny.eagle3.tp1.cpu",
            Outcome.BACKEND_CANNOT,
            Gate(
                check=Check.STARTS,
                outcome=GateOutcome.FAILED,
                detail="backend cannot: spec decode is not supported",
            ),
            reason="spec decode is not supported",
            expect=Expectation.BACKEND_CANNOT,
        ),
        cell(
            "small.eagle3.tp1.sm90", Outcome.SKIPPED, reason="needs 1 GPU of compute capability 9.0, 0 here"
        ),
    )


def history() -> tuple[Run, ...]:
    """Earlier runs of the first cell."""
    return tuple(
        run(
            cell(KIMI, Outcome.PASSED, UP, accepted(*by_position), faster(1.5)),
            tag=tag,
            started=f"2026-{month:02}-01T00:00:00+00:00",
        )
        for month, (tag, by_position) in enumerate(
            (("v0.13.0", (790, 610, 420)), ("v0.14.0", (820, 640, 470)), ("v0.15.0", (450, 130, 40))), 8
        )
    )
