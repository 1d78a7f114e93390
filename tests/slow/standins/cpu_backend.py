"""Stand-ins that let the CPU worker of vLLM 0.16.0 to 0.18.0 speculate and run MLA, to test the series on it.

Upstream's CPU backend got speculation in 0.20.0 and MLA in 0.28.0. Nothing here touches what the series changes: the
whitelist, the model's interface, the auxiliary hidden states, the splitting of batches for MLA's decode. With
CUDA_VISIBLE_DEVICES="" and TRITON_INTERPRET=1, vLLM's own Triton kernels (the preparation of drafts, rejection sampling)
run in Triton's interpreter.
"""

from __future__ import annotations

from typing import Any

import attention
import torch

LONGEST = [0]
"""The most tokens of one sequence that MLA's decode was asked for at once: above 1, drafts were verified there."""


def install() -> None:
    """Put all of them in; before the engine is made."""
    _worker()
    _kernels()
    _mla()


def _worker() -> None:
    from vllm.model_executor.models.interfaces import supports_eagle3
    from vllm.v1.worker import cpu_model_runner as cpu
    from vllm.v1.worker.gpu_model_runner import GPUModelRunner

    def init(self: Any, vllm_config: Any, device: Any) -> None:
        # cpu_model_runner.py without its assertion that there is no speculation.
        with cpu._torch_cuda_wrapper():
            GPUModelRunner.__init__(self, vllm_config, device)
        self.use_cuda_graph = False
        self.cascade_attn_enabled = False
        self._postprocess_tensors()
        for value in vars(self.drafter).values() if hasattr(self, "drafter") else ():
            if isinstance(value, cpu.CpuGpuBuffer):
                value.gpu = value.cpu

    def load_model(self: Any, *_: object, **__: object) -> None:
        # GPUModelRunner.load_model without what is CUDA's.
        self.model = cpu.get_model(vllm_config=self.vllm_config)
        if not hasattr(self, "drafter"):
            return
        self.drafter.load_model(self.model)
        if self.use_aux_hidden_state_outputs:
            if not supports_eagle3(self.get_model()):
                raise RuntimeError(
                    "Model does not support EAGLE3 interface but aux_hidden_state_outputs was requested"
                )
            usual = getattr(self.model, "get_eagle3_aux_hidden_state_layers", None)
            # Renamed in v0.18.0.
            usual = usual or self.model.get_eagle3_default_aux_hidden_state_layers
            self.model.set_aux_hidden_state_layers(self._get_eagle3_aux_layers_from_config() or usual())

    def keep_drafts(self: Any, _scheduled: Any, zeros_only: bool = False) -> None:
        # Without the CUDA stream and event of the original.
        self._draft_token_req_ids = self.input_batch.req_ids.copy()
        drafts = self._draft_token_ids
        if torch.is_tensor(drafts):
            self.draft_token_ids_cpu[: drafts.shape[0]] = 0 if zeros_only else drafts

    def kept_drafts(self: Any) -> tuple[list[Any], list[str]]:
        if isinstance(self._draft_token_ids, list):
            return self._draft_token_ids, self.input_batch.req_ids
        names = self._draft_token_req_ids
        return ([], []) if names is None else (self.draft_token_ids_cpu[: len(names)].tolist(), names)

    runner = cpu.CPUModelRunner
    runner.__init__, runner.load_model = init, load_model
    runner._copy_draft_token_ids_to_cpu = keep_drafts
    runner._get_draft_token_ids_cpu = kept_drafts
    runner._to_list = lambda _self, tensor: tensor.tolist()


def _kernels() -> None:
    """vllm._C does not load with another torch than its own."""
    from vllm import _custom_ops as ops
    from vllm.model_executor.layers.rotary_embedding.base import RotaryEmbedding

    ops.cpu_attn_get_scheduler_metadata = lambda **_: None
    ops.cpu_attn_reshape_and_cache = attention.write_keys
    ops.cpu_attention_with_kv_cache = attention.cached_attention
    ops.concat_and_cache_mla = attention.write_latents
    ops.gather_and_maybe_dequant_cache = attention.read_latents
    RotaryEmbedding.forward_cpu = RotaryEmbedding.forward_native


def _mla() -> None:
    import vllm.model_executor.layers.attention.mla_attention as mla
    from vllm.platforms.cpu import CpuPlatform
    from vllm.v1.attention.backends.mla.triton_mla import TritonMLABackend, TritonMLAImpl

    mla.flash_attn_varlen_func, mla.is_vllm_fa = attention.flash_attention, True
    mla.get_flash_attn_version = lambda *_, **__: None
    mla.torch = _Unpinned()

    class Builder(mla.MLACommonMetadataBuilder):
        # As FlashMLA and FlashInfer-MLA: sequences of several tokens are decoded where all have as many.
        query_len_support = mla.QueryLenSupport.UNIFORM

    class Implementation(TritonMLAImpl):
        def forward_mqa(self, query: Any, cache: Any, metadata: Any, _layer: Any) -> tuple[Any, None]:
            query = torch.cat(query, -1) if isinstance(query, tuple) else query
            decode, size = metadata.decode, cache.shape[1]
            length = query.shape[0] // decode.seq_lens.shape[0]
            LONGEST[0] = max(LONGEST[0], length)
            output = torch.zeros(query.shape[0], query.shape[1], self.kv_lora_rank, dtype=query.dtype)
            for number, count in enumerate(decode.seq_lens.tolist()):
                if count:
                    place = torch.arange(count)
                    rows = cache[decode.block_table[number][place // size].long(), place % size][:, None]
                    rows = rows.expand(-1, query.shape[1], -1)
                    mine = slice(number * length, (number + 1) * length)
                    found, _total = attention.attend(
                        query[mine], rows, rows[..., : self.kv_lora_rank], self.scale, causal=True
                    )
                    output[mine] = found.to(query.dtype)
            return output, None

    class Backend(TritonMLABackend):
        @staticmethod
        def get_name() -> str:
            return "CUSTOM"

        @staticmethod
        def get_impl_cls() -> type:
            return Implementation

        @staticmethod
        def get_builder_cls() -> type:
            return Builder

    globals()["Backend"] = Backend
    usual = CpuPlatform.get_attn_backend_cls.__func__

    def chosen(
        cls: type, selected_backend: Any, attn_selector_config: Any, *others: Any, **named: Any
    ) -> Any:
        if attn_selector_config.use_mla:
            return f"{__name__}.Backend"
        return usual(cls, selected_backend, attn_selector_config, *others, **named)

    CpuPlatform.get_attn_backend_cls = classmethod(chosen)


class _Unpinned:
    """torch for mla_attention.py, which asks for pinned memory whatever the platform is."""

    def __getattr__(self, name: str) -> Any:
        return getattr(torch, name)

    @staticmethod
    def zeros(*shape: Any, **options: Any) -> Any:
        options.pop("pin_memory", None)
        return torch.zeros(*shape, **options)
