"""heap_evidence: a tape's evidence: the heap of each device at its first refusal, or at its end, and what the run did before.

Figures that a single moment does not have are run_evidence.py's; judging them is cause.py's and the incidents'.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from forebay.doctor.evidence import Broken, Evidence, Held, Run, outside_pools
from forebay.doctor.run_evidence import rounds_of, run_of
from forebay.errors import BadInput
from forebay.sources.heap_state import HeapState
from forebay.sources.log_formats import CAPTURE_ERRORS
from forebay.sources.torch_snapshot import Snapshot, event_of
from forebay.tape import Kind, Sees, Tape
from forebay.views.census import Census, census
from forebay.views.heap import state_after
from forebay.views.pool_memory import pool_memory
from forebay.views.walkback import walkback

__all__ = ["from_tape"]

Array = NDArray[Any]
_SMALL: Final = 2**20  # bytes: PyTorch's requests up to here come from the small pool
_CONSEQUENCE: Final = 901  # of the errors of a capture: an earlier call broke it
_FREE: Final = frozenset({"free", "device_free"})  # names of capacity rows


class _Parts(NamedTuple):
    """Figures of Evidence, where the driver's rows are there to count them."""

    reserved: int | None = None
    allocated: int | None = None
    idle: int | None = None
    pending: int | None = None
    private: int | None = None
    private_live: int | None = None
    elsewhere: int | None = None
    own: int | None = None


class _Moment(NamedTuple):
    """A device at a row of the rows of pools' memory; `pool` is the one that refused, where that is one of ours."""

    tape: Tape
    device: int
    row: int
    refused: bool
    stream: int | None
    pool: int | None


def from_tape(tape: Tape) -> list[Evidence]:
    """The evidence of each device that the tape shows: that of the first refusal first, then those that hold most."""
    memory = pool_memory(tape)
    try:
        start, whole = walkback(memory).state, True
    except BadInput:
        start, whole = HeapState(), False
    end = state_after(memory, len(memory) - 1, start) if len(memory) else start
    devices = _devices(memory, end)
    found = [_evidence(_moment(memory, device), start, whole=whole, devices=len(devices)) for device in devices]
    broken, rounds = _broken(tape), rounds_of(tape)
    found[0] = replace(found[0], capture=broken, rounds=rounds)  # of the program, not of a device
    return sorted(found, key=lambda e: (e.row is None, e.row if e.row is not None else -(e.reserved or 0)))


def _broken(tape: Tape) -> Broken | None:
    """The first error of a capture; one that is only a consequence of another gives way to it."""
    if not tape.has("status"):
        return None
    code = np.where(tape.knows("status"), tape.columns["status"], 0)
    rows = np.flatnonzero((code >= min(CAPTURE_ERRORS)) & (code <= max(CAPTURE_ERRORS)))
    if not len(rows):
        return None
    causes = rows[code[rows] != _CONSEQUENCE]
    row = int(causes[0] if len(causes) else rows[0])
    site = int(tape.columns["site"][row]) if tape.has("site") else None
    return Broken(int(code[row]), *CAPTURE_ERRORS[int(code[row])], row=_event(tape, row), site=site)


def _devices(tape: Tape, end: HeapState) -> list[int]:
    rows = tape.where(Kind.alloc, Kind.oom)
    told = tape.columns["device"][rows] if tape.has("device") else np.zeros(len(rows), "i2")
    return np.unique(np.concatenate([told, end.segments["device"], end.blocks["device"]])).astype(int).tolist() or [0]


def _moment(tape: Tape, device: int) -> _Moment:
    ooms = tape.where(Kind.oom)
    if tape.has("device"):
        ooms = ooms[tape.columns["device"][ooms] == device]
    if not len(ooms):
        return _Moment(tape, device, _last_row(tape, device), False, None, None)
    row = int(ooms[0])
    stream = int(tape.columns["stream"][row]) if tape.has("stream") and tape.knows("stream")[row] else None
    pool = int(tape.columns["pool"][row]) if tape.has("pool") and tape.knows("pool")[row] else None
    if pool is not None and (pool >= len(tape.sides.pools) or tape.sides.pools[pool].trusted):
        pool = None  # PyTorch's pools all end at the same limits
    return _Moment(tape, device, row, True, stream, pool)


def _last_row(tape: Tape, device: int) -> int:
    """The end: of a snapshot when it was taken; of a program that ended the last request, before it let go of everything."""
    allocs = tape.where(Kind.alloc)
    if tape.has("device"):
        allocs = allocs[tape.columns["device"][allocs] == device]
    return len(tape) - 1 if isinstance(tape, Snapshot) or not len(allocs) else int(allocs[-1])


def _evidence(at: _Moment, start: HeapState, *, whole: bool, devices: int) -> Evidence:
    tape, row = at.tape, at.row
    state = _state(tape, row, start).device(at.device)
    count = census(state)
    request = int(tape.columns["size"][row]) if at.refused else None
    room = _room(at)
    driver = Sees.SEGMENTS in tape.sees or len(state.segments) > 0
    idle = _idle(state)
    parts = _parts(at, count, request or 0, room.get("limit")) if driver else _stated(state, room)
    held = (
        Held(state.reserved, state.allocated, idle, state.pending)
        if driver
        else Held(parts.reserved, parts.allocated, parts.idle)
    )
    pinned, pinned_requested = _pins(tape)
    run = run_of(tape, at.device, start) if Sees.ALLOCS in tape.sees else None
    return Evidence(
        device=at.device,
        devices=devices,
        framework="forebay" if tape.provenance.get("source") == "forebay.runtime" else "pytorch",
        refused=at.refused,
        row=_event(tape, row) if at.refused else None,
        request=request,
        request_signed=request - 2**64
        if request is not None and request >= 2**63
        else None,  # negative, taken for an unsigned number
        free=room.get("free"),
        total=room.get("total"),
        allowed=room.get("limit"),
        **parts._asdict(),
        releasable=count.releasable if driver else None,
        largest_free=_largest_for(at, count, request or 0) if driver else None,
        held=held,
        outside=outside_pools(room.get("used by this process"), held.reserved),
        pinned=pinned,
        pinned_requested=pinned_requested,
        whole=whole,
        census=count if driver else None,
        run=run,
        peak=int(run.steps.requested_live().max(initial=0)) if run is not None else None,
        peak_reserved=_peak_reserved(run, start.device(at.device)) if run is not None and Sees.SEGMENTS in tape.sees else None,
        tape=tape,
    )


def _state(tape: Tape, row: int, start: HeapState) -> HeapState:
    """The heap after a row. At its end a snapshot says itself what is there, whatever its history leads to."""
    if isinstance(tape, Snapshot) and row == len(tape) - 1:
        return tape.final
    return state_after(tape, row, start) if len(tape) else start


def _idle(state: HeapState) -> int:
    """What no live block covers; nothing where blocks lie outside of the segments that are known."""
    return max(0, state.reserved - state.active + state.pending)


def _peak_reserved(run: Run, start: HeapState) -> int:
    segments = run.steps.segments
    change = np.where(segments.made(), 1, -1) * segments.size.astype("i8")
    return start.reserved + int(np.cumsum(change).max(initial=0))


def _event(tape: Tape, row: int) -> int:
    return int(tape.picked[row]) if tape.picked is not None else event_of(tape, row)


def _room(at: _Moment) -> dict[str, int]:
    """What rows of capacity say: of the device's total and a limit wherever they stand, of what was free at the refusal, or
    last before it."""
    tape, told = at.tape, {}
    for row in tape.where(Kind.capacity).tolist():
        name = tape.sides.strings[int(tape.columns["name"][row])] if tape.has("name") else ""
        if tape.has("device") and tape.knows("device")[row] and int(tape.columns["device"][row]) != at.device:
            continue
        if name in _FREE:
            name = "free"
            alone = (
                Sees.ALLOCS not in tape.sees and Sees.SEGMENTS not in tape.sees
            )  # a line of a log: all of it is about the refusal
            if not at.refused or not (alone or row < at.row or _caused(tape, row, at.row)):
                continue
        if name == "limit" and _pool_of(tape, row) not in (None, at.pool):
            continue
        told[name] = int(tape.columns["size"][row])
    return told


def _caused(tape: Tape, row: int, refusal: int) -> bool:
    if not tape.has("cause") or not tape.knows("cause")[row]:
        return False
    return int(tape.columns["cause"][row]) == (int(tape.picked[refusal]) if tape.picked is not None else refusal)


def _pool_of(tape: Tape, row: int) -> int | None:
    return int(tape.columns["pool"][row]) if tape.has("pool") and tape.knows("pool")[row] else None


def _parts(at: _Moment, count: Census, request: int, limit: int | None) -> _Parts:
    """Where the bytes lie: of the whole device, or, where a pool of ours refused, of that pool, and of the others what it could have
    been given below its limit."""
    state, idle = count.state, count.segment_free
    private = _private_segments(at.tape, state)
    stream = at.stream if at.stream is not None else _busiest(state)
    away = (state.segments["stream"] != stream) & ~private
    if not at.refused:
        away = ~np.isin(state.segments["stream"], _in_use(at)) & ~private
    if at.pool is None:
        ours = any(not pool.trusted and pool.kind is not None for pool in at.tape.sides.pools)
        untold = not at.refused and (ours or Sees.ALLOCS not in at.tape.sees)  # nobody sees which streams are still in use
        return _Parts(
            reserved=state.reserved,
            allocated=state.allocated,
            idle=_idle(state),
            pending=state.pending,
            private=int(idle[private].sum()),
            private_live=int(count.segment_live[private].sum()),
            # Note [Who may use another stream's cache]: PyTorch's pools never do; ours do once that stream got so far.
            elsewhere=None if untold else int(idle[away].sum()),
            own=int(idle[~private & ~away].sum()),
        )
    mine = state.segments["pool"] == at.pool
    blocks = state.blocks[state.blocks["pool"] == at.pool]
    reserved, active = int(state.segments["size"][mine].sum()), int(blocks["size"].sum())
    pending = int(blocks["size"][blocks["pending"] != 0].sum())
    stranded = mine & away & (count.segment_largest_free >= request)
    beside = ~mine if limit is None or reserved + request <= limit else np.zeros(len(mine), bool)
    elsewhere = int(idle[stranded | beside].sum())
    return _Parts(
        reserved=reserved,
        allocated=active - pending,
        idle=int(idle[mine | beside].sum()) + pending,
        pending=pending,
        private=0,
        private_live=0,
        elsewhere=elsewhere,
        own=int(idle[mine & ~stranded].sum()),
    )


def _stated(state: HeapState, room: dict[str, int]) -> _Parts:
    """What is known without the driver's rows: the live bytes, or what rows of capacity say of the allocator."""
    reserved, allocated = room.get("reserved"), room.get("allocated", state.allocated)
    return _Parts(reserved=reserved, allocated=allocated, idle=None if reserved is None else max(0, reserved - allocated))


def _in_use(at: _Moment) -> Array:
    """The streams that still allocated in the later half of the requests: their cache is a cache."""
    tape = at.tape
    allocs = tape.where(Kind.alloc)
    if tape.has("device"):
        allocs = allocs[tape.columns["device"][allocs] == at.device]
    later = allocs[len(allocs) // 2 :]
    return np.unique(tape.columns["stream"][later]) if tape.has("stream") else np.zeros(0, "u4")


def _largest_for(at: _Moment, count: Census, request: int) -> int:
    """The largest free block that this request could have been given: of its own stream, and of its size's pool; without a request the
    largest of all."""
    if not at.refused:
        return count.largest_free
    segments, pools = count.state.segments, at.tape.sides.pools
    mine = segments["stream"] == at.stream if at.stream is not None else np.ones(len(segments), bool)
    if at.pool is not None:
        mine = segments["pool"] == at.pool
    elif any(pool.kind in ("small", "large") for pool in pools):
        kind = "small" if request <= _SMALL else "large"
        fits = np.array([pool.kind == kind and pool.private is None for pool in pools] + [False], bool)
        mine &= fits[np.minimum(segments["pool"], len(fits) - 1)]
    return int(count.segment_largest_free[mine].max(initial=0))


def _private_segments(tape: Tape, state: HeapState) -> Array:
    private = np.array([pool.private is not None for pool in tape.sides.pools] + [False], bool)
    return private[np.minimum(state.segments["pool"], len(private) - 1)] if len(state.segments) else np.zeros(0, bool)


def _busiest(state: HeapState) -> int:
    """The stream that holds most live bytes, or, where nothing is live, most segments."""
    held = state.blocks if len(state.blocks) else state.segments
    return int(np.argmax(np.bincount(held["stream"], weights=held["size"].astype("f8")))) if len(held) else -1


def _pins(tape: Tape) -> tuple[int | None, int | None]:
    rows = tape.where(Kind.pin)
    if not len(rows):
        return None, None
    return int(tape.columns["size"][rows].sum()), int(tape.columns["requested"][rows].sum()) if tape.has("requested") else None
