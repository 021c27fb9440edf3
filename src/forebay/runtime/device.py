"""device: a device as a program sees it, the errors of what ran on it, and the simulated one. Streams and events are stream.py's,
real devices cuda.py's. What is simulated and how is native/driver/sim.hpp's.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Literal

from forebay._core.driver import Account, Driver, FaultyDriver, PoolRows, SimDriver, Status, StreamKind, TapedDriver
from forebay._core.pool import Domain
from forebay.capture_law import INVALIDATING
from forebay.errors import BadInput, DriverError
from forebay.runtime.arguments import byte_count, label, title
from forebay.runtime.arguments import count as _count
from forebay.runtime.buffer import Array, Buffer
from forebay.runtime.capturing import Capture, forbid_device, forbid_unsafe
from forebay.runtime.graph import capture
from forebay.runtime.recorder import tape_when_recording
from forebay.runtime.schedule import Schedule
from forebay.runtime.stream import LEGACY, Event, Failure, ForeignStream, Stream
from forebay.tape.events import Mode, Space

__all__ = ["Device", "Machine", "SimDevice", "require_device"]

_MOST_DEVICES, _LONGEST_NS = 256, 2**62  # addresses of one machine; a clock that cannot wrap
_PER_THREAD = 2  # the handle that every device has besides the legacy stream's (native/driver/port.hpp)


class Device:
    """What every device of the runtime has. A machine's devices share its drivers, its host threads and its pinned memory."""

    stream_type: ClassVar[type[Stream]] = Stream

    def _join(self, machine: Machine, index: int, domain: Domain) -> None:
        self.machine, self.index = machine, index
        self.driver: Driver = machine.driver
        self.failure = Failure()
        self.domain = domain  # what the device's pools know of its streams
        self._call = _DeviceCall(machine, self.failure, self.domain)
        self._host_call = _Call(machine, self.failure, self.domain)
        self.default_stream = self.stream_type(self, "default", LEGACY, owned=False)

    def stream(self, name: str, *, kind: Literal["blocking", "nonblocking"] = "blocking", priority: int = 0) -> Stream:
        """A new stream. A blocking one is ordered with the legacy default stream, a non-blocking one is not.

        Raises BadInput for a name that is no text, a kind that is none, and a priority beyond 32 bits; DriverError.
        """
        if kind not in ("blocking", "nonblocking"):
            raise BadInput(f"stream kind {kind!r}: there are blocking and nonblocking")
        name, priority = title(name, "stream name"), _count(priority, "priority", -(2**31), 2**31 - 1)
        self.machine.taped.name_next_stream(name)
        with self.call() as driver:
            handle = driver.stream_create(self.index, StreamKind[kind], priority)
        return self.stream_type(self, name, handle, owned=True, joins_legacy=kind == "blocking")

    def capture(
        self, stream: Stream | ForeignStream, *, name: str | None = None, reserve: int | str = 0, mode: str = "thread_local"
    ) -> capture:
        """What is issued to `stream` inside the block, and to streams that wait there for its events, is recorded and does not run:
        `with device.capture(stream) as graph: ...`, then `graph.replay(stream)`.

        Allocations of any pool on these streams come from the graph's own memory, which holds `reserve` bytes (a number, or "64MiB")
        before the capture begins and grows where that is too little. `mode` says whose calls may break it ("global": every thread's,
        "thread_local": this one's, "relaxed": few). `name` is the graph's; the stream's where none is given. What would break the
        capture is refused in its place: BadInput. The end raises BadInput for an empty graph, DriverError for one that broke.
        """
        return capture(self, self.stream_of(stream, "Device.capture"), name, reserve, mode)

    def thread_stream(self) -> Stream:
        """The calling thread's own default stream: a blocking one."""
        return self.stream_type(self, "per-thread", _PER_THREAD, owned=False)

    def stream_of(self, given: Stream | ForeignStream, what: str) -> Stream:
        """The stream that is meant: one of the runtime, or on a CUDA device another library's, by its `__cuda_stream__`.

        Raises BadInput where it is neither; `what` begins the message.
        """
        if isinstance(given, Stream):
            return given
        raise BadInput(f"{what}: {type(given).__name__} is no stream of this device; make one with `Device.stream`")

    def event(self) -> Event:
        """A new event, never recorded."""
        return Event(self)

    def malloc(self, nbytes: int) -> Buffer:
        """Driver memory (cuMemAlloc), slow as that is. Its free waits for the whole device. Raises BadInput, DriverError."""
        nbytes = _count(nbytes, "malloc", 1)
        forbid_unsafe(self.machine.captures, "Device.malloc")
        with self.call() as driver:
            address = driver.malloc(self.index, nbytes)
        return Buffer(self, address, nbytes, self._free)

    def host_alloc(self, nbytes: int) -> Buffer:
        """Pinned host memory from the driver (cuMemHostAlloc). Its free waits for every device. Raises BadInput, DriverError."""
        nbytes = _count(nbytes, "host_alloc", 1)
        forbid_unsafe(self.machine.captures, "Device.host_alloc")
        with self._host_call as driver:
            address = driver.host_alloc(nbytes)
        return Buffer(self, address, nbytes, self._host_free, Space.pinned)

    def synchronize(self) -> None:
        """Waits until everything issued to this device has run."""
        forbid_device(self, "Device.synchronize")
        mark = self.domain.mark_all()
        with self.call() as driver:
            driver.device_sync(self.index)
        self.domain.reached(mark)

    def host_access(self, reads: Sequence[Array | Buffer] = (), writes: Sequence[Array | Buffer] = ()) -> None:
        """The host reads and writes these pinned bytes now. Issued work may have run by this moment, or not; a recording gets a row a
        range.
        """
        for touched, mode in ((reads, Mode.read), (writes, Mode.write)):
            for pinned in touched:
                self.machine.taped.host_access(pinned.address, pinned.nbytes, mode)

    @property
    def clock_ns(self) -> int:
        """The calling thread's clock: of a simulated device a virtual one."""
        return self.driver.now_ns()

    def exported(self, array: Array) -> dict[str, Any]:
        """The array as others find it through `__cuda_array_interface__`. AttributeError where they know no such device."""
        raise AttributeError("a simulated device is none that other libraries know; copy to the host with Stream.copy")

    def capsule(self, array: Array, *, stream: int | None = None, **asked: object) -> object:
        """The array as a DLPack capsule. Raises BadInput where others know no such device."""
        raise BadInput("a simulated device is none that other libraries know; copy to the host with Stream.copy")

    def dlpack_device(self) -> tuple[int, int]:
        """DLPack's name of the device. Raises BadInput as `capsule` does."""
        raise BadInput("a simulated device is none that other libraries know; copy to the host with Stream.copy")

    def pool_rows(
        self, name: str, consumer: str | None, kind: str, space: Space, limit: int | None = None, *, trusted: bool = False
    ) -> PoolRows:
        """Where a pool of this device tells what it hands out, takes back and refuses: every recording has it then. One that is
        `trusted` has edges of its own, which no tape shows.
        """
        return PoolRows(self.machine.taped, self.index, name, consumer, kind, space.name, limit, trusted=trusted)

    @property
    def driver_calls(self) -> dict[str, int]:
        """Driver calls so far by name, of every device of the machine."""
        return self.machine.faulty.counts()

    def fail(
        self, call: str | Sequence[str] | None = None, nth: int = 1, status: str = "out_of_memory", *, always: bool = False
    ) -> None:
        """The `nth` driver call of this name (of these names; None: of all) answers `status`, and with `always` each after it.

        Plans follow one another: the next begins to count when the one before it struck. Raises BadInput for unknown names.
        """
        names = [label(name, "call") for name in ([] if call is None else [call] if isinstance(call, str) else call)]
        nth = _count(nth, "nth", 1)
        if label(status, "status") not in Status.__members__:
            raise BadInput(f"no such status: {status!r}; there are {', '.join(Status.__members__)}")
        try:
            self.machine.faulty.plan(names, nth, Status[status], always=always)
        except ValueError as error:
            raise BadInput(str(error)) from None

    def call(self) -> _Call:
        """The driver, for one call: a fault that a kernel's exception made is raised from that exception."""
        return self._call

    def quietly(self, close: Callable[[], None]) -> None:
        """For finalisers: a handle that cannot be given back is nobody's error; at exit and on a lost device nobody tries."""
        if sys.is_finalizing() or self.domain.dead:
            return
        try:
            close()
        except DriverError:
            return

    def _free(self, buffer: Buffer) -> None:
        if self.machine.captures:
            self.machine.later.append(lambda: self._free(buffer))
            return
        with self.call() as driver:
            driver.free(self.index, buffer.address)

    def _host_free(self, buffer: Buffer) -> None:
        if self.machine.captures:
            self.machine.later.append(lambda: self._host_free(buffer))
            return
        with self._host_call as driver:
            driver.host_free(buffer.address)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.index}, {self.driver.facts(self.index).total_bytes} bytes)"


class SimDevice(Device):
    """One simulated device of `capacity` bytes (a number, or "4GiB").

    Work runs in the order of virtual time; with a `seed` in a legal order drawn from that number; with a `schedule` (or its line) in
    that one. `cost` names the table that the virtual clock goes by: "guide" or "h200". Raises BadInput for a size, a table or a
    schedule that is none.
    """

    def __init__(
        self,
        capacity: int | str = "4GiB",
        *,
        seed: int | None = None,
        schedule: Schedule | str | None = None,
        cost: str = "guide",
    ) -> None:
        self._enter(_SimMachine([byte_count(capacity, "capacity")], _schedule(seed, schedule), cost), 0)

    @classmethod
    def many(
        cls,
        count: int,
        capacity: int | str = "4GiB",
        *,
        seed: int | None = None,
        schedule: Schedule | str | None = None,
        cost: str = "guide",
    ) -> tuple[SimDevice, ...]:
        """`count` devices of one machine: they share its host threads and its pinned memory, and can wait for each other."""
        number = _count(count, "devices", 1, _MOST_DEVICES)
        machine = _SimMachine([byte_count(capacity, "capacity")] * number, _schedule(seed, schedule), cost)
        devices = tuple(cls.__new__(cls) for _ in range(number))
        for index, device in enumerate(devices):
            device._enter(machine, index)
        return devices

    def _enter(self, machine: _SimMachine, index: int) -> None:
        self.sim = machine.sim
        self._join(machine, index, Domain(machine.driver, index, machine.sim))

    def spend(self, ns: int) -> None:
        """Host work of `ns` nanoseconds on the calling thread's virtual clock. Raises BadInput for less than none."""
        self.sim.spend(_count(ns, "spend", most=_LONGEST_NS))

    def host_access(self, reads: Sequence[Array | Buffer] = (), writes: Sequence[Array | Buffer] = ()) -> None:
        """As any device's; on a seeded one due work may run before the access."""
        self.sim.host_access()
        super().host_access(reads, writes)

    @property
    def account(self) -> Account:
        """What lives on the device now, by the device's own account: bytes used, frames, mappings, segments, streams, events."""
        return self.sim.account(self.index)


_FORKED = "this process was forked and can never use its parent's device: make one after the fork, or start processes with spawn"


class _Call:
    """Enters a device's driver. One for all calls of the device: it holds nothing of the single call."""

    __slots__ = ("captures", "domain", "driver", "failure")

    def __init__(self, machine: Machine, failure: Failure, domain: Domain) -> None:
        self.driver, self.captures, self.failure, self.domain = machine.driver, machine.captures, failure, domain

    def __enter__(self) -> Driver:
        if self.domain.forked:  # a lock of the driver may be held by a thread that the fork left behind
            raise DriverError(_FORKED, call="any", status=int(Status.not_initialized), sticky=True)
        return self.driver

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, DriverError):
            explain(error, self.failure)
        if isinstance(error, DriverError) and error.status in INVALIDATING:
            for capture in self.captures:
                capture.offended(error)


def explain(error: DriverError, failure: Failure) -> None:
    """Says in the error of a call that met a kernel's fault which exception made it. Raises an interrupt that fell into the kernel."""
    cause = failure.error if error.status == Status.launch_failed else None
    if cause is not None and not isinstance(cause, Exception):
        raise cause
    if cause is not None and error.__cause__ is None:
        error.__cause__ = cause
        error.args = (f"{failure.told()}: {error}",)


def require_device(device: object, what: str) -> Device:
    """`device`, where it is one. Raises BadInput."""
    if not isinstance(device, Device):
        raise BadInput(f"{what}: {type(device).__name__} is no device; make a SimDevice or a CudaDevice")
    return device


class _DeviceCall(_Call):
    """The same for calls on one device: its pools hear of a sticky error, whoever met it."""

    __slots__ = ()

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, DriverError) and error.sticky:
            self.domain.note(error.status)
        super().__exit__(kind, error, trace)


class Machine:
    """The drivers that the devices of one machine share: its own, around it the one that counts and fails on demand, around that the
    one that writes the tape while a recorder is attached.
    """

    def __init__(self, own: Driver) -> None:
        self.faulty = FaultyDriver(own)
        self.taped = TapedDriver(self.faulty)
        self.driver: Driver = self.taped
        self.captures: list[Capture] = []  # under way, on any device
        self.later: list[Callable[[], None]] = []  # frees that must not fall into one

    def settle(self) -> None:
        """Makes up for what was put off, once no capture is under way."""
        while self.later and not self.captures:
            self.later.pop(0)()


class _SimMachine(Machine):
    def __init__(self, capacities: Sequence[int], schedule: Schedule, cost: str) -> None:
        self.sim = _simulated(capacities, schedule, cost)
        super().__init__(self.sim)
        tape_when_recording(self.taped)


def _simulated(capacities: Sequence[int], schedule: Schedule, cost: str) -> SimDriver:
    def made() -> SimDriver:
        return SimDriver(capacities, seed=schedule.seed, held=schedule.held, cost=cost)

    try:
        return made()
    except IndexError:  # no addresses left: devices that nobody has any more, in cycles, hold some
        gc.collect()
    except ValueError as error:
        raise BadInput(str(error)) from None
    try:
        return made()
    except IndexError as error:
        raise BadInput(f"{error}: let go of some devices before making more") from None


def _schedule(seed: int | None, schedule: Schedule | str | None) -> Schedule:
    if seed is not None and schedule is not None:
        raise BadInput(f"seed {seed} and schedule {str(schedule)!r}: give one of them")
    if schedule is None:
        return Schedule(seed=None if seed is None else _count(seed, "seed", most=2**64 - 1))
    return Schedule.parse(schedule) if isinstance(schedule, str) else schedule
