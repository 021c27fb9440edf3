"""entry: the words in which the table of calls is written. The rows are the other files' of this room."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

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
    LOADED = "where a module of it was loaded"


@dataclass(frozen=True, slots=True)
class Law:
    """What a call comes to while a stream captures: CUresult numbers (0 is legal), each for the modes global, thread_local, relaxed.

    `own`: the call is made by the thread that began the capture. `other`: by another thread, which has no capture of its own and
    did not switch its mode (cuThreadExchangeStreamCaptureMode). A call that is refused also invalidates the capture, unless
    `spares`. All were measured (benchmarks/results/calls-h200.json).
    """

    name: str
    own: tuple[int, int, int]
    other: tuple[int, int, int]
    why: str
    spares: bool = False

    def code(self, mode: str) -> int:
        """The CUresult on the capturing thread under "global", "thread_local" or "relaxed". Raises KeyError for other words.

        >>> UNSAFE.code("thread_local"), UNSAFE.code_elsewhere("thread_local")
        (900, 0)
        """
        return self.own[_MODES[mode]]

    def code_elsewhere(self, mode: str) -> int:
        """The same on another thread."""
        return self.other[_MODES[mode]]


_MODES = {"global": 0, "thread_local": 1, "relaxed": 2}


def _everywhere(name: str, code: int, why: str, *, spares: bool = False) -> Law:
    return Law(name, (code,) * 3, (code,) * 3, why, spares)


FREE = _everywhere("free", 0, "does nothing that a capture minds")
NODE = _everywhere("node", 0, "becomes part of the graph")
UNSAFE = Law("unsafe", (900, 900, 0), (900, 0, 0), "might wait for the device")
STREAM = _everywhere("stream", 900, "asks about work that a capture holds back")
EVENT = _everywhere("event", 907, "asks about an event whose record a capture holds back")
ELAPSED = _everywhere("elapsed", 907, "asks about an event whose record a capture holds back", spares=True)
DEVICE = _everywhere("device", 900, "covers every stream of the context, the capturing one too")
LEGACY = _everywhere("legacy", 906, "would tie the legacy default stream to the blocking stream that captures")
AGAIN = _everywhere("again", 401, "takes part in a capture already", spares=True)
NEVER = _everywhere("never", 900, "has no place in a graph")


@dataclass(frozen=True, slots=True)
class Call:
    """One driver or runtime call: what it is on a tape, and what it does to the calling thread.

    `default` says what handle 0, or no handle at all, stands for: the legacy default stream, or the thread's own for the entry
    points that end in _ptds and _ptsz. `inside` is the law during a capture where the call's stream or event takes part in it (for
    the default stream: where a blocking stream captures), `beside` where it does not; the same where it names neither. `certain`
    is False where the documentation leaves it open and no measurement settled it.
    `source` is the page of NVIDIA's documentation, or the facts measured by this project.
    """

    name: str
    page: str
    kind: Kind | None = None  # the row it writes; None where it is no event of a tape
    place: Place = Place.NOWHERE
    waits: Waits = Waits.NOTHING
    when: Condition = Condition.ALWAYS
    inside: Law = FREE
    beside: Law = FREE
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


def family(page: str, names: str, kind: Kind | None = None, *, law: Law | None = None, **facts: Any) -> tuple[Call, ...]:
    """Calls that share every fact, by their names with spaces between. `law` is the law inside a capture and beside it."""
    if law is not None:
        facts |= {"inside": law, "beside": law}
    return tuple(Call(name, page, kind, **facts) for name in names.split())
