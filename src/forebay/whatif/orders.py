"""orders: the orders of addresses in which a replay's new segments could lie: the driver's first, then whatever other order the recorded
run does not contradict. What an order does to a history is native/emulate's.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from forebay._core import allocator
from forebay._core.allocator import Addresses, Outcome
from forebay.whatif.calibrate import Calibrated

__all__ = ["as_recorded", "driver_like", "possible"]

_SEEDS: Final = range(2)


def as_recorded(device: Calibrated) -> Addresses:
    """The recorded addresses: those of the recorded run itself."""
    return Addresses.recorded(device.steps.segments.address[device.steps.segments.made()].copy())


def driver_like(device: Calibrated) -> Addresses:
    """As the driver hands them out: the likeliest."""
    whole = device.steps.segments.whole()
    return Addresses.driver(device.steps.segments.address[whole].copy(), device.steps.segments.size[whole].copy())


def _others() -> Iterator[Addresses]:
    yield Addresses.descending()
    yield Addresses.ascending()
    yield from map(Addresses.shuffled, _SEEDS)


def _same_calls(a: Outcome, b: Outcome) -> bool:
    return np.array_equal(a.event_action, b.event_action) and np.array_equal(a.event_size, b.event_size)


def possible(device: Calibrated) -> list[Addresses]:
    """The orders that could be the device's, the likeliest first: one that, under the recorded settings, does not lead to the driver
    calls that were recorded is not among them. Of a history that is not calibrated nothing contradicts any."""
    others, first = list(_others()), driver_like(device)
    if not device.exact:
        return [first, *others]
    history, settings = device.steps.native(), device.settings.native()
    runs = [allocator.replay_traced(history, settings, device.limits(), order) for order in others]
    return [first, *(order for order, run in zip(others, runs, strict=True) if _same_calls(run, device.outcome))]
