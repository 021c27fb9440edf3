"""Pools in debug mode: what is found, whom it names, and that nothing else is.

Whether freed bytes were used is judged by the kernels themselves, which see what they read, never by the pool.
"""

import gc
import inspect
import warnings
from collections.abc import Callable
from contextlib import suppress
from ctypes import memset

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from forebay.errors import BadInput, Pending, PoolExhausted
from forebay.runtime import Array, Buffer, Pool, SimDevice, Stream, recording
from forebay.runtime.debug import Report
from forebay.tape.events import Kind

MIB = 2**20
POISON, CANARY = 0xDB, 0xC5


@pytest.fixture
def device() -> SimDevice:
    return SimDevice("64MiB")


@pytest.fixture
def stream(device: SimDevice) -> Stream:
    return device.stream("main", kind="nonblocking")


@pytest.fixture
def other(device: SimDevice) -> Stream:
    return device.stream("other", kind="nonblocking")


def here() -> str:
    """The line that calls this, as reports write it."""
    frame = inspect.currentframe()
    assert frame is not None
    assert frame.f_back is not None
    return f"{__file__}:{frame.f_back.f_lineno} "


def alias(buffer: Buffer) -> Array:
    """The buffer's bytes for somebody that the buffer does not hear of."""
    return Buffer(buffer.device, buffer.address, buffer.nbytes, lambda _: None).bytes()


def quiet(pool: Pool) -> None:
    pool.check()
    assert pool.reports == ()
    pool.walk()


def found(pool: Pool) -> tuple[Report, ...]:
    """Every report, and all of them told."""
    with suppress(BadInput):
        pool.check()
    return pool.reports


def fill(value: int) -> Callable[..., None]:
    def kernel(*arrays: NDArray[np.uint8]) -> None:
        for array in arrays:
            array[...] = value

    return kernel


def one_report(pool: Pool) -> Report:
    with pytest.raises(BadInput) as raised:
        pool.check()
    (report,) = pool.reports
    assert str(raised.value) == str(report)
    assert "\n" not in str(report)
    pool.check()  # once
    return report


@pytest.mark.parametrize("seed", range(40))
def test_a_use_on_a_stream_that_nobody_named_is_found_exactly_when_it_came_after_the_poison(seed: int) -> None:
    device = SimDevice("64MiB", seed=seed)
    main, other = device.stream("main", kind="nonblocking"), device.stream("other", kind="nonblocking")
    pool = Pool(device, "p", debug=True)
    buffer = pool.alloc(1000, main)
    main.launch(fill(1), writes=[buffer])
    other.wait(main.record())
    seen: list[NDArray[np.uint8]] = []
    other.launch(lambda a: seen.append(a.copy()), reads=[alias(buffer)], name="late_reader")
    buffer.free()
    for _ in range(3):
        other.launch(lambda: None)
    device.synchronize()
    poisoned = bool((seen[0] == POISON).all())
    assert poisoned or bool((seen[0] == 1).all())
    reports = found(pool)
    assert [(r.misuse, r.suspects[0][:2]) for r in reports] == [("read_after_free", ("late_reader", "other"))] * poisoned
    assert {r.address for r in reports} <= {buffer.address}


def test_both_outcomes_of_that_race_are_among_the_schedules() -> None:
    outcomes = set()
    for seed in range(40):
        device = SimDevice("64MiB", seed=seed)
        main, other = device.stream("main", kind="nonblocking"), device.stream("other", kind="nonblocking")
        pool = Pool(device, "p", debug=True)
        buffer = pool.alloc(1000, main)
        other.launch(fill(2), writes=[alias(buffer)], name="late_writer")
        buffer.free()
        device.synchronize()
        outcomes.add(tuple(r.misuse for r in found(pool)))
    assert outcomes == {(), ("write_after_free",)}


def test_a_use_issued_after_the_free_is_found_in_any_order_with_every_name(device: SimDevice, stream: Stream) -> None:
    pool = Pool(device, "kv", debug=True)
    address, allocated = pool.alloc_address(1000, stream), here()
    stale = Buffer(device, address, 1000, lambda _: None)
    pool.free_address(address), (freed := here())
    out = np.zeros(1000, np.uint8)
    stream.copy(out, stale), (read := here())
    report = one_report(pool)
    assert (report.misuse, report.pool, report.address, report.nbytes) == ("read_after_free", "kv", address, 1000)
    assert report.allocated_at.startswith(allocated)
    assert report.freed_at.startswith(freed)
    ((name, on, site),) = report.suspects
    assert (name, on) == ("download", "main")
    assert site.startswith(read)
    assert all(part in str(report) for part in (allocated, freed, read, "kv", "1000 B"))
    assert set(out.tolist()) == {POISON}  # it did read what nobody owns


@pytest.mark.parametrize(("offset", "words"), [(-1, "byte 1 before its begin"), (1000, "byte 1 beyond its end")])
def test_an_overrun_by_one_byte_names_the_block_and_what_ran(device: SimDevice, stream: Stream, offset: int, words: str) -> None:
    pool = Pool(device, "p", debug=True)
    before, buffer, behind = pool.alloc(1000, stream), pool.alloc(1000, stream), pool.alloc(1000, stream)

    def careless(array: NDArray[np.uint8]) -> None:
        memset(array.ctypes.data + offset, 7, 1)

    stream.launch(fill(3), writes=[before, buffer, behind], name="innocent")
    pool.check()
    stream.launch(careless, writes=[buffer]), (site := here())
    stream.launch(fill(4), writes=[behind], name="neighbour")
    buffer.free()
    report = one_report(pool)
    assert (report.misuse, report.address, report.nbytes, report.offset) == ("overrun", buffer.address, 1000, offset)
    assert words in str(report)
    assert [name for name, _, _ in report.suspects] == [
        "careless",
        "neighbour",
    ]  # what uses the block first, `innocent` is cleared
    assert report.suspects[0][2].startswith(site)


def test_a_block_that_is_still_live_is_looked_at_too(device: SimDevice, stream: Stream) -> None:
    pool = Pool(device, "p", debug=True)
    buffer = pool.alloc(1000, stream)
    stream.launch(lambda a: as_strided(a, shape=(1001,)).__setitem__(1000, 7), writes=[buffer], name="careless")
    assert one_report(pool).suspects[0][0] == "careless"
    buffer.free()


def test_undeclared_writes_into_freed_bytes_are_found_by_comparison(device: SimDevice, stream: Stream) -> None:
    pool = Pool(device, "p", debug=True)
    first, second = pool.alloc(512, stream), pool.alloc(512, stream)
    low, high = sorted((first, second), key=lambda b: b.address)
    far = high.address - low.address
    high.free()

    def wild(array: NDArray[np.uint8]) -> None:
        as_strided(array, shape=(far + 8,))[far + 3] = 9

    stream.launch(wild, writes=[low])
    report = one_report(pool)
    assert (report.misuse, report.address, report.offset) == ("write_after_free", high.address, 3)
    assert [name for name, _, _ in report.suspects] == ["wild"]
    low.free()


def test_poison_comes_after_every_stream_that_used_the_buffer(device: SimDevice, stream: Stream, other: Stream) -> None:
    pool = Pool(device, "p", debug=True)
    buffer = pool.alloc(1000, stream)
    stream.launch(fill(5), writes=[buffer])
    other.wait(stream.record())
    out: list[NDArray[np.uint8]] = []
    other.launch(lambda a: out.append(a.copy()), reads=[buffer], cost_ns=10**8)
    stale = alias(buffer)
    buffer.free()
    stream.synchronize()  # its own stream is over, the other is not
    peek = np.zeros(1000, np.uint8)
    device.machine.sim.download(0, peek, stale.address, stream.handle)
    assert set(peek.tolist()) == {5}
    device.synchronize()
    assert set(out[0].tolist()) == {5}
    assert [r.suspects[0][0] for r in found(pool)] == ["download"]  # that peek, and nobody else


def test_a_block_in_quarantine_is_not_given_again_before_its_turn(device: SimDevice, stream: Stream) -> None:
    pool = Pool(device, "p", debug=64 * 1024)
    first = pool.alloc(10_000, stream).address
    pool.free_address(first)
    given: list[int] = []
    # Each block takes 10,000 + 576 bytes, rounded up to 10,752: six of them are the first to be more than 64 KiB, after five more frees.
    while first not in given:
        given.append(pool.alloc_address(10_000, stream))
        pool.free_address(given[-1])
    assert len(given) == 7
    assert len(set(given)) == 7
    quiet(pool)


def test_a_second_free_names_the_first(device: SimDevice, stream: Stream) -> None:
    pool = Pool(device, "p", debug=True)
    address = pool.alloc_address(100, stream)
    pool.free_address(address), (freed := here())
    with pytest.raises(BadInput, match="freed before, at") as raised:
        pool.free_address(address)
    assert freed in str(raised.value)
    quiet(pool)


def test_gauges_tell_quarantine_and_canaries_apart(device: SimDevice, stream: Stream) -> None:
    pool = Pool(device, "p", debug=True)
    kept, freed = pool.alloc(10_000, stream), pool.alloc(20_000, stream)
    # 512 in front, at least 64 behind, rounded up to 512.
    g = pool.gauges()
    assert (g.requested, g.allocated, g.pending) == (30_000, 10_752 + 20_992, 0)
    freed.free()
    g = pool.gauges()
    assert (g.requested, g.allocated, g.pending, g.active) == (10_000, 10_752, 20_992, 10_752 + 20_992)
    assert g.reserved == g.active + g.cached == 2 * MIB
    assert g.largest_free == MIB - 576  # larger ones, canaries and all, have segments of their own
    pool.check()
    g = pool.gauges()
    assert (g.requested, g.allocated, g.pending) == (10_000, 10_752, 0)
    kept.free()
    pool.trim()
    assert pool.gauges().reserved == 0
    quiet(pool)


def test_the_largest_hit_is_one_and_a_byte_more_is_none(device: SimDevice, stream: Stream) -> None:
    pool = Pool(device, "p", debug=True)
    pool.alloc(3 * MIB, stream)
    most = pool.gauges(stream).largest_free
    misses = pool.gauges().misses
    pool.alloc(most, stream).free()
    assert pool.gauges().misses == misses
    pool.check()
    pool.alloc(most + 1, stream)
    assert pool.gauges().misses == misses + 1


def test_quarantine_is_given_up_before_memory_runs_out(stream: Stream, device: SimDevice) -> None:
    pool = Pool(device, "p", limit=20 * MIB, debug="1GiB")
    for _ in range(3):
        pool.alloc(15 * MIB, stream).free()
    assert pool.gauges().ooms == 0
    with pytest.raises(PoolExhausted) as raised:
        pool.alloc(25 * MIB, stream)
    assert "asked 25 MiB" in str(raised.value)
    assert raised.value.verdict == "capped"
    quiet(pool)


def test_other_pools_get_it_too(stream: Stream, device: SimDevice) -> None:
    hoard, pool = Pool(device, "hoard", debug="1GiB"), Pool(device, "p")
    hoard.alloc(50 * MIB, stream).free()
    pool.alloc(50 * MIB, stream)
    assert hoard.gauges().reserved == 0
    quiet(hoard)


def test_a_block_that_waits_for_a_stream_is_waited_for(device: SimDevice, stream: Stream, other: Stream) -> None:
    pool = Pool(device, "p", limit=20 * MIB, debug=True)
    buffer = pool.alloc(15 * MIB, stream)
    other.launch(fill(1), writes=[buffer.array("u1", 10)], cost_ns=10**9)
    buffer.free()
    pool.alloc(15 * MIB, stream)
    assert other.ready()
    impatient = Pool(device, "q", debug=True, wait_limit=0)
    buffer = impatient.alloc(100, stream)
    other.launch(fill(1), writes=[buffer], cost_ns=10**9)
    buffer.free()
    with pytest.raises(Pending, match=r"pool q: its check waited .* for frees on other"):
        impatient.check()


def test_what_nobody_was_told_is_a_warning_at_the_end_of_the_pool(device: SimDevice, stream: Stream) -> None:
    pool = Pool(device, "p", debug=True)
    buffer = pool.alloc(1000, stream)
    stream.launch(lambda a: as_strided(a, shape=(1001,)).__setitem__(1000, 7), writes=[buffer], name="careless")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        del pool, buffer
        gc.collect()
    assert [w.category for w in caught] == [RuntimeWarning]
    assert "careless" in str(caught[0].message)


def test_an_ordinary_pool_says_how_to_get_one_that_looks(device: SimDevice) -> None:
    with pytest.raises(BadInput, match="debug=True"):
        Pool(device, "p").check()
    with pytest.raises(BadInput, match="debug"):
        Pool(device, "p", debug="a lot")


def test_a_recording_shows_the_program_and_not_the_checks(device: SimDevice, stream: Stream) -> None:
    pool = Pool(device, "p", debug=True)
    with recording() as run:
        buffer = pool.alloc(1000, stream)
        stream.launch(fill(1), writes=[buffer])
        buffer.free()
        pool.check()
        pool.trim()
        with pytest.raises(PoolExhausted):
            pool.alloc(100 * MIB, stream)
    kinds = [Kind(k) for k in run.tape.columns["kind"]]
    assert [k for k in kinds if k in (Kind.alloc, Kind.free, Kind.launch, Kind.memset, Kind.copy, Kind.oom, Kind.flush)] == [
        Kind.alloc,
        Kind.launch,
        Kind.free,
        Kind.flush,
        Kind.oom,
    ]
    assert run.tape.columns["requested"][run.tape.where(Kind.oom)].tolist() == [100 * MIB]


def test_a_stream_that_is_closed_first_is_said_to_be_unseen(device: SimDevice) -> None:
    pool = Pool(device, "p", debug=True)
    short = device.stream("short", kind="nonblocking")
    buffer = pool.alloc(1000, short)
    short.close()
    buffer.free()
    pool.check()
    assert pool._native.unseen == 1
    pool.walk()


def test_the_end_of_a_pool_that_a_walk_of_the_stack_collects_leaves_the_walk_whole(device: SimDevice) -> None:
    """Frames are objects: to make one may run the collector, whose finalisers say that nobody wants stacks any more."""

    class Cycle:
        def __init__(self) -> None:
            self.me, self.pool = self, Pool(SimDevice(MIB), "gone", debug=True)

        def __del__(self) -> None:
            gone.append(self.pool.name)

    gone: list[str] = []

    def deep(levels: int) -> None:
        if levels:
            deep(levels - 1)
        else:
            device.synchronize()

    before = gc.get_threshold()
    try:
        for nth in range(1, 60):
            gc.collect()
            gc.disable()
            Cycle()
            gc.set_threshold(nth)
            gc.enable()
            deep(40)
            gc.collect()
    finally:
        gc.set_threshold(*before)
    assert gone == ["gone"] * 59
