"""Every order that the simulated device runs work in is a legal one, and a seed gives the same one again.

The oracle below knows nothing of the driver: it writes the graph of a program out, edge by edge, from the words of the design
(FIFO streams, records and waits, the legacy stream, host waits), and checks an order of execution against all of it.
"""

import random
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forebay.runtime import Schedule, SimDevice
from forebay.runtime.schedule import WorkName

KINDS = ["legacy", "blocking", "blocking", "nonblocking", "nonblocking"]


@dataclass
class Op:
    """One call of a program: what, on which stream, with which event."""

    what: str
    stream: int = 0
    event: int = 0


@dataclass
class Graph:
    """Predecessors of each op, by index; `synced[i]`: the ops that are known complete when the host makes call i."""

    before: list[set[int]] = field(default_factory=list)
    synced: list[set[int]] = field(default_factory=list)


def closure(before, roots):
    """All that comes before the roots, and the roots."""
    seen, stack = set(), list(roots)
    while stack:
        op = stack.pop()
        if op not in seen:
            seen.add(op)
            stack.extend(before[op])
    return seen


def written_out(program):
    """The graph of a program, quadratic and plain."""
    graph, items, records, known = Graph(), [], {}, set()
    for i, op in enumerate(program):
        graph.synced.append(set(known))
        before = set()
        kind = KINDS[op.stream]

        def touches(j, stream=op.stream, kind=kind):
            other = KINDS[program[j].stream]
            same = program[j].stream == stream
            return same or (kind == "legacy" and other == "blocking") or (kind == "blocking" and other == "legacy")

        if op.what in ("launch", "record", "wait"):
            before |= {j for j in items if touches(j)} | known
            if op.what == "wait" and op.event in records:
                before.add(records[op.event])
            if op.what == "record":
                records[op.event] = i
            items.append(i)
        graph.before.append(before)
        if op.what == "sync_stream":
            known = known | closure(graph.before, [j for j in items if touches(j)])
        elif op.what == "sync_event" and op.event in records:
            known = known | closure(graph.before, [records[op.event]])
        elif op.what == "sync_device":
            known = known | set(items)
    return graph


def run(program, schedule):
    """The order in which the launches ran: the host's calls among them as negative numbers, -1 - index."""
    device = SimDevice("1MiB", schedule=schedule)
    streams = [device.default_stream] + [device.stream(str(i), kind=kind) for i, kind in enumerate(KINDS[1:], 1)]
    events = [device.event() for _ in range(3)]
    order = []
    for i, op in enumerate(program):
        stream, event = streams[op.stream], events[op.event]
        order.append(-1 - i)
        if op.what == "launch":
            stream.launch(lambda i=i: order.append(i), name="k", cost_ns=1 + i * 7919 % 50_000)
        elif op.what == "record":
            stream.record(event)
        elif op.what == "wait":
            stream.wait(event)
        elif op.what == "sync_stream":
            stream.synchronize()
        elif op.what == "sync_event":
            event.synchronize()
        elif op.what == "sync_device":
            device.synchronize()
        elif op.what == "query":
            event.ready()
    device.synchronize()
    return order


def assert_legal(program, order):
    """Each launch ran once, after its issue, after all that comes before it, and before the host went on from its wait."""
    graph, place = written_out(program), {op: at for at, op in enumerate(order)}
    launches = [i for i, op in enumerate(program) if op.what == "launch"]
    assert sorted(i for i in order if i >= 0) == launches
    for i in launches:
        assert place[-1 - i] < place[i], f"{i} ran at or before its issue"
        for j in closure(graph.before, graph.before[i]):
            assert program[j].what != "launch" or place[j] < place[i], f"{j} comes before {i}"
    for i, synced in enumerate(graph.synced):
        for j in synced:
            assert program[j].what != "launch" or place[j] < place[-1 - i], f"{j} was waited for before call {i}"


WHATS = ["launch"] * 8 + ["record"] * 3 + ["wait"] * 3 + ["query", "sync_stream", "sync_event", "sync_device"]
OPS = st.builds(Op, st.sampled_from(WHATS), st.integers(0, len(KINDS) - 1), st.integers(0, 2))


HELD = st.lists(st.builds(WorkName, st.just("k"), st.integers(0, 20)), max_size=4).map(tuple)
SCHEDULES = st.one_of(st.builds(Schedule), st.builds(Schedule, seed=st.integers(0, 2**32)), st.builds(Schedule, held=HELD))


@settings(max_examples=200, deadline=None)
@given(st.lists(OPS, max_size=40), SCHEDULES)
def test_every_order_is_legal_and_comes_again_with_its_schedule(program, schedule):
    order = run(program, schedule)
    assert_legal(program, order)
    assert run(program, schedule) == order


def test_the_oracle_refuses_what_is_not_legal():
    program = [Op("launch", 1), Op("launch", 1), Op("sync_stream", 1), Op("launch", 2)]
    assert_legal(program, [-1, -2, -3, 0, 1, -4, 3])
    for order in ([-1, -2, -3, 1, 0, -4, 3], [-1, -2, -3, 0, -4, 1, 3], [-1, 0, -2, -3, 1, 3, -4], [-1, -2, -3, 0, 1, -4]):
        with pytest.raises(AssertionError):
            assert_legal(program, order)


def test_seeds_find_every_interleaving_of_two_streams():
    def orders(a_kind, b_kind):
        found = set()
        for seed in range(200):
            device, ran = SimDevice("1MiB", seed=seed), []
            a, b = device.stream("a", kind=a_kind), device.stream("b", kind=b_kind)
            for stream, names in ((a, "ab"), (b, "xy")):
                for name in names:
                    stream.launch(lambda name=name, ran=ran: ran.append(name))
            device.synchronize()
            found.add("".join(ran))
        return found

    assert orders("nonblocking", "blocking") == {"abxy", "axby", "axyb", "xaby", "xayb", "xyab"}


def test_a_seed_may_run_a_copy_before_or_after_the_host_overwrites_its_source():
    seen = set()
    for seed in range(40):
        device = SimDevice("1MiB", seed=seed)
        pinned, target = device.host_alloc(8), device.malloc(8)
        host = pinned.numpy()
        host[:] = 1
        device.default_stream.copy(target, pinned)
        device.host_access()
        host[:] = 2
        out = bytearray(8)
        device.synchronize()
        device.driver.download(0, out, target.address, device.default_stream.handle)
        seen.add(out[0])
    assert seen == {1, 2}


def test_without_a_seed_work_runs_in_the_order_of_virtual_time():
    device, ran = SimDevice("1MiB"), []
    costs = random.Random(3).sample(range(10**6, 13 * 10**6, 10**6), 12)
    for i, cost in enumerate(costs):
        device.stream(str(i), kind="nonblocking").launch(lambda cost=cost: ran.append(cost), cost_ns=cost)
    device.synchronize()
    assert ran == sorted(costs)  # which lie further apart than the issues
