"""heap: segments, blocks and their gauges at any event of a tape, as a fold over its chunks (native/emulate/fold.hpp).

What was there before the first row is walkback.py's; who holds the bytes is census.py's.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forebay._core.emulate import Fold, Reuse
from forebay.sources.heap_state import HeapState, from_bytes, joined
from forebay.tape import Sees, Tape
from forebay.views.walkback import walkback

__all__ = ["Curves", "HeapFold", "Levels", "Totals", "curves", "fold", "state_after"]

Array = NDArray[Any]
_COLUMNS = ("address", "size", "requested", "stream", "pool", "site")
_DTYPES = {"address": "u8", "size": "u8", "requested": "u8", "stream": "u4", "pool": "u4", "site": "u4"}


@dataclass(frozen=True, slots=True)
class Curves:
    """Bytes after each row, on the row's device; n each, i8. `requested` is of active blocks; pending = active - allocated."""

    reserved: Array
    allocated: Array
    active: Array
    requested: Array

    @property
    def pending(self) -> Array:
        """Bytes freed by the program and not reusable yet."""
        return self.active - self.allocated

    @property
    def cached(self) -> Array:
        """Bytes held from the driver that no active block covers."""
        return self.reserved - self.active


@dataclass(frozen=True, slots=True)
class Levels:
    """Gauges of a device at one moment, or each one's highest: bytes, and counts of `segments` (no expandable ones) and `blocks`."""

    reserved: int
    allocated: int
    active: int
    requested: int
    segments: int
    blocks: int


@dataclass(frozen=True, slots=True)
class Totals:
    """A device after the fold: levels now and at their peaks; driver calls, allocs, and rows that contradicted the heap."""

    now: Levels
    peak: Levels
    driver_allocs: int
    driver_frees: int
    allocs: int
    misfits: int


class HeapFold:
    """The heaps of all devices, fed with chunks in order. The start is the heap before the first of them."""

    def __init__(self, start: HeapState, reuse: Reuse) -> None:
        self._reuse = reuse
        self._folds: dict[int, Fold] = {}
        devices = np.unique(np.concatenate([start.segments["device"], start.blocks["device"]]))
        for device in devices.tolist():
            self._open(device, start.device(device))

    def _open(self, device: int, state: HeapState) -> Fold:
        raw = [np.ascontiguousarray(table).view("u1") for table in (state.segments, state.blocks)]
        self._folds[device] = Fold(raw[0], raw[1], self._reuse)
        return self._folds[device]

    def feed(self, chunk: Tape) -> Curves:
        """Moves on by these rows, and gives the curves over them."""
        n = len(chunk)
        device = chunk.columns["device"] if chunk.has("device") else np.zeros(n, "i2")
        out = np.zeros((4, n), "i8")
        for number in np.unique(device).tolist():
            mine = np.flatnonzero(device == number)
            rows = slice(None) if len(mine) == n else mine
            values = [_column(chunk, name)[rows] for name in _COLUMNS]
            fold = self._folds.get(number) or self._open(number, HeapState())
            for curve, part in zip(out, fold.run(chunk.columns["kind"][rows], *values), strict=True):
                curve[rows] = part
        return Curves(*out)

    def state(self) -> HeapState:
        """All heaps as they are now."""
        return joined([from_bytes(fold.segments(), fold.blocks(), device) for device, fold in sorted(self._folds.items())])

    def totals(self) -> dict[int, Totals]:
        """What each device came to."""
        return {device: _totals(fold.totals()) for device, fold in sorted(self._folds.items())}


def _column(chunk: Tape, name: str) -> Array:
    return chunk.columns[name] if chunk.has(name) else np.zeros(len(chunk), _DTYPES[name])


def _totals(told: dict[str, Any]) -> Totals:
    return Totals(**{**told, "now": Levels(**told["now"]), "peak": Levels(**told["peak"])})


def _begun(tape: Tape, start: HeapState | None = None) -> HeapFold:
    return HeapFold(
        walkback(tape).state if start is None else start, Reuse.at_reclaim if Sees.RECLAIMS in tape.sees else Reuse.at_free
    )


def _fed(tape: Tape) -> Iterator[tuple[HeapFold, Curves]]:
    heap = _begun(tape)
    for chunk in tape.chunks():
        yield heap, heap.feed(chunk)


def fold(tape: Tape) -> HeapFold:
    """The heap after the last row of a whole tape. Raises BadInput where its start cannot be known."""
    heap = _begun(tape)
    for chunk in tape.chunks():
        heap.feed(chunk)
    return heap


def curves(tape: Tape) -> Curves:
    """The gauges after every row of a whole tape. Raises BadInput where its start cannot be known."""
    parts = [part for _, part in _fed(tape)]
    return Curves(*(np.concatenate([np.zeros(0, "i8"), *(getattr(p, f.name) for p in parts)]) for f in fields(Curves)))


def state_after(tape: Tape, row: int, start: HeapState | None = None) -> HeapState:
    """Segments and live blocks after a row of a whole tape; before the first row where `row` is -1 is walkback's. From `start` on, where
    it is given: of a tape that begins mid-life only what its rows touch is then known."""
    heap = _begun(tape, start)
    for chunk in tape[: row + 1].chunks():
        heap.feed(chunk)
    return heap.state()
