"""Kernels are plain callables: what they compute, when they run, and what becomes of their exceptions."""

import numpy as np
import pytest

from forebay.errors import BadInput, DriverError
from forebay.runtime import PagedPool, Pool, SimDevice


def double(x, y):
    y[:] = 2 * x


@pytest.fixture
def device():
    return SimDevice("64MiB")


def test_a_kernel_computes_on_the_bytes_of_its_buffers(device):
    stream = device.stream("compute")
    x, y = (device.malloc(4096).array("f4", (8, 4)) for _ in range(2))
    data = np.arange(32, dtype="f4").reshape(8, 4)
    stream.copy(x, data)
    data[:] = -1  # the upload has read it already
    stream.launch(double, reads=[x], writes=[y])
    out = np.empty((8, 4), "f4")
    stream.copy(out, y)
    assert out.tolist() == (2 * np.arange(32).reshape(8, 4)).tolist()


def test_issued_work_does_not_run_before_somebody_waits(device):
    ran = []
    stream = device.stream("compute")
    stream.launch(lambda: ran.append("kernel"))
    stream.host_func(lambda: ran.append("host"))
    assert ran == []
    stream.synchronize()
    assert ran == ["kernel", "host"]


def test_reads_cannot_be_written(device):
    x = device.malloc(512).array("u1", 16)
    device.default_stream.launch(lambda view: view.fill(1), reads=[x])
    with pytest.raises(DriverError, match="launch failed") as caught:
        device.synchronize()
    assert isinstance(caught.value.__cause__, ValueError)


def test_a_kernel_that_raises_loses_the_device_and_the_sync_says_why(device):
    def broken():
        raise ArithmeticError("no carry")

    device.default_stream.launch(broken)
    for again in range(3):
        with pytest.raises(DriverError) as caught:
            device.synchronize()
        assert (caught.value.status, caught.value.sticky) == (719, True), again
        assert str(caught.value.__cause__) == "no carry"
    with pytest.raises(DriverError):
        device.malloc(512)


def test_a_kernel_may_not_keep_its_arrays(device):
    kept = []
    x = device.malloc(512).array("u1", 16)
    device.default_stream.launch(kept.append, reads=[x])
    with pytest.raises(DriverError) as caught:
        device.synchronize()
    assert isinstance(caught.value.__cause__, BadInput)
    kept.clear()


def test_a_launch_on_freed_memory_is_refused(device):
    buffer = device.malloc(512)
    array = buffer.array("u1", 16)
    buffer.free()
    for use in (array, buffer):
        with pytest.raises(BadInput, match="freed"):
            device.default_stream.launch(double, [use], [use])


def test_the_clock_counts_what_was_asked_for(device):
    a, b = device.stream("a"), device.stream("b")
    start = device.clock_ns
    a.launch(lambda: None, cost_ns=1_000_000)
    b.launch(lambda: None, cost_ns=3_000_000)
    device.synchronize()
    # Two launches of 7 us each; the second kernel begins after both. The sync's own 5 us hide in the wait.
    assert device.clock_ns - start == 2 * 7_000 + 3_000_000


@pytest.mark.parametrize(
    ("to", "source", "cost"),
    [
        ("device", "device", 1_900 + 1),  # 1,500 bytes a nanosecond
        ("pinned", "device", 5_400 + 60),  # 25 bytes a nanosecond
        ("device", "pinned", 2_400 + 60),
    ],
)
def test_a_copy_costs_its_start_and_then_its_bytes(to, source, cost):
    device = SimDevice("64MiB")
    stream = device.stream("copies")
    ends = {"device": lambda: device.malloc(1_500), "pinned": lambda: device.host_alloc(1_500)}
    target, origin = ends[to](), ends[source]()
    start = device.clock_ns
    stream.launch(lambda: None, cost_ns=1_000_000)
    stream.copy(target, origin)
    stream.synchronize()
    assert device.clock_ns - start == 7_000 + 1_000_000 + cost  # the host's calls after the launch pass meanwhile


def test_an_array_that_does_not_fit_is_refused(device):
    buffer = device.malloc(1024)
    assert buffer.array("f8", (4, 8), offset=768).address == buffer.address + 768
    with pytest.raises(BadInput, match="1032"):
        buffer.array("f8", (4, 8), offset=776)


def test_rows_of_an_array_are_cut_without_a_copy(device):
    array = device.malloc(1024).array("i4", (8, 5))
    cut = array[2:4]
    assert (cut.address - array.address, cut.nbytes, cut.shape) == (40, 40, (2, 5))
    assert (array[-1].address - array.address, array[-1].shape) == (140, (5,))


def test_the_error_of_a_lost_device_names_the_kernel_what_it_raised_and_where(device):
    def broken(x):
        raise ArithmeticError("no carry:\nlost")

    stream, pool = device.stream("s"), Pool(device, "p")
    paged = PagedPool(device, "kv", "1MiB", page_bytes=4096, page_tokens=16)
    sequence = paged.open(stream)
    stream.launch(broken, writes=[pool.alloc(64, stream)], name="add")
    line = broken.__code__.co_firstlineno + 1
    told = f"kernel add raised ArithmeticError: no carry: lost at {__file__}:{line}: "
    calls = (
        stream.synchronize,
        lambda: stream.launch(lambda: None),
        lambda: device.malloc(64),
        lambda: pool.alloc(2**20, stream),
        lambda: sequence.grow(1, stream),
        lambda: paged.open(stream),
    )
    for call in calls:
        with pytest.raises(DriverError) as caught:
            call()
        assert str(caught.value).startswith(told)
        assert str(caught.value).count("raised") == 1
        assert "\n" not in str(caught.value)
        assert isinstance(caught.value.__cause__, ArithmeticError)


def test_a_long_exception_is_cut_and_a_host_function_is_called_one(device):
    def broken():
        raise ValueError("x" * 5000)

    device.default_stream.host_func(broken)
    with pytest.raises(DriverError, match=r"^a host function raised ValueError: xxx") as caught:
        device.synchronize()
    assert len(str(caught.value)) < 600


UNDECLARED = {
    "read of an array": lambda device, x, pinned: lambda y: np.copyto(y, x),
    "write to an array": lambda device, x, pinned: lambda y: x.__setitem__(slice(None), y),
    "arithmetic with an array": lambda device, x, pinned: lambda y: np.add(y, x, out=y),
    "pinned memory": lambda device, x, pinned: lambda y: np.copyto(y, pinned.numpy()[:16]),
}


@pytest.mark.parametrize("case", UNDECLARED)
def test_a_kernel_that_reaches_what_it_did_not_declare_is_found_and_named(device, case):
    x, y, pinned = device.malloc(512).array("u1", 16), device.malloc(512).array("u1", 16), device.host_alloc(512)
    device.default_stream.launch(UNDECLARED[case](device, x, pinned), writes=[y], name="sneaky")
    with pytest.raises(DriverError, match="launch failed") as caught:
        device.synchronize()
    assert isinstance(caught.value.__cause__, BadInput)
    reached = pinned if case == "pinned memory" else x
    assert str(caught.value.__cause__).startswith(
        f"kernel sneaky reached {reached.nbytes} bytes at {reached.address:#x} that its launch does not declare: "
    )


def test_a_host_function_may_look_at_pinned_memory(device):
    pinned = device.host_alloc(64)
    device.default_stream.host_func(lambda: pinned.numpy().fill(7))
    device.synchronize()
    assert pinned.numpy().tolist() == [7] * 64


def test_device_memory_has_no_host_view(device):
    x = device.malloc(64).array("u1", 64)
    with pytest.raises(BadInput, match=r"copy it to the host with Stream\.copy"):
        np.asarray(x)
    with pytest.raises(BadInput, match=r"Stream\.copy"):
        x[0] = 1


def test_an_interrupt_in_a_kernel_is_an_interrupt():
    device = SimDevice("1MiB")

    def kernel():
        raise KeyboardInterrupt

    device.default_stream.launch(kernel)
    with pytest.raises(KeyboardInterrupt):
        device.synchronize()
    with pytest.raises(KeyboardInterrupt):
        device.default_stream.synchronize()
