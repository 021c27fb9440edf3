"""stream: the queue of one device's work, and the events that order queues. What runs when is the driver's.

Nothing here waits for the device unless its docstring says so.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from forebay import capture_law as law
from forebay._core.driver import LentBytes
from forebay._core.pool import Lifetime, Mark
from forebay.errors import BadInput, DriverError
from forebay.runtime.arguments import count, label
from forebay.runtime.buffer import Array, Buffer, inside, view_of
from forebay.runtime.capturing import Capture, Points, forbid_event, forbid_legacy, forbid_on, forbid_wait, forbid_work
from forebay.tape.events import Mode

if TYPE_CHECKING:
    from forebay.runtime.device import Device

__all__ = ["Event", "Failure", "ForeignStream", "Stream"]

LEGACY = 1  # the highest handle of the legacy default stream (native/driver/port.hpp)
_LONGEST_CAUSE = 300  # characters of an exception that a message quotes
_READ, _WRITE = int(Mode.read), int(Mode.write)


class ForeignStream(Protocol):
    """A stream of another library: CuPy's, cuda.core's, cuda.bindings', RMM's."""

    def __cuda_stream__(self) -> tuple[int, int]:
        """(0, its CUstream as a number)."""


class Stream:
    """A FIFO of work on one device. `handle` is the driver's number, which comes back; `id` never does.

    Made by `Device.stream`; destroyed by `close` or with the object. Work in it still runs then.
    """

    lifetime: ClassVar[Lifetime] = Lifetime.ours
    _owned = False  # until there is a handle to destroy

    def __init__(self, device: Device, name: str, handle: int, *, owned: bool, joins_legacy: bool = True) -> None:
        self.device, self.name, self.handle = device, name, handle
        self.legacy = handle <= LEGACY
        self.joins_legacy = joins_legacy and not self.legacy
        self.capture: Capture | None = None  # that it takes part in
        self.machine = device.machine
        self.id: int = device.domain.adopt(handle, self.lifetime, name)
        self._owned, self._closed = owned, False

    def launch(
        self,
        kernel: Callable[..., object],
        reads: Sequence[Array | Buffer] = (),
        writes: Sequence[Array | Buffer] = (),
        *,
        indexed: Sequence[Array | Buffer] = (),
        name: str | None = None,
        cost_ns: int | None = None,
    ) -> None:
        """Issues `kernel`, a callable that gets one NumPy array an argument: of `reads` (not writeable), then of `writes`.

        The arrays are good while it runs. `cost_ns` is its time on the virtual clock; None takes the cost table's. An exception
        in it is the device's sticky fault: the next call that meets the fault raises DriverError from it. In a capture it may be given
        `indexed` memory too, writeable and last: it goes there by indices that it reads, and `Graph.replay` says where that is.
        """
        name = label(name or name_of(kernel), "kernel name")
        arrays, uses = uses_of(arrays_of(reads), arrays_of(writes))
        through, more = uses_of([], self._indexed(indexed, name))
        require_callable(kernel)
        if cost_ns is not None:
            cost_ns = count(cost_ns, "cost_ns")
        arrays += through
        run = _Run(self.device.failure, name, kernel, [(a.nbytes, a.dtype, a.shape) for a in arrays])
        self._use(f"kernel {name}", arrays)
        with self.device.call() as driver:
            driver.launch(self.device.index, self.handle, name, cost_ns, uses + more, run, len(more))

    def copy(self, dst: Array | Buffer | NDArray[Any], src: Array | Buffer | NDArray[Any]) -> None:
        """Copies as many bytes as both have. From a NumPy array: read before this returns. To one: waits for the copy.

        Between buffers it is issued and nothing waits. Raises BadInput where sizes differ or both ends are NumPy's.
        """
        ends = [end if isinstance(end, np.ndarray) else _array(end) for end in (dst, src)]
        to, source = ends
        if to.nbytes != source.nbytes:
            raise BadInput(f"copy of {source.nbytes} bytes into {to.nbytes}: give both ends the same size")
        if isinstance(to, np.ndarray) and not (to.flags.writeable and to.flags.c_contiguous):
            raise BadInput(
                f"copy into a NumPy array {to.shape} that is read-only or not C-contiguous: give one that can be filled"
            )
        buffers = [end for end in ends if isinstance(end, Array)]
        if self.capture is not None and len(buffers) < 2:
            raise self.capture.refusal(f"copy on {self!r} between a buffer and a NumPy array", law.PAGEABLE)
        self._use("copy", buffers, far=True)
        with self.device.call() as driver:
            if isinstance(to, Array) and isinstance(source, Array):
                driver.copy(self.device.index, to.address, source.address, to.nbytes, self.handle)
            elif isinstance(to, Array):
                driver.upload(self.device.index, to.address, np.ascontiguousarray(source), self.handle)
            elif isinstance(source, Array):
                driver.download(self.device.index, to, source.address, self.handle)
            else:
                raise BadInput("copy between two NumPy arrays: one end must be a buffer")

    def memset(self, dst: Array | Buffer, value: int) -> None:
        """Issues a fill of every byte with `value`, 0 to 255."""
        to, value = _array(dst), count(value, "memset value", most=255)
        self._use("memset", [to])
        with self.device.call() as driver:
            driver.memset(self.device.index, to.address, value, to.nbytes, self.handle)

    def host_func(self, function: Callable[[], object]) -> None:
        """Issues a host function as work of this stream. It may not wait for any device. What it touches no tape shows."""
        require_callable(function)
        self._use("host function", [])
        with self.device.call() as driver:
            driver.host_func(self.device.index, self.handle, _Run(self.device.failure, None, function, []))

    def record(self, event: Event | None = None) -> Event:
        """Records an event (a new one where none is given) after everything issued here so far.

        Raises BadInput for an event of another device.
        """
        self.require_open()
        event = Event(self.device) if event is None else _live(event)
        if event.device is not self.device:
            raise BadInput(f"{self!r} cannot record {event!r}: record one that its own device made")
        if self.machine.captures:
            forbid_legacy(self, "Stream.record")
        mark = None if self.capture is not None else self.device.domain.mark(self.id)
        with self.device.call() as driver:
            driver.event_record(self.device.index, event.handle, self.handle)
        event.mark = mark
        event.capture = None if self.capture is None else (self.capture, self.capture.place(self))
        return event

    def wait(self, event: Event) -> None:
        """What is issued here later comes after the event's latest record. An event never recorded orders nothing.

        The event may be another device's of the same machine. Raises BadInput for one of another machine.
        """
        self.require_open()
        if _live(event).device.machine is not self.machine:
            raise BadInput(
                f"{self!r} cannot wait for {event!r} of another machine: devices that work together come from one `many`"
            )
        if event.capture is not None or self.machine.captures:
            forbid_wait(self, event)
        if event.capture is not None:
            self._join(*event.capture, event)
            return
        with self.device.call() as driver:
            driver.stream_wait(self.device.index, self.handle, event.handle)
        if event.mark is not None and event.device is self.device:
            self.device.domain.ordered(self.id, event.mark)

    def _join(self, capture: Capture, points: Points, event: Event) -> None:
        joins = self.capture is None
        if joins:
            self.device.domain.capture_begins(self.id)
        try:
            with self.device.call() as driver:
                driver.stream_wait(self.device.index, self.handle, event.handle)
        except DriverError:
            if joins:
                self.device.domain.capture_ends(self.id)
            raise
        capture.join(self, points)

    def synchronize(self) -> None:
        """Waits until everything issued here so far has run."""
        self.require_open()
        if self.machine.captures:
            forbid_on(self, "Stream.synchronize")
        mark = self.device.domain.mark(self.id)
        with self.device.call() as driver:
            driver.stream_sync(self.device.index, self.handle)
        self.device.domain.reached(mark)

    def ready(self) -> bool:
        """Whether everything issued here so far has run; does not wait."""
        self.require_open()
        if self.machine.captures:
            forbid_on(self, "Stream.ready")
        with self.device.call() as driver:
            return driver.stream_query(self.device.index, self.handle)

    def close(self) -> None:
        """Destroys the stream; a second call does nothing. A default stream stays."""
        if self._owned:
            if self.capture is not None:
                raise self.capture.refusal(f"Stream.close of {self!r}", law.NEVER)
            self._owned, self._closed = False, True
            self.device.domain.ending(self.id)
            with self.device.call() as driver:
                driver.stream_destroy(self.device.index, self.handle)

    def __del__(self) -> None:
        if self._owned and self.capture is None:  # one that captures goes with its capture
            self.device.quietly(self.close)

    def require_open(self) -> None:
        """A closed stream's handle may be another's by now. Raises BadInput."""
        if self._closed:
            raise BadInput(f"{self!r} was closed; make another")

    def _indexed(self, arrays: Sequence[Array | Buffer], kernel: str) -> list[Array]:
        """Memory that a node of a graph goes through. Raises BadInput for any other launch: it knows what it touches."""
        found = arrays_of(arrays)
        if found and self.capture is None:
            raise BadInput(
                f"kernel {kernel} on {self!r}: indexed memory is a capture's; name what it touches in reads and writes"
            )
        if self.capture is not None:
            self.capture.indexed += found
        return found

    def _use(self, what: str, arrays: Sequence[Array], *, far: bool = False) -> None:
        """Before work is issued: an address of another machine may be anybody's. `far`: it may reach other devices' memory."""
        self.require_open()
        for array in arrays:
            if array.buffer.device.machine is not self.machine:
                raise BadInput(f"{self!r} cannot use {array.buffer!r} of another machine: copy it through the host")
        if self.machine.captures:
            forbid_work(self, what, arrays, far=far)
        for array in arrays:
            array.buffer.streams.setdefault(self.id, self)

    def __repr__(self) -> str:
        return f"Stream({self.name!r}, device {self.device.index})"


class Event:
    """A place in a stream: where it was recorded last. Never recorded, it is complete and orders nothing."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.mark: Mark | None = None  # where its latest record stands, for the device's pools; none where that is a capture's
        self.capture: tuple[Capture, Points] | None = None  # that it was recorded in last, and where
        self._owned = False
        with device.call() as driver:
            self.handle = driver.event_create(device.index)
        self._owned = True

    def synchronize(self) -> None:
        """Waits until the event's latest record has run."""
        mark = _live(self).mark
        if self.capture is not None or self.device.machine.captures:
            forbid_event(self, "Event.synchronize")
        with self.device.call() as driver:
            driver.event_sync(self.device.index, self.handle)
        if mark is not None:
            self.device.domain.reached(mark)

    @property
    def closed(self) -> bool:
        """Whether `close` was called. Its handle may be another event's by now."""
        return not self._owned

    def ready(self) -> bool:
        """Whether the event's latest record has run; does not wait."""
        _live(self)
        if self.capture is not None or self.device.machine.captures:
            forbid_event(self, "Event.ready")
        with self.device.call() as driver:
            return driver.event_query(self.device.index, self.handle)

    def close(self) -> None:
        """Destroys the event; a second call does nothing. Waits already issued keep their place."""
        if self._owned:
            self._owned = False
            with self.device.call() as driver:
                driver.event_destroy(self.device.index, self.handle)

    def __del__(self) -> None:
        self.device.quietly(self.close)

    def __repr__(self) -> str:
        return f"Event({self.handle:#x}, device {self.device.index})"


class Failure:
    """The first exception of a device's kernels, and the kernel's name: what its fault is chained to."""

    __slots__ = ("error", "kernel")

    def __init__(self) -> None:
        self.error: BaseException | None = None
        self.kernel: str | None = None  # none: a host function

    def told(self) -> str:
        """In one line which kernel raised what, and where."""
        who = "a host function" if self.kernel is None else f"kernel {self.kernel}"
        what = " ".join(f"{type(self.error).__name__}: {self.error}".split())
        frames = traceback.extract_tb(None if self.error is None else self.error.__traceback__)
        at = f" at {frames[-1].filename}:{frames[-1].lineno}" if frames else ""
        return f"{who} raised {what[:_LONGEST_CAUSE]}{at}"


class _Run:
    """A kernel (or a host function, which has no name), run once with the bytes of each array that has any. Answers whether it worked.

    It holds no buffer and no device: the driver holds it until it has run, and a device whose work never runs could not go.
    """

    __slots__ = ("arrays", "failure", "kernel", "name")

    def __init__(
        self,
        failure: Failure,
        name: str | None,
        kernel: Callable[..., object],
        arrays: Sequence[tuple[int, np.dtype[Any], tuple[int, ...]]],
    ) -> None:
        self.failure, self.name, self.kernel, self.arrays = failure, name, kernel, arrays

    def __call__(self, memory: list[LentBytes]) -> bool:
        arrays: list[NDArray[Any]] = []
        try:  # an interrupt may fall in anywhere
            lent = iter(memory)
            arrays += [
                view_of(next(lent), dtype, shape) if nbytes else np.empty(shape, dtype) for nbytes, dtype, shape in self.arrays
            ]
            with inside(self.name):
                self.kernel(*arrays)
            arrays.clear()
            _give_back(memory)
        except BaseException as error:
            traceback.clear_frames(error.__traceback__)  # they would keep arrays of bytes that go away
            self.failed(error)
            return False
        return True

    def failed(self, error: BaseException) -> None:
        """Keeps the first error, for whoever meets the fault of the device."""
        if self.failure.error is None:
            self.failure.error, self.failure.kernel = error, self.name


def _give_back(memory: list[LentBytes]) -> None:
    kept = sum(not lent.give_back() for lent in memory)  # every one is given back, whatever the others answer
    if kept:
        raise BadInput("the kernel kept an array beyond its run: copy what is to outlive it")


def uses_of(reads: list[Array], writes: list[Array]) -> tuple[list[Array], list[tuple[int, int, int, int]]]:
    """Both as one list, and what a launch says of them: (address, bytes, mode, space) of each that has bytes."""
    uses = [(a.address, a.nbytes, _READ, a.buffer.space_code) for a in reads if a.nbytes]
    uses += [(a.address, a.nbytes, _WRITE, a.buffer.space_code) for a in writes if a.nbytes]
    return reads + writes, uses


def arrays_of(given: Sequence[Array | Buffer]) -> list[Array]:
    """Each as an array. Raises BadInput for what is none, or was freed."""
    if not isinstance(given, Sequence):
        raise BadInput(f"reads and writes are sequences of arrays and buffers, not {type(given).__name__}: put it in a list")
    return [_array(a) for a in given]


def _array(a: Array | Buffer) -> Array:
    if isinstance(a, Buffer):
        return a.bytes()
    if not isinstance(a, Array):
        raise BadInput(f"{type(a).__name__} is neither an array nor a buffer of a device; allocate one")
    if a.buffer.freed:
        raise BadInput(f"array of a freed buffer, {a.nbytes} bytes at {a.address:#x}; allocate another")
    return a


def _live(event: Event) -> Event:
    if not isinstance(event, Event):
        raise BadInput(f"{type(event).__name__} is no event; make one with `Device.event` or `Stream.record`")
    if event.closed:
        raise BadInput(f"{event!r} was closed; make another")
    return event


def require_callable(kernel: Callable[..., object]) -> None:
    if not callable(kernel):
        raise BadInput(f"{type(kernel).__name__} cannot be called; a kernel or host function is a function of this process")


def name_of(kernel: Callable[..., object]) -> str:
    return getattr(kernel, "__name__", type(kernel).__name__)
