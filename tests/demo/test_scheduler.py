from forebay.demo.model import Shape
from forebay.demo.scheduler import Scheduler
from forebay.demo.traffic import Request, drawn


def request(number: int, arrives: int = 0, prompt: int = 4, most: int = 4) -> Request:
    return Request(number, arrives, (1,) * prompt, most)


def admitted(scheduler: Scheduler) -> list[int]:
    numbers = []
    while (running := scheduler.admit()) is not None:
        numbers.append(running.request.number)
    return numbers


def test_first_come_first_served_as_far_as_slots_go():
    scheduler = Scheduler([request(1, arrives=3), request(0), request(2, arrives=3)], slots=2, pages=100, page_tokens=4)
    scheduler.arrive(0)
    assert admitted(scheduler) == [0]
    scheduler.arrive(3)
    assert admitted(scheduler) == [1]
    scheduler.finish(scheduler.running[0])
    assert admitted(scheduler) == [2]
    assert len({running.slot for running in scheduler.running}) == 2


def test_each_is_promised_the_pages_of_its_longest_outcome():
    """4 + 5 tokens need three pages of four, so two fit into six pages and the third waits though a slot is free."""
    scheduler = Scheduler([request(n, most=5) for n in range(3)], slots=8, pages=6, page_tokens=4)
    scheduler.arrive(0)
    assert admitted(scheduler) == [0, 1]
    scheduler.finish(scheduler.running[1])
    assert admitted(scheduler) == [2]


def test_done_when_nothing_runs_waits_or_comes():
    scheduler = Scheduler([request(0), request(1, arrives=2)], slots=1, pages=9, page_tokens=4)
    scheduler.arrive(0)
    first = scheduler.admit()
    assert first is not None
    scheduler.finish(first)
    assert not scheduler.done
    scheduler.arrive(2)
    second = scheduler.admit()
    assert second is not None
    scheduler.finish(second)
    assert scheduler.done


def test_places_are_those_of_the_token_that_is_fed_next():
    scheduler = Scheduler([request(0, prompt=5, most=2)], slots=1, pages=9, page_tokens=4)
    scheduler.arrive(0)
    running = scheduler.admit()
    assert running is not None
    running.issued = 1
    assert (running.place, running.wants_more) == (5, True)
    running.issued = 2
    assert (running.place, running.wants_more) == (6, False)


def test_traffic_is_drawn_from_its_seed_and_fits_the_model():
    shape = Shape()
    traffic = drawn(3, 60, shape)
    assert traffic == drawn(3, 60, shape) != drawn(4, 60, shape)
    assert all(len(r.prompt) + r.most <= shape.places and r.most >= 1 for r in traffic)
    assert [r.arrives for r in traffic] == sorted(r.arrives for r in traffic)
    shared = [r for r in traffic if sum(r.prompt[:25] == other.prompt[:25] for other in traffic) > 10]
    assert len(shared) == 30
