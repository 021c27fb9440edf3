"""heap_state: a device's heap at one moment as two tables, segments and live blocks. What changes them is views/heap.py's.

Free memory is not listed: free neighbours always merge, so it is what live blocks leave of their segments.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

_PLACE = [("stream", "u4"), ("pool", "u4"), ("site", "u4")]  # indices into the side tables of the tape
# Rows as native/bind/emulate.cpp reads and writes them. Addresses and sizes in bytes.
SEGMENT = np.dtype([("address", "u8"), ("size", "u8"), *_PLACE, ("large", "u1"), ("expandable", "u1"), ("device", "i2")])
BLOCK = np.dtype(
    [("address", "u8"), ("size", "u8"), ("requested", "u8"), *_PLACE, ("pending", "u1"), ("inferred", "u1"), ("device", "i2")]
)


@dataclass(frozen=True, slots=True)
class HeapState:
    """Segments and live blocks, each by device and address.

    A contiguous mapped range of an expandable segment is one segment. `pending`: freed by the program, not reusable yet.
    `inferred`: the block may be larger by an unsplit tail of at most 1 MiB that nothing in the history shows.
    """

    segments: Array = field(default_factory=lambda: np.zeros(0, SEGMENT))
    blocks: Array = field(default_factory=lambda: np.zeros(0, BLOCK))

    def device(self, device: int) -> HeapState:
        """The part on one device."""
        return HeapState(self.segments[self.segments["device"] == device], self.blocks[self.blocks["device"] == device])

    @property
    def reserved(self) -> int:
        """Bytes of driver memory held."""
        return int(self.segments["size"].sum())

    @property
    def active(self) -> int:
        """Bytes of live blocks, those that wait to become reusable included."""
        return int(self.blocks["size"].sum())

    @property
    def pending(self) -> int:
        """Bytes of blocks that the program freed and that are not reusable yet."""
        return int(self.blocks["size"][self.blocks["pending"] != 0].sum())

    @property
    def allocated(self) -> int:
        """Bytes of blocks that the program holds."""
        return self.active - self.pending

    @property
    def requested(self) -> int:
        """Bytes that the program asked for, of active blocks."""
        return int(self.blocks["requested"].sum())


def joined(parts: list[HeapState]) -> HeapState:
    """The states of several devices as one."""
    if not parts:
        return HeapState()
    return HeapState(np.concatenate([p.segments for p in parts]), np.concatenate([p.blocks for p in parts]))


def from_bytes(segments: Array, blocks: Array, device: int) -> HeapState:
    """The state of a device from the native rooms' rows."""
    state = HeapState(segments.view(SEGMENT).copy(), blocks.view(BLOCK).copy())
    state.segments["device"] = state.blocks["device"] = device
    return state
