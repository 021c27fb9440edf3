"""A pool as MemoryResource of the real cuda.core. Without a GPU cuda.core makes no buffer that a device may touch (it asks the driver), so
here buffers say they are the host's; our side is the fake libcuda's. What a GPU shows besides is in tests/gpu/test_adapters.py."""

import gc

import numpy as np
import pytest
from cuda.core import Buffer, MemoryResource, Stream

from fake_cuda.library import FakeCuda
from forebay.adapters.cuda_core import memory_resource
from forebay.errors import BadInput
from forebay.runtime import CudaDevice, PinnedPool, Pool, SimDevice, cuda

MIB = 2**20


class World:
    def __init__(self):
        gc.collect()  # what an earlier test left would meet a fresh fake
        cuda._machines.clear()
        self.fake = FakeCuda(256 * MIB)
        self.device = CudaDevice(library=self.fake.path)
        self.streams = [self.device.stream(name, kind="nonblocking") for name in ("main", "side")]
        self.main, self.side = (Stream.from_handle(stream.handle) for stream in self.streams)


@pytest.fixture
def world():
    return World()


def of_the_host(pool):
    """The resource, but for what cuda.core asks a driver about."""
    made = memory_resource(pool)
    kind = type("Hosted", (type(made),), {"is_device_accessible": False})
    return kind(pool)


def test_it_is_a_memory_resource_that_says_where_its_memory_is(world):
    device, pinned = memory_resource(Pool(world.device, "p")), memory_resource(PinnedPool(world.device, "stage"))
    assert isinstance(device, MemoryResource)
    assert (device.is_device_accessible, device.is_host_accessible, device.device_id, device.is_managed) == (
        True,
        False,
        0,
        False,
    )
    assert (pinned.is_device_accessible, pinned.is_host_accessible, pinned.device_id) == (True, True, -1)


def test_a_buffer_is_the_pools_block_until_it_is_closed(world):
    pool = Pool(world.device, "p")
    resource = of_the_host(pool)
    buffer = resource.allocate(1000, stream=world.main)
    assert isinstance(buffer, Buffer)
    assert (buffer.size, buffer.memory_resource) == (1000, resource)
    assert resource.gauges().allocated == 1024
    address = int(buffer.handle)
    buffer.close(stream=world.main)
    assert pool.gauges().allocated == 0
    assert pool.alloc_address(1000, world.main) == address


def test_its_end_comes_after_the_stream_that_is_named_there(world):
    pool = Pool(world.device, "p", limit=2 * MIB)
    resource = of_the_host(pool)
    buffer = resource.allocate(MIB, stream=world.main)
    address = int(buffer.handle)
    world.fake.busy(world.streams[1].handle, 10**9)
    buffer.close(stream=world.side)
    assert pool.gauges().pending == MIB
    assert pool.alloc_address(MIB, world.main) != address


def test_the_host_sees_a_pinned_buffer(world):
    pool = PinnedPool(world.device, "stage")
    buffer = of_the_host(pool).allocate(64, stream=world.main)
    array = np.from_dlpack(buffer)
    array.view("u1")[:] = 7
    assert array.nbytes == 64
    del array
    buffer.close(stream=world.main)
    assert pool.gauges().allocated == 0


@pytest.mark.parametrize("size", [0, -1, 1.5])
def test_a_size_that_is_none_is_refused(world, size):
    with pytest.raises(BadInput, match=r"bytes that cuda\.core asks for"):
        of_the_host(Pool(world.device, "p")).allocate(size, stream=world.main)


@pytest.mark.parametrize("make", [lambda: Pool(SimDevice("64MiB"), "sim"), lambda: None])
def test_what_is_no_pool_of_a_cuda_device_is_refused(make):
    with pytest.raises(BadInput, match=r"cannot serve cuda\.core: give a Pool or a PinnedPool of a CudaDevice"):
        memory_resource(make())
