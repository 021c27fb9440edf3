"""The tape's vocabulary: kinds, columns, flags, modes."""

from collections.abc import Sequence
import enum
from typing import overload


class Kind(enum.IntEnum):
    """What a row says happened."""

    reserve = 0

    release = 1

    map = 2

    unmap = 3

    pin = 4

    unpin = 5

    alloc = 6

    free = 7

    lend = 8

    reclaim = 9

    launch = 10

    copy = 11

    memset = 12

    host_access = 13

    host_func = 14

    stream_create = 15

    stream_destroy = 16

    record = 17

    wait = 18

    event_destroy = 19

    sync_event = 20

    sync_stream = 21

    sync_device = 22

    query = 23

    capture_begin = 24

    capture_end = 25

    graph_instantiate = 26

    graph_launch = 27

    graph_destroy = 28

    region_begin = 29

    region_end = 30

    oom = 31

    capacity = 32

    settings = 33

    flush = 34

    gap = 35

    note = 36

    define = 37

class Flag(enum.IntFlag):
    """Bits of the `flags` column."""

    __str__ = __repr__

    def __repr__(self, /):
        """Return repr(self)."""

    READY = 1

    BLOCKING = 2

    POOL_MADE = 4

    TRUSTED = 8

    IMPLIED = 16

    GRAPH_POOL = 32

    EXPANDABLE = 64

    OVERLAPS = 128

    INVALIDATED = 256

    INCOMPLETE = 512

    DEPENDENT = 1024

    EXTERNAL = 2048

class Mode(enum.IntEnum):
    """How a use touches its bytes."""

    read = 0

    write = 1

    atomic = 2

    unknown = 3

class Extent(enum.IntEnum):
    """How well a use's byte range is known."""

    exact = 0

    hull = 1

    block = 2

class Space(enum.IntEnum):
    """Where the bytes of a use lie."""

    device = 0

    pinned = 1

    pageable = 2

    managed = 3

class StreamClass(enum.IntEnum):
    """How a stream stands to its device's legacy default stream."""

    legacy = 0

    blocking = 1

    nonblocking = 2

    per_thread = 3

COLUMNS: list = ...

def fills(kind: Kind) -> list[str]:
    """
    The names of the columns that rows of `kind` can fill, `kind` itself left out.
    """

class Sink:
    """Whoever wants rows as they happen."""

class Recorder(Sink):
    """Rows of many threads into one tape, in memory or as a growing file."""

    @overload
    def __init__(self) -> None:
        """Rows stay in memory."""

    @overload
    def __init__(self, path: str, metadata: Sequence[tuple[str, str]]) -> None:
        """Rows go to a file, a batch at a time. Raises OSError."""

    def write(self, kind: Kind, uses: Sequence[tuple[int, int, Mode, Extent, Space]] = [], **values) -> None:
        """
        One row: its columns by name, its uses as (address, size, mode, extent, space).
        """

    def extend(self, tape: object) -> None:
        """Every row of a tape; its ids are taken to be this recorder's."""

    def string(self, text: str) -> int:
        """The id of a string."""

    def site(self, frames: Sequence[tuple[str, int, str]]) -> int:
        """The id of a stack of (file, line, function), innermost first."""

    def stream(self, name: str, handle: int | None = None, device: int = 0, kind: StreamClass | None = None, priority: int | None = None) -> int:
        """A new id in the table of streams."""

    def pool(self, name: str, consumer: str | None = None, kind: str | None = None, device: int = 0, space: str = 'device') -> int:
        """A new id in the table of pools."""

    def thread(self, name: str = '', tid: int | None = None) -> int:
        """The index of the calling thread; its first call gives the facts."""

    def flush(self) -> None:
        """What is pending goes to the file."""

    def close(self) -> None:
        """Flush and end the file; idempotent."""

    @property
    def rows(self) -> int:
        """Rows taken so far, define rows included."""

    @property
    def flushed(self) -> int:
        """Rows that the file holds."""

    @property
    def mid_life(self) -> bool:
        """Whether rows tell of a device that held memory before they began."""

    @property
    def lost(self) -> int:
        """Rows that no file holds: it failed, or was closed."""

    @property
    def error(self) -> int:
        """errno of the write that failed; 0 where none did."""

    def copy(self) -> tuple:
        """
        The rows in memory (with a file: those pending): columns, uses, known, define texts.
        """

def note_callers(own: Sequence[str] | None) -> None:
    """
    From now on rows and reports get the stack of the call that makes them, without the frames whose file begins with one of `own`; until None was given as often: they get none then.
    """

def next_seq() -> int:
    """The next number of the process-wide order of calls."""
