"""One definition of the gauges, equal to the native struct's names."""

from forebay._core import pool as native
from forebay.gauges import GAUGES
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
