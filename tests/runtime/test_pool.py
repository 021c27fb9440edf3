"""Pools on segments, on the simulated device: what a hit costs, whose bytes come back when, and what an error says."""

import pytest

from forebay.errors import BadInput, DriverError, Pending, PoolExhausted
from forebay.runtime import Buffer, Pool, SimDevice, Stream

MIB = 2**20


@pytest.fixture
def device() -> SimDevice:
    return SimDevice("1GiB")


@pytest.fixture
def stream(device: SimDevice) -> Stream:
    return device.stream("main", kind="nonblocking")


def busy(stream: Stream, buffer: Buffer, ns: int = 10**9) -> None:
    """A second of virtual time on `stream`, touching the buffer."""
    stream.launch(lambda a: None, writes=[buffer], cost_ns=ns)


def asked(pool: Pool, nbytes: int, stream: Stream) -> PoolExhausted:
    with pytest.raises(PoolExhausted) as caught:
        pool.alloc(nbytes, stream)
    pool.walk()
    return caught.value


def test_a_hit_makes_no_driver_call(device: SimDevice, stream: Stream) -> None:
    pool = Pool(device, "p")
    sizes = [1, 512, 4096, 4097, 100_000, 3 * MIB, 30 * MIB]
    for _ in range(2):
        for buffer in [pool.alloc(n, stream) for n in sizes]:
            buffer.free()
    before = device.driver_calls
    for _ in range(50):
        for buffer in [pool.alloc(n, stream) for n in sizes]:
            buffer.free()
    assert device.driver_calls == before
    pool.walk()


@pytest.mark.parametrize(("nbytes", "held"), [(1, 512), (512, 512), (513, 1024), (4097, 4608), (MIB + 1, MIB + 512)])
def test_requests_round_to_512_bytes(device: SimDevice, stream: Stream, nbytes: int, held: int) -> None:
    pool = Pool(device, "p")
    pool.alloc(nbytes, stream)
    assert (pool.gauges().allocated, pool.gauges().requested) == (held, nbytes)


def test_buckets_round_to_the_given_set_and_above_it_to_512(device: SimDevice, stream: Stream) -> None:
    pool = Pool(device, "p", buckets=[3 * MIB, 1000])
    pool.alloc(10, stream)
    assert pool.gauges().allocated == 1024
    pool.alloc(1025, stream)
    assert pool.gauges().allocated == 1024 + 3 * MIB
    pool.alloc(3 * MIB + 1, stream)
    assert pool.gauges().allocated == 1024 + 3 * MIB + 3 * MIB + 512


def test_best_fit_is_the_smallest_then_the_lowest(device: SimDevice, stream: Stream) -> None:
    pool = Pool(device, "p")
    a, gap1, b, gap2, c, gap3 = (pool.alloc_address(n * MIB, stream) for n in (4, 2, 3, 2, 3, 2))
    for address in (a, b, c):
        pool.free_address(address)
    assert pool.alloc_address(3 * MIB, stream) == min(b, c)
    assert pool.alloc_address(3 * MIB, stream) == max(b, c)
    assert pool.alloc_address(3 * MIB, stream) == a
    assert len({gap1, gap2, gap3}) == 3


def test_neighbours_of_one_stream_coalesce(device: SimDevice, stream: Stream) -> None:
    pool = Pool(device, "p", limit=20 * MIB)
    addresses = [pool.alloc_address(4 * MIB, stream) for _ in range(5)]
    for address in addresses[1::2] + addresses[0::2]:
        pool.free_address(address)
    assert pool.gauges(stream).largest_free == 20 * MIB
    assert pool.alloc_address(20 * MIB, stream) == min(addresses)


def test_another_stream_gets_a_block_only_when_its_work_is_complete(device: SimDevice, stream: Stream) -> None:
    pool, other = Pool(device, "p"), device.stream("other", kind="nonblocking")
    first = pool.alloc(20 * MIB, stream)
    busy(stream, first)
    first.free()
    second = pool.alloc(20 * MIB, other)
    assert second.address != first.address
    second.free()
    stream.synchronize()
    assert {pool.alloc(20 * MIB, other).address for _ in range(2)} == {first.address, second.address}
    pool.walk()


def test_another_stream_gets_a_block_that_an_edge_orders_before_it(device: SimDevice, stream: Stream) -> None:
    pool, other = Pool(device, "p"), device.stream("other", kind="nonblocking")
    first = pool.alloc(20 * MIB, stream)
    busy(stream, first)
    first.free()
    other.wait(stream.record())
    assert pool.alloc(20 * MIB, other).address == first.address


def test_an_edge_from_before_the_free_orders_nothing(device: SimDevice, stream: Stream) -> None:
    pool, other = Pool(device, "p"), device.stream("other", kind="nonblocking")
    first = pool.alloc(20 * MIB, stream)
    other.wait(stream.record())
    busy(stream, first)
    first.free()
    assert pool.alloc(20 * MIB, other).address != first.address


def test_a_free_waits_for_every_stream_that_used_the_buffer(device: SimDevice, stream: Stream) -> None:
    pool, other = Pool(device, "p"), device.stream("other", kind="nonblocking")
    first = pool.alloc(20 * MIB, stream)
    busy(other, first)
    first.free()
    assert pool.gauges().pending == 20 * MIB
    assert pool.alloc(20 * MIB, stream).address != first.address
    other.synchronize()
    assert pool.alloc(20 * MIB, stream).address == first.address
    assert pool.gauges().pending == 0
    pool.walk()


def test_frees_share_one_event_an_epoch(device: SimDevice, stream: Stream) -> None:
    pool, other = Pool(device, "p"), device.stream("other", kind="nonblocking")
    for buffer in [pool.alloc(2 * MIB, stream) for _ in range(10)]:
        busy(stream, buffer, 10)
        buffer.free()
    assert device.driver_calls["event_record"] == 0
    pool.alloc(2 * MIB, other)
    assert device.driver_calls["event_record"] == 1


def test_what_a_closed_stream_held_serves_the_next(device: SimDevice) -> None:
    pool = Pool(device, "p")
    for _ in range(40):
        stream = device.stream("one of many", kind="nonblocking")
        buffer = pool.alloc(20 * MIB, stream)
        busy(stream, buffer, 1000)
        buffer.free()
        stream.close()
        device.synchronize()
    assert pool.gauges().reserved == 20 * MIB
    pool.walk()


def test_trim_gives_idle_segments_back_and_nothing_else(device: SimDevice, stream: Stream) -> None:
    pool = Pool(device, "p")
    kept, idle = pool.alloc(30 * MIB, stream), pool.alloc(50 * MIB, stream)
    idle.free()
    assert pool.gauges().releasable == 50 * MIB
    assert pool.trim() == 50 * MIB
    assert device.account.used_bytes == pool.gauges().reserved == 30 * MIB
    kept.free()
    pool.walk()


def test_verdict_full(stream: Stream, device: SimDevice) -> None:
    pool = Pool(device, "p")
    pool.alloc(900 * MIB, stream)
    error = asked(pool, 200 * MIB, stream)
    assert (error.verdict, error.gauges["reserved"]) == ("full", 900 * MIB)


def test_verdict_capped(stream: Stream, device: SimDevice) -> None:
    pool = Pool(device, "p", limit="100MiB")
    pool.alloc(90 * MIB, stream)
    error = asked(pool, 20 * MIB, stream)
    assert error.verdict == "capped"
    assert "limit 100 MiB" in str(error)


def test_verdict_pending_where_the_pool_may_not_wait(stream: Stream, device: SimDevice) -> None:
    pool, other = Pool(device, "p", limit=20 * MIB, wait_limit=0), device.stream("copy", kind="nonblocking")
    buffer = pool.alloc(20 * MIB, stream)
    busy(other, buffer)
    buffer.free()
    error = asked(pool, 20 * MIB, stream)
    assert (error.verdict, error.gauges["pending"]) == ("pending", 20 * MIB)
    assert "copy" in str(error)


def test_verdict_stranded_in_another_streams_lists(stream: Stream, device: SimDevice) -> None:
    pool, other = Pool(device, "p", limit=40 * MIB, wait_limit=0), device.stream("other", kind="nonblocking")
    whole = pool.alloc(40 * MIB, other)
    whole.free()
    live, buffer = pool.alloc(10 * MIB, other), pool.alloc(30 * MIB, other)
    busy(other, buffer)
    buffer.free()
    assert live.address == whole.address  # so the segment cannot be given back
    assert asked(pool, 26 * MIB, stream).verdict == "stranded"


def test_verdict_stranded_in_a_pool_that_keeps_its_idle_bytes(stream: Stream, device: SimDevice) -> None:
    hoard, pool = Pool(device, "hoard", gives_back=False), Pool(device, "p")
    hoard.alloc(800 * MIB, stream).free()
    assert asked(pool, 400 * MIB, stream).verdict == "stranded"


def test_idle_segments_of_another_pool_are_taken_back(stream: Stream, device: SimDevice) -> None:
    hoard, pool = Pool(device, "hoard"), Pool(device, "p")
    hoard.alloc(800 * MIB, stream).free()
    pool.alloc(400 * MIB, stream)
    assert (hoard.gauges().reserved, pool.gauges().retries) == (0, 1)
    assert device.account.used_bytes == 400 * MIB


def test_the_wait_for_frees_is_followed_by_a_second_search(stream: Stream, device: SimDevice) -> None:
    pool, other = Pool(device, "p", limit=40 * MIB), device.stream("copy", kind="nonblocking")
    kept, buffer = pool.alloc(10 * MIB, stream), pool.alloc(30 * MIB, stream)
    busy(other, buffer, 10**6)
    buffer.free()
    again = pool.alloc(30 * MIB, stream)
    assert again.address == buffer.address
    assert pool.gauges().driver_frees == 0
    assert not kept.freed


def test_a_wait_that_reaches_its_limit_names_the_streams(stream: Stream, device: SimDevice) -> None:
    pool, other = Pool(device, "p", limit=20 * MIB, wait_limit=0.01), device.stream("copy", kind="nonblocking")
    buffer = pool.alloc(20 * MIB, stream)
    busy(other, buffer)
    buffer.free()
    with pytest.raises(Pending) as caught:
        pool.alloc(20 * MIB, stream)
    assert caught.value.streams == ("copy",)
    other.synchronize()
    assert pool.alloc(20 * MIB, stream).address == buffer.address


CHECKERBOARD = 38  # blocks of 50 MiB, every other one of them freed: 1900 MiB under a cap of 2000


def test_a_checkerboard_on_one_pool_is_fragmented_not_full() -> None:
    device = SimDevice("4GiB")
    stream, pool = device.stream("main", kind="nonblocking"), Pool(device, "one", limit=2000 * MIB)
    arena = pool.alloc(1900 * MIB, stream)
    arena.free()
    blocks = [pool.alloc(50 * MIB, stream) for _ in range(CHECKERBOARD)]
    for block in blocks[::2]:
        block.free()
    error = asked(pool, 200 * MIB, stream)
    assert error.verdict == "fragmented"
    g = error.gauges
    assert (g["reserved"], g["allocated"], g["stranded"], g["releasable"]) == (1900 * MIB, 950 * MIB, 950 * MIB, 0)
    assert g["largest_free_if_idle"] == 50 * MIB
    assert "largest free block 50 MiB (reserved 1.86 GiB, allocated 950 MiB = 50%, stranded 950 MiB" in str(error)
    assert pool.gauges().fragmentation == pytest.approx(1 - 50 / 950)


def test_of_a_pool_that_holds_nothing_no_share_is_told() -> None:
    device = SimDevice("64MiB")
    stream = device.stream("main", kind="nonblocking")
    assert "(reserved 0 B, allocated 0 B, stranded 0 B" in str(asked(Pool(device, "one"), 200 * MIB, stream))


def test_the_same_checkerboard_on_segregated_pools_succeeds() -> None:
    device = SimDevice("4GiB")
    stream = device.stream("main", kind="nonblocking")
    long_lived, passing = Pool(device, "weights", limit=1000 * MIB), Pool(device, "activations", limit=1000 * MIB)
    for pool in (long_lived, passing):
        pool.alloc(950 * MIB, stream).free()
    blocks = [(long_lived if i % 2 else passing).alloc(50 * MIB, stream) for i in range(CHECKERBOARD)]
    for block in blocks[::2]:
        block.free()
    passing.alloc(200 * MIB, stream)
    assert passing.gauges().driver_allocs == 1


def test_after_a_sticky_error_no_driver_call_is_made_and_frees_are_silent(stream: Stream, device: SimDevice) -> None:
    pool = Pool(device, "p")
    buffer, address = pool.alloc(2 * MIB, stream), pool.alloc_address(2 * MIB, stream)
    device.fail("malloc", status="illegal_address")
    with pytest.raises(DriverError) as caught:
        pool.alloc(500 * MIB, stream)
    assert caught.value.sticky
    before = device.driver_calls
    with pytest.raises(DriverError):
        pool.alloc(512, stream)
    buffer.free()
    pool.free_address(address)
    pool.free_address(address)
    assert device.driver_calls == before


def test_wrong_use_is_told_in_one_line(stream: Stream, device: SimDevice) -> None:
    pool, foreign = Pool(device, "p"), SimDevice("1GiB").stream("elsewhere")
    address = pool.alloc_address(1000, stream)
    pool.free_address(address)
    for wrong in (
        lambda: pool.free_address(address),
        lambda: pool.free_address(address + 512),
        lambda: pool.alloc(0, stream),
        lambda: pool.alloc(2**60, stream),
        lambda: pool.alloc(512, foreign),
        lambda: Pool(device, "q", limit="much"),
        lambda: Pool(device, "q", buckets=[0]),
    ):
        with pytest.raises(BadInput) as caught:
            wrong()
        assert "\n" not in str(caught.value)
