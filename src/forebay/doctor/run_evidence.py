"""run_evidence: what a history did of one device: flushes, requests under pressure, driver calls. One moment of it is
heap_evidence.py's.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from forebay._core.allocator import SegmentAction, Step
from forebay.doctor.evidence import Flushes, Rounds, Run
from forebay.sources.heap_state import HeapState
from forebay.tape import Kind, Sees, Tape
from forebay.whatif.calibrate import calibrate
from forebay.whatif.own_history import is_own
from forebay.whatif.settings import asked_for, recorded
from forebay.whatif.steps import Segments, Steps, steps_of

__all__ = ["rounds_of", "run_of"]

Array = NDArray[Any]
_WARM: Final = 3  # rounds of a region from which on its first half counts as warm-up


_TAKES: Final = (Kind.reserve, Kind.map, Kind.pin)
_GIVES: Final = (Kind.release, Kind.unmap, Kind.unpin)


def rounds_of(tape: Tape) -> Rounds | None:
    """Of the region whose rounds go to the driver most: its later half of rounds. A round is from one beginning of a region of its name
    to the next. None where the tape shows no region twice."""
    begins = tape.where(Kind.region_begin)
    if not len(begins) or not tape.has("name"):
        return None
    takes, gives = tape.where(*_TAKES), tape.where(*_GIVES)
    worst: Rounds | None = None
    for name in np.unique(tape.columns["name"][begins]).tolist():
        mine = begins[tape.columns["name"][begins] == name]
        edges = np.append(mine, len(tape))[len(mine) // 2 if len(mine) > _WARM else 0 :]
        took, gave = (np.diff(np.searchsorted(rows, edges)) for rows in (takes, gives))
        churned = (took > 0) & (gave > 0)
        if len(mine) > 1 and churned.any() and (worst is None or int(churned.sum()) > worst.churned):
            calls = int((took + gave)[churned].sum())
            worst = Rounds(tape.sides.strings[name], len(edges) - 1, int(churned.sum()), calls)
    return worst


def run_of(tape: Tape, device: int, before: HeapState) -> Run:
    """What the rows of pools' memory say of one device, from the heap before them on."""
    steps = _resolved(tape, device, before, steps_of(tape, device, before))
    told = tape.provenance.get("settings")
    segments = steps.segments
    freed = np.isin(segments.action, (int(SegmentAction.free), int(SegmentAction.unmap)))
    flush = steps.row[np.isin(steps.step, (int(Step.flush), int(Step.burst)))]
    if is_own(tape):  # whose trims are rows of their own: what else gives memory back is a pool's end, or makes room
        flush = flush[np.isin(flush, tape.where(Kind.flush))]
    sites = tape.columns["site"][flush].tolist() if len(flush) and tape.has("site") else []
    return Run(
        steps=steps,
        settings=recorded(told if isinstance(told, dict) else None),
        asked=asked_for(told if isinstance(told, dict) else None),
        flushes=_flushes(steps, segments, freed, flush),
        presses=_presses(steps, segments.row[freed]),
        driver_allocs=int(segments.made().sum()),
        driver_frees=int(freed.sum()),
        flush_sites=tuple(dict.fromkeys(sites)),
    )


def _resolved(tape: Tape, device: int, before: HeapState, steps: Steps) -> Steps:
    """The history with each run of frees that no stack tells of either a flush or a request's own doing: where the emulated allocator, run
    under the recorded settings, does all that was recorded, it tells them apart. Else as it is."""
    burst = steps.row[steps.step == int(Step.burst)]
    if not len(burst) or Sees.BEGINNING not in tape.sees or is_own(tape):
        return steps
    found = calibrate(tape, device, before=before)
    if not found.exact:
        return steps
    flushed = found.steps.row[found.steps.step == int(Step.flush)]
    asks = np.sort(steps.row[np.isin(steps.step, (int(Step.alloc), int(Step.refused)))])
    after = np.searchsorted(asks, burst[~np.isin(burst, flushed)])
    return replace(found.steps, pressed=np.union1d(steps.pressed, asks[after[after < len(asks)]]))


def _flushes(steps: Steps, segments: Segments, freed: Array, flush: Array) -> Flushes:
    """What calls of empty_cache gave back, each up to the next request, and what of it was taken again before the next call."""
    ends = np.sort(steps.row[np.isin(steps.step, (int(Step.alloc), int(Step.refused)))])
    far = np.iinfo("i8").max
    begin = np.searchsorted(segments.row, flush)
    until = np.searchsorted(segments.row, np.append(ends, far)[np.searchsorted(ends, flush)])
    again = np.searchsorted(segments.row, np.append(flush[1:], far)) if len(flush) else begin
    gave, took = (
        [_between(value, a, b) for value in (mask.astype("i8"), np.where(mask, segments.size, 0))]
        for mask, a, b in ((freed, begin, until), (segments.made(), begin, again))
    )
    return Flushes(
        calls=len(flush),
        segments=int(gave[0].sum()),
        bytes=int(gave[1].sum()),
        regrown_segments=int(np.minimum(gave[0], took[0]).sum()),
        regrown_bytes=int(np.minimum(gave[1], took[1]).sum()),
        told=not (steps.step == int(Step.burst)).any(),
    )


def _between(value: Array, begin: Array, end: Array) -> Array:
    """Sums of a column over runs of rows."""
    total = np.concatenate([[0], np.cumsum(value)]).astype("i8")
    found: Array = total[end] - total[begin]
    return found


def _presses(steps: Steps, freed: Array) -> int:
    """How many requests under pressure had memory given back for them: between them and what the program did before."""
    rows, freed = np.sort(steps.row), np.sort(freed)
    at = np.searchsorted(rows, steps.pressed)
    last = np.where(at > 0, rows[np.maximum(at - 1, 0)] if len(rows) else 0, -1)
    return int(np.count_nonzero(np.searchsorted(freed, steps.pressed) > np.searchsorted(freed, last, "right")))
