"""What a model's and a drafter's config.json say, in the shape that transformers writes them.

Only JSON is read: a configuration class that the model brings along (`auto_map`) is never imported.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from forktool.errors import RequestError

_TEXT_KEYS = ("text_config", "language_config", "llm_config", "thinker_config")
"""Where models with more than text keep the configuration of their language model."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelConfig:
    """A target model. What its file does not say is None or empty; sizes are numbers of elements."""

    where: str
    architectures: tuple[str, ...]
    model_type: str | None
    text_model_type: str | None
    """`model_type` of the language model inside; the model's own where there is none inside."""
    text_architectures: tuple[str, ...]
    """Those of the language model inside; empty where there is none inside."""
    vocab_size: int | None
    hidden_size: int | None
    layers: int | None


@dataclass(frozen=True, kw_only=True, slots=True)
class DrafterConfig:
    """An EAGLE-3 drafter."""

    where: str
    architectures: tuple[str, ...]
    is_flat: bool
    """Whether the sizes stand at the top, or in a speculators file where that format keeps them."""
    is_speculators: bool
    speculators_type: str | None
    model_type: str | None
    vocab_size: int | None
    draft_vocab_size: int | None
    hidden_size: int | None
    target_hidden_size: int | None
    aux_layers: tuple[int, ...]


def read_config(content: bytes, *, where: str) -> Mapping[str, Any]:
    """The file as a mapping.

    Raises:
        RequestError: it is not a JSON object.
    """
    try:
        found = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise RequestError(f"{where}: not JSON: {error}") from error
    if not isinstance(found, dict):
        raise RequestError(f"{where}: not a model's config.json: it holds no object")
    return found


def model_config(found: Mapping[str, Any], *, where: str) -> ModelConfig:
    """Read a target model's configuration.

    Raises:
        RequestError: it names no architecture.
    """
    architectures = _texts(found, "architectures")
    if not architectures:
        raise RequestError(f"{where}: it names no architectures, so nothing says which class loads it")
    inside = _inside(found)
    text = found if inside is None else inside
    return ModelConfig(
        where=where,
        architectures=architectures,
        model_type=_text(found, "model_type"),
        text_model_type=_text(text, "model_type"),
        text_architectures=() if inside is None else _texts(inside, "architectures"),
        vocab_size=_number(text, "vocab_size"),
        hidden_size=_number(text, "hidden_size"),
        layers=_number(text, "num_hidden_layers"),
    )


def drafter_config(found: Mapping[str, Any], *, where: str) -> DrafterConfig:
    """Read a drafter's configuration, flat or in the format of the speculators library.

    Raises:
        RequestError: it names no architecture.
    """
    speculators_type = _text(found, "speculators_model_type")
    layer = found.get("transformer_layer_config")
    is_speculators = speculators_type is not None and isinstance(layer, dict)
    sizes: Mapping[str, Any] = layer if is_speculators and isinstance(layer, dict) else found
    architectures = _texts(found, "architectures")
    if not architectures and not is_speculators:
        raise RequestError(f"{where}: it names no architectures, so nothing says which class loads it")
    nested = found.get("eagle_config")
    aux = found.get("eagle_aux_hidden_state_layer_ids")
    if aux is None and isinstance(nested, dict):
        aux = nested.get("eagle_aux_hidden_state_layer_ids")
    layers = aux if isinstance(aux, list) else []
    return DrafterConfig(
        where=where,
        architectures=architectures,
        is_flat=_number(sizes, "hidden_size") is not None or _inside(found) is None,
        is_speculators=is_speculators,
        speculators_type=speculators_type,
        model_type=_text(sizes, "model_type"),
        vocab_size=_number(sizes, "vocab_size"),
        draft_vocab_size=_number(found, "draft_vocab_size"),
        hidden_size=_number(sizes, "hidden_size"),
        target_hidden_size=_number(found, "target_hidden_size"),
        aux_layers=tuple(layer for layer in layers if isinstance(layer, int)),
    )


def _inside(found: Mapping[str, Any]) -> Mapping[str, Any] | None:
    for key in _TEXT_KEYS:
        nested = found.get(key)
        if isinstance(nested, dict):
            return _inside(nested) or nested
    return None


def _text(found: Mapping[str, Any], key: str) -> str | None:
    value = found.get(key)
    return value if isinstance(value, str) else None


def _texts(found: Mapping[str, Any], key: str) -> tuple[str, ...]:
    value = found.get(key)
    return tuple(item for item in value if isinstance(item, str)) if isinstance(value, list) else ()


def _number(found: Mapping[str, Any], key: str) -> int | None:
    value = found.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) else None
