"""A device's mappings in the hands of its peers: work of another device reaches them once that device was let in. Copies always did."""

import pytest

from conformance.instances import OF_TWO_DEVICES, SIMULATED
from forebay._core.driver import Status, StreamKind
from forebay.errors import DriverError

MIB = 2**20


def mapped(driver, nbytes=2 * MIB):
    """A frame of device 0, mapped and open to device 0."""
    address, frame = driver.reserve_range(0, nbytes), driver.create(0, nbytes)
    driver.map(0, address, nbytes, frame)
    driver.set_access(0, address, nbytes)
    return address


def on(driver, device):
    return driver.stream_create(device, StreamKind.nonblocking, 0)


def read(driver, address, nbytes):
    out = bytearray(nbytes)
    driver.download(0, out, address, on(driver, 0))
    return set(out)


@pytest.mark.parametrize("make", OF_TWO_DEVICES)
def test_a_peer_that_was_let_in_fills_the_bytes(make):
    driver = make()
    address, stream = mapped(driver), on(driver, 1)
    driver.set_access(1, address, 2 * MIB)
    driver.memset(1, address, 7, 2 * MIB, stream)
    driver.stream_sync(1, stream)
    assert read(driver, address, 2 * MIB) == {7}


@pytest.mark.parametrize("make", SIMULATED)
def test_one_that_was_not_is_lost_at_its_first_touch_and_the_owner_is_not(make):
    driver = make()
    address, stream = mapped(driver), on(driver, 1)
    driver.memset(1, address, 7, 2 * MIB, stream)
    with pytest.raises(DriverError) as caught:
        driver.stream_sync(1, stream)
    assert (caught.value.status, caught.value.sticky) == (Status.illegal_address, True)
    assert read(driver, address, 2 * MIB) == {0}


@pytest.mark.parametrize("make", SIMULATED)
def test_being_let_in_is_of_the_mapping_and_goes_with_it(make):
    driver = make()
    address, frame = driver.reserve_range(0, 2 * MIB), driver.create(0, 2 * MIB)
    for round in range(2):
        driver.map(0, address, 2 * MIB, frame)
        driver.set_access(0, address, 2 * MIB)
        if round == 0:
            driver.set_access(1, address, 2 * MIB)
            driver.unmap(0, address, 2 * MIB)
    stream = on(driver, 1)
    driver.memset(1, address, 7, 2 * MIB, stream)
    with pytest.raises(DriverError):
        driver.stream_sync(1, stream)


@pytest.mark.parametrize("make", OF_TWO_DEVICES)
def test_copies_reach_a_peers_mapping_without(make):
    driver = make()
    address, theirs = mapped(driver), driver.malloc(1, 2 * MIB)
    stream = on(driver, 1)
    driver.memset(1, theirs, 5, 2 * MIB, stream)
    driver.copy(1, address, theirs, 2 * MIB, stream)
    driver.stream_sync(1, stream)
    assert read(driver, address, 2 * MIB) == {5}
