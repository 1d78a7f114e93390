"""How many examples a random test runs: few and always the same in the suite, thousands with the profile `deep`."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings

DEEP = "deep"
_FACTOR = int(os.environ.get("FUZZ_FACTOR", "50"))


def is_deep() -> bool:
    """Whether the profile `deep` was asked for; read when a test file is imported."""
    return settings.get_current_profile_name() == DEEP


def budget_of(examples: int, *, steps: int = 50) -> settings:
    """The settings for so many examples in the suite, and `FUZZ_FACTOR` times as many when deep.

    Args:
        examples: how many in the suite.
        steps: how many commands a state machine runs in one example.
    """
    deep = is_deep()
    return settings(
        max_examples=examples * (_FACTOR if deep else 1),
        stateful_step_count=steps,
        derandomize=not deep,
        database=settings.default.database if deep else None,
        deadline=None,
        print_blob=True,
        suppress_health_check=list(HealthCheck),
        phases=tuple(Phase) if deep else (Phase.explicit, Phase.generate),
    )


def budget(examples: int) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A test with the settings of `budget_of`; pytest's own timeout does not end a deep one."""

    def decorate(test: Callable[..., Any]) -> Callable[..., Any]:
        limited = budget_of(examples)(test)
        return pytest.mark.timeout(0)(limited) if is_deep() else limited

    return decorate
