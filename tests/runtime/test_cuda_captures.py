"""Captures over CUDA: replays with right bytes, and the reports E1, E2, E4, E5 and E6, each told by its first offender with its line.
On the fake libcuda, or on a GPU."""

import gc
import sys
import threading

import numpy as np
import pytest

from conformance.instances import LIBCUDA
from fake_cuda.library import FakeCuda
from forebay.errors import BadInput, DriverError, PoolExhausted
from forebay.runtime import CudaDevice, GraphCache, PinnedPool, Pool, cuda

MIB = 2**20


class World:
    def __init__(self):
        if not LIBCUDA:
            gc.collect()  # what an earlier test left would meet a fresh fake
            cuda._machines.clear()
        self.device = CudaDevice(library=LIBCUDA or FakeCuda(256 * MIB, 64 * MIB).path)
        self.main, self.side = (self.device.stream(name, kind="nonblocking") for name in ("main", "side"))
        self.pool = Pool(self.device, "p")
        self.x = self.pool.alloc(4096, self.main)
        self.main.memset(self.x, 0)
        self.before = self.side.record()
        self.event = self.device.event()
        self.device.synchronize()


@pytest.fixture
def world():
    return World()


def bytes_of(world, buffer):
    out = np.zeros(buffer.nbytes, "u1")
    world.main.copy(out, buffer)
    return set(out.tolist())


def test_a_graph_with_a_fork_and_memory_of_its_own_gives_right_bytes_at_every_replay(world):
    with world.device.capture(world.main, reserve="4MiB") as graph:
        between = world.pool.alloc(4096, world.main)
        world.main.memset(between, 3)
        world.side.wait(world.main.record())
        world.side.copy(world.x, between)
        world.main.wait(world.side.record())
        between.free()
    for round in range(50):
        world.main.memset(world.x, 9)
        graph.replay(world.main)
        churn = world.pool.alloc(1 + round * 50_000, world.main)
        world.main.memset(churn, 5)
        assert bytes_of(world, world.x) == {3}, round
        churn.free()


def test_sizes_are_padded_and_each_graph_captured_once(world):
    source = PinnedPool(world.device, "stage").alloc(4096)
    source.numpy()[:] = 7

    def step(size):
        world.main.copy(world.x.array("u1", size), source.array("u1", size))

    with GraphCache(world.main, step, [1024, 4096]) as graphs:
        for size in (10, 1024, 4000, 700):
            graphs.replay(size)
        assert graphs.captures == 2
    assert bytes_of(world, world.x) == {7}


REFUSED = {
    "sync of the capturing stream (E1)": (lambda w: w.main.synchronize(), "asks about work that the capture holds back"),
    "sync of the device (E1)": (lambda w: w.device.synchronize(), "covers every stream of the device"),
    "driver allocation": (lambda w: w.device.malloc(64), "might wait for the device"),
    "wait for an event from outside (E2)": (lambda w: w.main.wait(w.before), "recorded outside the capture"),
    "query of a captured event (E5)": (lambda w: w.main.record(w.event).ready(), "whose record the capture holds back"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_it_is_refused_with_its_line_and_the_capture_goes_on(world, what):
    operation, why = REFUSED[what]
    with world.device.capture(world.main, name="decode") as graph:
        world.main.memset(world.x, 4)
        with pytest.raises(BadInput) as caught:
            operation(world)
    assert why in str(caught.value)
    assert f" at {__file__}:{operation.__code__.co_firstlineno}" in str(caught.value)
    graph.replay(world.main)
    assert bytes_of(world, world.x) == {4}


def test_another_threads_pinned_memory_is_refused_with_its_thread_in_the_global_mode(world):
    """Report E4: the loader is told, and the capture ends well."""
    errors = []

    def load():
        try:
            world.device.host_alloc(64)
        except BadInput as error:
            errors.append(str(error))

    with world.device.capture(world.main, mode="global") as graph:
        world.main.memset(world.x, 6)
        thread = threading.Thread(target=load, name="Loader")
        thread.start()
        thread.join()
    line = load.__code__.co_firstlineno + 2
    assert errors[0].startswith(f"Device.host_alloc at {__file__}:{line} on thread Loader would break the capture of `main`")
    graph.replay(world.main)
    assert bytes_of(world, world.x) == {6}


def test_a_call_past_the_runtime_is_named_when_the_driver_says_that_the_capture_is_invalid(world):
    """The same report where nobody could look first."""

    def load():
        with pytest.raises(DriverError), world.device.call() as driver:
            driver.host_alloc(64)

    thread = threading.Thread(target=load, name="Loader")
    with pytest.raises(DriverError) as caught, world.device.capture(world.main, mode="global"):  # noqa: PT012
        world.main.memset(world.x, 1)
        thread.start()
        thread.join()
    assert caught.value.status == 901
    assert f"by host_alloc at {__file__}:{load.__code__.co_firstlineno + 1} on thread Loader" in str(caught.value)
    world.device.synchronize()


def test_memory_that_runs_out_inside_is_told_as_that_and_the_capture_goes_on(world):
    """Report E5."""
    with world.device.capture(world.main) as graph:
        world.main.memset(world.x, 2)
        with pytest.raises(PoolExhausted, match="asked 4 TiB"):
            world.pool.alloc(2**42, world.main)
    graph.replay(world.main)
    assert bytes_of(world, world.x) == {2}


def test_an_empty_graph_names_the_work_that_went_elsewhere(world):
    """Report E6."""
    with pytest.raises(BadInput) as caught, world.device.capture(world.main):  # noqa: PT012
        world.side.memset(world.x, 1)
        line = sys._getframe().f_lineno - 1
    assert f"the first work meanwhile was memset on Stream('side', device 0) at {__file__}:{line}" in str(caught.value)


def test_another_devices_stream_cannot_be_captured_here_nor_its_memory_used(world):
    """Report E6, where the machine has two devices; the last of them stands for the other."""
    other = CudaDevice.many(library=world.device.cuda_library)[-1]
    if other.index == 0:
        with pytest.raises(BadInput, match="CUDA shows 1 here"):
            CudaDevice(1, library=world.device.cuda_library)
        return
    theirs = other.stream("theirs", kind="nonblocking")
    with pytest.raises(BadInput, match="give a stream of this device"):
        world.device.capture(theirs)
    far = Pool(other, "far").alloc(4096, theirs)
    with world.device.capture(world.main):
        world.main.memset(world.x, 1)
        with pytest.raises(BadInput, match="uses memory of another device than the stream that captures"):
            world.main.memset(far, 1)


def test_a_forgotten_join_names_the_stream_and_its_last_work(world):
    with pytest.raises(DriverError) as caught, world.device.capture(world.main):  # noqa: PT012
        world.side.wait(world.main.record())
        world.side.memset(world.x, 1)
        line = sys._getframe().f_lineno - 1
    assert caught.value.status == 904
    assert f"{world.side!r} (memset at {__file__}:{line})" in str(caught.value)


def test_a_graph_over_memory_that_was_given_back_is_not_launched(world):
    block = world.pool.alloc(4096, world.main)
    with world.device.capture(world.main) as graph:
        world.main.memset(block, 1)
    block.free()
    with pytest.raises(BadInput, match="was given back at"):
        graph.replay(world.main)
