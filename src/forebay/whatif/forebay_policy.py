"""forebay_policy: a history through our own pool, over a simulated device: the pool that a live program uses, over another driver.

The pool grows by frames, as a device with virtual memory management lets it. The replay itself is native/pool/replay.hpp.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from forebay._core.driver import FaultyDriver, SimDriver
from forebay._core.pool import GrowBy, Move, Replay
from forebay.whatif.history import History, Op

__all__ = ["Need", "through_our_pool"]

Array = NDArray[Any]
_CHUNK: Final = 1 << 16  # moves
_BOUNDLESS: Final = 1 << 60  # bytes of a device that no history fills
_MOST_FRAMES: Final = 1 << 40  # bytes: half a million frames; what asks for more comes from no device, and goes by segments
_MEMORY_CALLS: Final = ("malloc", "free", "reserve_range", "release_range", "create", "release", "map", "set_access", "unmap")


@dataclass(frozen=True, slots=True)
class Need:
    """What a policy needed for a history; of several devices sums, but the largest free block is the largest of any.

    `peak_allocated_bytes` counts a block, rounding included, from its request until the program let go of it, `peak_active_bytes`
    until its bytes may be used again. `oom_row` is the tape's row of the first request that failed; the run goes on without its block.
    `driver_allocs` counts growths, however many frames each mapped, `driver_calls` every call that the driver saw for memory. `growth`
    is how the pools grew, "frames" or "segments".
    """

    peak_reserved_bytes: int
    peak_allocated_bytes: int
    peak_active_bytes: int
    largest_free_bytes: int
    driver_allocs: int
    driver_frees: int
    ooms: int
    oom_row: int | None
    driver_calls: int
    growth: str


def through_our_pool(histories: Iterable[History], cap: int | None, advance: Callable[[float], None]) -> Need:
    """Runs each device's history over a simulated device of `cap` bytes, or of more than it can need.

    Blocks of each private pool get a pool of their own. With a cap, requests that failed when recorded are tried too.
    """
    each = list(histories)
    total = sum(map(len, each))
    needs, done = [], 0
    for history in each:
        needs.append(_one(history, cap, lambda moves, before=done: advance((before + moves) / total)))  # type: ignore[misc]
        done += len(history)
    return _together(needs)


def _one(history: History, cap: int | None, advance: Callable[[int], None]) -> Need:
    operation = _served(history, attempts=cap is not None)
    op = history.op[operation]
    move = np.full(len(op), int(Move.alloc), "u1")
    move[op == Op.FREE] = int(Move.let_go)
    move[op == history.reuse] = int(Move.free)
    again = np.flatnonzero((history.op[operation[:-1]] == Op.ATTEMPT) & (operation[1:] == operation[:-1])) + 1
    move[again] = int(Move.free)
    block = history.block[operation]
    columns = (move, block.astype("u8"), history.requested[block], history.stream[block], history.group[block])
    growth, driver = _growth(history, op, block), FaultyDriver(SimDriver([cap or _BOUNDLESS]))
    replay = Replay(driver, 0, limits=[None] * (1 + len(history.private)), growth=growth)
    for start in range(0, len(operation), _CHUNK):
        replay.feed(*(np.ascontiguousarray(column[start : start + _CHUNK]) for column in columns))
        advance(start)
    calls = driver.counts()
    return _need(replay.outcome(), history, operation, sum(calls.get(name, 0) for name in _MEMORY_CALLS), growth)


def _growth(history: History, op: Array, block: Array) -> GrowBy:
    size = history.requested[block].astype("f8")
    held = np.cumsum(np.where(op == Op.ALLOC, size, 0) - np.where(op == history.reuse, size, 0))
    most = (held + np.where(op == Op.ATTEMPT, size, 0)).max(initial=0)
    return GrowBy.frames if most <= _MOST_FRAMES else GrowBy.segments


def _served(history: History, *, attempts: bool) -> Array:
    """The operations that the pool sees, in order; an attempt twice, since it is let go at once."""
    ends = (Op.ALLOC, Op.FREE, history.reuse)
    seen = np.isin(history.op, (*ends, Op.ATTEMPT) if attempts else ends)
    operation = np.flatnonzero(seen)
    return np.repeat(operation, np.where(history.op[operation] == Op.ATTEMPT, 2, 1))


def _need(outcome: Any, history: History, operation: Array, calls: int, growth: GrowBy) -> Need:
    return Need(
        peak_reserved_bytes=outcome.peak_reserved,
        peak_allocated_bytes=outcome.peak_allocated,
        peak_active_bytes=outcome.peak_active,
        largest_free_bytes=outcome.largest_free_at_end,
        driver_allocs=outcome.driver_allocs,
        driver_frees=outcome.driver_frees,
        ooms=outcome.ooms,
        oom_row=None if outcome.oom_event is None else history.row_of(int(operation[outcome.oom_event])),
        driver_calls=calls,
        growth=growth.name,
    )


def _together(needs: list[Need]) -> Need:
    rows = [need.oom_row for need in needs if need.oom_row is not None]
    return Need(
        peak_reserved_bytes=sum(need.peak_reserved_bytes for need in needs),
        peak_allocated_bytes=sum(need.peak_allocated_bytes for need in needs),
        peak_active_bytes=sum(need.peak_active_bytes for need in needs),
        largest_free_bytes=max(need.largest_free_bytes for need in needs),
        driver_allocs=sum(need.driver_allocs for need in needs),
        driver_frees=sum(need.driver_frees for need in needs),
        ooms=sum(need.ooms for need in needs),
        oom_row=min(rows, default=None),
        driver_calls=sum(need.driver_calls for need in needs),
        growth="frames" if any(need.growth == "frames" for need in needs) else "segments",
    )
