"""Memory that a graph goes through by indices: what each replay touches is said at the replay, checked, and judged by that alone."""

import numpy as np
import pytest

from forebay import PagedPool, Pool, SimDevice, recording
from forebay.contract import check
from forebay.errors import BadInput
from forebay.tape import Kind

PAGE = 4096


def add_to_page(index, pages):
    pages[index[0]] += 1


class World:
    """A graph that adds one to all bytes of the page whose number lies in `index`."""

    def __init__(self, seed=None):
        self.device = SimDevice("64MiB", seed=seed)
        self.main, self.side = (self.device.stream(name, kind="nonblocking") for name in ("main", "side"))
        self.kv = PagedPool(self.device, "kv", 8 * PAGE, page_bytes=PAGE, page_tokens=16)
        self.index = Pool(self.device, "p").alloc(8, self.main).array("i8", 1)
        with self.device.capture(self.main, name="add") as self.graph:
            self.main.launch(add_to_page, [self.index], indexed=[self.kv.storage().array("u1", (8, PAGE))])

    def sequence(self):
        sequence = self.kv.open(self.main)
        sequence.grow(1, self.main)
        self.main.memset(self.page(sequence), 0)
        return sequence

    def page(self, sequence):
        return sequence.page(0, "u1", PAGE)

    def add(self, sequence, stream=None):
        self.main.copy(self.index, np.array([sequence.table[0]], "i8"))
        self.graph.replay(stream or self.main, writes=[self.page(sequence)])

    def read(self, sequence):
        out = np.zeros(PAGE, "u1")
        self.main.copy(out, self.page(sequence))
        return set(out.tolist())


@pytest.mark.parametrize("seed", [None, 3, 9])
def test_each_replay_goes_where_its_index_says(seed):
    world = World(seed)
    one, two = world.sequence(), world.sequence()
    for sequence in (one, two, one, one):
        world.add(sequence)
    assert (world.read(one), world.read(two)) == ({3}, {1})


def test_a_replay_that_does_not_say_what_it_touches_is_refused():
    world = World()
    with pytest.raises(BadInput, match=r"goes through memory by index: say in reads and writes what this replay touches"):
        world.graph.replay(world.main)


def test_what_lies_elsewhere_or_was_given_back_is_refused_before_the_launch():
    world = World()
    sequence, elsewhere = world.sequence(), Pool(world.device, "q").alloc(PAGE, world.main)
    launches = world.device.driver_calls["graph_launch"]
    page = world.page(sequence)
    with pytest.raises(BadInput, match=rf"no kernel of it goes by index through the {PAGE} bytes at {elsewhere.address:#x}"):
        world.graph.replay(world.main, reads=[elsewhere])
    sequence.finish()
    with pytest.raises(BadInput, match="freed buffer"):
        world.graph.replay(world.main, writes=[page])
    assert world.device.driver_calls["graph_launch"] == launches


def judged(program):
    """The tape of a program on a world of its own; names and certainties of what the contract finds there."""
    with recording() as run:
        program(World())
    return run.tape, [(finding.name, finding.certainty) for finding in check(run.tape).findings]


def uses_of(tape, row):
    uses = tape.uses
    return [(int(uses.address[i]), int(uses.size[i])) for i in range(uses.offsets[row], uses.offsets[row + 1])]


def test_the_tape_has_what_each_launch_touches_and_nothing_of_the_rest():
    touched = []

    def program(world):
        touched.append((world.index.address, 8))
        for sequence in (world.sequence(), world.sequence()):
            world.add(sequence)
            touched.append((world.page(sequence).address, PAGE))

    tape, _ = judged(program)
    rows = (*tape.where(Kind.launch), *tape.where(Kind.graph_launch))
    assert [uses_of(tape, row) for row in rows] == [[range] for range in touched]


def test_pages_that_a_replay_does_not_touch_are_free_for_others():
    def program(world):
        one, two = world.sequence(), world.sequence()
        world.side.wait(world.main.record())
        world.side.memset(world.page(two), 5)
        world.add(one)

    assert judged(program)[1] == []


def test_a_page_that_another_stream_writes_is_a_race():
    def program(world):
        one = world.sequence()
        world.side.wait(world.main.record())
        world.side.memset(world.page(one), 5)
        world.add(one)

    assert judged(program)[1] == [("unordered-access", "certain")]


def test_pages_go_and_come_again_between_replays():
    def program(world):
        for _ in range(3):
            sequence = world.sequence()
            world.add(sequence)
            sequence.finish()

    assert judged(program)[1] == []
