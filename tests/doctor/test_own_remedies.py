"""What is priced of our own runtime's tapes: the faults of the demo, and small programs whose pools' figures are counted by hand."""

import gc
from contextlib import suppress

import pytest

from forebay.demo.faults import FAULTS
from forebay.demo.server import serve
from forebay.doctor import diagnose, with_remedies
from forebay.errors import PoolExhausted
from forebay.runtime import PagedPool, Pool, SimDevice, recording
from forebay.whatif.own_policy import own_table

MIB = 2**20


def taped(program):
    gc.collect()
    with recording() as run:
        program()
    return run.tape


def priced(tape):
    finding = with_remedies(diagnose(tape), tape).findings[0]
    return finding, {remedy["name"]: remedy for remedy in finding.evidence["remedies"]}


@pytest.fixture(
    scope="module", params=["checkerboard-fragmentation", "capacity-oom", "empty-cache-smell", "stranded-stream-cache"]
)
def fault(request):
    return request.param, taped(lambda: serve(1, requests=14, engine=FAULTS[request.param].engine))


def test_the_replay_of_a_demo_fault_takes_and_refuses_what_was_recorded(fault):
    table = own_table(fault[1])
    assert (table.exact, table.why) == (True, "")


def test_a_demo_fault_is_told_what_serves_it_and_nothing_else(fault):
    name, tape = fault
    finding, tried = priced(tape)
    assert finding.name == name
    helping = {remedy for remedy, told in tried.items() if told["helps"]}
    first = {
        "checkerboard-fragmentation": "what is kept apart",
        "capacity-oom": None,
        "empty-cache-smell": "no trim",
        "stranded-stream-cache": "gives_back=True",
    }[name]
    if first is None:
        assert helping == set()
        assert "none helps" in finding.remedy
    else:
        assert finding.remedy.startswith(f"1. {'remove the calls of Pool.trim' if first == 'no trim' else first}: ")
        assert first in helping


def test_the_demo_s_trims_cost_what_its_pool_took_again():
    tape = taped(lambda: serve(1, requests=14, engine=FAULTS["empty-cache-smell"].engine))
    finding, tried = priced(tape)
    # A pool's end gives memory back too, and is no call of trim.
    assert (finding.evidence["calls"], finding.evidence["flushed_segments"], finding.evidence["flushed_bytes"]) == (
        14,
        14,
        280 * MIB,
    )
    # Fourteen prompts, each with a segment of 20 MiB that goes back; weights and activations have one of 2 MiB each. Without trims: three.
    assert (tried["no trim"]["driver_calls_before"], tried["no trim"]["driver_calls_after"]) == (16 + 14, 3)


def checkerboard(limit, request):
    """Eight records of 4 MiB between scratch of 4 MiB that goes, in a pool that then has to serve a large request."""

    def program():
        device = SimDevice("256MiB")
        stream = device.stream("s")
        pool = Pool(device, "all", limit)
        scratch, kept = [], []
        for _ in range(8):
            scratch.append(pool.alloc(4 * MIB, stream))
            kept.append(pool.alloc(4 * MIB, stream))
        for buffer in scratch:
            buffer.free()
        with suppress(PoolExhausted):
            pool.alloc(request, stream).free()
        for buffer in kept:
            buffer.free()

    return taped(program)


def test_what_is_kept_apart_leaves_the_rest_in_one_piece():
    tape = checkerboard("80MiB", 24 * MIB)
    finding, tried = priced(tape)
    assert (finding.name, finding.evidence["request_bytes"], finding.evidence["idle_bytes"] >= 32 * MIB) == (
        "checkerboard-fragmentation",
        24 * MIB,
        True,
    )
    apart = tried["what is kept apart"]
    assert (apart["oom"], apart["helps"]) == (False, True)
    assert apart["after_bytes"] <= 80 * MIB  # the limit is that of both together
    assert "test_own_remedies.py" in apart["how"]


def test_under_a_limit_that_nothing_can_meet_nothing_is_advised():
    _, tried = priced(tape := checkerboard("70MiB", 40 * MIB))  # 32 MiB stay, whatever is done
    finding, _ = priced(tape)
    assert {told["oom"] for told in tried.values()} == {True}
    assert not any(told["helps"] for told in tried.values())
    assert "none helps" in finding.remedy


def test_a_history_that_nobody_refused_is_compared_by_its_peak():
    def program():
        device = SimDevice("256MiB")
        stream = device.stream("s")
        small, large = Pool(device, "small"), Pool(device, "large")
        for pool in (small, large):  # one after the other: never 30 MiB at once
            pool.alloc(30 * MIB, stream).free()

    table = own_table(taped(program))
    rows = {row.settings: row for row in table.rows}
    assert (table.exact, table.recorded.oom, table.lower_bound) == (True, False, 30 * MIB)
    assert (table.recorded.peak_reserved_bytes, rows["one pool"].peak_reserved_bytes) == (60 * MIB, 30 * MIB)
    assert rows["one pool"].remedy is False


def test_pages_are_taken_off_the_device_and_are_no_moves():
    def program():
        device = SimDevice("64MiB")
        stream = device.stream("s")
        pages = PagedPool(device, "kv", "8MiB", page_bytes=MIB, page_tokens=16)
        sequence = pages.open(stream, [])
        sequence.grow(40, stream)
        pool = Pool(device, "rest")
        held = [pool.alloc(20 * MIB, stream) for _ in range(2)]
        with pytest.raises(PoolExhausted):
            pool.alloc(20 * MIB, stream)
        sequence.finish()
        for buffer in held:
            buffer.free()

    table = own_table(taped(program))
    assert (table.exact, table.recorded.oom) == (True, True)
    assert table.recorded.peak_reserved_bytes == 8 * MIB + 40 * MIB
    assert table.recorded.cap_bytes == 64 * MIB
    assert own_table(taped(program), cap=80 * MIB).rows[0].oom is False
