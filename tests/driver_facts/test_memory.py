"""What libcuda does with memory, as far as forebay leans on it. Each on the fake and, with `make test-gpu`, on a GPU."""

import ctypes

import pytest

from driver_facts.raw import FRAME, GRANULE, INVALID, LEGACY, NOT_SUPPORTED, OK, Raw

MIB = 2**20
HOST, DEVICE = 1, 2


# ---- mapping


def test_a_range_is_mapped_by_whole_frames_at_offset_zero(cu: Raw):
    address, frame = cu.range(8 * GRANULE), cu.frame(2 * GRANULE)
    assert cu.map(address, GRANULE, frame) == NOT_SUPPORTED  # a part
    assert cu.map(address, GRANULE, frame, offset=GRANULE) == NOT_SUPPORTED  # the other part
    assert cu.map(address, 2 * GRANULE, frame) == OK


def test_a_mapping_is_aligned_to_the_granularity(cu: Raw):
    address, frame = cu.range(4 * GRANULE), cu.frame(GRANULE)
    for off in (512, 65536, GRANULE // 2):
        assert cu.map(address + off, GRANULE, frame) == INVALID
    assert cu.map(address + GRANULE, GRANULE, frame) == OK


def test_nothing_is_mapped_over_a_mapping(cu: Raw):
    address, frame, other = cu.range(4 * GRANULE), cu.frame(2 * GRANULE), cu.frame(GRANULE)
    assert cu.map(address, 2 * GRANULE, frame) == OK
    assert cu.map(address, GRANULE, other) == INVALID
    assert cu.map(address + GRANULE, GRANULE, other) == INVALID


def test_no_mapping_begins_outside_of_a_range(cu: Raw):
    """One that begins inside and runs past the end an H200 lets pass, and the fake does not: nobody may lean on either."""
    address, frame = cu.range(2 * GRANULE), cu.frame(GRANULE)
    assert cu.call("cuMemAddressFree", address, 2 * GRANULE) == OK
    for begin in (address, 2**46, GRANULE):
        assert cu.map(begin, GRANULE, frame) == INVALID


def test_a_frame_may_be_mapped_twice_and_its_bytes_are_the_same(cu: Raw):
    frame, first, second = cu.frame(GRANULE), cu.range(GRANULE), cu.range(GRANULE)
    for address in (first, second):
        assert (cu.map(address, GRANULE, frame), cu.open(address, GRANULE)) == (OK, OK)
    assert cu.call("cuMemsetD8Async", first + 4096, ctypes.c_ubyte(7), 16, LEGACY) == OK
    assert cu.read(second + 4096, 16) == b"\7" * 16


def test_access_is_given_to_what_is_wholly_mapped(cu: Raw):
    address = cu.range(4 * GRANULE)
    assert cu.open(address, GRANULE) == INVALID
    assert cu.map(address, 2 * GRANULE, cu.frame(2 * GRANULE)) == OK
    assert cu.open(address, 4 * GRANULE) == INVALID
    assert cu.open(address, 2 * GRANULE) == OK


def test_access_is_not_given_to_a_part_of_a_mapping(cu: Raw):
    address = cu.range(2 * GRANULE)
    assert cu.map(address, 2 * GRANULE, cu.frame(2 * GRANULE)) == OK
    assert cu.open(address, GRANULE) == INVALID


def test_a_mapping_goes_whole(cu: Raw):
    address = cu.mapped(2 * GRANULE)
    assert cu.call("cuMemUnmap", address, GRANULE) == INVALID
    assert cu.call("cuMemUnmap", address + GRANULE, GRANULE) == INVALID
    assert cu.call("cuMemUnmap", address, 2 * GRANULE) == OK


def test_several_mappings_go_at_once_and_gaps_between_them_are_let_pass(cu: Raw):
    address = cu.range(3 * GRANULE)
    for part in (0, 2):
        assert cu.map(address + part * GRANULE, GRANULE, cu.frame(GRANULE)) == OK
    assert cu.call("cuMemUnmap", address, 3 * GRANULE) == OK


def test_a_range_is_freed_as_it_was_reserved_and_with_nothing_mapped(cu: Raw):
    address = cu.mapped(2 * GRANULE)
    assert cu.call("cuMemAddressFree", address, 2 * GRANULE) == INVALID
    assert cu.call("cuMemUnmap", address, 2 * GRANULE) == OK
    assert cu.call("cuMemAddressFree", address, GRANULE) == INVALID
    assert cu.call("cuMemAddressFree", address, 2 * GRANULE) == OK
    assert cu.call("cuMemAddressFree", address, 2 * GRANULE) == INVALID


def test_a_released_frame_lives_while_it_is_mapped(cu: Raw):
    before = cu.free_bytes()
    address = cu.mapped(4 * GRANULE)  # releases its frame
    assert before - cu.free_bytes() == 4 * GRANULE
    assert cu.call("cuMemUnmap", address, 4 * GRANULE) == OK
    assert cu.free_bytes() == before


def test_a_frame_is_released_once(cu: Raw):
    frame = cu.frame(GRANULE)
    assert cu.call("cuMemRelease", frame) == OK
    assert cu.call("cuMemRelease", frame) == INVALID


@pytest.mark.parametrize("nbytes", [12345, GRANULE // 2, GRANULE + 4096])
def test_a_frame_is_a_multiple_of_the_granularity(cu: Raw, nbytes: int):
    assert cu.call("cuMemCreate", ctypes.byref(ctypes.c_uint64()), nbytes, ctypes.byref(FRAME), 0) == INVALID


def test_a_range_of_no_whole_pages_is_not_reserved(cu: Raw):
    assert cu.call("cuMemAddressReserve", ctypes.byref(ctypes.c_uint64()), 12345, 0, 0, 0) == INVALID


# ---- segments and pinned memory


def test_a_segment_is_freed_by_its_first_byte_once(cu: Raw):
    address = cu.malloc(MIB)
    assert cu.call("cuMemFree_v2", address + 512) == INVALID
    assert cu.call("cuMemFree_v2", address) == OK
    assert cu.call("cuMemFree_v2", address) == INVALID


def test_a_segment_of_nothing_is_none(cu: Raw):
    assert cu.call("cuMemAlloc_v2", ctypes.byref(ctypes.c_uint64()), 0) == INVALID


def test_pinned_memory_is_freed_by_its_first_byte_once(cu: Raw):
    address = cu.pinned(MIB)
    assert cu.call("cuMemFreeHost", address + 4096) == INVALID
    assert cu.call("cuMemFreeHost", address) == OK
    assert cu.call("cuMemFreeHost", address) == INVALID


def test_what_a_segment_takes_is_missing_from_the_free_bytes(cu: Raw):
    before = cu.free_bytes()
    address = cu.malloc(64 * MIB)
    assert before - cu.free_bytes() == 64 * MIB
    assert cu.call("cuMemFree_v2", address) == OK
    assert cu.free_bytes() == before


def test_a_pointer_tells_whose_memory_it_is(cu: Raw):
    kind = ctypes.c_int()
    for address, expected in ((cu.pinned(4096), HOST), (cu.malloc(4096), DEVICE), (cu.mapped(GRANULE), DEVICE)):
        assert cu.call("cuPointerGetAttribute", ctypes.byref(kind), ctypes.c_int(2), address) == OK
        assert kind.value == expected
    pageable = ctypes.create_string_buffer(64)
    assert cu.call("cuPointerGetAttribute", ctypes.byref(kind), ctypes.c_int(2), ctypes.addressof(pageable)) == INVALID


@pytest.mark.parametrize("where", ["reserved", "no access", "unmapped", "freed", "never"])
def test_a_fill_of_what_is_not_there_is_refused_at_the_call(cu: Raw, where: str):
    address = 0x1234
    if where == "reserved":
        address = cu.range(GRANULE)
    elif where == "no access":
        address = cu.range(GRANULE)
        assert cu.map(address, GRANULE, cu.frame(GRANULE)) == OK
    elif where == "unmapped":
        address = cu.mapped(GRANULE)
        assert cu.call("cuMemUnmap", address, GRANULE) == OK
    elif where == "freed":
        address = cu.malloc(64 * MIB)
        assert cu.call("cuMemFree_v2", address) == OK
    assert cu.call("cuMemsetD8Async", address, ctypes.c_ubyte(0), 8, LEGACY) == INVALID


def test_a_fill_and_a_copy_cross_the_border_of_two_frames(cu: Raw):
    address, other = cu.range(2 * GRANULE), cu.malloc(MIB)
    for part in range(2):
        assert cu.map(address + part * GRANULE, GRANULE, cu.frame(GRANULE)) == OK
    assert cu.open(address, 2 * GRANULE) == OK
    begin = address + GRANULE - MIB // 2
    assert cu.call("cuMemsetD8Async", begin, ctypes.c_ubyte(9), MIB, LEGACY) == OK
    assert cu.call("cuMemcpyAsync", other, begin, MIB, LEGACY) == OK
    assert cu.read(other, MIB) == b"\x09" * MIB


def test_pinned_memory_can_be_filled(cu: Raw):
    address = cu.pinned(4096)
    assert cu.call("cuMemsetD8Async", address, ctypes.c_ubyte(5), 4096, LEGACY) == OK
    assert cu.call("cuStreamSynchronize", LEGACY) == OK
    assert ctypes.string_at(address, 4096) == b"\5" * 4096
