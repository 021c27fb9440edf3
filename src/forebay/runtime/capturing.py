"""capturing: one capture while it is under way: which streams take part, what comes after what in it, which memory it saw, and the refusal
of whatever would break it, before the driver hears of it.

Why an operation breaks a capture is capture_law's; begin, end and replay are graph.py's.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from forebay import capture_law as law
from forebay.capture_law import Law, breaks
from forebay.errors import BadInput, DriverError
from forebay.runtime.place import program_line

if TYPE_CHECKING:
    from forebay.runtime.buffer import Array, Buffer
    from forebay.runtime.device import Device
    from forebay.runtime.graph_memory import GraphMemory
    from forebay.runtime.stream import Event, Stream

__all__ = [
    "Capture",
    "Points",
    "forbid_device",
    "forbid_event",
    "forbid_legacy",
    "forbid_on",
    "forbid_replay",
    "forbid_unsafe",
    "forbid_wait",
    "forbid_work",
]

Points = Mapping[int, int]  # by stream id: how many nodes of that stream come before


class Capture:
    """A capture between its begin and its end. One vector clock a stream that takes part says what comes before what it gets next."""

    def __init__(self, name: str, stream: Stream, mode: str, memory: GraphMemory) -> None:
        self.name, self.origin, self.mode = name, stream, mode
        self._memory: GraphMemory | None = memory
        self.thread, self.line, self.over = threading.get_ident(), program_line(), False
        self.streams = {stream.id: stream}
        self.nodes = 0
        self.baked: dict[Buffer, str] = {}  # and where it was first used
        self.indexed: list[Array] = []  # memory that nodes go through by indices
        self.offender: str | None = None  # the first call that invalidated it
        self.stray: str | None = None  # the first work of this thread that went past it
        self.last: dict[int, str] = {}  # by stream id, the latest node
        self._clocks: dict[int, dict[int, int]] = {stream.id: {}}

    def alloc(self, nbytes: int, stream: Stream) -> Buffer:
        """A buffer of the graph's own memory for what the stream gets from now on."""
        if self._memory is None:
            raise BadInput(f"{self!r} is over; allocate on a stream that takes part in none")
        return self._memory.alloc(nbytes, stream)

    def let_go(self) -> None:
        """It is over and its graph made or dropped: events that were recorded in it must not keep its memory."""
        self._memory, self.baked, self.indexed = None, {}, []

    def node(self, stream: Stream, what: str, arrays: Sequence[Array]) -> None:
        """Work is about to be issued into a stream that takes part."""
        line = program_line()
        clock = self._clocks[stream.id]
        clock[stream.id] = clock.get(stream.id, 0) + 1
        self.nodes += 1
        self.last[stream.id] = f"{what} at {line}"
        for array in arrays:
            if array.buffer.freed_at is None:
                array.buffer.freed_at = ""  # from now on it says where it was freed
            self.baked.setdefault(array.buffer, line)

    def place(self, stream: Stream) -> Points:
        """What comes before whatever the stream gets next."""
        return dict(self._clocks[stream.id])

    def comes_after(self, points: Points, stream: Stream) -> bool:
        """Whether whatever the stream gets next comes after them."""
        clock = self._clocks.get(stream.id, {})
        return all(clock.get(other, 0) >= count for other, count in points.items())

    def used_until(self, streams: Mapping[int, Stream]) -> Points:
        """Where those of the streams that take part stand now."""
        return {number: self._clocks[number].get(number, 0) for number in streams if number in self._clocks}

    def join(self, stream: Stream, points: Points) -> None:
        """The stream waits for an event that was recorded at `points`."""
        clock = self._clocks.setdefault(stream.id, {})
        for other, count in points.items():
            clock[other] = max(clock.get(other, 0), count)
        self.streams[stream.id] = stream
        stream.capture = self

    def unjoined(self) -> list[str]:
        """Streams whose work the stream that began does not come after, each with its latest work."""
        mine = self._clocks[self.origin.id]
        return [
            f"{stream!r} ({self.last[number]})"
            for number, stream in self.streams.items()
            if self._clocks[number].get(number, 0) > mine.get(number, 0)
        ]

    def blocking_on(self, device: Device) -> bool:
        """Whether a stream that joins the device's legacy default stream takes part."""
        return any(stream.device is device and stream.joins_legacy for stream in self.streams.values())

    def offended(self, error: DriverError) -> None:
        """A call came to a status that invalidates; if it was this capture, and the first time, it is remembered."""
        if self.offender is None and self._invalid():
            self.offender = f"{error.call} at {program_line()}{_on_thread(self)}"

    def _invalid(self) -> bool:
        try:
            info = self.origin.device.driver.capture_info(self.origin.device.index, self.origin.handle)
        except DriverError:
            return False
        return info.status.name == "invalidated"

    def refusal(self, what: str, why: Law) -> BadInput:
        """The error for an operation that would break it."""
        place = f"{what} at {program_line()}{_on_thread(self)}"
        return BadInput(f"{place} would break {self!r}: it {why.why}; {why.instead}")

    def __repr__(self) -> str:
        return f"the capture of `{self.name}` ({self.line}, mode {self.mode})"


def forbid_unsafe(captures: Sequence[Capture], what: str) -> None:
    """Before a call that might wait for the device. Raises BadInput, as all of these."""
    for capture in captures:
        if breaks(law.UNSAFE, capture.mode, own=capture.thread == threading.get_ident()):
            raise capture.refusal(what, law.UNSAFE)


def forbid_on(stream: Stream, what: str) -> None:
    """Before a sync or query of a stream."""
    if stream.capture is not None:
        raise stream.capture.refusal(f"{what} of {stream!r}", law.STREAM)
    forbid_legacy(stream, what)
    forbid_unsafe(stream.machine.captures, f"{what} of {stream!r}")


def forbid_event(event: Event, what: str) -> None:
    """Before a sync or query of an event."""
    if event.capture is None:
        return forbid_unsafe(event.device.machine.captures, f"{what} of {event!r}")
    capture = event.capture[0]
    raise _over(event, what) if capture.over else capture.refusal(f"{what} of {event!r}", law.EVENT)


def forbid_device(device: Device, what: str) -> None:
    """Before a sync of a whole device."""
    for capture in device.machine.captures:
        if any(stream.device is device for stream in capture.streams.values()):
            raise capture.refusal(what, law.DEVICE)


def forbid_work(stream: Stream, what: str, arrays: Sequence[Array] = (), *, far: bool = False) -> None:
    """Before work is issued, which is a node where the stream takes part. `far`: it may reach other devices' memory."""
    forbid_legacy(stream, what)
    capture = stream.capture
    if capture is None:
        for other in stream.machine.captures:
            if other.stray is None and other.thread == threading.get_ident():
                other.stray = f"{what} on {stream!r} at {program_line()}"
        return
    for array in arrays:
        if not far and array.buffer.device is not stream.device and array.buffer.space_code == 0:
            raise capture.refusal(f"{what} on {stream!r}", law.ELSEWHERE)
    capture.node(stream, what, arrays)


def forbid_wait(stream: Stream, event: Event) -> None:
    """Before a stream is made to wait for an event."""
    what = f"Stream.wait of {stream!r} for {event!r}"
    forbid_legacy(stream, what)
    mine, theirs = stream.capture, None if event.capture is None else event.capture[0]
    if theirs is not None and theirs.over:
        raise _over(event, what) if mine is None else mine.refusal(what, law.OVER)
    if mine is not None and theirs is None and event.mark is not None:
        raise mine.refusal(what, law.OUTSIDE)
    if mine is not None and theirs is not None and mine is not theirs:
        raise mine.refusal(what, law.MERGE)
    if theirs is not None and stream is stream.device.default_stream:
        raise theirs.refusal(what, law.LEGACY)


def forbid_replay(stream: Stream, what: str) -> None:
    """Before a graph is launched on a stream."""
    forbid_legacy(stream, what)
    if stream.capture is not None:
        raise stream.capture.refusal(f"{what} on {stream!r}", law.NEVER)


def forbid_legacy(stream: Stream, what: str) -> None:
    """Before anything is put into the legacy default stream."""
    if stream.legacy:
        for capture in stream.machine.captures:
            if capture.blocking_on(stream.device):
                raise capture.refusal(f"{what} on {stream!r}", law.LEGACY)


def _over(event: Event, what: str) -> BadInput:
    return BadInput(f"{what} at {program_line()}: {event!r} was last recorded in a capture that is over; {law.OVER.instead}")


def _on_thread(capture: Capture) -> str:
    return "" if capture.thread == threading.get_ident() else f" on thread {threading.current_thread().name}"
