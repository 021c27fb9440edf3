"""A history through the pool: its figures against sums done here, and against a pool driven by hand."""

import numpy as np
import pytest

from forebay._core.driver import SimDriver
from forebay._core.pool import Move, Replay
from forebay.runtime import Pool, SimDevice

MIB = 2**20


def columns(rows: list[tuple[Move, int, int, int, int]]) -> tuple[np.ndarray, ...]:
    move, address, nbytes, stream, pool = zip(*rows, strict=True)
    return (
        np.array(move, np.uint8),
        np.array(address, np.uint64),
        np.array(nbytes, np.uint64),
        np.array(stream, np.uint32),
        np.array(pool, np.uint32),
    )


def history(seed: int, events: int) -> list[tuple[Move, int, int, int, int]]:
    random, live, rows = np.random.default_rng(seed), list[tuple[int, int]](), list[tuple[Move, int, int, int, int]]()
    for name in range(1, events + 1):
        if live and random.random() < 0.45:
            address, stream = live.pop(int(random.integers(len(live))))
            rows.append((Move.free, address, 0, stream, 0))
        else:
            stream = int(random.integers(2))
            rows.append((Move.alloc, name, int(np.exp(random.uniform(5, 17))), stream, 0))
            live.append((name, stream))
    return rows


@pytest.mark.parametrize("chunk", [1, 7, 10_000])
def test_peaks_are_those_of_the_sums_and_of_a_pool_driven_by_hand(chunk: int) -> None:
    rows = history(3, 600)
    replay = Replay(SimDriver([8 * 2**30]), 0)
    for begin in range(0, len(rows), chunk):
        replay.feed(*columns(rows[begin : begin + chunk]))
    outcome = replay.outcome()

    device = SimDevice(8 * 2**30)
    streams = [device.stream(f"s{i}", kind="nonblocking") for i in range(2)]
    pool, sizes, held = Pool(device, "by hand"), {}, dict[int, int]()
    peaks = {"reserved": 0, "allocated": 0, "requested": 0}
    for move, name, nbytes, stream, _ in rows:
        if move == Move.alloc:
            held[name], sizes[name] = pool.alloc_address(nbytes, streams[stream]), nbytes
        else:
            pool.free_address(held.pop(name))
            del sizes[name]
        peaks = {key: max(peak, getattr(pool.gauges(), key)) for key, peak in peaks.items()}
        assert pool.gauges().requested == sum(sizes.values())
    assert (outcome.peak_reserved, outcome.peak_allocated, outcome.peak_requested) == tuple(peaks.values())
    assert outcome.events == 600
    assert (outcome.ooms, outcome.oom_event, outcome.unknown_frees) == (0, None, 0)
    assert outcome.driver_allocs == pool.gauges().driver_allocs
    assert outcome.largest_free_at_end == pool.gauges().largest_free_if_idle


def test_an_oom_is_placed_and_the_rest_is_replayed() -> None:
    replay = Replay(SimDriver([100 * MIB]), 0)
    rows = [
        (Move.alloc, 1, 60 * MIB, 0, 0),
        (Move.alloc, 2, 60 * MIB, 0, 0),
        (Move.free, 2, 0, 0, 0),
        (Move.free, 1, 0, 0, 0),
        (Move.alloc, 3, 60 * MIB, 0, 0),
    ]
    replay.feed(*columns(rows))
    outcome = replay.outcome()
    assert (outcome.oom_event, outcome.oom_verdict, outcome.ooms, outcome.unknown_frees) == (1, "full", 1, 1)
    assert (outcome.peak_allocated, outcome.peak_allocated_event, outcome.hits) == (60 * MIB, 0, 1)


def test_pools_are_apart_and_have_limits_of_their_own() -> None:
    replay = Replay(SimDriver([1024 * MIB]), 0, limits=[50 * MIB, None])
    replay.feed(*columns([(Move.alloc, 1, 60 * MIB, 0, 1), (Move.alloc, 2, 60 * MIB, 0, 0)]))
    assert (replay.outcome().oom_event, replay.outcome().oom_verdict) == (1, "capped")


def test_samples_are_evenly_spread_and_few() -> None:
    replay = Replay(SimDriver([8 * 2**30]), 0)
    replay.feed(*columns(history(5, 20_000)))
    events = [event for event, *_ in replay.samples()]
    assert events == list(range(0, 20_000, events[1]))
    assert 1024 <= len(events) <= 2048
