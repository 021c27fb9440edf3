"""own_history: a tape of our own runtime as the moves of its pools, with what those pools were: how they grow, their limits, what the
device had. How the moves go through other pools is own_policy.py's.

Pages of a paged pool come from one reservation, whatever happens: it is taken off the device, and its pages are no moves.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from forebay._core.pool import GrowBy, Move
from forebay.tape import Kind, Tape
from forebay.whatif.history import Op, blocks_of

__all__ = ["Own", "OwnPool", "is_own", "own_histories"]

Array = NDArray[Any]
_OPS: Final = {Kind.alloc: Op.ALLOC, Kind.free: Op.FREE, Kind.oom: Op.ATTEMPT}
_TAKES: Final = (Kind.reserve, Kind.map)


@dataclass(frozen=True, slots=True)
class OwnPool:
    """A pool as it was recorded: bytes of its limit, None where the tape does not tell (only a refusal does); whether other pools could
    not have its idle memory, which no tape tells."""

    name: str
    growth: GrowBy
    limit: int | None = None
    keeps: bool = False


@dataclass(frozen=True, slots=True)
class Own:
    """One device's moves, n of them: `move` (Move), `block` (its number), `bytes`, `stream`, `pool` (index into `pools`), `site`, `row`
    (of the tape). A request that was refused is an alloc, in `refused` by position. `capacity`: what the device had for these pools, None
    where no refusal shows it; `fixed`: bytes of it that paged pools hold."""

    device: int
    move: Array
    block: Array
    bytes: Array
    stream: Array
    pool: Array
    site: Array
    row: Array
    refused: Array
    pools: tuple[OwnPool, ...]
    capacity: int | None
    fixed: int

    def picked(self, keep: Array) -> Own:
        """Some of the moves, in order."""
        at = np.flatnonzero(keep)
        refused = np.flatnonzero(np.isin(at, self.refused))
        names = ("move", "block", "bytes", "stream", "pool", "site", "row")
        return replace(self, **{name: getattr(self, name)[at] for name in names}, refused=refused)

    def kept(self) -> Array:
        """Which moves are of blocks that are still held at the first refusal, or at the end."""
        end = int(self.refused[0]) if len(self.refused) else len(self.move)
        gone = np.zeros(int(self.block.max(initial=-1)) + 1, bool)
        gone[self.block[:end][self.move[:end] == int(Move.free)]] = True
        return (
            ~gone[self.block]
            & np.isin(self.move, (int(Move.alloc), int(Move.free)))
            & ~np.isin(self.block, self.block[self.refused])
        )


def is_own(tape: Tape) -> bool:
    """Whether our own runtime recorded it."""
    return bool(tape.provenance.get("source") == "forebay.runtime")


def own_histories(memory: Tape) -> list[Own]:
    """The moves of each device that has any, up to its last request: what a program lets go of at its end no pool has to serve. `memory`
    are the rows of pools' memory, from the program's beginning on."""
    asks = memory.where(Kind.alloc, Kind.oom)
    device = memory.columns["device"] if memory.has("device") else np.zeros(len(memory), "i2")
    return [_of(memory, int(number), np.flatnonzero(device == number)) for number in np.unique(device[asks])]


def _of(memory: Tape, device: int, mine: Array) -> Own:
    kind = memory.columns["kind"]
    paged = np.array([pool.kind == "paged" for pool in memory.sides.pools] + [False], bool)
    pool = memory.columns["pool"] if memory.has("pool") else np.full(len(memory), len(paged) - 1, "u4")
    of_pages = paged[np.minimum(pool, len(paged) - 1)] & (memory.knows("pool") if memory.has("pool") else False)
    ops = mine[np.isin(kind[mine], [int(k) for k in (*_OPS, Kind.flush)]) & ~of_pages[mine]]
    asks = ops[np.isin(kind[ops], (int(Kind.alloc), int(Kind.oom)))]
    ops = ops[ops <= (asks[-1] if len(asks) else -1)]
    op = np.array([int(_OPS.get(Kind(int(k)), Op.RECLAIM)) for k in kind[ops]], "u1")  # a trim is no block's
    block, known = blocks_of(op, memory.columns["address"][ops])
    trim = kind[ops] == int(Kind.flush)
    ops, op, block, trim = (column[known | trim] for column in (ops, op, block, trim))
    again = op == Op.ATTEMPT  # served, it is let go at once
    repeat = np.where(again, 2, 1)
    second = np.zeros(int(repeat.sum()), bool)
    second[(np.cumsum(repeat) - 1)[again]] = True
    ops, op, block, trim = (np.repeat(column, repeat) for column in (ops, op, block, trim))
    move = np.where(trim, int(Move.trim), np.where((op == Op.FREE) | second, int(Move.free), int(Move.alloc))).astype("u1")
    fixed = int(memory.columns["size"][mine[of_pages[mine] & np.isin(kind[mine], [int(k) for k in _TAKES])]].sum())
    asked = memory.columns["size"][ops].astype("u8")
    if memory.has("requested"):
        asked = np.where(memory.columns["requested"][ops] > 0, memory.columns["requested"][ops], asked)
    return Own(
        device=device,
        move=move,
        block=np.where(trim, 0, block.astype("i8")),  # of a trim it is nobody's
        bytes=asked,
        stream=memory.columns["stream"][ops] if memory.has("stream") else np.zeros(len(ops), "u4"),
        pool=pool[ops],
        site=memory.columns["site"][ops] if memory.has("site") else np.zeros(len(ops), "u4"),
        row=ops,
        refused=np.flatnonzero((op == Op.ATTEMPT) & ~second),
        pools=_pools(memory, device),
        capacity=_capacity(memory, device, fixed),
        fixed=fixed,
    )


def _told(memory: Tape, name: str, device: int) -> Array:
    """The rows of capacity of this name."""
    rows = memory.where(Kind.capacity)
    if memory.has("device"):
        rows = rows[memory.columns["device"][rows] == device]
    return np.array([row for row in rows if memory.sides.strings[int(memory.columns["name"][row])] == name], int)


def _pools(memory: Tape, device: int) -> tuple[OwnPool, ...]:
    limits = {int(memory.columns["pool"][row]): int(memory.columns["size"][row]) for row in _told(memory, "limit", device)}
    return tuple(
        OwnPool(pool.name, GrowBy.frames if pool.kind == "frames" else GrowBy.segments, limits.get(number))
        for number, pool in enumerate(memory.sides.pools)
    )


def _capacity(memory: Tape, device: int, fixed: int) -> int | None:
    """What the pools had and what was free at the first refusal, together: the rest of the device is others'."""
    free = _told(memory, "free", device)
    if not len(free):
        return None
    row = int(free[0])
    mine = memory.columns["device"][:row] == device if memory.has("device") else np.ones(row, bool)
    change = np.zeros(row, "i8")
    for kinds, sign in ((_TAKES, 1), ((Kind.release, Kind.unmap), -1)):
        change[np.isin(memory.columns["kind"][:row], [int(k) for k in kinds])] = sign
    held = int((change * memory.columns["size"][:row].astype("i8"))[mine].sum())
    return held + int(memory.columns["size"][row]) - fixed
