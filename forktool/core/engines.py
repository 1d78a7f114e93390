"""The inference engines that cells can name: vLLM, and SGLang as a reference for the same model and drafter."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from forktool.core.matrix import Cell
from forktool.core.matrix_engine import Acceptance, Engine
from forktool.core.prometheus import Sample, by_label, total


class Vllm:
    """vLLM's `vllm serve`; names read in its sources from 0.16.0 to 0.33.0."""

    name = "vllm"

    def command(
        self, cell: Cell, *, python: str, model: str, drafter: str | None, port: int, speculative: bool = True
    ) -> tuple[str, ...]:
        """See `Engine.command`. Started as a module, so that no script's first line can name another Python."""
        words = [python, "-m", "vllm.entrypoints.cli.main", "serve", model]
        words += ["--host", "127.0.0.1", "--port", str(port), "--served-model-name", cell.model]
        words += ["--tensor-parallel-size", str(cell.tensor_parallel), "--seed", "0"]
        if cell.attention_backend:
            words += ["--attention-backend", cell.attention_backend.upper().replace("-", "_")]
        if cell.kv_cache:
            words += ["--kv-cache-dtype", cell.kv_cache]
        words += cell.arguments
        if cell.speculates and speculative:
            words += [
                "--speculative-config",
                json.dumps(self._speculation(cell, drafter), separators=(",", ":")),
            ]
        return tuple(words)

    def _speculation(self, cell: Cell, drafter: str | None) -> dict[str, Any]:
        method = "draft_model" if cell.method == "draft-model" else cell.method
        config: dict[str, Any] = {"method": method, "num_speculative_tokens": cell.tokens}
        if drafter is not None:
            config["model"] = drafter
        return config

    def environment(self, cell: Cell) -> Mapping[str, str]:
        """See `Engine.environment`: nothing is sent out, and the log is not buffered."""
        common = {
            "VLLM_NO_USAGE_STATS": "1",
            "DO_NOT_TRACK": "1",
            "HF_HUB_OFFLINE": "1",
            "PYTHONUNBUFFERED": "1",
        }
        if cell.needs.gpus == 0:
            # GiB for the KV cache; the default is half the host's memory.
            common["VLLM_CPU_KVCACHE_SPACE"] = "1"
        return common

    def loading_began(self, line: str) -> bool:
        """See `Engine.loading_began`: logged by the engine core (v1/engine/core.py) once the configuration stands."""
        return "Initializing a V1 LLM engine" in line

    def lacks(self, line: str) -> bool:
        """See `Engine.lacks`: the words of platforms/cpu.py and v1/worker/cpu_model_runner.py in 0.16.0."""
        return bool(
            re.search(
                r"NotImplementedError: .*not supported on|AssertionError: spec decode is not supported", line
            )
        )

    def acceptance(self, samples: Sequence[Sample]) -> Acceptance | None:
        """See `Engine.acceptance`; counters of v1/spec_decode/metrics.py."""
        drafts = total(samples, "vllm:spec_decode_num_drafts")
        if drafts is None:
            return None
        positions = by_label(samples, "vllm:spec_decode_num_accepted_tokens_per_pos", "position")
        return Acceptance(
            drafts=int(drafts),
            drafted=int(total(samples, "vllm:spec_decode_num_draft_tokens") or 0),
            accepted=int(total(samples, "vllm:spec_decode_num_accepted_tokens") or 0),
            by_position=tuple(int(positions[key]) for key in sorted(positions, key=int)),
        )


class Sglang:
    """SGLang's `sglang.launch_server`, whose metrics give averages where vLLM's give counters."""

    name = "sglang"

    def command(
        self, cell: Cell, *, python: str, model: str, drafter: str | None, port: int, speculative: bool = True
    ) -> tuple[str, ...]:
        """See `Engine.command`."""
        words = [python, "-m", "sglang.launch_server", "--model-path", model]
        words += ["--host", "127.0.0.1", "--port", str(port), "--served-model-name", cell.model]
        words += ["--tp-size", str(cell.tensor_parallel), "--random-seed", "0", "--enable-metrics"]
        if cell.attention_backend:
            words += ["--attention-backend", cell.attention_backend.lower().replace("-", "_")]
        if cell.kv_cache:
            words += ["--kv-cache-dtype", cell.kv_cache]
        words += cell.arguments
        if drafter is not None and speculative:
            words += [
                "--speculative-algorithm",
                cell.method.upper(),
                "--speculative-draft-model-path",
                drafter,
            ]
            # A chain, as vLLM drafts it: one branch, and a step more tokens to verify than drafted.
            words += ["--speculative-num-steps", str(cell.tokens), "--speculative-eagle-topk", "1"]
            words += ["--speculative-num-draft-tokens", str(cell.tokens + 1)]
        return tuple(words)

    def environment(self, cell: Cell) -> Mapping[str, str]:  # noqa: ARG002 - the Protocol's
        """See `Engine.environment`."""
        return {"HF_HUB_OFFLINE": "1", "PYTHONUNBUFFERED": "1"}

    def loading_began(self, line: str) -> bool:
        """See `Engine.loading_began`."""
        return "Load weight begin" in line or "Init torch distributed begin" in line

    def lacks(self, line: str) -> bool:
        """See `Engine.lacks`."""
        return bool(re.search(r"NotImplementedError: .*not supported", line))

    def acceptance(self, samples: Sequence[Sample]) -> Acceptance | None:
        """See `Engine.acceptance`.

        `sglang:spec_accept_length` is tokens a step, the target's own one counted; it is a gauge, so it is scaled to
        a thousand drafts, and there are no positions.
        """
        length = next(
            (sample.value for sample in samples if sample.name == "sglang:spec_accept_length"), None
        )
        if length is None:
            return None
        rate = next((sample.value for sample in samples if sample.name == "sglang:spec_accept_rate"), None)
        accepted = round(max(0.0, length - 1) * 1000)
        return Acceptance(
            drafts=1000, drafted=round(accepted / rate) if rate else 0, accepted=accepted, by_position=()
        )


ENGINES: Mapping[str, Engine] = {"vllm": Vllm(), "sglang": Sglang()}
