"""One suite for the graphs of the driver port: what runs when a graph is launched, in which order, at what cost, and under faults."""

from collections.abc import Callable

import pytest

from conformance.capture_world import LEGACY, MIB, SIMULATED, THREAD_LOCAL, status_of
from forebay._core.driver import CaptureMode, CaptureStatus, Driver, FaultyDriver, SimDriver, Status, StreamKind
from forebay.errors import DriverError


@pytest.fixture(params=SIMULATED, ids=lambda make: make.__name__)
def driver(request):
    return request.param()


def values(driver: Driver, address: int, nbytes: int) -> bytes:
    out = bytearray(nbytes)
    driver.download(0, out, address, LEGACY)
    return bytes(out)


def captured(driver: Driver, stream: int, *work: Callable[[], object], mode: CaptureMode = THREAD_LOCAL) -> int:
    """The executable of what the work issues."""
    driver.capture_begin(0, stream, mode)
    for step in work:
        step()
    graph = driver.capture_end(0, stream)
    executable = driver.graph_instantiate(0, graph)
    driver.graph_destroy(0, graph)
    return executable


def adder(driver: Driver, stream: int, address: int, log: list[str], name: str) -> Callable[[], None]:
    """Issues work that adds one to a byte."""

    def run(memory) -> bool:
        view = memoryview(memory[0]).cast("B")
        view[0] = view[0] + 1
        log.append(name)
        del view
        return memory[0].give_back()

    return lambda: driver.launch(0, stream, name, 1000, [(address, 1, 1, 0)], run)


def test_captured_work_runs_at_each_launch_and_never_before(driver):
    stream, byte, log = driver.stream_create(0, StreamKind.nonblocking, 0), driver.malloc(0, 512), []
    driver.memset(0, byte, 0, 512, LEGACY)
    driver.device_sync(0)
    executable = captured(driver, stream, adder(driver, stream, byte, log, "a"), adder(driver, stream, byte, log, "b"))
    driver.device_sync(0)
    assert log == []
    assert values(driver, byte, 1) == b"\0"
    for _ in range(3):
        driver.graph_launch(0, executable, stream)
    driver.stream_sync(0, stream)
    assert log == ["a", "b"] * 3
    assert values(driver, byte, 1) == b"\6"


@pytest.mark.parametrize("seed", range(8))
def test_edges_of_the_capture_hold_and_no_others(seed):
    """s: a, fork, b on t beside c on s, join, d. Whatever the order drawn: a first, d last."""
    driver, log = SimDriver([64 * MIB], seed=seed), []
    s, t = (driver.stream_create(0, StreamKind.nonblocking, 0) for _ in range(2))
    e, f = driver.event_create(0), driver.event_create(0)
    bytes_ = [driver.malloc(0, 512) for _ in range(4)]
    a, c, d = (adder(driver, s, byte, log, name) for byte, name in zip(bytes_, "acd", strict=False))
    b = adder(driver, t, bytes_[3], log, "b")
    executable = captured(
        driver, s, a, lambda: driver.event_record(0, e, s), lambda: driver.stream_wait(0, t, e), b, c,
        lambda: driver.event_record(0, f, t), lambda: driver.stream_wait(0, s, f), d,
    )  # fmt: skip
    driver.graph_launch(0, executable, s)
    driver.device_sync(0)
    assert log[0] == "a"
    assert log[3] == "d"
    assert sorted(log[1:3]) == ["b", "c"]


def order_of_a_fork(seed: int) -> str:
    """What a capture leaves unordered, x on the stream that began and y on one that joined, in the order in which it ran."""
    driver, log = SimDriver([64 * MIB], seed=seed), []
    s, t = (driver.stream_create(0, StreamKind.nonblocking, 0) for _ in range(2))
    e, f = driver.event_create(0), driver.event_create(0)
    x, y = driver.malloc(0, 512), driver.malloc(0, 512)
    executable = captured(
        driver, s, lambda: driver.event_record(0, e, s), lambda: driver.stream_wait(0, t, e),
        adder(driver, s, x, log, "x"), adder(driver, t, y, log, "y"),
        lambda: driver.event_record(0, f, t), lambda: driver.stream_wait(0, s, f),
    )  # fmt: skip
    driver.graph_launch(0, executable, s)
    driver.device_sync(0)
    return "".join(log)


def test_both_orders_of_what_a_capture_leaves_unordered_come_up():
    assert {order_of_a_fork(seed) for seed in range(12)} == {"xy", "yx"}


@pytest.mark.parametrize("seed", range(6))
def test_launches_of_one_executable_come_after_one_another_on_whatever_streams(seed):
    driver, log = SimDriver([64 * MIB], seed=seed), []
    s, t = (driver.stream_create(0, StreamKind.nonblocking, 0) for _ in range(2))
    byte = driver.malloc(0, 512)
    driver.memset(0, byte, 0, 512, LEGACY)
    driver.device_sync(0)
    executable = captured(driver, s, adder(driver, s, byte, log, "a"), adder(driver, s, byte, log, "b"))
    for stream in (s, t, s, t):
        driver.graph_launch(0, executable, stream)
    driver.stream_sync(0, t)
    assert log == ["a", "b"] * 4
    assert values(driver, byte, 1) == b"\10"


def test_a_launch_comes_after_what_its_stream_held_and_before_what_it_gets(driver):
    stream, byte, log = driver.stream_create(0, StreamKind.nonblocking, 0), driver.malloc(0, 512), []
    driver.memset(0, byte, 0, 512, LEGACY)
    driver.device_sync(0)
    executable = captured(driver, stream, adder(driver, stream, byte, log, "graph"))
    adder(driver, stream, byte, log, "before")()
    driver.graph_launch(0, executable, stream)
    adder(driver, stream, byte, log, "after")()
    driver.stream_sync(0, stream)
    assert log == ["before", "graph", "after"]


@pytest.mark.parametrize(("preset", "launch", "replay"), [("guide", 7_000, 7_000), ("h200", 3_500, 2_080 + 310 * 9 // 99)])
def test_a_graph_costs_the_host_one_launch_and_its_nodes_their_time(preset, launch, replay):
    """Ten kernels of 1 us each, one after the other; the H200's replay lies between those of 1 and of 100 nodes."""
    driver = SimDriver([64 * MIB], cost=preset)
    stream, byte, log = driver.stream_create(0, StreamKind.nonblocking, 0), driver.malloc(0, 512), []
    executable = captured(driver, stream, *[adder(driver, stream, byte, log, "k")] * 10)
    begun = driver.now_ns()
    driver.graph_launch(0, executable, stream)
    assert driver.now_ns() - begun == replay
    driver.stream_sync(0, stream)
    assert driver.now_ns() - begun >= replay + 10 * 1_000
    begun = driver.now_ns()
    for _ in range(10):
        adder(driver, stream, byte, log, "k")()
    assert driver.now_ns() - begun == 10 * launch


def test_destroyed_executables_and_graphs_are_invalid_and_leave_nothing(driver):
    stream = driver.stream_create(0, StreamKind.nonblocking, 0)
    driver.capture_begin(0, stream, THREAD_LOCAL)
    graph = driver.capture_end(0, stream)
    executable = driver.graph_instantiate(0, graph)
    driver.graph_destroy(0, graph)
    driver.executable_destroy(0, executable)
    assert status_of(driver.graph_instantiate, 0, graph) == Status.invalid_value
    assert status_of(driver.graph_destroy, 0, graph) == Status.invalid_value
    assert status_of(driver.graph_launch, 0, executable, stream) == Status.invalid_handle
    if isinstance(driver, SimDriver):
        assert (driver.account(0).graphs, driver.account(0).executables) == (0, 0)


def test_a_capture_is_told_from_another_by_its_number(driver):
    s, t = (driver.stream_create(0, StreamKind.nonblocking, 0) for _ in range(2))
    assert driver.capture_info(0, s).status == CaptureStatus.none
    assert driver.capture_info(0, s).id == 0
    numbers = []
    for stream in (s, t, s):
        driver.capture_begin(0, stream, THREAD_LOCAL)
        numbers.append(driver.capture_info(0, stream).id)
        assert driver.stream_capturing(0, stream)
        driver.capture_end(0, stream)
    assert len(set(numbers)) == 3
    assert 0 not in numbers


def test_a_fault_in_a_node_loses_the_device_and_later_launches_say_so(driver):
    stream = driver.stream_create(0, StreamKind.nonblocking, 0)
    executable = captured(driver, stream, lambda: driver.memset(0, 0x1234, 0, 8, stream))
    driver.graph_launch(0, executable, stream)
    assert status_of(driver.stream_sync, 0, stream) == Status.illegal_address
    assert status_of(driver.graph_launch, 0, executable, stream) == Status.illegal_address


def whole_capture(driver: Driver, log: list[str]) -> list[str]:
    """A program that captures and replays as far as it can, and gives all back: the calls that failed."""
    failed: list[str] = []

    def attempt(call, *arguments):
        try:
            return call(*arguments)
        except DriverError as error:
            failed.append(error.call)
            return None

    stream = attempt(driver.stream_create, 0, StreamKind.nonblocking, 0)
    if stream is None:
        return failed
    if attempt(driver.capture_begin, 0, stream, THREAD_LOCAL) is None and failed:
        attempt(driver.stream_destroy, 0, stream)
        return failed
    attempt(lambda: driver.launch(0, stream, "k", None, [], lambda memory: log.append("k") or True))
    graph = attempt(driver.capture_end, 0, stream)
    if graph is None:
        attempt(driver.capture_end, 0, stream)  # it was the call that failed, not the capture
    executable = None if graph is None else attempt(driver.graph_instantiate, 0, graph)
    if executable is not None:
        attempt(driver.graph_launch, 0, executable, stream)
        attempt(driver.stream_sync, 0, stream)
        attempt(driver.executable_destroy, 0, executable) or attempt(driver.executable_destroy, 0, executable)
    if graph is not None:
        attempt(driver.graph_destroy, 0, graph) or attempt(driver.graph_destroy, 0, graph)
    attempt(driver.stream_sync, 0, stream)
    attempt(driver.stream_destroy, 0, stream)
    return failed


def test_a_fault_at_every_call_of_a_capture_is_that_calls_and_changes_nothing_below():
    clean = FaultyDriver(SimDriver([64 * MIB]))
    whole_capture(clean, [])
    calls = sum(clean.counts().values())
    for position in range(1, calls + 1):
        below = SimDriver([64 * MIB])
        faulty, log = FaultyDriver(below), []
        faulty.plan([], position, Status.out_of_memory)
        failed = whole_capture(faulty, log)
        assert faulty.plans_left() == 0
        assert failed
        below.device_sync(0)  # no capture is left open: that would refuse it
        assert log in ([], ["k"])
        assert (below.account(0).backlog, below.account(0).executables) == (0, 0)
