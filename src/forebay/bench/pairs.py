"""pairs: an allocation and its free of a cached block, through our pool and through every other allocator that is installed, in one run.

From C++ where there is a C++ interface to call, from Python, on one thread and on several, each with a stream of its own. Who the peers
are is peers.py's; the loop from C++ is native/bench's.
"""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from forebay.errors import BadInput
from forebay.runtime import Device

__all__ = ["Absent", "Compared", "Load", "Measured", "Pairs", "compare", "from_python"]


@dataclass(frozen=True, slots=True)
class Load:
    """`bytes` a block, `pairs` a round on each thread, `rounds` after one that is not counted."""

    bytes: int = 4096
    pairs: int = 20_000
    rounds: int = 7


@dataclass(frozen=True, slots=True)
class Pairs:
    """One way to allocate: wall nanoseconds of a pair on each thread, the median of the rounds, and pairs a second of all threads.

    `ratio` is its time to that of our pool from the same language on as many threads; above 1 it is slower. None with `why`, and `get`,
    where it could not be measured.
    """

    peer: str
    language: Literal["C++", "Python"]
    threads: int
    ns: float | None = None
    least_ns: float | None = None
    most_ns: float | None = None
    pairs_per_s: float | None = None
    ratio: float | None = None
    why: str | None = None
    get: str | None = None


@dataclass(frozen=True, slots=True)
class Compared:
    """All ways on one device, ours first. `versions` of the libraries that were there."""

    device: str
    simulated: bool
    bytes: int
    rows: tuple[Pairs, ...]
    versions: dict[str, str]


@dataclass(frozen=True, slots=True)
class Measured:
    """What a peer's module gives: samples of wall nanoseconds a pair."""

    peer: str
    language: Literal["C++", "Python"]
    threads: int
    samples: Sequence[float]


@dataclass(frozen=True, slots=True)
class Absent:
    """A peer that is not here, why, and how to get it."""

    peer: str
    language: Literal["C++", "Python"]
    why: str
    get: str


OURS: Final = "forebay"
_FIRST: Final = 100  # pairs
_LONGEST_NS: Final = 100_000_000  # of a round: threads that wait for one lock can take a thousand times as long as one


def compare(device: Device, threads: Sequence[int] = (1, 8), load: Load | None = None) -> Compared:
    """Ours and every peer, each on so many threads. Raises BadInput for a number of threads that is none, DriverError of our own."""
    from forebay.bench import peers

    if not threads or not all(isinstance(n, int) and 0 < n <= 256 for n in threads):
        raise BadInput(f"threads: {list(threads)!r}: give numbers from 1 to 256")
    load = load or Load()
    rows = [row for found in peers.every(device, tuple(dict.fromkeys(threads)), load) for row in _rows(found, threads)]
    ours = {(row.language, row.threads): row.ns for row in rows if row.peer == OURS}
    name = device.driver.facts(device.index).name
    compared = tuple(_beside(row, ours.get((row.language, row.threads))) for row in rows)
    return Compared(name, peers.is_simulated(device), load.bytes, compared, peers.versions())


def _rows(found: Measured | Absent, threads: Sequence[int]) -> Iterator[Pairs]:
    if isinstance(found, Absent):
        yield from (Pairs(found.peer, found.language, n, why=found.why, get=found.get) for n in dict.fromkeys(threads))
    elif not found.samples:
        yield Pairs(found.peer, found.language, found.threads, why="an allocation failed")
    else:
        ns = statistics.median(found.samples)
        yield Pairs(
            found.peer, found.language, found.threads, ns, min(found.samples), max(found.samples), found.threads * 1e9 / ns
        )


def _beside(row: Pairs, ours: float | None) -> Pairs:
    return row if row.ns is None or not ours else replace(row, ratio=row.ns / ours)


def from_python(pairs: Sequence[Callable[[], object]], load: Load, enter: Callable[[], object] = int) -> list[float]:
    """Wall nanoseconds of a pair, one sample a round, each callable on a thread of its own, which calls `enter` first; another thread is
    there throughout.
    """
    over = threading.Event()
    company = threading.Thread(target=over.wait)
    company.start()
    try:
        first = _round(pairs, min(load.pairs, _FIRST), enter)  # warms up, and tells how many pairs a round can have
        calls = max(1, min(load.pairs, round(_LONGEST_NS / first)))
        return [_round(pairs, calls, enter) for _ in range(load.rounds)]
    finally:
        over.set()
        company.join()


def _round(pairs: Sequence[Callable[[], object]], calls: int, enter: Callable[[], object]) -> float:
    ready = threading.Barrier(len(pairs) + 1)
    failed: list[BaseException] = []

    def run(pair: Callable[[], object]) -> None:
        try:
            enter()
            pair()  # the block is there then
        except BaseException as error:
            failed.append(error)
            ready.abort()
            return
        try:
            ready.wait()
        except threading.BrokenBarrierError:
            return  # another thread's failure is told
        for _ in range(calls):
            pair()

    threads = [threading.Thread(target=run, args=(pair,)) for pair in pairs]
    for thread in threads:
        thread.start()
    try:
        ready.wait()
    except threading.BrokenBarrierError:
        for thread in threads:
            thread.join()
        raise failed[0] from None
    begun = time.perf_counter_ns()
    for thread in threads:
        thread.join()
    return (time.perf_counter_ns() - begun) / calls
