"""One definition of the gauges, equal to the native struct's names."""

from types import SimpleNamespace

from forebay._core import pool as native
from forebay.gauges import GAUGES, LEDGER, ledger
from forebay.runtime import Pool, SimDevice


def test_the_native_struct_has_these_gauges_in_this_order() -> None:
    assert [g.name for g in GAUGES] == native.GAUGES


def test_what_is_derived_follows_from_what_is_counted() -> None:
    device = SimDevice("1GiB")
    stream, pool = device.stream("s"), Pool(device, "p")
    kept = [pool.alloc(n, stream) for n in (100, 5000, 3_000_000)]
    pool.alloc(7_000_000, stream).free()
    g = pool.gauges(stream)
    values = {gauge.name: getattr(g, gauge.name) for gauge in GAUGES}
    for gauge in GAUGES:
        if gauge.derived is not None:
            assert values[gauge.name] == eval(gauge.derived, {}, values)
    assert values["requested"] == sum(b.nbytes for b in kept)


def test_a_ledger_s_lines_sum_to_what_is_used() -> None:
    """1000 in use, 600 of them by this process, whose pools hold 500: 100 live, 20 freed and not reusable yet."""
    pools = [
        SimpleNamespace(reserved=300, allocated=100, pending=20, cached=180),
        SimpleNamespace(reserved=200, allocated=0, pending=0, cached=200),
    ]
    assert ledger(1000, 600, pools) == {
        "used": 1000, "other_processes": 400, "outside_pools": 100, "cached": 380, "pending": 20, "live": 100, "unknown_together": 0,
    }  # fmt: skip


def test_what_a_ledger_does_not_know_is_none_and_stands_together() -> None:
    assert ledger(1000, None) == {"used": 1000, **dict.fromkeys(LEDGER), "unknown_together": 1000}
    told = ledger(1000, None, [SimpleNamespace(reserved=300, allocated=100, pending=20, cached=180)])
    assert (told["live"], told["outside_pools"], told["unknown_together"]) == (100, None, 700)
