"""paged: a pool of fixed blocks for the dominant consumer, and the sequences that hold them. Which page serves what is native/pool's.

A sequence remembers the streams that used it; its end is ordered after them all, never waits, and comes with its object.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from collections.abc import Sequence as Many
from typing import TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from forebay import capture_law as law
from forebay._core.paged import PagedPool as NativePagedPool
from forebay._core.paged import Sequence as NativeSequence
from forebay._core.pool import Gauges
from forebay._core.tape import Sink
from forebay.errors import BadInput, DriverError, ForebayError
from forebay.runtime.arguments import byte_count, count, nanoseconds, title
from forebay.runtime.buffer import Array, Buffer
from forebay.runtime.debug import Misuses, Report, pages_of, quarantine_of
from forebay.runtime.device import Device, explain, require_device
from forebay.runtime.stream import ForeignStream, Stream
from forebay.tape.events import Space
from forebay.units import size

__all__ = ["PagedPool", "Sequence"]

_MOST_TOKENS = 2**32 - 1

Answer = TypeVar("Answer")

_numbers = itertools.count(1 << 16)  # apart from the segment pools'

Tokens = Many[int] | NDArray[np.uint32]


class PagedPool:
    """As many pages of `page_bytes` as fit in `limit` bytes (a number, or "40GiB"), from one reservation of the driver.

    A page serves `page_tokens` tokens, which divides `page_bytes`. A wait for frees lasts `wait_limit` seconds at most; 0 never
    waits. With `debug` (True, or the bytes of pages to keep from reuse) a page that nobody holds or can find any more is filled with
    poison, in stream order: a use by a block table that outlived its sequence is raised once, as BadInput, by the next `open`, `grow` or
    `check`. Raises BadInput for an impossible shape, DriverError.
    """

    def __init__(
        self,
        device: Device,
        name: str,
        limit: int | str,
        *,
        page_bytes: int,
        page_tokens: int,
        consumer: str | None = None,
        wait_limit: float = 10.0,
        debug: bool | int | str = False,
        tape: Sink | None = None,
        index: int | None = None,
    ) -> None:
        self.name, self.consumer = title(name, "pool name"), consumer
        self.device = require_device(device, f"pool {name}")
        if consumer is not None:
            title(consumer, f"pool {name}: consumer")
        self.page_bytes = count(page_bytes, f"pool {name}: page_bytes", 1)
        self.page_tokens = count(page_tokens, f"pool {name}: page_tokens", 1, _MOST_TOKENS)
        self.pages = _pages(name, byte_count(limit, f"pool {name}: limit"), self.page_bytes, self.page_tokens)
        quarantine = quarantine_of(debug, name)
        self._native = NativePagedPool(
            device.domain,
            name,
            page_bytes=page_bytes,
            pages=self.pages,
            page_tokens=page_tokens,
            index=next(_numbers) if index is None else count(index, f"pool {name}: index", most=2**32 - 1),
            wait_limit_ns=nanoseconds(wait_limit, f"pool {name}: wait_limit"),
            tape=tape or device.pool_rows(name, consumer, "paged", Space.device, self.pages * self.page_bytes),
            quarantine=quarantine,
        )
        self._misuses: Misuses | None = None
        if quarantine is not None:
            self._misuses = Misuses(self._native, name, pages_of(self._native))
            self._misuses.at_the_end_of(self)

    def storage(self) -> Buffer:
        """All pages, one after another, for kernels of a graph that go through them by tables (`Stream.launch`, indexed). Whoever holds it
        holds the pool.
        """
        return Buffer(self.device, self._native.address(0), self.pages * self.page_bytes, lambda _: self)

    def open(self, stream: Stream | ForeignStream, tokens: Tokens = ()) -> Sequence:
        """A sequence whose first pages are those that hold the first of `tokens` already, as far as `stream` may read them.

        Only whole pages are found; `written` says how many tokens that are. They need not be computed again.
        """
        self._raise_new()
        return Sequence(self, self._met(self._native.open, _tokens(self.name, tokens), self._user(stream, "open")))

    def available(self, stream: Stream | ForeignStream) -> int:
        """Pages that work on `stream` can have without a wait. Asks the other streams how far they got."""
        return self._native.available(self._id(stream))

    def cap(self, pages: int) -> None:
        """From now on at most `pages` pages live at once. Raises BadInput for a negative number, and for more than the pool has."""
        self._native.limit(count(pages, f"pool {self.name}: cap", most=self.pages))

    def gauges(self, stream: Stream | ForeignStream | None = None) -> Gauges:
        """The figures now (forebay.gauges), in bytes of whole pages: a table needs no two of them side by side."""
        return self._native.gauges() if stream is None else self._native.gauges(self._id(stream))

    def walk(self) -> None:
        """Checks the pool's whole structure. Raises ForebayError, naming what does not hold: a defect of forebay."""
        if broken := self._native.walk():
            raise ForebayError(f"pool {self.name}: {broken}; this is a defect of forebay, please report it")

    @property
    def reports(self) -> tuple[Report, ...]:
        """Of a pool made with `debug`: every misuse that it found so far."""
        return self._debugging().reports

    def check(self) -> None:
        """Of a pool made with `debug`: looks at every page in quarantine now, which empties it, and waits for that. Raises BadInput for
        what it finds, Pending where a stream did not get there within `wait_limit`, DriverError.
        """
        self._debugging().check()

    def _debugging(self) -> Misuses:
        if self._misuses is None:
            raise BadInput(f"pool {self.name} looks at no page: make it with debug=True")
        return self._misuses

    def _finish(self, sequence: NativeSequence) -> None:
        captures, later = self.device.machine.captures, self.device.machine.later
        if self._misuses is not None and captures:
            later.append(lambda: self._finish(sequence))  # its checks would become nodes
        else:
            sequence.finish()

    def _raise_new(self) -> None:
        if self._misuses is not None:
            self._misuses.raise_new()

    def _met(self, call: Callable[..., Answer], *arguments: object) -> Answer:
        """The native call; an error of it says which kernel lost the device, where one did."""
        try:
            return call(*arguments)
        except DriverError as error:
            explain(error, self.device.failure)
            raise

    def _id(self, stream: Stream | ForeignStream) -> int:
        return self._known(stream).id

    def _known(self, stream: Stream | ForeignStream) -> Stream:
        stream = self.device.stream_of(stream, f"pool {self.name}")
        if stream.device is not self.device:
            raise BadInput(f"pool {self.name} is on device {self.device.index}, {stream!r} is not; use a pool of its own device")
        return stream

    def _user(self, stream: Stream | ForeignStream, what: str) -> int:
        stream = self._known(stream)
        if stream.capture is not None:
            raise stream.capture.refusal(f"pool {self.name}: {what} on {stream!r}", law.POOLED)
        return stream.id

    def __repr__(self) -> str:
        return (
            f"PagedPool({self.name!r}, {self.pages} pages of {size(self.page_bytes)}, allocated {size(self.gauges().allocated)})"
        )


class Sequence:
    """The pages of one sequence of tokens. Made by `PagedPool.open` and `fork`; one thread at a time calls it."""

    def __init__(self, pool: PagedPool, native: NativeSequence) -> None:
        self.pool, self._native = pool, native
        self._bytes = Buffer(pool.device, pool._native.address(0), pool.pages * pool.page_bytes, lambda _: None)

    @property
    def table(self) -> list[int]:
        """Its pages by number, in the order of its tokens."""
        return self._live().table

    @property
    def room(self) -> int:
        """Tokens that it has pages for."""
        return self._live().room

    @property
    def written(self) -> int:
        """Tokens that were found written, or committed."""
        return self._live().written

    def grow(self, tokens: int, stream: Stream | ForeignStream) -> None:
        """Room for `tokens` more, usable on `stream`. A last page that others hold too is copied there first.

        Raises PoolExhausted with figures and verdict, Pending, DriverError; the sequence is then as it was. BadInput for a
        negative number.
        """
        tokens = count(tokens, f"pool {self.pool.name}: grow", most=_MOST_TOKENS)
        self.pool._raise_new()
        self.pool._met(self._live().grow, tokens, self.pool._user(stream, "grow"))

    def commit(self, tokens: Tokens, stream: Stream | ForeignStream) -> None:
        """The next tokens of its room, by work that `stream` has been given: pages that this fills can be found from now on.

        Raises BadInput where there is less room.
        """
        if not self._live().commit(_tokens(self.pool.name, tokens), self.pool._user(stream, "commit")):
            room = self.room - self.written
            raise BadInput(f"pool {self.pool.name}: commit of {len(tokens)} tokens into room for {room}; grow the sequence first")

    def fork(self, stream: Stream | ForeignStream) -> Sequence:
        """The same tokens once more, on the same pages, for work on `stream`. Raises BadInput while some room is not committed."""
        twin = self.pool._met(self.pool._native.fork, self._live(), self.pool._user(stream, "fork"))
        if twin is None:
            missing = self.room - self.written
            raise BadInput(f"pool {self.pool.name}: {missing} tokens of the sequence are not written; commit them before a fork")
        return Sequence(self.pool, twin)

    def page(self, index: int, dtype: DTypeLike, shape: int | Many[int], offset: int = 0) -> Array:
        """An array in the page at `index` of the table, `offset` bytes from its begin, for launches and copies.

        The sequence remembers the streams that it is used on. Raises BadInput where it does not fit the page.
        """
        pages, offset = self.table, count(offset, "offset")
        if not isinstance(index, int) or not -len(pages) <= index < len(pages):
            raise BadInput(f"pool {self.pool.name}: page {index!r} of a sequence of {len(pages)} pages; grow it first")
        array = self._bytes.array(dtype, shape, pages[index] * self.pool.page_bytes + offset)
        if offset + array.nbytes > self.pool.page_bytes:
            raise BadInput(f"array of {array.nbytes} bytes at byte {offset} of a page of {self.pool.page_bytes} bytes")
        return array

    def finish(self) -> None:
        """Gives its pages back, after all that its streams have been given. Never waits; a second call does nothing."""
        if self._bytes.freed:
            return
        for stream in self._bytes.streams.values():
            self._native.use(self.pool._id(stream))
        self._bytes.free()
        self.pool._finish(self._native)

    def _live(self) -> NativeSequence:
        if self._bytes.freed:
            raise BadInput(f"pool {self.pool.name}: the sequence was finished; open another")
        return self._native

    def __del__(self) -> None:
        self.pool.device.quietly(self.finish)

    def __repr__(self) -> str:
        return "Sequence(finished)" if self._bytes.freed else f"Sequence({self.room} tokens on {len(self.table)} pages)"


def _tokens(name: str, tokens: Tokens) -> NDArray[np.uint32]:
    try:
        array = np.asarray(tokens, np.uint32)
    except (TypeError, ValueError, OverflowError) as error:
        raise BadInput(f"pool {name}: tokens are numbers from 0 to {_MOST_TOKENS} ({error})") from None
    if array.ndim != 1:
        raise BadInput(f"pool {name}: tokens of shape {array.shape}; give a row of numbers")
    return np.ascontiguousarray(array)


def _pages(name: str, nbytes: int, page_bytes: int, page_tokens: int) -> int:
    if page_bytes % page_tokens:
        raise BadInput(f"pool {name}: pages of {page_bytes} bytes for {page_tokens} tokens; give a whole number of bytes a token")
    if nbytes < page_bytes:
        raise BadInput(f"pool {name}: {size(nbytes)} hold no page of {size(page_bytes)}; raise the limit")
    return min(nbytes // page_bytes, 2**32 - 2)  # pages are numbered in 32 bits
