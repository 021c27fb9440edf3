"""Paged pools in debug mode: a block table that outlived its sequence is found, and prefix sharing stays what it was."""

from __future__ import annotations

import gc
import inspect
import warnings
from contextlib import suppress

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided

from forebay.demo import engine
from forebay.demo.server import serve
from forebay.errors import BadInput
from forebay.runtime import Array, Buffer, PagedPool, Sequence, SimDevice, Stream
from forebay.runtime.debug import Report
from page_model import Pair

PAGE, STEP, POISON = 4096, 8, 0xDB


@pytest.fixture
def device() -> SimDevice:
    return SimDevice("64MiB")


@pytest.fixture
def stream(device: SimDevice) -> Stream:
    return device.stream("compute")


def pool_of(device: SimDevice, pages: int = 20, debug: object = True) -> PagedPool:
    return PagedPool(device, "kv", pages * PAGE, page_bytes=PAGE, page_tokens=STEP, wait_limit=1.0, debug=debug)


def sequence_of(pool: PagedPool, stream: Stream, tokens: int, value: int) -> Sequence:
    """Tokens that nobody else has, on pages filled with `value`."""
    sequence = pool.open(stream)
    sequence.grow(tokens, stream)
    for i in range(len(sequence.table)):
        page = sequence.page(i, np.uint8, PAGE)
        stream.launch(lambda a: a.fill(value), writes=[page], name="fill")
    sequence.commit([value * 1000 + i for i in range(tokens)], stream)
    return sequence


def stale(pool: PagedPool, page: int) -> Array:
    """The page as a kernel finds it in a block table that was kept."""
    return Buffer(pool.device, pool._native.address(page), PAGE, lambda _: None).bytes()


def bytes_of(pool: PagedPool, stream: Stream, page: int) -> set[int]:
    """What lies there now, without a word to the pool."""
    pool.device.synchronize()
    out = np.zeros(PAGE, np.uint8)
    pool.device.machine.sim.download(0, out, pool._native.address(page), stream.handle)
    pool.device.synchronize()
    return set(out.tolist())


def found(pool: PagedPool) -> tuple[Report, ...]:
    with suppress(BadInput):
        pool.check()
    return pool.reports


def line() -> int:
    frame = inspect.currentframe()
    assert frame is not None
    assert frame.f_back is not None
    return frame.f_back.f_lineno


def test_a_stale_block_table_is_named_with_its_page_its_kernel_and_both_places(device, stream):
    pool = pool_of(device)
    other = device.stream("other")
    sequence = pool.open(stream)
    sequence.grow(5, stream), (grown := line())
    (page,) = sequence.table
    sequence.finish(), (finished := line())
    other.launch(lambda a: None, reads=[stale(pool, page)], name="attend"), (read := line())
    with pytest.raises(BadInput) as raised:
        pool.open(stream)
    (report,) = pool.reports
    assert str(raised.value) == str(report)
    assert (report.misuse, report.address, report.nbytes) == ("read_after_free", pool._native.address(page), PAGE)
    assert report.suspects[0][:2] == ("attend", "other")
    for number in (grown, finished, read):
        assert f"test_debug_paged.py:{number} " in str(report)
    assert f"page {page} (" in str(report)
    assert "block table" in str(report)


def test_a_page_that_cannot_be_found_is_filled_with_poison_in_order(device, stream):
    pool = pool_of(device)
    other = device.stream("other", kind="nonblocking")
    sequence = sequence_of(pool, stream, 5, 7)
    (page,) = sequence.table
    other.wait(stream.record())
    seen: list[set[int]] = []
    other.launch(lambda a: seen.append(set(a.tolist())), reads=[sequence.page(0, np.uint8, PAGE)], cost_ns=10**8)
    sequence.finish()
    assert bytes_of(pool, stream, page) == {7}, "another stream was not past it"
    found(pool)
    assert bytes_of(pool, stream, page) == {POISON}
    assert seen == [{7}]
    assert {name for r in found(pool) for name, _, _ in r.suspects} == {"download"}  # these looks, and nobody else


def test_an_undeclared_write_beyond_a_page_is_found_in_the_freed_one_behind_it(device, stream):
    pool = pool_of(device)
    first, second = (sequence_of(pool, stream, 5, value) for value in (7, 8))
    low, high = sorted((first, second), key=lambda s: s.table[0])
    assert high.table[0] == low.table[0] + 1
    freed = high.table[0]
    high.finish()

    def wild(array: np.ndarray) -> None:
        as_strided(array, shape=(PAGE + 70,))[PAGE + 50 :] = 9

    stream.launch(wild, writes=[low.page(0, np.uint8, PAGE)])
    (report,) = found(pool)
    assert (report.misuse, report.address, report.offset, report.last) == (
        "write_after_free",
        pool._native.address(freed),
        50,
        69,
    )
    assert [name for name, _, _ in report.suspects] == ["wild"]
    low.finish()


def test_pages_that_can_be_found_keep_their_content_and_are_watched(device, stream):
    pool = pool_of(device)
    tokens = [7000 + i for i in range(2 * STEP)]
    sequence = sequence_of(pool, stream, 2 * STEP, 7)
    table = sequence.table
    sequence.finish()
    again = pool.open(stream, tokens)
    assert (again.table, again.written) == (table, 2 * STEP)
    assert bytes_of(pool, stream, table[0]) == {7}
    stream.launch(lambda a: None, reads=[again.page(0, np.uint8, PAGE)], name="attend")
    assert found(pool) == ()
    again.finish()
    stream.launch(lambda a: None, reads=[stale(pool, table[1])], name="late")
    (report,) = found(pool)
    assert (report.misuse, report.suspects[0][0]) == ("read_after_free", "late")
    assert pool.open(stream, tokens).table == table


def test_copy_on_write_is_no_use_of_what_was_freed(device, stream):
    pool = pool_of(device, 4)
    for round in range(1, 30):
        first = sequence_of(pool, stream, 12, round)
        twin = first.fork(stream)
        twin.grow(2, stream)
        stream.launch(lambda a: a.fill(9), writes=[twin.page(-1, np.uint8, PAGE)])
        for sequence in (first, twin) if round % 2 else (twin, first):
            sequence.finish()
        pool.walk()
    assert found(pool) == ()


def test_quarantine_is_pending_and_is_given_up_before_pages_run_out(device, stream):
    pool = pool_of(device, 3)
    first = pool.open(stream)
    first.grow(3 * STEP, stream)
    first.finish()
    g = pool.gauges()
    assert (g.allocated, g.pending, g.cached, g.reserved) == (0, 3 * PAGE, 0, 3 * PAGE)
    pool.walk()
    second = pool.open(stream)
    second.grow(3 * STEP, stream)
    assert (pool.gauges().allocated, pool.gauges().ooms) == (3 * PAGE, 0)
    second.finish()
    assert pool.available(stream) == 3
    assert found(pool) == ()
    pool.walk()


def test_a_page_in_quarantine_is_given_to_nobody(device, stream):
    pool = pool_of(device, 20, debug=3 * PAGE)
    given = []
    for _ in range(6):
        sequence = pool.open(stream)
        sequence.grow(1, stream)
        given += sequence.table
        sequence.finish()
    assert all(given[i] not in given[max(0, i - 3) : i] for i in range(6))
    assert found(pool) == ()


@pytest.mark.parametrize("seed", range(4))
def test_it_does_what_a_plain_model_does_and_accuses_nobody(device, stream, seed):
    pool = PagedPool(device, "kv", 60 * PAGE, page_bytes=PAGE, page_tokens=STEP, debug=0)
    Pair(pool, stream, seed).run(300)
    gc.collect()
    assert found(pool) == ()
    pool.walk()


@pytest.mark.parametrize("seed", range(1, 4))
def test_the_demo_serves_the_same_tokens_and_is_not_accused(monkeypatch, seed):
    made: list[PagedPool] = []

    class Kept(PagedPool):
        def __init__(self, *args: object, **options: object) -> None:
            super().__init__(*args, **options, debug=True)
            made.append(self)

    monkeypatch.setattr(engine, "PagedPool", Kept)
    served = serve(seed, requests=24)
    assert served.tokens == served.expected
    assert [pool.name for pool in made] == ["kv"]
    assert found(made[0]) == ()


def test_what_nobody_was_told_is_a_warning_at_the_end_of_the_pool(device, stream):
    pool = pool_of(device)
    sequence = sequence_of(pool, stream, 5, 7)
    (page,) = sequence.table
    sequence.finish()
    stream.launch(lambda a: None, reads=[stale(pool, page)], name="late")
    del sequence
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        del pool
        gc.collect()
    assert ["late" in str(w.message) for w in caught] == [True]


def test_an_ordinary_pool_says_how_to_get_one_that_looks(device):
    with pytest.raises(BadInput, match="debug=True"):
        PagedPool(device, "kv", PAGE, page_bytes=PAGE, page_tokens=STEP).check()


def test_after_a_sticky_error_ends_are_quiet_and_no_call_is_made(device, stream):
    pool = pool_of(device)
    sequence = sequence_of(pool, stream, 5, 7)
    device.fail("copy", status="illegal_address")
    with suppress(Exception):
        stream.copy(device.malloc(16), device.malloc(16))
    calls = device.driver_calls
    sequence.finish()
    assert device.driver_calls == calls
    assert pool.reports == ()
