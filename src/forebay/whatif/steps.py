"""steps: a tape's memory rows as steps for the emulated allocator: who asked for what, who let go when, and what was recorded.

How a step is served is native/emulate's; whether the outcome is the recorded one calibrate.py's. Everything here is columns: no
Python object an event.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from forebay._core import allocator
from forebay._core.allocator import SegmentAction, Step
from forebay.errors import BadInput
from forebay.sources.heap_state import HeapState
from forebay.tape import Kind, Sees, Tape

__all__ = [
    "Segments",
    "Steps",
    "devices",
    "flushed_before_refusal",
    "freed_at_request",
    "freed_later",
    "steps_of",
    "with_bursts",
]

Array = NDArray[Any]
_LIFE: Final = (Kind.alloc, Kind.free, Kind.reclaim)
_GIVEN_BACK: Final = (Kind.release, Kind.unmap)
_ACTIONS: Final = {
    Kind.reserve: SegmentAction.alloc,
    Kind.release: SegmentAction.free,
    Kind.map: SegmentAction.map,
    Kind.unmap: SegmentAction.unmap,
}
_A_STEP: Final = ("step", "handle", "place", "bytes", "row")  # the columns of Steps with a value a step
_KINDS: Final = (*_LIFE, *_ACTIONS, Kind.oom, Kind.flush)


@dataclass(frozen=True, slots=True)
class Segments:
    """The driver calls that a recording shows, in order: `action` (SegmentAction), address, size in bytes, row of the tape."""

    action: Array
    address: Array
    size: Array
    row: Array

    def made(self) -> Array:
        """Which of them took memory from the driver."""
        return np.isin(self.action, (int(SegmentAction.alloc), int(SegmentAction.map)))

    def whole(self) -> Array:
        """Which of them are segments of their own, up to the first that was given back: they show how addresses are handed out."""
        alloc: Array = np.equal(self.action, int(SegmentAction.alloc))
        freed = np.flatnonzero(self.action == int(SegmentAction.free))
        alloc[freed[0] if len(freed) else len(alloc) :] = False
        return alloc


@dataclass(frozen=True, slots=True)
class Steps:
    """One device's history. `step handle place bytes row` have a value a step; `row` is the tape's row, -1 before its first.

    Handles number the allocations. `place` indexes `places`, pairs of (pool, stream handle); pool 0 is the default one, pool i > 0
    the framework's private pool `private[i - 1]`. `address` is what the recording gave each handle, `pool` and `site` are each
    handle's own (`site` 0 where the tape has none). `refused` handles no allocation: the recorded run could not serve it.
    """

    step: Array
    handle: Array
    place: Array
    bytes: Array
    row: Array
    places: tuple[tuple[int, int], ...]
    private: tuple[tuple[int, int], ...]
    address: Array
    site: Array
    segments: Segments
    pressed: Array  # rows of requests that were refused or, as far as sites tell, gave memory back before they were served
    opening: int = 0  # steps before the tape's first row: what was live when it begins
    traits: tuple[tuple[bool, bool], ...] = ((False, False),)  # of each pool: hands out whole blocks, lends at an OOM

    def native(self) -> allocator.History:
        """The same for the emulated allocator. Raises BadInput where a step makes no sense."""
        try:
            return allocator.History(
                step=self.step,
                handle=self.handle,
                place=self.place,
                bytes=self.bytes,
                handles=len(self.address),
                places=list(self.places),
                pools=list(self.traits),
            )
        except ValueError as error:
            raise BadInput(f"this history cannot be replayed: {error}") from None

    def head(self, end: int) -> Steps:
        """Its first `end` steps."""
        return replace(self, **{name: getattr(self, name)[:end] for name in _A_STEP})

    def requested_live(self) -> Array:
        """Requested bytes of live and pending blocks after each step (i8): no allocator can hold less."""
        size = np.zeros(len(self.address), "i8")
        asks = self.step == int(Step.alloc)
        size[self.handle[asks]] = self.bytes[asks]
        change = np.zeros(len(self.step), "i8")
        change[asks] = self.bytes[asks]
        ends = np.isin(self.step, (int(Step.free), int(Step.complete)))
        change[ends] = -size[self.handle[ends]]
        return np.cumsum(change)


def devices(tape: Tape) -> list[int]:
    """The devices that have a history in the tape: at least one request, served or refused; in order."""
    rows = tape.where(Kind.alloc, Kind.oom)
    return sorted({int(d) for d in np.unique(tape.columns["device"][rows])}) if tape.has("device") else [0] if len(rows) else []


@dataclass(frozen=True, slots=True)
class _Rows:
    """The rows of one device's memory, those before the tape's first (row -1) included: a column each."""

    row: Array
    kind: Array
    address: Array
    size: Array
    requested: Array
    stream: Array
    pool: Array
    site: Array


def _rows(tape: Tape, device: int, before: HeapState) -> _Rows:
    """What the tape says, behind an alloc (and a free where it waits) for each block that was there before."""
    at, old = _memory_rows(tape, device), before.device(device).blocks
    waiting = old[old["pending"] != 0]
    first = np.array([int(Kind.alloc)] * len(old) + [int(Kind.free)] * len(waiting), "u1")

    def column(name: str) -> Array:
        told = tape.columns[name][at] if tape.has(name) else np.zeros(len(at), "u8")
        return np.concatenate([old[name], waiting[name], told]).astype("u8") if len(old) else told

    return _Rows(
        np.concatenate([np.full(len(first), -1), at]),
        np.concatenate([first, tape.columns["kind"][at]]),
        *(column(name) for name in ("address", "size", "requested", "stream", "pool", "site")),
    )


def _memory_rows(tape: Tape, device: int) -> Array:
    rows = tape.where(*_KINDS)
    if tape.has("device"):
        rows = rows[tape.columns["device"][rows] == device]
    host = [i for i, pool in enumerate(tape.sides.pools) if pool.space != "device"]
    if host and tape.has("pool"):
        in_blocks = np.isin(tape.columns["kind"][rows], [int(kind) for kind in _LIFE])
        rows = rows[~(in_blocks & np.isin(tape.columns["pool"][rows], host))]
    return rows


def _is(kinds: Array, *wanted: Kind) -> Array:
    return np.isin(kinds, [int(kind) for kind in wanted])


def _lives(kind: Array, address: Array) -> tuple[Array, Array]:
    """Of each row: the number of the allocation that it is about (-1 where the tape does not show it), and its turn in that
    allocation's life (0 the alloc, 1 the next row about it, ...). Allocations are numbered in the order of their rows."""
    life = np.flatnonzero(_is(kind, *_LIFE))
    order = life[np.lexsort((life, address[life]))]
    is_alloc = kind[order] == int(Kind.alloc)
    at = np.arange(len(order))
    last = np.maximum.accumulate(np.where(is_alloc, at, -1)) if len(order) else at
    known = (last >= 0) & (address[order] == address[order[np.maximum(last, 0)]])
    number = np.full(len(kind), -1)
    number[np.flatnonzero(kind == int(Kind.alloc))] = np.arange(np.count_nonzero(kind == int(Kind.alloc)))
    handle, turn = np.full(len(kind), -1), np.zeros(len(kind), int)
    handle[order[known]] = number[order[last[known]]]
    turn[order] = at - last
    return handle, turn


def _next_of(mask: Array) -> Array:
    """Of each row the position of the next row of the mask, itself included; the length where there is none."""
    where = np.where(mask, np.arange(len(mask)), len(mask))
    return np.minimum.accumulate(where[::-1])[::-1]


def _after_retry(kind: Array, waits: Array) -> Array:
    """Positions of the rows, those of waiting reclaims that a request's own retry brought about moved behind that request.

    Note [Reclaims of a retry]: a request that finds nothing waits for every pending free, gives memory back and asks the driver
    again, but does not search again. In the recording those reclaims stand before the request. Left there, the replay would find
    the freed block, and the run that failed would not fail.
    """
    position = np.arange(len(kind), dtype="f8")
    asks = _next_of(_is(kind, Kind.alloc, Kind.oom))
    retried = _next_of(_is(kind, *_GIVEN_BACK, Kind.oom))
    program = _next_of(_is(kind, Kind.alloc, Kind.free, Kind.flush))
    moved = waits & (retried < program) & (asks < len(kind))
    position[moved] = asks[moved] + 0.5
    return position


def _bursts(kind: Array) -> Array:
    """The first row of each run of rows that give memory back, with no row of the program between them; what follows a flush is the
    flush's own."""
    back = np.flatnonzero(_is(kind, *_GIVEN_BACK))
    asked = _is(kind, Kind.alloc, Kind.free, Kind.oom, Kind.flush)
    program = np.cumsum(asked)
    first = np.ones(len(back), bool)
    first[1:] = program[back[1:]] != program[back[:-1]]
    last = np.maximum.accumulate(np.where(asked, np.arange(len(kind)), -1)) if len(kind) else program
    flushed = (last[back] >= 0) & (kind[np.maximum(last[back], 0)] == int(Kind.flush))
    firsts: Array = back[first & ~flushed]
    return firsts


def _private_pools(tape: Tape) -> tuple[Array, tuple[tuple[int, int], ...]]:
    """Of each entry of the table of pools its number here, and the private pools by number - 1."""
    private = sorted({pool.private for pool in tape.sides.pools if pool.private is not None})
    return np.array([0 if p.private is None else 1 + private.index(p.private) for p in tape.sides.pools], "u4"), tuple(private)


def _places(tape: Tape, rows: _Rows) -> tuple[Array, tuple[tuple[int, int], ...], tuple[tuple[int, int], ...]]:
    numbers, private = _private_pools(tape)
    stream = rows.stream.astype("i8")
    pool = numbers[rows.pool.astype("i8")].astype("i8") if len(numbers) and tape.has("pool") else np.zeros(len(stream), "i8")
    unique, place = np.unique(pool << 32 | stream, return_inverse=True)
    handles = [s.handle if s.handle is not None else i for i, s in enumerate(tape.sides.streams)]
    pairs = [(int(key) >> 32, int(key) & 0xFFFFFFFF) for key in unique]
    return place.astype("u4"), tuple((p, handles[s] if s < len(handles) else s) for p, s in pairs), private


def _judged_bursts(kind: Array, site: Array | None) -> tuple[Array, Array]:
    """The step that each burst is (255: the next request's own doing), at its row, and the positions of those requests.

    Where the tape has stacks they tell: a request that gives memory back does it under its own stack, empty_cache under another.
    """
    code, first = np.full(len(kind), 255, "u1"), _bursts(kind)
    code[first] = int(Step.burst)
    if site is None:
        return code, np.zeros(0, int)
    asks = np.append(_next_of(_is(kind, Kind.alloc, Kind.free, Kind.oom, Kind.flush)), len(kind))[first]
    kinds, sites = np.append(kind, 255), np.append(site, 0)
    own = _is(kinds[asks], Kind.alloc, Kind.oom) & (sites[asks] == site[first])
    code[first] = np.where(own, 255, int(Step.flush))
    return code, asks[own]


def _codes(kind: Array, handle: Array, turn: Array, *, reclaims: bool) -> tuple[Array, Array]:
    """The step that each row is (255 for none), and which reclaims wait: those that do not follow their free at once.
    `reclaims`: the tape shows when freed bytes may be used again, so that a block without a reclaim waits to the end."""
    code = np.full(len(kind), 255, "u1")
    code[kind == int(Kind.alloc)] = int(Step.alloc)
    code[kind == int(Kind.oom)] = int(Step.refused)
    code[kind == int(Kind.flush)] = int(Step.flush)
    known = handle >= 0
    first = known & (turn == 1) & _is(kind, Kind.free, Kind.reclaim)
    code[first] = int(Step.free)
    waits = known & (turn == 2) & (kind == int(Kind.reclaim))
    at_once = np.zeros(len(kind), bool)
    at_once[1:] = waits[1:] & first[:-1] & (handle[1:] == handle[:-1])
    waits &= ~at_once
    code[waits] = int(Step.complete)
    if reclaims or (kind == int(Kind.reclaim)).any():
        reclaimed = np.zeros(int(handle.max(initial=-1)) + 1, bool)
        reclaimed[handle[at_once]] = True
        code[first & (kind == int(Kind.free)) & ~reclaimed[handle]] = int(Step.request)
    return code, waits


def _recorded_segments(rows: _Rows) -> Segments:
    at = np.flatnonzero(_is(rows.kind, *_ACTIONS))
    table = np.zeros(256, "u1")
    for k, action in _ACTIONS.items():
        table[int(k)] = int(action)
    return Segments(table[rows.kind[at]], rows.address[at].astype("u8"), rows.size[at].astype("u8"), rows.row[at])


def steps_of(tape: Tape, device: int = 0, before: HeapState | None = None) -> Steps:
    """The history of one device. `before` is the heap before the first row: its blocks are allocated first, in the order of their
    addresses, since nobody knows the true one. Frees of allocations that are not known are left out.

    Where rows of the tape give memory back and no stack tells why, a `burst` stands: calibration finds out which of them were
    empty_cache.
    """
    rows = _rows(tape, device, before or HeapState())
    kind = rows.kind
    handle, turn = _lives(kind, rows.address)
    code, waits = _codes(kind, handle, turn, reclaims=Sees.RECLAIMS in tape.sees)
    burst, pressed = _judged_bursts(kind, rows.site if Sees.SITES in tape.sees and tape.has("site") else None)
    code = np.where(burst != 255, burst, code)
    place, places, private = _places(tape, rows)
    asked = np.where((rows.requested == 0) | (kind == int(Kind.oom)), rows.size, rows.requested)
    order = np.argsort(_after_retry(kind, waits), kind="stable")
    order = order[code[order] != 255]
    allocs = np.flatnonzero(kind == int(Kind.alloc))
    return Steps(
        step=code[order],
        handle=np.maximum(handle[order], 0).astype("u4"),
        place=place[order],
        bytes=asked[order].astype("u8"),
        row=rows.row[order],
        places=places,
        private=private,
        address=rows.address[allocs].astype("u8"),
        site=rows.site[allocs].astype("u4"),
        segments=_recorded_segments(rows),
        pressed=np.union1d(rows.row[pressed], rows.row[kind == int(Kind.oom)]),
        opening=int(np.count_nonzero(rows.row[order] < 0)),
        traits=((False, False),) * (1 + len(private)),
    )


def _kept(steps: Steps, keep: Array) -> Steps:
    return replace(steps, **{name: getattr(steps, name)[keep] for name in _A_STEP})


def with_bursts(steps: Steps, flushes: Array) -> Steps:
    """The history with each burst, in order, either a flush (1) or, where a request gave memory back by itself, gone (0)."""
    code = steps.step.copy()
    code[code == int(Step.burst)] = np.where(flushes, int(Step.flush), 255)
    return _kept(replace(steps, step=code), code != 255)


def freed_at_request(steps: Steps) -> Steps:
    """The history as if no free had to wait for another stream: what record_stream costs is the difference."""
    code = steps.step.copy()
    code[code == int(Step.request)] = int(Step.free)
    return _kept(replace(steps, step=code), code != int(Step.complete))


def freed_later(steps: Steps, requests: int) -> Steps:
    """The history as if each free that waits for another stream had been found complete so many requests later."""
    asks = np.isin(steps.step, (int(Step.alloc), int(Step.refused)))
    at, seen = np.append(np.flatnonzero(asks), len(asks)), np.cumsum(asks)
    position = np.arange(len(asks), dtype="f8")
    waits = np.flatnonzero(steps.step == int(Step.complete))
    position[waits] = at[np.minimum(seen[waits] + requests, len(at) - 1)] - 0.5
    return _kept(steps, np.argsort(position, kind="stable"))


def flushed_before_refusal(steps: Steps) -> Steps:
    """The history with torch.cuda.empty_cache right before the first request that was refused; itself where none was."""
    refused = np.flatnonzero(steps.step == int(Step.refused))
    if not len(refused):
        return steps
    at = int(refused[0])
    flush = {"step": int(Step.flush), "handle": 0, "place": 0, "bytes": 0, "row": steps.row[at]}
    columns: dict[str, Any] = {name: np.insert(getattr(steps, name), at, value) for name, value in flush.items()}
    return replace(steps, **columns)
