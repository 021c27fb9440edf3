"""One suite for the driver port, many drivers: what every driver does with the same calls. An instance is a function that makes one."""

import threading
from contextlib import suppress

import pytest

from conformance.instances import DRIVERS, MIB, OF_TWO_DEVICES, SIMULATED
from forebay._core.driver import Driver, Status, StreamKind
from forebay.errors import DriverError

GRANULE = 2 * MIB
LEGACY, PER_THREAD = 1, 2


@pytest.fixture(params=DRIVERS, ids=lambda make: make.__name__)
def driver(request):
    return request.param()


@pytest.fixture(params=OF_TWO_DEVICES, ids=lambda make: make.__name__)
def driver_of_two(request):
    return request.param()


@pytest.fixture(params=SIMULATED, ids=lambda make: make.__name__)
def simulated(request):
    """Its device meets bad addresses while it works; CUDA's own calls refuse them (tests/driver/test_cuda.py)."""
    return request.param()


def expect(status: Status, call, *arguments):
    """The call fails with this status, and says which call it was."""
    with pytest.raises(DriverError) as caught:
        call(*arguments)
    assert caught.value.status == status, str(caught.value)
    assert caught.value.call == call.__name__


def mapped(driver: Driver, bytes: int) -> tuple[int, int]:
    """A range with one frame mapped and opened: its address and the frame."""
    address, frame = driver.reserve_range(0, bytes), driver.create(0, bytes)
    driver.map(0, address, bytes, frame)
    driver.set_access(0, address, bytes)
    return address, frame


def written(driver: Driver, address: int, data: bytes) -> None:
    driver.upload(0, address, data, LEGACY)


def held(driver: Driver, address: int, count: int) -> bytes:
    out = bytearray(count)
    driver.download(0, out, address, LEGACY)
    return bytes(out)


# ---- memory


def test_what_is_allocated_is_missing_from_the_free_bytes_until_it_is_freed(driver):
    before = driver.memory_info(0)
    address = driver.malloc(0, 4 * MIB)
    assert before.free_bytes - driver.memory_info(0).free_bytes == 4 * MIB
    driver.free(0, address)
    assert driver.memory_info(0).free_bytes == before.free_bytes
    assert driver.memory_info(0).total_bytes == driver.facts(0).total_bytes


def test_more_than_the_device_has_is_out_of_memory_and_changes_nothing(driver):
    total, free = driver.facts(0).total_bytes, driver.memory_info(0).free_bytes
    expect(Status.out_of_memory, driver.malloc, 0, total + 1)
    expect(Status.out_of_memory, driver.malloc, 0, 2**62)
    expect(Status.out_of_memory, driver.create, 0, (total // GRANULE + 1) * GRANULE)
    assert driver.memory_info(0).free_bytes == free


def test_frames_and_segments_take_from_the_same_bytes(driver):
    quarter = driver.memory_info(0).free_bytes // 4 // GRANULE * GRANULE
    segment = driver.malloc(0, 2 * quarter)
    expect(Status.out_of_memory, driver.create, 0, 3 * quarter)
    frame = driver.create(0, quarter)
    expect(Status.out_of_memory, driver.malloc, 0, 2 * quarter)
    driver.release(0, frame)
    driver.free(0, segment)
    driver.release(0, driver.create(0, 3 * quarter))


def test_what_was_not_allocated_cannot_be_freed(driver):
    address = driver.malloc(0, MIB)
    expect(Status.invalid_value, driver.free, 0, address + 512)
    driver.free(0, address)
    expect(Status.invalid_value, driver.free, 0, address)
    pinned = driver.host_alloc(4096)
    expect(Status.invalid_value, driver.host_free, pinned + 64)
    driver.host_free(pinned)
    expect(Status.invalid_value, driver.host_free, pinned)


def test_sizes_of_zero_and_odd_sizes_are_invalid(driver):
    expect(Status.invalid_value, driver.malloc, 0, 0)
    expect(Status.invalid_value, driver.create, 0, 12345)
    expect(Status.invalid_value, driver.reserve_range, 0, 12345)


def test_a_device_that_is_not_there(driver):
    expect(Status.invalid_device, driver.malloc, 7, 512)
    expect(Status.invalid_device, driver.device_sync, -1)


def test_segments_hold_their_bytes_apart(driver):
    a, b = driver.malloc(0, 512), driver.malloc(0, 512)
    written(driver, a, b"a" * 512)
    written(driver, b, b"b" * 512)
    assert (held(driver, a, 512), held(driver, b, 512)) == (b"a" * 512, b"b" * 512)


def test_pinned_memory_is_seen_from_both_sides(driver):
    pinned, device = driver.host_alloc(4096), driver.malloc(0, 4096)
    view = memoryview(driver.host_memory(pinned, 4096))
    view[:4] = b"here"
    driver.copy(0, device, pinned, 4096, LEGACY)
    driver.memset(0, pinned, 0, 4096, LEGACY)
    driver.copy(0, pinned, device, 2, LEGACY)
    driver.stream_sync(0, LEGACY)
    assert bytes(view[:4]) == b"he\0\0"


# ---- virtual memory


def test_a_range_is_mapped_a_whole_frame_at_a_time(driver):
    address, frame = driver.reserve_range(0, 8 * GRANULE), driver.create(0, 2 * GRANULE)
    other = driver.create(0, GRANULE)
    driver.map(0, address, 2 * GRANULE, frame)
    expect(Status.invalid_value, driver.map, 0, address, GRANULE, other)  # over a mapping
    expect(Status.invalid_value, driver.map, 0, address + GRANULE, GRANULE, other)  # over its tail
    expect(Status.not_supported, driver.map, 0, address + 4 * GRANULE, GRANULE, frame)  # a part of the frame
    expect(Status.invalid_value, driver.map, 0, address + 4 * GRANULE + 512, GRANULE, other)  # unaligned
    expect(Status.invalid_value, driver.map, 0, address + 8 * GRANULE, GRANULE, other)  # past the range
    driver.map(0, address + 2 * GRANULE, GRANULE, other)


def test_access_is_given_to_whole_mappings(driver):
    address, frame = driver.reserve_range(0, 4 * GRANULE), driver.create(0, 2 * GRANULE)
    expect(Status.invalid_value, driver.set_access, 0, address, GRANULE)
    driver.map(0, address, 2 * GRANULE, frame)
    expect(Status.invalid_value, driver.set_access, 0, address, GRANULE)
    expect(Status.invalid_value, driver.set_access, 0, address, 4 * GRANULE)
    driver.set_access(0, address, 2 * GRANULE)


def test_mappings_go_whole_and_two_may_go_at_once(driver):
    address, frame = mapped(driver, 2 * GRANULE)
    expect(Status.invalid_value, driver.unmap, 0, address, GRANULE)
    driver.unmap(0, address, 2 * GRANULE)
    wide = driver.reserve_range(0, 4 * GRANULE)
    driver.map(0, wide, 2 * GRANULE, frame)
    driver.map(0, wide + 2 * GRANULE, 2 * GRANULE, frame)
    driver.unmap(0, wide, 4 * GRANULE)
    driver.map(0, wide, 2 * GRANULE, frame)


def test_a_range_goes_as_it_came_and_only_when_nothing_is_mapped(driver):
    address, _ = mapped(driver, 2 * GRANULE)
    expect(Status.invalid_value, driver.release_range, 0, address, 2 * GRANULE)
    driver.unmap(0, address, 2 * GRANULE)
    expect(Status.invalid_value, driver.release_range, 0, address, GRANULE)
    driver.release_range(0, address, 2 * GRANULE)
    expect(Status.invalid_value, driver.release_range, 0, address, 2 * GRANULE)


def test_a_released_frame_lives_while_it_is_mapped(driver):
    before = driver.memory_info(0).free_bytes
    address, frame = mapped(driver, GRANULE)
    driver.release(0, frame)
    expect(Status.invalid_value, driver.release, 0, frame)
    assert before - driver.memory_info(0).free_bytes == GRANULE
    written(driver, address, b"alive")
    assert held(driver, address, 5) == b"alive"
    driver.unmap(0, address, GRANULE)
    assert driver.memory_info(0).free_bytes == before


def test_two_mappings_of_one_frame_share_its_bytes(driver):
    first, frame = mapped(driver, GRANULE)
    second = driver.reserve_range(0, GRANULE)
    driver.map(0, second, GRANULE, frame)
    driver.set_access(0, second, GRANULE)
    written(driver, first + 4096, b"shared")
    assert held(driver, second + 4096, 6) == b"shared"
    driver.unmap(0, first, GRANULE)
    assert held(driver, second + 4096, 6) == b"shared"


def test_work_spans_the_border_of_two_frames(driver):
    address = driver.reserve_range(0, 2 * GRANULE)
    for part in range(2):
        driver.map(0, address + part * GRANULE, GRANULE, driver.create(0, GRANULE))
    driver.set_access(0, address, 2 * GRANULE)
    driver.memset(0, address + GRANULE - 2, 0x41, 4, LEGACY)
    assert held(driver, address + GRANULE - 3, 6) == b"\0AAAA\0"


# ---- streams and events


def test_the_id_of_a_stream_is_never_seen_again_whatever_its_number(driver):
    ids = []
    for priority in (0, -1) * 20:
        stream = driver.stream_create(0, StreamKind.nonblocking, priority)
        ids.append(driver.stream_id(0, stream))
        driver.stream_destroy(0, stream)
    assert len(set(ids)) == len(ids)


def test_a_simulated_stream_s_number_comes_back_at_once(simulated):
    first = simulated.stream_create(0, StreamKind.nonblocking, 0)
    simulated.stream_destroy(0, first)
    assert simulated.stream_create(0, StreamKind.blocking, -1) == first


def test_a_destroyed_handle_is_invalid(driver):
    stream, event = driver.stream_create(0, StreamKind.blocking, 0), driver.event_create(0)
    live = driver.event_create(0)
    driver.stream_destroy(0, stream)
    driver.event_destroy(0, event)
    expect(Status.invalid_handle, driver.stream_sync, 0, stream)
    expect(Status.invalid_handle, driver.stream_destroy, 0, stream)
    expect(Status.invalid_handle, driver.event_record, 0, live, stream)
    expect(Status.invalid_handle, driver.event_query, 0, event)
    expect(Status.invalid_handle, driver.stream_wait, 0, LEGACY, event)


def test_a_handle_of_another_device_is_invalid(driver_of_two):
    driver = driver_of_two
    stream, event = driver.stream_create(0, StreamKind.blocking, 0), driver.event_create(0)
    expect(Status.invalid_handle, driver.stream_sync, 1, stream)
    expect(Status.invalid_handle, driver.event_record, 1, event, LEGACY)
    other = driver.malloc(1, 512)
    expect(Status.invalid_value, driver.free, 0, other)


def test_a_stream_may_wait_for_an_event_of_another_device(driver_of_two):
    driver = driver_of_two
    event, mine, theirs = driver.event_create(1), driver.malloc(0, 8), driver.malloc(1, 8)
    far = driver.stream_create(1, StreamKind.nonblocking, 0)
    near = driver.stream_create(0, StreamKind.nonblocking, 0)
    driver.memset(1, theirs, 3, 8, far)
    driver.event_record(1, event, far)
    driver.stream_wait(0, near, event)
    driver.copy(0, mine, theirs, 8, near)
    driver.stream_sync(0, near)
    assert held(driver, mine, 8) == b"\3" * 8


def test_zero_and_one_are_one_stream_and_two_is_one_a_thread(driver):
    assert driver.stream_id(0, 0) == driver.stream_id(0, LEGACY)
    ids = [driver.stream_id(0, PER_THREAD)]
    other = threading.Thread(target=lambda: ids.append(driver.stream_id(0, PER_THREAD)))
    other.start()
    other.join()
    ids.append(driver.stream_id(0, PER_THREAD))
    assert ids[0] == ids[2] != ids[1]
    assert driver.stream_id(0, LEGACY) not in ids


def test_every_device_has_a_legacy_stream_of_its_own(driver_of_two):
    assert driver_of_two.stream_id(1, LEGACY) != driver_of_two.stream_id(0, LEGACY)


def test_an_event_never_recorded_is_complete_and_orders_nothing(driver):
    event = driver.event_create(0)
    assert driver.event_query(0, event)
    driver.event_sync(0, event)
    driver.stream_wait(0, LEGACY, event)
    driver.device_sync(0)


def test_a_synchronised_event_and_stream_are_ready(driver):
    stream, event = driver.stream_create(0, StreamKind.nonblocking, 0), driver.event_create(0)
    driver.memset(0, driver.malloc(0, MIB), 1, MIB, stream)
    driver.event_record(0, event, stream)
    driver.event_sync(0, event)
    assert driver.event_query(0, event)
    driver.stream_sync(0, stream)
    assert driver.stream_query(0, stream)


def test_polling_comes_to_an_end(driver):
    stream = driver.stream_create(0, StreamKind.nonblocking, 0)
    address = driver.malloc(0, MIB)
    driver.memset(0, address, 1, MIB, stream)
    while not driver.stream_query(0, stream):
        pass
    assert held(driver, address + MIB - 1, 1) == b"\1"


def test_no_stream_is_capturing(driver):
    assert not driver.stream_capturing(0, LEGACY)


def test_a_free_waits_for_the_device(driver):
    stream, ran = driver.stream_create(0, StreamKind.nonblocking, 0), []
    address = driver.malloc(0, 512)
    driver.host_func(0, stream, lambda memory: ran.append("before") or True)
    driver.free(0, address)
    assert ran == ["before"]


def test_work_in_a_destroyed_stream_still_runs(driver):
    stream, ran = driver.stream_create(0, StreamKind.nonblocking, 0), []
    driver.host_func(0, stream, lambda memory: ran.append(1) or True)
    driver.stream_destroy(0, stream)
    driver.device_sync(0)
    assert ran == [1]


def test_a_host_function_may_not_wait(driver):
    statuses = []

    def waits(memory):
        for call in (driver.device_sync, lambda device: driver.stream_sync(device, LEGACY)):
            try:
                call(0)
            except DriverError as error:
                statuses.append(error.status)
        return True

    driver.host_func(0, LEGACY, waits)
    driver.device_sync(0)
    assert statuses == [Status.not_permitted] * 2


# ---- faults


@pytest.mark.parametrize("touch", ["unmapped", "no access", "past the end", "freed", "never"])
def test_touching_what_is_not_there_loses_the_device_and_no_other(simulated, touch):
    driver = simulated
    address, _ = mapped(driver, GRANULE)
    if touch == "unmapped":
        driver.unmap(0, address, GRANULE)
    elif touch == "no access":
        address = driver.reserve_range(0, GRANULE)
        driver.map(0, address, GRANULE, driver.create(0, GRANULE))
    elif touch == "past the end":
        address += GRANULE - 4
    elif touch == "freed":
        address = driver.malloc(0, 4096)
        driver.free(0, address)
    else:
        address = 0x1234
    driver.memset(0, address, 0, 8, LEGACY)
    expect(Status.illegal_address, driver.device_sync, 0)
    expect(Status.illegal_address, driver.malloc, 0, 512)
    expect(Status.illegal_address, driver.stream_create, 0, StreamKind.blocking, 0)
    expect(Status.illegal_address, driver.host_alloc, 512)
    driver.free(1, driver.malloc(1, 512))


def test_work_behind_a_fault_never_runs_and_nobody_waits_for_it(simulated):
    driver = simulated
    ran = []
    event = driver.event_create(0)
    driver.memset(0, 0x1234, 0, 8, LEGACY)
    with suppress(DriverError):  # a seed may have let it strike by now
        driver.host_func(0, LEGACY, lambda memory: ran.append("behind") or True)
        driver.event_record(0, event, LEGACY)
    driver.stream_wait(1, LEGACY, event)
    driver.device_sync(1)
    assert ran == []
