"""paged: a pool of fixed blocks for the dominant consumer, and the sequences that hold them. Which page serves what is native/pool's.

A sequence remembers the streams that used it; its end is ordered after them all, never waits, and comes with its object.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence as Many

import numpy as np
from numpy.typing import DTypeLike, NDArray

from forebay._core.paged import PagedPool as NativePagedPool
from forebay._core.paged import Sequence as NativeSequence
from forebay._core.pool import Gauges
from forebay._core.tape import Sink
from forebay.errors import BadInput, ForebayError
from forebay.runtime.buffer import Array, Buffer
from forebay.runtime.device import SimDevice
from forebay.runtime.stream import Stream
from forebay.tape.events import Space
from forebay.units import parse_size, size

__all__ = ["PagedPool", "Sequence"]

_numbers = itertools.count(1 << 16)  # apart from the segment pools'

Tokens = Many[int] | NDArray[np.uint32]


class PagedPool:
    """As many pages of `page_bytes` as fit in `limit` bytes (a number, or "40GiB"), from one reservation of the driver.

    A page serves `page_tokens` tokens, which divides `page_bytes`. A wait for frees lasts `wait_limit` seconds at most; 0 never
    waits. Raises BadInput for an impossible shape, DriverError.
    """

    def __init__(
        self,
        device: SimDevice,
        name: str,
        limit: int | str,
        *,
        page_bytes: int,
        page_tokens: int,
        consumer: str | None = None,
        wait_limit: float = 10.0,
        tape: Sink | None = None,
        index: int | None = None,
    ) -> None:
        self.device, self.name, self.consumer = device, name, consumer
        self.page_bytes, self.page_tokens = page_bytes, page_tokens
        self.pages = _pages(name, limit, page_bytes, page_tokens)
        if wait_limit < 0:
            raise BadInput(f"pool {name}: wait_limit must not be negative")
        self._native = NativePagedPool(
            device.domain,
            name,
            page_bytes=page_bytes,
            pages=self.pages,
            page_tokens=page_tokens,
            index=next(_numbers) if index is None else index,
            wait_limit_ns=round(wait_limit * 1e9),
            tape=tape or device.pool_rows(name, consumer, "paged", Space.device),
        )

    def open(self, stream: Stream, tokens: Tokens = ()) -> Sequence:
        """A sequence whose first pages are those that hold the first of `tokens` already, as far as `stream` may read them.

        Only whole pages are found; `written` says how many tokens that are. They need not be computed again.
        """
        return Sequence(self, self._native.open(np.asarray(tokens, np.uint32), self._id(stream)))

    def available(self, stream: Stream) -> int:
        """Pages that work on `stream` can have without a wait. Asks the other streams how far they got."""
        return self._native.available(self._id(stream))

    def cap(self, pages: int) -> None:
        """From now on at most `pages` pages live at once. Raises BadInput for a negative number."""
        if pages < 0:
            raise BadInput(f"pool {self.name}: a cap of {pages} pages; give 0 or more")
        self._native.limit(min(pages, self.pages))

    def gauges(self, stream: Stream | None = None) -> Gauges:
        """The figures now (forebay.gauges), in bytes of whole pages: a table needs no two of them side by side."""
        return self._native.gauges() if stream is None else self._native.gauges(self._id(stream))

    def walk(self) -> None:
        """Checks the pool's whole structure. Raises ForebayError, naming what does not hold: a defect of forebay."""
        if broken := self._native.walk():
            raise ForebayError(f"pool {self.name}: {broken}; this is a defect of forebay, please report it")

    def _id(self, stream: Stream) -> int:
        if stream.device is not self.device:
            raise BadInput(f"pool {self.name} is on device {self.device.index}, {stream!r} is not; use a pool of its own device")
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

    def grow(self, tokens: int, stream: Stream) -> None:
        """Room for `tokens` more, usable on `stream`. A last page that others hold too is copied there first.

        Raises PoolExhausted with figures and verdict, Pending, DriverError; the sequence is then as it was. BadInput for a
        negative number.
        """
        if tokens < 0:
            raise BadInput(f"pool {self.pool.name}: grow by {tokens} tokens; give 0 or more")
        self._live().grow(tokens, self.pool._id(stream))

    def commit(self, tokens: Tokens, stream: Stream) -> None:
        """The next tokens of its room, by work that `stream` has been given: pages that this fills can be found from now on.

        Raises BadInput where there is less room.
        """
        if not self._live().commit(np.asarray(tokens, np.uint32), self.pool._id(stream)):
            room = self.room - self.written
            raise BadInput(f"pool {self.pool.name}: commit of {len(tokens)} tokens into room for {room}; grow the sequence first")

    def fork(self, stream: Stream) -> Sequence:
        """The same tokens once more, on the same pages, for work on `stream`. Raises BadInput while some room is not committed."""
        twin = self.pool._native.fork(self._live(), self.pool._id(stream))
        if twin is None:
            missing = self.room - self.written
            raise BadInput(f"pool {self.pool.name}: {missing} tokens of the sequence are not written; commit them before a fork")
        return Sequence(self.pool, twin)

    def page(self, index: int, dtype: DTypeLike, shape: int | Many[int], offset: int = 0) -> Array:
        """An array in the page at `index` of the table, `offset` bytes from its begin, for launches and copies.

        The sequence remembers the streams that it is used on. Raises BadInput where it does not fit the page.
        """
        array = self._bytes.array(dtype, shape, self.table[index] * self.pool.page_bytes + offset)
        if offset < 0 or offset + array.nbytes > self.pool.page_bytes:
            raise BadInput(f"array of {array.nbytes} bytes at byte {offset} of a page of {self.pool.page_bytes} bytes")
        return array

    def finish(self) -> None:
        """Gives its pages back, after all that its streams have been given. Never waits; a second call does nothing."""
        if self._bytes.freed:
            return
        for stream in self._bytes.streams.values():
            self._native.use(self.pool._id(stream))
        self._bytes.free()
        self._native.finish()

    def _live(self) -> NativeSequence:
        if self._bytes.freed:
            raise BadInput(f"pool {self.pool.name}: the sequence was finished; open another")
        return self._native

    def __del__(self) -> None:
        self.pool.device.quietly(self.finish)

    def __repr__(self) -> str:
        return "Sequence(finished)" if self._bytes.freed else f"Sequence({self.room} tokens on {len(self.table)} pages)"


def _pages(name: str, limit: int | str, page_bytes: int, page_tokens: int) -> int:
    if page_bytes <= 0 or page_tokens <= 0 or page_bytes % page_tokens:
        raise BadInput(f"pool {name}: pages of {page_bytes} bytes for {page_tokens} tokens; give a whole number of bytes a token")
    try:
        nbytes = parse_size(limit) if isinstance(limit, str) else limit
    except ValueError as error:
        raise BadInput(str(error)) from None
    if nbytes < page_bytes:
        raise BadInput(f"pool {name}: {size(nbytes)} hold no page of {size(page_bytes)}; raise the limit")
    return nbytes // page_bytes
