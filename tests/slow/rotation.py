"""Run inside an environment that holds vLLM: does the CPU kernel rotate three-dimensional queries as torch does?

Prints, as JSON on its last line, {"kernel": why vllm._C does not load} or {"errors": [largest difference, …]}: of the
query and the key for several numbers of tokens, contiguous and sliced as DeepSeek's attention slices them.
"""

from __future__ import annotations

import json
import sys

import torch


def errors() -> list[float]:
    """The largest difference between forward_cpu and forward_native, of query and key for each case."""
    from vllm.config import VllmConfig, set_current_vllm_config
    from vllm.model_executor.layers.rotary_embedding import get_rope

    with set_current_vllm_config(VllmConfig()):
        rope = get_rope(
            64,
            max_position=512,
            rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
            is_neox_style=False,
            dtype=torch.float32,
        )
    found = []
    for tokens in (1, 2, 6, 33):
        for sliced in (False, True):
            torch.manual_seed(0)
            positions = torch.arange(tokens)
            query = torch.randn(tokens, 4, 192)[..., 128:]
            key = torch.randn(tokens, 1, 576)[..., 512:]
            if not sliced:
                query, key = query.contiguous(), key.contiguous()
            wanted = rope.forward_native(positions, query.clone(), key.clone())
            got = rope.forward_cpu(positions, query, key)
            found += [float((a - b).abs().max()) for a, b in zip(got, wanted, strict=True)]
    return found


if __name__ == "__main__":
    try:
        import vllm._C  # noqa: F401
    except ImportError as error:
        answer: dict[str, object] = {"kernel": str(error)}
    else:
        answer = {"errors": errors()}
    sys.stdout.write(f"\n{json.dumps(answer)}\n")
