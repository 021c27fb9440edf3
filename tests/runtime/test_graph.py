"""Graphs of the runtime: what a capture records, where its memory comes from, what a replay does, and what it refuses."""

import gc
from pathlib import Path

import numpy as np
import pytest

from forebay import PagedPool, PinnedPool
from forebay._core.driver import Status
from forebay.errors import BadInput, DriverError, PoolExhausted
from forebay.runtime import GraphCache
from runtime.graph_world import MEMORY_CALLS, WAITS, World, add_one, host


@pytest.fixture(params=[None, 5, 11])
def world(request):
    return World(request.param)


def test_a_capture_runs_nothing_and_each_replay_all_of_it(world):
    with world.device.capture(world.main) as graph:
        world.step()
    assert host(world.main, world.x) == [0] * 4
    assert graph.nodes == 2
    for _ in range(5):
        graph.replay(world.main)
    assert host(world.main, world.x) == [10] * 4


def test_replays_on_two_streams_come_after_one_another(world):
    with world.device.capture(world.main) as graph:
        world.step()
    for stream in (world.main, world.side) * 5:
        graph.replay(stream)
    world.device.synchronize()
    assert host(world.main, world.x) == [20] * 4


def test_with_a_reserve_the_capture_makes_no_driver_call_for_memory_and_never_asks_or_waits(world):
    before = world.calls(MEMORY_CALLS)
    block = world.device.capture(world.main, reserve="1MiB")
    with block as graph:
        grown, asked = world.calls(MEMORY_CALLS), world.calls(WAITS)
        for _ in range(50):
            world.step()
        assert (world.calls(MEMORY_CALLS), world.calls(WAITS)) == (grown, asked)
    assert grown > before
    assert graph.reserved >= 2**20


@pytest.mark.parametrize("mode", ["global", "thread_local", "relaxed"])
def test_without_one_its_memory_grows_inside_the_capture_in_every_mode(world, mode):
    with world.device.capture(world.main, mode=mode) as graph:
        before = world.calls(MEMORY_CALLS)
        world.step()
        assert world.calls(MEMORY_CALLS) == before + 1
    graph.replay(world.main)
    assert host(world.main, world.x) == [2] * 4


# ---- what a graph saw


def test_a_block_that_was_given_back_is_named_with_its_free_and_the_capture(world):
    weight = world.filled(3)
    with world.device.capture(world.main, name="decode") as graph:
        world.main.launch(add_one, [weight], [world.x])
    graph.replay(world.main)
    weight.free()
    taken = world.pool.alloc(4, world.main)
    with pytest.raises(BadInput) as caught:
        graph.replay(world.main)
    message = str(caught.value)
    lines = [f"{__file__}:{line}" for line in lines_of(weight, graph)]
    assert "Graph('decode'" in message
    assert f"{weight.address:#x}" in message
    assert all(line in message for line in lines)
    taken.free()


def lines_of(buffer, graph):
    """Of the free, and of the capture: by looking at this file."""
    source = Path(__file__).read_text().splitlines()
    begin = source.index('    with world.device.capture(world.main, name="decode") as graph:') + 1
    free = source.index("    weight.free()") + 1
    assert (buffer.freed_at, graph.captured_at) == (f"{__file__}:{free}", f"{__file__}:{begin}")
    return begin, begin + 1, free


def test_blocks_of_the_capture_itself_may_be_freed_at_any_time(world):
    with world.device.capture(world.main) as graph:
        out = world.pool.alloc(4, world.main)
        world.main.launch(add_one, [world.x], [out])
        world.main.launch(add_one, [out], [world.x])
    out.free()
    graph.replay(world.main)
    assert host(world.main, world.x) == [2] * 4


def test_pinned_blocks_and_pages_that_went_are_told_too(world):
    pinned = PinnedPool(world.device, "pinned")
    paged = PagedPool(world.device, "kv", "1MiB", page_bytes=4096, page_tokens=16)
    staged, sequence = pinned.alloc(4), paged.open(world.main)
    sequence.grow(1, world.main)
    with world.device.capture(world.main) as up:
        world.main.copy(world.x, staged)
    with world.device.capture(world.main) as down:
        world.main.copy(sequence.page(0, "u1", 4), world.x)
    staged.numpy()[:4] = 7
    up.replay(world.main)
    down.replay(world.main)
    assert host(world.main, sequence.page(0, "u1", 4)) == [7] * 4
    staged.free()
    sequence.finish()
    for graph in (up, down):
        with pytest.raises(BadInput, match="was given back at"):
            graph.replay(world.main)


def test_a_block_is_freed_after_the_replays_that_used_it(world):
    block = world.filled(0)
    with world.device.capture(world.main) as graph:
        world.main.launch(add_one, [block], [block])
    graph.replay(world.side)
    assert world.side.id in block.streams


# ---- faults of the driver


def whole(world):
    """A program that goes on with what there is: captures, replays, closes."""
    errors = []
    try:
        with world.device.capture(world.main, reserve="1MiB") as graph:
            world.step()
            big = world.pool.alloc(3 * 2**20, world.main)
            world.side.wait(world.main.record())
            world.side.memset(big, 1)
            world.main.wait(world.side.record())
        graph.replay(world.main)
        world.main.synchronize()
        graph.close()
    except (DriverError, PoolExhausted) as error:
        errors.append(error)
    return errors


def calls_of_whole():
    world = World()
    before = sum(world.device.driver_calls.values())
    assert whole(world) == []
    return sum(world.device.driver_calls.values()) - before


@pytest.mark.parametrize("status", ["out_of_memory", "invalid_handle", "capture_unsupported"])
def test_a_fault_at_every_call_leaves_no_capture_open_and_nothing_behind(status):
    for position in range(1, calls_of_whole() + 1):
        world = World()
        world.main.synchronize()
        used = world.device.account.used_bytes
        world.device.fail(nth=position, status=status)
        errors = whole(world)
        world.device.machine.faulty.forget_plans()
        gc.collect()
        assert world.device.machine.captures == []
        world.device.synchronize()
        world.x.free()
        world.x = world.filled(0)
        assert whole(world) == [], f"after a fault at call {position}: {errors}"
        del errors
        gc.collect()
        assert host(world.main, world.x) == [2] * 4
        assert world.device.account.used_bytes == used + world.device.domain.quarantined_bytes, position


def test_a_sticky_fault_at_every_call_ends_it_all_and_says_so():
    for position in range(1, calls_of_whole() + 1):
        world = World()
        world.device.fail(nth=position, status="illegal_address")
        errors = whole(world)
        assert [error.status for error in errors] in ([Status.illegal_address], [])
        with pytest.raises(DriverError):
            world.device.synchronize()


# ---- graphs by size


class Padded:
    """x + 1 of as many rows as asked, through a padded graph."""

    def __init__(self, cap):
        self.world = World()
        self.source = self.world.pool.alloc(64, self.world.main)
        self.target = self.world.pool.alloc(64, self.world.main)
        self.sizes = []
        self.graphs = GraphCache(self.world.main, self.step, [4, 1, 8, 16], cap=cap)

    def step(self, size):
        self.sizes.append(size)
        self.world.main.launch(add_one, [self.source.array("u1", size)], [self.target.array("u1", size)])
        return size

    def run(self, values):
        self.graphs.prepare(len(values))
        self.world.main.copy(self.source.array("u1", len(values)), np.array(values, "u1"))
        self.graphs.replay(len(values))
        out = np.zeros(len(values), "u1")
        self.world.main.copy(out, self.target.array("u1", len(values)))
        return out.tolist()


def test_sizes_are_padded_to_the_next_bucket_and_each_is_captured_once():
    padded = Padded(cap=4)
    for values in ([1, 2, 3], [1], [5, 6, 7, 8], [1, 2], [9] * 13):
        assert padded.run(values) == [v + 1 for v in values]
    assert padded.sizes == [4, 1, 16]
    assert padded.graphs.captures == 3
    assert [padded.graphs.bucket(n) for n in (1, 2, 4, 5, 16)] == [1, 4, 4, 8, 16]
    with pytest.raises(BadInput, match="size 17 is above the largest bucket, 16"):
        padded.graphs.prepare(17)


def test_at_most_cap_graphs_live_and_the_one_unused_the_longest_goes():
    padded = Padded(cap=2)
    for size in (1, 4, 1, 8, 4):
        padded.run([1] * size)
    assert padded.sizes == [1, 4, 8, 4]
    assert list(padded.graphs.graphs) == [8, 4]
    assert padded.world.device.account.executables == 2
    padded.graphs.close()
    assert padded.world.device.account.executables == 0


@pytest.mark.parametrize("buckets", [[], [0], ["a"]])
def test_buckets_that_are_none_are_refused(buckets):
    world = World()
    with pytest.raises(BadInput):
        GraphCache(world.main, lambda size: None, buckets)
