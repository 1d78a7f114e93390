"""A DeepSeek-V3/Kimi-K2-shaped target and an EAGLE-3 drafter for it, small enough for a CPU, made here in seconds.

    python tests/support/tiny_models.py FOLDER

writes FOLDER/deepseek-v3, FOLDER/kimi-k2 (the same weights under Kimi's model_type), FOLDER/llama (not MLA),
FOLDER/eagle3 (a drafter for all of them) and FOLDER/prompts.json (prompts and what transformers answers). Needs torch
and safetensors, and for the answers transformers.

How they are made to mean something although nobody trained them:

- The embeddings are orthonormal, and the output layer holds them in the order of a fixed permutation `after`. With no
  attention and no experts the model would say `after(x)` for ever. Noise in the layers above the third makes the
  answer depend on the context as well, so that a wrong KV cache or a wrong rotation changes tokens.
- The drafter takes the first of its three hidden states, which is nearly the embedding of the last token, and its MLP
  is a table of `after`. It is right about two times in three; with hidden states from the wrong place it is right almost
  never. Its vocabulary is half the target's (`d2t` maps it), since real drafters' is smaller too.

The MLA sizes are the real model's (latent 512, rotary 64, head 128), because backends are compiled for them. At least
seven layers: with six, two of EAGLE-3's three default layers (2, n/2, n-3) would be the same.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

VOCABULARY = WIDTH = 256
LAYERS = 8
HEADS, NOPE, ROPE, VALUE, LATENT, QUERY_LATENT = 4, 128, 64, 128, 512, 64
EXPERTS, CHOSEN, EXPERT_WIDTH, DENSE_WIDTH = 4, 2, 64, 256
NOISE = 3.0
QUIET_LAYERS = 2
DRAFT_HEAD = 64
PROMPTS = 4
ANSWER = 48

Tensors = dict[str, torch.Tensor]


@dataclass(frozen=True, kw_only=True)
class Words:
    """What target and drafter share: embeddings, the permutation, and the source of chance."""

    chance: torch.Generator
    embeddings: torch.Tensor = field(init=False)
    after: torch.Tensor = field(init=False)

    def __post_init__(self) -> None:
        rows = torch.linalg.qr(torch.randn(WIDTH, WIDTH, generator=self.chance))[0]
        object.__setattr__(self, "embeddings", rows * WIDTH**0.5)
        after = torch.empty(VOCABULARY, dtype=torch.long)
        # Even words follow even ones: the drafter knows only those.
        for parity in (0, 1):
            group = torch.arange(parity, VOCABULARY, 2)
            cycle = group[torch.randperm(len(group), generator=self.chance)]
            after[cycle] = cycle.roll(-1)
        object.__setattr__(self, "after", after)

    def output(self) -> torch.Tensor:
        """The output layer: the row of `after(x)` is the embedding of x."""
        rows = torch.empty(VOCABULARY, WIDTH)
        rows[self.after] = self.embeddings / WIDTH**0.5
        return rows

    def linear(self, outputs: int, inputs: int, scale: float = 1.0) -> torch.Tensor:
        """Random weights that keep a vector's size, times `scale`."""
        return torch.randn(outputs, inputs, generator=self.chance) * (scale / inputs**0.5)


def target_tensors(words: Words, *, mla: bool) -> Tensors:
    """The weights of a target by their checkpoint names."""
    tensors = {
        "model.embed_tokens.weight": words.embeddings,
        "lm_head.weight": words.output(),
        "model.norm.weight": torch.ones(WIDTH),
    }
    for layer in range(LAYERS):
        noise = (0.1 if layer < QUIET_LAYERS else NOISE) / (2 * LAYERS) ** 0.5
        at = f"model.layers.{layer}."
        tensors[f"{at}input_layernorm.weight"] = torch.ones(WIDTH)
        tensors[f"{at}post_attention_layernorm.weight"] = torch.ones(WIDTH)
        tensors |= (_mla if mla else _attention)(words, f"{at}self_attn.", noise)
        if layer == 0 or not mla:
            tensors |= _mlp(words, f"{at}mlp.", DENSE_WIDTH, noise)
        else:
            tensors |= _experts(words, f"{at}mlp.", noise)
    return tensors


def _mla(words: Words, at: str, noise: float) -> Tensors:
    return {
        f"{at}q_a_proj.weight": words.linear(QUERY_LATENT, WIDTH),
        f"{at}q_a_layernorm.weight": torch.ones(QUERY_LATENT),
        f"{at}q_b_proj.weight": words.linear(HEADS * (NOPE + ROPE), QUERY_LATENT, 2.0),
        f"{at}kv_a_proj_with_mqa.weight": words.linear(LATENT + ROPE, WIDTH),
        f"{at}kv_a_layernorm.weight": torch.ones(LATENT),
        f"{at}kv_b_proj.weight": words.linear(HEADS * (NOPE + VALUE), LATENT, 2.0),
        f"{at}o_proj.weight": words.linear(WIDTH, HEADS * VALUE, noise),
    }


def _attention(words: Words, at: str, noise: float) -> Tensors:
    size = HEADS * DRAFT_HEAD
    weights = {f"{at}{name}_proj.weight": words.linear(size, WIDTH, 2.0) for name in ("q", "k", "v")}
    return weights | {f"{at}o_proj.weight": words.linear(WIDTH, size, noise)}


def _mlp(words: Words, at: str, inner: int, noise: float) -> Tensors:
    return {
        f"{at}gate_proj.weight": words.linear(inner, WIDTH),
        f"{at}up_proj.weight": words.linear(inner, WIDTH),
        f"{at}down_proj.weight": words.linear(WIDTH, inner, noise),
    }


def _experts(words: Words, at: str, noise: float) -> Tensors:
    tensors = {
        f"{at}gate.weight": words.linear(EXPERTS, WIDTH),
        f"{at}gate.e_score_correction_bias": torch.zeros(EXPERTS),
    }
    for expert in range(EXPERTS):
        tensors |= _mlp(words, f"{at}experts.{expert}.", EXPERT_WIDTH, noise)
    return tensors | _mlp(words, f"{at}shared_experts.", EXPERT_WIDTH, noise)


def drafter_tensors(words: Words) -> Tensors:
    """The weights of an EAGLE-3 drafter: one Llama layer over [embedding, hidden state]."""
    size = HEADS * DRAFT_HEAD
    steep = 16.0
    known = torch.arange(0, VOCABULARY, 2)
    tensors = {
        # The first of the three hidden states, as it is.
        "fc.weight": torch.cat([torch.eye(WIDTH), torch.zeros(WIDTH, 2 * WIDTH)], 1),
        "midlayer.input_layernorm.weight": torch.ones(WIDTH),
        "midlayer.hidden_norm.weight": torch.ones(WIDTH),
        "midlayer.post_attention_layernorm.weight": torch.ones(WIDTH),
        "norm.weight": torch.ones(WIDTH),
        "midlayer.self_attn.o_proj.weight": words.linear(WIDTH, size, 0.05),
        # silu(steep * <e, h> / width) * <e, h> / width is nearly one for h's own word and nearly nothing elsewhere.
        "midlayer.mlp.gate_proj.weight": words.embeddings * (steep / WIDTH),
        "midlayer.mlp.up_proj.weight": words.embeddings / WIDTH,
        "midlayer.mlp.down_proj.weight": ((words.embeddings[words.after] - words.embeddings) / steep).T,
        "lm_head.weight": words.output()[known],
        # d2t holds how much is to be added to the drafter's id: 2k = k + k.
        "d2t": torch.arange(len(known)),
        "t2d": torch.zeros(VOCABULARY, dtype=torch.bool).index_fill(0, known, value=True),
    }
    for name in ("q", "k", "v"):
        tensors[f"midlayer.self_attn.{name}_proj.weight"] = words.linear(size, 2 * WIDTH)
    return tensors


_SHARED: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": WIDTH,
    "hidden_act": "silu",
    "max_position_embeddings": 512,
    "rms_norm_eps": 1e-6,
    "rope_theta": 10000.0,
    "rope_scaling": None,
    "attention_bias": False,
    "tie_word_embeddings": False,
    "bos_token_id": 0,
    "eos_token_id": 1,
    "pad_token_id": 0,
    "torch_dtype": "float32",
    "num_attention_heads": HEADS,
    "num_key_value_heads": HEADS,
}

DEEPSEEK = _SHARED | {
    "architectures": ["DeepseekV3ForCausalLM"],
    "model_type": "deepseek_v3",
    "num_hidden_layers": LAYERS,
    "intermediate_size": DENSE_WIDTH,
    "moe_intermediate_size": EXPERT_WIDTH,
    "n_shared_experts": 1,
    "n_routed_experts": EXPERTS,
    "num_experts_per_tok": CHOSEN,
    "routed_scaling_factor": 1.0,
    "first_k_dense_replace": 1,
    "moe_layer_freq": 1,
    "n_group": 1,
    "topk_group": 1,
    "topk_method": "noaux_tc",
    "scoring_func": "sigmoid",
    "norm_topk_prob": True,
    "kv_lora_rank": LATENT,
    "q_lora_rank": QUERY_LATENT,
    "qk_nope_head_dim": NOPE,
    "qk_rope_head_dim": ROPE,
    "v_head_dim": VALUE,
    "num_nextn_predict_layers": 0,
}

KIMI = DEEPSEEK | {
    "model_type": "kimi_k2",
    "auto_map": {"AutoConfig": "configuration_kimi_k2.KimiK2Config"},
}

LLAMA = _SHARED | {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "num_hidden_layers": LAYERS,
    "intermediate_size": DENSE_WIDTH,
    "head_dim": DRAFT_HEAD,
}

EAGLE3 = _SHARED | {
    "architectures": ["LlamaForCausalLMEagle3"],
    "model_type": "llama",
    "num_hidden_layers": 1,
    "draft_vocab_size": VOCABULARY // 2,
    "intermediate_size": VOCABULARY,
    "head_dim": DRAFT_HEAD,
}

# transformers does not know kimi_k2, so Kimi's own repository brings the class; so does this one.
_KIMI_CODE = """\
from transformers import DeepseekV3Config


class KimiK2Config(DeepseekV3Config):
    model_type = "kimi_k2"
"""


def tokenizer() -> dict[str, Any]:
    """A tokenizer of the `tokenizers` library: the word `w17` is token 17."""
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [],
        "normalizer": None,
        "pre_tokenizer": {"type": "WhitespaceSplit"},
        "post_processor": None,
        "decoder": None,
        "model": {
            "type": "WordLevel",
            "vocab": {f"w{number}": number for number in range(VOCABULARY)},
            "unk_token": "w0",
        },
    }


def write_model(folder: Path, config: dict[str, Any], tensors: Tensors) -> None:
    """One model folder as the hub lays it out."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config, indent=1), encoding="utf-8")
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer()), encoding="utf-8")
    (folder / "tokenizer_config.json").write_text(
        json.dumps(
            {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 512, "unk_token": "w0"}
        ),
        encoding="utf-8",
    )
    save_file(
        {name: tensor.contiguous() for name, tensor in tensors.items()},
        folder / "model.safetensors",
        metadata={"format": "pt"},
    )


def prompts() -> list[list[int]]:
    """The fixed prompts, all of words that the drafter knows."""
    return [
        [2 * ((7 * number + 3 * step) % 128) for step in range(4 + 5 * number)] for number in range(PROMPTS)
    ]


def answers(folder: Path, model: str, asked: Iterable[list[int]]) -> list[list[int]]:
    """What transformers answers, greedily and in float32, one token at a time without a cache."""
    import transformers

    kind = getattr(transformers, model)
    loaded = kind.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    found = []
    with torch.no_grad():
        for prompt in asked:
            words = list(prompt)
            for _step in range(ANSWER):
                words.append(int(loaded(torch.tensor([words])).logits[0, -1].argmax()))
            found.append(words[len(prompt) :])
    return found


def main(folder: Path) -> None:
    """Write all of them."""
    words = Words(chance=torch.Generator().manual_seed(0))
    mla = target_tensors(words, mla=True)
    write_model(folder / "deepseek-v3", DEEPSEEK, mla)
    write_model(folder / "kimi-k2", KIMI, mla)
    (folder / "kimi-k2" / "configuration_kimi_k2.py").write_text(_KIMI_CODE, encoding="utf-8")
    write_model(folder / "eagle3", EAGLE3, drafter_tensors(words))
    write_model(folder / "llama", LLAMA, target_tensors(words, mla=False))
    asked = prompts()
    for name, models in (
        ("DeepseekV3ForCausalLM", ("deepseek-v3", "kimi-k2")),
        ("LlamaForCausalLM", ("llama",)),
    ):
        expected = answers(folder / models[0], name, asked)
        document = [
            {"prompt": prompt, "tokens": tokens} for prompt, tokens in zip(asked, expected, strict=True)
        ]
        for model in models:
            (folder / model / "prompts.json").write_text(json.dumps(document), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
