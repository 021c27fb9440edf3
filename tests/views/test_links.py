"""Which row a wait or sync looks back at, each worked out by hand."""

from forebay.tape import parse
from forebay.views.links import find_links
from forebay.views.steps import find_steps


def links(text: str) -> list[tuple[int, int]]:
    return [tuple(link) for link in find_links(parse(text))]


def test_a_wait_looks_back_at_the_latest_record_before_it():
    text = "t0 a launch k\nt0 a record e\nt0 b wait e\nt0 a record e\nt0 b wait e\nt0 a record e"
    assert links(text) == [(1, 2), (3, 4)]


def test_an_event_never_recorded_or_destroyed_since_makes_no_edge():
    assert links("t0 b wait e\nt0 a record e\nt0 event_destroy e\nt0 b wait e") == []


def test_a_stream_sync_looks_back_at_the_last_thing_in_that_stream():
    assert links("t0 a launch k\nt0 b launch k\nt0 a launch k\nt0 b sync_stream\nt0 a sync_stream") == [(1, 3), (2, 4)]


def test_a_device_sync_looks_back_at_every_stream_of_its_device():
    text = "stream a\nstream b\nstream c device=1\nt0 a launch k\nt0 b launch k\nt0 c launch k\nt0 a launch k\nt0 sync_device"
    assert sorted(links(text)) == [(1, 4), (3, 4)]


def test_a_query_counts_only_where_it_was_ready():
    assert links("t0 a record e\nt0 query e\nt0 query e +ready") == [(0, 2)]


def test_blocking_work_is_waited_for_by_its_caller():
    assert links("t0 a copy h2d 4K +blocking\nt0 a copy h2d 4K") == [(0, 0)]


def test_iterations_of_the_first_numbered_region_are_the_steps():
    text = """t0 region_begin load
              t0 region_end load
              t0 region_begin step 7
              t0 region_begin layer 0
              t0 a launch k
              t0 region_end layer 0
              t0 region_end step 7
              t0 region_begin step 8
              t0 a launch k"""
    steps = find_steps(parse(text))
    assert steps.names == ("before", "step 7", "step 8")
    assert steps.of.tolist() == [0, 0, 1, 1, 1, 1, 1, 2, 2]


def test_of_regions_beside_each_other_the_one_with_most_iterations_makes_the_steps():
    text = "".join(
        f"t0 region_begin {name} {i}\nt0 a launch k\nt0 region_end {name} {i}\n"
        for name, i in [
            ("prefill", 0),
            ("prefill", 1),
            ("decode", 0),
            ("prefill", 2),
            ("decode", 1),
            ("decode", 2),
            ("decode", 3),
        ]
    )
    assert find_steps(parse(text)).names == ("before", "decode 0", "decode 1", "decode 2", "decode 3")


def test_without_regions_a_step_ends_with_a_host_sync():
    steps = find_steps(
        parse("t0 a launch k\nt0 a sync_stream\nt0 a launch k\nt0 a copy x 4K +blocking\nt0 a launch k\nt0 a launch k")
    )
    assert steps.names == ("run 1", "run 2", "run 3")
    assert steps.of.tolist() == [0, 0, 1, 1, 2, 2]


def test_a_tape_without_any_of_them_is_one_step():
    assert find_steps(parse("t0 a launch k\nt0 a launch k\nt0 a sync_stream")).of.tolist() == [0, 0, 0]
