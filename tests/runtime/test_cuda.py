"""The runtime over CUDA: pools, streams, events, buffers and what other libraries get of them. On the fake libcuda, or on a GPU."""

import gc
import random

import numpy as np
import pytest

from conformance.instances import LIBCUDA
from driver_facts.raw import GLOBAL, OK, Raw
from fake_cuda.library import FakeCuda
from forebay.errors import BadInput, DriverError, NotSupported
from forebay.runtime import CudaDevice, PagedPool, PinnedPool, Pool, SimDevice, cuda, recording
from forebay.tape.events import Sees
from forebay.tape.kinds import Kind

MIB = 2**20


@pytest.fixture
def device():
    if not LIBCUDA:
        gc.collect()  # what an earlier test left would meet a fresh fake
        cuda._machines.clear()
    return CudaDevice(library=LIBCUDA or FakeCuda(512 * MIB, 64 * MIB).path)


def filled(stream, buffer, value: int) -> None:
    stream.memset(buffer, value)


def read(stream, buffer) -> np.ndarray:
    out = np.empty(buffer.nbytes, "u1")
    stream.copy(out, buffer)
    return out


def test_a_device_that_is_not_there_is_refused_in_one_line():
    with pytest.raises(NotSupported, match=r"^no CUDA device: .*nowhere\.so.*SimDevice$"):
        CudaDevice(library="/nowhere.so")


def test_a_number_that_no_device_has_is_refused(device):
    with pytest.raises(BadInput, match=r"device 99: CUDA shows \d+ here, numbered from 0"):
        CudaDevice(99, library=device.cuda_library)


def test_devices_of_a_process_are_one_machine(device):
    others = CudaDevice.many(library=device.cuda_library)
    assert {other.machine for other in others} == {device.machine}
    assert [other.index for other in others] == list(range(len(others)))


@pytest.mark.parametrize("growth", ["segments", "frames"])
def test_blocks_hold_their_bytes_while_a_program_allocates_and_frees_at_random(device, growth):
    """Every block is filled by its stream; before its free its bytes are what was written last."""
    rng, pool = random.Random(7), Pool(device, "p", growth=growth)
    streams = [device.stream(f"s{i}", kind="nonblocking") for i in range(3)]
    live: list[tuple] = []
    for step in range(300):
        if live and (len(live) > 12 or rng.random() < 0.45):
            buffer, stream, value = live.pop(rng.randrange(len(live)))
            assert (read(stream, buffer) == value).all(), step
            buffer.free()
        else:
            stream, value = rng.choice(streams), step % 251 + 1
            buffer = pool.alloc(rng.choice([200, 5_000, 300_000, 3 * MIB, 9 * MIB]), stream)
            filled(stream, buffer, value)
            live.append((buffer, stream, value))
    pool.walk()
    for buffer, stream, value in live:
        assert (read(stream, buffer) == value).all()
        buffer.free()
    assert pool.gauges().allocated == 0
    device.synchronize()
    pool.trim()
    assert pool.gauges().reserved == 0


def test_a_hit_makes_no_driver_call(device):
    pool, stream = Pool(device, "p"), device.stream("s")
    pool.alloc(MIB, stream).free()
    before = device.driver_calls
    for _ in range(100):
        pool.free_address(pool.alloc_address(MIB, stream))
    assert device.driver_calls == before


def test_a_free_is_ordered_after_every_stream_that_used_the_block(device):
    pool, first, second = Pool(device, "p"), device.stream("a", kind="nonblocking"), device.stream("b", kind="nonblocking")
    for round in range(50):
        block = pool.alloc(8 * MIB, first)
        filled(first, block, 1)
        second.wait(first.record())
        for _ in range(4):
            filled(second, block, 2)
        block.free()
        again = pool.alloc(8 * MIB, first)
        filled(first, again, 3)
        assert (read(first, again) == 3).all(), round
        again.free()


def test_pinned_and_paged_memory(device):
    stream = device.stream("s")
    pinned, pages = PinnedPool(device, "stage"), PagedPool(device, "kv", 4 * MIB, page_bytes=64 * 1024, page_tokens=16)
    stage, back = pinned.alloc(1000), pinned.alloc(1000)
    stage.numpy()[:] = np.arange(1000, dtype="u1")
    sequence = pages.open(stream)
    sequence.grow(16, stream)
    page = sequence.page(0, "u1", 1000)
    stream.copy(page, stage)
    stream.copy(back, page)
    stream.synchronize()
    assert (back.numpy() == np.arange(1000, dtype="u1")).all()
    sequence.finish()


def test_a_kernel_is_a_callable_that_issues_on_the_stream_now(device):
    stream, buffer = device.stream("s"), device.malloc(4096)
    seen = []

    def kernel(source, out):
        seen.append((source.__cuda_array_interface__["data"][0], out.shape, out.dtype, stream.__cuda_stream__()))
        stream.memset(out, 9)

    stream.launch(kernel, reads=[buffer], writes=[buffer.array("f4", (8, 4))])
    assert seen == [(buffer.address, (8, 4), np.dtype("f4"), (0, stream.handle))]
    assert (read(stream, buffer)[:128] == 9).all()


def test_what_a_kernel_raises_is_raised_and_loses_nothing(device):
    stream = device.stream("s")
    with pytest.raises(ZeroDivisionError):
        stream.launch(lambda: 1 // 0)
    stream.synchronize()
    with pytest.raises(BadInput, match="cost_ns is for simulated devices"):
        stream.launch(print, cost_ns=5)


def test_the_array_interface_names_the_last_stream_that_used_the_bytes(device):
    pool, first, second = Pool(device, "p"), device.stream("a"), device.stream("b")
    buffer = pool.alloc(4096, first)
    interface = buffer.__cuda_array_interface__
    assert interface["stream"] == first.handle
    assert (interface["version"], interface["shape"], interface["typestr"]) == (3, (4096,), "|u1")
    assert interface["data"] == (buffer.address, False)
    second.wait(first.record())
    second.memset(buffer, 1)
    assert buffer.array("i2", (2, 3), 64).__cuda_array_interface__ | {"data": None} == {
        "version": 3,
        "shape": (2, 3),
        "typestr": "<i2",
        "data": None,
        "strides": None,
        "stream": second.handle,
    }
    buffer.free()
    with pytest.raises(BadInput, match="was freed"):
        _ = buffer.__cuda_array_interface__


def test_a_simulated_buffer_has_no_array_interface():
    simulated = SimDevice("64MiB").malloc(64)
    assert not hasattr(simulated, "__cuda_array_interface__")
    with pytest.raises(BadInput, match="simulated device"):
        simulated.__dlpack__()


def test_a_dlpack_capsule_keeps_the_bytes_until_it_is_gone(device):
    pool, stream = Pool(device, "p"), device.stream("s")
    buffer = pool.alloc(4096, stream)
    assert buffer.__dlpack_device__() == (2, 0)
    capsule = buffer.__dlpack__(stream=stream.handle)
    assert "dltensor" in repr(capsule)
    buffer.free()
    assert pool.gauges().allocated == 4096
    del capsule
    assert pool.gauges().allocated == 0


@pytest.mark.parametrize(
    ("asked", "words"),
    [({"copy": True}, "ask for no copy"), ({"dl_device": (1, 0)}, "no other device"), ({"stream": 0}, "DLPack stream")],
)
def test_a_capsule_that_cannot_be_had_is_refused(device, asked, words):
    with pytest.raises(BadInput, match=words):
        device.malloc(64).__dlpack__(**asked)


def test_types_that_dlpack_does_not_have_are_refused(device):
    with pytest.raises(BadInput, match="DLPack has no such type"):
        device.malloc(64).array("datetime64[s]", 4).__dlpack__()


def test_an_adopted_stream_uses_buffers_and_their_free_comes_after_it(device):
    theirs = device.stream("theirs", kind="nonblocking")  # as another library would make it
    adopted, pool = device.adopt(theirs.handle), Pool(device, "p")
    assert adopted.id == theirs.id
    buffer = pool.alloc(4096, device.default_stream)
    adopted.memset(buffer, 3)
    assert list(buffer.streams) == [adopted.id]
    buffer.free()
    adopted.close()
    with pytest.raises(BadInput, match="was closed"):
        adopted.memset(pool.alloc(64, device.default_stream), 1)


def test_a_pool_s_miss_on_another_thread_leaves_a_capture_as_it_was_and_a_program_s_own_call_ends_it():
    gc.collect()
    cuda._machines.clear()
    raw = Raw()
    device = CudaDevice(library=raw.path)
    pool, stream = Pool(device, "p"), device.stream("s", kind="nonblocking")
    with raw.capture(GLOBAL) as captured:
        raw.on_thread(lambda: pool.alloc(3 * MIB, stream), context=False)
    assert captured.ended == OK
    assert pool.gauges().misses == 1
    with raw.capture(GLOBAL) as captured:
        refusal = raw.on_thread(lambda: _refusal(lambda: device.malloc(MIB)), context=False)
    assert (refusal.status, captured.ended) == (900, 901)
    assert "not while a stream captures" in str(refusal)
    raw.leave()


def _refusal(call):
    with pytest.raises(DriverError) as caught:
        call()
    return caught.value


def test_a_recording_beside_a_gpu_promises_no_more_than_it_can_see(device):
    stream, buffer = device.stream("s"), device.malloc(4096)
    with recording() as run:
        stream.launch(lambda a: stream.memset(a, 1), writes=[buffer], name="fill")
        stream.synchronize()
    tape = run.tape
    assert {Sees.WORK_TIMES, Sees.DRIVER_CALLS, Sees.SYNCS, Sees.QUERIES, Sees.BEGINNING}.isdisjoint(tape.sees)
    assert {Sees.EDGES, Sees.USES, Sees.WORK} <= tape.sees
    kinds = [Kind(kind).name for kind in tape.columns["kind"]]
    assert kinds == ["launch", "memset", "sync_stream"]


def test_a_device_made_during_a_recording_that_promised_more_is_refused():
    gc.collect()
    cuda._machines.clear()
    library = LIBCUDA or FakeCuda().path
    with recording() as run:
        assert Sees.DRIVER_CALLS in run.sees
        with pytest.raises(BadInput, match="make the device before the recording"):
            CudaDevice(library=library)


if not LIBCUDA:  # driver_facts/test_order.py loses a real one, in a process of its own

    def test_a_lost_device_ends_its_pools_calls():
        cuda._machines.clear()
        fake = FakeCuda(512 * MIB)
        device = CudaDevice(library=fake.path)
        pool, stream = Pool(device, "p"), device.stream("s")
        buffer = pool.alloc(MIB, stream)
        fake.lose(700)
        with pytest.raises(DriverError, match="CUDA_ERROR_ILLEGAL_ADDRESS") as caught:
            stream.synchronize()
        assert caught.value.sticky
        calls = fake.calls
        with pytest.raises(DriverError, match="device is lost"):
            pool.alloc(64 * MIB, stream)
        buffer.free()
        assert fake.calls == calls
