"""The gates: near-ties that are proven, acceptance by position, speed-up with its spread."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forktool.commands.matrix_cell import turns
from forktool.core.matrix import Thresholds
from forktool.core.matrix_engine import Acceptance
from forktool.core.matrix_gates import (
    ENDED,
    Answer,
    Comparison,
    Measure,
    first_difference,
    judge_accepted,
    judge_faster,
    judge_right,
)
from forktool.core.matrix_result import GateOutcome

TIES = Thresholds(near_tie=0.1)


def answer(tokens: list[int], *places: dict[int, float]) -> Answer:
    return Answer(tokens=tuple(tokens), likeliest=places)


def difference(ours_gap: float, plain_gap: float):
    """Two answers that part at token 1, each by so much in favour of its own."""
    ours = answer([5, 6, 7], {5: -0.1}, {6: -0.7, 9: -0.7 - ours_gap}, {7: -0.1})
    plain = answer([5, 9, 7], {5: -0.1}, {9: -0.7, 6: -0.7 - plain_gap}, {7: -0.1})
    found = first_difference(0, ours, plain)
    assert found is not None
    return found


def test_equal_answers_have_no_difference() -> None:
    assert first_difference(0, answer([1, 2, 3]), answer([1, 2, 3])) is None


def test_a_shorter_answer_parts_where_it_ends() -> None:
    found = first_difference(0, answer([1, 2]), answer([1, 2, 3]))
    assert found is not None
    assert (found.position, found.with_speculation, found.without) == (2, ENDED, 3)
    assert not found.is_tie(10)


def test_a_tie_needs_both_sides() -> None:
    assert difference(0.05, 0.05).is_tie(0.1)
    assert not difference(0.05, 0.5).is_tie(0.1)
    assert not difference(0.5, 0.05).is_tie(0.1)
    assert not difference(0.0, 0.0).is_tie(0.0)


def test_a_tie_is_not_proven_where_the_other_token_is_not_among_the_likeliest() -> None:
    ours, plain = answer([6], {6: -0.7, 8: -0.7}), answer([9], {9: -0.7, 6: -0.71})
    found = first_difference(0, ours, plain)
    assert found is not None
    assert found.gap_with is None
    assert not found.is_tie(0.1)
    gate = judge_right([Comparison(prompt=0, compared=1, differences=(found,))], TIES)
    assert gate.outcome is GateOutcome.FAILED
    assert gate.detail.endswith("(no tie: not among the likeliest)")


def test_what_was_compared_before_is_passed_over() -> None:
    ours, rest = answer([5, 6, 7, 8]), answer([7, 9])
    found = first_difference(3, ours, rest, offset=2)
    assert found is not None
    assert (found.prompt, found.position, found.with_speculation, found.without) == (3, 3, 8, 9)


def test_proven_ties_pass_and_are_counted() -> None:
    gate = judge_right([Comparison(prompt=0, compared=3, differences=(difference(0.05, 0.01),))], TIES)
    assert (gate.outcome, gate.detail) == (GateOutcome.PASSED, "3 tokens equal, 1 near-tie proven")


def test_nothing_compared_is_no_pass() -> None:
    assert judge_right([], TIES).failed


# The two that were seen on a tiny DeepSeek with a broken drafter's input, and with it right.
@pytest.mark.parametrize(
    ("drafts", "positions", "passes"),
    [(65, (45, 41, 41), True), (185, (1, 1, 1), False), (167, (21, 1, 0), False)],
)
def test_acceptance_tells_broken_states_from_right_ones(
    drafts: int, positions: tuple[int, ...], passes: bool
) -> None:
    counted = Acceptance(drafts=drafts, drafted=3 * drafts, accepted=sum(positions), by_position=positions)
    assert judge_accepted(counted, Thresholds(acceptance_rate=0.6)).failed is not passes


def test_each_position_has_its_floor() -> None:
    counted = Acceptance(drafts=100, drafted=300, accepted=150, by_position=(90, 50, 10))
    gate = judge_accepted(counted, Thresholds(by_position=(0.8, 0.5, 0.3)))
    assert gate.detail == (
        "150 of 300 draft tokens (50.0 %), 2.50 tokens a step; position 3 10.0 %, 20.0 points below 30.0 %"
    )
    gate = judge_accepted(counted, Thresholds(acceptance_length=3.0))
    assert gate.detail.endswith("length 2.50, 0.50 below 3.00")


def test_no_counters_and_no_drafts_fail() -> None:
    assert judge_accepted(None, Thresholds()).failed
    none = Acceptance(drafts=0, drafted=0, accepted=0, by_position=())
    assert judge_accepted(none, Thresholds()).detail == "nothing was drafted: speculation is off"


def measure(level: int, *throughput: float) -> Measure:
    return Measure(concurrency=level, throughput=throughput, latency=(1.0, 2.0, 3.0))


def test_speed_up_is_of_medians_with_the_spread_of_rounds() -> None:
    gate = judge_faster([measure(1, 150, 160, 140)], [measure(1, 100, 90, 110)], Thresholds())
    (level,) = gate.numbers["levels"]
    assert (level["ratio"], level["ratio_low"], level["ratio_high"]) == (
        1.5,
        round(140 / 110, 4),
        round(160 / 90, 4),
    )
    assert level["with"]["latency_median"] == 2.0
    assert level["with"]["latency_p90"] == 3.0
    assert not gate.failed


def test_too_slow_says_by_how_much_and_whether_the_spread_covers_it() -> None:
    gate = judge_faster([measure(8, 66, 66)], [measure(8, 100, 100)], Thresholds())
    assert (gate.failed, gate.detail) == (True, "0.66× at 8, 0.34 below 1.00")
    gate = judge_faster([measure(8, 95, 105, 96)], [measure(8, 100, 101, 99)], Thresholds())
    assert gate.detail == "0.96× at 8, 0.04 below 1.00, within the spread"
    assert not judge_faster([measure(8, 66)], [measure(8, 100)], Thresholds(speed_up=None)).failed


def test_nothing_measured_is_no_pass() -> None:
    assert judge_faster([], [], Thresholds()).failed


@given(st.integers(1, 12))
def test_both_sides_are_measured_as_often_and_take_turns(rounds: int) -> None:
    sequence = list(turns(rounds))
    assert sequence[0][0] is True
    assert sum(times for side, times in sequence if side) == rounds
    assert sum(times for side, times in sequence if not side) == rounds
    assert all(one[0] is not other[0] for one, other in itertools.pairwise(sequence))


def test_two_rounds_are_three_servers() -> None:
    assert list(turns(2)) == [(True, 1), (False, 2), (True, 1)]
