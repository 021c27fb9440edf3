"""The driver over libcuda, beyond what every driver does: how it is found, what it says, what it refuses by itself. On the fake; what needs
no faults also on a GPU (conformance/instances.py)."""

import contextlib
import ctypes
import os
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest

from conformance.instances import CUDA, LIBCUDA, MIB
from fake_cuda.library import FakeCuda, path
from forebay._core.cuda import CudaDriver
from forebay._core.driver import CaptureMode, FaultyDriver, Status, StreamKind, TapedDriver
from forebay.errors import DriverError, NotSupported

TESTS = Path(__file__).resolve().parent.parent
LEGACY, PER_THREAD = 1, 2
GRANULE = 2 * MIB


@pytest.fixture(params=CUDA, ids=lambda make: make.__name__)
def driver(request):
    return request.param()


@pytest.fixture
def fake():
    return FakeCuda()


def refused(call, *arguments) -> DriverError:
    with pytest.raises(DriverError) as caught:
        call(*arguments)
    return caught.value


# ---- how it is found


def test_no_library_is_said_with_what_to_install():
    with pytest.raises(NotSupported, match=r"no CUDA device: .*nowhere.so.*install NVIDIA's driver"):
        CudaDriver("/nowhere.so")


def test_a_library_that_is_no_libcuda_is_said_to_be_none():
    with pytest.raises(NotSupported, match="no driver of CUDA 12"):
        CudaDriver("libc.so.6")


@pytest.mark.parametrize(
    ("function", "code", "words"),
    [("cuDeviceGetCount", 100, r"cuDeviceGetCount\(0x\w+\) answered CUDA_ERROR_NO_DEVICE \(100\).*nvidia-smi")],
)
def test_a_driver_without_a_device_says_what_refused(fake, function, code, words):
    fake.plan(function, code=code)
    with pytest.raises(NotSupported, match=words):
        CudaDriver(fake.path)


def test_no_visible_device_is_said():
    fake = FakeCuda(64 * MIB)
    fake.lib.fake_reset(0, None)
    with pytest.raises(NotSupported, match="CUDA_VISIBLE_DEVICES"):
        CudaDriver(fake.path)


# ---- what it says


def test_a_refusal_names_both_calls_their_arguments_and_what_to_do(driver):
    address = driver.malloc(0, MIB)
    driver.free(0, address)
    frame = driver.create(0, GRANULE)
    error = refused(driver.map, 0, 0, GRANULE, frame)
    assert (error.call, error.status, error.sticky) == ("map", Status.invalid_value, False)
    assert str(error).startswith(f"map(device=0, address=0, bytes={GRANULE}, frame={frame}): invalid value (1): cuMemMap(")
    assert str(error).endswith("answered CUDA_ERROR_INVALID_VALUE (1); check its arguments")
    driver.release(0, frame)


def test_what_never_reached_libcuda_is_not_blamed_on_it(driver):
    refused(driver.map, 0, 0, GRANULE, 12345)
    assert str(refused(driver.stream_sync, 0, 0xDEAD0)) == (
        "stream_sync(device=0, stream=912080): invalid handle (400); it was destroyed, or belongs to another device"
    )


def test_drivers_around_it_pass_the_words_on_and_own_up_to_their_own(fake):
    faulty = FaultyDriver(CudaDriver(fake.path))
    around = TapedDriver(faulty)
    assert "cuMemAlloc(" in str(refused(around.malloc, 0, 2**40))
    faulty.plan(["malloc"], 1, Status.out_of_memory)
    assert "as planned" in str(refused(around.malloc, 0, 512))


def test_a_number_that_no_table_has_keeps_its_number(fake):
    driver = CudaDriver(fake.path)
    fake.plan("cuMemAlloc", code=46)
    assert refused(driver.malloc, 0, 512).status == 46


# ---- contexts


def test_the_program_s_own_context_is_as_it_was(driver):
    lib = ctypes.CDLL(LIBCUDA or str(path()))
    current = ctypes.c_void_p()
    assert lib.cuCtxGetCurrent(ctypes.byref(current)) == 0
    before = current.value
    driver.free(0, driver.malloc(0, MIB))
    refused(driver.malloc, 0, 2**60)
    lib.cuCtxGetCurrent(ctypes.byref(current))
    assert current.value == before


def test_the_context_is_retained_at_the_first_call_and_let_go_with_the_driver(fake):
    driver = CudaDriver(fake.path)
    assert fake.retained(0) == fake.retained(1) == 0
    for _ in range(3):
        driver.memory_info(1)
    assert (fake.retained(0), fake.retained(1)) == (0, 1)
    del driver
    assert fake.retained(1) == 0


def test_a_context_that_cannot_be_entered_is_the_call_s_refusal_and_nothing_was_done(fake):
    driver = CudaDriver(fake.path)
    driver.memory_info(0)
    for function in ("cuCtxGetCurrent", "cuCtxPushCurrent"):
        fake.plan(function, code=999)
        assert refused(driver.malloc, 0, MIB).status == 999
    assert fake.account()["segments"] == 0
    driver.free(0, driver.malloc(0, MIB))


# ---- what it refuses by itself


def test_what_is_not_there_is_refused_at_the_call_and_harms_nothing(driver):
    reserved = driver.reserve_range(0, GRANULE)
    freed = driver.malloc(0, MIB)
    driver.free(0, freed)
    closed = driver.reserve_range(0, GRANULE)
    driver.map(0, closed, GRANULE, driver.create(0, GRANULE))
    for address in (reserved, freed, closed, 0x1234):
        assert refused(driver.memset, 0, address, 0, 8, LEGACY).status == Status.invalid_value, hex(address)
    driver.device_sync(0)
    driver.free(0, driver.malloc(0, 512))


def test_pinned_bytes_that_are_uploaded_may_change_when_the_call_returned(driver):
    pinned, device = driver.host_alloc(MIB), driver.malloc(0, MIB)
    stream = driver.stream_create(0, StreamKind.nonblocking, 0)
    view = memoryview(driver.host_memory(pinned, MIB))
    view[:] = b"a" * MIB
    driver.upload(0, device, view, stream)
    view[:] = b"b" * MIB
    out = bytearray(MIB)
    driver.download(0, out, device, stream)
    assert out == b"a" * MIB
    driver.stream_destroy(0, stream)
    driver.free(0, device)
    driver.host_free(pinned)


def test_a_foreign_stream_is_let_through_from_its_adoption_to_its_end(driver):
    other = CudaDriver(LIBCUDA or str(path()))
    theirs = other.stream_create(0, StreamKind.nonblocking, 0)
    assert refused(driver.stream_sync, 0, theirs).status == Status.invalid_handle
    assert driver.adopt_stream(0, theirs) == other.stream_id(0, theirs) == driver.stream_id(0, theirs)
    driver.stream_sync(0, theirs)
    driver.forget_stream(0, theirs)
    assert refused(driver.stream_sync, 0, theirs).status == Status.invalid_handle
    other.stream_destroy(0, theirs)


def test_a_host_function_calls_nothing(driver):
    refusals = []

    def calls(memory):
        for call in (lambda: driver.malloc(0, 512), lambda: driver.event_create(0), lambda: driver.facts(0)):
            try:
                call()
            except DriverError as error:
                refusals.append(error.status)
        return True

    driver.host_func(0, LEGACY, calls)
    driver.device_sync(0)
    assert refusals == [Status.not_permitted] * 3
    driver.free(0, driver.malloc(0, 512))  # and this thread is none


# ---- captures and graphs


def test_a_capturing_stream_s_id_is_known_and_asking_harms_nothing(driver):
    stream = driver.stream_create(0, StreamKind.nonblocking, 0)
    before = driver.stream_id(0, stream)
    driver.capture_begin(0, stream, CaptureMode.global_)
    assert driver.stream_id(0, stream) == driver.adopt_stream(0, stream) == before
    driver.graph_destroy(0, driver.capture_end(0, stream))


def test_a_graph_s_host_functions_and_copies_run_at_every_launch(driver):
    stream, address, ran, out = driver.stream_create(0, StreamKind.nonblocking, 0), driver.malloc(0, 64), [], bytearray(64)
    driver.capture_begin(0, stream, CaptureMode.thread_local)
    driver.memset(0, address, 5, 64, stream)
    driver.host_func(0, stream, lambda memory: ran.append(len(ran)) or True)
    driver.download(0, out, address, stream)
    graph = driver.capture_end(0, stream)
    assert (ran, bytes(out), driver.graph_nodes(0, graph)) == ([], bytes(64), 3)
    executable = driver.graph_instantiate(0, graph)
    driver.graph_destroy(0, graph)
    for launches in (1, 2, 3):
        out[:] = bytes(64)
        driver.graph_launch(0, executable, stream)
        driver.stream_sync(0, stream)
        assert (ran, bytes(out)) == (list(range(launches)), b"\5" * 64)
    driver.executable_destroy(0, executable)
    assert refused(driver.graph_launch, 0, executable, stream).status == Status.invalid_handle
    assert refused(driver.graph_nodes, 0, graph).status == Status.invalid_handle


# ---- the end of everything


def test_after_a_sticky_error_no_call_reaches_libcuda(fake):
    driver = CudaDriver(fake.path)
    stream, address = driver.stream_create(0, StreamKind.blocking, 0), driver.malloc(0, 512)
    fake.lose(Status.illegal_address)
    error = refused(driver.stream_sync, 0, stream)
    assert error.sticky
    assert "CUDA_ERROR_ILLEGAL_ADDRESS" in str(error)
    assert "only a new process" in str(error)
    calls = fake.calls
    for call in (
        lambda: driver.malloc(0, 512),
        lambda: driver.free(0, address),
        lambda: driver.host_alloc(512),
        lambda: driver.stream_destroy(0, stream),
        lambda: driver.event_create(0),
        lambda: driver.memset(0, address, 0, 8, LEGACY),
        lambda: driver.device_sync(0),
        lambda: driver.memory_info(0),
    ):
        assert refused(call).status == Status.illegal_address
    assert fake.calls == calls
    assert driver.fault_of(0) == Status.illegal_address
    assert driver.fault_of(1) == Status.ok


def test_a_sticky_error_on_the_way_out_of_a_call_is_its_answer(fake):
    driver = CudaDriver(fake.path)
    driver.memory_info(0)
    fake.plan("cuCtxPopCurrent", code=719)
    assert refused(driver.malloc, 0, 512).status == 719
    assert driver.fault_of(0) == Status.launch_failed


def test_a_host_function_that_fails_is_the_device_s_fault(driver):
    driver.host_func(0, LEGACY, lambda memory: False)
    with contextlib.suppress(DriverError):  # the sync itself may go well, or meet the fault
        driver.device_sync(0)
    assert refused(driver.device_sync, 0).status == Status.launch_failed


def test_after_libcuda_shut_down_everything_says_so_and_nothing_is_called(fake):
    driver = CudaDriver(fake.path)
    address = driver.malloc(0, 512)
    fake.exit()
    assert refused(driver.free, 0, address).status == Status.deinitialized
    assert "shut down" in str(refused(driver.malloc, 0, 512))
    del driver


def test_a_forked_child_is_refused_without_a_call(driver):
    driver.memory_info(0)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            driver.malloc(0, 512)
        except DriverError as error:
            os.write(writer, str(error).encode())
        finally:
            os._exit(0)
    os.close(writer)
    os.waitpid(child, 0)
    said = os.read(reader, 1000).decode()
    os.close(reader)
    assert "not initialized (3)" in said
    assert "start with spawn" in said


def test_a_driver_that_outlives_the_interpreter_ends_quietly():
    program = f"""
        import sys
        sys.path.insert(0, {str(TESTS)!r})
        from conformance.instances import CUDA
        from forebay._core.driver import StreamKind
        sys.kept = driver = CUDA[0]()
        driver.malloc(0, 512), driver.stream_create(0, StreamKind.blocking, 0)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


# ---- threads


def test_many_threads_issue_at_once(driver):
    failed = []

    def work():
        try:
            stream, event = driver.stream_create(0, StreamKind.nonblocking, 0), driver.event_create(0)
            address = driver.malloc(0, MIB)
            for i in range(50):
                driver.memset(0, address, i, MIB, stream)
                driver.event_record(0, event, stream)
                driver.event_query(0, event)
            out = bytearray(8)
            driver.download(0, out, address, stream)
            assert out == bytes([49]) * 8
            driver.free(0, address)
            driver.event_destroy(0, event)
            driver.stream_destroy(0, stream)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
