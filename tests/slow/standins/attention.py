"""What vLLM's kernels compute, in plain torch: attention, and the writing and reading of its caches.

Signatures are those of vllm/_custom_ops.py and of flash_attn_varlen_func in v0.16.0 to v0.18.0, as far as they are used.
"""

from __future__ import annotations

import math
from typing import Any

import torch

Tensor = torch.Tensor


def attend(query: Tensor, key: Tensor, value: Tensor, scale: float, *, causal: bool) -> tuple[Tensor, Tensor]:
    """Attention of one sequence: [q, heads, d] on [k, heads, d]; the output, and the log-sum-exp as [heads, q].

    The last query sees the last key (flash-attention's bottom-right alignment).
    """
    scores = torch.einsum("qhd,khd->hqk", query.float(), key.float()) * scale
    if causal:
        seen = torch.ones(len(query), len(key), dtype=torch.bool).tril(len(key) - len(query))
        scores = scores.masked_fill(~seen, -math.inf)
    total = torch.logsumexp(scores, -1)
    return torch.einsum("hqk,khd->qhd", torch.exp(scores - total[..., None]), value.float()), total


def flash_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    cu_seqlens_q: Tensor,
    cu_seqlens_k: Tensor,
    softmax_scale: float,
    causal: bool,
    return_softmax_lse: bool = False,
    return_attn_probs: bool = False,
    **_others: Any,
) -> Any:
    """flash_attn_varlen_func: sequences one behind the other."""
    output = torch.empty(q.shape[0], q.shape[1], v.shape[2], dtype=q.dtype)
    totals = torch.full((q.shape[1], q.shape[0]), -math.inf)
    queries, keys = cu_seqlens_q.tolist(), cu_seqlens_k.tolist()
    for number in range(len(queries) - 1):
        mine = slice(queries[number], queries[number + 1])
        theirs = slice(keys[number], keys[number + 1])
        if mine.start == mine.stop:
            continue
        found, total = attend(q[mine], k[theirs], v[theirs], softmax_scale, causal=causal)
        output[mine] = found.to(q.dtype)
        totals[:, mine] = total
    return (output, totals) if return_softmax_lse or return_attn_probs else output


def write_latents(latents: Tensor, rotated: Tensor, cache: Tensor, slots: Tensor, **_others: Any) -> None:
    """concat_and_cache_mla: slots below 0 are padding."""
    real = slots >= 0
    rows = torch.cat([latents[: len(slots)], rotated[: len(slots)]], -1)
    cache.view(-1, cache.shape[-1])[slots[real]] = rows[real].to(cache.dtype)


def read_latents(
    src_cache: Tensor,
    dst: Tensor,
    block_table: Tensor,
    cu_seq_lens: Tensor,
    seq_starts: Tensor | None = None,
    **_others: Any,
) -> None:
    """gather_and_maybe_dequant_cache: rows of each sequence, from `seq_starts` on."""
    size = src_cache.shape[1]
    ends = cu_seq_lens.tolist()
    for number in range(len(ends) - 1):
        place = torch.arange(ends[number + 1] - ends[number])
        place += int(seq_starts[number]) if seq_starts is not None else 0
        dst[ends[number] : ends[number + 1]] = src_cache[
            block_table[number][place // size].long(), place % size
        ]


def write_keys(
    key: Tensor, value: Tensor, key_cache: Tensor, value_cache: Tensor, slots: Tensor, _isa: str
) -> None:
    """cpu_attn_reshape_and_cache: caches are [blocks, heads, block size, d]."""
    size = key_cache.shape[2]
    real = slots >= 0
    places = slots[real].long()
    key_cache[places // size, :, places % size] = key[: len(slots)][real]
    value_cache[places // size, :, places % size] = value[: len(slots)][real]


def cached_attention(
    query: Tensor,
    key_cache: Tensor,
    value_cache: Tensor,
    output: Tensor,
    query_start_loc: Tensor,
    seq_lens: Tensor,
    scale: float,
    causal: bool,
    block_table: Tensor,
    **_others: Any,
) -> None:
    """cpu_attention_with_kv_cache."""
    size, share = key_cache.shape[2], query.shape[1] // key_cache.shape[1]
    begins = query_start_loc.tolist()
    for number in range(len(begins) - 1):
        mine, length = slice(begins[number], begins[number + 1]), int(seq_lens[number])
        if mine.start == mine.stop or length == 0:
            continue
        place = torch.arange(length)
        block = block_table[number][place // size].long()
        key = key_cache[block, :, place % size].repeat_interleave(share, 1)
        value = value_cache[block, :, place % size].repeat_interleave(share, 1)
        found, _total = attend(query[mine], key, value, scale, causal=causal)
        output[mine] = found.reshape(output[mine].shape).to(output.dtype)
