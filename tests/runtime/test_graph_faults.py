"""What breaks a capture is named by its first offender, with its line: the reports E1, E2, E4, E5 and E6, and their siblings."""

import sys
import threading

import numpy as np
import pytest

from forebay import PagedPool, Pool, SimDevice
from forebay.errors import BadInput, DriverError


def nothing(*arrays):
    pass


class World:
    def __init__(self, kind="nonblocking"):
        self.device, self.peer = SimDevice.many(2, "64MiB")
        self.main, self.side = (self.device.stream(name, kind=kind) for name in ("main", "side"))
        self.pool = Pool(self.device, "p")
        self.x = self.pool.alloc(64, self.main)
        self.before = self.side.record()
        self.event = self.device.event()


@pytest.fixture
def world():
    return World()


def here(lines=0):
    """The line that calls, as errors name it."""
    return f"{__file__}:{sys._getframe(1).f_lineno + lines}"


def in_thread(call):
    """What the call raises on another thread, which is called Loader."""
    errors = []

    def run():
        try:
            call()
        except Exception as error:
            errors.append(error)

    thread = threading.Thread(target=run, name="Loader")
    thread.start()
    thread.join()
    (error,) = errors
    return error


# Operation, its arguments' world, and what the refusal says why.
REFUSED = {
    "sync of the capturing stream (E1)": (lambda w: w.main.synchronize(), "asks about work that the capture holds back"),
    "query of the capturing stream": (lambda w: w.main.ready(), "asks about work that the capture holds back"),
    "sync of another stream": (lambda w: w.side.synchronize(), "might wait for the device"),
    "sync of the device": (lambda w: w.device.synchronize(), "covers every stream of the device"),
    "driver allocation": (lambda w: w.device.malloc(64), "might wait for the device"),
    "pinned allocation": (lambda w: w.device.host_alloc(64), "might wait for the device"),
    "wait for an event from outside (E2)": (lambda w: w.main.wait(w.before), "recorded outside the capture"),
    "query of an outside event": (lambda w: w.before.ready(), "might wait for the device"),
    "query of a captured event (E5)": (lambda w: w.main.record(w.event).ready(), "whose record the capture holds back"),
    "sync of a captured event": (lambda w: w.main.record(w.event).synchronize(), "whose record the capture holds back"),
    "pageable upload": (lambda w: w.main.copy(w.x, np.zeros(64, "u1")), "host memory that nobody keeps"),
    "pageable download": (lambda w: w.main.copy(np.zeros(64, "u1"), w.x), "host memory that nobody keeps"),
    "a capture in a capture": (lambda w: w.device.capture(w.main).__enter__(), "has no place in a graph"),
    "the end of the stream": (lambda w: w.main.close(), "has no place in a graph"),
    "raw addresses": (lambda w: w.pool.alloc_address(64, w.main), "although it is given back in between"),
    "memory of another device (E6)": (
        lambda w: w.main.launch(nothing, [Pool(w.peer, "far").alloc(64, w.peer.default_stream)]),
        "memory of another device",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_it_is_refused_with_its_line_and_the_capture_goes_on(world, what):
    operation, why = REFUSED[what]
    with world.device.capture(world.main, name="decode") as graph:
        world.main.launch(nothing, [world.x])
        with pytest.raises(BadInput) as caught:
            operation(world)
    message = str(caught.value)
    assert why in message
    assert f" at {__file__}:{operation.__code__.co_firstlineno}" in message
    assert f"would break the capture of `decode` ({graph.captured_at}, mode thread_local)" in message
    graph.replay(world.main)
    world.device.synchronize()


def test_pages_are_not_handed_out_inside(world):
    paged = PagedPool(world.device, "kv", "1MiB", page_bytes=4096, page_tokens=16)
    sequence = paged.open(world.main)
    with world.device.capture(world.main):
        world.main.launch(nothing, [world.x])
        for operation in (
            lambda: sequence.grow(1, world.main),
            lambda: paged.open(world.main),
            lambda: sequence.fork(world.main),
        ):
            with pytest.raises(BadInput, match="hands out memory that the graph would use again"):
                operation()


@pytest.mark.parametrize("kind", ["blocking", "nonblocking"])
def test_the_legacy_stream_is_refused_while_a_blocking_stream_captures(kind):
    world = World(kind)
    legacy = world.device.default_stream
    with world.device.capture(world.main):
        world.main.launch(nothing, [world.x])
        for operation in (lambda: legacy.memset(world.x, 1), lambda: legacy.record(), lambda: legacy.wait(world.before)):
            if kind == "nonblocking":
                operation()
                continue
            with pytest.raises(BadInput, match="would tie the legacy default stream to the blocking stream that captures"):
                operation()
    with pytest.raises(BadInput, match="the legacy default stream cannot capture"):
        world.device.capture(legacy).__enter__()


@pytest.mark.parametrize("mode", ["global", "thread_local", "relaxed"])
def test_another_threads_call_is_named_with_its_thread_and_only_where_the_mode_minds_it(world, mode):
    """Report E4: a loader pins memory while another thread captures in the global mode."""
    with world.device.capture(world.main, mode=mode) as graph:
        world.main.launch(nothing, [world.x])
        if mode == "global":
            error = in_thread(lambda: world.device.host_alloc(64))
            line = here(-1)
            assert f"Device.host_alloc at {line} on thread Loader would break the capture of `main`" in str(error)
        else:
            thread = threading.Thread(target=lambda: world.device.host_alloc(64))
            thread.start()
            thread.join()
    graph.replay(world.main)


def test_a_call_past_the_runtime_that_invalidates_is_explained_at_the_end(world):
    """The same report where nobody could look first: the driver's own answer, and who got it."""
    driver, errors = world.device.driver, []

    def loader():
        try:
            with world.device.call() as called:
                called.host_alloc(64)
        except DriverError as error:
            errors.append(error.status)

    thread = threading.Thread(target=loader, name="Loader")
    with pytest.raises(DriverError) as caught, world.device.capture(world.main, mode="global"):  # noqa: PT012
        world.main.launch(nothing, [world.x])
        thread.start()
        thread.join()
        with pytest.raises(DriverError):
            driver.malloc(0, 512)  # not the first
    assert errors == [900]
    assert (caught.value.status, caught.value.call) == (901, "capture_end")
    line = loader.__code__.co_firstlineno + 2  # of the block that the call ends
    assert f"was invalidated before it ended by host_alloc at {__file__}:{line} on thread Loader" in str(caught.value)
    world.device.synchronize()


def test_one_that_nobody_told_us_of_is_said_to_be_so(world):
    with pytest.raises(DriverError, match="by a call beside this runtime"), world.device.capture(world.main):  # noqa: PT012
        world.main.launch(nothing, [world.x])
        with pytest.raises(DriverError):
            world.device.driver.device_sync(0)


def test_a_forgotten_join_names_the_stream_and_its_last_work(world):
    with pytest.raises(DriverError) as caught, world.device.capture(world.main):  # noqa: PT012
        world.side.wait(world.main.record())
        world.side.launch(nothing, [world.x], name="early")
        world.main.wait(world.side.record())
        world.side.launch(nothing, [world.x], name="late")
        line = here(-1)
    assert caught.value.status == 904
    assert f"leaves work behind that the stream it began on does not wait for: {world.side!r} (kernel late at {line})" in str(
        caught.value
    )
    world.side.synchronize()  # it takes part no more


def test_a_stream_that_joined_without_work_needs_no_join(world):
    with world.device.capture(world.main) as graph:
        world.main.launch(nothing, [world.x])
        world.side.wait(world.main.record())
    assert graph.nodes == 1


def test_an_empty_graph_names_the_work_that_went_elsewhere(world):
    """Report E6: warm-up and capture on different streams leave a graph that replays nothing."""
    with pytest.raises(BadInput) as caught, world.device.capture(world.main, name="decode"):  # noqa: PT012
        world.side.launch(nothing, [world.x], name="step")
        line = here(-1)
    assert "is empty: nothing was issued to Stream('main', device 0)" in str(caught.value)
    assert f"the first work meanwhile was kernel step on Stream('side', device 0) at {line}" in str(caught.value)


def test_an_end_on_another_thread_is_told(world):
    block = world.device.capture(world.main)
    block.__enter__()
    world.main.launch(nothing, [world.x])
    error = in_thread(lambda: block.__exit__(None, None, None))
    assert isinstance(error, DriverError)
    assert error.status == 908
    assert "ended on another thread than it began on" in str(error)
    world.device.synchronize()


def test_an_event_of_a_capture_that_is_over_is_told(world):
    with world.device.capture(world.main) as graph:
        world.main.launch(nothing, [world.x])
        inside = world.main.record()
    for operation in (inside.ready, inside.synchronize, lambda: world.side.wait(inside)):
        with pytest.raises(BadInput, match="was last recorded in a capture that is over; record it again, after the replay"):
            operation()
    graph.replay(world.main)
    world.side.wait(world.main.record(inside))
    inside.synchronize()


def test_a_replay_and_the_end_of_a_graph_inside_are_refused(world):
    with world.device.capture(world.main) as graph:
        world.main.launch(nothing, [world.x])
    with world.device.capture(world.side):
        world.side.launch(nothing, [world.x])
        with pytest.raises(BadInput, match="has no place in a graph"):
            graph.replay(world.side)
        graph.replay(world.main)
        with pytest.raises(BadInput, match="might wait for the device"):
            graph.close()


def test_a_wait_for_an_event_of_another_capture_is_refused(world):
    first, second = (world.device.capture(stream, mode="relaxed") for stream in (world.main, world.side))
    with first as graph, second:
        world.main.launch(nothing, [world.x])
        world.side.launch(nothing, [world.x])
        with pytest.raises(BadInput, match="waits for an event of another capture"):
            world.side.wait(world.main.record())
    graph.replay(world.main)
    world.device.synchronize()
