"""gauges: the figures of a pool, defined once for live pools, tapes and exporters. The native struct has the same names, held by a test.

How a figure is kept is native/pool's; how one is shown is report's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

__all__ = ["GAUGES", "LEDGER", "LEDGER_PAGE", "Gauge", "Held", "fragmentation", "ledger", "utilisation"]


@dataclass(frozen=True, slots=True)
class Gauge:
    """One figure: `derived` says how it follows from others, None where it is counted as such."""

    name: str
    unit: Literal["bytes", "count"]
    meaning: str
    derived: str | None = None


GAUGES: tuple[Gauge, ...] = (
    Gauge("reserved", "bytes", "what the pool has from the driver"),
    Gauge("allocated", "bytes", "live blocks, with what rounding and unsplit tails add"),
    Gauge("requested", "bytes", "what was asked for of the live blocks"),
    Gauge("active", "bytes", "live, or freed and not yet reusable", "allocated + pending"),
    Gauge("pending", "bytes", "freed, while another stream they were lent to may still use them"),
    Gauge("cached", "bytes", "free to be handed out again", "reserved - active"),
    Gauge("releasable", "bytes", "cached, in segments or frames without a live or pending block"),
    Gauge("stranded", "bytes", "cached, beside live or pending blocks of its segment or frame", "cached - releasable"),
    Gauge("largest_free", "bytes", "the largest block that this stream gets now, as a hit"),
    Gauge("largest_free_after_waits", "bytes", "the same, once pending frees of this stream's memory are complete"),
    Gauge("largest_free_if_idle", "bytes", "the largest hole of any stream, if all streams were idle"),
    Gauge("largest_servable", "bytes", "the largest request that can succeed: the last, or growth up to limit and device"),
    Gauge("hits", "count", "allocations served from this stream's own lists"),
    Gauge("misses", "count", "allocations that had to look further"),
    Gauge("driver_allocs", "count", "segments, or runs of frames, taken from the driver"),
    Gauge("driver_frees", "count", "segments, or runs of frames, given back to the driver"),
    Gauge("retries", "count", "allocations that gave idle memory back before they went on"),
    Gauge("ooms", "count", "allocations that failed"),
    Gauge("event_waits", "count", "waits that the pool put into a stream by itself"),
)


LEDGER: dict[str, str] = {
    "other_processes": "what other processes have of the device, and the driver for them",
    "outside_pools": "what this process has outside its pools: context, modules, library workspaces, graph executables",
    "cached": "free in this process's pools, to be handed out again: releasable to the driver, or stranded beside live blocks",
    "pending": "freed by this process, and not reusable yet",
    "live": "what this process has allocated",
}

LEDGER_PAGE = (
    "Who has the memory of a device that is used: five lines that sum to it, seen from one process. It answers why nvidia-smi and the "
    "framework disagree: nvidia-smi shows all five, the framework the last three, or the last one.\n\n"
    + "\n".join(f"{name}: {meaning}." for name, meaning in LEDGER.items())
    + "\n\nWhat a source cannot tell apart is shown as unknown together, never as zero. What is cached is no leak: a "
    "cache is reused. `forebay doctor` without an artifact shows the ledger of each process on this machine's GPUs; with one, its own."
)


class Held(Protocol):
    """What a ledger needs of a pool's gauges: bytes."""

    @property
    def reserved(self) -> int: ...
    @property
    def allocated(self) -> int: ...
    @property
    def pending(self) -> int: ...
    @property
    def cached(self) -> int: ...


def ledger(used: int, process: int | None, pools: Iterable[Held] | None = None) -> dict[str, int | None]:
    """The lines of LEDGER of a device with `used` bytes in use, `process` of them by one process, seen from it where it tells of all its
    pools. What is not known is None; `unknown_together` is what the lines that are None add up to. Bytes.

    >>> ledger(1000, 600)["unknown_together"], ledger(1000, 600)["other_processes"]
    (600, 400)
    """
    lines: dict[str, int | None] = dict.fromkeys(LEDGER)
    if process is not None:
        lines["other_processes"] = max(0, used - process)
    if pools is not None:
        held = list(pools)
        lines["cached"], lines["pending"] = sum(p.cached for p in held), sum(p.pending for p in held)
        lines["live"] = sum(p.allocated for p in held)
        if process is not None:
            lines["outside_pools"] = max(0, min(process, used) - sum(p.reserved for p in held))
    unknown = max(0, used - sum(value or 0 for value in lines.values())) if None in lines.values() else 0
    return {"used": used, **lines, "unknown_together": unknown}


def utilisation(gauges: Mapping[str, int]) -> float:
    """allocated / reserved; 1 where nothing is reserved.

    >>> utilisation({"allocated": 3, "reserved": 4})
    0.75
    """
    return gauges["allocated"] / gauges["reserved"] if gauges["reserved"] else 1.0


def fragmentation(gauges: Mapping[str, int]) -> float:
    """1 - largest_free_if_idle / free, free being cached + pending; 0 where nothing is free. Ordinary cache is not fragmentation.

    >>> fragmentation({"cached": 80, "pending": 20, "largest_free_if_idle": 25})
    0.75
    """
    free = gauges["cached"] + gauges["pending"]
    return 1.0 - gauges["largest_free_if_idle"] / free if free else 0.0
