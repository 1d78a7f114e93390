"""The gates: is it right, is it accepted, is it faster. Each judges numbers that the runner measured."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from forktool.core.matrix import Check, Thresholds
from forktool.core.matrix_engine import Acceptance, Answer
from forktool.core.matrix_result import Gate, GateOutcome


@dataclass(frozen=True, kw_only=True, slots=True)
class Difference:
    """A place where two answers part.

    Gaps are in nats: by how much each side preferred its own token; None where the other's token was not among the
    likeliest, so that nothing is known.
    """

    prompt: int
    position: int
    with_speculation: int
    without: int
    gap_with: float | None
    gap_without: float | None

    def is_tie(self, allowed: float) -> bool:
        """Whether the log-probabilities of both sides prove a near-tie."""
        gaps = (self.gap_with, self.gap_without)
        return allowed > 0 and all(gap is not None and gap <= allowed for gap in gaps)


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparison:
    """One prompt's answers compared: how many tokens, and where they part."""

    prompt: int
    compared: int
    differences: tuple[Difference, ...] = ()


def first_difference(prompt: int, ours: Answer, plain: Answer, *, offset: int = 0) -> Difference | None:
    """Where an answer with speculation parts from the one without.

    Args:
        prompt: its number, for the report.
        ours: with speculation.
        plain: without.
        offset: how many tokens of `ours` were compared before; `plain` begins behind them.
    """
    for place in range(max(len(ours.tokens) - offset, len(plain.tokens))):
        mine = _at(ours.tokens, offset + place)
        other = _at(plain.tokens, place)
        if mine != other:
            return Difference(
                prompt=prompt,
                position=offset + place,
                with_speculation=mine,
                without=other,
                gap_with=_gap(ours, offset + place, mine, other),
                gap_without=_gap(plain, place, other, mine),
            )
    return None


ENDED = -1
"""Stands for the end of an answer where the other one goes on."""


def _at(tokens: Sequence[int], place: int) -> int:
    return tokens[place] if place < len(tokens) else ENDED


def _gap(answer: Answer, place: int, own: int, other: int) -> float | None:
    if place >= len(answer.likeliest):
        return None
    likely = answer.likeliest[place]
    if own not in likely or other not in likely:
        return None
    return likely[own] - likely[other]


def judge_right(comparisons: Sequence[Comparison], thresholds: Thresholds) -> Gate:
    """Whether greedy output is the same with and without speculation."""
    compared = sum(item.compared for item in comparisons)
    differences = [difference for item in comparisons for difference in item.differences]
    unproven = [item for item in differences if not item.is_tie(thresholds.near_tie)]
    ties = len(differences) - len(unproven)
    numbers = {
        "prompts": len(comparisons),
        "compared": compared,
        "near_ties": ties,
        "differences": [
            {
                "prompt": item.prompt,
                "position": item.position,
                "with": item.with_speculation,
                "without": item.without,
                "gap_with": item.gap_with,
                "gap_without": item.gap_without,
            }
            for item in differences
        ],
    }
    if compared == 0:
        return _gate(Check.RIGHT, "no token was compared", numbers, passed=False)
    allowed = f", {ties} near-tie{'s' if ties != 1 else ''} proven" if ties else ""
    if not unproven:
        return _gate(Check.RIGHT, f"{compared} tokens equal{allowed}", numbers, passed=True)
    first = unproven[0]
    prompts = len({item.prompt for item in unproven})
    detail = (
        f"{prompts} of {len(comparisons)} prompts differ; first: prompt {first.prompt}, token {first.position}: "
        f"{_word(first.with_speculation)} with speculation, {_word(first.without)} without{_why(first)}"
    )
    return _gate(Check.RIGHT, detail, numbers, passed=False)


def _word(token: int) -> str:
    return "the end" if token == ENDED else str(token)


def _why(difference: Difference) -> str:
    gaps = (difference.gap_with, difference.gap_without)
    if any(gap is None for gap in gaps):
        return " (no tie: not among the likeliest)"
    return f" ({max(gap for gap in gaps if gap is not None):.3g} nats apart)"


def judge_quality(scores: Mapping[str, Sequence[tuple[int, int]]], thresholds: Thresholds) -> Gate:
    """Whether the answers are those that are expected.

    Args:
        scores: by side (`with`, `without` speculation) and prompt, how many tokens or answers agree, of how many.
        thresholds: `quality` is the share of prompts that must agree in full.
    """
    numbers: dict[str, Any] = {}
    worst, parts = 1.0, []
    for side, pairs in scores.items():
        right = sum(1 for agree, of in pairs if agree == of)
        share = right / len(pairs) if pairs else 0.0
        tokens = (sum(agree for agree, _of in pairs), sum(of for _agree, of in pairs))
        numbers[side] = {
            "right": right,
            "of": len(pairs),
            "share": round(share, 4),
            "tokens_right": tokens[0],
            "tokens": tokens[1],
        }
        parts.append(f"{right}/{len(pairs)} {side} speculation")
        worst = min(worst, share)
    floor = thresholds.quality
    detail = f"exact answers: {', '.join(parts)}"
    if floor is not None and worst < floor:
        return _gate(
            Check.QUALITY,
            f"{detail}; {_percent(worst)}, {_points(floor - worst)} below {_percent(floor)}",
            numbers,
            passed=False,
        )
    return _gate(Check.QUALITY, detail, numbers, passed=True)


def judge_accepted(acceptance: Acceptance | None, thresholds: Thresholds) -> Gate:
    """Whether draft tokens are accepted as often as they should be, over all and at each position."""
    if acceptance is None:
        return _gate(Check.ACCEPTED, "the server shows no counters of speculation", {}, passed=False)
    rates = acceptance.position_rates
    numbers = {
        "drafts": acceptance.drafts,
        "drafted": acceptance.drafted,
        "accepted": acceptance.accepted,
        "by_position": list(acceptance.by_position),
        "rate": round(acceptance.rate, 4),
        "length": round(acceptance.length, 4),
        "position_rates": [round(rate, 4) for rate in rates],
        "floors": {
            "rate": thresholds.acceptance_rate,
            "length": thresholds.acceptance_length,
            "by_position": list(thresholds.by_position),
        },
    }
    if acceptance.drafts == 0:
        return _gate(Check.ACCEPTED, "nothing was drafted: speculation is off", numbers, passed=False)
    seen = (
        f"{acceptance.accepted} of {acceptance.drafted} draft tokens ({_percent(acceptance.rate)}), "
        f"{acceptance.length:.2f} tokens a step"
    )
    missed = []
    if thresholds.acceptance_rate is not None and acceptance.rate < thresholds.acceptance_rate:
        missed.append(
            f"rate {_percent(acceptance.rate)}, {_points(thresholds.acceptance_rate - acceptance.rate)} "
            f"below {_percent(thresholds.acceptance_rate)}"
        )
    if thresholds.acceptance_length is not None and acceptance.length < thresholds.acceptance_length:
        missed.append(
            f"length {acceptance.length:.2f}, {thresholds.acceptance_length - acceptance.length:.2f} "
            f"below {thresholds.acceptance_length:.2f}"
        )
    for number, floor in enumerate(thresholds.by_position):
        rate = rates[number] if number < len(rates) else 0.0
        if rate < floor:
            missed.append(
                f"position {number + 1} {_percent(rate)}, {_points(floor - rate)} below {_percent(floor)}"
            )
    if missed:
        return _gate(Check.ACCEPTED, f"{seen}; {'; '.join(missed)}", numbers, passed=False)
    return _gate(Check.ACCEPTED, seen, numbers, passed=True)


@dataclass(frozen=True, kw_only=True, slots=True)
class Measure:
    """One side at one concurrency.

    Throughput in tokens a second of each round; seconds of each request to its first token and to its end.
    """

    concurrency: int
    throughput: tuple[float, ...]
    latency: tuple[float, ...] = ()
    first_token: tuple[float, ...] = ()


def judge_faster(speculative: Sequence[Measure], plain: Sequence[Measure], thresholds: Thresholds) -> Gate:
    """Whether speculation pays: throughput against the same wheel without it, at each concurrency.

    The ratio is of medians. Its spread is the least and the greatest ratio that any two rounds give, so a ratio
    whose spread straddles the floor is reported as such, and judged by its median.
    """
    floor = thresholds.speed_up
    rows, missed, parts = [], [], []
    by_level = {measure.concurrency: measure for measure in plain}
    for ours in speculative:
        other = by_level.get(ours.concurrency)
        if other is None or not ours.throughput or not other.throughput or min(other.throughput) <= 0:
            continue
        ratio = statistics.median(ours.throughput) / statistics.median(other.throughput)
        low = min(ours.throughput) / max(other.throughput)
        high = max(ours.throughput) / min(other.throughput)
        rows.append(
            {
                "concurrency": ours.concurrency,
                "ratio": round(ratio, 4),
                "ratio_low": round(low, 4),
                "ratio_high": round(high, 4),
                "with": _numbers(ours),
                "without": _numbers(other),
            }
        )
        parts.append(f"{ratio:.2f}× at {ours.concurrency}")
        if floor is not None and ratio < floor:
            doubt = ", within the spread" if high >= floor else ""
            missed.append(f"{ratio:.2f}× at {ours.concurrency}, {floor - ratio:.2f} below {floor:.2f}{doubt}")
    numbers = {"levels": rows, "floor": floor}
    if not rows:
        return _gate(Check.FASTER, "nothing was measured", numbers, passed=False)
    if missed:
        return _gate(Check.FASTER, "; ".join(missed), numbers, passed=False)
    return _gate(Check.FASTER, ", ".join(parts), numbers, passed=True)


def _numbers(measure: Measure) -> dict[str, Any]:
    return {
        "throughput": [round(value, 3) for value in measure.throughput],
        "throughput_median": round(statistics.median(measure.throughput), 3),
        "latency_median": _median(measure.latency),
        "latency_p90": _p90(measure.latency),
        "first_token_median": _median(measure.first_token),
    }


def _median(values: Sequence[float]) -> float | None:
    return round(statistics.median(values), 4) if values else None


def _p90(values: Sequence[float]) -> float | None:
    return round(sorted(values)[max(0, -(-len(values) * 9 // 10) - 1)], 4) if values else None


def _gate(check: Check, detail: str, numbers: Mapping[str, Any], *, passed: bool) -> Gate:
    return Gate(
        check=check,
        outcome=GateOutcome.PASSED if passed else GateOutcome.FAILED,
        detail=detail,
        numbers=numbers,
    )


def _percent(share: float) -> str:
    return f"{share * 100:.1f} %"


def _points(share: float) -> str:
    return f"{share * 100:.1f} points"
