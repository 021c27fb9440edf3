"""The tape's vocabulary: kinds, columns, flags, modes."""

import enum


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

    graph_launch = 26

    graph_destroy = 27

    region_begin = 28

    region_end = 29

    oom = 30

    capacity = 31

    settings = 32

    flush = 33

    gap = 34

    note = 35

    define = 36

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
