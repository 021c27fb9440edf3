"""The end of a stream with its object: the driver's stream goes, its work runs, and whoever used it is served as before."""

import gc
import os

import numpy as np
import pytest

from forebay import Pool, SimDevice, recording
from forebay.tape import Kind


@pytest.fixture
def device():
    return SimDevice("64MiB")


def test_a_stream_that_nobody_has_is_destroyed_and_its_work_runs_all_the_same(device):
    before = device.account.streams
    ran = []
    stream = device.stream("s")
    stream.launch(lambda: ran.append(1))
    assert device.account.streams == before + 1
    del stream
    assert device.account.streams == before
    device.synchronize()
    assert ran == [1]


def test_its_end_is_a_row_once_whether_it_was_closed_or_dropped(device):
    with recording() as run:
        closed, dropped = device.stream("closed"), device.stream("dropped")
        closed.close()
        closed.close()
        del closed, dropped
    rows = run.tape.where(Kind.stream_destroy)
    names = [run.tape.sides.streams[run.tape.columns["stream"][row]].name for row in rows]
    assert names == ["closed", "dropped"]


def test_default_streams_stay(device):
    before = device.account.streams
    for stream in (device.default_stream, device.thread_stream()):
        stream.launch(lambda: None)
    del stream
    gc.collect()
    assert device.account.streams == before
    device.default_stream.synchronize()


def test_a_buffer_keeps_the_streams_that_its_free_comes_after(device):
    pool, main = Pool(device, "p"), device.stream("main", kind="nonblocking")
    block = pool.alloc(4096, main)
    side = device.stream("side", kind="nonblocking")
    side.launch(lambda x: x.fill(7), writes=[block], cost_ns=10**9)
    before = device.account.streams
    del side
    assert device.account.streams == before
    block.free()
    again = pool.alloc(4096, main)
    main.memset(again, 1)
    out = np.zeros(4096, "u1")
    main.copy(out, again)
    assert (out == 1).all()


def test_blocks_of_a_stream_that_went_serve_others_once_its_work_is_done(device):
    pool, main = Pool(device, "p", limit="2MiB"), device.stream("main", kind="nonblocking")
    for round in range(20):
        short = device.stream(f"short {round}", kind="nonblocking")
        address = pool.alloc_address(2**20, short)
        short.launch(lambda: None, cost_ns=1000)
        pool.free_address(address)
        del short
        pool.free_address(pool.alloc_address(2**20, main))
    pool.walk()
    assert pool.gauges().allocated == 0


def test_a_stream_that_captures_is_not_destroyed_under_its_capture(device):
    ran = []
    block = device.capture(device.stream("s", kind="nonblocking"))
    with block as graph:
        block.stream.launch(lambda: ran.append(1))
        gc.collect()
    del block
    graph.replay(device.default_stream)
    device.synchronize()
    assert ran == [1]


def test_a_forked_child_leaves_its_parents_streams_alone(device):
    stream = device.stream("s")
    child = os.fork()
    if child == 0:
        try:
            del stream
            os._exit(0)
        except BaseException:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    stream.launch(lambda: None)
    stream.synchronize()
