"""server: the loop that serves a seed's requests, one step ahead of its host, and what came of it.

While step i runs on the device the host reads the tokens of step i - 1: it learns of an END one step late, and the row that was
computed in vain is thrown away. Which request runs is scheduler.py's, what is issued engine.py's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from forebay.demo.captured import CapturedEngine
from forebay.demo.engine import PAGE_TOKENS, Engine, Issued, Limits
from forebay.demo.model import END, seeded
from forebay.demo.reference import generate
from forebay.demo.scheduler import Running, Scheduler
from forebay.demo.traffic import drawn
from forebay.region import region
from forebay.runtime import Schedule, SimDevice

SLOTS = 12
WARM_UP = 10  # steps after which a pool has seen its sizes: no driver call may follow

# What takes memory from the driver or gives it back.
MEMORY_CALLS = frozenset(
    (
        "malloc",
        "free",
        "host_alloc",
        "host_free",
        "reserve_range",
        "release_range",
        "create",
        "release",
        "map",
        "unmap",
        "set_access",
    )
)

Figures = Mapping[str, int]
Progress = Callable[[int, int], object]


@dataclass(frozen=True, slots=True)
class Served:
    """One seed's run. `tokens` and `expected` by request, `virtual_ns` on the device's clock, `decode_ns` of the host's to issue a decode
    step (the mean), `steady_calls` driver memory calls by name after the warm-up, `pools` each pool's gauges at its fullest,
    `shared_tokens` of prompts that were found in pages, `refused` what the runtime said of a step that cannot be captured."""

    seed: int
    tokens: Mapping[int, list[int]]
    expected: Mapping[int, list[int]]
    steps: int
    virtual_ns: int
    decode_ns: float
    steady_calls: Figures
    pools: Mapping[str, Figures]
    shared_tokens: int
    refused: str | None

    @property
    def wrong(self) -> list[int]:
        """The requests whose tokens differ from the reference's."""
        return [number for number, tokens in self.expected.items() if self.tokens.get(number) != tokens]

    @property
    def token_count(self) -> int:
        """Tokens that were handed out."""
        return sum(len(tokens) for tokens in self.tokens.values())

    @property
    def tokens_per_s(self) -> float:
        """Tokens that were handed out a second of the device's clock."""
        return self.token_count * 1e9 / self.virtual_ns


def serve(
    seed: int,
    requests: int = 40,
    progress: Progress = lambda done, of: None,
    engine: type[Engine] = CapturedEngine,
    schedule: Schedule | None = None,
) -> Served:
    """Serves `requests` requests drawn from `seed` on a simulated device whose work runs in an order drawn from it too, or
    in that of `schedule`.

    `progress` hears how many of them are done. `engine` may be a broken one (faults.py).
    """
    weights = seeded(seed)
    traffic = drawn(seed, requests, weights.shape)
    device = SimDevice("64MiB", schedule=schedule or Schedule(seed=seed))
    running = engine(device, weights, SLOTS, Limits())
    loop = _Loop(running, Scheduler(traffic, SLOTS, running.kv.pages, PAGE_TOKENS))
    while not loop.scheduler.done:
        loop.step()
        progress(len(loop.tokens), requests)
    loop.read()
    device.synchronize()
    return Served(
        seed=seed,
        tokens=loop.tokens,
        expected={r.number: generate(weights, r.number, r.prompt, r.most) for r in traffic},
        steps=loop.steps,
        virtual_ns=device.clock_ns,
        decode_ns=loop.decode_ns / max(loop.decodes, 1),
        steady_calls=loop.steady_calls(),
        pools=loop.fullest,
        shared_tokens=running.shared_tokens,
        refused=running.refused,
    )


class _Loop:
    def __init__(self, engine: Engine, scheduler: Scheduler) -> None:
        self.engine, self.scheduler = engine, scheduler
        self.done = [engine.device.event(), engine.device.event()]  # of even and of odd steps
        self.steps = self.decodes = self.decode_ns = 0
        self.tokens: dict[int, list[int]] = {}
        self.fullest: dict[str, dict[str, int]] = {}
        self._ahead: list[Issued] = []
        self._calls_warm: Figures = {}

    def step(self) -> None:
        """Issues a step, then reads the one before it."""
        if self.steps == WARM_UP:
            self._calls_warm = self.engine.device.driver_calls
        self.scheduler.arrive(self.steps)
        batch = [running for running in self.scheduler.running if running.wants_more]
        issued = self._decode(batch) + self._prefill()
        self.engine.copy.record(self.done[self.steps % 2])
        self._note_fullest()
        self.read()
        self._ahead = issued
        self.steps += 1

    def read(self) -> None:
        """Takes in the tokens of the step that was issued last before this one."""
        if self._ahead:
            self.done[(self.steps - 1) % 2].synchronize()
        for issued in self._ahead:
            tokens = self.engine.tokens_of(issued)
            for running, token in zip(issued.rows, tokens, strict=True):
                if running in self.scheduler.running:
                    self._take(running, token)
        self._ahead = []

    def steady_calls(self) -> dict[str, int]:
        """Driver memory calls after the warm-up."""
        calls = self.engine.device.driver_calls
        since = {name: calls[name] - self._calls_warm.get(name, 0) for name in sorted(MEMORY_CALLS & calls.keys())}
        return {name: count for name, count in since.items() if count}

    def _decode(self, batch: list[Running]) -> list[Issued]:
        if not batch:
            return []
        begun = self.engine.device.clock_ns
        with region("decode", iteration=self.steps):
            issued = self.engine.decode(batch)
        self.decodes += 1
        self.decode_ns += self.engine.device.clock_ns - begun
        return [issued]

    def _prefill(self) -> list[Issued]:
        issued = []
        while (running := self.scheduler.admit()) is not None:
            with region("prefill", iteration=running.request.number):
                issued.append(self.engine.prefill(running))
        return issued

    def _take(self, running: Running, token: int) -> None:
        running.tokens.append(token)
        if token != END and len(running.tokens) < running.request.most:
            self.engine.commit(running, token)
            return
        self.tokens[running.request.number] = running.tokens
        self.engine.finish(running)
        self.scheduler.finish(running)

    def _note_fullest(self) -> None:
        for pool in self.engine.pools:
            gauges = pool.gauges()
            figures = {
                "reserved": gauges.reserved,
                "allocated": gauges.allocated,
                "requested": gauges.requested,
                "largest free": gauges.largest_free_if_idle,
                "hits": gauges.hits,
                "misses": gauges.misses,
            }
            if figures["allocated"] >= self.fullest.get(pool.name, figures)["allocated"]:
                self.fullest[pool.name] = figures
