"""Merging: one order, or a refusal."""

import numpy as np
import pytest

from forebay.errors import BadInput
from forebay.tape import Flag, Kind, parse
from forebay.tape.merge import merge

WHO = 'provenance host "\\"h\\""\nprovenance pid 7\n'
ALLOCS = parse(
    WHO
    + """thread main tid=9
        stream s1 handle=5
        t0 s1 alloc A 1M @0 seq=10
        t0 region_begin step 4 seq=11
        t0 s1 free A seq=30 cause=0"""
)
EDGES = parse(
    WHO
    + """thread other tid=8
        thread main tid=9
        stream s9
        stream s1 handle=5
        t1 s1 record e seq=12
        t0 s9 wait e seq=20 name=w cause=0"""
)


def kinds(tape):
    return [Kind(kind).name for kind in tape.columns["kind"]]


def test_rows_are_put_in_the_order_of_the_process_wide_counter():
    tape = merge([ALLOCS, EDGES])
    assert kinds(tape) == ["alloc", "region_begin", "record", "wait", "free"]
    assert tape.columns["seq"].tolist() == [10, 11, 12, 20, 30]


def test_threads_with_one_tid_and_streams_with_one_handle_are_one():
    tape = merge([ALLOCS, EDGES])
    assert [(thread.name, thread.tid) for thread in tape.sides.threads] == [("main", 9), ("other", 8)]
    assert tape.columns["thread"].tolist() == [0, 0, 0, 1, 0]
    assert [stream.name for stream in tape.sides.streams] == ["s1", "s9"]
    assert tape.columns["stream"][[0, 2, 3, 4]].tolist() == [0, 0, 1, 0]


def test_causes_follow_their_rows_and_handles_stay_apart():
    tape = merge([EDGES, EDGES])
    assert kinds(tape) == ["record", "record", "wait", "wait"]
    assert tape.columns["ref"].tolist() == [0, 1, 0, 1]
    assert tape.columns["cause"][[2, 3]].tolist() == [0, 1]
    assert merge([ALLOCS, EDGES]).columns["ref"][1] == 4


def test_by_time_rows_next_to_another_tapes_are_unsure():
    head = WHO + 'provenance clock "\\"unix\\""\ncolumns kind time_ns name\n'
    first, second = parse(head + "note a time=1us\nnote b time=2us\nnote c time=9us"), parse(head + "note x time=5us")
    tape = merge([first, second])
    assert [tape.sides.strings[name] for name in tape.columns["name"]] == ["a", "b", "x", "c"]
    assert np.array_equal(tape.columns["flags"] == Flag.OVERLAPS.value, [False, True, True, True])


@pytest.mark.parametrize(
    ("second", "said"),
    [
        (WHO.replace("7", "8") + "t0 note x", "pid is"),
        ("t0 note x", "host is"),
        (WHO + "columns kind name\nnote x", "no common order"),
        (WHO + "t0 note x seq=5\nt0 note y seq=4", "tape 1 does not stand in the order of its own seq"),
    ],
)
def test_what_has_no_common_order_is_refused(second, said):
    with pytest.raises(BadInput, match=said):
        merge([ALLOCS, parse(second)])
