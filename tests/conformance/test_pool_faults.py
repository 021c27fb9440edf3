"""One suite for pools over the driver port: every scenario with a fault at every driver call that it makes.

The call fails as out of memory, as an invalid handle, and as a sticky error; and, for the first two, the first clean-up call after it
fails too. Whatever happens: no live block is harmed, no memory is lost, and figures equal the device's own account.
"""

import gc
from collections.abc import Callable
from functools import partial
from itertools import pairwise

import pytest

from conformance.pool_scenarios import SCENARIOS
from conformance.pool_world import AnyPool, FakeGround, Ground, SimGround, World
from forebay._core.driver import Status
from forebay.errors import Pending, PoolExhausted

Scenario = Callable[[World], None]


@pytest.fixture(scope="module", autouse=True)
def what_is_here_already_stays():
    """Each world begins with a collection, which need not look at what lived before the first."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()
    gc.collect()


def calls_of(scenario: Scenario, growth: str, ground: type[Ground]) -> int:
    """How many driver calls it makes when none fails; it leaves things in order then."""
    world = World(growth, ground)
    before = world.ground.calls
    scenario(world)
    calls = world.ground.calls - before
    nothing_is_harmed(world)
    the_next_operation_works(world)
    nothing_is_lost(world)
    return calls


def nothing_is_harmed(world: World) -> None:
    no_block_is_harmed(world)
    account = world.ground.account()
    assert world.accounted() == (account["used_bytes"], account["pinned_bytes"])


def no_block_is_harmed(world: World) -> None:
    for pool in world.pools:
        pool.walk()
    spans = sorted((h.address, h.address + h.nbytes) for h in world.held)
    assert all(end <= begin for (_, end), (begin, _) in pairwise(spans)), "live blocks overlap"
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
    account = world.ground.account()
    assert {name: account[name] for name in ("used_bytes", "segments", "frames", "mappings", "ranges") if account[name]} == {}
    assert world.accounted() == (account["pinned_bytes"], 0) == (0, 0)


def the_device_is_lost(world: World) -> None:
    """Allocations raise at once, frees and ends do nothing, and nobody calls the driver."""
    before = world.device.driver_calls, world.ground.calls
    for pool in world.pools:
        every_allocation_is_refused(world, pool)
        pool.gauges()
        world.trim(pool)
    pool = None
    world.free(*world.held)
    world.finish(*world.pages)
    while world.pools:
        world.end_of_pool()
    assert (world.device.driver_calls, world.ground.calls) == before


def every_allocation_is_refused(world: World, pool: AnyPool) -> None:
    for stream in (world.main, world.other):
        world.errors.clear()
        world.attempt(partial(world.take_some, pool, stream))
        assert [error.sticky for error in world.errors] == [True]


def with_fault(scenario: Scenario, growth: str, ground: type[Ground], position: int, status: str, *, clean_up_too: bool) -> World:
    world = World(growth, ground)
    world.ground.plan(position, status)
    if clean_up_too:
        world.ground.plan(1, status, clean_up=True)
    scenario(world)
    assert world.ground.plans_left() <= clean_up_too, "the fault never struck: the scenario is not the same twice"
    world.ground.forget_plans()
    for error in world.errors:
        assert isinstance(error, (PoolExhausted, Pending)) or error.status == Status[status]
    return world


# Nobody holds a world while the next one is made: what ends late would take the new one's handles.
def it_goes_on(world: World) -> None:
    nothing_is_harmed(world)
    the_next_operation_works(world)
    nothing_is_lost(world)


def it_is_over(world: World) -> None:
    if world.ground.done_all_the_same():
        no_block_is_harmed(world)
    else:
        nothing_is_harmed(world)
    the_device_is_lost(world)
    assert world.device.domain.dead


@pytest.mark.parametrize("ground", [SimGround, FakeGround])
@pytest.mark.parametrize("growth", ["segments", "frames"])
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
class TestAFaultAtEveryCall:
    @pytest.mark.parametrize("status", ["out_of_memory", "invalid_handle"])
    @pytest.mark.parametrize("clean_up_too", [False, True], ids=["", "and at the first clean-up"])
    def test_harms_nothing_and_the_next_operation_works(
        self, scenario: Scenario, growth: str, ground: type[Ground], status: str, clean_up_too: bool
    ) -> None:
        calls = calls_of(scenario, growth, ground)
        assert calls > 0
        # libcuda's calls are several to one of the port's: each fails alone, and every third also with a clean-up
        for position in range(1, calls + 1, 3 if ground is FakeGround and clean_up_too else 1):
            it_goes_on(with_fault(scenario, growth, ground, position, status, clean_up_too=clean_up_too))

    def test_that_loses_the_device_ends_all_calls(self, scenario: Scenario, growth: str, ground: type[Ground]) -> None:
        calls = calls_of(scenario, growth, ground)
        assert calls > 0
        for position in range(1, calls + 1):
            it_is_over(with_fault(scenario, growth, ground, position, "illegal_address", clean_up_too=False))
