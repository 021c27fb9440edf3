import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.units import duration, parse_size, size


@pytest.mark.parametrize(
    ("text", "count"),
    [("0", 0), ("512", 512), ("512B", 512), ("1K", 1024), ("20 MiB", 20971520), ("1.5G", 1610612736), (" 2 TiB ", 2199023255552)],
)
def test_a_size_is_read_as_binary_units(text, count):
    assert parse_size(text) == count


@pytest.mark.parametrize("text", ["", "MiB", "-1", "1e3", "12 MB", "12 mib", "1,5G", "1 2", "0x10", "nan", "١K"])
def test_what_is_no_size_is_refused_by_name(text):
    with pytest.raises(ValueError, match="not a size"):
        parse_size(text)


@given(st.integers(0, 2**62))
def test_whole_numbers_are_read_exactly(count):
    assert parse_size(str(count)) == count


@given(st.integers(0, 2**50))
def test_a_printed_size_reads_back_within_its_two_decimals(count):
    unit = max((2**k for k in (0, 10, 20, 30, 40) if 2**k <= max(count, 1)), default=1)
    assert abs(parse_size(size(count)) - count) <= unit * 0.0051


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1 KiB"), (-2048, "-2 KiB"), (2**40, "1 TiB"), (1536 * 2**20, "1.5 GiB")],
)
def test_a_size_is_printed_in_its_largest_whole_unit(count, text):
    assert size(count) == text


@pytest.mark.parametrize(
    ("nanoseconds", "text"),
    [(0, "0 ns"), (999, "999 ns"), (1000, "1 µs"), (1_234_567, "1.23 ms"), (61_000_000_000, "61 s"), (-5000, "-5 µs")],
)
def test_a_duration_is_printed_in_its_largest_whole_unit(nanoseconds, text):
    assert duration(nanoseconds) == text
