"""pytorch_policy: rows of the what-if table under PyTorch's own policy: peaks, refusals, driver calls, and how sure they are.

Each row is a replay by native/emulate over all cores. What a settings string means is settings.py's, whether the emulation follows
the recording calibrate.py's; sizes in buckets and sites in pools are other histories (buckets.py, segregate.py) for this same table.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from forebay._core import allocator
from forebay._core.allocator import Addresses, Limits, Outcome, Step
from forebay.whatif.calibrate import Calibrated
from forebay.whatif.settings import DEFAULTS, AllocatorSettings, apply
from forebay.whatif.steps import Steps, freed_at_request

__all__ = ["CURATED", "Case", "Row", "asked", "lower_bound", "recorded_row", "replayed", "waits_priced"]

# What is tried where nobody asks for settings: what people set, and combinations that do not work against each other.
# expandable_segments with max_split_size_mb is left out: large free ranges are then never reused (pytorch#193400).
CURATED: Final = (
    "none",
    "expandable_segments:True",
    "max_split_size_mb:64",
    "max_split_size_mb:256",
    "roundup_power2_divisions:4",
    "roundup_power2_divisions:8",
    "expandable_segments:True,roundup_power2_divisions:8",
)
_COLLECTING: Final = "garbage_collection_threshold:0.8"  # does something under a cap only
_SEEDS: Final = range(2)


@dataclass(frozen=True, slots=True)
class Row:
    """A history under one policy, bytes and counts; of several devices the figures are sums. `spread_low spread_high` are the
    least and the most peak reserved over the orders of addresses tried. `served`: of the requests that the recorded run refused,
    how many this one serves. `how`: how the row was found, and what would do it. `oom_event` is a row of the tape."""

    policy: Literal["pytorch", "forebay"]
    settings: str
    cap_bytes: int | None
    peak_reserved_bytes: int
    peak_allocated_bytes: int
    peak_active_bytes: int
    largest_free_bytes: int
    oom: bool
    oom_event: int | None
    driver_allocs: int
    driver_frees: int
    spread_low: int
    spread_high: int
    how: str
    served: int = 0
    retries: int = 0


@dataclass(frozen=True, slots=True)
class Case:
    """One row to be found: a label, the settings, the cap in bytes, what it takes to do it, and the history of each device.

    `routing_is_capture`: up to torch 2.12 nothing is given back for a request to a private pool.
    """

    label: str
    settings: AllocatorSettings
    cap: int | None
    how: str
    steps: tuple[Steps, ...]
    routing_is_capture: bool = True


@dataclass(frozen=True, slots=True)
class _Job:
    """One replay: of which case and device, under which order of addresses."""

    case: int
    device: int
    addresses: Addresses


def _variable(text: str) -> str:
    told = "" if text in ("", "none") else text
    return f"PYTORCH_CUDA_ALLOC_CONF={told} before the first allocation" if told else "PYTORCH_CUDA_ALLOC_CONF unset"


def asked(devices: Sequence[Calibrated], texts: Iterable[str], caps: Sequence[int | None]) -> list[Case]:
    """Cases for settings strings (curated ones where none are given) under each cap. Raises BadInput for a string that PyTorch
    refuses."""
    given = list(texts)
    cases = []
    for cap in caps:
        for text in given or [*CURATED, *([_COLLECTING] if cap is not None else [])]:
            steps = tuple(device.steps for device in devices)
            cases.append(Case(text or "none", apply(text), cap, _variable(text), steps))
    return cases


def waits_priced(devices: Sequence[Calibrated], cap: int | None) -> list[Case]:
    """The recorded settings with every free reusable at its request: none where no free had to wait."""
    if not any((device.steps.step == int(Step.request)).any() for device in devices):
        return []
    steps = tuple(freed_at_request(device.steps) for device in devices)
    how = "no record_stream: make the block's own stream wait for the other before the free, so that it is reusable at once"
    return [Case("recorded, frees do not wait", devices[0].settings if devices else DEFAULTS, cap, how, steps)]


def _driver(device: Calibrated) -> Addresses:
    whole = device.steps.segments.whole()
    return Addresses.driver(device.steps.segments.address[whole].copy(), device.steps.segments.size[whole].copy())


def _orders(device: Calibrated, case: Case) -> Iterator[Addresses]:
    """The orders of addresses to try, the likeliest first: the recorded addresses where the run is the recorded one."""
    same = case.steps[device.device] is device.steps if device.device < len(case.steps) else False
    if device.exact and same and case.settings == device.settings and case.cap == device.cap:
        yield Addresses.recorded(device.steps.segments.address[device.steps.segments.made()].copy())
        return
    yield _driver(device)
    if case.settings.expandable_segments:  # one range a pool and stream: no two blocks are told apart by their segment's address
        return
    yield Addresses.descending()
    yield Addresses.ascending()
    yield from map(Addresses.shuffled, _SEEDS)


def _served(steps: Steps, outcome: Outcome) -> int:
    """Requests that the recorded run refused and this one serves, up to its own first refusal."""
    refused = np.flatnonzero(steps.step == int(Step.refused))
    end = outcome.oom if outcome.oom is not None else outcome.steps
    return int(np.count_nonzero(refused < end))


def _row(case: Case, outcomes: list[list[Outcome]]) -> Row:
    """One row of the outcomes of each device, each under every order of addresses, the likeliest first."""
    likely = [orders[0] for orders in outcomes]
    ooms = [int(s.row[o.oom]) for s, o in zip(case.steps, likely, strict=True) if o.oom is not None]
    orders = max(map(len, outcomes))
    out = sum(any(o[min(k, len(o) - 1)].oom is not None for o in outcomes) for k in range(orders))
    open_ = f"; {out} of {orders} orders of addresses run out of memory" if 0 < out < orders else ""
    return Row(
        policy="pytorch",
        settings=case.label,
        cap_bytes=case.cap,
        peak_reserved_bytes=sum(o.peak_reserved for o in likely),
        peak_allocated_bytes=sum(o.peak_allocated for o in likely),
        peak_active_bytes=sum(o.peak_active for o in likely),
        largest_free_bytes=max(o.largest_free for o in likely),
        oom=bool(ooms),
        oom_event=min(ooms, default=None),
        driver_allocs=sum(o.driver_allocs for o in likely),
        driver_frees=sum(o.driver_frees for o in likely),
        spread_low=sum(min(o.peak_reserved for o in orders) for orders in outcomes),
        spread_high=sum(max(o.peak_reserved for o in orders) for orders in outcomes),
        how=case.how + open_,
        served=sum(_served(s, o) for s, o in zip(case.steps, likely, strict=True)),
        retries=sum(o.retries for o in likely),
    )


def replayed(
    devices: Sequence[Calibrated], cases: Sequence[Case], progress: Callable[[int, int], None] = lambda done, total: None
) -> list[Row]:
    """The rows of the cases, in their order, over all cores. `progress` is told how many replays of how many are done."""
    histories = {id(steps): steps.native() for case in cases for steps in case.steps}
    jobs = [
        _Job(c, d, addresses)
        for c, case in enumerate(cases)
        for d, device in enumerate(devices)
        for addresses in _orders(device, case)
    ]

    def run(job: _Job) -> Outcome:
        case, device = cases[job.case], devices[job.device]
        limits = Limits(cap=case.cap, capacity=device.capacity, routing_is_capture=case.routing_is_capture)
        history = histories[id(case.steps[job.device])]
        return allocator.replay(history, case.settings.native(), limits, job.addresses, samples=0)

    found: list[list[list[Outcome]]] = [[[] for _ in devices] for _ in cases]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for done, (job, outcome) in enumerate(zip(jobs, pool.map(run, jobs), strict=True), 1):
            found[job.case][job.device].append(outcome)
            progress(done, len(jobs))
    return [_row(case, outcomes) for case, outcomes in zip(cases, found, strict=True)]


def recorded_row(devices: Sequence[Calibrated]) -> Row:
    """What the recorded run did, as far as the emulation follows it."""
    cap = devices[0].cap if len(devices) == 1 else None
    case = Case("recorded", devices[0].settings, cap, "as recorded", tuple(d.steps for d in devices))
    return _row(case, [[device.outcome] for device in devices])


def lower_bound(devices: Sequence[Calibrated]) -> int:
    """Bytes that any allocator needs: the most that the program had asked for and not yet got back, a device's peak each."""
    return sum(int(device.steps.requested_live().max(initial=0)) for device in devices)
