"""What a capture makes of every call of the port, in each mode, on both threads: held against what an H200 answered (call_probe.cu)."""

from collections.abc import Callable

import pytest

from conformance.capture_world import (
    CASES,
    DRIVERS,
    GLOBAL,
    LEGACY,
    MIB,
    MODES,
    RELAXED,
    THREAD_LOCAL,
    cuda,
    elsewhere,
    sim_seeded,
    status_of,
)
from forebay._core.driver import Driver, StreamKind


class Beside:
    """What the calls of call_probe.cu work on: all of it made before the capture begins."""

    def __init__(self, driver: Driver, kind: StreamKind) -> None:
        self.driver = d = driver
        self.cap = d.stream_create(0, kind, 0)
        self.other = d.stream_create(0, StreamKind.nonblocking, 0)
        self.bytes, self.loose, self.pinned, self.loose_pinned = (
            d.malloc(0, 512),
            d.malloc(0, 512),
            d.host_alloc(512),
            d.host_alloc(512),
        )
        self.outside, self.inside = d.event_create(0), d.event_create(0)
        self.range, self.frame = d.reserve_range(0, 4 * MIB), d.create(0, 2 * MIB)
        self.mapped = d.reserve_range(0, 2 * MIB)
        d.map(0, self.mapped, 2 * MIB, d.create(0, 2 * MIB))
        d.capture_begin(0, self.other, RELAXED)
        self.graph = d.capture_end(0, self.other)
        self.executable, self.doomed = d.graph_instantiate(0, self.graph), d.graph_instantiate(0, self.graph)
        d.event_record(0, self.outside, self.other)
        d.device_sync(0)


def no_work(memory: object) -> bool:
    return True


CALLS: dict[str, Callable[[Beside], object]] = {
    "cuMemAlloc": lambda w: w.driver.malloc(0, 512),
    "cuMemFree": lambda w: w.driver.free(0, w.loose),
    "cuMemHostAlloc": lambda w: w.driver.host_alloc(512),
    "cuMemFreeHost": lambda w: w.driver.host_free(w.loose_pinned),
    "cuMemAddressReserve": lambda w: w.driver.reserve_range(0, 2 * MIB),
    "cuMemCreate": lambda w: w.driver.create(0, 2 * MIB),
    "cuMemMap": lambda w: w.driver.map(0, w.range, 2 * MIB, w.frame),
    "cuMemSetAccess": lambda w: w.driver.set_access(0, w.mapped, 2 * MIB),
    "cuMemUnmap": lambda w: w.driver.unmap(0, w.mapped, 2 * MIB),
    "cuMemRelease": lambda w: w.driver.release(0, w.frame),
    "cuMemGetInfo": lambda w: w.driver.memory_info(0),
    "cudaLaunchKernel capturing": lambda w: w.driver.launch(0, w.cap, "k", None, [], no_work),
    "cudaLaunchKernel other": lambda w: w.driver.launch(0, w.other, "k", None, [], no_work),
    "cudaLaunchKernel legacy": lambda w: w.driver.launch(0, LEGACY, "k", None, [], no_work),
    "cudaLaunchHostFunc capturing": lambda w: w.driver.host_func(0, w.cap, no_work),
    "cuMemsetD8Async capturing": lambda w: w.driver.memset(0, w.bytes, 1, 64, w.cap),
    "cuMemcpyHtoDAsync pageable, capturing": lambda w: w.driver.upload(0, w.bytes, KEPT, w.cap),
    "cuMemcpyHtoDAsync pageable, other": lambda w: w.driver.upload(0, w.bytes, KEPT, w.other),
    "cuMemcpyHtoDAsync pinned, capturing": lambda w: w.driver.copy(0, w.bytes, w.pinned, 64, w.cap),
    "cuMemcpyDtoHAsync pageable, capturing": lambda w: w.driver.download(0, KEPT, w.bytes, w.cap),
    "cuMemcpyDtoHAsync pinned, other": lambda w: w.driver.copy(0, w.pinned, w.bytes, 64, w.other),
    "cuStreamCreate": lambda w: w.driver.stream_create(0, StreamKind.blocking, 0),
    "cuStreamDestroy other": lambda w: w.driver.stream_destroy(0, w.other),
    "cuStreamSynchronize capturing": lambda w: w.driver.stream_sync(0, w.cap),
    "cuStreamSynchronize other": lambda w: w.driver.stream_sync(0, w.other),
    "cuStreamSynchronize legacy": lambda w: w.driver.stream_sync(0, LEGACY),
    "cuStreamQuery capturing": lambda w: w.driver.stream_query(0, w.cap),
    "cuStreamQuery other": lambda w: w.driver.stream_query(0, w.other),
    "cuStreamQuery legacy": lambda w: w.driver.stream_query(0, LEGACY),
    "cuStreamWaitEvent capturing, event outside": lambda w: w.driver.stream_wait(0, w.cap, w.outside),
    "cuStreamWaitEvent other, event outside": lambda w: w.driver.stream_wait(0, w.other, w.outside),
    "cuStreamWaitEvent legacy, event outside": lambda w: w.driver.stream_wait(0, LEGACY, w.outside),
    "cuStreamGetId capturing": lambda w: w.driver.stream_id(0, w.cap),
    "cuStreamIsCapturing capturing": lambda w: w.driver.stream_capturing(0, w.cap),
    "cuStreamIsCapturing legacy": lambda w: w.driver.stream_capturing(0, LEGACY),
    "cuEventCreate": lambda w: w.driver.event_create(0),
    "cuEventDestroy outside": lambda w: w.driver.event_destroy(0, w.outside),
    "cuEventDestroy captured": lambda w: w.driver.event_destroy(0, w.inside),
    "cuEventRecord capturing": lambda w: w.driver.event_record(0, w.outside, w.cap),
    "cuEventRecord other": lambda w: w.driver.event_record(0, w.outside, w.other),
    "cuEventRecord legacy": lambda w: w.driver.event_record(0, w.outside, LEGACY),
    "cuEventQuery outside": lambda w: w.driver.event_query(0, w.outside),
    "cuEventQuery captured": lambda w: w.driver.event_query(0, w.inside),
    "cuEventSynchronize outside": lambda w: w.driver.event_sync(0, w.outside),
    "cuEventSynchronize captured": lambda w: w.driver.event_sync(0, w.inside),
    "cuCtxSynchronize": lambda w: w.driver.device_sync(0),
    "cuThreadExchangeStreamCaptureMode": lambda w: w.driver.exchange_capture_mode(GLOBAL),
    "cuStreamBeginCapture other": lambda w: w.driver.capture_begin(0, w.other, THREAD_LOCAL),
    "cuGraphDestroy": lambda w: w.driver.graph_destroy(0, w.graph),
    "cuGraphInstantiateWithFlags": lambda w: w.driver.graph_instantiate(0, w.graph),
    "cuGraphLaunch capturing": lambda w: w.driver.graph_launch(0, w.executable, w.cap),
    "cuGraphLaunch other": lambda w: w.driver.graph_launch(0, w.executable, w.other),
    "cuGraphExecDestroy": lambda w: w.driver.executable_destroy(0, w.doomed),
}
KEPT = bytearray(64)
# Over libcuda a launch is the program's own, and a stream's id is known: neither is a call of the driver (tests/driver/test_cuda.py).
NOT_LIBCUDA_S = {case for case in CALLS if case.startswith("cudaLaunchKernel")} | {"cuStreamGetId capturing"}


def expected(case: str, state: str) -> list[int]:
    """The H200's answers: of the call, and of the capture's end."""
    (outcome,) = [key for key, states in CASES[case].items() if states == ["all"] or state in states]
    return [int(status) for status in outcome.split()]


@pytest.mark.parametrize("thread", ["same", "other"])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", ["nonblocking", "blocking"])
@pytest.mark.parametrize("make", [make for make in DRIVERS if make is not sim_seeded], ids=lambda make: make.__name__)
def test_a_capture_makes_of_each_call_what_an_h200_makes_of_it(make, kind, mode, thread):
    differ = {}
    for case, call in CALLS.items():
        if make is cuda and case in NOT_LIBCUDA_S:
            continue
        driver = make()
        world = Beside(driver, StreamKind[kind])
        driver.capture_begin(0, world.cap, MODES[mode])
        driver.event_record(0, world.inside, world.cap)

        def answer(call=call, world=world, driver=driver):
            return status_of(call, world)

        answers = [answer() if thread == "same" else elsewhere(answer), status_of(driver.capture_end, 0, world.cap)]
        status_of(driver.capture_end, 0, world.other)  # where the case began one
        if answers != expected(case, f"{kind} {mode} {thread}"):
            differ[case] = answers
    assert differ == {}
