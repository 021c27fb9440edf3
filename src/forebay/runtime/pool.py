"""pool: a pool of device memory as a program sees it, and what its errors say. Which block serves what is native/pool's.

Every method may be called from any thread; a free never waits.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, Literal

from forebay import capture_law as law
from forebay._core.pool import Gauges, GrowBy, GuardedPool
from forebay._core.pool import Pool as NativePool
from forebay._core.tape import Sink
from forebay.errors import BadInput, DriverError, ForebayError, Pending, PoolExhausted
from forebay.gauges import GAUGES
from forebay.runtime.arguments import MOST, byte_count, count, nanoseconds, title
from forebay.runtime.buffer import Buffer, CheckedBuffer
from forebay.runtime.debug import Checks, Report, quarantine_of
from forebay.runtime.device import Device, explain, require_device
from forebay.runtime.stream import ForeignStream, Stream
from forebay.tape.events import Space
from forebay.units import duration, percent, size

__all__ = ["Pool"]

_numbers = itertools.count()

Growth = Literal["segments", "frames"]


class Pool:
    """Memory of one device for one consumer ("weights", "activations", "kv"), with a limit of its own.

    `limit` (bytes or "40GiB") bounds what it takes from the driver. `buckets` are sizes that requests round up to; without them
    to 512 bytes. A wait for frees lasts `wait_limit` seconds at most; 0 never waits. Where `gives_back` is false, other pools of
    the device cannot have its idle memory. `growth` is how it gets memory: "segments" of the driver, or "frames" mapped into address
    ranges, where the device can map (else DriverError): free memory then grows together across frames, and goes back by the frame.
    With `debug` (True, or the bytes of freed blocks to keep from reuse, "256MiB") canaries stand around blocks and a free fills them
    with poison, in stream order: a use after the free, or a write beyond a block, is raised once, as BadInput, by the next allocation
    or `check`, and at the latest warned of at the pool's end. It takes memory and time. Allocations raise PoolExhausted with figures
    and verdict, Pending when a wait reached its limit, DriverError.
    """

    _space = Space.device

    def __init__(
        self,
        device: Device,
        name: str,
        limit: int | str | None = None,
        buckets: Sequence[int] = (),
        consumer: str | None = None,
        *,
        growth: Growth = "segments",
        wait_limit: float = 10.0,
        gives_back: bool = True,
        debug: bool | int | str = False,
        tape: Sink | None = None,
        index: int | None = None,
    ) -> None:
        self.name, self.consumer = title(name, "pool name"), consumer
        self.device = require_device(device, f"pool {name}")
        self.limit = None if limit is None else byte_count(limit, f"pool {name}: limit", 1)
        wait_limit_ns = nanoseconds(wait_limit, f"pool {name}: wait_limit")
        if consumer is not None:
            title(consumer, f"pool {name}: consumer")
        if growth not in GrowBy.__members__:
            raise BadInput(f"pool {name}: no such growth: {growth!r}; there are {', '.join(GrowBy.__members__)}")
        quarantine = quarantine_of(debug, name)
        kind = "pinned" if self._space == Space.pinned else growth
        options: dict[str, Any] = {
            "index": next(_numbers) if index is None else count(index, f"pool {name}: index", most=2**32 - 1),
            "limit": self.limit,
            "buckets": [count(b, f"pool {name}: bucket", 1) for b in buckets],
            "wait_limit_ns": wait_limit_ns,
            "idle_shared": gives_back,
            "tape": tape or device.pool_rows(name, consumer, kind, self._space, self.limit),
            "space": self._space,
            "growth": GrowBy[growth],
        }
        self._checks: Checks | None = None
        self._buffer = Buffer if quarantine is None else CheckedBuffer
        self._native: NativePool | GuardedPool
        if quarantine is None:
            self._native = NativePool(device.domain, name, **options)
            self._alloc = self._native.alloc
            self.free_address = self._native.free  # (address) -> None: the fast path, no Python frame in between
        else:
            self._native = GuardedPool(device.domain, name, quarantine, **options)
            self._checks = Checks(self._native, name)
            self._checks.at_the_end_of(self)
            self._alloc, self.free_address = self._checks.alloc, self._checks.free
        self.trim = self._native.trim  # () -> bytes given back; waits for the work that used them

    def alloc(self, nbytes: int, stream: Stream | ForeignStream) -> Buffer:
        """A buffer that work on `stream` may use from now on; its free is ordered after every stream that used it.

        On a stream that takes part in a capture it comes from the graph's own memory.
        """
        if type(nbytes) is not int or not 0 < nbytes <= MOST:
            nbytes = count(nbytes, f"pool {self.name}: bytes asked", 1)
        if not isinstance(stream, Stream):
            stream = self.device.stream_of(stream, f"pool {self.name}")
        if stream.device is not self.device:
            raise self._elsewhere(stream)
        if stream.capture is not None:
            return stream.capture.alloc(nbytes, stream)
        try:
            address = self._alloc(nbytes, stream.id)
        except DriverError as error:
            explain(error, self.device.failure)
            raise
        return self._buffer(self.device, address, nbytes, self._release, self._space, stream)

    def alloc_address(self, nbytes: int, stream: Stream | ForeignStream) -> int:
        """The same without a buffer: whoever takes it gives it back with `free_address`, after `lend_address` for other streams."""
        if type(nbytes) is not int or not 0 < nbytes <= MOST:
            nbytes = count(nbytes, f"pool {self.name}: bytes asked", 1)
        if not isinstance(stream, Stream):
            stream = self.device.stream_of(stream, f"pool {self.name}")
        if stream.device is not self.device:
            raise self._elsewhere(stream)
        if stream.capture is not None:
            raise stream.capture.refusal(f"pool {self.name}: alloc_address on {stream!r}", law.POOLED)
        try:
            return self._alloc(nbytes, stream.id)
        except DriverError as error:
            explain(error, self.device.failure)
            raise

    def lend_address(self, address: int, stream: Stream | ForeignStream) -> None:
        """`stream` uses the block too: its free waits for that stream as well. It may be another device's of the same machine.

        Raises BadInput for an unknown address and for a stream of another machine.
        """
        stream = self.device.stream_of(stream, f"pool {self.name}")
        if stream.machine is not self.device.machine:
            raise self._elsewhere(stream)
        self._native.lend(count(address, f"pool {self.name}: address"), stream.id, stream.device.domain)

    def gauges(self, stream: Stream | ForeignStream | None = None) -> Gauges:
        """The figures now (forebay.gauges); `largest_free` and `largest_free_after_waits` of the stream, else of the best one."""
        if stream is None:
            return self._native.gauges()
        stream = self.device.stream_of(stream, f"pool {self.name}")
        if stream.device is not self.device:
            raise self._elsewhere(stream)
        return self._native.gauges(stream.id)

    def walk(self) -> None:
        """Checks the pool's whole structure. Raises ForebayError, naming what does not hold: a defect of forebay."""
        if broken := self._native.walk():
            raise ForebayError(f"pool {self.name}: {broken}; this is a defect of forebay, please report it")

    @property
    def reports(self) -> tuple[Report, ...]:
        """Of a pool made with `debug`: every misuse that it found so far."""
        return self._debugging().reports

    def check(self) -> None:
        """Of a pool made with `debug`: looks at every block now, which empties its quarantine, and waits for that. Raises BadInput for
        what it finds, Pending where a stream did not get there within `wait_limit`, DriverError.
        """
        self._debugging().check()

    def _debugging(self) -> Checks:
        if self._checks is None:
            raise BadInput(f"pool {self.name} looks at no block: make it with debug=True")
        return self._checks

    def _elsewhere(self, stream: Stream) -> BadInput:
        return BadInput(f"pool {self.name} is on another device than {stream!r}; use a pool of the stream's device")

    def _release(self, buffer: Buffer) -> None:
        if self._checks is not None and self.device.machine.captures:
            self.device.machine.later.append(lambda: self._release(buffer))  # its checks would become nodes
            return
        if buffer.streams:
            for stream in buffer.streams.values():
                self.lend_address(buffer.address, stream)
        self.free_address(buffer.address)

    def __repr__(self) -> str:
        g = self.gauges()
        return f"Pool({self.name!r}, reserved {size(g.reserved)}, allocated {size(g.allocated)})"


_REMEDY = {
    "full": "the device is full. Free something, lower what other pools and processes hold, or shrink the request",
    "capped": "the pool's own limit, while the device has room. Raise the limit or free something",
    "fragmented": "fragmented, not full. Give this consumer its own pool, or see `forebay explain checkerboard-fragmentation`",
    "pending": "freed bytes would do, but streams still use them. Synchronise those streams, or allow the pool to wait",
    "stranded": "idle bytes would do, but other streams or pools hold them. Let them give back, or trim them",
}

# By status: not initialised, as everything is in a forked child, and deinitialised.
_OVER = {
    3: "this process was forked and can never use its parent's device. Make devices and pools after the fork, or start with spawn",
    4: "the driver was shut down: nothing can be allocated any more in this process",
}

# What is no accident of the moment, by status: asking again would answer the same.
_ADVICE = {
    1: "the pool is as it was; check its sizes, and what the program did to the device behind its back",
    2: "the device has not so much left. Lower the limit, or free or trim something first",
    400: "the pool is as it was; the stream was destroyed behind its back, or is another device's: close streams with Stream.close",
    801: "the device cannot map memory. Make the pool with growth='segments'",
    **dict.fromkeys(range(900, 909), "a capture is under way: ask before it begins or after it ends"),
}


def error_of(
    *,
    code: str,
    pool: str,
    asked: int,
    stream: str,
    verdict: str,
    gauges: Gauges,
    limit: int | None,
    awaited: list[str],
    waited_ns: int,
    status: int,
    status_name: str,
    sticky: bool,
    call: str,
) -> Exception:
    """The exception for a native fault. Called by the binding."""
    if code == "exhausted":
        hint = f" (waiting for {', '.join(awaited)})" if awaited else ""
        text = f"pool {pool}: asked {size(asked)} on stream {stream}; {_figures(gauges, limit)}: {_REMEDY[verdict]}{hint}."
        return PoolExhausted(text, verdict=verdict, gauges=_values(gauges))
    if code == "pending":
        request = f"asked {size(asked)} on stream {stream}; waited" if asked else "its check waited"  # of debug mode
        figures = f" ({_figures(gauges, limit)})" if asked else ""
        text = (
            f"pool {pool}: {request} {duration(waited_ns)} for frees on {', '.join(awaited)}{figures}. "
            f"What do these streams wait for? Raise wait_limit if they are just slow."
        )
        return Pending(text, streams=tuple(awaited))
    if code == "driver":
        again = _ADVICE.get(status, "the pool is as it was: try again")
        advice = _OVER.get(status, "the device is lost: make a new one" if sticky else again)
        of = f" of {size(asked)}" if call == "reserve" else ""
        text = f"pool {pool}: {call}{of} answered {status_name} ({status}); {advice}"
        return DriverError(text, call=call, status=status, sticky=sticky or status in _OVER)
    if code == "unknown_stream":
        return BadInput(f"pool {pool}: stream {asked} is not known or was closed; use an open stream of the pool's device")
    if code == "unknown_address":
        return BadInput(f"pool {pool}: no live block begins at {asked:#x}; free each block once, with the pool it came from")
    return BadInput(f"pool {pool}: asked {size(asked)}, more than any device has; check the request")


def _figures(g: Gauges, limit: int | None) -> str:
    capped = "" if limit is None else f", limit {size(limit)}"
    share = f" = {percent(g.utilisation)}" if g.reserved else ""
    return (
        f"largest free block {size(g.largest_free_if_idle)} (reserved {size(g.reserved)}, allocated {size(g.allocated)}{share}, "
        f"stranded {size(g.stranded)}, pending {size(g.pending)}{capped})"
    )


def _values(g: Gauges) -> dict[str, int]:
    return {gauge.name: getattr(g, gauge.name) for gauge in GAUGES}
