"""table: a tape's whole what-if under PyTorch's policy: calibration, the rows asked for, the lower bound, advice.

The parts are the other modules'; showing the table is report's and cli's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from forebay.errors import BadInput
from forebay.sources.heap_state import HeapState
from forebay.tape import Tape
from forebay.units import size
from forebay.whatif.advice import advice, best
from forebay.whatif.buckets import bucket_cases
from forebay.whatif.calibrate import Calibrated, calibrate
from forebay.whatif.pytorch_policy import Case, Row, asked, lower_bound, recorded_row, replayed, waits_priced
from forebay.whatif.segregate import segregate_cases
from forebay.whatif.steps import devices

__all__ = ["Asked", "Table", "pytorch_table"]

_MIB: Final = 2**20


@dataclass(frozen=True, slots=True)
class Asked:
    """What to try. `settings`: strings, empty for a curated set. `cap` in bytes, for calibration and for every row. `buckets`: a number
    of sizes, 0 for several numbers, None for none. `segregate`: rules GLOB=POOL or just "auto", empty for none."""

    settings: tuple[str, ...] = ()
    cap: int | None = None
    buckets: int | None = None
    segregate: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Table:
    """The outcome. `exact`: the emulation does on every device what the recording shows; else `first_divergence` is the first row of the
    tape where it does not, and `why` says how. `cap_range`: between which bytes the recorded run's cap lies, None where none is seen."""

    exact: bool
    first_divergence: int | None
    why: str
    cap_range: tuple[int, int] | None
    recorded: Row
    rows: tuple[Row, ...]
    lower_bound: int
    advice: tuple[str, ...]


def _groups(tape: Tape, found: Sequence[Calibrated], what: Asked) -> list[list[Case]]:
    """Cases in groups of which each becomes one row: variants of one remedy are shown at their best."""
    cap = what.cap if what.cap is not None else found[0].cap if len(found) == 1 else None
    groups = [[case] for case in asked(found, what.settings, [cap])]
    groups += [[case] for case in waits_priced(found, cap)]
    if what.buckets is not None:
        groups.append(bucket_cases(found, what.buckets or None, cap))
    if what.segregate:
        by_version: dict[bool, list[Case]] = {}
        for case in segregate_cases(tape, found, what.segregate, cap):
            by_version.setdefault(case.routing_is_capture, []).append(case)
        groups += by_version.values()
    return [group for group in groups if group]


def _within(found: Sequence[Calibrated], case: Case, row: Row, span: tuple[int, int]) -> Row:
    """The row, saying which least whole MiB of cap would serve the history, where one that is possible does."""

    def at(cap: int) -> Row:
        return replayed(found, [replace(case, cap=cap)])[0]

    low, high = span[0] // _MIB, span[1] // _MIB
    if high <= low or at(high * _MIB).oom:
        return row
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if at(middle * _MIB).oom else (low, middle)
    told = f"; would serve under a cap of {size(high * _MIB)}; the recorded one lies between {size(span[0])} and {size(span[1])}"
    return replace(row, how=row.how + told)


def pytorch_table(
    tape: Tape, what: Asked, before: HeapState | None = None, progress: Callable[[int, int], None] = lambda done, total: None
) -> Table:
    """The what-if of a tape. `before` is the heap before its first row. Raises BadInput for a tape without a history, a settings string
    that PyTorch refuses, and a segregation rule that fits nothing."""
    found = [calibrate(tape, device, cap=what.cap, before=before) for device in devices(tape)]
    if not found:
        raise BadInput(
            "it holds no allocator history (no alloc, free or oom): record one with torch.cuda.memory._record_memory_history"
        )
    groups = _groups(tape, found, what)
    rows = replayed(found, [case for group in groups for case in group], progress)
    shown, at = [], 0
    for group in groups:
        mine = rows[at : at + len(group)]
        span = found[0].cap_range if len(found) == 1 and what.cap is None else None
        if span is not None and all(row.oom for row in mine):
            mine = [_within(found, case, row, span) for case, row in zip(group, mine, strict=True)]
        if (row := best(mine)) is not None:
            shown.append(row)
        at += len(group)
    wrong = min((c for c in found if not c.exact), key=lambda c: c.first_divergence or 0, default=None)
    recorded = recorded_row(found)
    return Table(
        exact=wrong is None,
        first_divergence=wrong.first_divergence if wrong else None,
        why=wrong.why if wrong else "",
        cap_range=found[0].cap_range if len(found) == 1 else None,
        recorded=recorded,
        rows=tuple(shown),
        lower_bound=lower_bound(found),
        advice=tuple(advice(shown, recorded, exact=wrong is None)),
    )
