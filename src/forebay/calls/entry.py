"""entry: the words in which the table of calls is written. The rows are the other files' of this room."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from forebay._core.tape import Kind, StreamClass

_ASKED_FOR = frozenset({Kind.sync_event, Kind.sync_stream, Kind.sync_device})


class Place(StrEnum):
    """Which stream a call puts its work into, or asks about."""

    NOWHERE = "no stream"
    ARGUMENT = "the stream that it is given"
    DEFAULT = "the default stream"


class Waits(StrEnum):
    """What the host waits for inside a call."""

    NOTHING = "nothing"
    WORK = "its own work"  # and so for all that its stream held before
    EVENT = "the event"
    STREAM = "the stream"
    DEVICE = "the device"


class Condition(StrEnum):
    """When a call waits as its row says; otherwise it waits for nothing."""

    ALWAYS = "always"
    PAGEABLE = "where an end of the copy is pageable host memory"
    HOST_END = "where an end of the copy is host memory; an upload from pageable memory only until the source is read"
    HOST_TARGET = "where the target is pinned or managed memory"
    FIRST_USE = "where a kernel or module is loaded by it"


@dataclass(frozen=True, slots=True)
class Law:
    """What a call comes to during a stream capture: a CUresult (0 is legal) for each mode of the capture, and why.

    `global_mode`: a capture in global mode is under way on any thread. `thread_mode`: the calling thread has one in thread-local
    mode. `relaxed_mode`: it has one in relaxed mode, or switched itself to relaxed (cuThreadExchangeStreamCaptureMode).
    """

    name: str
    global_mode: int
    thread_mode: int
    relaxed_mode: int
    why: str

    def code(self, mode: str) -> int:
        """The CUresult under "global", "thread_local" or "relaxed". Raises KeyError for other words.

        >>> UNSAFE.code("global"), UNSAFE.code("relaxed")
        (900, 0)
        """
        return {"global": self.global_mode, "thread_local": self.thread_mode, "relaxed": self.relaxed_mode}[mode]


FREE = Law("free", 0, 0, 0, "touches no stream")
NODE = Law("node", 0, 0, 0, "becomes part of the graph where its stream captures")
UNSAFE = Law("unsafe", 900, 900, 0, "might wait for the device, so only relaxed mode lets it pass; it invalidates the capture")
STREAM = Law("stream", 900, 900, 900, "asks about work that has not run, where its stream captures; it invalidates the capture")
EVENT = Law("event", 907, 907, 907, "asks about an event that was last recorded inside a capture; it invalidates the capture")
DEVICE = Law("device", 900, 900, 900, "covers every stream of the context, the capturing one too; it invalidates the capture")
LEGACY = Law("legacy", 906, 906, 906, "the legacy default stream would depend on the capturing blocking stream")
NEVER = Law("never", 900, 900, 900, "has no place in a graph, where its stream captures; it invalidates the capture")


@dataclass(frozen=True, slots=True)
class Call:
    """One driver or runtime call: what it is on a tape, and what it does to the calling thread.

    `default` says what handle 0, or no handle at all, stands for: the legacy default stream, or the thread's own for the entry
    points that end in _ptds and _ptsz. `certain` is False where the documentation leaves it open and no measurement settled it.
    `source` is the page of NVIDIA's documentation, or the facts measured by this project.
    """

    name: str
    page: str
    kind: Kind | None = None  # the row it writes; None where it is no event of a tape
    place: Place = Place.NOWHERE
    waits: Waits = Waits.NOTHING
    when: Condition = Condition.ALWAYS
    law: Law = FREE
    certain: bool = True
    note: str = ""
    default: StreamClass = StreamClass.legacy

    @property
    def api(self) -> str:
        """Which library it is of: "Driver" or "Runtime"."""
        return "Runtime" if self.name.startswith("cuda") else "Driver"

    @property
    def stream(self) -> str | None:
        """The argument that names the stream; None where the call takes none (then `place` says whether the default stream is meant)."""
        if self.place is not Place.ARGUMENT:
            return None
        return "stream" if self.api == "Runtime" else "hStream"

    @property
    def blocks(self) -> bool:
        """Whether the calling thread may wait in it for work of the device."""
        return self.waits is not Waits.NOTHING

    @property
    def implied(self) -> bool:
        """Whether that wait is one which nobody asked for: the call is not a sync."""
        return self.blocks and self.kind not in _ASKED_FOR

    @property
    def source(self) -> str:
        """Where the facts come from."""
        return f"CUDA {self.api} API: {self.page}, {self.name}"


def family(page: str, names: str, kind: Kind | None = None, **facts: object) -> tuple[Call, ...]:
    """Calls that share every fact, by their names with spaces between."""
    return tuple(Call(name, page, kind, **facts) for name in names.split())  # type: ignore[arg-type]
