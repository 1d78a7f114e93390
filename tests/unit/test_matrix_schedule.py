"""Which cells may run at once."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from forktool.core.matrix import Needs
from forktool.core.matrix_schedule import Device, Pool, Share


def pool(*memory: float, host: float = 64, places: int = 1, capability: str = "10.0") -> Pool:
    devices = tuple(
        Device(uuid=f"GPU-{number}", capability=capability, memory=size) for number, size in enumerate(memory)
    )
    return Pool(devices=devices, memory=host, places=places)


def test_what_could_never_run_says_why() -> None:
    assert (
        pool(180, 180).never(Needs(gpus=8, capability="10.0"))
        == "needs 8 GPUs of compute capability 10.0, 2 here"
    )
    assert pool(180).never(Needs(gpus=1, capability="9.0")) == "needs 1 GPU of compute capability 9.0, 0 here"
    assert pool(80).never(Needs(gpus=1, gpu_memory=120)) == "needs 1 GPU with 120 GiB, 0 here"
    assert pool().never(Needs(memory=100)) == "needs 100 GiB of memory, 64 here"
    assert pool(180).never(Needs(gpus=1)) is None


def test_the_smallest_gpu_that_fits_is_given() -> None:
    share = pool(180, 80, 120).take(Needs(gpus=1, gpu_memory=100))
    assert share is not None
    assert share.devices == ("GPU-2",)


def test_cells_without_gpus_wait_for_a_place_and_memory() -> None:
    shared = pool(host=10, places=2)
    first = shared.take(Needs(memory=6))
    assert first is not None
    assert shared.take(Needs(memory=6)) is None
    assert shared.take(Needs(memory=4)) is not None
    assert shared.take(Needs()) is None
    shared.give_back(first)
    assert shared.take(Needs(memory=6)) is not None


@given(st.lists(st.tuples(st.integers(0, 4), st.floats(0, 60)), max_size=30), st.data())
def test_nothing_is_given_twice(wanted: list[tuple[int, float]], data: st.DataObject) -> None:
    shared, held = pool(80, 80, 120, 180, places=3), []
    for gpus, memory in wanted:
        if held and data.draw(st.booleans()):
            shared.give_back(held.pop())
        share: Share | None = shared.take(Needs(gpus=gpus, memory=memory))
        if share is not None:
            held.append(share)
            assert len(share.devices) == gpus
        devices = [device for one in held for device in one.devices]
        assert len(devices) == len(set(devices))
        assert sum(one.memory for one in held) <= 64 + 1e-6
        assert sum(one.places for one in held) <= 3
