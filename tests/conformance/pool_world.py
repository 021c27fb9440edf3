"""pool_world: a device, its pools and what a program holds of them, for scenarios that run while driver calls fail.

Bytes are written and read below the driver that fails, so that every failing call is a pool's own. Who judges is test_pool_faults.py.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from conformance.grounds import CAPACITY, MIB, FakeGround, Ground, SimGround
from forebay._core.pool import Pool as NativePool
from forebay.errors import DriverError, Pending, PoolExhausted
from forebay.runtime import PagedPool, PinnedPool, Pool, Stream
from forebay.runtime.paged import Sequence

__all__ = ["CAPACITY", "MIB", "PAGE", "AnyPool", "FakeGround", "Ground", "Held", "Pages", "SimGround", "World"]

AnyPool = Pool | PinnedPool | PagedPool
PAGE = 64 * 1024  # bytes of a page, 16 tokens


@dataclass
class Held:
    pool: Pool | PinnedPool
    address: int
    nbytes: int
    value: int  # of every byte that is written

    def samples(self) -> list[tuple[int, int]]:
        """The pieces that are written: begin and end of each."""
        end = self.address + self.nbytes
        return [(at, min(at + 64, end)) for at in range(self.address, end, 2 * MIB)] + [(max(self.address, end - 64), end)]


@dataclass
class Pages:
    """A sequence of a paged pool; `values` are the first bytes of each page, as written."""

    sequence: Sequence
    values: dict[int, int] = field(default_factory=dict)

    def samples(self) -> list[tuple[int, int, int]]:
        """Begin and end of what was written in each page, and the value."""
        addresses = {page: self.sequence.page(page, "u1", 64).address for page in self.values}
        return [(at, at + 64, self.values[page]) for page, at in addresses.items()]


class World:
    """`growth` is that of every pool whose own is not said. An operation that fails leaves what it was to give out."""

    def __init__(self, growth: str, ground: type[Ground] = SimGround) -> None:
        self.growth, self.ground = growth, ground()
        self.device = self.ground.device
        self.main, self.other = (self.device.stream(name, kind="nonblocking") for name in ("main", "other"))
        self.pools: list[AnyPool] = []
        self.held: list[Held] = []
        self.pages: list[Pages] = []
        self.errors: list[Exception] = []
        self._values = 0

    def attempt(self, operation: Callable[[], object]) -> object:
        try:
            return operation()
        except (DriverError, Pending, PoolExhausted) as error:
            self.errors.append(error.with_traceback(None))  # it would hold pools beyond their end
            return None

    def pool(self, **options: object) -> Pool | None:
        return self._made(
            lambda: Pool(self.device, "p", **{"growth": self.growth, "wait_limit": self.ground.wait_limit} | options)
        )

    def pinned(self, **options: object) -> PinnedPool | None:
        return self._made(lambda: PinnedPool(self.device, "pinned", wait_limit=self.ground.wait_limit, **options))

    def paged(self, pages: int, **options: object) -> PagedPool | None:
        size, options = pages * PAGE, {"wait_limit": self.ground.wait_limit} | options
        return self._made(lambda: PagedPool(self.device, "paged", size, page_bytes=PAGE, page_tokens=16, **options))

    def _made(self, make: Callable[[], AnyPool]) -> AnyPool | None:
        pool = self.attempt(make)
        if pool is not None:
            self.pools.append(pool)
        return pool

    def take_some(self, pool: AnyPool, stream: Stream) -> None:
        """A little memory of any pool, given back at once; what that raises is the caller's."""
        if isinstance(pool, PagedPool):
            sequence = pool.open(stream)
            sequence.grow(1, stream)
            sequence.finish()
        else:
            pool.free_address(pool.alloc_address(1000, *([stream] if isinstance(pool, Pool) else [])))

    def open(self, pool: PagedPool | None, tokens: int, stream: Stream) -> Pages | None:
        """A sequence with room for so many tokens, all of them committed."""
        sequence = None if pool is None else self.attempt(lambda: pool.open(stream))
        if sequence is None:
            return None
        self.pages.append(Pages(sequence))
        self.grow(self.pages[-1], tokens, stream)
        return self.pages[-1]

    def grow(self, pages: Pages | None, tokens: int, stream: Stream) -> None:
        before = 0 if pages is None else len(pages.sequence.table)
        if pages is None or self.attempt(lambda: pages.sequence.grow(tokens, stream) or "grown") is None:
            return
        self._values += 1
        for page in range(before, len(pages.sequence.table)):
            pages.values[page] = self._values % 251 + 1
            self.ground.fill(stream.handle, pages.sequence.page(page, "u1", 64).address, pages.values[page], 64)
        pages.sequence.commit([self._values * 1000 + i for i in range(tokens)], stream)

    def fork(self, pages: Pages | None, stream: Stream) -> Pages | None:
        twin = None if pages is None else self.attempt(lambda: pages.sequence.fork(stream))
        if twin is not None:
            self.pages.append(Pages(twin, dict(pages.values)))
        return None if twin is None else self.pages[-1]

    def finish(self, *sequences: Pages | None) -> None:
        """The end of a sequence never raises."""
        for pages in sequences:
            if pages is not None:
                self.pages.remove(pages)
                pages.sequence.finish()

    def alloc(self, pool: Pool | PinnedPool | None, nbytes: int, stream: Stream) -> Held | None:
        """A block, written in its stream: a few bytes of every frame, and the last."""
        where = [stream] if isinstance(pool, Pool) else []
        address = None if pool is None else self.attempt(lambda: pool.alloc_address(nbytes, *where))
        if address is None:
            return None
        if isinstance(pool, PinnedPool):
            pool.lend_address(address, stream)
        self._values += 1
        held = Held(pool, address, nbytes, self._values % 251 + 1)
        self.held.append(held)
        for begin, end in held.samples():
            self.ground.fill(stream.handle, begin, held.value, end - begin)
        return held

    def busy(self, stream: Stream, ns: int = 10**15) -> None:
        """The stream works for so long, in virtual time: longer than a pool waits unless told."""
        self.ground.busy(stream.handle, ns)

    def lend(self, held: Held | None, stream: Stream) -> None:
        if held is not None:
            held.pool.lend_address(held.address, stream)

    def free(self, *blocks: Held | None) -> None:
        """A free never raises."""
        for held in blocks:
            if held is not None:
                self.held.remove(held)
                held.pool.free_address(held.address)

    def check(self, pool: AnyPool | None) -> None:
        """Of a pool in debug mode; that it accuses nobody is for the pool's user to see."""
        if pool is not None:
            self.attempt(pool.check)

    def trim(self, pool: AnyPool | None) -> None:
        if isinstance(pool, Pool | PinnedPool):
            self.attempt(pool.trim)

    def end_of_pool(self) -> None:
        """The first pool's end, unless somebody else still holds it."""
        self.empty(self.pools[0])
        del self.pools[0]

    def empty(self, pool: AnyPool) -> None:
        """Everything that is held of the pool is given back."""
        self.free(*[h for h in self.held if h.pool is pool])
        self.finish(*[p for p in self.pages if p.sequence.pool is pool])

    def accounted(self) -> tuple[int, int]:
        """Bytes that somebody answers for: of the device, and pinned."""
        domain, reserved = self.device.domain, [0, 0]
        for pool in self.pools:
            reserved[isinstance(pool, PinnedPool)] += pool.gauges().reserved
            native = pool._blocks._native if isinstance(pool, PinnedPool) else pool._native
            if not isinstance(native, NativePool):
                reserved[1] += native.staging_reserved
        return (
            reserved[0] + domain.idle_frame_bytes + domain.quarantined_bytes,
            reserved[1] + domain.quarantined_pinned_bytes,
        )

    def damaged(self) -> list[tuple[int, int, int]]:
        """What was written into live memory and is not there: begin, end and value. All work is done then."""
        self.ground.settle()
        written = [(begin, end, h.value) for h in self.held for begin, end in h.samples()]
        written += [sample for pages in self.pages for sample in pages.samples()]
        return [(begin, end, value) for begin, end, value in written if set(self.ground.read(begin, end - begin)) != {value}]
