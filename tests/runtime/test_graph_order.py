"""Graphs on a tape, and captures of any shape: what the recording shows, what check makes of it, and that memory inside is never shared
by work that nothing orders.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forebay import Pool, SimDevice, recording
from forebay.tape import Kind
from forebay.views.order import find_races


class World:
    def __init__(self, seed=None, streams=2):
        self.device = SimDevice("64MiB", seed=seed)
        self.streams = [self.device.stream(f"s{n}", kind="nonblocking") for n in range(streams)]
        self.pool = Pool(self.device, "p")
        self.x = self.pool.alloc(64, self.streams[0])


def add_one(source, target):
    target[:] = source + 1


def rows(tape, *names):
    """Of each row that has a name: its kind, and the named columns that it knows."""
    known = tape.known
    out = []
    for i in range(len(tape)):
        kind = Kind(int(tape.columns["kind"][i]))
        out.append((kind.name, *(int(tape.columns[n][i]) if tape.has(n) and knows(tape, known, i, n) else None for n in names)))
    return out


def knows(tape, known, i, name):
    from forebay._core.tape import COLUMNS

    return known is None or bool(int(known[i]) >> COLUMNS.index(name) & 1)


def test_a_recording_shows_the_capture_its_nodes_and_its_launches():
    world = World()
    main = world.streams[0]
    with recording() as run:
        with world.device.capture(main) as graph:
            between = world.pool.alloc(64, main)
            main.launch(add_one, [world.x], [between])
            between.free()
        graph.replay(main)
        graph.close()
    beside = ("reserve", "release", "stream_create", "record", "stream_destroy", "define")  # of the graph's own memory
    shown = [row for row in rows(run.tape, "capture", "ref") if row[0] not in beside]
    capture = shown[0][2]
    ended, made = shown[4][2], shown[5][2]
    assert shown == [
        ("capture_begin", None, capture),
        ("alloc", capture, None),
        ("launch", capture, None),
        ("free", capture, None),
        ("capture_end", capture, ended),
        ("graph_instantiate", capture, made),
        ("graph_destroy", None, ended),
        ("graph_launch", None, made),
        ("graph_destroy", None, made),
    ]
    assert len({capture, ended, made}) == 3


def test_two_launches_on_two_streams_are_silent_and_a_use_beside_them_is_not():
    world = World()
    one, two = world.streams
    with recording() as run:
        one.memset(world.x, 0)
        two.wait(one.record())
        with world.device.capture(one) as graph:
            between = world.pool.alloc(64, one)
            one.launch(add_one, [world.x], [between])
            one.launch(add_one, [between], [world.x])
            between.free()
        for stream in (one, two, one, two):
            graph.replay(stream)
        silent = run.tape
        one.launch(add_one, [world.x], [world.x], name="beside")
    assert list(find_races(silent)) == []
    races = list(find_races(run.tape))
    assert {race.kind for race in races} == {"access"}
    assert {race.b.name for race in races} == {"beside"}
    assert all(race.certain for race in races)


def test_a_block_lent_inside_is_silent_and_a_fork_that_races_is_found_once():
    world = World()
    one, two = world.streams
    with recording() as run:
        one.memset(world.x, 0)
        with world.device.capture(one) as graph:
            block = world.pool.alloc(64, one)
            two.wait(one.record())
            two.memset(block, 1)
            block.free()
            one.wait(two.record())
        with world.device.capture(one) as racing:
            two.wait(one.record())
            two.launch(add_one, [world.x], [world.x], name="left")
            one.launch(add_one, [world.x], [world.x], name="right")
            one.wait(two.record())
        for _ in range(3):
            graph.replay(one)
            racing.replay(one)
    races = list(find_races(run.tape))
    assert [(race.a.name, race.b.name) for race in races] == [("left", "right")]


def test_a_recording_that_began_after_the_capture_says_that_it_does_not_know_the_graph():
    world = World()
    main = world.streams[0]
    with world.device.capture(main) as graph:
        main.launch(add_one, [world.x], [world.x])
    with recording() as run:
        graph.replay(main)
    (row,) = [i for i in range(len(run.tape)) if run.tape.columns["kind"][i] == Kind.graph_launch]
    assert int(run.tape.columns["flags"][row]) & 1 << 9  # incomplete


# ---- captures of any shape


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("alloc"), st.integers(0, 2), st.integers(1, 3)),
        st.tuples(st.just("free"), st.integers(0, 7), st.just(0)),
        st.tuples(st.just("work"), st.integers(0, 2), st.integers(0, 7)),
        st.tuples(st.just("wait"), st.integers(0, 2), st.integers(0, 2)),
    ),
    max_size=30,
)


class Shape:
    """Issues steps into a capture, and keeps a model of its own: the nodes and allocations that each stream comes after."""

    def __init__(self, world):
        self.world = world
        self.after = {0: set()}  # by stream that takes part
        self.live = []
        self.touched = []  # (buffer, node, what comes before it), of every piece of work
        self.nodes = 0

    def take(self, what, a, b):
        if what in ("alloc", "work") and a not in self.after:
            return
        getattr(self, what)(a, b)

    def alloc(self, stream, pages):
        buffer = self.world.pool.alloc(pages * 512, self.world.streams[stream])
        self.live.append(buffer)
        self.after[stream].add(buffer)

    def free(self, which, _):
        if self.live:
            self.live.pop(which % len(self.live)).free()

    def work(self, stream, which):
        if not self.live:
            return
        buffer = self.live[which % len(self.live)]
        if buffer not in self.after[stream]:  # nobody may use what is not there yet
            return
        self.world.streams[stream].memset(buffer, 1)
        self.touched.append((buffer, self.nodes, frozenset(self.after[stream])))
        self.after[stream].add(self.nodes)
        self.nodes += 1

    def wait(self, waiter, of):
        if of not in self.after or waiter == of:
            return
        self.world.streams[waiter].wait(self.world.streams[of].record())
        self.after[waiter] = self.after.get(waiter, set()) | self.after[of]

    def join(self):
        for other in list(self.after):
            self.wait(0, other)


@settings(max_examples=150, deadline=None)
@given(STEPS)
def test_blocks_that_share_bytes_are_used_by_ordered_work_only(steps):
    """A free lets go where the program's own uses are; the owners of shared bytes must follow one another."""
    world = World(streams=3)
    shape = Shape(world)
    with recording() as run:
        with world.device.capture(world.streams[0]) as graph:
            world.streams[0].memset(world.x, 1)
            for step in steps:
                shape.take(*step)
            shape.join()
        graph.replay(world.streams[0])
    for (a, node_a, _), (b, _, before_b) in ((p, q) for i, q in enumerate(shape.touched) for p in shape.touched[:i]):
        overlap = a.address < b.address + b.nbytes and b.address < a.address + a.nbytes
        if a is not b and overlap:
            assert node_a in before_b
    if all(ordered_by_program(shape, buffer) for buffer, *_ in shape.touched):
        assert list(find_races(run.tape)) == []


def ordered_by_program(shape, buffer):
    """Whether the program itself orders all its uses of one buffer."""
    uses = [(node, before) for b, node, before in shape.touched if b is buffer]
    return all(uses[i][0] in uses[j][1] for j in range(len(uses)) for i in range(j))


@pytest.mark.parametrize("seed", range(10))
def test_replays_compute_what_the_same_program_computes_without_a_graph(seed):
    """Two branches with memory of their own that is freed and taken again, under a drawn order of execution."""
    random = np.random.default_rng(seed)
    plan = [(int(random.integers(2)), int(random.integers(1, 5))) for _ in range(12)]
    results = []
    for captures in (True, False):
        world = World(seed)
        one, two = world.streams
        sums = [world.pool.alloc(64, one), world.pool.alloc(64, two)]
        for buffer, stream in zip(sums, world.streams, strict=True):
            stream.memset(buffer, 0)

        def issue(world=world, sums=sums, one=one, two=two):
            two.wait(one.record())
            for which, times in plan:
                stream = world.streams[which]
                scratch = world.pool.alloc(64, stream)
                stream.launch(add_one, [sums[which]], [scratch])
                for _ in range(times):
                    stream.launch(add_one, [scratch], [scratch])
                stream.copy(sums[which], scratch)
                scratch.free()
            one.wait(two.record())

        if captures:
            with world.device.capture(one) as graph:
                issue()
            for _ in range(3):
                graph.replay(one)
        else:
            for _ in range(3):
                issue()
        outs = [np.zeros(64, "u1"), np.zeros(64, "u1")]
        for out, buffer in zip(outs, sums, strict=True):
            one.copy(out, buffer)
        results.append([out.tolist() for out in outs])
    assert results[0] == results[1]


def test_a_replay_past_the_runtimes_look_is_convicted_on_its_tape():
    """The driver launches what it is told to; the order of the tape says that a block was gone by then."""
    world = World()
    main = world.streams[0]
    with recording() as run:
        block = world.pool.alloc(64, main)
        with world.device.capture(main) as graph:
            main.launch(add_one, [block], [world.x], name="read")
        graph.replay(main)
        block.free()
        graph._baked.clear()
        graph.replay(main)
    races = list(find_races(run.tape))
    assert {(race.kind, race.a.kind, race.b.kind) for race in races} == {("free", Kind.free, Kind.graph_launch)}
