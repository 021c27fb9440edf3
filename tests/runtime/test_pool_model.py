"""A pool against a plain model: every operation, every fault, judged by a map of the bytes.

The model knows who holds each 512 bytes, and until where each stream had been given work when they were freed. Work is a kernel
without a foreseeable end: only a sync, an edge or the driver's own answer lets bytes go from one stream to another.
"""

from dataclasses import dataclass, field

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from forebay._core.driver import FaultyDriver
from forebay.errors import DriverError, PoolExhausted
from forebay.runtime import Buffer, Pool, SimDevice

MIB = 2**20
CAPACITY = 96 * MIB
STREAMS = st.integers(0, 2)
SIZES = st.one_of(st.integers(1, 5000), st.integers(1, 300_000), st.integers(1, 25 * MIB))


def faulty_of(device: SimDevice) -> FaultyDriver:
    return device.machine.faulty


@dataclass
class Block:
    buffer: Buffer
    size: int
    used_on: set[int]


@dataclass
class Model:
    live: dict[int, Block] = field(default_factory=dict)  # by address
    freed: list[tuple[int, int, dict[int, int]]] = field(default_factory=list)  # begin, end, stream -> its work count then
    issued: list[int] = field(default_factory=lambda: [0, 0, 0])
    known: list[list[int]] = field(default_factory=lambda: [[0] * 3 for _ in range(4)])  # [who][stream]; 3 is the host

    def may_have(self, begin: int, end: int, stream: int) -> bool:
        """Whether every earlier use of the bytes comes before what is issued to `stream` now."""
        return all(
            used_on == stream or count <= max(self.known[stream][used_on], self.known[3][used_on])
            for b, e, uses in self.freed
            if b < end and begin < e
            for used_on, count in uses.items()
        )

    def hand_out(self, block: Block, stream: int) -> None:
        begin, end = block.buffer.address, block.buffer.address + block.size
        assert all(end <= a or b.buffer.address + b.size <= begin for a, b in self.live.items()), "overlaps a live block"
        assert self.may_have(begin, end, stream), "bytes of another stream whose use is not over"
        self.live[begin] = block


class PoolAgainstModel(RuleBasedStateMachine):
    @initialize(limit=st.sampled_from([None, 64 * MIB]), buckets=st.sampled_from([(), (1000, 100_000, 3 * MIB)]))
    def begin(self, limit: int | None, buckets: tuple[int, ...]) -> None:
        self.device, self.model = SimDevice(CAPACITY), Model()
        self.streams = [self.device.stream(f"s{i}", kind="nonblocking") for i in range(3)]
        self.pools = [Pool(self.device, "a", limit, buckets, wait_limit=0), Pool(self.device, "b", wait_limit=0)]

    def issue(self, stream: int, buffer: Buffer) -> None:
        self.streams[stream].launch(lambda a: None, writes=[buffer.array("u1", 1)], cost_ns=10**15)
        self.model.issued[stream] += 1

    @rule(pool=st.integers(0, 1), stream=STREAMS, nbytes=SIZES)
    def alloc(self, pool: int, stream: int, nbytes: int) -> None:
        self._alloc(self.pools[pool], stream, nbytes)

    def _alloc(self, pool: Pool, stream: int, nbytes: int) -> None:
        before, synced = pool.gauges(), self.device.driver_calls["free"]
        self._see_what_is_over()
        try:
            buffer = pool.alloc(nbytes, self.streams[stream])
        except PoolExhausted:
            return
        finally:
            if self.device.driver_calls["free"] != synced:
                self._host_knows_all()  # a driver free waited for the device
        size = pool.gauges().allocated - before.allocated
        assert size >= nbytes
        self.model.hand_out(Block(buffer, size, {stream}), stream)
        self.issue(stream, buffer)

    @rule(which=st.integers(0, 10**6))
    def free(self, which: int) -> None:
        if not self.model.live:
            return
        address = sorted(self.model.live)[which % len(self.model.live)]
        block = self.model.live.pop(address)
        self.model.freed.append((address, address + block.size, {s: self.model.issued[s] for s in block.used_on}))
        block.buffer.free()

    @rule(which=st.integers(0, 10**6), stream=STREAMS)
    def use_elsewhere(self, which: int, stream: int) -> None:
        if not self.model.live:
            return
        block = self.model.live[sorted(self.model.live)[which % len(self.model.live)]]
        self.issue(stream, block.buffer)
        block.used_on.add(stream)

    @rule(waiter=STREAMS, stream=STREAMS)
    def edge(self, waiter: int, stream: int) -> None:
        self.streams[waiter].wait(self.streams[stream].record())
        for s in range(3):
            self.model.known[waiter][s] = max(self.model.known[waiter][s], self.model.known[stream][s])
        self.model.known[waiter][stream] = self.model.issued[stream]

    @rule(stream=STREAMS)
    def synchronize(self, stream: int) -> None:
        self.streams[stream].synchronize()
        for s in range(3):
            self.model.known[3][s] = max(self.model.known[3][s], self.model.known[stream][s])
        self.model.known[3][stream] = self.model.issued[stream]

    @rule(pool=st.integers(0, 1))
    def trim(self, pool: int) -> None:
        if self.pools[pool].trim():
            self._host_knows_all()

    @rule(
        call=st.sampled_from(["malloc", "free", "event_record", "event_create", "event_query"]),
        status=st.sampled_from(["out_of_memory", "invalid_handle"]),
        stream=STREAMS,
        nbytes=SIZES,
    )
    def alloc_while_a_call_fails(self, call: str, status: str, stream: int, nbytes: int) -> None:
        self.device.fail(call, status=status)
        try:
            self._alloc(self.pools[0], stream, nbytes)
        except DriverError as error:
            if (error.call, status) != ("malloc", "invalid_handle"):
                raise
        faulty_of(self.device).forget_plans()

    def _see_what_is_over(self) -> None:
        """A sync takes virtual time, in which other streams' kernels may end: the pool may ask the driver, and so does the model."""
        for s, stream in enumerate(self.streams):
            if self.device.driver.stream_query(self.device.index, stream.handle):
                self.model.known[3][s] = self.model.issued[s]

    def _host_knows_all(self) -> None:
        self.model.known[3] = list(self.model.issued)

    @invariant()
    def the_structure_holds_and_gauges_are_a_recount(self) -> None:
        if not hasattr(self, "pools"):
            return
        for pool in self.pools:
            pool.walk()
        gauges = [p.gauges() for p in self.pools]
        assert sum(g.reserved for g in gauges) == self.device.account.used_bytes
        assert sum(g.allocated for g in gauges) == sum(b.size for b in self.model.live.values())
        assert sum(g.requested for g in gauges) == sum(b.buffer.nbytes for b in self.model.live.values())
        for g in gauges:
            assert g.largest_free <= g.largest_free_after_waits <= g.largest_free_if_idle <= g.cached + g.pending
            assert g.releasable <= g.cached


PoolAgainstModel.TestCase.settings = settings(
    max_examples=25, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)
TestPoolAgainstModel = PoolAgainstModel.TestCase
