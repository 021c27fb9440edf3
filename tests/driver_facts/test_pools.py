"""What libcuda does with its own stream-ordered pools, as far as forebay leans on it. Each on the fake and on a GPU."""

import ctypes

import pytest

from driver_facts.raw import INVALID, LEGACY, OK, Raw

MIB, MS = 2**20, 10**6
FOLLOW, OPPORTUNISTIC, INTERNAL, THRESHOLD, RESERVED, RESERVED_HIGH, USED, USED_HIGH = range(1, 9)
OUT_OF_MEMORY = 2
KEEP = 2**64 - 1


class Kind(ctypes.Structure):
    _fields_ = (
        ("type", ctypes.c_int),
        ("exported", ctypes.c_int),
        ("where", ctypes.c_int),
        ("device", ctypes.c_int),
        ("windows", ctypes.c_void_p),
        ("most", ctypes.c_size_t),
        ("usage", ctypes.c_ushort),
        ("reserved", ctypes.c_ubyte * 54),
    )


class PoolOf:
    """A pool that keeps what it has, whatever is waited for, and inserts no waits."""

    def __init__(self, cu: Raw, most: int = 0) -> None:
        self.cu = cu
        self.handle = cu.made("cuMemPoolCreate", ctypes.byref(Kind(1, 0, 1, 0, None, most, 0)))
        self.set(THRESHOLD, KEEP)
        self.set(INTERNAL, 0)

    def set(self, attribute: int, value: int) -> int:
        wide = ctypes.c_int(value) if attribute <= INTERNAL else ctypes.c_uint64(value)
        return self.cu.call("cuMemPoolSetAttribute", self.handle, ctypes.c_int(attribute), ctypes.byref(wide))

    def get(self, attribute: int) -> int:
        out = ctypes.c_int() if attribute <= INTERNAL else ctypes.c_uint64()
        assert self.cu.call("cuMemPoolGetAttribute", self.handle, ctypes.c_int(attribute), ctypes.byref(out)) == OK
        return out.value

    def alloc(self, nbytes: int, stream: int) -> int:
        return self.cu.made("cuMemAllocFromPoolAsync", nbytes, self.handle, stream)

    def refused(self, nbytes: int, stream: int) -> int:
        return self.cu.call("cuMemAllocFromPoolAsync", ctypes.byref(ctypes.c_uint64()), nbytes, self.handle, stream)

    def free(self, address: int, stream: int) -> int:
        return self.cu.call("cuMemFreeAsync", address, stream)


@pytest.fixture
def pool(cu: Raw):
    made = PoolOf(cu)
    yield made
    cu.call("cuCtxSynchronize")
    cu.call("cuMemPoolDestroy", made.handle)


def test_what_was_set_is_told(pool):
    for attribute in (FOLLOW, OPPORTUNISTIC, INTERNAL):
        for value in (0, 1):
            assert pool.set(attribute, value) == OK
            assert pool.get(attribute) == value
    assert pool.set(THRESHOLD, 5 * MIB) == OK
    assert pool.get(THRESHOLD) == 5 * MIB


def test_only_peaks_can_be_written_and_only_zero(pool):
    for attribute in (RESERVED, USED):
        assert pool.set(attribute, 0) == INVALID
    for attribute in (RESERVED_HIGH, USED_HIGH):
        assert pool.set(attribute, 1) == INVALID
        assert pool.set(attribute, 0) == OK


def test_bytes_in_use_are_those_asked_for_and_fall_with_the_free_call(cu, pool):
    stream = cu.stream()
    assert (pool.get(USED), pool.get(RESERVED)) == (0, 0)
    block = pool.alloc(1000, stream)
    assert pool.get(USED) == 1000
    assert pool.get(RESERVED) == 32 * MIB
    cu.busy(stream, 20 * MS)
    assert pool.free(block, stream) == OK
    assert pool.get(USED) == 0
    assert pool.get(RESERVED) == 32 * MIB
    assert (pool.get(USED_HIGH), pool.get(RESERVED_HIGH)) == (1000, 32 * MIB)
    cu.call("cuStreamSynchronize", stream)


def test_the_same_stream_gets_the_bytes_back_at_once(cu, pool):
    stream = cu.stream()
    block = pool.alloc(MIB, stream)
    cu.busy(stream, 20 * MS)
    assert pool.free(block, stream) == OK
    assert pool.alloc(MIB, stream) == block


def test_another_stream_gets_bytes_only_once_they_are_complete(cu, pool):
    first, second = cu.stream(), cu.stream()
    block = pool.alloc(MIB, first)
    cu.busy(first, 20 * MS)
    assert pool.free(block, first) == OK
    early = pool.alloc(MIB, second)
    assert early != block
    cu.call("cuStreamSynchronize", first)
    assert block in {pool.alloc(MIB, second) for _ in range(40)}


def test_without_opportunism_another_stream_gets_none(cu, pool):
    pool.set(OPPORTUNISTIC, 0)
    first, second = cu.stream(), cu.stream()
    block = pool.alloc(MIB, first)
    assert pool.free(block, first) == OK
    assert block not in {pool.alloc(MIB, second) for _ in range(8)}


def test_a_wait_gives_back_what_is_above_the_threshold(cu, pool):
    stream = cu.stream()
    assert pool.free(pool.alloc(MIB, stream), stream) == OK
    cu.call("cuStreamSynchronize", stream)
    assert pool.get(RESERVED) == 32 * MIB
    pool.set(THRESHOLD, 0)
    assert pool.free(pool.alloc(MIB, stream), stream) == OK
    cu.call("cuStreamSynchronize", stream)
    assert pool.get(RESERVED) == 0


def test_a_trim_gives_back_what_is_complete_and_waits_for_nothing(cu, pool):
    stream = cu.stream()
    block = pool.alloc(40 * MIB, stream)
    cu.busy(stream, 20 * MS)
    assert pool.free(block, stream) == OK
    assert cu.call("cuMemPoolTrimTo", pool.handle, 0) == OK
    assert pool.get(RESERVED) == 64 * MIB
    assert cu.call("cuStreamQuery", stream) != OK
    cu.call("cuStreamSynchronize", stream)
    assert cu.call("cuMemPoolTrimTo", pool.handle, 0) == OK
    assert pool.get(RESERVED) == 0


def test_a_limit_is_kept(cu):
    small = PoolOf(cu, 64 * MIB)
    stream = cu.stream()
    block = small.alloc(40 * MIB, stream)
    assert small.refused(60 * MIB, stream) == OUT_OF_MEMORY
    assert small.free(block, stream) == OK
    cu.call("cuStreamSynchronize", stream)


def test_a_strange_address_and_a_second_free_are_refused(cu, pool):
    """No bytes at all an H200 grants, and a process in which such a block was left crashed at a later pool's end: nobody asks for it."""
    stream = cu.stream()
    assert pool.free(12345, stream) == INVALID
    block = pool.alloc(MIB, stream)
    assert (pool.free(block, stream), pool.free(block, stream)) == (OK, INVALID)


def test_a_pool_may_end_before_its_last_free(cu):
    made, stream = PoolOf(cu), cu.stream()
    block = made.alloc(MIB, stream)
    assert cu.call("cuMemPoolDestroy", made.handle) == OK
    assert cu.call("cuMemsetD8Async", block, ctypes.c_ubyte(7), 16, stream) == OK
    cu.call("cuStreamSynchronize", stream)
    assert cu.read(block, 16) == b"\7" * 16
    assert cu.call("cuMemFreeAsync", block, stream) == OK
    cu.call("cuStreamSynchronize", stream)


def test_the_legacy_stream_orders_blocks_too(cu, pool):
    block = pool.alloc(MIB, LEGACY)
    assert cu.call("cuMemsetD8Async", block, ctypes.c_ubyte(3), 16, LEGACY) == OK
    assert cu.read(block, 16) == b"\3" * 16
    assert pool.free(block, LEGACY) == OK
