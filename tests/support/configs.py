"""config.json files in the shape of real models; written for these tests, sizes as the models have them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

DEEPSEEK_V3: dict[str, Any] = {
    "architectures": ["DeepseekV3ForCausalLM"],
    "auto_map": {"AutoConfig": "configuration_deepseek.DeepseekV3Config"},
    "model_type": "deepseek_v3",
    "hidden_size": 7168,
    "num_hidden_layers": 61,
    "num_attention_heads": 128,
    "kv_lora_rank": 512,
    "vocab_size": 129280,
}
KIMI_K2: dict[str, Any] = {
    **DEEPSEEK_V3,
    "auto_map": {"AutoConfig": "configuration_deepseek.DeepseekV3Config"},
    "model_type": "kimi_k2",
    "num_attention_heads": 64,
    "vocab_size": 163840,
}
KIMI_K25: dict[str, Any] = {
    "architectures": ["KimiK25ForConditionalGeneration"],
    "auto_map": {"AutoConfig": "configuration_kimi_k25.KimiK25Config"},
    "media_placeholder_token_id": 163605,
    "model_type": "kimi_k25",
    "text_config": KIMI_K2,
    "vision_config": {"model_type": "kimi_k25_vision", "hidden_size": 1152, "vocab_size": 1},
}
LLAMA: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "vocab_size": 128256,
}
DRAFTER: dict[str, Any] = {
    "architectures": ["LlamaForCausalLMEagle3"],
    "model_type": "llama",
    "hidden_size": 7168,
    "num_hidden_layers": 1,
    "vocab_size": 163840,
    "draft_vocab_size": 32000,
}
MLA_DRAFTER: dict[str, Any] = {
    **DRAFTER,
    "architectures": ["Eagle3DeepseekV2ForCausalLM"],
    "model_type": "deepseek_v3",
    "eagle_config": {"eagle_aux_hidden_state_layer_ids": [2, 30, 58]},
}
SPECULATORS: dict[str, Any] = {
    "architectures": ["Eagle3Speculator"],
    "draft_vocab_size": 32000,
    "speculators_model_type": "eagle3",
    "transformer_layer_config": {"model_type": "llama", "hidden_size": 4096, "vocab_size": 128256},
}


def write_config(folder: Path, content: object) -> Path:
    """A model's folder with this config.json, and a class in it that must never run."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(content))
    trap = "raise SystemExit('remote code ran')\n"
    for name in ("configuration_deepseek.py", "configuration_kimi_k25.py"):
        (folder / name).write_text(trap)
    return folder
