"""shown: a planted race made visible: the schedule under which the server's tokens are wrong, every time.

The search is adversary's, the faults are faults.py's.
"""

from __future__ import annotations

from forebay.adversary import Searched, search
from forebay.demo.faults import Fault
from forebay.demo.server import serve
from forebay.runtime import Schedule, SimDevice

REQUESTS = 4  # few, since a search serves them over and over
BUDGET = 200

Tokens = dict[int, list[int]]


class _Order(SimDevice):
    """Stands for the device that the server makes itself."""

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule


def shown(fault: Fault, seed: int, budget: int = BUDGET) -> Searched[Tokens]:
    """Searches at most `budget` schedules for one under which `REQUESTS` requests of `seed` get other tokens than by virtual time."""

    def tokens(made: SimDevice) -> Tokens:
        assert isinstance(made, _Order)
        return dict(serve(seed, REQUESTS, engine=fault.engine, schedule=made.schedule).tokens)

    return search(tokens, _Order, budget=budget)
