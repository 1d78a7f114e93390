"""The GPUs of this machine, through NVML: the only import of `pynvml` (distribution nvidia-ml-py)."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from dataclasses import dataclass

_GIB = 1 << 30


@dataclass(frozen=True, kw_only=True, slots=True)
class Gpu:
    """One GPU; memory in GiB, `capability` as `10.0`."""

    index: int
    uuid: str
    name: str
    capability: str
    memory: float
    used: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Gpus:
    """What is there. `missing` says why nothing is: no library, no driver, no GPU."""

    gpus: tuple[Gpu, ...] = ()
    driver: str | None = None
    missing: str | None = None


def read_gpus() -> Gpus:
    """Ask NVML; never raises, since having no GPU is an answer."""
    try:
        import pynvml
    except ImportError:
        return Gpus(missing="no GPU can be seen: nvidia-ml-py is not installed (pip install nvidia-ml-py)")
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        return Gpus(missing=f"no GPU can be seen: NVML says {error}")
    try:
        driver = _text(pynvml.nvmlSystemGetDriverVersion())
        found = []
        for index in range(pynvml.nvmlDeviceGetCount()):
            device = pynvml.nvmlDeviceGetHandleByIndex(index)
            memory = pynvml.nvmlDeviceGetMemoryInfo(device)
            major, minor = pynvml.nvmlDeviceGetCudaComputeCapability(device)
            found.append(
                Gpu(
                    index=index,
                    uuid=_text(pynvml.nvmlDeviceGetUUID(device)),
                    name=_text(pynvml.nvmlDeviceGetName(device)),
                    capability=f"{major}.{minor}",
                    memory=memory.total / _GIB,
                    used=memory.used / _GIB,
                )
            )
        return Gpus(gpus=tuple(found), driver=driver, missing=None if found else "the driver sees no GPU")
    except pynvml.NVMLError as error:
        return Gpus(missing=f"no GPU can be seen: NVML says {error}")
    finally:
        pynvml.nvmlShutdown()


def usable_gpus() -> Gpus:
    """The GPUs that this process may use: those of CUDA_VISIBLE_DEVICES where it is set, as a batch system does.

    Where NVML sees nothing and a batch system names devices all the same, they are taken as named; nothing is known
    of them, and their memory is 0.
    """
    seen = read_gpus()
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    if named is None:
        return seen
    words = [word.strip() for word in named.split(",") if word.strip()]
    known = {str(gpu.index): gpu for gpu in seen.gpus} | {gpu.uuid: gpu for gpu in seen.gpus}
    if not seen.gpus and words and "SLURM_JOB_ID" in os.environ:
        unknown = (
            Gpu(index=number, uuid=word, name="unknown", capability="", memory=0.0, used=0.0)
            for number, word in enumerate(words)
        )
        return Gpus(gpus=tuple(unknown))
    found = tuple(known[word] for word in words if word in known)
    missing = seen.missing or (None if found else f"CUDA_VISIBLE_DEVICES={named} names no GPU that is here")
    return Gpus(gpus=found, driver=seen.driver, missing=missing)


def wait_until_free(gpus: Iterable[Gpu], *, allowed: float = 1.0, timeout: float = 60.0) -> str | None:
    """Wait until the memory of a cell's GPUs is free again.

    Args:
        gpus: which, as they were before the cell; those that NVML does not see cannot be asked, and are passed over.
        allowed: GiB that may be in use on each beyond what was before, for the driver and other processes' contexts.
        timeout: seconds.

    Returns:
        None when they are free, else what is still held.
    """
    before = {gpu.uuid: gpu.used for gpu in gpus if gpu.memory}
    deadline = time.monotonic() + timeout
    while before:
        seen = read_gpus()
        held = [gpu for gpu in seen.gpus if gpu.uuid in before and gpu.used > before[gpu.uuid] + allowed]
        if not held:
            return None if seen.missing is None else seen.missing
        if time.monotonic() > deadline:
            return ", ".join(
                f"GPU {gpu.index} still holds {gpu.used:.1f} GiB, {before[gpu.uuid]:.1f} before"
                for gpu in held
            )
        time.sleep(0.5)
    return None


def _text(value: str | bytes) -> str:
    # nvidia-ml-py returned bytes before version 11.515.
    return value.decode() if isinstance(value, bytes) else value
