"""buckets: request sizes rounded up to a few fitted sizes: what it would save in shapes, and what it wastes.

The fit minimises waste by dynamic programming over several ideas of which requests matter; which of the fits holds least is for a
replay to say (pytorch_policy.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from forebay._core.allocator import Step
from forebay.units import size
from forebay.whatif.calibrate import Calibrated
from forebay.whatif.pytorch_policy import Case
from forebay.whatif.steps import Steps

__all__ = ["AUTO", "Bucket", "bucket_cases", "bucketed", "fitted", "waste"]

Array = NDArray[Any]
AUTO: Final = (4, 8, 16, 32)  # numbers of buckets that `auto` tries
_DISTINCT: Final = 256  # sizes that the fit tells apart


@dataclass(frozen=True, slots=True)
class Bucket:
    """One size (bytes): how many requests it serves, and the bytes it wastes on those that are live at the worst moment."""

    size: int
    requests: int
    waste: int


def _asks(steps: Steps) -> Array:
    return np.isin(steps.step, (int(Step.alloc), int(Step.refused)))


def _live_at_peak(steps: Steps) -> Array:
    """Which handles are live when the program holds most."""
    end = int(np.argmax(steps.requested_live())) + 1 if len(steps.step) else 0
    live = np.zeros(len(steps.address), bool)
    live[steps.handle[:end][steps.step[:end] == int(Step.alloc)]] = True
    live[steps.handle[:end][np.isin(steps.step[:end], (int(Step.free), int(Step.complete)))]] = False
    return live


def _sizes(steps: Steps) -> Array:
    """The requested bytes of each handle."""
    out = np.zeros(len(steps.address), "u8")
    alloc = steps.step == int(Step.alloc)
    out[steps.handle[alloc]] = steps.bytes[alloc]
    return out


def _grouped(sizes: Array, weights: Array) -> tuple[Array, Array]:
    """Distinct sizes, at most _DISTINCT, each the largest of its group, with the groups' weights."""
    distinct, inverse = np.unique(sizes, return_inverse=True)
    weight = np.bincount(inverse, weights=weights)
    if len(distinct) <= _DISTINCT:
        return distinct, weight
    group = np.arange(len(distinct)) * _DISTINCT // len(distinct)
    last = np.append(np.flatnonzero(np.diff(group)), len(distinct) - 1)
    return distinct[last], np.bincount(group, weights=weight)


def fitted(sizes: Array, weights: Array, count: int) -> Array:
    """The `count` bucket sizes (u8, ascending, the largest request among them) that waste the least weighted bytes.

    Optimal over the distinct sizes (up to 256 groups of them): dynamic programming, cost[k, j] the least waste of sizes up to j in
    k buckets.

    >>> fitted(np.array([1, 2, 10, 11], "u8"), np.ones(4), 2).tolist()
    [2, 11]
    """
    distinct, weight = _grouped(sizes, weights)
    n, count = len(distinct), min(count, len(distinct))
    if not n:
        return distinct
    value = distinct.astype("f8")
    total, mass = np.concatenate([[0], np.cumsum(weight)]), np.concatenate([[0], np.cumsum(weight * value)])
    # waste[i, j]: sizes i..j rounded up to size j.
    waste = value[None, :] * (total[None, 1:] - total[:-1, None]) - (mass[None, 1:] - mass[:-1, None])
    waste[np.tril_indices(n, -1)] = np.inf
    cost, cuts = waste[0].copy(), np.zeros((count, n), int)
    for k in range(1, count):
        through = np.concatenate([[np.inf], cost[:-1]])[:, None] + waste  # the last bucket begins at i
        cuts[k] = np.argmin(through, axis=0)
        cost = np.minimum(cost, through[cuts[k], np.arange(n)])
        cuts[k][cost < through[cuts[k], np.arange(n)]] = 0
    return distinct[_ends(cuts, n - 1)]


def _ends(cuts: Array, last: int) -> list[int]:
    """Where each bucket ends, read back from the cuts of the dynamic programme."""
    ends = [last]
    for k in range(len(cuts) - 1, 0, -1):
        if (first := int(cuts[k][ends[-1]])) == 0:
            break
        ends.append(first - 1)
    return ends[::-1]


def bucketed(steps: Steps, buckets: Array) -> Steps:
    """The history with every request rounded up to a bucket. The largest bucket holds the largest request."""
    asks = _asks(steps)
    rounded = steps.bytes.copy()
    rounded[asks] = buckets[np.searchsorted(buckets, steps.bytes[asks])]
    return replace(steps, bytes=rounded)


def waste(steps: Steps, buckets: Array) -> list[Bucket]:
    """What each bucket serves, and wastes at the moment when the program holds most."""
    sizes, live = _sizes(steps), _live_at_peak(steps)
    which = np.searchsorted(buckets, sizes)
    lost = np.where(live, buckets[np.minimum(which, len(buckets) - 1)].astype("i8") - sizes.astype("i8"), 0)
    counts, sums = np.bincount(which, minlength=len(buckets)), np.bincount(which, weights=lost, minlength=len(buckets))
    return [Bucket(int(b), int(c), int(w)) for b, c, w in zip(buckets, counts, sums, strict=False)]


def _fits(devices: Sequence[Calibrated], count: int) -> list[Array]:
    """Fits for requests weighed by who is live at the peak, by how often they come, and all alike; no fit twice."""
    sizes = np.concatenate([_sizes(d.steps) for d in devices])
    live = np.concatenate([_live_at_peak(d.steps) for d in devices])
    refused = np.concatenate([d.steps.bytes[d.steps.step == int(Step.refused)] for d in devices])
    sizes, live = np.concatenate([sizes, refused]), np.concatenate([live, np.ones(len(refused), bool)])
    distinct, inverse, often = np.unique(sizes, return_inverse=True, return_counts=True)
    weights = (live + 1e-6, np.ones(len(sizes)), 1.0 / often[inverse] if len(distinct) else np.zeros(0))
    found = {fitted(sizes, weight, count).tobytes(): fitted(sizes, weight, count) for weight in weights}
    return [buckets for buckets in found.values() if len(buckets)]


def _told(devices: Sequence[Calibrated], buckets: Array) -> str:
    rows = [row for d in devices for row in waste(d.steps, buckets)]
    lost = sum(row.waste for row in rows)
    worst = max(rows, key=lambda row: row.waste)
    listed = ", ".join(size(int(b)) for b in (buckets if len(buckets) <= 8 else [*buckets[:3], *buckets[-3:]]))
    return (
        f"pad requests up to {len(buckets)} sizes ({listed}{', …' if len(buckets) > 8 else ''}); at the peak they waste {size(lost)}, "
        f"{size(worst.waste)} of it in {size(worst.size)}"
    )


def bucket_cases(devices: Sequence[Calibrated], count: int | None, cap: int | None) -> list[Case]:
    """Cases with sizes in `count` buckets (None: several counts), one for each fit: the best of them is the row to show."""
    cases = []
    for n in AUTO if count is None else (count,):
        for buckets in _fits(devices, n):
            steps = tuple(bucketed(d.steps, buckets) for d in devices)
            cases.append(Case(f"{len(buckets)} buckets", devices[0].settings, cap, _told(devices, buckets), steps))
    return cases
