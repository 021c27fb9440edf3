"""remedies: what would have helped, priced by the what-if: the history of an artifact under each remedy, with the peak before and after.

Only what helps by more than what is open about it is advised; what was tried and does not help is listed all the same. Which incident
it is diagnose.py says; how a row is found is whatif's matter.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

import msgspec
import numpy as np

from forebay._core.allocator import Step
from forebay.doctor.diagnose import Diagnosis
from forebay.doctor.figures import Remedy
from forebay.errors import BadInput
from forebay.finding import Finding
from forebay.sources.heap_state import HeapState
from forebay.tape import Sees, Tape
from forebay.units import size
from forebay.views.pool_memory import pool_memory
from forebay.views.walkback import walkback
from forebay.whatif.advice import helps
from forebay.whatif.calibrate import Calibrated, calibrate
from forebay.whatif.forebay_policy import through_our_pool
from forebay.whatif.history import histories
from forebay.whatif.own_history import is_own
from forebay.whatif.own_policy import ONE_POOL, UNTRIMMED, own_table
from forebay.whatif.pytorch_policy import Case, Row, recorded_row, replayed
from forebay.whatif.steps import Steps, devices
from forebay.whatif.table import Asked, pytorch_table

__all__ = ["Remedy", "is_priced", "with_remedies"]

# Incidents that another policy, another way to free, or another pool may cure.
_PRICED: Final = frozenset(
    {
        "capacity-oom",
        "capped-oom",
        "checkerboard-fragmentation",
        "deferred-frees",
        "driver-churn",
        "empty-cache-smell",
        "graph-pool-hoard",
        "stranded-stream-cache",
    }
)
_MOST_ADVISED: Final = 3
_MOST_ROWS: Final = 2_000_000  # of a tape: more takes minutes, and is asked for with `forebay whatif`
_LEAST: Final = 0.01  # of what was reserved: less is no reason to change a program that runs


def is_priced(diagnosis: Diagnosis) -> bool:
    """Whether the verdict is one that a remedy could be tried for."""
    return bool(diagnosis.findings) and diagnosis.findings[0].name in _PRICED


def with_remedies(diagnosis: Diagnosis, tape: Tape) -> Diagnosis:
    """The same with the verdict's remedies in its evidence, those that help first, and in words. Unpriced where the history of the
    artifact is not there from its first row on, or is very long."""
    if not is_priced(diagnosis) or Sees.ALLOCS not in tape.sees or len(tape) > _MOST_ROWS:
        return diagnosis
    incident = diagnosis.findings[0].name
    try:
        tried, notes = _of_our_pools(tape, incident) if is_own(tape) else _tried(pool_memory(tape), incident)
    except BadInput:
        return diagnosis
    first = _priced(diagnosis.findings[0], tried, notes)
    return replace(diagnosis, findings=(first, *diagnosis.findings[1:]))


def _priced(finding: Finding, tried: Sequence[Remedy], notes: Sequence[str]) -> Finding:
    good = [remedy for remedy in tried if remedy.helps and not _needless(remedy, tried)]
    evidence: dict[str, Any] = {
        **finding.evidence,
        "remedies": [msgspec.to_builtins(remedy) for remedy in (*good, *_rest(tried, good))],
    }
    if finding.name == "empty-cache-smell" and good and good[0].name in (_UNFLUSHED, UNTRIMMED):
        good = good[:1]  # anything else is another matter
    said = [f"{n}. {_said(remedy)}" for n, remedy in enumerate(good[:_MOST_ADVISED], 1)]
    if not said:
        count = len({remedy.name for remedy in tried})
        said = [f"{finding.remedy}; of {count} settings and pools tried on this history none helps"]
    return msgspec.structs.replace(finding, evidence=evidence, remedy="\n".join([*said, *notes]))


def _rest(tried: Sequence[Remedy], good: Sequence[Remedy]) -> Iterator[Remedy]:
    return (remedy for remedy in tried if remedy not in good)


def _needless(remedy: Remedy, tried: Sequence[Remedy]) -> bool:
    """Whether a part of its settings alone does as much."""
    mine = set(remedy.name.split(","))
    return any(
        other.helps and set(other.name.split(",")) < mine and other.after_bytes + other.spread_bytes <= remedy.after_bytes
        for other in tried
    )


def _said(remedy: Remedy) -> str:
    if remedy.name in (_UNFLUSHED, UNTRIMMED):
        return (
            f"{remedy.how}: {remedy.driver_calls_after} driver calls instead of {remedy.driver_calls_before}, for "
            f"{size(remedy.after_bytes)} reserved at the peak instead of {size(remedy.before_bytes)}."
        )
    if remedy.oom is False and remedy.cap_bytes is not None:
        gain = f"serves the request that was refused, {size(remedy.after_bytes)} reserved at the peak"
    else:
        gain = f"{size(remedy.after_bytes)} reserved at the peak instead of {size(remedy.before_bytes)}"
    doubt = f", give or take {size(remedy.spread_bytes)}" if remedy.spread_bytes else ""
    return f"{remedy.name}: {gain}{doubt}: {remedy.how}."


_UNFLUSHED: Final = "no empty_cache"


def _of_our_pools(tape: Tape, incident: str) -> tuple[list[Remedy], tuple[str, ...]]:
    """The same for pools of our own, which a program can change: the incident's own cure, then how they grow, what stays apart, sizes."""
    table = own_table(tape)
    cures = {"empty-cache-smell": (UNTRIMMED,), "stranded-stream-cache": ("gives_back=True", ONE_POOL)}.get(incident, ())
    rows = [row for row in table.rows if row.remedy or row.settings in cures]
    rows.sort(key=lambda row: cures.index(row.settings) if row.settings in cures else len(cures))
    tried = [_of(replace(row, remedy=True), table.recorded) for row in rows]
    notes = () if table.exact else (f"Replayed, not quite as recorded ({table.why}): a direction, not a figure.",)
    return [_cheaper(remedy) if remedy.name == UNTRIMMED else remedy for remedy in tried], notes


def _tried(tape: Tape, incident: str) -> tuple[list[Remedy], tuple[str, ...]]:
    """Everything that was tried, in order of preference: the incident's own cure, a setting, then waits that end at once, sites apart,
    our pool."""
    before = walkback(tape).state
    found = [calibrate(tape, device, before=before) for device in devices(tape)]
    recorded = recorded_row(found)
    out = _own_cure(found, recorded, incident)
    table = pytorch_table(tape, Asked(segregate=("auto",)), before)
    rows = [row for row in table.rows if row.remedy]
    out += sorted(
        (_of(row, recorded) for row in rows), key=lambda remedy: (_preference(remedy.name, incident), remedy.after_bytes)
    )
    refused = any((device.steps.step == int(Step.refused)).any() for device in found)
    if (ours := _ours(tape, before, found, recorded, refused=refused)) is not None:
        out.append(ours)
    exact = () if table.exact else (f"Emulated, not calibrated ({table.why}): a direction, not a figure.",)
    return out, (*table.notes, *exact)


def _preference(name: str, incident: str) -> int:
    """A variable before code that orders frees, before code that moves allocations; what waits is cured by waits that end."""
    if name.startswith("recorded,"):
        return -1 if incident == "deferred-frees" else 1
    return 2 if "apart" in name else 0


def _of(row: Row, recorded: Row) -> Remedy:
    return Remedy(
        name=row.settings,
        how=row.how,
        before_bytes=recorded.peak_reserved_bytes,
        after_bytes=row.peak_reserved_bytes,
        spread_bytes=row.spread_high - row.spread_low,
        cap_bytes=row.cap_bytes,
        oom=row.oom if row.tried or row.oom else None,
        driver_calls_before=recorded.driver_allocs + recorded.driver_frees,
        driver_calls_after=row.driver_allocs + row.driver_frees,
        helps=helps(row, recorded) and (recorded.oom or _worth(row.spread_high, recorded)),
    )


def _own_cure(found: Sequence[Calibrated], recorded: Row, incident: str) -> list[Remedy]:
    """What an incident's page tells to do, on this history."""
    if incident == "empty-cache-smell":
        return [_unflushed(found, recorded)]
    cures = {
        "stranded-stream-cache": ("one stream", "allocate on the stream that uses the memory: here all on one", _on_one_stream),
        "graph-pool-hoard": (
            "one pool for all graphs",
            "pool=FIRST.pool() in each capture, where graphs never run at once",
            _in_one_pool,
        ),
    }
    if incident not in cures:
        return []
    name, how, moved = cures[incident]
    case = Case(name, found[0].settings, recorded.cap_bytes, how, tuple(moved(device.steps) for device in found))
    return [_of(replayed(found, [case])[0], recorded)]


def _on_one_stream(steps: Steps) -> Steps:
    return _placed(steps, [(pool, steps.places[0][1]) for pool, _ in steps.places])


def _in_one_pool(steps: Steps) -> Steps:
    return _placed(steps, [(min(pool, 1), stream) for pool, stream in steps.places])


def _placed(steps: Steps, places: list[tuple[int, int]]) -> Steps:
    """The history with each of its places, pairs of pool and stream, another one."""
    different = list(dict.fromkeys(places))
    number = np.array([different.index(place) for place in places], "u4")
    return replace(steps, place=number[steps.place], places=tuple(different))


def _worth(after: int, recorded: Row) -> bool:
    return recorded.peak_reserved_bytes - after >= _LEAST * recorded.peak_reserved_bytes


def _unflushed(found: Sequence[Calibrated], recorded: Row) -> Remedy:
    """The history without its calls of empty_cache: it helps where fewer driver calls are made and nothing is refused."""
    how = "remove the calls of torch.cuda.empty_cache"
    case = Case(_UNFLUSHED, found[0].settings, recorded.cap_bytes, how, tuple(_without_flushes(device.steps) for device in found))
    return _cheaper(_of(replayed(found, [case])[0], recorded))


def _cheaper(remedy: Remedy) -> Remedy:
    """The same, as a remedy for calls of the driver: it helps where fewer are made and nothing is refused."""
    return msgspec.structs.replace(remedy, helps=not remedy.oom and remedy.driver_calls_after < remedy.driver_calls_before)


def _without_flushes(steps: Steps) -> Steps:
    kept = np.flatnonzero(steps.step != int(Step.flush))
    return replace(steps, **{name: getattr(steps, name)[kept] for name in ("step", "handle", "place", "bytes", "row")})


def _ours(tape: Tape, before: HeapState, found: Sequence[Calibrated], recorded: Row, *, refused: bool) -> Remedy | None:
    cap = found[0].cap if refused and len(found) == 1 else None
    if refused and cap is None:
        return None  # of several devices, and of a card that was full, nobody says what the limit is
    need = through_our_pool(histories(tape, before), cap, lambda share: None)
    return Remedy(
        name="forebay's pool",
        how="put forebay's pool behind the program's allocator",
        before_bytes=recorded.peak_reserved_bytes,
        after_bytes=need.peak_reserved_bytes,
        spread_bytes=0,
        cap_bytes=cap,
        oom=need.ooms > 0,
        driver_calls_before=recorded.driver_allocs + recorded.driver_frees,
        driver_calls_after=need.driver_allocs + need.driver_frees,
        helps=not need.ooms and (refused or _worth(need.peak_reserved_bytes, recorded)),
    )
