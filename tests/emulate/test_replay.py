"""Random programs through native/emulate and through the plain allocator: the same addresses, driver calls, peaks, refusals."""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emulate.plain_allocator import MIB, PlainAllocator
from forebay._core.allocator import Addresses, History, Limits, SegmentAction, Step, replay, replay_traced
from forebay.whatif.settings import AllocatorSettings

SETTINGS = [
    AllocatorSettings(),
    AllocatorSettings(max_split_size=24 * MIB),
    AllocatorSettings(max_split_size=40 * MIB, max_non_split_rounding=4 * MIB),
    AllocatorSettings(roundup_divisions=(4,) * 16),
    AllocatorSettings(roundup_divisions=(0, 2, 8, 1, 64) + (16,) * 11),
    AllocatorSettings(gc_threshold=0.3),
    AllocatorSettings(gc_threshold=0.6, max_split_size=30 * MIB),
    AllocatorSettings(expandable_segments=True),
    AllocatorSettings(expandable_segments=True, max_split_size=24 * MIB, gc_threshold=0.4),
    AllocatorSettings(large_segment_size=32 * MIB, max_non_split_rounding=32 * MIB),
]
STREAMS = (7, 3)  # handles: what is released first goes by them, not by the order of mention
TRAITS = [(False, False), (True, False), (False, True)]


@dataclass
class Program:
    step: list[int]
    handle: list[int]
    place: list[int]
    size: list[int]
    handles: int

    def history(self):
        return History(
            step=np.array(self.step, "u1"),
            handle=np.array(self.handle, "u4"),
            place=np.array(self.place, "u4"),
            bytes=np.array(self.size, "u8"),
            handles=self.handles,
            places=[(pool, stream) for pool in range(3) for stream in STREAMS],
            pools=TRAITS,
        )


SIZES = st.one_of(
    st.integers(1, 4096),
    st.integers(1, 2 * MIB),
    st.integers(MIB, 12 * MIB),
    st.integers(8 * MIB, 70 * MIB),
    st.just(10 * MIB - 1),
)
MOVES = st.lists(st.tuples(st.sampled_from("aaaaafffrcxo"), st.integers(0, 10**6), SIZES, st.integers(0, 19)), max_size=90)


def program(moves):
    made = Program([], [], [], [], 0)
    live, waiting = [], []
    for move, pick, size, where in moves:
        place = where - 14 if where >= 14 else where % 2  # mostly the default pool
        if move in "ao":
            step, handle = (Step.alloc, made.handles) if move == "a" else (Step.refused, 0)
            if move == "a":
                live.append(made.handles)
                made.handles += 1
        elif move == "x":
            step, handle = Step.flush, 0
        elif move == "c" and waiting:
            step, handle = Step.complete, waiting.pop(pick % len(waiting))
        elif move in "fr" and live:
            step, handle = (Step.free if move == "f" else Step.request), live.pop(pick % len(live))
            waiting += [handle] * (move == "r")
        else:
            continue
        made.step.append(int(step))
        made.handle.append(handle)
        made.place.append(place)
        made.size.append(size)
    return made


def addresses(order):
    # Far apart, so that an expandable range fits between; in an order that is neither up nor down.
    return [(1 + (n * order) % 1009) << 44 for n in range(500)]


def by_hand(made, oracle):
    """What the plain allocator makes of the program: addresses by handle, the first refusal, how many steps were taken."""
    blocks, served, oom = {}, [0] * made.handles, None
    for i, (step, handle, place, size) in enumerate(zip(made.step, made.handle, made.place, made.size, strict=True)):
        if step in (Step.alloc, Step.refused):
            got = oracle.malloc(place // 2, STREAMS[place % 2], size)
            if got is None:
                oom = i if oom is None else oom
                if step == Step.alloc:
                    return served, oom, i + 1
            elif step == Step.refused:
                oracle.let_go(*got)
                oracle.reusable(*got)
            else:
                blocks[handle], served[handle] = got, got[1].address
        elif step == Step.flush:
            oracle.release_all()
        else:
            if step != Step.complete:
                oracle.let_go(*blocks[handle])
            if step != Step.request:
                done = blocks.pop(handle)
                if step == Step.free or done[1] in [b for g in oracle.segments for b in g.blocks if b.state == "pending"]:
                    oracle.reusable(*done)
    return served, oom, len(made.step)


@settings(max_examples=400, deadline=None)
@given(
    MOVES,
    st.sampled_from(SETTINGS),
    st.sampled_from([None, 64 * MIB, 150 * MIB, 300 * MIB]),
    st.sampled_from([None, 200 * MIB]),
    st.sampled_from([1, 389, 1008]),
    st.booleans(),
)
def test_random_programs_come_out_as_by_hand(moves, told, cap, capacity, order, private_releases):
    made = program(moves)
    where = addresses(order)
    oracle = PlainAllocator(told, where, cap=cap, capacity=capacity, no_split={1}, lends={2}, private_releases=private_releases)
    served, oom, steps = by_hand(made, oracle)
    limits = Limits(cap=cap, capacity=capacity, routing_is_capture=not private_releases)
    got = replay_traced(made.history(), told.native(), limits, Addresses.recorded(np.array(where, "u8")))
    events = [
        (SegmentAction(a).name, address, size)
        for a, address, size in zip(got.event_action.tolist(), got.event_address.tolist(), got.event_size.tolist(), strict=True)
    ]
    assert events == oracle.events
    assert got.served_at.tolist() == served
    assert (got.oom, got.steps) == (oom, steps)
    assert (got.peak_reserved, got.peak_allocated) == (oracle.peak_reserved, oracle.peak_allocated)
    assert (got.reserved, got.allocated, got.retries, got.ooms) == (
        oracle.reserved, oracle.allocated, oracle.retries, oracle.ooms,
    )  # fmt: skip


def history(*moves):
    """A program of (step, handle, bytes) on one stream of the default pool."""
    step, handle, size = zip(*moves, strict=True)
    return Program([int(s) for s in step], list(handle), [0] * len(moves), list(size), 1 + max(handle)).history()


def test_a_block_that_becomes_free_during_the_retry_is_not_seen():
    # 40 MiB wait for an event. A request of 20 MiB under a cap of 50 waits for them, finds nothing to give back (a block of
    # 4 MiB lives in the segment), and fails although it would now be served: pytorch#189504.
    told = AllocatorSettings().native()
    first = [
        (Step.alloc, 0, 40 * MIB),
        (Step.free, 0, 0),
        (Step.alloc, 1, 4 * MIB),
        (Step.alloc, 2, 36 * MIB),
        (Step.request, 2, 0),
    ]
    out = replay(
        history(*first, (Step.refused, 0, 20 * MIB), (Step.refused, 0, 20 * MIB)),
        told,
        Limits(cap=50 * MIB),
        Addresses.descending(),
    )
    assert out.oom == 5
    assert out.ooms == 1  # the same request, made again, is served


def test_idle_memory_of_a_private_pool_is_not_given_back():
    step = [Step.alloc, Step.free, Step.refused]
    private = Program([int(s) for s in step], [0, 0, 0], [2, 0, 0], [40 * MIB, 0, 40 * MIB], 1).history()
    default = Program([int(s) for s in step], [0, 0, 0], [1, 0, 0], [40 * MIB, 0, 40 * MIB], 1).history()
    told, limits = AllocatorSettings().native(), Limits(cap=60 * MIB)
    assert replay(private, told, limits, Addresses.descending()).oom == 2
    assert replay(default, told, limits, Addresses.descending()).oom is None


@pytest.mark.parametrize(
    ("moves", "at"),
    [
        ([(Step.free, 0, 0)], 0),
        ([(Step.alloc, 0, 0)], 0),
        ([(Step.alloc, 0, 1), (Step.alloc, 0, 1)], 1),
        ([(Step.alloc, 0, 1), (Step.free, 0, 0), (Step.free, 0, 0)], 2),
        ([(Step.alloc, 0, 1), (Step.complete, 0, 0)], 1),
        ([(Step.alloc, 0, 2**63)], 0),
    ],
)
def test_a_history_that_makes_no_sense_is_refused_with_its_step(moves, at):
    with pytest.raises(ValueError, match=f"step {at}:"):
        history(*moves)


def test_the_driver_hands_out_addresses_as_recorded_then_from_the_newest_chunk_with_room():
    # Chunks are of 32 MiB: 20 MiB leave 12, so 12 more fit behind them, 20 more need the next chunk below.
    first = 0x7F0000000000 + 8 * MIB  # the chunk was begun by somebody else, 8 MiB before
    moves = [
        (Step.alloc, 0, 20 * MIB),
        (Step.alloc, 1, 20 * MIB),
        (Step.alloc, 2, 12 * MIB),
        (Step.alloc, 3, 4 * MIB),
        (Step.alloc, 4, 34 * MIB),
    ]
    policy = Addresses.driver(np.array([first], "u8"), np.array([20 * MIB], "u8"))
    got = replay_traced(history(*moves), AllocatorSettings().native(), Limits(), policy)
    base = first - 8 * MIB
    assert got.served_at.tolist() == [first, base - 32 * MIB, base - 12 * MIB, base - 64 * MIB, base - 128 * MIB]


def none_recorded():
    return Addresses.driver(np.zeros(0, "u8"), np.zeros(0, "u8"))


def test_where_no_segment_was_recorded_the_first_small_one_lies_behind_what_the_context_holds():
    # 24 MiB are left of the context's chunk of 32: 20 MiB fit there, 2 more behind them, and the second 20 do not.
    moves = [(Step.alloc, 0, 20 * MIB), (Step.alloc, 1, 20 * MIB), (Step.alloc, 2, 11 * MIB), (Step.alloc, 3, MIB)]
    first, second, third, small = replay_traced(
        history(*moves), AllocatorSettings().native(), Limits(), none_recorded()
    ).served_at.tolist()
    assert first % (32 * MIB) == 8 * MIB
    assert (third, small) == (second + 20 * MIB, first + 20 * MIB)


def test_segments_that_a_recording_puts_at_one_place_or_nowhere_do_no_harm():
    moves = [(Step.alloc, n, 20 * MIB) for n in range(4)] + [(Step.free, n, 0) for n in range(4)] + [(Step.flush, 0, 0)]
    twice = Addresses.driver(np.array([1 << 30, 1 << 30, 2**64 - 4096, 1 << 31], "u8"), np.array([20 * MIB] * 4, "u8"))
    out = replay(history(*moves), AllocatorSettings().native(), Limits(), twice)
    assert (out.peak_reserved, out.reserved, out.driver_frees) == (80 * MIB, 0, 4)


def test_equal_histories_come_out_equal_and_samples_follow_the_run():
    moves = [(Step.alloc, n, 3 * MIB) for n in range(10)]
    out = replay(history(*moves), AllocatorSettings().native(), Limits(), Addresses.ascending(), samples=10)
    assert out.sample_step.tolist() == list(range(10))
    assert out.sample_allocated.tolist() == [3 * MIB * (n + 1) for n in range(10)]
    assert out.sample_reserved.tolist() == [20 * MIB] * 6 + [40 * MIB] * 4
    assert out.sample_largest_free.tolist() == [(17 - 3 * (n % 6)) * MIB for n in range(10)]
