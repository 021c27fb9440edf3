"""A race that virtual time hides is shown, every time, by a schedule that can be written down; the edge that was missing ends it."""

import numpy as np
import pytest

from forebay.adversary import Raised, search
from forebay.errors import BadInput
from forebay.runtime import Buffer, Pool, Schedule, SimDevice, recording

EDGES = ["with the edge", "without"]


def make(schedule):
    return SimDevice("64MiB", schedule=schedule)


def read(stream, buffer, count=1):
    out = np.empty(count, "u1")
    stream.copy(out, buffer.array("u1", count))
    return out.tolist()


def double(x, y):
    y[:] = 2 * x


def consumer(edge):
    """C7: what is copied on one stream is read on another. 2 * 7 = 14; before the copy there are zeros, or what was there."""

    def program(device):
        copies, compute = device.stream("copies", kind="nonblocking"), device.stream("compute", kind="nonblocking")
        x, y = device.malloc(64), device.malloc(64)
        for step in range(3):
            copies.copy(x, np.full(64, 7 + step, "u1"))
            if edge:
                compute.wait(copies.record())
            compute.launch(double, [x], [y], name="double")
            copies.wait(compute.record())
        return read(compute, y)

    return program


def reuse(edge):
    """C1: a block is freed on its own stream while another reads it; the pool gives the bytes to the next who asks."""

    def program(device):
        pool = Pool(device, "activations")
        home, side = device.stream("home", kind="nonblocking"), device.stream("side", kind="nonblocking")
        kept = pool.alloc(512, side)
        address = pool.alloc_address(512, home)
        home.memset(at(device, address), 3)
        side.wait(home.record())
        side.launch(double, [at(device, address)], [kept], name="double", cost_ns=10)
        if edge:
            home.wait(side.record())
        pool.free_address(address)
        again = pool.alloc_address(512, home)
        assert again == address
        home.memset(at(device, again), 50)
        home.synchronize()
        return read(side, kept)

    return program


def at(device, address):
    return Buffer(device, address, 512, lambda buffer: None)


def host_read(edge):
    """The host reads pinned memory that a copy is to fill."""

    def program(device):
        stream = device.stream("copies")
        pinned, x = device.host_alloc(8), device.malloc(8)
        stream.memset(x, 9)
        stream.copy(pinned, x)
        if edge:
            stream.synchronize()
        device.spend(10**9)  # long enough for the copy to end, by virtual time
        device.host_access(reads=[pinned])
        return int(pinned.numpy()[0])

    return program


def write_write(edge):
    """Two streams write one buffer; the one that was issued first takes longer, so that it has the last word by virtual time."""

    def program(device):
        a, b = device.stream("a", kind="nonblocking"), device.stream("b", kind="nonblocking")
        x = device.malloc(8)
        a.launch(lambda v: v.fill(1), writes=[x], name="slow", cost_ns=10**6)
        if edge:
            b.wait(a.record())
        b.launch(lambda v: v.fill(2), writes=[x], name="quick", cost_ns=10)
        device.synchronize()
        return read(a, x)

    return program


# program, the answer by virtual time with and without the edge, the wrong answers that a legal order can give
CASES = {
    "a consumer that never waited": (consumer, ([18], [18]), [[0], [14], [16]]),
    "use after free through reuse": (reuse, ([6], [6]), [[100]]),
    "a host read of a copy's target": (host_read, (9, 9), [0]),
    "two writers": (write_write, ([2], [1]), [[2]]),
}


@pytest.mark.parametrize("case", CASES)
def test_a_race_is_shown_with_a_schedule_that_shows_it_again(case):
    program, (_, expected), wrong = CASES[case]
    found = search(program(edge=False), make)
    assert found.expected == expected
    assert found.schedule is not None
    assert found.answer in wrong
    assert found.tried < 20
    line = str(found.schedule)
    assert [program(edge=False)(SimDevice("64MiB", schedule=line)) for _ in range(3)] == [found.answer] * 3


@pytest.mark.parametrize("case", CASES)
def test_with_the_edge_every_schedule_gives_the_same_answer(case):
    program, (expected, _), _ = CASES[case]
    found = search(program(edge=True), make)
    assert (found.races, found.expected) == ((), expected)
    assert (found.schedule, found.tried) == (None, 200)


def test_the_schedule_names_the_work_to_blame_and_no_other():
    found = search(consumer(edge=False), make)
    assert [str(race.a.kind.name) for race in found.races] == ["copy"] * 3
    assert str(found.schedule) in ("hold upload#0", "hold upload#1", "hold upload#2")


def test_a_run_that_fails_is_an_answer():
    def checked(x):
        assert x[0] == 7, "index out of range"

    def program(device):
        a, b = device.stream("a", kind="nonblocking"), device.stream("b", kind="nonblocking")
        x = device.malloc(8)
        a.memset(x, 7)
        b.launch(checked, [x])
        device.synchronize()

    found = search(program, make)
    assert found.expected is None
    assert isinstance(found.answer, Raised)
    assert found.answer.kind == "DriverError"


def test_a_search_stays_within_its_budget():
    runs = []
    found = search(lambda device: runs.append(device), make, budget=7)
    assert (found.tried, len(runs)) == (7, 8)  # and the one by virtual time


def test_a_search_needs_the_recording_for_itself():
    with recording(), pytest.raises(BadInput, match="already"):
        search(lambda device: None, make)


def test_work_that_is_held_runs_when_it_is_needed_and_not_before():
    device, ran = SimDevice("1MiB", schedule=Schedule.parse("hold k#1")), []
    a, b = device.stream("a", kind="nonblocking"), device.stream("b", kind="nonblocking")
    for stream, what in ((a, "a0"), (a, "a1"), (a, "a2"), (b, "b0")):
        stream.launch(lambda what=what: ran.append(what), name="k", cost_ns=1000)
    b.synchronize()
    assert ran == ["a0", "b0"]
    b.wait(a.record())
    b.launch(lambda: ran.append("b1"), name="k")
    b.synchronize()
    assert ran == ["a0", "b0", "a1", "a2", "b1"]
