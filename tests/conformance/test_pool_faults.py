"""One suite for pools over the driver port: every scenario with a fault at every driver call that it makes.

The call fails as out of memory, as an invalid handle, and as a sticky error; and, for the first two, the first clean-up call after it
fails too. Whatever happens: no live block is harmed, no memory is lost, and figures equal the device's own account.
"""

from collections.abc import Callable
from functools import partial
from itertools import pairwise

import pytest

from conformance.pool_scenarios import SCENARIOS
from conformance.pool_world import CLEAN_UP, AnyPool, World
from forebay._core.driver import Status
from forebay.errors import Pending, PoolExhausted

Scenario = Callable[[World], None]


def calls_of(scenario: Scenario, growth: str) -> int:
    """How many driver calls it makes when none fails; it leaves things in order then."""
    world = World(growth)
    before = world.calls
    scenario(world)
    calls = world.calls - before
    nothing_is_harmed(world)
    the_next_operation_works(world)
    nothing_is_lost(world)
    return calls


def nothing_is_harmed(world: World) -> None:
    for pool in world.pools:
        pool.walk()
    spans = sorted((h.address, h.address + h.nbytes) for h in world.held)
    assert all(end <= begin for (_, end), (begin, _) in pairwise(spans)), "live blocks overlap"
    account = world.sim.account(0)
    assert world.accounted() == (account.used_bytes, account.pinned_bytes)
    assert world.damaged() == []


def the_next_operation_works(world: World) -> None:
    for pool in list(world.pools):
        world.empty(pool)
        assert pool.gauges().allocated == 0
        world.take_some(pool, world.main)
    nothing_is_harmed(world)


def nothing_is_lost(world: World) -> None:
    """Without faults all memory can be given back, that of quarantine too."""
    world.pool()
    while world.pools:
        world.trim(world.pools[0])
        world.end_of_pool()
    account = world.sim.account(0)
    assert (account.used_bytes, account.segments, account.frames, account.mappings, account.ranges) == (0, 0, 0, 0, 0)
    assert world.accounted() == (account.pinned_bytes, 0) == (0, 0)


def the_device_is_lost(world: World) -> None:
    """Allocations raise at once, frees and ends do nothing, and nobody calls the driver."""
    before = world.device.driver_calls
    for pool in world.pools:
        every_allocation_is_refused(world, pool)
        pool.gauges()
        world.trim(pool)
    pool = None
    world.free(*world.held)
    world.finish(*world.pages)
    while world.pools:
        world.end_of_pool()
    assert world.device.driver_calls == before


def every_allocation_is_refused(world: World, pool: AnyPool) -> None:
    for stream in (world.main, world.other):
        world.errors.clear()
        world.attempt(partial(world.take_some, pool, stream))
        assert [error.sticky for error in world.errors] == [True]


def with_fault(scenario: Scenario, growth: str, position: int, status: str, *, clean_up_too: bool) -> World:
    world = World(growth)
    world.device.fail(nth=position, status=status)
    if clean_up_too:
        world.device.fail(CLEAN_UP, status=status)
    scenario(world)
    assert world.faulty.plans_left() <= clean_up_too, "the fault never struck: the scenario is not the same twice"
    world.faulty.forget_plans()
    for error in world.errors:
        assert isinstance(error, (PoolExhausted, Pending)) or error.status == Status[status]
    return world


@pytest.mark.parametrize("growth", ["segments", "frames"])
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
class TestAFaultAtEveryCall:
    @pytest.mark.parametrize("status", ["out_of_memory", "invalid_handle"])
    @pytest.mark.parametrize("clean_up_too", [False, True], ids=["", "and at the first clean-up"])
    def test_harms_nothing_and_the_next_operation_works(
        self, scenario: Scenario, growth: str, status: str, clean_up_too: bool
    ) -> None:
        calls = calls_of(scenario, growth)
        assert calls > 0
        for position in range(1, calls + 1):
            world = with_fault(scenario, growth, position, status, clean_up_too=clean_up_too)
            nothing_is_harmed(world)
            the_next_operation_works(world)
            nothing_is_lost(world)

    def test_that_loses_the_device_ends_all_calls(self, scenario: Scenario, growth: str) -> None:
        for position in range(1, calls_of(scenario, growth) + 1):
            world = with_fault(scenario, growth, position, "illegal_address", clean_up_too=False)
            nothing_is_harmed(world)
            the_device_is_lost(world)
            assert world.device.domain.dead
