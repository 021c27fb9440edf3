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
from forebay.whatif.advice import advice, best, notes
from forebay.whatif.buckets import bucket_cases
from forebay.whatif.calibrate import Calibrated, calibrate
from forebay.whatif.pytorch_policy import (
    Case,
    Row,
    asked,
    empty_cache_priced,
    likeliest,
    lower_bound,
    recorded_row,
    replayed,
    waits_longer,
    waits_priced,
)  # fmt: skip
from forebay.whatif.segregate import segregate_cases
from forebay.whatif.steps import devices

__all__ = ["Asked", "Table", "pytorch_table"]

_MIB: Final = 2**20


@dataclass(frozen=True, slots=True)
class Asked:
    """What to try. `settings`: strings; empty for a curated set, and for what empty_cache and waiting frees cost. `cap` in bytes, for
    calibration and for every row. `buckets`: a number of sizes, 0 for several numbers, None for none. `segregate`: rules GLOB=POOL or
    just "auto", empty for none."""

    settings: tuple[str, ...] = ()
    cap: int | None = None
    buckets: int | None = None
    segregate: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Table:
    """The outcome. `exact`: the emulation does on every device what the recording shows; else `first_divergence` is the first row of the
    tape where it does not, and `why` says how. `cap_range`: between which bytes the recorded run's cap lies, None where none is seen.
    `notes`: what the rows say of things that are no remedy."""

    exact: bool
    first_divergence: int | None
    why: str
    cap_range: tuple[int, int] | None
    recorded: Row
    rows: tuple[Row, ...]
    lower_bound: int
    advice: tuple[str, ...]
    notes: tuple[str, ...]


def _cap(found: Sequence[Calibrated], what: Asked) -> int | None:
    return what.cap if what.cap is not None else found[0].cap if len(found) == 1 else None


def _priced(found: Sequence[Calibrated], cap: int | None) -> list[Case]:
    return [case for price in (empty_cache_priced, waits_priced, waits_longer) for case in price(found, cap)]


def _groups(tape: Tape, found: Sequence[Calibrated], what: Asked) -> list[list[Case]]:
    """Cases in groups of which each becomes one row: variants of one remedy are shown at their best."""
    cap = _cap(found, what)
    groups = [[case] for case in asked(found, what.settings, [cap])]
    groups += [[case] for case in _priced(found, cap)] if not what.settings else []
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
        return likeliest(found, [replace(case, cap=cap)])[0]

    low, high = span[0] // _MIB, span[1] // _MIB
    if high <= low or at(high * _MIB).oom:
        return row
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if at(middle * _MIB).oom else (low, middle)
    told = f"; would serve under a cap of {size(high * _MIB)}; the recorded one lies between {size(span[0])} and {size(span[1])}"
    return replace(row, how=row.how + told)


def _picked(found: Sequence[Calibrated], group: list[Case]) -> Case:
    """The case of the best row; of one there is nothing to pick."""
    if len(group) == 1:
        return group[0]
    rows = likeliest(found, group)
    return group[rows.index(best(rows) or rows[0])]


def _shown(tape: Tape, found: Sequence[Calibrated], what: Asked, progress: Callable[[int, int], None]) -> list[Row]:
    """A row a group."""
    cases = [_picked(found, group) for group in _groups(tape, found, what)]
    rows = replayed(found, cases, progress)
    span = found[0].cap_range if len(found) == 1 and what.cap is None else None
    if span is not None:
        rows = [_within(found, case, row, span) if row.oom else row for case, row in zip(cases, rows, strict=True)]
    return _versions_joined(cases, rows)


def _versions_joined(cases: Sequence[Case], rows: Sequence[Row]) -> list[Row]:
    """Rows of one case for two versions of torch as one, where they come out alike."""
    out: list[tuple[Case, Row]] = []
    for case, row in zip(cases, rows, strict=True):
        same = out and replace(out[-1][0], label="", routing_is_capture=True) == replace(case, label="", routing_is_capture=True)
        if same and replace(out[-1][1], settings="") == replace(row, settings=""):
            out[-1] = (out[-1][0], replace(row, settings=row.settings.rpartition(" (")[0]))
        else:
            out.append((case, row))
    return [row for _, row in out]


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
    shown = _shown(tape, found, what, progress)
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
        notes=tuple(notes(likeliest(found, _priced(found, _cap(found, what))), recorded)),
    )
