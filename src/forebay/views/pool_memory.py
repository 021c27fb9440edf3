"""pool_memory: a tape's rows of pools' device memory, as heap.py and a replay read them: what failed, what is pinned and what the
program took from the driver by itself left out, each segment with the stream and the pool of the first block in it.

What the heap looks like is heap.py's. A snapshot of PyTorch has such rows alone and is taken as it is.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from forebay._core.tape import COLUMNS as NAMES
from forebay.sources.torch_snapshot import Snapshot
from forebay.tape import Flag, Kind, Sees, Tape

__all__ = ["pool_memory"]

Array = NDArray[Any]
_TAKES: Final = (Kind.reserve, Kind.map)
_GIVES: Final = (Kind.release, Kind.unmap)
_BLOCKS: Final = (Kind.alloc, Kind.free, Kind.reclaim, Kind.lend)
_ABOUT: Final = (Kind.oom, Kind.capacity, Kind.settings, Kind.flush, Kind.gap, Kind.pin, Kind.unpin, Kind.region_begin)
_NEAR: Final = 64  # allocations after a segment's row, among which its first block nearly always is


def pool_memory(tape: Tape) -> Tape:
    """The rows of pools' device memory, of refusals and of capacities, in order; `picked` says which rows of `tape` they are."""
    if isinstance(tape, Snapshot):
        return tape
    rows = tape.where(*_TAKES, *_GIVES, *_BLOCKS, *_ABOUT)
    if tape.has("status"):
        rows = rows[~(_of(tape, rows, *_TAKES, *_GIVES) & tape.knows("status")[rows] & (tape.columns["status"][rows] != 0))]
    rows = rows[~(_of(tape, rows, *_TAKES, *_GIVES) & ~tape.knows("address")[rows])]  # frames: where they lie their maps say
    rows = rows[~(_of(tape, rows, *_BLOCKS) & _on_the_host(tape, rows))]
    if Sees.RECLAIMS not in tape.sees:  # of some blocks only: a free counts for all
        rows = rows[~_of(tape, rows, Kind.reclaim)]
    memory = tape.take(rows)
    told = (
        [memory.sides.strings[n] for n in memory.columns["name"][memory.where(Kind.settings)].tolist()]
        if tape.has("name")
        else []
    )
    if told and "settings" not in tape.provenance:
        text = ",".join(word.replace("=", ":") for word in told)
        memory = replace(memory, provenance={**tape.provenance, "settings": {"PYTORCH_CUDA_ALLOC_CONF": text}})
    return _owned(memory)


def _of(tape: Tape, rows: Array, *kinds: Kind) -> Array:
    return np.isin(tape.columns["kind"][rows], [int(kind) for kind in kinds])


def _on_the_host(tape: Tape, rows: Array) -> Array:
    host = [i for i, pool in enumerate(tape.sides.pools) if pool.space != "device"]
    if not host or not tape.has("pool"):
        return np.zeros(len(rows), bool)
    return np.isin(tape.columns["pool"][rows], host) & tape.knows("pool")[rows]


def _owned(tape: Tape) -> Tape:
    """The same with the stream and the pool of each segment, where its row does not know them; a segment in which no block ever was is
    a pool's where its row says so, else the program's own."""
    takes, allocs = tape.where(*_TAKES), tape.where(Kind.alloc)
    first = _first_blocks(tape, takes, allocs)
    columns, known = dict(tape.columns), tape.known
    for name in ("stream", "pool"):
        lacks = takes[(first >= 0) & ~tape.knows(name)[takes]] if tape.has(name) else takes[:0]
        if len(lacks):
            columns[name] = columns[name].copy()
            columns[name][lacks] = columns[name][first[np.isin(takes, lacks)]]
            known = None if known is None else known | np.where(np.isin(np.arange(len(tape)), lacks), _bit(name), np.uint32(0))
    owned = replace(tape, columns=columns, known=known)
    told = tape.columns["flags"] & np.uint32(Flag.POOL_MADE) != 0 if tape.has("flags") else np.zeros(len(tape), bool)
    if not told[takes].any():
        return owned
    own = takes[(first < 0) & ~told[takes]]
    return _without(owned, own) if len(own) else owned


def _bit(name: str) -> np.uint32:
    return np.uint32(1 << NAMES.index(name))


def _first_blocks(tape: Tape, takes: Array, allocs: Array) -> Array:
    """For each row that takes memory the row of the first block in it, -1 where there is none before the memory is taken again."""
    found = np.full(len(takes), -1)
    if not len(takes) or not len(allocs):
        return found
    begin, size = tape.columns["address"][takes], tape.columns["size"][takes]
    address = tape.columns["address"][allocs]
    after = np.searchsorted(allocs, takes)
    for step in range(_NEAR):
        at = np.minimum(after + step, len(allocs) - 1)
        fits = (found < 0) & (after + step < len(allocs)) & (address[at] >= begin) & (address[at] - begin < size)
        found[fits] = allocs[at[fits]]
    order = np.argsort(address, kind="stable")
    for i in np.flatnonzero(found < 0).tolist():
        low, high = np.searchsorted(address[order], [begin[i], begin[i] + size[i]])
        later = allocs[order[low:high]]
        later = later[later > takes[i]]
        again = takes[(takes > takes[i]) & (tape.columns["address"][takes] == begin[i])]
        if len(later) and (not len(again) or later.min() < again.min()):
            found[i] = later.min()
    return found


def _without(tape: Tape, takes: Array) -> Tape:
    """The tape without these rows that take memory and those that give the same memory back."""
    gives = tape.where(*_GIVES)
    all_takes, address = tape.where(*_TAKES), tape.columns["address"]
    drop = np.zeros(len(tape), bool)
    drop[takes] = True
    order = all_takes[np.lexsort((all_takes, address[all_takes]))]
    for row in gives.tolist():
        same = order[np.searchsorted(address[order], address[row]) : np.searchsorted(address[order], address[row], "right")]
        before = same[same < row]
        drop[row] = len(before) > 0 and drop[before[-1]]
    return tape.take(np.flatnonzero(~drop))
