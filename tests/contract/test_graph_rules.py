"""stale-graph-pointer and capture-unclean on what the runtime records, with controls that stay silent."""

import threading

import pytest

from forebay import Pool, SimDevice, recording
from forebay._core.driver import CaptureMode
from forebay.contract import check
from forebay.errors import DriverError
from forebay.tape import Sees

RULES = {"stale-graph-pointer", "capture-unclean", "unordered-free", "unordered-access"}


def add_one(source, target):
    target[:] = source + 1


class World:
    def __init__(self):
        self.device = SimDevice("64MiB")
        self.main, self.side = (self.device.stream(name, kind="nonblocking") for name in ("main", "side"))
        self.pool = Pool(self.device, "p")
        self.x = self.pool.alloc(64, self.main)

    def graph(self, block):
        with self.device.capture(self.main, name="decode") as graph:
            self.main.launch(add_one, [block], [self.x], name="read")
        return graph


def findings(run):
    return [finding for finding in check(run.tape).findings if finding.name in RULES]


def line(text):
    with open(__file__) as source:
        return f"{__file__}:{source.read().splitlines().index(text) + 1}"


def test_a_replay_after_a_block_that_it_uses_was_freed():
    world = World()
    with recording() as run:
        block = world.pool.alloc(64, world.main)
        graph = world.graph(block)
        graph.replay(world.main)
        block.free()
        graph._baked.clear()  # past the runtime's own look
        graph.replay(world.main)
    (stale,) = findings(run)
    assert (stale.name, stale.prevents, stale.severity) == ("stale-graph-pointer", "stale-graph-pointer", "error")
    freed = line("        block.free()")
    begun = line('        with self.device.capture(self.main, name="decode") as graph:')
    assert f"captured at {begun}" in stale.message
    assert f"given back by free on `main` at {freed}" in stale.message


def test_blocks_that_live_or_are_the_graphs_own_are_silent():
    world = World()
    with recording() as run:
        block = world.pool.alloc(64, world.main)
        graph = world.graph(block)
        with world.device.capture(world.main) as own:
            inside = world.pool.alloc(64, world.main)
            world.main.launch(add_one, [block], [inside])
            inside.free()
        for _ in range(3):
            graph.replay(world.main)
            own.replay(world.main)
            world.pool.alloc(64, world.main).free()
        block.free()
    assert findings(run) == []


@pytest.mark.parametrize(
    ("call", "status", "why"),
    [
        ("sync", 900, "cuStreamSynchronize on `main`"),
        ("malloc", 900, "cuMemAlloc"),
        ("outside", 905, "cuStreamWaitEvent on `main`"),
        ("captured", 907, "cuEventQuery"),
    ],
)
def test_the_call_that_broke_a_capture_is_named_and_not_its_end(call, status, why):
    world = World()
    driver, main = world.device.driver, world.main.handle
    outside, inside = world.side.record(), world.device.event()
    calls = {
        "sync": lambda: driver.stream_sync(0, main),
        "malloc": lambda: driver.malloc(0, 512),
        "outside": lambda: driver.stream_wait(0, main, outside.handle),
        "captured": lambda: driver.event_query(0, inside.handle),
    }
    with recording() as run:
        driver.capture_begin(0, main, CaptureMode.thread_local)
        driver.event_record(0, inside.handle, main)
        with pytest.raises(DriverError):
            calls[call]()
        with pytest.raises(DriverError):
            driver.capture_end(0, main)
    (unclean,) = findings(run)
    assert (unclean.name, unclean.prevents, unclean.certainty) == ("capture-unclean", "dirty-capture", "certain")
    assert unclean.evidence["status"] == status
    assert why in unclean.message


def test_a_loader_that_broke_it_and_a_forgotten_join_are_named():
    world = World()

    def loader():
        with world.device.call() as driver, pytest.raises(DriverError):
            driver.host_alloc(64)

    def broken():
        with world.device.capture(world.main, mode="global"):
            world.main.launch(add_one, [world.x], [world.x])
            thread = threading.Thread(target=loader)
            thread.start()
            thread.join()

    def unjoined():
        with world.device.capture(world.main):
            world.side.wait(world.main.record())
            world.side.launch(add_one, [world.x], [world.x])

    with recording() as run:
        for program in (broken, unjoined):
            with pytest.raises(DriverError):
                program()
    unclean = findings(run)
    assert [f.evidence["status"] for f in unclean] == [900, 904]
    assert "cuMemHostAlloc" in unclean[0].message
    assert "leaves work behind" in unclean[1].message


def test_a_clean_capture_beside_other_threads_pools_is_silent():
    world = World()
    with recording() as run, world.device.capture(world.main) as graph:
        world.main.launch(add_one, [world.x], [world.x])
        thread = threading.Thread(target=lambda: world.pool.alloc(8 * 2**20, world.side).free())
        thread.start()
        thread.join()
    assert graph.nodes == 1
    assert Sees.CAPTURES in run.tape.sees
    assert findings(run) == []
