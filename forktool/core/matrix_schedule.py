"""Which cells can run at once: a small allocator over GPUs, memory and places for CPU cells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from forktool.core.matrix import Cell, Needs


@dataclass(frozen=True, kw_only=True, slots=True)
class Device:
    """A GPU as the allocator sees it; memory in GiB."""

    uuid: str
    capability: str
    memory: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Share:
    """What one cell was given."""

    devices: tuple[str, ...]
    memory: float
    places: int


@dataclass(kw_only=True, slots=True)
class Pool:
    """What is free. Memory is the host's, in GiB; `places` is how many cells without GPUs may run at once."""

    devices: tuple[Device, ...]
    memory: float
    places: int
    _taken: set[str] = field(default_factory=set)
    _memory_taken: float = 0.0
    _places_taken: int = 0

    def never(self, needs: Needs) -> str | None:
        """Why a cell could not run here even alone; None where it could."""
        if needs.gpus:
            fitting = [device for device in self.devices if _fits(device, needs)]
            if len(fitting) < needs.gpus:
                kind = f" of compute capability {needs.capability}" if needs.capability else ""
                memory = f" with {needs.gpu_memory:g} GiB" if needs.gpu_memory else ""
                return f"needs {needs.gpus} GPU{'s' if needs.gpus > 1 else ''}{kind}{memory}, {len(fitting)} here"
        if needs.memory > self.memory:
            return f"needs {needs.memory:g} GiB of memory, {self.memory:.0f} here"
        return None

    def take(self, needs: Needs) -> Share | None:
        """Give a cell what it needs, or None where too little is free now."""
        free = [device for device in self.devices if device.uuid not in self._taken and _fits(device, needs)]
        places = 0 if needs.gpus else 1
        if len(free) < needs.gpus or self._places_taken + places > self.places:
            return None
        if needs.memory > self.memory - self._memory_taken:
            return None
        # The smallest that fit, so that the large ones stay free for those that need them.
        chosen = tuple(device.uuid for device in sorted(free, key=lambda device: device.memory)[: needs.gpus])
        self._taken.update(chosen)
        self._memory_taken += needs.memory
        self._places_taken += places
        return Share(devices=chosen, memory=needs.memory, places=places)

    def give_back(self, share: Share) -> None:
        """A cell has ended."""
        self._taken.difference_update(share.devices)
        self._memory_taken -= share.memory
        self._places_taken -= share.places


def in_order(cells: Sequence[Cell]) -> tuple[Cell, ...]:
    """The order to try cells in: many GPUs first, since small cells fill the gaps that large ones leave."""
    return tuple(sorted(cells, key=lambda cell: -cell.needs.gpus))


def _fits(device: Device, needs: Needs) -> bool:
    return (
        needs.capability is None or device.capability == needs.capability
    ) and device.memory >= needs.gpu_memory
