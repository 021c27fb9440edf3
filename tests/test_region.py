import threading

import pytest

from forebay.region import add_sink, region, remove_sink


class Heard:
    """A sink that writes down what it hears."""

    def __init__(self):
        self.lines = []

    def begin(self, name, iteration):
        self.lines.append(("begin", name, iteration))

    def end(self, name, iteration):
        self.lines.append(("end", name, iteration))


@pytest.fixture
def heard():
    sink = Heard()
    add_sink(sink)
    yield sink.lines
    remove_sink(sink)


def test_a_region_is_heard_from_its_begin_to_its_end(heard):
    with region("step", iteration=4), region("decode"):
        pass
    assert heard == [("begin", "step", 4), ("begin", "decode", None), ("end", "decode", None), ("end", "step", 4)]


def test_an_exception_ends_the_region_and_goes_on(heard):
    with pytest.raises(ZeroDivisionError), region("decode"):
        1 / 0  # noqa: B018
    assert heard == [("begin", "decode", None), ("end", "decode", None)]


def test_a_decorated_function_is_a_region_each_time_even_inside_itself(heard):
    @region("walk")
    def walk(depth):
        return depth and 1 + walk(depth - 1)

    assert walk(2) == 2
    assert [line[0] for line in heard] == ["begin"] * 3 + ["end"] * 3


def test_a_sink_that_comes_late_does_not_hear_the_end_of_what_it_did_not_see_begin():
    late = Heard()
    with region("decode"):
        add_sink(late)
    remove_sink(late)
    assert late.lines == []


def test_a_sink_that_goes_early_hears_the_end_of_what_it_saw_begin():
    early = Heard()
    add_sink(early)
    with region("decode"):
        remove_sink(early)
    assert early.lines == [("begin", "decode", None), ("end", "decode", None)]


def test_a_sink_added_twice_hears_once(heard):
    sink = Heard()
    add_sink(sink)
    add_sink(sink)
    with region("decode"):
        pass
    remove_sink(sink)
    with region("decode"):
        pass
    assert sink.lines == [("begin", "decode", None), ("end", "decode", None)]


def test_sinks_added_from_many_threads_are_all_there():
    sinks = [Heard() for _ in range(50)]
    threads = [threading.Thread(target=add_sink, args=(sink,)) for sink in sinks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with region("decode"):
        pass
    for sink in sinks:
        remove_sink(sink)
    assert [len(sink.lines) for sink in sinks] == [2] * 50
