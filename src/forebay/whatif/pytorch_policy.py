"""pytorch_policy: rows of the what-if table under PyTorch's own policy: peaks, refusals, driver calls, and how sure they are.

Each row is a replay by native/emulate over all cores. What a settings string means is settings.py's, whether the emulation follows
the recording calibrate.py's; sizes in buckets and sites in pools are other histories (buckets.py, segregate.py) for this same table.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from forebay._core import allocator
from forebay._core.allocator import Addresses, Limits, Outcome, Step
from forebay.units import size
from forebay.whatif.calibrate import Calibrated
from forebay.whatif.orders import as_recorded, driver_like, possible
from forebay.whatif.settings import DEFAULTS, AllocatorSettings, apply
from forebay.whatif.steps import Steps, flushed_before_refusal, freed_at_request, freed_later

__all__ = [
    "CURATED", "EMPTY_CACHE", "LATER", "LATER_WAITS", "Case", "Row", "asked", "empty_cache_priced", "likeliest", "lower_bound",
    "recorded_row", "replayed", "waits_longer", "waits_priced",
]  # fmt: skip

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
LATER: Final = 32  # requests: where the GPU lagged behind its host, recorded waits ended up to 33 requests after the free
LATER_WAITS: Final = f"recorded, waits end {LATER} requests later"
EMPTY_CACHE: Final = "empty_cache before the refused request"
_COLLECTING: Final = "garbage_collection_threshold:0.8"  # does something under a cap only


@dataclass(frozen=True, slots=True)
class Row:
    """A history under one policy, bytes and counts; of several devices the figures are sums. `spread_low spread_high` are the
    least and the most peak reserved over the orders of addresses tried. `served`: of the requests that the recorded run refused,
    how many this one serves; `tried` where a limit is known that could refuse them. `how`: how the row was found, and what would do it;
    `remedy` where one could do it. `oom_event` is a row of the tape. `cap_bytes`: the cap, or what the driver had to give."""

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
    tried: bool = True
    remedy: bool = True


@dataclass(frozen=True, slots=True)
class Case:
    """One row to be found: a label, the settings, the cap in bytes, what it takes to do it, and the history of each device.

    `routing_is_capture`: up to torch 2.12 nothing is given back for a request to a private pool. Without a cap what the driver had to
    give, where a refusal shows it, is the limit.
    """

    label: str
    settings: AllocatorSettings
    cap: int | None
    how: str
    steps: tuple[Steps, ...]
    routing_is_capture: bool = True
    remedy: bool = True


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
    if not _waits(devices):
        return []
    steps = tuple(freed_at_request(device.steps) for device in devices)
    how = "no record_stream: make the block's own stream wait for the other before the free, so that it is reusable at once"
    return [Case("recorded, frees do not wait", devices[0].settings if devices else DEFAULTS, cap, how, steps)]


def _waits(devices: Sequence[Calibrated]) -> bool:
    return any((device.steps.step == int(Step.request)).any() for device in devices)


def waits_longer(devices: Sequence[Calibrated], cap: int | None) -> list[Case]:
    """The recorded settings with every wait LATER requests longer: none where no free had to wait.

    Note [Waits are timing]: when a free that waits for another stream is found complete depends on how far the GPU is behind its host.
    One program under one setting differs in it from run to run, so no order of addresses and no setting tells it.
    """
    if not _waits(devices):
        return []
    steps = tuple(freed_later(device.steps, LATER) for device in devices)
    how = "no remedy: what the same run needs where the GPU is further behind its host"
    return [Case(LATER_WAITS, devices[0].settings, cap, how, steps, remedy=False)]


def empty_cache_priced(devices: Sequence[Calibrated], cap: int | None) -> list[Case]:
    """The recorded settings with empty_cache right before the request that was refused: none where none was."""
    if not any((device.steps.step == int(Step.refused)).any() for device in devices):
        return []
    given = sum(_given_back(device) for device in devices)
    told = f"gives {size(given)} back" if given else "gives nothing back: every idle byte is part of a segment that is in use"
    steps = tuple(flushed_before_refusal(device.steps) for device in devices)
    how = f"torch.cuda.empty_cache() right before the request that was refused {told}"
    return [Case(EMPTY_CACHE, devices[0].settings, cap, how, steps)]


def _given_back(device: Calibrated) -> int:
    """Bytes that empty_cache gives back right before the first request that the recorded run refused."""
    refused = np.flatnonzero(device.steps.step == int(Step.refused))
    if not len(refused):
        return 0
    left = []
    for steps, end in ((device.steps, int(refused[0])), (flushed_before_refusal(device.steps), int(refused[0]) + 1)):
        outcome = allocator.replay(steps.head(end).native(), device.settings.native(), device.limits(), as_recorded(device))
        left.append(outcome.reserved)
    return left[0] - left[1]


def _orders(device: Calibrated, case: Case, steps: Steps, possible: Sequence[Addresses]) -> Sequence[Addresses]:
    """The orders of addresses to try, the likeliest first: the recorded addresses where the run is the recorded one."""
    if device.exact and steps is device.steps and case.settings == device.settings and case.cap == device.cap:
        return [as_recorded(device)]
    # One range a pool and stream: no two blocks are told apart by their segment's address.
    return possible[:1] if case.settings.expandable_segments else possible


def _served(steps: Steps, outcome: Outcome) -> int:
    """Requests that the recorded run refused and this one serves, up to its own first refusal."""
    refused = np.flatnonzero(steps.step == int(Step.refused))
    end = outcome.oom if outcome.oom is not None else outcome.steps
    return int(np.count_nonzero(refused < end))


def _limit(case: Case, device: Calibrated) -> Limits:
    capacity = device.capacity if case.cap is None else None
    return Limits(cap=case.cap, capacity=capacity, routing_is_capture=case.routing_is_capture)


def _row(case: Case, devices: Sequence[Calibrated], outcomes: list[list[Outcome]]) -> Row:
    """One row of the outcomes of each device, each under every order of addresses, the likeliest first."""
    refusing = [d for d in devices if (d.steps.step == int(Step.refused)).any()]
    likely = [orders[0] for orders in outcomes]
    ooms = [int(s.row[o.oom]) for s, o in zip(case.steps, likely, strict=True) if o.oom is not None]
    orders = max(map(len, outcomes))
    out = sum(any(o[min(k, len(o) - 1)].oom is not None for o in outcomes) for k in range(orders))
    open_ = f"; {out} of {orders} orders of addresses run out of memory" if 0 < out < orders else ""
    return Row(
        policy="pytorch",
        settings=case.label,
        cap_bytes=devices[0].capacity if case.cap is None and len(devices) == 1 else case.cap,
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
        tried=case.cap is not None or all(d.capacity is not None for d in refusing),
        remedy=case.remedy,
    )


Progress = Callable[[int, int], None]


def replayed(devices: Sequence[Calibrated], cases: Sequence[Case], progress: Progress = lambda done, total: None) -> list[Row]:
    """The rows of the cases, in their order, over all cores. `progress` is told how many replays of how many are done."""
    return _run(devices, cases, [possible(device) for device in devices], progress)


def likeliest(devices: Sequence[Calibrated], cases: Sequence[Case], progress: Progress = lambda done, total: None) -> list[Row]:
    """The same under the likeliest order of addresses alone: enough to pick one of several variants, with no spread."""
    return _run(devices, cases, [[driver_like(device)] for device in devices], progress)


def _run(
    devices: Sequence[Calibrated], cases: Sequence[Case], orders: Sequence[Sequence[Addresses]], progress: Progress
) -> list[Row]:
    histories = {id(steps): steps.native() for case in cases for steps in case.steps}
    jobs = [
        _Job(c, d, addresses)
        for c, case in enumerate(cases)
        for d, device in enumerate(devices)
        for addresses in _orders(device, case, case.steps[d], orders[d])
    ]

    def run(job: _Job) -> Outcome:
        case, device = cases[job.case], devices[job.device]
        history = histories[id(case.steps[job.device])]
        return allocator.replay(history, case.settings.native(), _limit(case, device), job.addresses, samples=0)

    found: list[list[list[Outcome]]] = [[[] for _ in devices] for _ in cases]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for done, (job, outcome) in enumerate(zip(jobs, pool.map(run, jobs), strict=True), 1):
            found[job.case][job.device].append(outcome)
            progress(done, len(jobs))
    return [_row(case, devices, outcomes) for case, outcomes in zip(cases, found, strict=True)]


def recorded_row(devices: Sequence[Calibrated]) -> Row:
    """What the recorded run did, as far as the emulation follows it."""
    cap = devices[0].cap if len(devices) == 1 else None
    case = Case("recorded", devices[0].settings, cap, "as recorded", tuple(d.steps for d in devices))
    return _row(case, devices, [[device.outcome] for device in devices])


def lower_bound(devices: Sequence[Calibrated]) -> int:
    """Bytes that any allocator needs: the most that the program had asked for and not yet got back, a device's peak each."""
    return sum(int(device.steps.requested_live().max(initial=0)) for device in devices)
