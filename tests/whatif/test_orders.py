"""Which orders of addresses count for a spread: those that the recorded run does not contradict."""

from forebay.tape import parse
from forebay.whatif.calibrate import calibrate
from forebay.whatif.orders import possible

# Two segments of 20 MiB, the second below the first, each with 11 MiB free at its end. 11 MiB are asked for: the lower one serves.
# All else in the upper one is freed, so that it is whole again when 20 MiB are asked for.
TIED = """
sees allocs segments ooms beginning
t0 s1 reserve 20M @0x200000000
t0 s1 alloc A 9M @0x200000000 requested=9M
t0 s1 alloc B 9M @0x200900000 requested=9M
t0 s1 reserve 20M @0x100000000
t0 s1 alloc C 9M @0x100000000 requested=9M
t0 s1 alloc D 3M @0x100900000 requested=3M
t0 s1 free B
t0 s1 free D
t0 s1 alloc E 11M @0x100900000 requested=11M
t0 s1 free A
t0 s1 alloc F 20M @0x200000000 requested=20M
"""


def names(text):
    found = calibrate(parse(text))
    assert (found.exact, found.why) == (True, "")
    return [order.name for order in possible(found)]


def test_an_order_that_would_have_asked_the_driver_once_more_is_none():
    # Ascending, E lies beside A, and F finds no 20 MiB in one piece.
    assert names(TIED)[:2] == ["driver", "descending"]
    assert "ascending" not in names(TIED)


def test_where_addresses_decide_nothing_every_order_is_possible():
    quiet = "\n".join(TIED.splitlines()[:5])
    assert names(quiet) == ["driver", "descending", "ascending", "shuffled-0", "shuffled-1"]


def test_of_a_history_that_is_not_calibrated_nothing_contradicts_an_order():
    odd = calibrate(parse(TIED.replace("reserve 20M @0x1", "reserve 22M @0x1")))
    assert not odd.exact
    assert len(possible(odd)) == 5
