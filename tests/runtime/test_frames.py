"""Pools that grow by frames: where frames go, how holes grow together, and when frames may leave. Figures worked out by hand.

A frame has 2 MiB; a miss maps what it lacks, rounded up to frames, and 4 MiB more.
"""

import pytest

from forebay.errors import BadInput, PoolExhausted
from forebay.runtime import Buffer, Pool, SimDevice, Stream

MIB = 2**20


@pytest.fixture
def device() -> SimDevice:
    return SimDevice("1GiB")


@pytest.fixture
def stream(device: SimDevice) -> Stream:
    return device.stream("main", kind="nonblocking")


@pytest.fixture
def pool(device: SimDevice) -> Pool:
    return Pool(device, "p", growth="frames", wait_limit=0.01)


def busy(stream: Stream, buffer: Buffer, ns: int = 10**15) -> None:
    stream.launch(lambda a: None, writes=[buffer], cost_ns=ns)


def frames(device: SimDevice) -> int:
    assert device.account.frames * 2 * MIB == device.account.used_bytes
    return device.account.frames


def test_a_miss_maps_its_need_and_4_mib(device: SimDevice, stream: Stream, pool: Pool) -> None:
    pool.alloc_address(5 * MIB, stream)
    assert (frames(device), pool.gauges().reserved, pool.gauges(stream).largest_free) == (5, 10 * MIB, 5 * MIB)
    assert device.driver_calls["set_access"] == device.driver_calls["reserve_range"] == 1
    pool.walk()


def test_large_pools_map_a_64th_more_and_at_most_16_mib() -> None:
    device = SimDevice("4GiB")
    stream, pool = device.stream("s"), Pool(device, "p", growth="frames")
    pool.alloc_address(512 * MIB, stream)  # 516 are mapped, a 64th of them is 8
    pool.alloc_address(104 * MIB, stream)
    assert pool.gauges().reserved == (516 + 100 + 8) * MIB
    pool.alloc_address(1208 * MIB, stream)  # the 8 are used: 1200 are lacking, and 624/64 is 9.75, 4 frames
    assert pool.gauges().reserved == (624 + 1200 + 8) * MIB
    pool.alloc_address(108 * MIB, stream)  # again 100 are lacking, and a 64th is above 16
    assert pool.gauges().reserved == (1832 + 100 + 16) * MIB


def test_the_hole_at_the_end_grows(device: SimDevice, stream: Stream, pool: Pool) -> None:
    first = pool.alloc_address(6 * MIB, stream)
    second = pool.alloc_address(30 * MIB, stream)
    assert second == first + 6 * MIB
    assert pool.gauges().reserved == (6 + 4 + 26 + 4) * MIB


def test_free_blocks_of_different_growths_become_one(device: SimDevice, stream: Stream, pool: Pool) -> None:
    addresses = [pool.alloc_address(10 * MIB, stream) for _ in range(6)]
    for address in addresses[::2] + addresses[1::2]:
        pool.free_address(address)
    before = device.driver_calls
    assert pool.alloc_address(60 * MIB, stream) == addresses[0]
    assert device.driver_calls == before


def test_small_and_large_share_frames(device: SimDevice, stream: Stream, pool: Pool) -> None:
    for nbytes in (100, 5000, 3 * MIB, 300_000):
        pool.alloc_address(nbytes, stream)
    assert pool.gauges().reserved == 6 * MIB  # the first miss: one frame for a slab and two more
    pool.walk()


def test_only_whole_idle_frames_are_releasable_and_trim_gives_them(device: SimDevice, stream: Stream, pool: Pool) -> None:
    head, middle, tail = pool.alloc(3 * MIB, stream), pool.alloc(7 * MIB, stream), pool.alloc(2 * MIB, stream)
    reserved = pool.gauges().reserved
    middle.free()
    stream.synchronize()
    # The middle lies at 3 to 10 MiB, so it has the frames at 4, 6 and 8 for its own; behind the tail lies more.
    behind = reserved - 12 * MIB
    assert pool.gauges().releasable == 6 * MIB + behind
    assert pool.gauges().stranded == MIB
    assert pool.trim() == 6 * MIB + behind
    assert frames(device) * 2 * MIB == pool.gauges().reserved == 6 * MIB
    pool.walk()
    busy(stream, head, 10)
    busy(stream, tail, 10)
    stream.synchronize()


def test_slabs_without_a_slot_in_use_are_releasable(device: SimDevice, stream: Stream, pool: Pool) -> None:
    slots = [pool.alloc_address(n, stream) for n in (100, 600, 4096)]
    for slot in slots:
        pool.free_address(slot)
    assert pool.gauges().releasable == pool.gauges().reserved == 6 * MIB
    assert pool.trim() == 6 * MIB


def test_holes_in_the_middle_are_filled_with_the_fewest_frames(device: SimDevice, stream: Stream, pool: Pool) -> None:
    blocks = [pool.alloc(8 * MIB, stream) for _ in range(4)]
    blocks[1].free()
    stream.synchronize()
    pool.trim()
    assert frames(device) == 12
    again = pool.alloc(7 * MIB, stream)
    assert again.address == blocks[1].address
    assert frames(device) == 16
    pool.walk()


def test_no_frame_leaves_before_its_uses_are_over(device: SimDevice, stream: Stream, pool: Pool) -> None:
    used = pool.alloc(10 * MIB, stream)
    busy(stream, used)
    used.free()
    assert pool.trim() == 0  # it waits for 10 ms, no longer
    assert frames(device) == 7
    stream.synchronize()
    assert pool.trim() == 14 * MIB
    device.synchronize()


def test_frames_go_from_pool_to_pool_without_a_release(device: SimDevice, stream: Stream) -> None:
    hoard, pool = (Pool(device, name, growth="frames") for name in ("hoard", "p"))
    hoard.alloc(900 * MIB, stream).free()
    stream.synchronize()
    pool.alloc_address(400 * MIB, stream)
    assert device.driver_calls["release"] == 0
    assert frames(device) == 512  # all that the device has
    assert hoard.gauges().reserved + pool.gauges().reserved + device.domain.idle_frame_bytes == 1024 * MIB


def test_a_limit_bounds_what_is_mapped(device: SimDevice, stream: Stream) -> None:
    pool = Pool(device, "p", limit=11 * MIB, growth="frames")
    pool.alloc_address(9 * MIB, stream)
    assert pool.gauges().reserved == 10 * MIB  # 14 would pass the limit
    with pytest.raises(PoolExhausted) as caught:
        pool.alloc_address(2 * MIB, stream)
    assert caught.value.verdict == "capped"
    assert pool.alloc_address(MIB, stream)


def test_the_checkerboard_s_frames_serve_what_its_holes_cannot() -> None:
    device = SimDevice("4GiB")
    stream, pool = device.stream("main", kind="nonblocking"), Pool(device, "one", limit=2000 * MIB, growth="frames")
    blocks = [pool.alloc(50 * MIB, stream) for _ in range(38)]
    for block in blocks[::2]:
        block.free()
    stream.synchronize()
    assert pool.gauges(stream).largest_free < 200 * MIB
    pool.alloc(200 * MIB, stream)  # on segments of one growth this is the day-3 out of memory
    assert pool.gauges().reserved <= 2000 * MIB
    pool.walk()


def test_a_pool_s_end_waits_for_the_work_on_its_bytes(device: SimDevice, stream: Stream) -> None:
    ran: list[int] = []
    pool = Pool(device, "p", growth="frames")
    buffer = pool.alloc(4 * MIB, stream)
    stream.launch(lambda a: ran.append(1), writes=[buffer.array("u1", 1)], cost_ns=10**9)
    buffer.free()
    del buffer, pool
    assert ran == [1]
    assert (device.account.used_bytes, device.account.ranges) == (0, 0)


def test_a_growth_that_is_none_is_refused(device: SimDevice) -> None:
    with pytest.raises(BadInput, match="no such growth: 'pages'; there are segments, frames"):
        Pool(device, "p", growth="pages")
