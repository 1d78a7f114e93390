"""The lm-evaluation-harness: its command line, its results, and the gate."""

from __future__ import annotations

from typing import Any

import pytest

from forktool.core.lm_eval import Score, harness_command, judge_lm_eval, read_results
from forktool.core.matrix import LmEval
from forktool.core.matrix_result import GateOutcome
from forktool.errors import RequestError

SPEC = LmEval(tasks=("gsm8k",), floor=0.9, tolerance=0.02)

# As lm-eval 0.4.13 writes them, shortened.
RESULTS: dict[str, Any] = {
    "results": {
        "gsm8k": {
            "alias": "gsm8k",
            "exact_match,strict-match": 0.91,
            "exact_match_stderr,strict-match": 0.008,
            "exact_match,flexible-extract": 0.93,
            "exact_match_stderr,flexible-extract": "N/A",
        }
    },
    "higher_is_better": {"gsm8k": {"exact_match": True}},
    "n-samples": {"gsm8k": {"original": 1319, "effective": 200}},
}


def command(spec: LmEval, **changes: Any) -> str:
    values: dict[str, Any] = {
        "program": "lm_eval", "port": 4000, "model": "m", "tokenizer": "/models/m", "output": "out",
        "include": None, "trust_remote_code": False,
    } | changes  # fmt: skip
    return " ".join(harness_command(spec, **values))


def test_it_is_asked_against_the_servers_own_api() -> None:
    assert command(SPEC) == (
        "lm_eval --model local-completions --model_args model=m,base_url=http://127.0.0.1:4000/v1/completions,"
        "tokenizer=/models/m,tokenizer_backend=huggingface,num_concurrent=8,max_retries=1,trust_remote_code=False "
        "--tasks gsm8k --output_path out"
    )


def test_every_key_has_its_word() -> None:
    spec = LmEval(
        tasks=("a", "b"),
        floor=0.5,
        limit=20,
        shots=0,
        include="x",
        chat=True,
        concurrency=2,
        arguments=("--gen_kwargs", "max_gen_toks=32"),
        model_arguments=("max_length=256",),
    )
    line = command(spec, include="/tasks", trust_remote_code=True)
    assert (
        "--model local-chat-completions --model_args model=m,base_url=http://127.0.0.1:4000/v1/chat/completions,"
        in line
    )
    assert "num_concurrent=2,max_retries=1,trust_remote_code=True,max_length=256 --tasks a,b" in line
    assert line.endswith(
        "--limit 20 --num_fewshot 0 --include_path /tasks --apply_chat_template --gen_kwargs max_gen_toks=32"
    )


def test_a_path_that_cannot_be_written_is_refused() -> None:
    with pytest.raises(RequestError, match="no path with a comma"):
        command(SPEC, tokenizer="/models/a,b")


def test_of_several_filters_the_lowest_counts() -> None:
    found = read_results(RESULTS, SPEC, where="r.json")
    assert found == {"gsm8k": Score(value=0.91, error=0.008, documents=200)}
    one = LmEval(tasks=("gsm8k",), metric="exact_match,flexible-extract", floor=0.9)
    assert read_results(RESULTS, one, where="r.json") == {
        "gsm8k": Score(value=0.93, error=None, documents=200)
    }


@pytest.mark.parametrize(
    ("spec", "document", "message"),
    [
        (LmEval(tasks=("mmlu",), floor=0.5), RESULTS, "r.json: no task mmlu; it has gsm8k"),
        (
            LmEval(tasks=("gsm8k",), metric="acc", floor=0.5),
            RESULTS,
            "gsm8k has no metric acc; it has exact_match,flexible-extract, exact_match,strict-match",
        ),
        (SPEC, {**RESULTS, "higher_is_better": {"gsm8k": {"exact_match": False}}}, "lower is better; a floor cannot hold it"),
        (SPEC, {}, "r.json holds no results of lm-eval"),
        (SPEC, {"results": []}, "r.json holds no results of lm-eval"),
    ],
)  # fmt: skip
def test_results_that_do_not_answer_are_refused(spec: LmEval, document: Any, message: str) -> None:
    with pytest.raises(RequestError) as raised:
        read_results(document, spec, where="r.json")
    assert message in raised.value.message


def judged(ours: float, plain: float | None, spec: LmEval = SPEC) -> tuple[GateOutcome, str]:
    scores = {"with": {"gsm8k": Score(value=ours, error=0.01)}}
    if plain is not None:
        scores["without"] = {"gsm8k": Score(value=plain)}
    gate = judge_lm_eval(scores, spec)
    return gate.outcome, gate.detail


def test_scores_that_hold_pass() -> None:
    assert judged(0.93, 0.95) == (
        GateOutcome.PASSED,
        "exact_match: gsm8k 0.93 ± 0.01 with, 0.95 without speculation",
    )


def test_a_loss_beyond_the_tolerance_fails_and_says_by_how_much() -> None:
    outcome, detail = judged(0.92, 0.95)
    assert outcome is GateOutcome.FAILED
    assert detail.endswith("; gsm8k 0.03 lower with speculation, 0.02 allowed")


def test_a_score_below_the_floor_fails_on_either_side() -> None:
    outcome, detail = judged(0.95, 0.8)
    assert outcome is GateOutcome.FAILED
    assert detail.endswith("; gsm8k 0.8 without speculation, 0.1 below 0.9")


def test_one_side_alone_is_held_to_the_floor() -> None:
    spec = LmEval(tasks=("gsm8k",), floor=0.9)
    assert judged(0.9, None, spec)[0] is GateOutcome.PASSED
    assert judged(0.89, None, spec)[0] is GateOutcome.FAILED
