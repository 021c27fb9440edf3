"""A pool as the allocator of the real CuPy. Without a GPU CuPy has no device to ask for its current stream, so that is said to it; our side
is the fake libcuda's. What a GPU shows besides is in tests/gpu/test_adapters.py."""

import gc
from types import SimpleNamespace

import cupy
import pytest

from fake_cuda.library import FakeCuda
from forebay.adapters.cupy import Allocator, install, using
from forebay.errors import BadInput, PoolExhausted
from forebay.runtime import CudaDevice, PagedPool, Pool, SimDevice, cuda

MIB = 2**20


class World:
    def __init__(self, monkeypatch):
        gc.collect()  # what an earlier test left would meet a fresh fake
        cuda._machines.clear()
        self.fake = FakeCuda(256 * MIB, 64 * MIB)
        self.device = CudaDevice(library=self.fake.path)
        self.main, self.side = (self.device.stream(name, kind="nonblocking") for name in ("main", "side"))
        self.pool = Pool(self.device, "arrays", limit="64MiB")
        self.current = self.main
        monkeypatch.setattr(
            cupy.cuda,
            "get_current_stream",
            lambda *_: SimpleNamespace(ptr=self.current.handle, device_id=self.current.device.index),
        )

    def allocated(self):
        return self.pool.gauges().allocated


@pytest.fixture
def world(monkeypatch):
    yield World(monkeypatch)
    cupy.cuda.set_allocator(None)


def test_arrays_come_from_the_pool_and_go_back_with_the_last_view(world):
    with using(world.pool):
        array = cupy.empty((1000, 10), "f4")
    assert world.allocated() == 40_448  # 512 times 79
    assert array.data.device_id == 0
    view = array[5:]
    del array
    gc.collect()
    assert world.allocated() == 40_448
    assert view.data.ptr % 512 == 5 * 40
    del view
    gc.collect()
    assert world.allocated() == 0


def test_bytes_that_were_freed_are_handed_out_again_without_a_driver_call(world):
    with using(world.pool):
        del_me = cupy.empty(1000, "u1")
        address = del_me.data.ptr
        del del_me
        calls = world.fake.count("cuMemAlloc_v2")
        again = cupy.empty(1000, "u1")
    assert again.data.ptr == address
    assert world.fake.count("cuMemAlloc_v2") == calls


def test_it_is_memory_of_the_current_stream_and_another_stream_waits_for_it(world):
    """Bytes of one stream are not handed to another while the first may still use them."""
    with using(world.pool):
        first = cupy.empty(MIB, "u1")
        address = first.data.ptr
        world.fake.busy(world.main.handle, 10**9)
        del first
        world.current = world.side
        second = cupy.empty(MIB, "u1")
        assert second.data.ptr != address
        world.current = world.main
        assert cupy.empty(MIB, "u1").data.ptr == address


def test_an_array_dropped_on_another_stream_is_given_back_after_that_one_too(world):
    with using(world.pool):
        array = cupy.empty(MIB, "u1")
        address = array.data.ptr
        world.current = world.side
        world.fake.busy(world.side.handle, 10**9)
        del array
        world.current = world.main
        assert cupy.empty(MIB, "u1").data.ptr != address


def test_installed_it_serves_until_another_takes_its_place(world):
    allocator = install(world.pool)
    array = cupy.empty(100, "f8")
    assert world.allocated() == allocator.gauges().allocated == 1024
    cupy.cuda.set_allocator(None)
    del array
    gc.collect()
    assert world.allocated() == 0


def test_nothing_is_asked_for_an_array_of_nothing(world):
    with using(world.pool):
        assert cupy.empty(0).size == 0
    assert world.pool.gauges().misses == world.pool.gauges().hits == 0


def test_a_pool_that_is_full_says_so_and_keeps_what_it_has(world):
    with using(world.pool):
        kept = cupy.empty(60 * MIB, "u1")
        with pytest.raises(PoolExhausted, match="pool arrays: asked 8 MiB"):
            cupy.empty(8 * MIB, "u1")
        assert world.allocated() == kept.nbytes
    del kept
    gc.collect()
    assert world.allocated() == 0


def test_a_current_stream_of_another_device_is_refused(world):
    other = CudaDevice(1, library=world.fake.path)
    world.current = other.stream("far")
    with using(world.pool), pytest.raises(BadInput, match="pool arrays is on device 0, CuPy's current stream on 1"):
        cupy.empty(10)


@pytest.mark.parametrize("make", [lambda: Pool(SimDevice("64MiB"), "sim"), lambda: None, lambda: "pool"])
def test_what_is_no_pool_of_a_cuda_device_is_refused(make):
    with pytest.raises(BadInput, match="cannot serve CuPy: give a Pool of a CudaDevice"):
        Allocator(make())


def test_a_paged_pool_is_refused(world):
    with pytest.raises(BadInput, match="cannot serve CuPy"):
        Allocator(PagedPool(world.device, "kv", "1MiB", page_bytes=4096, page_tokens=16))
