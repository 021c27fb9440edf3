"""numbers: the guide's table of what calls cost, beside what they cost on this device. Real time on a GPU, the virtual clock's on a
simulated one, where only a pool's hit is real time: no driver call is made in it.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import Final

from forebay._core import bench
from forebay.errors import BadInput
from forebay.runtime import CudaDevice, Device, SimDevice

__all__ = ["TABLE", "Figure", "Numbers", "measure"]

_SYNC: Final = "a device sync, unbounded"
_PINNED: Final = "milliseconds"
_DRIVER: Final = "10-50 us"
_LAUNCHES: Final = bench.DECODE_KERNELS

# By the name of the figure: what it is, and what the guide says of it (None: nothing).
TABLE: Final[dict[str, tuple[str, str | None]]] = {
    "pool_hit": ("forebay's pool, a hit and its free, 4 KiB, from C++", "100 ns"),
    "driver_pool_hit": ("the driver's pool, a hit and its free (cudaMallocAsync, cudaFreeAsync), 4 KiB", None),
    "malloc_512B": ("cudaMalloc, 512 B", _DRIVER),
    "malloc_2MiB": ("cudaMalloc, 2 MiB", _DRIVER),
    "malloc_512MiB": ("cudaMalloc, 512 MiB", _DRIVER),
    "malloc_4GiB": ("cudaMalloc, 4 GiB", _DRIVER),
    "free_512B": ("cudaFree, 512 B, device idle", _SYNC),
    "free_2MiB": ("cudaFree, 2 MiB, device idle", _SYNC),
    "free_512MiB": ("cudaFree, 512 MiB, device idle", _SYNC),
    "free_4GiB": ("cudaFree, 4 GiB, device idle", _SYNC),
    "free_2MiB_busy": ("cudaFree, 2 MiB, while a kernel of 20 ms runs on another stream", _SYNC),
    "launch": ("kernel launch, the host's part", "5-10 us"),
    "decode_apart": (
        f"a decode step of {_LAUNCHES} empty kernels, launched one by one and waited for",
        "kernels x launch: 1.5-3 ms",
    ),
    "decode_graph": ("the same as one graph, launched and waited for", "graphs save 10-30 %"),
    "graph_launch": (f"the launch of that graph of {_LAUNCHES}, the host's part", None),
    "host_alloc_1MiB": ("cudaHostAlloc, 1 MiB", _PINNED),
    "host_alloc_64MiB": ("cudaHostAlloc, 64 MiB", _PINNED),
    "host_alloc_512MiB": ("cudaHostAlloc, 512 MiB", _PINNED),
    "host_free_1MiB": ("cudaFreeHost, 1 MiB", None),
    "host_free_64MiB": ("cudaFreeHost, 64 MiB", None),
    "host_free_512MiB": ("cudaFreeHost, 512 MiB", None),
    "host_free_1MiB_busy": ("cudaFreeHost, 1 MiB, while a kernel of 20 ms runs", None),
    "event_record": ("cudaEventRecord", None),
    "stream_wait": ("cudaStreamWaitEvent", None),
    "event_query": ("cudaEventQuery", None),
    "item": ("one number read back from an idle stream, as .item() does", None),
    **{
        f"{call}_{size}{busy}": (f"{name}, {size[:-3]} MiB{', while a kernel runs' if busy else ''}", None)
        for size, busy in (("2MiB", ""), ("20MiB", ""), ("2MiB", "_busy"))
        for call, name in (
            ("create", "cuMemCreate"),
            ("map", "cuMemMap"),
            ("set_access", "cuMemSetAccess"),
            ("unmap", "cuMemUnmap"),
            ("release", "cuMemRelease"),
        )
    },
}


@dataclass(frozen=True, slots=True)
class Figure:
    """One row: nanoseconds a call, the median of the rounds with the least and the most; None with `why` where it could not be had.

    `calls` were timed in all; `clock` is "host" or "virtual".
    """

    name: str
    what: str
    guide: str | None
    ns: float | None
    least_ns: float | None
    most_ns: float | None
    calls: int
    clock: str
    why: str | None


@dataclass(frozen=True, slots=True)
class Numbers:
    """The table of one device. `graph_saves` is the part of a decode step's time that a graph saves."""

    device: str
    simulated: bool
    rounds: int
    figures: tuple[Figure, ...]
    graph_saves: float | None


def measure(device: Device, rounds: int = 5) -> Numbers:
    """Every figure of TABLE on this device, after one round that is not counted. Raises BadInput for less than one round, DriverError."""
    if not isinstance(rounds, int) or not 0 < rounds <= 1000:
        raise BadInput(f"rounds: {rounds!r} is out of range; give a number from 1 to 1000")
    if isinstance(device, SimDevice):
        measured = bench.numbers(device.sim, device.index, rounds)
    elif isinstance(device, CudaDevice):
        measured = bench.numbers(device.cuda, device.index, rounds)
    else:
        raise BadInput(f"{device!r}: numbers are measured on a simulated or a CUDA device")
    simulated = isinstance(device, SimDevice)
    figures = tuple(_figure(number, simulated=simulated) for number in measured)
    by_name = {figure.name: figure.ns for figure in figures}
    apart, graph = by_name.get("decode_apart"), by_name.get("decode_graph")
    name = device.driver.facts(device.index).name
    return Numbers(name, simulated, rounds, _in_order(figures), None if apart is None or graph is None else 1 - graph / apart)


def _figure(number: bench.Number, *, simulated: bool) -> Figure:
    what, guide = TABLE[number.name]
    samples = number.samples
    clock = "host" if number.on_host_clock or not simulated else "virtual"
    if not samples:
        return Figure(number.name, what, guide, None, None, None, 0, clock, f"the driver answered: {number.status}")
    return Figure(number.name, what, guide, statistics.median(samples), min(samples), max(samples), number.calls, clock, None)


def _in_order(figures: tuple[Figure, ...]) -> tuple[Figure, ...]:
    """As in the table; what was never reached stands there too, and says so."""
    by_name = {figure.name: figure for figure in figures}
    return tuple(
        by_name.get(name, Figure(name, what, guide, None, None, None, 0, "host", "a call before it failed"))
        for name, (what, guide) in TABLE.items()
    )
