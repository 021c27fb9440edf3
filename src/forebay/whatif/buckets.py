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
MIB: Final = 2**20
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


@dataclass(frozen=True, slots=True)
class _Asked:
    """What handles asked for, and which of them are live when the program holds most; found once, for every fit."""

    sizes: Array
    live: Array

    @classmethod
    def of(cls, steps: Steps) -> _Asked:
        return cls(_sizes(steps), _live_at_peak(steps))

    def waste(self, buckets: Array) -> list[Bucket]:
        which = np.searchsorted(buckets, self.sizes)
        rounded = buckets[np.minimum(which, len(buckets) - 1)].astype("i8")
        lost = np.where(self.live, rounded - self.sizes.astype("i8"), 0)
        counts = np.bincount(which, minlength=len(buckets))
        sums = np.bincount(which, weights=lost, minlength=len(buckets))
        return [Bucket(int(b), int(c), int(w)) for b, c, w in zip(buckets, counts, sums, strict=False)]


def waste(steps: Steps, buckets: Array) -> list[Bucket]:
    """What each bucket serves, and wastes at the moment when the program holds most."""
    return _Asked.of(steps).waste(buckets)


def _weighed(devices: Sequence[Calibrated], asked: Sequence[_Asked]) -> tuple[Array, list[Array]]:
    """All sizes, and what each counts: by who is live at the peak, by how often they come, and all alike."""
    refused = np.concatenate([d.steps.bytes[d.steps.step == int(Step.refused)] for d in devices])
    sizes = np.concatenate([*(a.sizes for a in asked), refused])
    live = np.concatenate([*(a.live for a in asked), np.ones(len(refused), bool)])
    distinct, inverse, often = np.unique(sizes, return_inverse=True, return_counts=True)
    return sizes, [live + 1e-6, np.ones(len(sizes)), 1.0 / often[inverse] if len(distinct) else np.zeros(0)]


def _told(asked: Sequence[_Asked], buckets: Array) -> str:
    rows = [row for each in asked for row in each.waste(buckets)]
    lost = sum(row.waste for row in rows)
    worst = max(rows, key=lambda row: row.waste)
    ends = ([*buckets],) if len(buckets) <= 8 else (buckets[:3], buckets[-3:])
    listed = ", …, ".join(", ".join(size(int(b)) for b in some) for some in ends)
    most = f", {size(worst.waste)} of it in those of {size(worst.size)}" if worst.waste >= MIB else ""
    return f"pad requests up to {len(buckets)} sizes ({listed}); at the peak they waste {size(lost)}{most}"


def bucket_cases(devices: Sequence[Calibrated], count: int | None, cap: int | None) -> list[Case]:
    """Cases with sizes in `count` buckets (None: several counts), one for each fit, no fit twice: the best of them is the row to show."""
    asked = [_Asked.of(device.steps) for device in devices]
    sizes, weights = _weighed(devices, asked)
    fits = [fitted(sizes, weight, n) for n in (AUTO if count is None else (count,)) for weight in weights]
    different = {buckets.tobytes(): buckets for buckets in fits if len(buckets)}
    cases = []
    for buckets in different.values():
        steps = tuple(bucketed(d.steps, buckets) for d in devices)
        cases.append(Case(f"{len(buckets)} buckets", devices[0].settings, cap, _told(asked, buckets), steps))
    return cases
