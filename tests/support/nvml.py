"""A stand-in for NVML, the library that asks the driver: a GPU is what cannot be had here."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

GIB = 1 << 30


class NvmlError(Exception):
    """Stands for pynvml.NVMLError."""


def nvml(*, used: list[list[float]], fails: str | None = None, as_bytes: bool = False) -> Any:
    """NVML with one GPU a column of `used`; each reading takes the next row, the last one stays."""
    rows = iter(used)
    state: dict[str, list[float]] = {"row": used[0] if used else []}

    def init() -> None:
        if fails:
            raise NvmlError(fails)
        state["row"] = next(rows, state["row"])

    def text(value: str) -> str | bytes:
        return value.encode() if as_bytes else value

    return SimpleNamespace(
        NVMLError=NvmlError,
        nvmlInit=init,
        nvmlShutdown=lambda: None,
        nvmlSystemGetDriverVersion=lambda: text("580.65.06"),
        nvmlDeviceGetCount=lambda: len(state["row"]),
        nvmlDeviceGetHandleByIndex=lambda index: index,
        nvmlDeviceGetMemoryInfo=lambda index: SimpleNamespace(
            total=180 * GIB, used=int(state["row"][index] * GIB)
        ),
        nvmlDeviceGetCudaComputeCapability=lambda _index: (10, 0),
        nvmlDeviceGetUUID=lambda index: text(f"GPU-{index}"),
        nvmlDeviceGetName=lambda _index: text("NVIDIA B200"),
    )
