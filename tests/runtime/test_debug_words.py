"""What a pool in debug mode says of bytes that were changed (where it begins, how far it goes) and of a second free."""

import inspect
from ctypes import memset

import pytest
from numpy.lib.stride_tricks import as_strided

from forebay.errors import BadInput
from forebay.runtime import Pool, SimDevice, Stream
from forebay.runtime.debug import Report


@pytest.fixture
def device() -> SimDevice:
    return SimDevice("64MiB")


@pytest.fixture
def stream(device: SimDevice) -> Stream:
    return device.stream("main", kind="nonblocking")


def here() -> str:
    """The line that calls this, as reports write it."""
    frame = inspect.currentframe()
    assert frame is not None
    assert frame.f_back is not None
    return f"{__file__}:{frame.f_back.f_lineno}"


def one_report(pool: Pool) -> Report:
    with pytest.raises(BadInput):
        pool.check()
    (report,) = pool.reports
    return report


@pytest.mark.parametrize(
    ("first", "count", "words"),
    [
        (1002, 38, "bytes 3 to 40 beyond its end"),
        # 1000 bytes lie in 2048, 512 of them in front: 536 of canary behind.
        (1000, 536, "bytes 1 to 536, as far as anybody looked, beyond its end"),
        (-10, 4, "bytes 7 to 10 before its begin"),
        (-512, 512, "bytes 1 to 512, as far as anybody looked, before its begin"),
    ],
)
def test_an_overrun_says_where_it_starts_and_how_far_it_goes(
    device: SimDevice, stream: Stream, first: int, count: int, words: str
) -> None:
    pool = Pool(device, "p", debug=True)
    buffer = pool.alloc(1000, stream)
    stream.launch(lambda a: memset(a.ctypes.data + first, 7, count), writes=[buffer], name="careless")
    report = one_report(pool)
    assert (report.offset, report.last) == (first, first + count - 1)
    assert words in str(report)


def test_a_late_write_says_its_first_and_last_byte(device: SimDevice, stream: Stream) -> None:
    pool = Pool(device, "p", debug=True)
    first, second = pool.alloc(512, stream), pool.alloc(512, stream)
    low, high = sorted((first, second), key=lambda b: b.address)
    far = high.address - low.address
    high.free()
    stream.launch(lambda a: as_strided(a, shape=(far + 99,)).__setitem__(slice(far + 3, far + 99), 9), writes=[low], name="wild")
    report = one_report(pool)
    assert (report.offset, report.last) == (3, 98)
    assert "at bytes 3 to 98" in str(report)


def test_a_second_free_of_a_buffer_is_told_and_names_the_first(device: SimDevice, stream: Stream) -> None:
    pool, plain = Pool(device, "p", debug=True), Pool(device, "plain")
    buffer, ordinary = pool.alloc(100, stream), plain.alloc(100, stream)
    buffer.free(), (freed := here())
    with pytest.raises(BadInput, match="was freed before, at") as raised:
        buffer.free()
    assert freed in str(raised.value)
    with pool.alloc(100, stream) as once:
        once.free()
    ordinary.free()
    ordinary.free()
    pool.check()
