"""pool_world: a device, its pools and what a program holds of them, for scenarios that run while driver calls fail.

Bytes are written and read below the driver that fails, so that every failing call is a pool's own. Who judges is test_pool_faults.py.
"""

from collections.abc import Callable
from dataclasses import dataclass

from forebay.errors import DriverError, Pending, PoolExhausted
from forebay.runtime import Pool, SimDevice, Stream

MIB = 2**20
CAPACITY = 96 * MIB
CLEAN_UP = ["free", "unmap", "release", "release_range", "event_destroy", "host_free", "stream_destroy"]


@dataclass
class Held:
    pool: Pool
    address: int
    nbytes: int
    value: int  # of every byte that is written

    def samples(self) -> list[tuple[int, int]]:
        """The pieces that are written: begin and end of each."""
        end = self.address + self.nbytes
        return [(at, min(at + 64, end)) for at in range(self.address, end, 2 * MIB)] + [(max(self.address, end - 64), end)]


class World:
    """`growth` is that of every pool whose own is not said. An operation that fails leaves what it was to give out."""

    def __init__(self, growth: str) -> None:
        self.growth = growth
        self.device = SimDevice(CAPACITY)
        self.faulty, self.sim = self.device.machine.faulty, self.device.machine.sim
        self.main, self.other = (self.device.stream(name, kind="nonblocking") for name in ("main", "other"))
        self.pools: list[Pool] = []
        self.held: list[Held] = []
        self.errors: list[Exception] = []
        self._values = 0

    def attempt(self, operation: Callable[[], object]) -> object:
        try:
            return operation()
        except (DriverError, Pending, PoolExhausted) as error:
            self.errors.append(error.with_traceback(None))  # it would hold pools beyond their end
            return None

    def pool(self, **options: object) -> Pool | None:
        pool = self.attempt(lambda: Pool(self.device, "p", **{"growth": self.growth, "wait_limit": 0.01} | options))
        if pool is not None:
            self.pools.append(pool)
        return pool

    def alloc(self, pool: Pool | None, nbytes: int, stream: Stream) -> Held | None:
        """A block, written in its stream: a few bytes of every frame, and the last."""
        address = None if pool is None else self.attempt(lambda: pool.alloc_address(nbytes, stream))
        if address is None:
            return None
        self._values += 1
        held = Held(pool, address, nbytes, self._values % 251 + 1)
        self.held.append(held)
        for begin, end in held.samples():
            self.sim.memset(0, begin, held.value, end - begin, stream.handle)
        return held

    def busy(self, stream: Stream, ns: int = 10**15) -> None:
        """The stream works for so long, in virtual time: longer than a pool waits unless told."""
        self.sim.launch(0, stream.handle, "busy", ns, [], lambda memory: True)

    def lend(self, held: Held | None, stream: Stream) -> None:
        if held is not None:
            held.pool.lend_address(held.address, stream)

    def free(self, *blocks: Held | None) -> None:
        """A free never raises."""
        for held in blocks:
            if held is not None:
                self.held.remove(held)
                held.pool.free_address(held.address)

    def trim(self, pool: Pool | None) -> None:
        if pool is not None:
            self.attempt(pool.trim)

    def end_of_pool(self) -> None:
        """The first pool's end, unless somebody else still holds it."""
        self.free(*[h for h in self.held if h.pool is self.pools[0]])
        del self.pools[0]

    @property
    def calls(self) -> int:
        return sum(self.device.driver_calls.values())

    def accounted(self) -> int:
        """Device bytes that somebody answers for."""
        domain = self.device.domain
        return sum(p.gauges().reserved for p in self.pools) + domain.idle_frame_bytes + domain.quarantined_bytes

    def damaged(self) -> list[Held]:
        """The live blocks whose bytes are not what was written, all work done."""
        self.sim.device_sync(0)
        return [h for h in self.held if any(self._bytes(*sample) != {h.value} for sample in h.samples())]

    def _bytes(self, begin: int, end: int) -> set[int]:
        out = bytearray(end - begin)
        self.sim.download(0, out, begin, self.main.handle)
        return set(out)
