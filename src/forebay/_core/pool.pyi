"""Pools, the order they go by, gauges, and replays."""

from collections.abc import Sequence
import enum
from typing import Annotated, overload

import numpy
from numpy.typing import NDArray

import forebay._core.driver
import forebay._core.tape


class Gauges:
    """
    The figures of a pool at one moment: bytes, then counts (forebay.gauges).
    """

    @property
    def reserved(self) -> int: ...

    @property
    def allocated(self) -> int: ...

    @property
    def requested(self) -> int: ...

    @property
    def active(self) -> int: ...

    @property
    def pending(self) -> int: ...

    @property
    def cached(self) -> int: ...

    @property
    def releasable(self) -> int: ...

    @property
    def stranded(self) -> int: ...

    @property
    def largest_free(self) -> int: ...

    @property
    def largest_free_after_waits(self) -> int: ...

    @property
    def largest_free_if_idle(self) -> int: ...

    @property
    def largest_servable(self) -> int: ...

    @property
    def hits(self) -> int: ...

    @property
    def misses(self) -> int: ...

    @property
    def driver_allocs(self) -> int: ...

    @property
    def driver_frees(self) -> int: ...

    @property
    def retries(self) -> int: ...

    @property
    def ooms(self) -> int: ...

    @property
    def event_waits(self) -> int: ...

    @property
    def utilisation(self) -> float: ...

    @property
    def fragmentation(self) -> float: ...

GAUGES: list = ...

class Lifetime(enum.Enum):
    """
    Whether a stream's end will be told (`ours`), or may go unseen (`foreign`).
    """

    ours = 0

    foreign = 1

class Mark:
    """A place in a device's order."""

class Domain:
    """
    What all pools of one device share: streams, and the edges between them.
    """

    @overload
    def __init__(self, driver: forebay._core.driver.Driver, device: int) -> None: ...

    @overload
    def __init__(self, driver: forebay._core.driver.Driver, device: int, sim: forebay._core.driver.SimDriver) -> None:
        """Waits pass on the simulated clock."""

    def adopt(self, handle: int, lifetime: Lifetime, name: str = '') -> int:
        """Makes a stream known; returns its id."""

    def knows(self, stream: int) -> bool: ...

    def capture_begins(self, stream: int) -> None:
        """
        Just before the stream takes part in a capture: no pool asks it anything until that ends.
        """

    def capture_ends(self, stream: int) -> None: ...

    def ending(self, stream: int) -> None:
        """To be called before the stream is destroyed."""

    def mark(self, stream: int) -> Mark:
        """Just before a record or a sync: all that the stream was given."""

    def mark_all(self) -> Mark:
        """Just before the device is synchronised."""

    def ordered(self, stream: int, mark: Mark) -> None:
        """After the stream was told to wait for the record at `mark`."""

    def reached(self, mark: Mark) -> None:
        """The host knows all before `mark` complete."""

    def note(self, status: int) -> None:
        """
        What a driver call of the program answered: after a sticky error the device's pools make none.
        """

    @property
    def forked(self) -> bool:
        """Whether this process is a child of the one that made it."""

    @property
    def dead(self) -> bool: ...

    @property
    def idle_frame_bytes(self) -> int:
        """Frames that are mapped nowhere, kept for the device's pools."""

    @property
    def quarantined_bytes(self) -> int:
        """Device memory whose clean-up failed: of no use until it succeeds."""

    @property
    def quarantined_pinned_bytes(self) -> int:
        """Pinned memory whose clean-up failed."""

class GrowBy(enum.Enum):
    """How a pool gets memory from the device."""

    segments = 0

    frames = 1

class Pool:
    """Device memory in stream order; streams go by their driver id."""

    def __init__(self, domain: Domain, name: str, *, index: int = 0, limit: int | None = None, buckets: Sequence[int] = [], wait_limit_ns: int = 10000000000, idle_shared: bool = True, tape: forebay._core.tape.Sink | None = None, space: forebay._core.tape.Space = Space.device, growth: GrowBy = GrowBy.segments, of_a_graph: bool = False) -> None:
        """That of a graph asks nobody to make room: it grows, or raises at once."""

    def alloc(self, nbytes: int, stream: int) -> int:
        """
        The address of a block for `stream`. Raises PoolExhausted, Pending, DriverError.
        """

    def free(self, address: int) -> None:
        """
        Gives a block back in stream order; never waits. Raises BadInput for an unknown address.
        """

    def lend(self, address: int, stream: int, domain: Domain) -> None:
        """
        `stream`, of that domain, uses the block too: its free waits for that stream.
        """

    def trim(self) -> int:
        """Gives wholly idle memory back to the driver; returns the bytes."""

    @overload
    def gauges(self) -> Gauges: ...

    @overload
    def gauges(self, stream: int) -> Gauges: ...

    def walk(self) -> str | None:
        """
        The full check: what is wrong, or None. No other thread may be in the pool.
        """

    @property
    def reserved(self) -> int: ...

class Misuse(enum.Enum):
    """What a pool in debug mode finds."""

    read_after_free = 0

    write_after_free = 1

    overrun = 2

class Suspect:
    """
    Work that misused a block, or may have; `touched`: it declares a use of the block.
    """

    @property
    def name(self) -> str: ...

    @property
    def stream(self) -> str: ...

    @property
    def site(self) -> str: ...

    @property
    def touched(self) -> bool: ...

class Report:
    """
    One misuse of a block. Bytes; `offset` and `last` count from the block's address: what was found changed there; `further`: nobody looked beyond.
    """

    @property
    def misuse(self) -> Misuse: ...

    @property
    def address(self) -> int: ...

    @property
    def nbytes(self) -> int: ...

    @property
    def stream(self) -> str: ...

    @property
    def allocated_at(self) -> str: ...

    @property
    def freed_at(self) -> str: ...

    @property
    def offset(self) -> int | None: ...

    @property
    def last(self) -> int | None: ...

    @property
    def further(self) -> bool: ...

    @property
    def suspects(self) -> list[Suspect]: ...

    @property
    def forgotten(self) -> int: ...

class GuardedPool:
    """A pool in debug mode: what Pool has, and its checks."""

    def __init__(self, domain: Domain, name: str, quarantine: int, *, index: int = 0, limit: int | None = None, buckets: Sequence[int] = [], wait_limit_ns: int = 10000000000, idle_shared: bool = True, tape: forebay._core.tape.Sink | None = None, space: forebay._core.tape.Space = Space.device, growth: GrowBy = GrowBy.segments) -> None: ...

    def alloc(self, nbytes: int, stream: int) -> int: ...

    def free(self, address: int) -> None: ...

    def lend(self, address: int, stream: int, domain: Domain) -> None: ...

    def trim(self) -> int: ...

    @overload
    def gauges(self) -> Gauges: ...

    @overload
    def gauges(self, stream: int) -> Gauges: ...

    def walk(self) -> str | None: ...

    @property
    def reserved(self) -> int: ...

    @property
    def staging_reserved(self) -> int:
        """Pinned bytes that its checks hold."""

    def check(self) -> None:
        """Looks at every block and waits for what that takes."""

    @property
    def reports(self) -> list[Report]: ...

    @property
    def unseen(self) -> int:
        """Blocks that could not be looked at."""

    def freed_at(self, address: int) -> str | None:
        """Where a block in quarantine was freed, or None."""

class DriverFigures:
    """
    What the driver says of its pool, and what is counted beside it: bytes, then counts.
    """

    @property
    def reserved(self) -> int: ...

    @property
    def reserved_high(self) -> int: ...

    @property
    def used(self) -> int: ...

    @property
    def used_high(self) -> int: ...

    @property
    def requested(self) -> int: ...

    @property
    def parked(self) -> int: ...

    @property
    def allocs(self) -> int: ...

    @property
    def ooms(self) -> int: ...

class DriverPool:
    """The driver's own stream-ordered pool; streams go by their driver id."""

    def __init__(self, domain: Domain, name: str, *, index: int, limit: int | None, release_threshold: int, follow_events: bool, opportunistic: bool, internal_waits: bool, wait_limit_ns: int, tape: forebay._core.tape.Sink | None) -> None: ...

    def alloc(self, nbytes: int, stream: int) -> int: ...

    def free(self, address: int) -> None: ...

    def lend(self, address: int, stream: int, domain: Domain) -> None: ...

    def trim(self) -> int:
        """Idle bytes go back to the device; returns how many did."""

    def figures(self) -> DriverFigures: ...

    def forget_highs(self) -> None:
        """Peaks count from now."""

    def walk(self) -> str | None:
        """What does not agree with the driver's count, or None."""

class Move(enum.IntEnum):
    """What a row of a history does to a block."""

    alloc = 0

    free = 1

    lend = 2

    let_go = 3

    trim = 4

class Outcome:
    """What a history took from its pools. Bytes; events count from 0."""

    @property
    def events(self) -> int: ...

    @property
    def peak_reserved(self) -> int: ...

    @property
    def peak_allocated(self) -> int: ...

    @property
    def peak_active(self) -> int: ...

    @property
    def peak_requested(self) -> int: ...

    @property
    def peak_allocated_event(self) -> int: ...

    @property
    def largest_free_at_peak(self) -> int: ...

    @property
    def largest_free_at_end(self) -> int: ...

    @property
    def hits(self) -> int: ...

    @property
    def misses(self) -> int: ...

    @property
    def driver_allocs(self) -> int: ...

    @property
    def driver_frees(self) -> int: ...

    @property
    def retries(self) -> int: ...

    @property
    def ooms(self) -> int: ...

    @property
    def unknown_frees(self) -> int: ...

    @property
    def oom_event(self) -> int | None: ...

    @property
    def oom_verdict(self) -> str | None: ...

class Replay:
    """A history through pools of its own on a driver, chunk by chunk."""

    def __init__(self, driver: forebay._core.driver.Driver, device: int, limits: Sequence[int | None] = [None], buckets: Sequence[int] = [], growth: GrowBy = GrowBy.segments, growths: Sequence[GrowBy] = [], keeps: Sequence[bool] = []) -> None:
        """
        One pool a limit (bytes, or None); `growths` are the pools' own, and one that keeps shares no idle memory.
        """

    def feed(self, move: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], address: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)], bytes: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)], stream: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu', writable=False)], pool: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> None: ...

    def outcome(self) -> Outcome: ...

    def samples(self) -> list[tuple[int, int, int, int]]:
        """
        (event, reserved, allocated, requested), evenly spread over the events so far.
        """
