"""recorded: what a history needed when it was recorded: peaks, driver calls, the largest free block. What another policy would have
needed is the policies' to say.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from forebay.tape import Kind, Tape
from forebay.views.census import census
from forebay.views.heap import Totals, fold

__all__ = ["Recorded", "recorded"]


@dataclass(frozen=True, slots=True)
class Recorded:
    """The figures of one device, or of several together: bytes, and counts.

    `peak_allocated_bytes` counts a block until the program let go of it, `peak_active_bytes` until its bytes could be used again.
    `peak_requested_bytes` is the most that blocks not yet reusable had been asked for at one time: no policy needs less.
    `largest_free_bytes` is that of the end, whatever stream it is of.
    """

    peak_allocated_bytes: int
    peak_active_bytes: int
    peak_reserved_bytes: int
    peak_requested_bytes: int
    largest_free_bytes: int
    driver_allocs: int
    driver_frees: int
    ooms: int

    @classmethod
    def together(cls, devices: Iterable[Recorded]) -> Recorded:
        """Sums over devices; the largest free block is the largest of any."""
        each = list(devices)
        sums = {name: sum(getattr(device, name) for device in each) for name in cls.__slots__}
        return cls(**{**sums, "largest_free_bytes": max((device.largest_free_bytes for device in each), default=0)})


def recorded(tape: Tape) -> dict[int, Recorded]:
    """The figures of each device. Raises BadInput where what was there before the first row cannot be known."""
    heap = fold(tape)
    end = heap.state()
    failed = tape.columns["device"][tape.where(Kind.oom)] if tape.has("device") else np.zeros(0, "i2")
    return {
        device: _device(totals, census(end.device(device)).largest_free, int((failed == device).sum()))
        for device, totals in heap.totals().items()
    }


def _device(totals: Totals, largest_free: int, ooms: int) -> Recorded:
    peak = totals.peak
    return Recorded(
        peak.allocated, peak.active, peak.reserved, peak.requested, largest_free, totals.driver_allocs, totals.driver_frees, ooms
    )
