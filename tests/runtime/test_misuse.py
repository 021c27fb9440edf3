"""Wrong arguments: each is refused in one line of BadInput, and nothing was done."""

from __future__ import annotations

import ast
import subprocess
import sys
import textwrap

import numpy as np
import pytest

from forebay import region
from forebay.errors import BadInput
from forebay.runtime import GraphCache, PagedPool, PinnedPool, Pool, SimDevice, recording

HUGE = 2**70
POOLS, BLANK = (Pool, PinnedPool, PagedPool), ("", " ", "\t\n")


class World:
    """A device with one of everything, and a second machine beside it."""

    def __init__(self) -> None:
        self.device = SimDevice("64MiB")
        self.stream = self.device.stream("s")
        self.pool = Pool(self.device, "kv")
        self.buffer = self.pool.alloc(1000, self.stream)
        self.pinned = self.device.host_alloc(1000)
        self.paged = PagedPool(self.device, "pages", "1MiB", page_bytes=4096, page_tokens=16)
        self.sequence = self.paged.open(self.stream)
        self.elsewhere = SimDevice("64MiB")
        self.foreign = Pool(self.elsewhere, "f").alloc(1000, self.elsewhere.stream("t"))

    def sequence_of_one(self):
        sequence = self.paged.open(self.stream)
        sequence.grow(1, self.stream)
        return sequence

    def frozen(self) -> np.ndarray:
        array = np.zeros(1000, "u1")
        array.setflags(write=False)
        return array


def made(kind, device, name, **more):
    return (
        kind(device, name, "1MiB", page_bytes=4096, page_tokens=16, **more) if kind is PagedPool else kind(device, name, **more)
    )


def on_closed(world: World):
    stream = world.device.stream("gone")
    stream.close()
    world.device.stream("takes the handle over")
    stream.launch(lambda: None)


def on_closed_event(world: World):
    event = world.device.event()
    event.close()
    world.stream.wait(event)


WRONG = {
    **{f"alloc {n!r}": lambda w, n=n: w.pool.alloc(n, w.stream) for n in (0, -1, 2**63, 2**64, 1.5, "1MiB", None, True)},
    "alloc no stream": lambda w: w.pool.alloc(10, None),
    "alloc foreign stream": lambda w: w.pool.alloc(10, w.elsewhere.stream("x")),
    "free -1": lambda w: w.pool.free_address(-1),
    "free text": lambda w: w.pool.free_address("x"),
    "free huge": lambda w: w.pool.free_address(HUGE),
    "lend -1": lambda w: w.pool.lend_address(-1, w.stream),
    "lend foreign": lambda w: w.pool.lend_address(w.buffer.address, w.elsewhere.stream("x")),
    "gauges foreign": lambda w: w.pool.gauges(w.elsewhere.stream("x")),
    **{f"capacity {n!r}": lambda w, n=n: SimDevice(n) for n in (-1, HUGE, None, 1.5, "x", True)},
    "seed -1": lambda w: SimDevice(seed=-1),
    "seed text": lambda w: SimDevice(seed="x"),
    "cost": lambda w: SimDevice(cost="bogus"),
    **{f"many {n!r}": lambda w, n=n: SimDevice.many(n) for n in (0, -1, 1.5, HUGE)},
    **{f"malloc {n!r}": lambda w, n=n: w.device.malloc(n) for n in (-1, 0, HUGE, "1MiB")},
    **{f"host_alloc {n!r}": lambda w, n=n: w.device.host_alloc(n) for n in (-1, 0, HUGE)},
    **{f"limit {n!r}": lambda w, n=n: Pool(w.device, "x", limit=n) for n in (0, -1, HUGE, 1.5, "zz", "0B")},
    **{f"wait {n!r}": lambda w, n=n: Pool(w.device, "x", wait_limit=n) for n in (-1, float("inf"), float("nan"), 1e30, "1")},
    **{f"buckets {n!r}": lambda w, n=n: Pool(w.device, "x", buckets=[n]) for n in (HUGE, 0, -1, 1.5, "1MiB")},
    "index -1": lambda w: Pool(w.device, "x", index=-1),
    "pool name": lambda w: Pool(w.device, None),
    **{f"{kind.__name__} called {n!r}": lambda w, kind=kind, n=n: made(kind, w.device, n) for kind in POOLS for n in BLANK},
    **{
        f"{kind.__name__} of {n!r}": lambda w, kind=kind, n=n: made(kind, n, "x")
        for kind in POOLS
        for n in (None, "gpu", 0, SimDevice)
    },
    **{
        f"{kind.__name__} for {n!r}": lambda w, kind=kind, n=n: made(kind, w.device, "x", consumer=n)
        for kind in POOLS
        for n in BLANK
    },
    **{f"stream called {n!r}": lambda w, n=n: w.device.stream(n) for n in BLANK},
    **{f"graph called {n!r}": lambda w, n=n: w.device.capture(w.stream, name=n) for n in BLANK},
    **{f"region called {n!r}": lambda w, n=n: region(n) for n in BLANK},
    **{f"graphs on {n!r}": lambda w, n=n: GraphCache(n, lambda size: None, [1]) for n in (None, "s", 1)},
    **{f"capture on {n!r}": lambda w, n=n: w.device.capture(n) for n in (None, "s", 1)},
    "pages of nothing": lambda w: PagedPool(w.device, "x", -1, page_bytes=4096, page_tokens=16),
    "page bytes": lambda w: PagedPool(w.device, "x", "1MiB", page_bytes=HUGE, page_tokens=16),
    "page wait": lambda w: PagedPool(w.device, "x", "1MiB", page_bytes=4096, page_tokens=16, wait_limit=float("nan")),
    **{f"cap {n!r}": lambda w, n=n: w.paged.cap(n) for n in (1.5, -1, 257)},  # of 256 pages
    "grow huge": lambda w: w.sequence.grow(HUGE, w.stream),
    "tokens -1": lambda w: w.paged.open(w.stream, [-1]),
    "tokens text": lambda w: w.paged.open(w.stream, ["x"]),
    "tokens square": lambda w: w.paged.open(w.stream, [[1, 2], [3, 4]]),
    "page outside": lambda w: w.sequence.page(3, "u1", 1),
    "open no stream": lambda w: w.paged.open(None),
    "stream kind": lambda w: w.device.stream("x", kind="zz"),
    "stream priority": lambda w: w.device.stream("x", priority=2**40),
    "stream name": lambda w: w.device.stream(None),
    "stream surrogate": lambda w: w.device.stream("\udce9"),
    **{f"memset {n!r}": lambda w, n=n: w.stream.memset(w.buffer, n) for n in (300, -1, 1.5)},
    "wait None": lambda w: w.stream.wait(None),
    "wait foreign": lambda w: w.stream.wait(w.elsewhere.event()),
    "wait closed": on_closed_event,
    "record foreign": lambda w: w.stream.record(w.elsewhere.event()),
    "record text": lambda w: w.stream.record("x"),
    "launch None": lambda w: w.stream.launch(None),
    "launch cost": lambda w: w.stream.launch(lambda: None, cost_ns=-5),
    "launch name": lambda w: w.stream.launch(lambda: None, name="\udce9"),
    "launch no list": lambda w: w.stream.launch(lambda x: None, w.buffer),
    "launch one array": lambda w: w.stream.launch(lambda x: None, w.buffer.bytes()),
    "launch NumPy": lambda w: w.stream.launch(lambda x: None, [np.zeros(3)]),
    "launch foreign": lambda w: w.stream.launch(lambda x: None, writes=[w.foreign]),
    "launch closed": on_closed,
    "host_func None": lambda w: w.stream.host_func(None),
    "copy read-only": lambda w: w.stream.copy(w.frozen(), w.buffer),
    "copy strided": lambda w: w.stream.copy(np.zeros((1000, 2), "u1")[:, 0], w.buffer),
    "copy None": lambda w: w.stream.copy(None, w.buffer),
    "copy foreign": lambda w: w.stream.copy(w.buffer, w.foreign),
    "memset foreign": lambda w: w.stream.memset(w.foreign, 1),
    **{f"shape {n!r}": lambda w, n=n: w.buffer.array("u1", n) for n in ((-5,), (-5, -5), 1.5, "12", (2**40, 2**40))},
    **{f"dtype {n!r}": lambda w, n=n: w.buffer.array(n, 1) for n in ("O", "zzz", "V0")},
    **{
        f"{t} at byte {n}": lambda w, t=t, n=n: w.buffer.array(t, 1, n) for t, n in (("f4", 2), ("i8", 4), ("c16", 12), ("u2", 1))
    },
    "misaligned field": lambda w: w.buffer.array(np.dtype([("a", "u1"), ("b", "f4")], align=True), 1, 2),
    "misaligned page": lambda w: w.sequence_of_one().page(0, "f4", 1, 2),
    "indexed outside a capture": lambda w: w.stream.launch(lambda x: None, indexed=[w.buffer]),
    "offset -1": lambda w: w.buffer.array("u1", 1, -1),
    "rows of a scalar": lambda w: w.buffer.array("u1", ())[0],
    "rows by name": lambda w: w.buffer.array("u1", 4)["x"],
    "numpy dtype": lambda w: w.pinned.numpy("O"),
    "numpy shape": lambda w: w.pinned.numpy("u1", 2000),
    "numpy of device memory": lambda w: w.buffer.numpy(),
    "spend": lambda w: w.device.spend(-1),
    "spend huge": lambda w: w.device.spend(HUGE),
    "nth": lambda w: w.device.fail(nth=0),
    "fail call": lambda w: w.device.fail("zz"),
    "fail status": lambda w: w.device.fail(status=[]),
    "tape before": lambda w: recording().tape,
    "exit before": lambda w: recording().__exit__(None, None, None),
    "record to a number": lambda w: recording(5),
    "record to no name": lambda w: recording("\udce9"),
    "region of a number": lambda w: region(5),
    "iteration": lambda w: region("x", iteration=-1),
}


@pytest.fixture(scope="module")
def world() -> World:
    return World()


@pytest.mark.parametrize("wrong", WRONG.values(), ids=[name.encode("unicode_escape").decode() for name in WRONG])
def test_a_wrong_argument_is_one_line(world: World, wrong) -> None:
    before = world.pool.gauges().allocated, world.pool.gauges().reserved, world.device.account.used_bytes
    with pytest.raises(BadInput) as caught:
        wrong(world)
    assert str(caught.value)
    assert "\n" not in str(caught.value)
    assert before == (world.pool.gauges().allocated, world.pool.gauges().reserved, world.device.account.used_bytes)
    assert world.device.machine.sim.fault_of(0).name == "ok"


def test_memory_of_another_machine_keeps_its_bytes() -> None:
    mine, other = SimDevice("64MiB"), SimDevice("64MiB")
    stream, theirs = mine.stream("s"), other.stream("t")
    own = Pool(mine, "a").alloc(512, stream)
    foreign = Pool(other, "b").alloc(512, theirs)
    stream.memset(own, 1)
    theirs.memset(foreign, 2)
    with pytest.raises(BadInput, match="another machine"):
        stream.launch(lambda x: x.fill(7), writes=[foreign])
    for device, its, buffer, value in ((mine, stream, own, 1), (other, theirs, foreign, 2)):
        out = np.zeros(512, "u1")
        its.copy(out, buffer)
        device.synchronize()
        assert out.tolist() == [value] * 512


def test_a_recording_is_entered_once() -> None:
    run = recording()
    with run, region("a"):
        pass
    with pytest.raises(BadInput, match="over"), run:
        pass
    with recording(), pytest.raises(BadInput, match="not under way"):
        run.__exit__(None, None, None)
    assert len(run.tape) == 2


def test_a_name_that_no_tape_can_hold_is_written_as_its_escape() -> None:
    with recording() as run, region("x\udce9"):
        pass
    assert "x\\udce9" in run.tape.sides.strings


def test_numpy_numbers_are_numbers() -> None:
    device = SimDevice(np.int64(2**26), seed=np.uint8(3))
    stream = device.stream("s")
    buffer = Pool(device, "p").alloc(np.int32(1000), stream)
    stream.memset(buffer, np.uint8(5))
    out = np.zeros(1000, "u1")
    stream.copy(out, buffer.array("u1", np.int64(1000), np.int8(0)))
    assert out.tolist() == [5] * 1000


def test_a_forked_child_is_told_what_to_do() -> None:
    code = """
        import os
        from forebay.errors import DriverError
        from forebay.runtime import Pool, SimDevice
        device = SimDevice("64MiB")
        stream, pool = device.stream("s"), Pool(device, "p")
        buffer = pool.alloc(1000, stream)
        if os.fork() == 0:
            buffer.free()
            try:
                pool.alloc(1000, stream)
            except DriverError as error:
                print((str(error), error.sticky), flush=True)
            os._exit(0)
        os.wait()
    """
    out = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True, capture_output=True, text=True).stdout
    message, sticky = ast.literal_eval(out)
    assert "never use its parent's device" in message
    assert "spawn" in message
    assert "try again" not in message
    assert sticky
