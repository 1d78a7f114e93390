"""Whose fault a failed cell is, from how it does on other wheels."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forktool.core.matrix import Check
from forktool.core.matrix_blame import attribute, needed_for
from forktool.core.matrix_result import Fault, Outcome, Trial

PATCHES = ("a", "b", "c")
Key = tuple[str, ...] | None


def runner(fails: Mapping[Key, Check | None], asked: list[Key] | None = None):
    """A cell that fails the given check on the given wheel; None passes."""

    def run(without: Key) -> Trial:
        if asked is not None:
            asked.append(without)
        check = fails[without]
        outcome = Outcome.PASSED if check is None else Outcome.FAILED
        return Trial(without=without, outcome=outcome, failed_check=check, detail="x")

    return run


LOW, DEAD, FINE = Check.ACCEPTED, Check.STARTS, None


@pytest.mark.parametrize(
    ("again", "bare", "each", "words"),
    [
        (FINE, LOW, (LOW, LOW, LOW), "flaky"),
        (LOW, LOW, (LOW, LOW, LOW), "upstream too"),
        (LOW, DEAD, (LOW, FINE, LOW), "patch b"),
        (LOW, DEAD, (DEAD, FINE, LOW), "patch b"),
        (LOW, DEAD, (FINE, FINE, LOW), "interaction a, b"),
        (LOW, FINE, (LOW, LOW, LOW), "interaction"),
        (LOW, DEAD, (LOW, LOW, LOW), "unknown"),
        (DEAD, DEAD, (DEAD, DEAD, DEAD), "unknown"),
    ],
)
def test_the_fault(
    again: Check | None, bare: Check | None, each: tuple[Check | None, ...], words: str
) -> None:
    fails = {(): again, None: bare} | {(name,): check for name, check in zip(PATCHES, each, strict=True)}
    assert attribute(Check.ACCEPTED, PATCHES, runner(fails)).words == words


def test_a_patch_without_which_the_check_holds_and_a_later_one_fails_is_named() -> None:
    fails: dict[Key, Check | None] = {(): LOW, None: DEAD, ("a",): LOW, ("b",): Check.FASTER, ("c",): LOW}
    blame = attribute(LOW, PATCHES, runner(fails))
    assert (blame.fault, blame.patches) == (Fault.INTERACTION, ("b",))


def test_no_more_is_run_than_settles_it() -> None:
    asked: list[Key] = []
    attribute(LOW, PATCHES, runner({(): FINE}, asked))
    assert asked == [()]
    asked.clear()
    attribute(LOW, PATCHES, runner({(): LOW, None: LOW}, asked))
    assert asked == [(), None]


def test_a_bare_wheel_that_cannot_be_run_leaves_it_open() -> None:
    def run(without: Key) -> Trial:
        outcome = Outcome.BROKEN if without is None else Outcome.FAILED
        return Trial(without=without, outcome=outcome, failed_check=LOW, detail="no such file")

    blame = attribute(LOW, PATCHES, run)
    assert (blame.fault, blame.reason) == (Fault.UNKNOWN, "the bare wheel could not be run: no such file")


@given(st.sampled_from(PATCHES))
def test_one_bad_patch_is_always_found(bad: str) -> None:
    fails: dict[Key, Check | None] = {(): LOW, None: FINE} | {
        (name,): None if name == bad else LOW for name in PATCHES
    }
    assert attribute(LOW, PATCHES, runner(fails)).words == f"patch {bad}"


def test_what_each_patch_is_needed_for() -> None:
    fails: dict[Key, Check | None] = {None: DEAD, ("a",): DEAD, ("b",): Check.RIGHT, ("c",): FINE}
    trials = needed_for(PATCHES, runner(fails))
    assert [(trial.label, trial.failed_check) for trial in trials] == [
        ("bare upstream wheel", DEAD),
        ("without a", DEAD),
        ("without b", Check.RIGHT),
        ("without c", None),
    ]
