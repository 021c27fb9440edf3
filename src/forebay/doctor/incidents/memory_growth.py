"""What it is: live memory that grows with every iteration: somebody keeps what should be let go.

Why it matters: it ends in an out-of-memory that is blamed on the request that happened to come then.

Instead: find who holds the blocks of the growing sites: a list of losses with their graphs, a cache without a limit, a closure.
"""

import numpy as np

from forebay._core.allocator import Step
from forebay.doctor.evidence import Evidence
from forebay.doctor.figures import IncidentFigures
from forebay.doctor.saying import found, sized
from forebay.finding import Bytes, Finding
from forebay.tape import Kind, Sees
from forebay.whatif.steps import freed_at_request

NAME = "memory-growth"
NEEDS = frozenset({Sees.ALLOCS})
_WINDOWS, _WARM = 16, 0.2  # windows of the history after its first fifth
_CHURN, _RISE = 4.0, 0.1  # allocated in all against the peak: it iterates, if no region says so; the rise against the peak
_LET_GO = 8.0  # of the rise: allocated and freed again
_FALL = 0.1  # of the rise: a program that lets go of more than that keeps a working set, not a leak


class Figures(IncidentFigures, frozen=True, kw_only=True):
    """How much what stays live rose, to how much, and what one site made of it."""

    rise_bytes: Bytes
    floor_bytes: Bytes
    held_by_one_site_bytes: Bytes


def judge(e: Evidence) -> Finding | None:
    """The least that is live in each window of an iterating history rises from nearly every window to the next, and hardly ever falls.
    Beside a refusal it is a warning: the refusal has a cause of its own."""
    if e.run is None or len(e.run.steps.step) < 200:
        return None
    steps = freed_at_request(e.run.steps)  # what waits for an event was let go: deferred frees are another matter
    steps = steps.head(1 + int(np.flatnonzero(steps.step == int(Step.alloc)).max(initial=-1)))  # not the program's end
    live = steps.requested_live()
    peak, churn = int(live.max()), int(steps.bytes[steps.step == int(Step.alloc)].sum())
    floors = np.array([part.min() for part in np.array_split(live[int(len(live) * _WARM) :], _WINDOWS)])
    rise, steps_up = int(floors[-1] - floors[0]), np.diff(floors)
    if (
        not (churn >= _CHURN * peak or _told_iterations(e) or _goes_round(e, churn, rise))
        or rise < _RISE * peak
        or (steps_up > 0).sum() < 0.9 * (_WINDOWS - 1)
        or -int(steps_up[steps_up < 0].sum()) > _FALL * rise
    ):
        return None
    alloc = steps.step == int(Step.alloc)
    kept = np.zeros(len(steps.site), bool)
    kept[steps.handle[alloc & (np.arange(len(live)) >= int(len(live) * _WARM))]] = True
    kept[steps.handle[np.isin(steps.step, (int(Step.free), int(Step.request)))]] = False
    size = np.zeros(len(steps.site))
    size[steps.handle[alloc]] = steps.bytes[alloc]
    held = np.bincount(steps.site[kept], weights=size[kept], minlength=1)
    worst = [int(s) for s in np.argsort(held)[::-1] if held[s] > 0]
    return found(
        NAME,
        f"what stays live grew by {sized(rise)} over the last {1 - _WARM:.0%} of the history, to {sized(int(floors[-1]))}; "
        f"what one site made since then and kept to the end is {sized(int(held.max()))}",
        "find who keeps the blocks of these sites: a list of tensors that still carry their graph, a cache without a limit",
        Figures(rise_bytes=rise, floor_bytes=int(floors[-1]), held_by_one_site_bytes=int(held.max())),
        certain=int(held.max()) >= rise // 2 and not e.refused,  # before a refusal it may have been the way to a plateau
        severity="warning" if e.refused else "error",
        sites=e.sites(worst),
    )


def _goes_round(e: Evidence, churn: int, rise: int) -> bool:
    """Whether a history that begins in mid-life, when nothing is loaded any more, lets go of many times what stays."""
    return e.tape is not None and Sees.BEGINNING not in e.tape.sees and churn - rise >= _LET_GO * rise


def _told_iterations(e: Evidence) -> bool:
    """Whether regions of the program say that it went round at least twice in each window."""
    return e.tape is not None and Sees.ITERATIONS in e.tape.sees and len(e.tape.where(Kind.region_begin)) >= 2 * _WINDOWS
