"""run_evidence: what a history did of one device: flushes, requests under pressure, driver calls. One moment of it is
heap_evidence.py's.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from forebay._core.allocator import SegmentAction, Step
from forebay.doctor.evidence import Run
from forebay.sources.heap_state import HeapState
from forebay.tape import Tape
from forebay.whatif.settings import recorded
from forebay.whatif.steps import steps_of

__all__ = ["run_of"]

Array = NDArray[Any]


def run_of(tape: Tape, device: int, before: HeapState) -> Run:
    """What the rows of pools' memory say of one device, from the heap before them on."""
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
