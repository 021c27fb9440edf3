"""torch_snapshot: a PyTorch memory snapshot as a tape, with the heap that it ends with and the heap that it began with.

The pickle is read in native/ingest, which can build nothing but plain values; the heap is settled in native/emulate.
Facts from the heap are views'. Every layout from 2022 on: docs/decisions/0030.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forebay._core import emulate, ingest
from forebay.errors import BadInput
from forebay.sources.heap_state import BLOCK, SEGMENT, HeapState, from_bytes, joined
from forebay.sources.snapshot_rows import SideIndex, tape_parts
from forebay.sources.torch_settings import allocator_settings
from forebay.tape import Kind, Sees, Tape

__all__ = ["Snapshot", "event_of", "read", "recognises"]

Array = NDArray[Any]
# Codes of native/ingest's Action (the index) as those of native/emulate's.
_MOVES = np.array([0, 1, 2, 3, 4, 5, 6, 7, 7, 7], "u1")
_ALLOC, _FREE_REQUESTED, _OOM = 0, 1, 8
_ADDED = [int(kind) for kind in (Kind.settings, Kind.capacity, Kind.region_begin, Kind.region_end)]  # rows that are no events


@dataclass(frozen=True)
class Snapshot(Tape):
    """A tape that also knows the heap after its last row (`final`, as the file says) and before its first (`before`).

    `before` is found by undoing the events from the end. A slice keeps both: they are of the whole tape.
    """

    final: HeapState = field(default_factory=HeapState)
    before: HeapState = field(default_factory=HeapState)


@dataclass(frozen=True, slots=True)
class _Settled:
    """What all devices' histories came to: a row's block size and pool number (2 * owner + large), and the proofs."""

    size: Array
    pool: Array
    before: HeapState
    misfits: int
    exact: bool


def _final(raw: dict[str, Any], sides: SideIndex) -> HeapState:
    s, b = raw["segments"], raw["blocks"]
    segments = np.zeros(len(s["address"]), SEGMENT)
    for name in ("address", "size", "site", "large", "expandable", "device"):
        segments[name] = s[name]
    segments["stream"] = sides.stream(s["device"], s["stream"])
    segments["pool"] = sides.owner(s["pool_first"], s["pool_second"])
    live = b["state"] != 0
    of = b["segment"][live]
    blocks = np.zeros(len(of), BLOCK)
    for name in ("address", "size", "requested", "site"):
        blocks[name] = b[name][live]
    blocks["pending"] = b["state"][live] == 2
    for name in ("stream", "device"):
        blocks[name] = segments[name][of]
    blocks["pool"] = 2 * segments["pool"][of] + segments["large"][of]
    return HeapState(segments, blocks)


def _raw(table: Array) -> Array:
    return np.ascontiguousarray(table).view("u1")


def _settle(raw: dict[str, Any], sides: SideIndex, final: HeapState, settings: emulate.Settings) -> _Settled:
    events = raw["events"]
    stream, owner = sides.stream(events["device"], events["stream"]), sides.owner(events["pool_first"], events["pool_second"])
    size, pool = events["size"].copy(), np.zeros(len(stream), "u4")
    parts, misfits, exact = [], 0, True
    for device in range(raw["devices"]):
        rows = np.flatnonzero(events["device"] == device)
        last = final.device(device)
        done = emulate.settle(
            _MOVES[events["action"][rows]],
            events["has_pool"][rows],
            events["address"][rows],
            events["size"][rows],
            stream[rows],
            owner[rows],
            events["site"][rows],
            _raw(last.segments),
            _raw(last.blocks),
            settings,
        )
        size[rows], pool[rows] = done["size"], done["pool"]
        parts.append(from_bytes(done["start_segments"], done["start_blocks"], device))
        misfits += max(len(done["misfits_back"]), len(done["misfits_forward"]))
        exact = exact and done["exact"]
    return _Settled(size, pool, joined(parts), misfits, exact)


def _sees(raw: dict[str, Any], settled: _Settled) -> frozenset[Sees]:
    action = raw["events"]["action"]
    # A ring of one event is what recording of the state alone leaves: no history at all.
    followed = len(action) > 1 and bool((action == _ALLOC).any()) and settled.misfits == 0
    from_empty = followed and settled.exact and not len(settled.before.segments) and not len(settled.before.blocks)
    has = {
        Sees.ALLOCS: followed,
        Sees.SEGMENTS: followed,
        Sees.OOMS: followed,
        Sees.RECLAIMS: followed and bool((action == _FREE_REQUESTED).any()),
        Sees.BEGINNING: from_empty,
        Sees.SITES: bool(raw["events"]["site"].any() or raw["blocks"]["site"].any()),
        Sees.REGIONS: len(raw["annotations"]["name"]) > 0,
        Sees.CAPACITY: bool((action == _OOM).any()),
        Sees.SETTINGS: raw["settings"] is not None,
    }
    return frozenset(what for what, seen in has.items() if seen)


def _layout(raw: dict[str, Any]) -> str:
    if raw["bare"]:
        return "2022, a bare list of segments"
    if raw["settings"] is None and not raw["has_annotations"]:
        return "2023"
    if not raw["has_annotations"]:
        return "2024"
    return "2026" if raw["events"]["has_pool"].any() else "2025"


def _provenance(raw: dict[str, Any], settled: _Settled) -> dict[str, Any]:
    counts = np.bincount(raw["events"]["device"], minlength=raw["devices"])
    return {
        "format": "torch-snapshot",
        "layout": _layout(raw),
        "events": [int(n) for n in counts],
        "settings": raw["settings"],
        "misfits": settled.misfits,  # events that contradict the heap that they met
        "exact": settled.exact,  # run forwards, the history ends in the file's segments and blocks
    }


def recognises(data: bytes) -> bool:
    """Whether these bytes begin as a pickle of a dict or a list: by its protocol, or as protocols 0 and 1 do."""
    return data[:2] in {bytes((0x80, version)) for version in range(6)} or data[:1] in {b"}", b"]"} or data[:2] in {b"(d", b"(l"}


def read(data: bytes) -> Snapshot:
    """The tape of a snapshot's pickle.

    `provenance`: `events` a device (as many as the file has; the tape has a few rows more), `settings`, `layout`, `misfits`,
    `exact`. Raises BadInput with the place in the pickle; nothing in it is ever executed.
    """
    try:
        raw = ingest.torch_snapshot(data)
    except ValueError as error:
        raise BadInput(str(error)) from None
    sides = SideIndex(raw)
    final = _final(raw, sides)
    try:
        settled = _settle(raw, sides, final, allocator_settings(raw["settings"]))
    except ValueError as error:
        raise BadInput(f"segments: {error}") from None
    # Numbering adds to the table of pools, so the states come before the side tables.
    final, before = sides.numbered(final), sides.numbered(settled.before)
    columns, known, tables = tape_parts(raw, sides, settled.size, sides.pool(raw["events"]["device"], settled.pool))
    return Snapshot(
        columns,
        sides=tables,
        sees=_sees(raw, settled),
        provenance=_provenance(raw, settled),
        known=known,
        final=final,
        before=before,
    )


def event_of(tape: Tape, row: int) -> int:
    """What the artifact itself calls a row: of a snapshot the index in `device_traces` of the row's device, else the row.

    A row that is no event of its own (a setting, what the driver had free) is that of the event behind it.
    """
    if tape.provenance.get("format") != "torch-snapshot":
        return row
    device = tape.columns["device"]
    own = (device[:row] == device[row]) & ~np.isin(tape.columns["kind"][:row], _ADDED)
    return int(np.count_nonzero(own))
