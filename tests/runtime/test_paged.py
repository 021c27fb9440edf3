from __future__ import annotations

import gc

import numpy as np
import pytest

from forebay.errors import BadInput, DriverError, PoolExhausted
from forebay.runtime import Array, PagedPool, Sequence, SimDevice, Stream
from page_model import Pair

PAGE, STEP = 4096, 8


def fill(stream: Stream, array: Array, value: int) -> None:
    """A second of virtual time."""
    stream.launch(lambda page: page.fill(value), [], [array], name="fill", cost_ns=10**9)


def seen(stream: Stream, array: Array) -> np.ndarray:
    out = np.zeros(array.shape, array.dtype)
    stream.copy(out, array)
    return out


@pytest.fixture
def device() -> SimDevice:
    return SimDevice("64MiB")


@pytest.fixture
def stream(device: SimDevice) -> Stream:
    return device.stream("compute")


def pool_of(device: SimDevice, pages: int, **options: float) -> PagedPool:
    return PagedPool(device, "kv", pages * PAGE, page_bytes=PAGE, page_tokens=STEP, **options)


def grown(pool: PagedPool, stream: Stream, tokens: list[int]) -> Sequence:
    sequence = pool.open(stream, tokens)
    fresh = tokens[sequence.written :]
    sequence.grow(len(fresh), stream)
    sequence.commit(fresh, stream)
    return sequence


@pytest.mark.parametrize(("pages", "kind"), [(512, "frames"), (100, "segments")])
def test_its_memory_is_one_reservation_and_goes_back_with_it(device, stream, pages, kind):
    before = device.account.used_bytes
    pool = pool_of(device, pages)
    assert device.account.used_bytes - before == pool.gauges().reserved == pages * PAGE
    assert getattr(device.account, kind) == device.account.segments + device.account.frames == 1
    sequence = pool.open(stream)
    sequence.grow(5 * STEP, stream)
    calls = device.driver_calls
    sequence.grow(20 * STEP, stream)
    sequence.finish()
    assert device.driver_calls == calls, "taking and giving back pages makes no driver call"
    del sequence, pool
    gc.collect()
    assert device.account.used_bytes == before


@pytest.mark.parametrize("seed", range(4))
def test_it_does_what_a_plain_model_does(device, stream, seed):
    pair = Pair(pool_of(device, 150, wait_limit=0.0), stream, seed)
    pair.run(1500)
    assert pair.sequences == 1500
    assert pair.pool.gauges().ooms > 0, "the pool ran out now and then"


def test_a_prompt_seen_before_shares_its_whole_pages(device, stream):
    pool = pool_of(device, 20)
    first = grown(pool, stream, list(range(20)))
    second = pool.open(stream, list(range(20)))
    assert (second.written, second.table) == (16, first.table[:2])
    other = pool.open(stream, [*range(8), 99, *range(9, 20)])
    assert (other.written, other.table) == (8, first.table[:1])
    assert pool.gauges().allocated == 3 * PAGE


def test_pages_are_found_after_their_sequence_ended_until_they_are_needed(device, stream):
    pool = pool_of(device, 4, wait_limit=0.0)
    first = grown(pool, stream, list(range(16)))
    table = first.table
    first.finish()
    assert pool.gauges().allocated == 0
    again = pool.open(stream, list(range(16)))
    assert again.table == table
    again.finish()
    hog = pool.open(stream)
    hog.grow(3 * STEP, stream)
    assert pool.open(stream, list(range(16))).written == 8, "the end of the prompt goes first, its beginning last"


def test_equal_tokens_after_another_beginning_are_another_page(device, stream):
    pool = pool_of(device, 20)
    first, tail = grown(pool, stream, [1] * 8 + [5] * 8), [5] * 8
    second = grown(pool, stream, [2] * 8 + tail)
    assert set(first.table).isdisjoint(second.table)


def test_a_shared_page_is_copied_before_it_is_written(device, stream):
    pool = pool_of(device, 20)
    first = grown(pool, stream, [1] * 12)
    fill(stream, first.page(1, np.uint8, PAGE), 7)
    second = first.fork(stream)
    assert second.table == first.table
    second.grow(1, stream)
    assert second.table[0] == first.table[0]
    assert second.table[1] != first.table[1]
    fill(stream, second.page(1, np.uint8, 16), 9)
    assert set(seen(stream, first.page(1, np.uint8, PAGE))) == {7}
    assert list(seen(stream, second.page(1, np.uint8, PAGE))) == [9] * 16 + [7] * (PAGE - 16)


def test_the_last_holder_writes_without_a_copy(device, stream):
    pool = pool_of(device, 20)
    first = grown(pool, stream, [1] * 12)
    second = first.fork(stream)
    table = second.table
    first.finish()
    second.grow(1, stream)
    assert second.table == table


def test_pages_go_to_another_stream_only_after_the_work_that_used_them(device, stream):
    pool = pool_of(device, 2, wait_limit=0.0)
    other = device.stream("other")
    sequence = grown(pool, stream, [1] * 16)
    fill(stream, sequence.page(0, np.uint8, PAGE), 7)
    sequence.finish()
    taker = pool.open(other)
    with pytest.raises(PoolExhausted, match="pending") as refused:
        taker.grow(STEP, other)
    assert refused.value.verdict == "pending"
    assert refused.value.gauges["largest_free_after_waits"] == 2 * PAGE
    pool.open(stream).grow(STEP, stream)
    stream.synchronize()
    taker.grow(STEP, other)


def test_an_event_between_the_streams_is_enough(device, stream):
    pool = pool_of(device, 1, wait_limit=0.0)
    other = device.stream("other")
    sequence = grown(pool, stream, [1] * 8)
    fill(stream, sequence.page(0, np.uint8, PAGE), 7)
    sequence.finish()
    other.wait(stream.record())
    taker = pool.open(other)
    taker.grow(STEP, other)
    assert taker.room == STEP


def test_the_end_is_ordered_after_every_stream_that_used_the_pages(device, stream):
    pool = pool_of(device, 1, wait_limit=0.0)
    reader = device.stream("reader")
    sequence = grown(pool, stream, [1] * 8)
    reader.wait(stream.record())
    reader.launch(lambda page: None, [sequence.page(0, np.uint8, PAGE)], cost_ns=10**9)
    sequence.finish()
    with pytest.raises(PoolExhausted, match="reader"):
        pool.open(stream).grow(STEP, stream)
    reader.synchronize()
    pool.open(stream).grow(STEP, stream)


def test_pages_that_another_stream_still_writes_are_not_shared(device, stream):
    pool = pool_of(device, 10)
    other = device.stream("other")
    first = pool.open(stream, [1] * 8)
    first.grow(8, stream)
    fill(stream, first.page(0, np.uint8, PAGE), 7)
    first.commit([1] * 8, stream)
    assert pool.open(other, [1] * 8).written == 0
    stream.synchronize()
    assert pool.open(other, [1] * 8).written == 8


def test_a_wait_for_frees_ends_when_the_work_does(device, stream):
    pool = pool_of(device, 1, wait_limit=5.0)
    other = device.stream("other")
    sequence = grown(pool, stream, [1] * 8)
    fill(stream, sequence.page(0, np.uint8, PAGE), 7)
    sequence.finish()
    pool.open(other).grow(STEP, other)
    assert pool.gauges().misses == 1


def test_a_refusal_changes_nothing_and_says_why(device, stream):
    pool = pool_of(device, 3)
    sequence = grown(pool, stream, [1] * 12)
    with pytest.raises(PoolExhausted, match=r"pool kv: asked 8 KiB on stream compute.*limit 12 KiB.*own limit") as refused:
        sequence.grow(20, stream)
    assert refused.value.verdict == "capped"
    assert (sequence.room, len(sequence.table)) == (12, 2)
    pool.walk()


def test_a_cap_below_the_reservation(device, stream):
    pool = pool_of(device, 10)
    pool.cap(1)
    sequence = pool.open(stream)
    with pytest.raises(PoolExhausted, match="limit 4 KiB") as refused:
        sequence.grow(2 * STEP, stream)
    assert refused.value.verdict == "capped"
    pool.cap(2)
    sequence.grow(2 * STEP, stream)


def test_a_failed_copy_leaves_the_sequence_as_it_was(device, stream):
    pool = pool_of(device, 20)
    first = grown(pool, stream, [1] * 12)
    second = first.fork(stream)
    free = pool.available(stream)
    device.fail("copy", status="invalid_value")
    with pytest.raises(DriverError, match="copy answered"):
        second.grow(30, stream)
    assert (second.room, second.table, pool.available(stream)) == (12, first.table, free)
    pool.walk()
    second.grow(30, stream)


@pytest.mark.parametrize("call", ["malloc", "reserve_range", "create", "map", "set_access"])
def test_a_pool_that_cannot_be_made_leaves_nothing_behind(device, call):
    device.fail(call)
    with pytest.raises(DriverError, match=r"reserve of .* answered out of memory"):
        pool_of(device, 100 if call == "malloc" else 512)
    account = device.account
    assert (account.used_bytes, account.frames, account.mappings, account.ranges, account.segments) == (0, 0, 0, 0, 0)
    pool_of(device, 512).walk()


def test_after_a_sticky_error_pages_are_refused_without_a_driver_call_and_ends_are_quiet(device, stream):
    pool, other = pool_of(device, 3), device.stream("other")
    sequence, waiting = grown(pool, stream, [1] * 12), pool.open(other)
    twin = sequence.fork(stream)
    device.fail("copy", status="illegal_address")
    with pytest.raises(DriverError) as lost:
        twin.grow(1, stream)
    assert lost.value.sticky
    calls = device.driver_calls
    for refused in (lambda: sequence.grow(1, stream), lambda: pool.open(stream), lambda: waiting.grow(1, other)):
        with pytest.raises(DriverError, match="the device is lost"):
            refused()
    twin.finish()
    sequence.finish()
    assert device.driver_calls == calls


def test_an_object_that_goes_away_ends_its_sequence(device, stream):
    pool = pool_of(device, 20)
    grown(pool, stream, [1] * 12)
    gc.collect()
    assert pool.gauges().allocated == 0


def test_what_cannot_be_asked(device, stream):
    pool = pool_of(device, 20)
    sequence = pool.open(stream)
    sequence.grow(5, stream)
    with pytest.raises(BadInput, match="commit of 6 tokens into room for 5"):
        sequence.commit([1] * 6, stream)
    with pytest.raises(BadInput, match="5 tokens of the sequence are not written"):
        sequence.fork(stream)
    with pytest.raises(BadInput, match="of a page of 4096 bytes"):
        sequence.page(0, np.uint8, PAGE, 1)
    with pytest.raises(BadInput, match="grow: -1 is out of range"):
        sequence.grow(-1, stream)
    with pytest.raises(BadInput, match="use a pool of its own device"):
        pool.open(SimDevice("1MiB").default_stream)
    sequence.finish()
    sequence.finish()
    with pytest.raises(BadInput, match="was finished"):
        sequence.grow(1, stream)


@pytest.mark.parametrize(
    ("limit", "page_bytes", "page_tokens"), [(4096, 0, 8), (4096, 4096, 7), (100, 4096, 8), ("4 x", 4096, 8)]
)
def test_shapes_that_are_none(device, limit, page_bytes, page_tokens):
    with pytest.raises(BadInput):
        PagedPool(device, "kv", limit, page_bytes=page_bytes, page_tokens=page_tokens)


def test_figures_by_hand(device, stream):
    pool = pool_of(device, 512)
    sequence = grown(pool, stream, [1] * 12)
    assert len(sequence.table) == 2
    g = pool.gauges(stream)
    assert (g.reserved, g.allocated, g.requested, g.active, g.pending) == (512 * PAGE, 2 * PAGE, 12 * PAGE // STEP, 2 * PAGE, 0)
    assert (g.cached, g.releasable, g.stranded) == (510 * PAGE, 0, 510 * PAGE)
    assert (g.largest_free, g.largest_free_if_idle, g.largest_servable) == (510 * PAGE,) * 3
    assert (g.hits, g.misses, g.ooms, g.driver_allocs, g.fragmentation) == (1, 0, 0, 1, 0.0)
