"""Run with a tree of vLLM on the path: `generate.py TARGET DRAFTER PROMPTS` answers prompts with EAGLE-3, greedily.

Prints as JSON on its last line {"refused": text} or {"tokens": [[…]], "accepted": …, "drafted": …, "by_position": […],
"longest": tokens of one sequence in one decode of MLA}.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import cpu_backend

DRAFTS = 3


def answered(target: str, drafter: str, prompts: list[dict[str, Any]]) -> dict[str, Any]:
    """What the engine says of them."""
    from vllm import LLM, SamplingParams

    cpu_backend.install()
    engine = LLM(
        model=target,
        skip_tokenizer_init=True,
        enforce_eager=True,
        dtype="float32",
        max_model_len=256,
        max_num_seqs=4,
        max_num_batched_tokens=512,
        disable_log_stats=False,
        trust_remote_code=True,
        seed=0,
        speculative_config={"method": "eagle3", "model": drafter, "num_speculative_tokens": DRAFTS},
    )
    greedy = SamplingParams(
        temperature=0, max_tokens=len(prompts[0]["tokens"]), ignore_eos=True, detokenize=False
    )
    asked = [{"prompt_token_ids": item["prompt"]} for item in prompts]
    found = engine.generate(asked, greedy, use_tqdm=False)
    counters = {
        metric.name: getattr(metric, "value", None) or getattr(metric, "values", None)
        for metric in engine.get_metrics()
    }
    return {
        "tokens": [list(item.outputs[0].token_ids) for item in found],
        "accepted": counters["vllm:spec_decode_num_accepted_tokens"],
        "drafted": counters["vllm:spec_decode_num_draft_tokens"],
        "by_position": counters["vllm:spec_decode_num_accepted_tokens_per_pos"],
        "longest": cpu_backend.LONGEST[0],
    }


if __name__ == "__main__":
    target, drafter, prompts = sys.argv[1:]
    try:
        answer = answered(target, drafter, json.loads(Path(prompts).read_text()))
    except (ValueError, RuntimeError) as error:
        answer = {"refused": f"{type(error).__name__}: {error}"}
    sys.stdout.write(f"\n{json.dumps(answer)}\n")
