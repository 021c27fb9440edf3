import pytest

from driver_facts.raw import OK, Raw


@pytest.fixture
def cu():
    raw = Raw()
    yield raw
    assert raw.call("cuCtxSynchronize") == OK, "the test left the device in a bad state"
    raw.leave()
