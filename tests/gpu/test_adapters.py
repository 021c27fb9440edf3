"""Our pools behind CuPy and cuda.core, and their memory and streams in our hands, on a GPU."""

import gc
import importlib

import numpy as np
import pytest

from conformance.instances import LIBCUDA
from forebay.adapters import cuda_core
from forebay.adapters import cupy as adapter
from forebay.errors import BadInput
from forebay.runtime import CudaDevice, Pool

MIB = 2**20


@pytest.fixture
def device():
    return CudaDevice(library=str(LIBCUDA))


@pytest.fixture
def cupy():
    cupy = importlib.import_module("cupy")
    yield cupy
    cupy.cuda.set_allocator(None)


@pytest.fixture
def core():
    core = importlib.import_module("cuda.core")
    core.Device(0).set_current()
    return core


def read(stream, array):
    out = np.empty(array.shape, array.dtype)
    stream.copy(out, array)
    return out


@pytest.mark.parametrize("growth", ["segments", "frames"])
def test_cupy_computes_in_our_pool_and_steady_state_makes_no_driver_call(device, cupy, growth):
    pool = Pool(device, "arrays", growth=growth)
    streams = [cupy.cuda.Stream(non_blocking=True) for _ in range(3)]

    def step(stream, seed):
        with stream:
            x = cupy.arange(seed, seed + 300_000, dtype="f8")
            y = (x * 2 + 1).reshape(1000, -1)
            return float((y @ y.T).trace())

    expected = [float(sum((2 * v + 1) ** 2 for v in range(seed, seed + 300_000))) for seed in range(3)]
    with adapter.using(pool):
        for round in range(30):
            for seed, stream in enumerate(streams):
                assert step(stream, seed) == pytest.approx(expected[seed], rel=1e-12), (round, seed)
            if round == 5:
                taken = pool.gauges().driver_allocs, pool.gauges().reserved
        assert (pool.gauges().driver_allocs, pool.gauges().reserved) == taken
    gc.collect()
    pool.walk()
    assert pool.gauges().allocated == 0


def test_cupy_arrays_freed_on_other_streams_are_not_reused_early(device, cupy):
    pool = Pool(device, "arrays")
    main, side = (cupy.cuda.Stream(non_blocking=True) for _ in range(2))
    with adapter.using(pool):
        for round in range(50):
            with main:
                x = cupy.full(16 * MIB, 3, "u1")
            with side:
                side.wait_event(main.record())
                for _ in range(6):
                    y = x + 1
                del x
            with main:
                z = cupy.full(16 * MIB, 9, "u1")
            with side:
                assert int(y.max()) == int(y.min()) == 4, round
            del y, z


def test_cupy_and_forebay_streams_are_each_others(device, cupy):
    pool = Pool(device, "p")
    theirs = cupy.cuda.Stream(non_blocking=True)
    block = pool.alloc(MIB, theirs)
    with theirs:
        cupy.asarray(block).fill(7)
    assert block.home.handle == theirs.ptr
    ours = device.stream("ours", kind="nonblocking")
    ours.wait(device.stream_of(theirs, "test").record())
    assert (read(ours, block.bytes()) == 7).all()


@pytest.mark.parametrize("hide", ["__dlpack__", "__cuda_array_interface__"])
def test_a_cupy_array_is_borrowed_in_the_order_of_its_stream(device, cupy, hide):
    class Shown:
        """The array, without one of its two ways to be shown."""

        def __init__(self, array):
            names = ("__dlpack__", "__dlpack_device__") if hide != "__dlpack__" else ("__cuda_array_interface__",)
            for name in names:
                setattr(type(self), name, property(lambda _, name=name: getattr(array, name)))

    theirs, ours = cupy.cuda.Stream(non_blocking=True), device.stream("ours", kind="nonblocking")
    with theirs:
        array = cupy.zeros((64, MIB // 8), "f8")
        for _ in range(20):
            array += 1
        borrowed = device.borrow(Shown(array), ours)
    assert (borrowed.shape, borrowed.dtype) == (array.shape, array.dtype)
    assert (read(ours, borrowed) == 20).all()
    borrowed.buffer.free()


def test_a_torch_tensor_is_borrowed(device):
    torch = importlib.import_module("torch")
    ours, side = device.stream("ours", kind="nonblocking"), torch.cuda.Stream()
    with torch.cuda.stream(side):
        tensor = torch.zeros(32, MIB, device="cuda")
        for _ in range(20):
            tensor += 1
        borrowed = device.borrow(tensor, ours)
    assert borrowed.address == tensor.data_ptr()
    assert (read(ours, borrowed) == 20).all()
    with pytest.raises(BadInput, match="not C-contiguous"):
        device.borrow(tensor.T, ours)


def test_cuda_core_buffers_are_our_blocks(device, core):
    pool = Pool(device, "p", growth="frames")
    resource = cuda_core.memory_resource(pool)
    theirs = core.Device(0).create_stream()
    for round in range(30):
        buffer = resource.allocate(4 * MIB, stream=theirs)
        buffer.fill(round, stream=theirs)
        mine = device.borrow(buffer, theirs)
        assert set(read(device.stream_of(theirs, "test"), mine).view("u1").tolist()[:64]) == {round}
        mine.buffer.free()
        buffer.close(stream=theirs)
        del mine, buffer
    gc.collect()
    theirs.sync()
    assert pool.gauges().allocated == 0
    assert pool.gauges().misses <= 2


def test_cuda_core_takes_our_memory_as_its_devices_own(device, core):
    pool = Pool(device, "p")
    core.Device(0).memory_resource = cuda_core.memory_resource(pool)
    theirs = core.Device(0).create_stream()
    buffer = core.Device(0).allocate(MIB, stream=theirs)
    assert pool.gauges().allocated == MIB
    buffer.close(stream=theirs)
    assert pool.gauges().allocated == 0


def test_a_capturing_stream_of_cupy_is_refused_memory_in_words(device, cupy):
    pool, theirs = Pool(device, "p"), cupy.cuda.Stream(non_blocking=True)
    warm = pool.alloc(MIB, theirs)
    array = cupy.asarray(warm)
    with theirs:
        theirs.begin_capture()
        with pytest.raises(BadInput, match="captures a graph; take memory before the capture"):
            pool.alloc(MIB, theirs)
        array.fill(1)
        graph = theirs.end_capture()
        graph.launch(theirs)
    assert (read(device.stream_of(theirs, "test"), warm.bytes()) == 1).all()
