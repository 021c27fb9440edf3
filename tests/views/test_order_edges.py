"""Statements 1 to 5 of DESIGN section 2, a drawing each: what orders and what does not. Verdicts are worked out by hand.

Where nothing else is said, k1 writes A on s1 and k2 reads it on s2: silent if and only if an edge orders them."""

import pytest

from views.drawings import found

TWO = "stream s1 nonblocking\nstream s2 nonblocking\nt0 s1 alloc A 1M @0\nt0 s1 record made\nt0 s2 wait made\n"
RACE = ["certain access: k1 k2"]


def two(middle: str) -> list[str]:
    """The verdict on k1 and k2 with these lines between them, on two non-blocking streams."""
    return found(f"{TWO}t0 s1 launch k1 w:A\n{middle}\nt0 s2 launch k2 r:A")


# 1. Order comes from edges only.


def test_nothing_between_two_streams_orders_nothing():
    assert two("") == RACE


def test_one_stream_is_a_queue():
    assert found("t0 s1 alloc A 1M @0\nt0 s1 launch k1 w:A\nt0 s1 launch k2 w:A") == []


def test_a_record_and_a_wait_order():
    assert two("t0 s1 record e\nt0 s2 wait e") == []


def test_times_order_nothing():
    assert found(f"{TWO}t0 s1 launch k1 w:A begin=0 end=5\nt0 s2 launch k2 r:A begin=900 end=905") == RACE


def test_work_comes_after_all_that_its_thread_synchronised_with():
    assert two("t0 s1 sync_stream") == []
    assert two("t0 s1 record e\nt0 sync_event e") == []
    assert two("t0 sync_device device=0") == []


def test_edges_carry_on_through_a_third_stream():
    assert two("t0 s1 record e\nt0 s3 wait e\nt0 s3 record f\nt0 s2 wait f") == []


def test_an_edge_backwards_orders_nothing():
    assert two("t0 s2 record e\nt0 s1 wait e") == RACE


def test_calls_of_two_threads_into_one_stream_stand_in_the_tapes_order():
    assert found("t0 s1 alloc A 1M @0\nt0 s1 launch k1 w:A\nt1 s1 launch k2 w:A") == []


# 2. Host threads are actors.


def test_a_hand_over_between_threads_that_the_tape_does_not_show_is_possible():
    assert two("t0 s1 sync_stream") == []
    assert found(f"{TWO}t0 s1 launch k1 w:A\nt0 s1 sync_stream\nt1 s2 launch k2 r:A") == ["possible access: k1 k2"]


def test_two_threads_handing_over_under_a_lock_are_possible():
    text = """t0 host_access w.pinned:@0x1000+512
              t1 host_access r.pinned:@0x1000+512"""
    assert found(text) == ["possible access: host_access host_access"]


def test_what_is_unordered_even_as_one_thread_is_certain():
    assert found(f"{TWO}t0 s1 launch k1 w:A\nt1 s2 launch k2 r:A") == RACE


@pytest.mark.parametrize("edge", ["t0 s2 wait e ref=-", "t0 s2 wait e +external"])
def test_an_edge_from_outside_may_order(edge: str):
    assert two(edge) == ["possible access: k1 k2"]


def test_after_lost_rows_nothing_is_certain():
    assert two("t0 gap") == ["possible access: k1 k2"]


def test_a_hull_may_have_missed_the_bytes():
    assert found(f"{TWO}t0 s1 launch k1 w.hull:A\nt0 s2 launch k2 r:A") == ["possible access: k1 k2"]


def test_calls_that_overlap_may_stand_the_other_way_round():
    assert found(f"{TWO}t0 s1 launch k1 w:A\nt1 s2 launch k2 r:A +overlaps") == ["possible access: k1 k2"]


# 3. An event is a handle that is re-recorded.


def test_a_wait_refers_to_the_latest_record_before_it():
    assert two("t0 s1 record e\nt0 s3 record e\nt0 s2 wait e") == RACE
    assert two("t0 s3 record e\nt0 s1 record e\nt0 s2 wait e") == []


def test_a_record_after_the_wait_comes_too_late():
    assert two("t0 s3 record e\nt0 s2 wait e\nt0 s1 record e") == RACE


def test_an_event_never_recorded_orders_nothing():
    assert two("t0 s2 wait e") == RACE


def test_an_event_destroyed_and_made_anew_orders_nothing():
    assert two("t0 s1 record e\nt0 event_destroy e\nt0 s2 wait e") == RACE


def test_a_destroyed_events_earlier_wait_still_orders():
    assert two("t0 s1 record e\nt0 s2 wait e\nt0 event_destroy e") == []


def test_a_query_orders_when_it_was_ready():
    assert two("t0 s1 record e\nt0 query e +ready") == []
    assert two("t0 s1 record e\nt0 query e") == RACE
    assert two("t0 s1 query +ready") == []
    assert two("t0 s1 query") == RACE


def test_a_failed_wait_orders_nothing():
    assert two("t0 s1 record e\nt0 s2 wait e status=400") == RACE


# 4. The legacy default stream is of one device.


def legacy(first: str, second: str, classes: str = "blocking", middle: str = "") -> list[str]:
    streams = f"stream L legacy\nstream s1 {classes}\nstream s2 {classes}\nstream M legacy device=1\n"
    return found(
        f"{streams}t0 L alloc A 1M @0\nt0 sync_device device=0\nt0 {first} launch k1 w:A\n{middle}\nt0 {second} launch k2 w:A"
    )


def test_legacy_work_comes_after_blocking_streams_and_before_their_later_work():
    assert legacy("s1", "L") == []
    assert legacy("L", "s1") == []


def test_legacy_work_between_two_blocking_streams_orders_them():
    assert legacy("s1", "s2") == RACE
    assert legacy("s1", "s2", middle="t0 L launch") == []


def test_a_record_or_wait_in_the_legacy_stream_is_put_into_it_too():
    assert legacy("s1", "s2", middle="t0 L record e") == []
    assert legacy("s1", "s2", middle="t0 L wait never") == []


def test_the_legacy_stream_of_another_device_orders_nothing():
    assert legacy("s1", "s2", middle="t0 M launch") == RACE


def test_non_blocking_streams_are_exempt():
    assert legacy("s1", "L", "nonblocking") == RACE
    assert legacy("L", "s1", "nonblocking") == RACE


def test_a_stream_of_unknown_class_may_be_a_blocking_one():
    assert legacy("s1", "L", "unclassed") == ["possible access: k1 k2"]


def test_a_per_thread_default_stream_is_a_blocking_one():
    assert legacy("s1", "L", "per_thread") == []
    assert legacy("s1", "s2", "per_thread") == RACE


def host(first: str, sync: str) -> list[str]:
    head = "stream L legacy\nstream s1 blocking\nstream n nonblocking\n"
    return found(f"{head}t0 {first} copy w.pinned:@0x1000+512\n{sync}\nt0 host_access r.pinned:@0x1000+512")


def test_a_sync_of_the_legacy_stream_counts_for_the_blocking_ones():
    assert host("s1", "t0 L sync_stream") == []
    assert host("s1", "t0 L query +ready") == []
    assert host("n", "t0 L sync_stream") == ["certain access: copy host_access"]


def test_a_sync_of_a_blocking_stream_counts_for_the_legacy_work_before_it():
    assert host("L", "t0 s1 sync_stream") == []
    assert host("L", "t0 n sync_stream") == ["certain access: copy host_access"]


def test_an_alloc_or_free_on_the_legacy_stream_puts_nothing_into_it():
    assert legacy("s1", "s2", middle="t0 L alloc B 512 @0x200000\nt0 L free B") == RACE


def test_a_sync_of_another_device_orders_nothing():
    assert two("t0 sync_device device=1") == RACE


# 5. What a call does to the host.


def test_a_host_read_of_pinned_memory_before_its_copy_ended():
    text = "t0 s1 copy r:@0+512 w.pinned:@0x1000+512\nt0 host_access r.pinned:@0x1000+512"
    assert found(text) == ["certain access: copy host_access"]


def test_a_download_read_after_a_query():
    text = "t0 s1 copy r:@0+512 w.pinned:@0x1000+512\nt0 s1 record e\nt0 query e{}\nt0 host_access r.pinned:@0x1000+512"
    assert found(text.format(" +ready")) == []
    assert found(text.format("")) == ["certain access: copy host_access"]


def test_a_pageable_upload_is_read_by_the_caller_at_the_call():
    text = "t0 s1 copy w:@0+512 r.pageable:@0x1000+512\nt0 host_access w.pageable:@0x1000+512"
    assert found(text) == []


def test_a_pinned_upload_is_read_by_the_stream():
    text = "t0 s1 copy w:@0+512 r.pinned:@0x1000+512\nt0 host_access w.pinned:@0x1000+512"
    assert found(text) == ["certain access: copy host_access"]


def test_a_blocking_download_returns_after_the_copy():
    text = "t0 s1 copy r:@0+512 w.pageable:@0x1000+512 +blocking\nt0 host_access r.pageable:@0x1000+512"
    assert found(text) == []


def test_a_synchronous_device_to_device_copy_does_not_wait_for_its_end():
    text = "stream L legacy\nstream n nonblocking\nt0 L copy r:@0+512 w:@0x1000+512\nt0 n launch k r:@0x1000+512"
    assert found(text) == ["certain access: copy k"]


def test_a_host_function_is_work_of_its_stream():
    text = "t0 s1 host_func w.pinned:@0x1000+512\nt0 host_access r.pinned:@0x1000+512"
    assert found(text) == ["certain access: host_func host_access"]


def test_an_implied_wait_orders_but_nobody_may_lean_on_it():
    assert two("t0 sync_device device=0 +implied") == ["possible access: k1 k2"]


def test_launches_of_one_graph_on_two_streams_come_after_one_another():
    text = """stream s1 nonblocking
              stream s2 nonblocking
              t0 s1 capture_begin c
              t0 s1 launch node w:@0+512 capture=c
              t0 s1 capture_end g capture=c
              t0 s1 graph_launch g
              t0 s2 graph_launch {}"""
    assert found(text.format("g")) == []
    other = text.replace("t0 s1 graph_launch g", "t0 s1 graph_instantiate h capture=c\nt0 s1 graph_launch g")
    assert found(other.format("h")) == ["certain access: graph_launch graph_launch"]
