"""driver_pool: the driver's own stream-ordered pool (what cudaMallocAsync allocates from) as a pool of ours: the same interface, none of
our free lists over it. What the driver does not tell is None in its gauges, never zero. Which bytes serve what is the driver's.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Final

from forebay import capture_law as law
from forebay._core.pool import DriverFigures, Lifetime
from forebay._core.pool import DriverPool as NativePool
from forebay.errors import BadInput, DriverError, ForebayError, NotSupported, PoolExhausted
from forebay.runtime.arguments import byte_count, count, label, nanoseconds
from forebay.runtime.buffer import Buffer
from forebay.runtime.device import Device
from forebay.runtime.stream import Stream
from forebay.tape.events import Space
from forebay.units import size

__all__ = ["DriverGauges", "DriverPool"]

_KEEP_ALL: Final = 2**64 - 1
_OUT_OF_MEMORY, _NOT_SUPPORTED = 2, 801


@dataclass(frozen=True, slots=True)
class DriverGauges:
    """The figures of a pool (forebay.gauges) as far as the driver tells them; None where it does not. Bytes, then counts.

    `active` is what the driver has in use. Whether a free is complete it does not tell: `allocated` and `pending` are known while no
    freed block waits for streams that it was lent to. `event_waits` is 0 where the driver may insert none.
    """

    reserved: int | None = None
    allocated: int | None = None
    requested: int | None = None
    active: int | None = None
    pending: int | None = None
    cached: int | None = None
    releasable: int | None = None
    stranded: int | None = None
    largest_free: int | None = None
    largest_free_after_waits: int | None = None
    largest_free_if_idle: int | None = None
    largest_servable: int | None = None
    hits: int | None = None
    misses: int | None = None
    driver_allocs: int | None = None
    driver_frees: int | None = None
    retries: int | None = None
    ooms: int | None = None
    event_waits: int | None = None

    @property
    def utilisation(self) -> float | None:
        """allocated / reserved; 1 where nothing is reserved; None where one of them is not known."""
        if self.allocated is None or self.reserved is None:
            return None
        return self.allocated / self.reserved if self.reserved else 1.0

    def __iter__(self) -> Iterator[tuple[str, int | None]]:
        return ((field.name, getattr(self, field.name)) for field in fields(self))


class DriverPool:
    """Memory of one CUDA device from the driver's own pool. The interface is Pool's, without `debug`.

    `limit` (bytes or "40GiB") bounds what the driver takes for it, where the driver can (CUDA 12.2). `release_threshold` bytes stay
    reserved when somebody waits for the device; None keeps all. Memory that was freed on one stream may go to another that an event
    made wait for it (`follow_events`), or where the free is known complete (`opportunistic`), or with a wait that the driver puts into
    the stream by itself (`internal_waits`: off, since such waits can tie streams together that must not be). Raises NotSupported where
    a device has no such pools: a simulated one has none.
    """

    def __init__(
        self,
        device: Device,
        name: str,
        limit: int | str | None = None,
        consumer: str | None = None,
        *,
        release_threshold: int | str | None = None,
        follow_events: bool = True,
        opportunistic: bool = True,
        internal_waits: bool = False,
        wait_limit: float = 10.0,
    ) -> None:
        self.device, self.name, self.consumer = device, label(name, "pool name"), consumer
        self.limit = None if limit is None else byte_count(limit, f"pool {name}: limit", 1)
        if consumer is not None:
            label(consumer, f"pool {name}: consumer")
        kept = _KEEP_ALL if release_threshold is None else byte_count(release_threshold, f"pool {name}: release_threshold")
        self._waits_itself = bool(internal_waits)
        rows = device.pool_rows(name, consumer, "driver", Space.device, self.limit, trusted=True)
        try:
            self._native = NativePool(
                device.domain,
                name,
                index=0,  # a tape has a number of its own for it
                limit=self.limit,
                release_threshold=kept,
                follow_events=bool(follow_events),
                opportunistic=bool(opportunistic),
                internal_waits=self._waits_itself,
                wait_limit_ns=nanoseconds(wait_limit, f"pool {name}: wait_limit"),
                tape=rows,
            )
        except DriverError as error:
            if error.status == _NOT_SUPPORTED:
                text = f"pool {name}: {device!r} has no pools of the driver's own; use Pool, or a CUDA device that has them"
                raise NotSupported(text) from None
            raise
        self.forget_peaks = self._native.forget_highs  # () -> None: `peaks` count from now

    def alloc(self, nbytes: int, stream: Stream) -> Buffer:
        """A buffer that work on `stream` may use from now on; its free is ordered after every stream that used it.

        On a stream that takes part in a capture it comes from the graph's own memory.
        """
        nbytes = count(nbytes, f"pool {self.name}: bytes asked", 1)
        if isinstance(stream, Stream) and stream.capture is not None and stream.device is self.device:
            return stream.capture.alloc(nbytes, stream)
        buffer = Buffer(self.device, self.alloc_address(nbytes, stream), nbytes, self._release)
        buffer.home = stream
        return buffer

    def alloc_address(self, nbytes: int, stream: Stream) -> int:
        """The same without a buffer: whoever takes it gives it back with `free_address`, after `lend_address` for other streams."""
        nbytes = count(nbytes, f"pool {self.name}: bytes asked", 1)
        self._require(stream)
        if stream.capture is not None:
            raise stream.capture.refusal(f"pool {self.name}: alloc_address on {stream!r}", law.POOLED)
        if stream.lifetime == Lifetime.foreign and self.device.driver.stream_capturing(self.device.index, stream.handle):
            raise BadInput(f"pool {self.name}: {stream!r} captures; the block would live in its graph alone: allocate before")
        try:
            return self._native.alloc(nbytes, stream.id)
        except DriverError as error:
            if error.status == _OUT_OF_MEMORY:
                raise self._exhausted(nbytes, stream) from error
            raise

    def free_address(self, address: int) -> None:
        """Gives a block back in stream order; never waits. Raises BadInput for an address that is none of its live blocks."""
        if self.device.machine.captures:
            self.device.machine.later.append(lambda: self._native.free(address))  # a free would become a node
            return
        self._native.free(count(address, f"pool {self.name}: address"))

    def lend_address(self, address: int, stream: Stream) -> None:
        """`stream` uses the block too: its free waits for that stream as well. It may be another device's of the same machine."""
        if not isinstance(stream, Stream) or stream.machine is not self.device.machine:
            raise self._elsewhere(stream)
        self._native.lend(count(address, f"pool {self.name}: address"), stream.id, stream.device.domain)

    def gauges(self, stream: Stream | None = None) -> DriverGauges:
        """The figures now. The driver tells them of the pool alone: a stream changes nothing."""
        if stream is not None:
            self._require(stream)
        f = self._native.figures()
        settled = f.parked == 0
        return DriverGauges(
            reserved=f.reserved,
            allocated=f.used if settled else None,
            requested=f.requested,
            active=f.used,
            pending=0 if settled else None,
            cached=f.reserved - f.used,
            ooms=f.ooms,
            event_waits=None if self._waits_itself else 0,
        )

    @property
    def peaks(self) -> tuple[int, int]:
        """The most bytes reserved, and in use, since the pool was made or `forget_peaks`."""
        f = self._native.figures()
        return f.reserved_high, f.used_high

    def trim(self) -> int:
        """Idle bytes go back to the device; returns how many did. Waits for nothing: what is still used stays."""
        if self.device.machine.captures:
            return 0
        return self._native.trim()

    def walk(self) -> None:
        """Holds the driver's count against the blocks that live. Raises ForebayError, naming what does not agree."""
        if broken := self._native.walk():
            raise ForebayError(f"pool {self.name}: {broken}; this is a defect of forebay, please report it")

    def _require(self, stream: object) -> None:
        if not isinstance(stream, Stream) or stream.device is not self.device:
            raise self._elsewhere(stream)

    def _elsewhere(self, stream: object) -> BadInput:
        if not isinstance(stream, Stream):
            return BadInput(f"pool {self.name}: {type(stream).__name__} is no stream; give the one whose work uses the block")
        return BadInput(f"pool {self.name} is on another device than {stream!r}; use a pool of the stream's device")

    def _release(self, buffer: Buffer) -> None:
        for stream in buffer.streams.values():
            self.lend_address(buffer.address, stream)
        self.free_address(buffer.address)

    def _exhausted(self, nbytes: int, stream: Stream) -> PoolExhausted:
        """What can be known: where its own bounds and the device's free bytes do not suffice. Else why is the driver's secret."""
        f: DriverFigures = self._native.figures()
        free = self.device.driver.memory_info(self.device.index).free_bytes
        idle = f.reserved - f.used
        if self.limit is not None and f.used + nbytes > self.limit:
            verdict, why = "capped", "the pool's own limit. Raise the limit or free something"
        elif idle + free < nbytes:
            verdict, why = "full", "the device is full. Free something, lower what others hold, or shrink the request"
        else:
            verdict = ""
            why = "as many bytes are idle: fragmented, or not yet complete; the driver does not tell. Synchronise, trim, or use Pool"
        text = (
            f"pool {self.name}: asked {size(nbytes)} on stream {stream.name} (reserved {size(f.reserved)}, in use {size(f.used)}, "
            f"free on the device {size(free)}): {why}."
        )
        return PoolExhausted(text, verdict=verdict, gauges={name: v for name, v in self.gauges() if v is not None})

    def __repr__(self) -> str:
        f = self._native.figures()
        return f"DriverPool({self.name!r}, reserved {size(f.reserved)}, in use {size(f.used)})"
