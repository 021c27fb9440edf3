"""Several artifacts: sorted by what they say of themselves, and by nothing else."""

from dataclasses import replace

from forebay.doctor import examined, gravest, odd_one, trends
from forebay.tape import parse

MIB = 2**20


def tape(live, time, **told):
    text = f"""sees allocs segments beginning call_times
t0 s1 reserve 100M @0x10000000 time=0 span=0
t0 s1 alloc A {live}M @0x10000000 requested={live}M time={time} span=0
t0 s1 alloc B 1M @0x15000000 requested=1M time={time} span=0
t0 s1 free B time={time} span=0"""
    return replace(parse(text), provenance=told)


def refused(**told):
    text = "sees allocs segments ooms beginning\nt0 s1 reserve 20M @0x10000000\nt0 s1 alloc A 19M @0x10000000\nt0 s1 oom 30M\nt0 s1 free A"
    return replace(parse(text), provenance=told)


def test_one_process_at_several_times_is_a_trend_in_the_order_of_time():
    of = {"host": "a", "pid": 7, "source": "forebay.runtime"}
    each = [examined(f"{time}.tape", tape(live, time, **of)) for live, time in ((40, 3000), (20, 1000), (30, 2000))]
    (trend,) = trends(each)
    assert trend.names == ("1000.tape", "2000.tape", "3000.tape")
    assert trend.live == (21 * MIB, 31 * MIB, 41 * MIB)  # at the last request of each, B included
    assert trend.rises
    assert "it rises every time" in str(trend)


def test_two_points_are_no_rise_and_a_level_one_is_none():
    of = {"host": "a", "pid": 7}
    assert not trends([examined(str(n), tape(20 + n, n, **of)) for n in (1, 2)])[0].rises
    assert not trends([examined(str(n), tape(20, n, **of)) for n in (1, 2, 3)])[0].rises


def test_what_names_no_process_stands_alone():
    assert trends([examined(f"day{n}.tape", tape(20 + n, n)) for n in range(3)]) == []
    assert trends([examined(f"day{n}.tape", tape(20 + n, n, host="a", pid=n)) for n in range(3)]) == []


def test_the_gravest_verdict_is_an_incident_then_what_cannot_be_told():
    healthy, ill = examined("h", tape(20, 1)), examined("i", refused(rank=3))
    blind = examined("b", parse("sees work\nt0 s1 launch k"))
    assert (healthy.verdict, blind.verdict) == (None, "cannot-tell")
    assert gravest([healthy, healthy]) is None
    assert gravest([healthy, blind]) == "cannot-tell"
    assert gravest([healthy, blind, ill]) == ill.verdict == "capacity-oom"
    assert odd_one([healthy, blind, ill]) is ill
    assert ill.rank == 3
