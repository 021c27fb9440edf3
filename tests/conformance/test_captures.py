"""One suite for the captures of the driver port: the programs of benchmarks/gpu/capture_probe.cu against what an H200 answered."""

from collections.abc import Callable

import pytest

from conformance.capture_world import DRIVERS, FACTS, LEGACY, PER_THREAD, RELAXED, THREAD_LOCAL, Probe, elsewhere


@pytest.fixture(params=DRIVERS, ids=lambda make: make.__name__)
def driver(request):
    return request.param()


def in_thread_local(p: Probe) -> int:
    p.driver.exchange_capture_mode(THREAD_LOCAL)
    return p.malloc()


def uploaded_byte(p: Probe) -> list[int]:
    source, there = bytearray(64), bytearray(1)
    source[0] = 1
    answers = [p.begin(p.s), p.of(p.driver.upload, 0, p.bytes, source, p.s), p.end(p.s), p.instantiate()]
    source[0] = 7
    answers += [0, p.launch(p.t), p.sync(p.t)]
    p.driver.download(0, there, p.bytes, LEGACY)
    return [*answers, there[0]]


PROGRAMS: dict[str, Callable[[Probe], list[int]]] = {
    "begin, work, end, nodes, state": lambda p: [p.begin(p.s), p.work(p.s), p.end(p.s), p.nodes(), p.state(p.s)],
    "begin, end, nodes: empty": lambda p: [p.begin(p.s), p.end(p.s), p.nodes()],
    "begin twice, state, end": lambda p: [p.begin(p.s), p.begin(p.s), p.state(p.s), p.end(p.s)],
    "begin on the legacy stream": lambda p: [p.begin(0), p.begin(LEGACY)],
    "begin on the per-thread stream, end": lambda p: [p.begin(PER_THREAD), p.end(PER_THREAD)],
    "end without a capture": lambda p: [p.end(p.s)],
    "end twice": lambda p: [p.begin(p.s), p.end(p.s), p.end(p.s)],
    "fork, join, end, nodes": lambda p: [
        p.begin(p.s), p.work(p.s), p.record(p.e, p.s), p.wait(p.t, p.e), p.state(p.t), p.work(p.t), p.record(p.f, p.t),
        p.wait(p.s, p.f), p.end(p.s), p.nodes(), p.state(p.t),
    ],
    "fork, no join, end, states": lambda p: [*p.fork(), p.work(p.t), p.end(p.s), p.state(p.s), p.state(p.t)],
    "fork without work, no join, end": lambda p: [
        p.begin(p.s), p.work(p.s), p.record(p.e, p.s), p.wait(p.t, p.e), p.end(p.s), p.nodes(), p.state(p.t),
    ],
    "join, then more work on the forked stream, end": lambda p: [
        *p.fork(), p.work(p.t), p.record(p.f, p.t), p.wait(p.s, p.f), p.work(p.t), p.end(p.s),
    ],
    "fork, end on the forked stream, states, end": lambda p: [*p.fork(), p.end(p.t), p.state(p.s), p.state(p.t), p.end(p.s)],
    "begin on a forked stream, state": lambda p: [*p.fork(), p.begin(p.t), p.state(p.s), p.end(p.s)],
    "end on another thread, state, end here": lambda p: [
        p.begin(p.s), elsewhere(lambda: p.end(p.s)), p.state(p.s), p.end(p.s),
    ],
    "thread_local: end on another thread, state, end here": lambda p: [
        p.begin(p.s, THREAD_LOCAL), elsewhere(lambda: p.end(p.s)), p.state(p.s), p.end(p.s),
    ],
    "relaxed: end on another thread, state": lambda p: [p.begin(p.s, RELAXED), elsewhere(lambda: p.end(p.s)), p.state(p.s)],
    "work from another thread, end": lambda p: [p.begin(p.s), elsewhere(lambda: p.work(p.s)), p.end(p.s), p.nodes()],
    "wait for an event never recorded, end": lambda p: [p.begin(p.s), p.wait(p.s, p.e), p.work(p.s), p.end(p.s), p.nodes()],
    "wait for an event recorded outside, state, work, end, state": lambda p: [
        p.record(p.e, p.t), p.begin(p.s), p.wait(p.s, p.e), p.state(p.s), p.work(p.s), p.end(p.s), p.state(p.s),
    ],
    "record inside, end, then query, sync, wait outside": lambda p: [
        p.begin(p.s), p.record(p.e, p.s), p.end(p.s), p.of(p.driver.event_query, 0, p.e), p.of(p.driver.event_sync, 0, p.e),
        p.wait(p.t, p.e),
    ],
    "record inside, wait outside after end: query again after a real record": lambda p: [
        p.begin(p.s), p.record(p.e, p.s), p.end(p.s), p.record(p.e, p.t), p.of(p.driver.event_sync, 0, p.e),
        p.of(p.driver.event_query, 0, p.e),
    ],
    "record before, capture re-records, wait inside": lambda p: [
        p.record(p.e, p.t), *p.fork(), p.state(p.t), p.record(p.f, p.t), p.wait(p.s, p.f), p.end(p.s),
    ],
    "two captures, one waits for the other, states, ends": lambda p: [
        p.begin(p.s), p.begin(p.t), p.record(p.e, p.t), p.wait(p.s, p.e), p.state(p.s), p.state(p.t), p.end(p.s), p.end(p.t),
    ],
    "ended capture's event waited for by a new capture, end": lambda p: [
        p.begin(p.s), p.record(p.e, p.s), p.end(p.s), p.begin(p.t), p.wait(p.t, p.e), p.end(p.t),
    ],
    "destroy the capturing stream": lambda p: [p.begin(p.s), p.work(p.s), p.destroy_stream(p.s)],
    "destroy a forked stream, end": lambda p: [*p.fork(), p.work(p.t), p.destroy_stream(p.t), p.end(p.s)],
    "destroy an event recorded inside, wait on its copy, end": lambda p: [
        p.begin(p.s), p.record(p.e, p.s), p.destroy_event(p.e), p.end(p.s),
    ],
    "after invalidation: record, wait, memset, begin, end, state": lambda p: [
        p.begin(p.s), p.sync_device(), p.record(p.e, p.s), p.wait(p.t, p.e), p.work(p.s), p.begin(p.s), p.end(p.s), p.state(p.s),
    ],
    "invalid capture leaves others free: sync of another stream": lambda p: [
        p.begin(p.s), p.sync_device(), p.sync(p.t), p.sync_device(), p.end(p.s), p.sync_device(),
    ],
    "exchange to relaxed, malloc in a global capture, exchange back, end": lambda p: [
        p.begin(p.s), p.exchange(RELAXED), p.malloc(), p.exchange(p.mode), p.mode.value, p.end(p.s),
    ],
    "another thread in thread_local: malloc, end": lambda p: [p.begin(p.s), elsewhere(lambda: in_thread_local(p)), p.end(p.s)],
    "empty graph: instantiate, launch, sync": lambda p: [p.begin(p.s), p.end(p.s), p.instantiate(), p.launch(p.t), p.sync(p.t)],
    "destroy graph, launch, destroy executable at once, launch again": lambda p: [
        *p.graph_of_one(), p.destroy_graph(), p.launch(p.t), p.destroy_executable(), p.sync(p.t),
    ],
    "launch in the legacy stream": lambda p: [*p.graph_of_one(), p.launch(LEGACY), p.sync(LEGACY)],
    "launch into the stream of an invalid capture": lambda p: [
        *p.graph_of_one(), p.begin(p.s), p.sync_device(), p.launch(p.s), p.end(p.s),
    ],
    "blocking stream captures, legacy record of a captured stream's event": lambda p: [
        p.begin(p.b), p.wait(LEGACY, p.e), p.state(p.b), p.end(p.b),
    ],
    "legacy waits for a captured event while a non-blocking stream captures": lambda p: [
        p.begin(p.s), p.record(p.e, p.s), p.wait(LEGACY, p.e), p.state(p.s), p.end(p.s),
    ],
    "pageable upload captured; source changed; launched: the byte then": uploaded_byte,
}  # fmt: skip


def test_every_fact_of_the_file_has_its_program():
    assert set(PROGRAMS) == set(FACTS)


@pytest.mark.parametrize("fact", FACTS)
def test_a_capture_answers_what_an_h200_answers(driver, fact):
    probe = Probe(driver)
    answers = PROGRAMS[fact](probe)
    probe.leave()
    assert answers == FACTS[fact]
