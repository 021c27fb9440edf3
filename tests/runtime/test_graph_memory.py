"""The memory of a graph: reused inside the capture where that orders it and nowhere else; other pools go on meanwhile."""

import gc
import threading

import pytest

from forebay import PagedPool, PinnedPool, Pool
from forebay.errors import BadInput, PoolExhausted
from runtime.graph_world import WAITS, World, add_one, host


@pytest.fixture(params=[None, 5, 11])
def world(request):
    return World(request.param)


def test_a_freed_block_is_reused_on_its_stream_and_not_where_nothing_orders_it(world):
    with world.device.capture(world.main):
        first = world.pool.alloc(4096, world.main)
        forked = world.main.record()
        world.side.wait(forked)
        world.main.memset(first, 1)
        address = first.address
        first.free()
        beside = world.pool.alloc(4096, world.side)
        world.side.memset(beside, 2)
        assert beside.address != address
        again = world.pool.alloc(4096, world.main)
        assert again.address == address
        again.free()
        world.side.wait(world.main.record())
        joined = world.pool.alloc(4096, world.side)
        assert joined.address == address
        world.main.wait(world.side.record())


def test_a_block_that_two_streams_used_is_reused_only_after_both(world):
    with world.device.capture(world.main):
        block = world.pool.alloc(4096, world.main)
        world.side.wait(world.main.record())
        world.side.memset(block, 1)
        address = block.address
        block.free()
        early = world.pool.alloc(4096, world.main)
        assert early.address != address
        world.main.wait(world.side.record())
        assert world.pool.alloc(4096, world.main).address == address


def test_an_unused_block_passes_on_what_the_one_before_it_waits_for(world):
    with world.device.capture(world.main):
        block = world.pool.alloc(4096, world.main)
        world.side.wait(world.main.record())
        world.main.memset(block, 1)
        address = block.address
        block.free()
        world.pool.alloc(4096, world.main).free()  # the same bytes, never used
        assert world.pool.alloc(4096, world.side).address != address


def test_its_memory_never_serves_the_pool_while_the_graph_lives(world):
    with world.device.capture(world.main) as graph:
        kept = world.pool.alloc(4096, world.main)
        world.main.launch(add_one, [world.x], [world.x])
        world.main.memset(kept, 9)
        low, high = kept.address, kept.address + 4096
        kept.free()
    for round in range(300):
        blocks = [world.pool.alloc(1 + 997 * (round + i) % 5000, world.main) for i in range(3)]
        assert all(b.address + b.nbytes <= low or b.address >= high for b in blocks)
        for block in blocks:
            world.main.memset(block, 1)
            block.free()
        graph.replay(world.main)
    assert host(world.main, world.x) == [300 % 256] * 4


def test_a_closed_graph_gives_everything_back_after_its_replays(world):
    used = world.device.account.used_bytes
    with world.device.capture(world.main, reserve="4MiB") as graph:
        world.step()
    graph.replay(world.main)
    graph.close()
    graph.close()
    gc.collect()
    assert world.device.account.used_bytes == used
    assert (world.device.account.graphs, world.device.account.executables) == (0, 0)
    assert host(world.main, world.x) == [2] * 4
    with pytest.raises(BadInput, match="was closed"):
        graph.replay(world.main)


def test_an_event_of_its_capture_does_not_keep_the_memory_of_a_closed_graph(world):
    used = world.device.account.used_bytes
    with world.device.capture(world.main) as graph:
        world.step()
        inside = world.main.record()
    graph.close()
    gc.collect()
    assert world.device.account.used_bytes == used
    assert not inside.closed


def test_a_graph_that_is_dropped_inside_a_capture_goes_after_it(world):
    with world.device.capture(world.main) as first:
        world.step()
    assert first.nodes == 2
    with world.device.capture(world.main) as second:
        world.step()
        del first
        gc.collect()
        assert world.device.account.executables == 1
    assert world.device.account.executables == 1
    second.replay(world.main)
    assert host(world.main, world.x) == [2] * 4


def test_what_a_graph_wrote_stays_readable_while_somebody_holds_it(world):
    with world.device.capture(world.main) as graph:
        out = world.pool.alloc(4, world.main)
        world.main.launch(add_one, [world.x], [out])
    graph.replay(world.main)
    graph.close()
    assert host(world.main, out) == [1] * 4
    out.free()


def test_out_of_memory_inside_a_capture_is_raised_as_such_and_nobody_is_made_to_give_back():
    """Report E5: an allocator that frees, syncs or queries then breaks the capture, and hides the error."""
    world = World(capacity="16MiB")
    hoard = world.pool.alloc(9 * 2**20, world.main)
    world.main.memset(hoard, 1)
    hoard.free()
    made = set()

    def captured():
        with world.device.capture(world.main, mode="global"):
            world.main.launch(add_one, [world.x], [world.x])
            asked = world.device.driver_calls
            try:
                world.pool.alloc(12 * 2**20, world.main)
            finally:
                made.update({name for name, n in world.device.driver_calls.items() if n > asked[name]})

    with pytest.raises(PoolExhausted, match="asked 12 MiB"):
        captured()
    assert made
    assert not made & {*WAITS, "free", "event_record"}
    world.main.launch(add_one, [world.x], [world.x])
    assert host(world.main, world.x) == [1] * 4


@pytest.mark.parametrize("mode", ["global", "thread_local", "relaxed"])
@pytest.mark.parametrize("growth", ["segments", "frames"])
def test_pools_of_other_threads_go_on_during_a_capture_and_break_none(mode, growth):
    """Report E5 again: a query, on any thread, of an event that falls into the capture; a cudaMalloc of another thread."""
    world = World()
    pool = Pool(world.device, "other", growth=growth)
    lent = pool.alloc(2**20, world.side)
    world.main.memset(lent, 1)  # its free waits for the stream that will capture
    errors = []

    def churn():
        try:
            lent.free()
            for n in range(1, 8):
                pool.alloc(n * 2**20, world.side).free()
            pool.trim()
        except Exception as error:
            errors.append(error)

    with world.device.capture(world.main, mode=mode) as graph:
        thread = threading.Thread(target=churn)
        thread.start()
        thread.join()
        world.step()
    assert errors == []
    graph.replay(world.main)
    assert host(world.main, world.x) == [2] * 4
    pool.trim()
    assert pool.gauges().reserved == 0


@pytest.mark.parametrize("mode", ["global", "thread_local", "relaxed"])
def test_pools_that_come_and_go_inside_a_capture_break_it_not(mode):
    world = World()

    def pools():
        return (
            Pool(world.device, "segments"),
            Pool(world.device, "frames", growth="frames"),
            PinnedPool(world.device, "pinned"),
            PagedPool(world.device, "paged", "1MiB", page_bytes=4096, page_tokens=16),
        )

    old = pools()
    for pool in old[:2]:
        block = pool.alloc(2**20, world.side)
        world.side.memset(block, 1)
        block.free()
    old[2].alloc(64).free()
    used = world.device.account.used_bytes, world.device.account.pinned_bytes
    with world.device.capture(world.main, mode=mode) as graph:
        world.step()
        new, old, pool = pools(), None, None
        gc.collect()
    graph.replay(world.main)
    assert host(world.main, world.x) == [2] * 4
    for pool in new[:2]:
        pool.alloc(2**20, world.side).free()
    new[2].alloc(64).free()
    graph.close()
    block = None
    for pool in new[:2]:
        pool.trim()
    gc.collect()
    assert world.device.account.used_bytes <= used[0]
    assert world.device.domain.quarantined_bytes == 0


def test_driver_memory_and_blocks_of_a_debug_pool_that_are_freed_inside_go_afterwards(world):
    driver_memory, checked = world.device.malloc(4096), Pool(world.device, "checked", debug=True)
    block = checked.alloc(64, world.main)
    world.main.memset(block, 1)
    with world.device.capture(world.main) as graph:
        world.step()
        before = world.device.driver_calls
        driver_memory.free()
        block.free()
        assert world.device.driver_calls == before
    assert graph.nodes == 2
    assert world.device.driver_calls["free"] == before["free"] + 1
    checked.check()
