"""Pinned pools in debug mode: the host fills and looks by itself, and only at bytes that are nobody's."""

from __future__ import annotations

from contextlib import suppress
from ctypes import memset, string_at

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forebay.errors import BadInput
from forebay.runtime import Buffer, PinnedPool, SimDevice, Stream
from forebay.runtime.debug import Report

MIB, POISON = 2**20, 0xDB


@pytest.fixture
def device() -> SimDevice:
    return SimDevice("64MiB")


@pytest.fixture
def copy(device: SimDevice) -> Stream:
    return device.stream("copy")


def host_address(buffer: Buffer) -> int:
    """Where the host finds its bytes, for somebody that the buffer does not hear of."""
    return int(buffer.numpy().ctypes.data)


def found(pool: PinnedPool) -> tuple[Report, ...]:
    with suppress(BadInput):
        pool.check()
    return pool.reports


def test_poison_comes_when_every_copy_is_over_and_not_before(device, copy):
    pool = PinnedPool(device, "staging", debug=True)
    block, target = pool.alloc(4096), device.malloc(4096)
    block.numpy()[:] = 5
    there = host_address(block)
    copy.launch(lambda: None, cost_ns=10**9)
    copy.copy(target, block)
    block.free()
    pool.alloc(100).free()
    assert set(string_at(there, 4096)) == {5}
    pool.check()  # waits for the copy
    assert set(string_at(there, 4096)) == {POISON}
    out = np.zeros(4096, np.uint8)
    copy.copy(out, target)
    assert set(out.tolist()) == {5}
    assert pool.reports == ()


def test_a_late_write_of_the_host_is_found_with_its_bytes(device):
    pool = PinnedPool(device, "staging", debug=True)
    block = pool.alloc(4096)
    there = host_address(block)
    block.free()
    memset(there + 100, 1, 30)
    (report,) = found(pool)
    assert (report.misuse, report.address, report.offset, report.last) == ("write_after_free", block.address, 100, 129)
    assert "at bytes 100 to 129" in str(report)


def test_a_copy_after_the_free_is_named(device, copy):
    pool = PinnedPool(device, "staging", debug=True)
    block = pool.alloc(4096)
    stale = Buffer(device, block.address, 4096, lambda _: None, block.space)
    block.free()
    copy.copy(device.malloc(4096), stale)
    (report,) = found(pool)
    assert report.misuse == "read_after_free"
    assert report.suspects[0][1] == "copy"
    assert "test_debug_pinned.py" in str(report)


@pytest.mark.parametrize(
    ("first", "count", "words"), [(1000, 1, "byte 1 beyond its end"), (-8, 8, "bytes 1 to 8 before its begin")]
)
def test_a_write_of_the_host_beyond_a_block_is_found(device, first, count, words):
    pool = PinnedPool(device, "staging", debug=True)
    block = pool.alloc(1000)
    memset(host_address(block) + first, 1, count)
    (report,) = found(pool)
    assert (report.misuse, report.address, report.offset, report.last) == ("overrun", block.address, first, first + count - 1)
    assert words in str(report)
    block.free()
    assert found(pool) == (report,)


def test_it_pins_no_memory_for_its_looks_and_gives_all_back(device):
    pool = PinnedPool(device, "staging", debug=True)
    for _ in range(20):
        pool.alloc(MIB).free()
    assert device.account.pinned_bytes == pool.gauges().reserved
    pool.check()
    pool.trim()
    assert device.account.pinned_bytes == 0


@given(st.data())
@settings(deadline=None)
def test_random_programs_that_keep_the_rules_are_never_accused(data: st.DataObject) -> None:
    device = SimDevice("64MiB", seed=data.draw(st.integers(0, 2**32)))
    streams = [device.stream(f"s{i}", kind="nonblocking") for i in range(2)]
    pool = PinnedPool(device, "staging", 8 * MIB, debug=data.draw(st.sampled_from([0, 20_000, 2**26])))
    target, expected, place = device.malloc(64 * 256), [], 0
    rows = target.array(np.uint8, (64, 256))
    for step in range(data.draw(st.integers(3, 40))):
        block, value = pool.alloc(256), (POISON, 0xC5, step)[step % 3]
        block.numpy()[:] = value
        if data.draw(st.booleans()) and place < 64:
            data.draw(st.sampled_from(streams)).copy(rows[place], block.array(np.uint8, 256))
            expected.append(value)
            place += 1
        block.free()
        if data.draw(st.integers(0, 9)) == 0:
            pool.check()
    pool.check()
    assert pool.reports == ()
    pool.walk()
    device.synchronize()
    out = np.zeros((64, 256), np.uint8)
    streams[0].copy(out, rows)
    assert [set(row.tolist()) for row in out[:place]] == [{value} for value in expected]
