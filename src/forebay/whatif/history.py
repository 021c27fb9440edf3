"""history: a tape as the operations that a pool must serve, one device at a time. Which addresses the recorded allocator chose is
forgotten: only which block was asked for, how large, on which stream, and until when.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forebay.errors import BadInput
from forebay.sources.heap_state import HeapState
from forebay.tape import Kind, Sees, Tape

__all__ = ["History", "Op", "blocks_of", "histories"]

Array = NDArray[Any]


class Op(IntEnum):
    """What an operation does with its block."""

    ALLOC = 0
    FREE = 1  # the program let go; the bytes may be used again at the RECLAIM, where the history shows one, else now
    RECLAIM = 2
    ATTEMPT = 3  # a request that failed when it was recorded


_OPS = {Kind.alloc: Op.ALLOC, Kind.free: Op.FREE, Kind.reclaim: Op.RECLAIM, Kind.oom: Op.ATTEMPT}


@dataclass(frozen=True, slots=True)
class History:
    """One device's operations in order, and its blocks, numbered in the order in which they were asked for.

    n operations: `op` (u1, Op), `block` (u4). m blocks: `requested` (u8, bytes), `stream` (u4, of the tape's side table), `group`
    (u4: 0 for the ordinary pools, else 1 + the index into `private`). The first `alive` operations allocate what was there before
    the tape begins; operation i beyond them is the tape's row `row[i - alive]` (i8). `reuse` is the operation from which on the
    bytes of a block may be used again: RECLAIM where the tape shows it, else FREE.
    """

    device: int
    op: Array
    block: Array
    requested: Array
    stream: Array
    group: Array
    private: tuple[tuple[int, int], ...]
    alive: int
    row: Array
    reuse: Op

    def __len__(self) -> int:
        return len(self.op)

    def row_of(self, operation: int) -> int | None:
        """The tape's row of an operation; None where it stands for what was there before the tape."""
        return None if operation < self.alive else int(self.row[operation - self.alive])


def histories(tape: Tape, before: HeapState | None = None) -> list[History]:
    """The history of each device that has operations, in the order of their numbers.

    `before` is the heap before the first row. A free of a block that nothing allocated, or a second one, is left out: it has no
    block to let go. Raises BadInput where there is nothing to run.
    """
    rows = tape.where(*_OPS)
    # One event is what a ring of one leaves, which records the state alone.
    if not len(rows) or (len(rows) == 1 and Sees.ALLOCS not in tape.sees):
        count = "1 event is none" if len(rows) else "0 events"
        raise BadInput(f"it holds no allocator history ({count}): record with torch.cuda.memory._record_memory_history()")
    device = tape.columns["device"][rows] if tape.has("device") else np.zeros(len(rows), "i2")
    state = before or HeapState()
    return [_history(tape, rows[device == number], int(number), state.device(int(number))) for number in np.unique(device)]


def _history(tape: Tape, rows: Array, device: int, before: HeapState) -> History:
    columns, old = tape.columns, before.blocks
    alive = len(old)
    as_op = np.zeros(256, "u1")
    for kind, meaning in _OPS.items():
        as_op[kind] = meaning
    held = np.flatnonzero(old["pending"])  # freed before the tape: their program-side end lies before it
    op = np.concatenate([np.full(alive, Op.ALLOC, "u1"), np.full(len(held), Op.FREE, "u1"), as_op[columns["kind"][rows]]])
    address = np.concatenate([old["address"], old["address"][held], columns["address"][rows]])
    block, known = blocks_of(op, address)
    makes = (op == Op.ALLOC) | (op == Op.ATTEMPT)
    requested = np.concatenate([old["requested"], old["requested"][held], _requested(tape, rows)])[makes]
    stream = np.concatenate([old["stream"], old["stream"][held], _or_zero(tape, "stream", rows)])[makes]
    pool = np.concatenate([old["pool"], old["pool"][held], _or_zero(tape, "pool", rows)])[makes]
    group, private = _groups(tape, pool)
    row = np.concatenate([np.full(len(held), rows[0] if len(rows) else 0), rows])
    kept = known & _first_of_each(op, block, known)
    row = row[kept[alive:]]
    reuse = Op.RECLAIM if Sees.RECLAIMS in tape.sees or (columns["kind"] == Kind.reclaim).any() else Op.FREE
    blocks = (requested, stream.astype("u4"), group, private)
    return History(device, op[kept], block[kept], *blocks, alive, row.astype("i8"), reuse)


def _or_zero(tape: Tape, name: str, rows: Array) -> Array:
    return tape.columns[name][rows] if tape.has(name) else np.zeros(len(rows), "u4")


def _requested(tape: Tape, rows: Array) -> Array:
    """Bytes asked for: of an oom, and where the source does not tell them apart, the size."""
    size = tape.columns["size"][rows].astype("u8")
    if not tape.has("requested"):
        return size
    asked = tape.columns["requested"][rows].astype("u8")
    return np.where(asked == 0, size, asked)


def blocks_of(op: Array, address: Array) -> tuple[Array, Array]:
    """The block of each operation (u4), and whether it has one: a free goes with the latest alloc at its address before it."""
    makes = (op == Op.ALLOC) | (op == Op.ATTEMPT)
    number = np.cumsum(makes) - 1
    by_address = np.lexsort((np.arange(len(op)), address))
    is_alloc = (op == Op.ALLOC)[by_address]
    latest = np.maximum.accumulate(np.where(is_alloc, np.arange(len(op)), -1))
    begins = np.searchsorted(address[by_address], address[by_address], side="left")  # of the run of one address
    found = latest >= begins
    block, known = np.zeros(len(op), "u4"), np.empty(len(op), bool)
    block[by_address] = number[by_address][np.where(found, latest, 0)]
    known[by_address] = found
    block[makes], known[makes] = number[makes], True
    return block, known


def _first_of_each(op: Array, block: Array, known: Array) -> Array:
    """False for the second FREE and the second RECLAIM of a block."""
    key = block.astype("u8") * len(Op) + op
    first = np.zeros(len(op), bool)
    where = np.flatnonzero(known)
    first[where[np.unique(key[where], return_index=True)[1]]] = True
    return first


def _groups(tape: Tape, pool: Array) -> tuple[Array, tuple[tuple[int, int], ...]]:
    """Which private pool each block is of: 0 for none, else 1 + its place among those that occur."""
    of_pool = [entry.private for entry in tape.sides.pools]
    private = sorted({of_pool[index] for index in np.unique(pool) if index < len(of_pool)} - {None})
    number = np.array([0 if name is None else 1 + private.index(name) for name in of_pool] or [0], "u4")
    return number[np.minimum(pool, len(number) - 1)], tuple(name for name in private if name is not None)
