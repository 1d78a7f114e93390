"""The inference engines that cells can name: vLLM, and SGLang as a reference for the same model and drafter."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from forktool.core.matrix import Cell
from forktool.core.matrix_engine import Acceptance, Answer, Engine, Prompt, Question
from forktool.core.prometheus import Sample, by_label, total


class Vllm:
    """vLLM's `vllm serve`; names read in its sources from 0.16.0 to 0.33.0."""

    name = "vllm"
    methods: tuple[str, ...] = ("eagle", "eagle3", "mtp", "medusa", "ngram", "draft-model")

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

    def kills_itself(self, line: str) -> bool:  # noqa: ARG002 - the Protocol's
        """See `Engine.kills_itself`: it ends by its own errors."""
        return False

    def question(self, model: str, prompt: Prompt, *, tokens: int, likeliest: int) -> Question:
        """See `Engine.question`: `/v1/completions`, whose answers hold token ids where they are asked for.

        `return_token_ids` and `return_tokens_as_token_ids` are of entrypoints/openai/completion/protocol.py.
        """
        body: dict[str, Any] = {
            "model": model,
            "prompt": prompt if isinstance(prompt, str) else list(prompt),
            "max_tokens": tokens,
            "temperature": 0,
            "seed": 0,
            "ignore_eos": True,
            "return_token_ids": True,
            "return_tokens_as_token_ids": True,
        }
        if likeliest:
            body["logprobs"] = likeliest
        return Question(path="/v1/completions", body=body)

    def answer(self, document: Mapping[str, Any]) -> Answer:
        """See `Engine.answer`; an answer without ids, as other servers give, is read as the bytes of its text."""
        choice = document["choices"][0]
        text = str(choice.get("text") or "")
        found = choice.get("token_ids")
        logprobs = choice.get("logprobs") or {}
        named = logprobs.get("tokens") or ()
        if found is None and named and all(str(item).startswith(_ID) for item in named):
            found = [_id(item) for item in named]
        return Answer(
            tokens=tuple(int(item) for item in found) if found is not None else tuple(text.encode()),
            likeliest=_likeliest(logprobs.get("top_logprobs")) if found is not None else (),
            prompt=tuple(int(item) for item in choice.get("prompt_token_ids") or ()),
            text=text,
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


_ID = "token_id:"


def _id(token: object) -> int:
    return int(str(token).removeprefix(_ID))


def _likeliest(places: object) -> tuple[dict[int, float], ...]:
    if not isinstance(places, list):
        return ()
    found: list[dict[int, float]] = []
    for place in places:
        pairs = place.items() if isinstance(place, dict) else ()
        found.append({_id(name): float(value) for name, value in pairs if str(name).startswith(_ID)})
    return tuple(found)


class Sglang:
    """SGLang's `sglang.launch_server`: options, endpoints and names read in the sources of 0.5.9, below `srt/`."""

    name = "sglang"
    methods: tuple[str, ...] = ("eagle", "eagle3", "mtp", "ngram", "draft-model")
    _ALGORITHMS: ClassVar[Mapping[str, str]] = {"mtp": "NEXTN", "draft-model": "STANDALONE"}

    def command(
        self, cell: Cell, *, python: str, model: str, drafter: str | None, port: int, speculative: bool = True
    ) -> tuple[str, ...]:
        """See `Engine.command`; options of server_args.py."""
        words = [python, "-m", "sglang.launch_server", "--model-path", model]
        words += ["--host", "127.0.0.1", "--port", str(port), "--served-model-name", cell.model]
        words += ["--tp-size", str(cell.tensor_parallel), "--random-seed", "0", "--enable-metrics"]
        if cell.needs.gpus == 0:
            words += ["--device", "cpu"]
        if cell.attention_backend:
            words += ["--attention-backend", cell.attention_backend.lower().replace("-", "_")]
        if cell.kv_cache:
            # vLLM's plain `fp8` is this one of SGLang's two.
            words += ["--kv-cache-dtype", "fp8_e4m3" if cell.kv_cache == "fp8" else cell.kv_cache]
        words += cell.arguments
        if cell.speculates and speculative:
            words += self._speculation(cell, drafter)
        return tuple(words)

    def _speculation(self, cell: Cell, drafter: str | None) -> list[str]:
        words = ["--speculative-algorithm", self._ALGORITHMS.get(cell.method, cell.method.upper())]
        if drafter is not None:
            words += ["--speculative-draft-model-path", drafter]
        if cell.method == "ngram":
            # It drafts from what was said before, in no steps of a model.
            return [*words, "--speculative-num-draft-tokens", str(cell.tokens)]
        # A chain, as vLLM drafts it: one branch, and a step more tokens to verify than drafted.
        words += ["--speculative-num-steps", str(cell.tokens), "--speculative-eagle-topk", "1"]
        return [*words, "--speculative-num-draft-tokens", str(cell.tokens + 1)]

    def environment(self, cell: Cell) -> Mapping[str, str]:
        """See `Engine.environment`; names of environ.py and utils/common.py (`is_cpu`)."""
        common = {
            "HF_HUB_OFFLINE": "1",
            "PYTHONUNBUFFERED": "1",
            # `/health` would otherwise generate a token each time, which takes a second and counts as a draft.
            "SGLANG_ENABLE_HEALTH_ENDPOINT_GENERATION": "0",
        }
        return common | ({} if cell.needs.gpus else {"SGLANG_USE_CPU_ENGINE": "1"})

    def loading_began(self, line: str) -> bool:
        """See `Engine.loading_began`: logged by model_executor/model_runner.py."""
        return "Load weight begin" in line or "Init torch distributed begin" in line

    def lacks(self, line: str) -> bool:
        """See `Engine.lacks`."""
        return bool(re.search(r"NotImplementedError: .*not supported", line))

    def kills_itself(self, line: str) -> bool:
        """See `Engine.kills_itself`: `launch_phase_sigquit_handler` of entrypoints/engine.py and its like."""
        return "Received sigquit from a child process" in line

    def question(self, model: str, prompt: Prompt, *, tokens: int, likeliest: int) -> Question:  # noqa: ARG002
        """See `Engine.question`: `/generate`, since the OpenAI endpoints of SGLang give no token ids.

        Fields of `GenerateReqInput` in managers/io_struct.py; the server has one model, which is not named.
        """
        body: dict[str, Any] = {
            "sampling_params": {"temperature": 0, "max_new_tokens": tokens, "ignore_eos": True},
        }
        body |= {"text": prompt} if isinstance(prompt, str) else {"input_ids": list(prompt)}
        if likeliest:
            # From the prompt's start on, since that alone shows the ids that were made of a text.
            begin = 0 if isinstance(prompt, str) else -1
            body |= {"return_logprob": True, "top_logprobs_num": likeliest, "logprob_start_len": begin}
        return Question(path="/generate", body=body)

    def answer(self, document: Mapping[str, Any]) -> Answer:
        """See `Engine.answer`: log-probabilities come as lists of (log-probability, id, text or null)."""
        told = document["meta_info"]
        places = told.get("output_top_logprobs") or ()
        return Answer(
            tokens=tuple(int(item) for item in document["output_ids"]),
            likeliest=tuple({int(item[1]): float(item[0]) for item in place or ()} for place in places),
            prompt=tuple(int(item[1]) for item in told.get("input_token_logprobs") or ()),
            text=str(document.get("text") or ""),
            acceptance=self._drafts(told),
        )

    def _drafts(self, told: Mapping[str, Any]) -> Acceptance | None:
        """What `_calculate_spec_decoding_metrics` of managers/tokenizer_manager.py says of one answer.

        `spec_accept_histogram` counts steps by how many drafts they accepted: position n was accepted in those with
        more than n.
        """
        steps = int(told.get("spec_verify_ct") or 0)
        if not steps or "spec_draft_token_num" not in told:
            return None
        drafted = int(told["spec_draft_token_num"])
        steps_by_accepted = [int(count) for count in told.get("spec_accept_histogram") or ()]
        return Acceptance(
            drafts=steps,
            drafted=drafted,
            accepted=int(told["spec_accept_token_num"]),
            by_position=tuple(sum(steps_by_accepted[place + 1 :]) for place in range(drafted // steps))
            if steps_by_accepted
            else (),
        )

    def acceptance(self, samples: Sequence[Sample]) -> Acceptance | None:  # noqa: ARG002 - the Protocol's
        """See `Engine.acceptance`: none.

        `sglang:spec_accept_length` is a gauge over the last forty steps (`--decode-log-interval`), 0 before, and the
        tokens that the target adds count in it; each answer tells more, see `answer`.
        """
        return None


ENGINES: Mapping[str, Engine] = {"vllm": Vllm(), "sglang": Sglang()}
METHODS: Mapping[str, tuple[str, ...]] = {name: engine.methods for name, engine in ENGINES.items()}
"""The ways of speculating that each has."""
