"""Histories of our own pools: random programs, replayed as they were, take what they took and are refused where they were."""

import gc
from contextlib import suppress

from hypothesis import given, settings
from hypothesis import strategies as st

from forebay.errors import PoolExhausted
from forebay.runtime import Pool, SimDevice, recording
from forebay.tape import Kind
from forebay.views.pool_memory import pool_memory
from forebay.whatif.own_history import own_histories
from forebay.whatif.own_policy import own_table
from forebay.whatif.recorded import Recorded, recorded

MIB = 2**20
SIZES = st.sampled_from([512, 5000, MIB // 2, 3 * MIB, 11 * MIB, 24 * MIB])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("alloc"), st.integers(0, 1), st.integers(0, 1), SIZES),
        st.tuples(st.just("free"), st.integers(0, 40), st.none(), st.none()),
        st.tuples(st.just("trim"), st.integers(0, 1), st.none(), st.none()),
    ),
    min_size=1,
    max_size=40,
)


def run(steps, growth, limit, gives_back):
    """The tape of a program whose work is over at once, so that no free ever waits."""
    gc.collect()
    with recording() as taped:
        device = SimDevice("64MiB")
        streams = [device.stream("a"), device.stream("b")]
        pools = [Pool(device, "p", limit, growth=growth, gives_back=gives_back), Pool(device, "q", growth=growth)]
        held = []
        for what, n, stream, size in steps:
            if what == "alloc":
                with suppress(PoolExhausted):
                    held.append(pools[n].alloc(size, streams[stream]))
            elif what == "trim":
                pools[n].trim()
            elif held:
                held.pop(n % len(held)).free()
        for buffer in held:
            buffer.free()
    return taped.tape


@settings(max_examples=60, deadline=None)
@given(STEPS, st.sampled_from(["segments", "frames"]), st.sampled_from([None, "24MiB"]), st.booleans())
def test_a_history_replayed_as_it_was_is_what_it_was(steps, growth, limit, gives_back):
    tape = run(steps, growth, limit, gives_back)
    if not len(tape.where(Kind.alloc, Kind.oom)):
        return
    table, ooms = own_table(tape), len(tape.where(Kind.oom))
    if limit is not None and not ooms:
        return  # a limit that no refusal tells may have kept a pool small
    figures = Recorded.together(recorded(pool_memory(tape)).values())
    assert table.lower_bound == figures.peak_requested_bytes
    if gives_back or ooms:
        assert (table.exact, table.why) == (True, "")
        assert table.recorded.peak_reserved_bytes == figures.peak_reserved_bytes
        assert table.recorded.oom is (ooms > 0)


@settings(max_examples=30, deadline=None)
@given(STEPS)
def test_trims_and_pools_taken_away_leave_the_program_what_it_asked_for(steps):
    tape = run(steps, "segments", None, gives_back=True)
    for own in own_histories(pool_memory(tape)):
        asked = [int(n) for n in own.bytes[own.move == 0]]
        assert asked == [int(n) for n in pool_memory(tape).columns["requested"][tape_rows(tape)]]


def tape_rows(tape):
    """The rows that ask: of the rows of pools' memory."""
    return pool_memory(tape).where(Kind.alloc, Kind.oom)


def test_two_devices_are_replayed_apart_and_what_the_program_took_itself_is_taken_off():
    gc.collect()
    with recording() as taped:
        for capacity in ("64MiB", "48MiB"):
            device = SimDevice(capacity)
            stream = device.stream("s")
            raw = device.malloc(3 * MIB)  # no pool's: less for all of them
            pool = Pool(device, "p")
            held = [pool.alloc(3 * MIB, stream) for _ in range(4)]
            with suppress(PoolExhausted):
                pool.alloc(44 * MIB, stream).free()
            for buffer in held:
                buffer.free()
            raw.free()
    table = own_table(taped.tape)
    assert (table.exact, table.why, table.recorded.oom) == (True, "", True)
    assert [own.capacity for own in own_histories(pool_memory(taped.tape))] == [61 * MIB, 45 * MIB]
    assert table.recorded.peak_reserved_bytes == 2 * 20 * MIB  # a segment of 20 MiB on each; 44 more fit on neither
