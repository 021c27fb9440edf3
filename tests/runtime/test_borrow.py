"""Other libraries' memory and streams in our hands: DLPack and `__cuda_array_interface__` as their consumer, `__cuda_stream__` wherever a
stream is taken. On the fake libcuda, or on a GPU."""

import gc
import re
import weakref
from types import SimpleNamespace

import numpy as np
import pytest

from conformance.instances import LIBCUDA
from fake_cuda.library import FakeCuda
from forebay._core.driver import CaptureMode
from forebay.errors import BadInput
from forebay.runtime import CudaDevice, PagedPool, Pool, SimDevice, cuda, recording
from forebay.tape.kinds import Kind

MIB = 2**20


@pytest.fixture
def device():
    if not LIBCUDA:
        gc.collect()  # what an earlier test left would meet a fresh fake
        cuda._machines.clear()
    return CudaDevice(library=LIBCUDA or FakeCuda(512 * MIB, 64 * MIB).path)


class Theirs:
    """A stream of another library."""

    def __init__(self, stream, version=0):
        self.stream, self.version = stream, version

    def __cuda_stream__(self):
        return self.version, self.stream.handle


class Interface:
    """An array of another library that knows `__cuda_array_interface__` alone."""

    def __init__(self, array, **said):
        self.__cuda_array_interface__ = {
            "shape": array.shape,
            "typestr": array.dtype.str,
            "data": (array.address, False),
            "version": 3,
            **said,
        }


class Capsule:
    """One that knows DLPack alone, and what stream it was asked for."""

    def __init__(self, array):
        self.array, self.asked = array, None

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()

    def __dlpack__(self, *, stream):
        self.asked = stream
        return self.array.__dlpack__(stream=stream)


def read(stream, array):
    out = np.empty(array.shape, array.dtype)
    stream.copy(out, array)
    return out


def edges(tape):
    """Rows that join streams: records and waits, with the streams' names."""
    rows = tape.where(Kind.record, Kind.wait)
    return [(Kind(tape.columns["kind"][row]).name, tape.sides.streams[tape.columns["stream"][row]].name) for row in rows]


@pytest.mark.parametrize("through", [Capsule, Interface])
@pytest.mark.parametrize("dtype", ["u1", "i2", "f4", "f8", "c16", "?"])
def test_borrowed_bytes_are_the_librarys(device, through, dtype):
    if through is Interface and dtype == "?":
        dtype = "b1"
    stream = device.stream("s", kind="nonblocking")
    lent = device.malloc(4096).array(dtype, (3, 5))
    values = np.arange(15).reshape(3, 5).astype(dtype)
    stream.copy(lent, values)
    array = device.borrow(through(lent), stream)
    assert (array.address, array.shape, array.dtype) == (lent.address, (3, 5), np.dtype(dtype))
    assert (read(stream, array) == values).all()


def test_dlpack_is_asked_for_our_stream_and_default_streams_by_their_numbers(device):
    stream, lent = device.stream("s"), device.malloc(64).array("f4", 16)
    for given, number in ((stream, stream.handle), (device.default_stream, 1), (device.thread_stream(), 2)):
        source = Capsule(lent)
        device.borrow(source, given)
        assert source.asked == number


def test_what_the_library_did_on_its_stream_comes_before_ours(device):
    ours, theirs = device.stream("ours", kind="nonblocking"), device.stream("theirs", kind="nonblocking")
    lent = device.malloc(4096).array("u1", 4096)
    with recording() as run:
        theirs.memset(lent, 7)
        array = device.borrow(Interface(lent, stream=theirs.handle), ours)
        assert (read(ours, array) == 7).all()
    assert edges(run.tape) == [("record", "theirs"), ("wait", "ours")]


@pytest.mark.parametrize("said", [{}, {"stream": None}])
def test_an_interface_that_says_no_stream_orders_nothing(device, said):
    stream = device.stream("s")
    with recording() as run:
        device.borrow(Interface(device.malloc(64).array("u1", 64), **said), stream)
    assert edges(run.tape) == []


if not LIBCUDA:  # work that lasts until it is asked for

    def test_the_library_gets_it_back_when_all_that_used_it_has_run():
        gc.collect()
        cuda._machines.clear()
        fake = FakeCuda(64 * MIB)
        device = CudaDevice(library=fake.path)
        stream = device.stream("s", kind="nonblocking")
        source = Capsule(device.malloc(64).array("u1", 64))
        gone = weakref.ref(source.array.buffer)
        array = device.borrow(source, stream)
        del source
        fake.busy(stream.handle, 10**9)
        array.buffer.free()
        del array
        gc.collect()
        assert (len(device.held), gone() is None) == (1, False)
        stream.synchronize()
        device.borrow(Interface(device.malloc(64).array("u1", 64)), stream)
        gc.collect()
        assert (device.held, gone()) == ([], None)


REFUSED = {
    "neither": (lambda d: object(), "has neither __dlpack__ nor __cuda_array_interface__"),
    "host memory": (lambda d: np.zeros(3), re.escape("DLPack says device (1, 0), this is (2, 0)")),
    "a mask": (lambda d: Interface(d.malloc(64).array("u1", 64), mask=object()), "an array with a mask"),
    "stream 0": (
        lambda d: Interface(d.malloc(64).array("u1", 64), stream=0),
        "stream of __cuda_array_interface__: 0 is out of range",
    ),
    "strides": (lambda d: Interface(d.malloc(64).array("f4", (4, 4)), strides=(4, 16)), "is not C-contiguous"),
    "objects": (lambda d: Interface(d.malloc(64).array("u1", 64), typestr="|O8"), "not of plain bytes"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_borrowed_is_refused_in_one_line(device, what):
    make, words = REFUSED[what]
    with pytest.raises(BadInput, match=words):
        device.borrow(make(device), device.stream("s"))


def test_a_bfloat_is_refused_with_what_to_do(device):
    class BFloat(Capsule):
        def __dlpack__(self, *, stream):
            return cuda.capsule(self.array.address, [4], 4, 16, 0, self.array)

    with pytest.raises(BadInput, match="has no dtype of NumPy; view it as whole numbers"):
        device.borrow(BFloat(device.malloc(64).array("u2", 4)), device.stream("s"))


# ---- streams of others


def test_a_foreign_stream_is_taken_wherever_a_stream_is(device):
    theirs = device.stream("theirs", kind="nonblocking")
    pool = Pool(device, "p")
    pages = PagedPool(device, "kv", "1MiB", page_bytes=4096, page_tokens=16)
    buffer = pool.alloc(4096, Theirs(theirs))
    assert buffer.home is not None
    assert buffer.home.id == theirs.id
    buffer.free()
    address = pool.alloc_address(4096, Theirs(theirs))
    pool.lend_address(address, Theirs(device.default_stream))
    pool.free_address(address)
    assert pool.gauges(Theirs(theirs)).allocated == 0
    sequence = pages.open(Theirs(theirs))
    sequence.grow(16, Theirs(theirs))
    sequence.commit(range(16), Theirs(theirs))
    assert pages.available(Theirs(theirs)) == pages.pages - 1
    sequence.fork(Theirs(theirs)).finish()
    sequence.finish()
    block = pool.alloc(64, theirs)
    with device.capture(Theirs(theirs)) as graph:
        device.stream_of(Theirs(theirs), "test").memset(block, 1)
    graph.replay(Theirs(theirs))
    assert (read(theirs, block.bytes()) == 1).all()


def test_default_streams_of_others_are_ours(device):
    for handle in (0, 1):
        assert device.stream_of(Theirs(SimpleNamespace(handle=handle)), "test") is device.default_stream
    assert device.stream_of(Theirs(device.thread_stream()), "test").id == device.thread_stream().id


def test_a_handle_that_came_back_is_another_stream(device):
    first = device.stream("first", kind="nonblocking")
    adopted = device.stream_of(Theirs(first), "test")
    assert device.stream_of(Theirs(first), "test") is adopted
    id_before = first.id
    first.close()
    second = device.stream("second", kind="nonblocking")
    assert device.stream_of(Theirs(second), "test").id == second.id != id_before


def test_one_that_captures_elsewhere_gets_no_memory(device):
    theirs = device.stream("theirs", kind="nonblocking")
    device.driver.capture_begin(0, theirs.handle, CaptureMode.thread_local)
    try:
        with pytest.raises(
            BadInput, match=r"pool p: stream 0x[0-9a-f]+ of Theirs captures a graph; take memory before the capture"
        ):
            Pool(device, "p").alloc(64, Theirs(theirs))
    finally:
        device.driver.graph_destroy(0, device.driver.capture_end(0, theirs.handle))


@pytest.mark.parametrize(("given", "words"), [(None, "NoneType is no stream"), (7, "int is no stream")])
def test_what_is_no_stream_is_refused(device, given, words):
    with pytest.raises(BadInput, match=words):
        Pool(device, "p").alloc(64, given)


def test_a_version_that_nobody_knows_is_refused(device):
    with pytest.raises(BadInput, match="speaks version 1 of __cuda_stream__; version 0 is what is known here"):
        Pool(device, "p").alloc(64, Theirs(device.default_stream, version=1))


def test_a_simulated_device_takes_no_stream_of_others(device):
    with pytest.raises(BadInput, match="Theirs is no stream of this device"):
        Pool(SimDevice("64MiB"), "p").alloc(64, Theirs(device.default_stream))
