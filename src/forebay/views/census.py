"""census: who holds the bytes of a heap: by segment, stream, pool and site, and who pins partly used segments.

It counts one moment; heap.py says what that moment looked like. Free bytes are told apart as gauges.py does: releasable (in
wholly free segments, which the driver could have back) and stranded (inside partly used ones).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from forebay.sources.heap_state import HeapState

__all__ = ["Census", "Pin", "Share", "census"]

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Share:
    """The bytes of one stream, pool or site. Of a site only what its live blocks hold; it owns no free memory."""

    index: int
    reserved: int
    allocated: int
    pending: int
    releasable: int
    stranded: int
    blocks: int


@dataclass(frozen=True, slots=True)
class Pin:
    """A site whose live blocks keep segments from being released.

    `held`: its bytes in partly used segments; `segments`: how many of them; `freed_alone`: free bytes of those in which no other
    site has a block, which its going alone would make releasable, its own bytes included.
    """

    site: int
    segments: int
    held: int
    freed_alone: int


@dataclass(frozen=True, slots=True)
class Census:
    """One moment. Per segment, in the order of the state: live and free bytes, and the largest free run; i8 each."""

    state: HeapState
    segment_live: Array
    segment_free: Array
    segment_largest_free: Array
    orphans: int  # bytes of live blocks that lie in no segment of the state

    @property
    def releasable(self) -> int:
        """Free bytes in wholly free segments."""
        return int(self.segment_free[self.segment_live == 0].sum())

    @property
    def stranded(self) -> int:
        """Free bytes in partly used segments."""
        return int(self.segment_free[self.segment_live > 0].sum())

    @property
    def largest_free(self) -> int:
        """Bytes of the largest free run of any stream."""
        return int(self.segment_largest_free.max(initial=0))

    def by(self, what: Literal["stream", "pool"]) -> list[Share]:
        """Shares of streams or pools (indices into the tape's side tables), the largest reserved first."""
        segments, blocks = self.state.segments, self.state.blocks
        numbers = np.union1d(segments[what], blocks[what]).tolist()
        shares = [self._share(n, segments[what] == n, blocks[blocks[what] == n]) for n in numbers]
        return sorted(shares, key=lambda share: -share.reserved)

    def by_site(self) -> list[Share]:
        """Shares of sites, those that hold most first."""
        blocks = self.state.blocks
        nothing = np.zeros(len(self.state.segments), bool)
        shares = [self._share(n, nothing, blocks[blocks["site"] == n]) for n in np.unique(blocks["site"]).tolist()]
        return sorted(shares, key=lambda share: -(share.allocated + share.pending))

    def _share(self, index: int, segments: Array, blocks: Array) -> Share:
        pending = int(blocks["size"][blocks["pending"] != 0].sum())
        return Share(
            index,
            reserved=int(self.state.segments["size"][segments].sum()),
            allocated=int(blocks["size"].sum()) - pending,
            pending=pending,
            releasable=int(self.segment_free[segments & (self.segment_live == 0)].sum()),
            stranded=int(self.segment_free[segments & (self.segment_live > 0)].sum()),
            blocks=len(blocks),
        )

    def pins(self) -> list[Pin]:
        """Sites that keep partly used segments, those with most to gain first."""
        of, blocks = _segment_of(self.state), self.state.blocks
        inside = of >= 0
        of, blocks = of[inside], blocks[inside]
        partly = self.segment_free[of] > 0
        of, blocks = of[partly], blocks[partly]
        pairs = np.unique(np.stack([of, blocks["site"].astype("i8")]), axis=1)
        sites_in = np.bincount(pairs[0], minlength=len(self.state.segments))
        pins = [self._pin(site, pairs[0][pairs[1] == site], sites_in, blocks) for site in np.unique(pairs[1]).tolist()]
        return sorted(pins, key=lambda pin: (-pin.freed_alone, -pin.held))

    def _pin(self, site: int, segments: Array, sites_in: Array, blocks: Array) -> Pin:
        alone = segments[sites_in[segments] == 1]
        freed = int((self.segment_free[alone] + self.segment_live[alone]).sum())
        return Pin(site, len(segments), int(blocks["size"][blocks["site"] == site].sum()), freed)


def _segment_of(state: HeapState) -> Array:
    """For each live block the index of its segment, -1 where it lies in none; i8. Devices share no addresses."""
    segments, blocks = state.segments, state.blocks
    if not len(segments):
        return np.full(len(blocks), -1)
    order = np.lexsort((segments["address"], segments["device"]))
    at = np.full(len(blocks), -1)
    for device in np.unique(segments["device"]):
        mine, here = order[segments["device"][order] == device], blocks["device"] == device
        place = np.searchsorted(segments["address"][mine], blocks["address"][here], side="right") - 1
        found = mine[np.maximum(place, 0)]
        ends = segments["address"][found] + segments["size"][found]
        at[here] = np.where((place >= 0) & (blocks["address"][here] < ends), found, -1)
    return at


def _largest_runs(state: HeapState, of: Array) -> Array:
    """The largest run of each segment that no live block covers, i8."""
    segments, blocks = state.segments, state.blocks[of >= 0]
    of = of[of >= 0]
    order = np.lexsort((blocks["address"], of))
    of, begin = of[order], blocks["address"][order].astype("i8")
    end = begin + blocks["size"][order].astype("i8")
    first, last = segments["address"].astype("i8"), (segments["address"] + segments["size"]).astype("i8")
    largest = np.where(np.isin(np.arange(len(segments)), of), 0, last - first)
    opens = np.append(True, of[1:] != of[:-1]) if len(of) else np.zeros(0, bool)
    closes = np.append(of[1:] != of[:-1], True) if len(of) else opens
    np.maximum.at(largest, of, begin - np.where(opens, first[of], np.roll(end, 1)))
    np.maximum.at(largest, of[closes], last[of[closes]] - end[closes])
    return largest


def census(state: HeapState) -> Census:
    """The count of a heap at one moment."""
    of = _segment_of(state)
    inside = of >= 0
    live = np.zeros(len(state.segments), "i8")
    np.add.at(live, of[inside], state.blocks["size"][inside].astype("i8"))
    free = state.segments["size"].astype("i8") - live
    return Census(state, live, free, _largest_runs(state, of), int(state.blocks["size"][~inside].sum()))
