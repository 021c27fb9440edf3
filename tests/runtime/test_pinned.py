from __future__ import annotations

import gc
import random

import numpy as np
import pytest

from forebay.errors import PoolExhausted
from forebay.runtime import PinnedPool, Pool, SimDevice, Stream
from forebay.tape.events import Space

MIB = 2**20


@pytest.fixture
def device() -> SimDevice:
    return SimDevice("1GiB")


@pytest.fixture
def copy(device: SimDevice) -> Stream:
    return device.stream("copy")


def test_its_memory_is_pinned_and_the_host_sees_what_copies_bring(device, copy):
    pool = PinnedPool(device, "staging")
    there, back = pool.alloc(4000), pool.alloc(4000)
    assert there.space == Space.pinned
    assert device.account.pinned_bytes == pool.gauges().reserved > 0
    there.numpy(np.int32)[:] = np.arange(1000)
    on_device = device.malloc(4000)
    copy.copy(on_device, there)
    copy.copy(back, on_device)
    copy.synchronize()
    assert back.numpy(np.int32).tolist() == list(range(1000))


def test_a_block_comes_back_only_when_the_copies_from_it_are_complete(device, copy):
    pool = PinnedPool(device, "staging", 2 * MIB, wait_limit=0.0)
    target = device.malloc(2 * MIB)
    block = pool.alloc(2 * MIB)
    copy.launch(lambda: None, cost_ns=10**9)
    copy.copy(target, block)
    block.free()
    assert pool.gauges().pending == 2 * MIB
    with pytest.raises(PoolExhausted) as refused:
        pool.alloc(2 * MIB)
    assert refused.value.verdict == "pending"
    copy.synchronize()
    assert pool.alloc(2 * MIB).address == block.address


@pytest.mark.parametrize("seed", range(3))
def test_what_the_host_writes_next_never_reaches_a_copy_that_was_issued_before(seed):
    device = SimDevice("64MiB", seed=seed)
    pool, copy = PinnedPool(device, "staging", 2 * MIB), device.stream("copy")
    target = device.malloc(64 * 1024).array(np.int64, (64, 128))
    for i in range(64):
        block = pool.alloc(1024)
        block.numpy(np.int64)[:] = i
        copy.copy(target[i], block.array(np.int64, 128))
        block.free()
    out = np.zeros((64, 128), np.int64)
    copy.copy(out, target)
    assert np.array_equal(out, np.repeat(np.arange(64), 128).reshape(64, 128))


def test_a_block_is_never_smaller_than_asked_nor_rounded_to_a_power_of_two(device):
    """Field report: a pool that kept 150 and 200 MB blocks in one bucket answered a request for 200 MB with the 150 MB one."""
    for buckets in ([], [150 * MIB, 200 * MIB], [100_000, 3 * MIB]):
        pool, draws = PinnedPool(device, "staging", 800 * MIB, buckets), random.Random(7)
        for _ in range(200):
            nbytes = draws.choice([draws.randrange(1, 5000), draws.randrange(1, 4 * MIB), 150 * MIB, 200 * MIB])
            held = pool.gauges().allocated
            block = pool.alloc(nbytes)
            got = pool.gauges().allocated - held
            assert got >= nbytes
            rounded = min([b for b in sorted(buckets) if b >= nbytes], default=nbytes)
            assert got <= -(-rounded // 512) * 512 + MIB
            block.free()
        pool.walk()


def test_a_129_mb_request_pins_129_mb_and_not_256(device):
    pool = PinnedPool(device, "staging")
    pool.alloc(int(129.5 * 10**6))
    assert device.account.pinned_bytes < 132 * 10**6


def test_pinned_and_device_pools_do_not_give_each_other_memory(device, copy):
    pinned, pool = PinnedPool(device, "staging", 900 * MIB), Pool(device, "device")
    pinned.alloc(800 * MIB).free()
    reserved = pinned.gauges().reserved
    pool.alloc(900 * MIB, copy)
    with pytest.raises(PoolExhausted):
        pool.alloc(900 * MIB, copy)
    assert pinned.gauges().reserved == reserved


def test_a_limit_and_what_is_said_of_it(device):
    pool = PinnedPool(device, "staging", 4 * MIB)
    with pytest.raises(PoolExhausted, match=r"pool staging.*the pool's own limit") as refused:
        pool.alloc(5 * MIB)
    assert refused.value.verdict == "capped"


def test_when_the_host_refuses_to_pin_the_pool_is_full_and_says_so(device):
    pool = PinnedPool(device, "staging")
    device.fail("host_alloc", always=True)
    with pytest.raises(PoolExhausted) as refused:
        pool.alloc(5 * MIB)
    assert refused.value.verdict == "full"


def test_a_hit_costs_a_thousandth_of_pinning_in_virtual_time(device, copy):
    """1 MiB pinned costs the table's ms; a hit makes no driver call at all."""
    pool = PinnedPool(device, "staging")
    begin = device.clock_ns
    device.host_alloc(MIB)
    pinning = device.clock_ns - begin
    pool.alloc(MIB).free()
    begin, calls = device.clock_ns, device.driver_calls
    for _ in range(100):
        pool.alloc(MIB).free()
    assert device.driver_calls == calls
    assert (device.clock_ns - begin) * 1000 <= pinning * 100


def test_trim_unpins(device):
    pool = PinnedPool(device, "staging")
    pool.alloc(3 * MIB).free()
    assert pool.trim() > 0
    assert device.account.pinned_bytes == 0


def test_a_host_view_outlives_the_free_and_the_device():
    device = SimDevice("1MiB")
    freed, kept = device.host_alloc(1000), device.host_alloc(1000)
    one, two = freed.numpy()[10:20], kept.numpy("u4", (10, 25))
    pinned = device.account.pinned_bytes
    freed.free()
    assert freed.freed
    assert device.account.pinned_bytes == pinned, "a view still shows the bytes"
    one[:] = 7
    del one
    assert device.account.pinned_bytes < pinned
    del device, freed, kept
    gc.collect()
    two[:] = 9
    assert int(two.sum()) == 9 * 250


def test_pinned_memory_is_an_array_to_others():
    device = SimDevice("1MiB")
    buffer = device.host_alloc(64)
    for other in (np.asarray(buffer), np.from_dlpack(buffer)):
        other[:] = 5
        assert buffer.numpy().tolist() == [5] * 64
        buffer.numpy()[:] = 6
        assert other.tolist() == [6] * 64
    assert buffer.__dlpack_device__() == (1, 0)
    assert not hasattr(device.malloc(64), "__array_interface__")
