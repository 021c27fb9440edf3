"""What the gauges promise: the largest hit is a hit and one step more is not, and what the host knows complete is not pending."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forebay.errors import DriverError
from forebay.runtime import Buffer, Pool, SimDevice, Stream

KIB, MIB = 2**10, 2**20
SIZES = st.sampled_from([100, 512, 1500, 4096, 5000, 33 * KIB, 500 * KIB, MIB, MIB + 512, 3 * MIB, 11 * MIB])
STEPS = st.lists(st.tuples(st.sampled_from(["alloc", "alloc", "free", "use", "sync"]), SIZES, st.integers(0, 99)), max_size=25)


def history(steps: list[tuple[str, int, int]], pool: Pool, streams: list[Stream]) -> None:
    live: list[Buffer] = []
    for what, size, number in steps:
        stream = streams[number % len(streams)]
        if what == "alloc":
            live.append(pool.alloc(size, stream))
        elif what == "sync":
            stream.synchronize()
        elif live and what == "free":
            live.pop(number % len(live)).free()
        elif live:
            stream.launch(lambda a: None, [live[number % len(live)]], cost_ns=10**6)


def is_hit(nbytes: int, steps: list[tuple[str, int, int]], buckets: list[int], on: int) -> bool:
    """Whether a request after this history is one, seen by the count of hits of a pool made for it alone."""
    pool, streams = world(steps, buckets)
    hits = pool.gauges().hits
    pool.alloc(nbytes, streams[on])
    pool.walk()
    return pool.gauges().hits == hits + 1


def world(steps: list[tuple[str, int, int]], buckets: list[int]) -> tuple[Pool, list[Stream]]:
    device = SimDevice("4GiB")
    streams = [device.stream(name) for name in "ab"]
    pool = Pool(device, "p", buckets=buckets)
    history(steps, pool, streams)
    return pool, streams


@settings(max_examples=60, deadline=None)
@given(STEPS, st.sampled_from([[], [], [2048, 700 * KIB, 5 * MIB]]), st.integers(0, 1))
def test_the_largest_free_block_is_a_hit_and_one_step_more_is_none(steps, buckets, on) -> None:
    pool, streams = world(steps, buckets)
    most = pool.gauges(streams[on]).largest_free
    assert most == 0 or is_hit(most, steps, buckets, on)
    assert not is_hit(most + 512, steps, buckets, on)


def test_a_small_segment_serves_no_more_than_a_small_request() -> None:
    device = SimDevice("64MiB")
    stream, idle = device.stream("s"), device.stream("t")
    pool = Pool(device, "p")
    pool.alloc(1000, stream).free()
    assert pool.gauges(stream).largest_free == MIB
    assert pool.gauges(idle).largest_free == 0
    assert pool.gauges().largest_free == MIB


def test_what_a_sync_of_the_device_completed_is_not_pending() -> None:
    device = SimDevice("64MiB")
    stream, other = device.stream("s"), device.stream("t")
    pool = Pool(device, "p")
    block = pool.alloc(4 * MIB, stream)
    other.launch(lambda a: None, [block])
    block.free()
    assert pool.gauges().pending == 4 * MIB
    device.synchronize()
    calls = device.driver_calls
    figures = pool.gauges(stream)
    assert (figures.pending, figures.allocated, figures.largest_free) == (0, 0, 20 * MIB)
    assert {name for name, number in device.driver_calls.items() if number != calls[name]} <= {"memory_info"}
    pool.walk()


def test_after_a_fault_that_a_sync_met_nothing_is_allocated_and_no_call_is_made() -> None:
    device = SimDevice("64MiB")
    stream = device.stream("s")
    pool = Pool(device, "p")
    pool.alloc(100, stream).free()
    block = pool.alloc(100, stream)
    stream.launch(lambda a: 1 // 0, [block])
    with pytest.raises(DriverError):
        stream.synchronize()
    calls = device.driver_calls
    for nbytes in (100, MIB, 32 * MIB):
        with pytest.raises(DriverError, match="the device is lost") as caught:
            pool.alloc(nbytes, stream)
        assert caught.value.sticky
    block.free()
    assert device.driver_calls == calls


def test_a_fault_of_one_device_leaves_its_peers_pools_alone() -> None:
    one, other = SimDevice.many(2, "64MiB")
    stream, peer = one.stream("s"), other.stream("t")
    pools = Pool(one, "p"), Pool(other, "q")
    stream.launch(lambda: 1 // 0)
    with pytest.raises(DriverError):
        one.synchronize()
    with pytest.raises(DriverError):  # pinned memory is of all devices
        other.host_alloc(100)
    pools[1].alloc(100, peer).free()
    with pytest.raises(DriverError):
        pools[0].alloc(100, stream)


@pytest.mark.parametrize("pinned", [False, True])
def test_a_block_that_a_peer_device_used_is_freed_after_that_use(pinned) -> None:
    one, other = SimDevice.many(2, "64MiB")
    stream, peer = one.stream("s"), other.stream("t")
    pool = Pool(one, "p", limit=2 * MIB, wait_limit=0)
    block = one.host_alloc(100) if pinned else pool.alloc(2 * MIB, stream)
    peer.launch(lambda a: a.fill(1), writes=[block], cost_ns=10**6)
    block.free()
    block.free()
    if pinned:
        return
    assert (block.freed, pool.gauges().allocated, pool.gauges().pending) == (True, 0, 2 * MIB)
    peer.synchronize()
    assert pool.gauges().pending == 0
    assert pool.alloc(2 * MIB, stream).address == block.address
    pool.walk()
