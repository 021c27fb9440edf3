"""The guide's table: on the simulated device its figures are the cost table's, worked out by hand; on the fake every row is there."""

import pytest

from bench.fresh import over_a_fresh_fake
from forebay.bench import measure
from forebay.bench.numbers import TABLE
from forebay.errors import BadInput
from forebay.runtime import SimDevice

MIB, GIB = 2**20, 2**30
US, MS = 1000, 1_000_000


@pytest.fixture(scope="module")
def simulated():
    return {figure.name: figure for figure in measure(SimDevice("16GiB"), 2).figures}


def test_every_row_is_in_the_table_and_in_its_order(simulated):
    assert list(simulated) == list(TABLE)


@pytest.mark.parametrize(
    ("name", "ns"),
    [
        ("malloc_512B", 10 * US),
        ("malloc_2MiB", 20 * US),
        ("malloc_512MiB", 50 * US),
        ("malloc_4GiB", 50 * US),
        ("free_2MiB", 10 * US),
        ("launch", 7 * US),
        ("graph_launch", 7 * US),
        ("host_alloc_1MiB", MS),
        ("host_alloc_64MiB", 30 * MS),
        ("host_free_512MiB", 50 * MS),
        ("event_record", 230),
        ("stream_wait", 220),
        ("event_query", 190),
        ("create_2MiB", 8 * US),
        ("map_20MiB", US),
        ("set_access_2MiB", 23 * US),
        ("unmap_2MiB_busy", 15 * US),
    ],
)
def test_a_simulated_figure_is_the_cost_table_s(simulated, name, ns):
    assert (simulated[name].ns, simulated[name].clock, simulated[name].why) == (ns, "virtual", None)


def test_a_free_waits_for_the_kernel_of_another_stream(simulated):
    """A kernel of 20 ms was issued just before, 7 us of launching."""
    assert 20 * MS <= simulated["free_2MiB_busy"].ns <= 20.1 * MS
    assert 20 * MS <= simulated["host_free_1MiB_busy"].ns <= 20.4 * MS


def test_a_graph_saves_the_launches():
    """300 launches of 7 us, then the last kernel's 0.5 us and the wait; against one launch, 300 kernels of 0.5 us and the wait."""
    numbers = measure(SimDevice("16GiB"), 1)
    by_name = {figure.name: figure.ns for figure in numbers.figures}
    assert 2100 * US <= by_name["decode_apart"] <= 2110 * US
    assert 157 * US <= by_name["decode_graph"] <= 170 * US
    assert numbers.graph_saves == pytest.approx(1 - by_name["decode_graph"] / by_name["decode_apart"])


def test_a_pool_s_hit_is_real_time_everywhere(simulated):
    hit = simulated["pool_hit"]
    assert hit.clock == "host"
    assert 0 < hit.least_ns <= hit.ns <= hit.most_ns


def test_what_a_simulated_device_has_not_is_none_with_the_reason(simulated):
    row = simulated["driver_pool_hit"]
    assert (row.ns, row.why) == (None, "the driver answered: not supported")


def test_sizes_that_do_not_fit_are_none_with_the_reason():
    by_name = {figure.name: figure for figure in measure(SimDevice("2GiB"), 1).figures}
    assert by_name["malloc_4GiB"].why == "the driver answered: out of memory"
    assert by_name["malloc_512MiB"].ns == 50 * US


def test_over_libcuda_every_row_is_there():
    numbers = measure(over_a_fresh_fake(16 * GIB), 1)
    assert [figure.name for figure in numbers.figures if figure.ns is None] == []
    assert {figure.clock for figure in numbers.figures} == {"host"}
    assert not numbers.simulated


@pytest.mark.parametrize("rounds", [0, -1, 1001, "3", 2.5])
def test_no_rounds_are_refused(rounds):
    with pytest.raises(BadInput, match=r"rounds: .* from 1 to 1000"):
        measure(SimDevice("1GiB"), rounds)
