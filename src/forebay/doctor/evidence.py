"""evidence: the figures of one moment that incidents are judged by, from a heap or from one line of a log. None is "not known".

Which figures make which incident is the incidents' matter; a request's cause is cause.py's.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forebay._core import emulate
from forebay._core.allocator import SegmentAction, Step
from forebay.errors import BadInput
from forebay.finding import Site
from forebay.sources.heap_state import HeapState
from forebay.sources.log_text import OutOfMemory
from forebay.sources.torch_snapshot import event_of
from forebay.tape import Kind, Sees, Tape
from forebay.views.census import Census, census
from forebay.views.heap import state_after
from forebay.views.walkback import walkback
from forebay.whatif.settings import AllocatorSettings, recorded
from forebay.whatif.steps import Steps, steps_of

__all__ = ["Evidence", "Run", "from_line", "from_tape"]

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Run:
    """What the history did, of one device: counts, and bytes. `flush_sites` are the stacks of empty_cache calls."""

    steps: Steps
    settings: AllocatorSettings
    flushes: int
    flushed_bytes: int
    presses: int  # requests that gave memory back before they were served or refused
    driver_allocs: int
    driver_frees: int
    flush_sites: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Evidence:
    """One moment of one device. Sizes in bytes.

    `row` is the refusal as the artifact itself counts its events. `request` is what was refused, None where nothing was; `refused`
    whether something was. `free` is what the driver had free, `total` what the device has, `allowed` the process's cap. `reserved` is
    held from the driver; `idle` the part of it that no live block covers, pending frees included. Of the idle bytes: `pending` wait for
    events; `private` lie in private pools; `elsewhere` on other streams than the request's (without one: than the busiest); `own` are
    the rest. `others` is held by other processes, `outside` by this one beyond its pools.
    """

    device: int = 0
    framework: str = "pytorch"
    refused: bool = False
    row: int | None = None
    request: int | None = None
    request_signed: int | None = None
    free: int | None = None
    total: int | None = None
    allowed: int | None = None
    reserved: int | None = None
    allocated: int | None = None
    idle: int | None = None
    pending: int | None = None
    private: int | None = None
    private_live: int | None = None
    elsewhere: int | None = None
    own: int | None = None
    releasable: int | None = None
    largest_free: int | None = None
    others: int | None = None
    outside: int | None = None
    pinned: int | None = None
    pinned_requested: int | None = None
    host_call: bool = False
    census: Census | None = None
    run: Run | None = None
    tape: Tape | None = field(default=None, repr=False)

    def sites(self, numbers: list[int], most: int = 3) -> list[Site]:
        """The innermost frames of these stacks, as places in the program's source."""
        if self.tape is None:
            return []
        stacks = [self.tape.sides.sites.stack(n) for n in numbers[:most]]
        return [Site(stack[0].file, max(stack[0].line, 0), stack[0].function) for stack in stacks if stack]


def _run(tape: Tape, device: int, before: HeapState) -> Run:
    steps = steps_of(tape, device, before)
    told = tape.provenance.get("settings")
    segments = steps.segments
    freed = np.isin(segments.action, (int(SegmentAction.free), int(SegmentAction.unmap)))
    flush = steps.row[np.isin(steps.step, (int(Step.flush), int(Step.burst)))]
    ends = steps.row[np.isin(steps.step, (int(Step.alloc), int(Step.refused)))]
    size = np.where(freed, segments.size, 0)
    total = np.concatenate([[0], np.cumsum(size)])
    begin = np.searchsorted(segments.row, flush)
    until = np.searchsorted(segments.row, np.append(ends, np.iinfo("i8").max)[np.searchsorted(ends, flush)])
    gave_back = [row for row in steps.pressed.tolist() if _gave_back(segments.row[freed], steps.row, row)]
    sites = tape.columns["site"][flush].tolist() if len(flush) and tape.has("site") else []
    return Run(
        steps=steps,
        settings=recorded(told if isinstance(told, dict) else None),
        flushes=len(flush),
        flushed_bytes=int((total[until] - total[begin]).sum()),
        presses=len(gave_back),
        driver_allocs=int(segments.made().sum()),
        driver_frees=int(freed.sum()),
        flush_sites=tuple(dict.fromkeys(sites)),
    )


def _gave_back(freed_rows: Array, step_rows: Array, row: int) -> bool:
    """Whether a driver free stands between this request and what the program did before it."""
    earlier = step_rows[step_rows < row]
    last = int(earlier.max()) if len(earlier) else -1
    return bool(np.any((freed_rows > last) & (freed_rows < row)))


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


def _segment(tape: Tape, request: int) -> int:
    told = tape.provenance.get("settings")
    settings = recorded(told if isinstance(told, dict) else None).native()
    return emulate.segment_size(emulate.rounded_size(request, settings), settings) if request else 0


def _before(tape: Tape) -> HeapState:
    try:
        return walkback(tape).state
    except BadInput:
        return HeapState()


def from_tape(tape: Tape) -> Evidence:
    """The evidence at the first refusal, or at the end, of the device where it is (else of the one that holds most)."""
    ooms = tape.where(Kind.oom)
    row = int(ooms[0]) if len(ooms) else len(tape) - 1
    state = _state(tape, row)
    device = int(tape.columns["device"][row]) if len(ooms) and tape.has("device") else _fullest(state)
    state = state.device(device)
    count = census(state)
    private = _private_segments(tape, state)
    stream = int(tape.columns["stream"][row]) if len(ooms) and tape.has("stream") else _busiest(state)
    elsewhere = (state.segments["stream"] != stream) & ~private
    pinned, pinned_requested = _pins(tape)
    request = int(tape.columns["size"][row]) if len(ooms) else None
    free_known = len(ooms) and row > 0 and int(tape.columns["kind"][row - 1]) == int(Kind.capacity)
    live = count.segment_live[private]
    idle_of = count.segment_free
    return Evidence(
        device=device,
        refused=bool(len(ooms)),
        row=event_of(tape, row) if len(ooms) else None,
        request=request,
        free=int(tape.columns["size"][row - 1]) if free_known else None,
        reserved=state.reserved,
        allocated=state.allocated,
        idle=state.reserved - state.active + state.pending,
        pending=state.pending,
        private=int(idle_of[private].sum()),
        private_live=int(live.sum()),
        elsewhere=int(idle_of[elsewhere].sum()),
        own=int(idle_of[~private & ~elsewhere].sum()),
        releasable=count.releasable,
        largest_free=count.largest_free,
        pinned=pinned,
        pinned_requested=pinned_requested,
        census=count,
        run=_run(tape, device, _before(tape)) if Sees.ALLOCS in tape.sees else None,
        tape=tape,
    )


def _state(tape: Tape, row: int) -> HeapState:
    try:
        return state_after(tape, row) if len(tape) else HeapState()
    except BadInput:
        return HeapState()


def _fullest(state: HeapState) -> int:
    if not len(state.segments):
        return 0
    return int(np.argmax(np.bincount(state.segments["device"], weights=state.segments["size"].astype("f8"))))


def from_line(found: OutOfMemory) -> Evidence:
    """The evidence in one line of a log. A process that is shown by its number only (in a container) is this one where its bytes are
    nearest to what the allocator holds."""

    def stated(name: str) -> int | None:
        value = found.figures.get(name)
        return value if isinstance(value, int) else None

    allocated, idle = stated("allocated_bytes"), stated("reserved_unallocated_bytes")
    reserved = _first(stated("reserved_total_bytes"), stated("pool_current_bytes"), stated("allocator_bytes"))
    if reserved is None and allocated is not None:
        reserved = allocated + (idle or 0) + (stated("other_bytes") or 0)
    if idle is None and reserved is not None and allocated is not None:
        idle = max(0, reserved - allocated)
    others, process = _processes(found, reserved)
    total, used, beyond = stated("total_bytes"), stated("used_bytes"), stated("exceeded_bytes")
    rest = total - used if total is not None and used is not None and beyond is None else None
    return Evidence(
        device=stated("device") or 0,
        framework=found.framework,
        refused=True,
        # A compiler says what it needs in all, a server what it wants for its cache: what is beyond is the request.
        request=_first(stated("tried_bytes"), beyond, stated("desired_bytes"), stated("kv_needed_bytes")),
        request_signed=stated("tried_bytes_signed"),
        free=_first(stated("free_bytes"), rest, stated("kv_available_bytes"), 0 if beyond is not None else None),
        total=total if beyond is None else None,
        allowed=_first(stated("allowed_bytes"), stated("limit_bytes"), stated("pool_max_bytes")),
        reserved=reserved if reserved is not None else 0 if found.framework == "vllm" else None,
        allocated=allocated,
        idle=idle,
        private=stated("private_pool_bytes"),
        others=others,
        outside=max(0, process - reserved) if process is not None and reserved is not None else None,
        host_call=found.framework in ("pinned-host", "tensorflow-host", "pytorch-cpu"),
    )


def _first(*values: int | None) -> int | None:
    return next((value for value in values if value is not None), None)


def _processes(found: OutOfMemory, reserved: int | None) -> tuple[int | None, int | None]:
    """Bytes of other processes together, and of this one."""
    process = found.figures.get("process_bytes")
    told = [size for _, size in found.other_processes if size is not None]
    if isinstance(process, int):
        return sum(told), process
    if "process_bytes" in found.figures or not told or reserved is None:
        return (sum(told) if told else None), None
    mine = min(told, key=lambda size: abs(size - reserved))
    return sum(told) - mine, mine
