"""capture_world: the vocabulary of the suites on captures: drivers to try, other threads, calls that answer statuses, what was measured."""

import json
import threading
from collections.abc import Callable
from pathlib import Path

from conformance.instances import CUDA, LIBCUDA
from forebay._core.driver import CaptureMode, Driver, FaultyDriver, SimDriver, StreamKind, TapedDriver
from forebay._core.tape import Recorder
from forebay.errors import DriverError

RESULTS = Path(__file__).resolve().parents[2] / "benchmarks/results"
FACTS = json.loads((RESULTS / "capture-h200.json").read_text())["facts"]
CASES = {f"{c['call']} {c['on']}".strip(): c["captures"] for c in json.loads((RESULTS / "calls-h200.json").read_text())["cases"]}
MIB = 2**20
LEGACY, PER_THREAD = 1, 2
GLOBAL, THREAD_LOCAL, RELAXED = CaptureMode.global_, CaptureMode.thread_local, CaptureMode.relaxed
MODES = {"global": GLOBAL, "thread_local": THREAD_LOCAL, "relaxed": RELAXED}


def sim() -> Driver:
    return SimDriver([64 * MIB])


def sim_seeded() -> Driver:
    return SimDriver([64 * MIB], seed=3)


def sim_taped() -> Driver:
    driver = TapedDriver(FaultyDriver(sim()))
    driver.attach(Recorder())
    return driver


def cuda() -> Driver:
    """Over the fake libcuda, or over a GPU's."""
    return CUDA[0]()


SIMULATED = () if LIBCUDA else (sim, sim_seeded, sim_taped)
DRIVERS = (*SIMULATED, cuda)


def elsewhere(call: Callable[[], object]) -> object:
    """What the call comes to on another thread."""
    out: list[object] = []
    thread = threading.Thread(target=lambda: out.append(call()))
    thread.start()
    thread.join()
    return out[0]


def status_of(call: Callable[..., object], *arguments: object) -> int:
    """What the call comes to."""
    try:
        call(*arguments)
    except DriverError as error:
        return error.status
    return 0


class Probe:
    """The vocabulary of capture_probe.cu: two streams, two events, and calls that answer statuses."""

    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        self.s, self.t, self.b = (
            driver.stream_create(0, kind, 0) for kind in (StreamKind.nonblocking,) * 2 + (StreamKind.blocking,)
        )
        self.e, self.f = driver.event_create(0), driver.event_create(0)
        self.bytes = driver.malloc(0, 512)
        self.graph = self.executable = 0

    def of(self, call: Callable[..., object], *arguments: object) -> int:
        return status_of(call, *arguments)

    def begin(self, s: int, mode: CaptureMode = GLOBAL) -> int:
        return self.of(self.driver.capture_begin, 0, s, mode)

    def work(self, s: int) -> int:
        return self.of(self.driver.memset, 0, self.bytes, 1, 64, s)

    def record(self, e: int, s: int) -> int:
        return self.of(self.driver.event_record, 0, e, s)

    def wait(self, s: int, e: int) -> int:
        return self.of(self.driver.stream_wait, 0, s, e)

    def state(self, s: int) -> int:
        return self.driver.capture_info(0, s).status.value

    def end(self, s: int) -> int:
        def kept() -> None:
            self.graph = self.driver.capture_end(0, s)

        self.graph = 0
        return self.of(kept)

    def nodes(self) -> int:
        return self.driver.graph_nodes(0, self.graph)

    def leave(self) -> None:
        """No capture is left: on a GPU the next test meets the same process's."""
        for stream in (self.s, self.t, self.b, PER_THREAD):
            self.of(self.driver.capture_end, 0, stream)

    def sync_device(self) -> int:
        return self.of(self.driver.device_sync, 0)

    def sync(self, s: int) -> int:
        return self.of(self.driver.stream_sync, 0, s)

    def malloc(self) -> int:
        return self.of(self.driver.malloc, 0, 512)

    def exchange(self, mode: CaptureMode) -> int:
        self.mode = self.driver.exchange_capture_mode(mode)
        return 0

    def instantiate(self) -> int:
        def kept() -> None:
            self.executable = self.driver.graph_instantiate(0, self.graph)

        return self.of(kept)

    def launch(self, s: int) -> int:
        return self.of(self.driver.graph_launch, 0, self.executable, s)

    def destroy_stream(self, s: int) -> int:
        return self.of(self.driver.stream_destroy, 0, s)

    def destroy_event(self, e: int) -> int:
        return self.of(self.driver.event_destroy, 0, e)

    def destroy_graph(self) -> int:
        return self.of(self.driver.graph_destroy, 0, self.graph)

    def destroy_executable(self) -> int:
        return self.of(self.driver.executable_destroy, 0, self.executable)

    def fork(self) -> list[int]:
        """`t` joins what `s` captures."""
        return [self.begin(self.s), self.record(self.e, self.s), self.wait(self.t, self.e)]

    def graph_of_one(self) -> list[int]:
        return [self.begin(self.s), self.work(self.s), self.end(self.s), self.instantiate()]
