"""How many examples a random test runs: few and always the same in the suite, thousands with the profile `deep`."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings

DEEP = "deep"
_FACTOR = int(os.environ.get("FUZZ_FACTOR", "50"))


def budget(examples: int) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The settings of a test that runs so many examples in the suite, and `FUZZ_FACTOR` times as many when deep."""
    is_deep = settings.get_current_profile_name() == DEEP
    chosen = settings(
        max_examples=examples * (_FACTOR if is_deep else 1),
        derandomize=not is_deep,
        database=settings.default.database if is_deep else None,
        deadline=None,
        print_blob=True,
        suppress_health_check=list(HealthCheck),
        phases=tuple(Phase) if is_deep else (Phase.explicit, Phase.generate),
    )

    def decorate(test: Callable[..., Any]) -> Callable[..., Any]:
        return pytest.mark.timeout(0)(chosen(test)) if is_deep else chosen(test)

    return decorate
