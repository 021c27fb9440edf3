"""Our buffers and streams in the hands of the real libraries, on a GPU: CuPy, PyTorch, cuda.core. Which of them are there is the machine's:
a library that is not is named in the report, not passed over (tests/gpu/run.py)."""

import importlib

import numpy as np
import pytest

from conformance.instances import LIBCUDA
from forebay.runtime import CudaDevice, Pool

MIB = 2**20


@pytest.fixture
def device():
    return CudaDevice(library=str(LIBCUDA))


@pytest.fixture
def cupy():
    return importlib.import_module("cupy")


@pytest.fixture
def torch():
    return importlib.import_module("torch")


def read(stream, buffer, dtype):
    out = np.empty(buffer.nbytes // np.dtype(dtype).itemsize, dtype)
    stream.copy(out, buffer)
    return out


def test_cupy_computes_in_our_buffers_on_our_stream(device, cupy):
    pool, stream = Pool(device, "p", growth="frames"), device.stream("s", kind="nonblocking")
    x, y = (pool.alloc(4 * MIB, stream) for _ in range(2))
    stream.copy(x, np.arange(MIB, dtype="f4"))

    def kernel(x, y):
        with cupy.cuda.ExternalStream(stream.handle):
            cupy.multiply(cupy.asarray(x), 2, out=cupy.asarray(y))

    stream.launch(kernel, reads=[x.array("f4", MIB)], writes=[y.array("f4", MIB)])
    assert (read(stream, y, "f4") == 2 * np.arange(MIB, dtype="f4")).all()


def test_torch_sees_our_memory_through_dlpack_and_keeps_it(device, torch):
    pool, stream = Pool(device, "p"), device.stream("s", kind="nonblocking")
    x = pool.alloc(4 * MIB, stream)
    for _ in range(20):
        stream.memset(x, 1)  # torch's stream is made to come after these
    tensor = torch.from_dlpack(x.array("u1", (4, MIB)))
    assert (tensor.shape, tensor.dtype, tensor.device.index, tensor.data_ptr()) == ((4, MIB), torch.uint8, 0, x.address)
    tensor += 1
    x.free()
    assert pool.gauges().allocated == 4 * MIB
    assert int(tensor.sum(dtype=torch.int64)) == 2 * 4 * MIB
    del tensor
    assert pool.gauges().allocated == 0


def test_torch_work_on_its_own_stream_comes_before_the_reuse_of_the_bytes(device, torch):
    """The free is ordered after the consumer's stream: the next user's bytes are its own."""
    pool, stream = Pool(device, "p"), device.stream("s", kind="nonblocking")
    for round in range(30):
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            x = pool.alloc(64 * MIB, stream)
            tensor = torch.from_dlpack(x)
            for _ in range(10):
                tensor.fill_(7)
        x.free()
        del tensor
        y = pool.alloc(64 * MIB, stream)
        stream.memset(y, 1)
        assert (read(stream, y, "u1") == 1).all(), round
        y.free()


def test_torch_reads_the_cuda_array_interface(device, torch):
    stream, buffer = device.default_stream, device.malloc(4096)
    stream.memset(buffer, 5)
    tensor = torch.as_tensor(buffer, device="cuda")
    assert tensor.data_ptr() == buffer.address
    assert int(tensor.sum()) == 5 * 4096


def test_cuda_core_takes_our_stream(device):
    core = importlib.import_module("cuda.core")
    stream = device.stream("s", kind="nonblocking")
    core.Device(0).set_current()
    theirs = core.Device(0).create_stream(stream)
    assert int(theirs.handle) == stream.handle
    theirs.sync()


def test_a_stream_of_cupy_uses_our_blocks(device, cupy):
    theirs = cupy.cuda.Stream(non_blocking=True)
    adopted, pool = device.adopt(theirs.ptr), Pool(device, "p")
    block = pool.alloc(MIB, adopted)
    with theirs:
        cupy.asarray(block).fill(3)
    assert (read(adopted, block, "u1") == 3).all()
    block.free()
    adopted.close()


def test_a_kernel_crosses_the_borders_of_our_frames(device, cupy):
    pool, stream = Pool(device, "p", growth="frames"), device.stream("s", kind="nonblocking")
    x = pool.alloc(64 * MIB, stream)
    with cupy.cuda.ExternalStream(stream.handle):
        array = cupy.asarray(x.array("i8", 8 * MIB))
        array[...] = cupy.arange(8 * MIB)
        total = int(array.sum())
    assert total == (8 * MIB) * (8 * MIB - 1) // 2
