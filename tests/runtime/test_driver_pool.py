"""The driver's own pool behind our interface. On the fake libcuda, or on a GPU; faults on the fake alone."""

import gc
import inspect
import os
import random
from dataclasses import fields

import numpy as np
import pytest

from conformance.instances import LIBCUDA
from fake_cuda.library import FakeCuda
from forebay._core.driver import CaptureMode, StreamKind
from forebay.errors import BadInput, DriverError, NotSupported, PoolExhausted
from forebay.gauges import GAUGES
from forebay.runtime import CudaDevice, DriverPool, Pool, SimDevice, cuda, recording
from forebay.runtime.driver_pool import DriverGauges
from forebay.tape.kinds import Kind

MIB, GIB, MS = 2**20, 2**30, 1_000_000


def fresh(*capacities):
    gc.collect()  # what an earlier test left would meet a fresh fake
    cuda._machines.clear()
    return FakeCuda(*(capacities or (512 * MIB, 64 * MIB)))


@pytest.fixture
def device():
    return CudaDevice(library=LIBCUDA or fresh().path)


@pytest.fixture
def fake():
    return fresh()


def read(stream, buffer):
    out = np.empty(buffer.nbytes, "u1")
    stream.copy(out, buffer)
    return out


def test_it_has_the_interface_of_a_pool():
    """But for what a pool in debug mode says."""
    ours, theirs = ({name for name in dir(kind) if not name.startswith("_")} for kind in (Pool, DriverPool))
    assert ours - theirs <= {"reports", "check"}
    for name in ("alloc", "alloc_address", "lend_address", "gauges", "walk"):
        assert (
            inspect.signature(getattr(Pool, name)).parameters.keys()
            == inspect.signature(getattr(DriverPool, name)).parameters.keys()
        )


def test_its_gauges_are_a_pool_s_gauges():
    assert [field.name for field in fields(DriverGauges)] == [gauge.name for gauge in GAUGES]


def test_a_simulated_device_has_none():
    with pytest.raises(NotSupported, match=r"pool p: SimDevice.* has no pools of the driver's own; use Pool"):
        DriverPool(SimDevice("64MiB"), "p")


def test_blocks_hold_their_bytes_while_a_program_allocates_and_frees_at_random(device):
    """Every block is filled by its stream; before its free its bytes are what was written last."""
    rng, pool = random.Random(11), DriverPool(device, "p")
    streams = [device.stream(f"s{i}", kind="nonblocking") for i in range(3)]
    live = []
    for step in range(200):
        if live and (len(live) > 12 or rng.random() < 0.45):
            buffer, stream, value = live.pop(rng.randrange(len(live)))
            assert (read(stream, buffer) == value).all(), step
            buffer.free()
        else:
            stream, value = rng.choice(streams), step % 251 + 1
            buffer = pool.alloc(rng.choice([200, 5_000, 300_000, 3 * MIB]), stream)
            stream.memset(buffer, value)
            live.append((buffer, stream, value))
    pool.walk()
    assert pool.gauges().requested == sum(buffer.nbytes for buffer, _, _ in live)
    for buffer, _, _ in live:
        buffer.free()
    device.synchronize()
    assert (pool.gauges().allocated, pool.gauges().requested) == (0, 0)
    pool.walk()


def test_what_the_driver_does_not_tell_is_none_and_what_it_tells_is_its_own(device):
    pool, stream = DriverPool(device, "p"), device.stream("s")
    block = pool.alloc(3 * MIB, stream)
    told = {name: value for name, value in pool.gauges() if value is not None}
    assert told == {
        "reserved": 32 * MIB,
        "allocated": 3 * MIB,
        "requested": 3 * MIB,
        "active": 3 * MIB,
        "pending": 0,
        "cached": 29 * MIB,
        "ooms": 0,
        "event_waits": 0,
    }
    assert pool.gauges().utilisation == 3 / 32
    block.free()
    assert (pool.gauges().allocated, pool.gauges().cached) == (0, 32 * MIB)


def test_a_driver_that_may_insert_waits_does_not_tell_how_many(device):
    assert DriverPool(device, "p", internal_waits=True).gauges().event_waits is None


def test_peaks_are_since_they_were_forgotten(device):
    pool, stream = DriverPool(device, "p"), device.stream("s")
    pool.alloc(40 * MIB, stream).free()
    assert pool.peaks == (64 * MIB, 40 * MIB)
    device.synchronize()
    pool.trim()
    pool.forget_peaks()
    assert pool.peaks == (0, 0)


def test_a_free_is_ordered_after_every_stream_that_used_the_block(device):
    """The next user's bytes are its own, though the second stream was still writing at the free."""
    pool, first, second = DriverPool(device, "p"), device.stream("a", kind="nonblocking"), device.stream("b", kind="nonblocking")
    for round in range(30):
        block = pool.alloc(8 * MIB, first)
        first.memset(block, 1)
        second.wait(first.record())
        for _ in range(4):
            second.memset(block, 2)
        block.free()
        again = pool.alloc(8 * MIB, first)
        first.memset(again, 3)
        assert (read(first, again) == 3).all(), round
        again.free()


def test_a_lent_block_is_parked_until_its_borrower_is_through(fake):
    device = CudaDevice(library=fake.path)
    pool, first, second = DriverPool(device, "p"), device.stream("a", kind="nonblocking"), device.stream("b", kind="nonblocking")
    address = pool.alloc_address(MIB, first)
    pool.lend_address(address, second)
    fake.busy(second.handle, 500 * MS)
    pool.free_address(address)
    g = pool.gauges()
    assert (g.requested, g.active, g.allocated, g.pending) == (0, MIB, None, None)
    assert pool.alloc_address(MIB, first) != address
    second.synchronize()
    g = pool.gauges()
    assert (g.requested, g.active, g.allocated, g.pending) == (MIB, MIB, MIB, 0)
    assert fake.count("cuStreamWaitEvent") == 0  # no edge was added for it


def test_a_stream_may_end_before_its_blocks(device):
    pool, stream, other = DriverPool(device, "p"), device.stream("a", kind="nonblocking"), device.stream("b", kind="nonblocking")
    block = pool.alloc_address(MIB, stream)
    stream.close()
    pool.free_address(block)
    device.synchronize()
    assert pool.gauges().allocated == 0
    with pytest.raises(BadInput, match="not known or was closed"):
        pool.alloc_address(MIB, stream)
    pool.free_address(pool.alloc_address(MIB, other))


def test_by_default_nothing_goes_back_and_above_a_threshold_all_does(device):
    stream = device.stream("s")
    keeps, gives = DriverPool(device, "keeps"), DriverPool(device, "gives", release_threshold=0)
    for pool in (keeps, gives):
        pool.alloc(MIB, stream).free()
    stream.synchronize()
    assert (keeps.gauges().reserved, gives.gauges().reserved) == (32 * MIB, 0)
    assert keeps.trim() == 32 * MIB
    assert keeps.gauges().reserved == 0


def test_a_full_device_is_said_to_be_full(fake):
    device = CudaDevice(library=fake.path)
    pool, stream = DriverPool(device, "p"), device.stream("s")
    pool.alloc(300 * MIB, stream)
    with pytest.raises(
        PoolExhausted, match=r"pool p: asked 300 MiB on stream s \(reserved 320 MiB.*the device is full"
    ) as caught:
        pool.alloc(300 * MIB, stream)
    assert caught.value.verdict == "full"
    assert caught.value.gauges["reserved"] == 320 * MIB
    assert "stranded" not in caught.value.gauges
    assert pool.gauges().ooms == 1


def test_a_limit_is_said_to_be_the_reason(device):
    pool, stream = DriverPool(device, "p", limit=64 * MIB), device.stream("s")
    pool.alloc(40 * MIB, stream)
    with pytest.raises(PoolExhausted, match="the pool's own limit") as caught:
        pool.alloc(60 * MIB, stream)
    assert caught.value.verdict == "capped"


def test_why_idle_bytes_do_not_serve_the_driver_does_not_tell(fake):
    """Every second block of a full device is free: as many bytes, in holes too small."""
    device = CudaDevice(library=fake.path)
    pool, stream = DriverPool(device, "p"), device.stream("s")
    blocks = [pool.alloc_address(32 * MIB, stream) for _ in range(16)]
    for block in blocks[::2]:
        pool.free_address(block)
    with pytest.raises(PoolExhausted, match="fragmented, or not yet complete; the driver does not tell") as caught:
        pool.alloc(64 * MIB, stream)
    assert caught.value.verdict == ""


@pytest.mark.parametrize(
    ("misuse", "said"),
    [
        (lambda pool, stream: pool.alloc(0, stream), "bytes asked: 0 is out of range"),
        (lambda pool, stream: pool.alloc("1", stream), "is no whole number"),
        (lambda pool, stream: pool.alloc(1, None), "NoneType is no stream"),
        (lambda pool, stream: pool.alloc(1, SimDevice("1MiB").default_stream), "on another device"),
        (lambda pool, stream: pool.alloc(2**62 + 1, stream), "more than any device has"),
        (lambda pool, stream: pool.free_address(12345), "no live block begins at 0x3039"),
        (lambda pool, stream: pool.free_address(None), "address: None is no whole number"),
        (lambda pool, stream: pool.lend_address(12345, stream), "no live block begins at 0x3039"),
        (lambda pool, stream: DriverPool(pool.device, "q", limit=0), "limit: 0 is out of range"),
        (lambda pool, stream: DriverPool(pool.device, "q", release_threshold="much"), "release_threshold"),
    ],
)
def test_misuse_is_refused_in_one_line(device, misuse, said):
    pool, stream = DriverPool(device, "p"), device.stream("s")
    with pytest.raises(BadInput, match=said):
        misuse(pool, stream)


def test_a_block_is_freed_once(device):
    pool, stream = DriverPool(device, "p"), device.stream("s")
    address = pool.alloc_address(512, stream)
    pool.free_address(address)
    with pytest.raises(BadInput, match="free each block once"):
        pool.free_address(address)


# ---- captures


def test_in_a_capture_memory_is_the_graph_s_and_frees_wait_for_its_end(device):
    pool, stream, other = DriverPool(device, "p"), device.stream("s", kind="nonblocking"), device.stream("o", kind="nonblocking")
    before = pool.alloc(MIB, other)
    with device.capture(stream, reserve=4 * MIB) as graph:
        inside = pool.alloc(MIB, stream)
        stream.memset(inside, 9)
        before.free()
        assert pool.gauges().requested == MIB
    assert pool.gauges().requested == 0
    graph.replay(stream)
    assert (read(stream, inside) == 9).all()
    pool.walk()


def test_an_adopted_stream_that_captures_is_refused(fake):
    device = CudaDevice(library=fake.path)
    theirs = device.cuda.stream_create(0, StreamKind.nonblocking, 0)
    adopted, pool = device.adopt(theirs), DriverPool(device, "p")
    device.cuda.capture_begin(0, theirs, CaptureMode.relaxed)
    with pytest.raises(BadInput, match="captures; the block would live in its graph alone"):
        pool.alloc(MIB, adopted)
    device.cuda.memset(0, device.malloc(512).address, 0, 512, theirs)
    device.cuda.graph_destroy(0, device.cuda.capture_end(0, theirs))


# ---- the tape


def test_a_recording_shows_its_blocks_and_that_it_is_trusted(device, tmp_path):
    with recording(tmp_path / "run.arrow") as run:
        pool, first, second = DriverPool(device, "p", consumer="kv"), device.stream("a"), device.stream("b")
        address = pool.alloc_address(1000, first)
        pool.lend_address(address, second)
        pool.free_address(address)
    tape = run.tape
    rows = [(Kind(kind), size) for kind, size in zip(tape.columns["kind"], tape.columns["size"], strict=True)]
    assert [row for row in rows if row[0] in (Kind.alloc, Kind.lend, Kind.free)] == [
        (Kind.alloc, 1000),
        (Kind.lend, 1000),
        (Kind.free, 1000),
    ]
    (entry,) = [p for p in tape.sides.pools if p.name == "p"]
    assert (entry.consumer, entry.kind, entry.trusted) == ("kv", "driver", True)


# ---- faults


CALLS = "cuMemPoolCreate cuMemPoolSetAttribute cuMemAllocFromPoolAsync cuMemFreeAsync cuMemPoolTrimTo cuMemPoolGetAttribute"


def scenario(device):
    """Allocates, lends, frees, trims; what was refused is left. The pool, its live blocks, and the calls that were refused."""
    refused = []
    try:
        pool = DriverPool(device, "p")
    except DriverError as error:
        return None, [], [error.call]
    first, second = device.default_stream, device.thread_stream()
    live = []
    for step in range(6):
        try:
            live.append(pool.alloc_address(1000 * (step + 1), first if step % 2 else second))
        except DriverError as error:
            refused.append(error.call)
        if step % 3 == 2:
            pool.lend_address(live[0], second)
            pool.free_address(live.pop(0))
    try:
        pool.trim()
    except DriverError as error:
        refused.append(error.call)
    return pool, live, refused


@pytest.mark.parametrize("nth", range(1, 17))
def test_a_call_that_fails_loses_no_block(fake, nth):
    """Whatever the position: afterwards the driver's count is that of the live blocks, and of none once they are freed."""
    device = CudaDevice(library=fake.path)
    fake.plan(CALLS, nth, code=1)
    pool, live, refused = scenario(device)
    assert set(refused) <= {"pool_create", "pool_set", "pool_alloc", "pool_trim", "pool_get"}
    fake.forget_plans()
    if pool is None:
        assert refused in (["pool_create"], ["pool_set"])
        return
    device.synchronize()
    pool.walk()
    for address in live:
        pool.free_address(address)
    device.synchronize()
    pool.walk()
    assert (pool.gauges().active, pool.gauges().requested) == (0, 0)


def test_the_positions_reach_every_call(fake):
    device = CudaDevice(library=fake.path)
    scenario(device)
    assert sum(fake.count(name) for name in CALLS.split()) == 16  # each is a position above
    assert min(fake.count(name) for name in CALLS.split()) >= 1


def test_a_lost_device_raises_at_allocations_and_at_nothing_else(fake):
    device = CudaDevice(library=fake.path)
    pool, stream = DriverPool(device, "p"), device.stream("s")
    block = pool.alloc_address(MIB, stream)
    fake.lose(700)
    with pytest.raises(DriverError, match="the device is lost") as caught:
        pool.alloc_address(MIB, stream)
    assert caught.value.sticky
    pool.free_address(block)
    calls = fake.calls
    with pytest.raises(DriverError):
        pool.alloc_address(MIB, stream)
    assert fake.calls == calls


def test_a_forked_child_frees_nothing_and_is_told_why_it_gets_nothing(fake):
    device = CudaDevice(library=fake.path)
    pool, stream = DriverPool(device, "p"), device.stream("s")
    block = pool.alloc_address(MIB, stream)
    ours, theirs = os.pipe()
    if os.fork() == 0:
        try:
            pool.free_address(block)
            pool.alloc_address(MIB, stream)
        except DriverError as error:
            os.write(theirs, str(error).encode())
        os._exit(0)
    os.close(theirs)
    os.wait()
    assert b"was forked" in os.read(ours, 4096)
    pool.walk()
