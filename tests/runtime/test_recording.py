"""What a recording holds: each call a row, in order, with its stream, event, bytes, times and status."""

import gc
import os
import sys

import numpy as np
import polars
import pytest

from forebay import region
from forebay.contract import check
from forebay.errors import BadInput, DriverError, PoolExhausted
from forebay.runtime import Pool, SimDevice, recording
from forebay.tape import Flag, Kind, Mode, Sees, Space, StreamClass
from forebay.tape.file import read


def program(device):
    compute, copies = device.stream("compute"), device.stream("copies", kind="nonblocking", priority=-1)
    x, y = device.malloc(1024), device.malloc(1024)
    with region("step", iteration=4):
        copies.copy(x, np.ones(1024, "u1"))
        compute.wait(copies.record())
        compute.launch(lambda a, b: np.copyto(b[:512], a), [x.array("u1", 512, 256)], [y], name="half", cost_ns=5000)
        compute.synchronize()
    return x, y


@pytest.fixture
def taped():
    device = SimDevice("64MiB")
    with recording() as run:
        buffers = program(device)
    device.synchronize()  # after the end: not on the tape
    return run.tape, buffers


def test_each_call_is_a_row_in_the_order_of_the_program(taped):
    tape, _ = taped
    kinds = [Kind(k).name for k in tape.columns["kind"]]
    # The event goes as soon as nobody holds it: between its wait and the launch.
    assert kinds == (
        ["stream_create"] * 2
        + ["reserve"] * 2
        + ["region_begin", "copy", "record", "wait", "event_destroy"]
        + ["launch", "sync_stream", "region_end"]
    )


def test_streams_are_named_and_classed(taped):
    tape, _ = taped
    rows = [(s.name, s.kind, s.priority) for s in tape.sides.streams]
    assert rows == [("compute", StreamClass.blocking, 0), ("copies", StreamClass.nonblocking, -1)]
    launch = int(tape.where(Kind.launch)[0])
    assert tape.sides.strings[tape.columns["name"][launch]] == "half"
    assert tape.columns["stream"][launch] == 0


def test_the_wait_names_the_record(taped):
    tape, _ = taped
    record, wait = (int(tape.where(kind)[0]) for kind in (Kind.record, Kind.wait))
    assert tape.columns["ref"][record] == tape.columns["ref"][wait]
    assert tape.columns["seq"][record] < tape.columns["seq"][wait]


def test_work_says_which_bytes_it_touches_and_how_long_it_took(taped):
    tape, (x, y) = taped
    launch, copy = (int(tape.where(kind)[0]) for kind in (Kind.launch, Kind.copy))
    assert uses(tape, launch) == [
        (x.address + 256, 512, Mode.read, Space.device),
        (y.address, 1024, Mode.write, Space.device),
    ]
    read_of_host, write = uses(tape, copy)
    assert read_of_host[1:] == (1024, Mode.read, Space.pageable)
    assert write == (x.address, 1024, Mode.write, Space.device)
    assert tape.columns["end_ns"][launch] - tape.columns["begin_ns"][launch] == 5000
    assert tape.columns["begin_ns"][launch] >= tape.columns["end_ns"][copy]


def uses(tape, row):
    cut = slice(int(tape.uses.offsets[row]), int(tape.uses.offsets[row + 1]))
    return list(zip(*(getattr(tape.uses, name)[cut].tolist() for name in ("address", "size", "mode", "space")), strict=True))


def test_an_event_that_comes_back_under_its_number_is_another_on_the_tape():
    device = SimDevice("1MiB")
    with recording() as run:
        handles = set()
        for _ in range(3):
            event = device.default_stream.record()
            handles.add(event.handle)
            event.close()
    records = run.tape.where(Kind.record)
    assert len(handles) == 1
    assert len(set(run.tape.columns["ref"][records].tolist())) == 3


def test_a_query_says_whether_it_was_ready_and_a_failure_its_status():
    device = SimDevice("1MiB")
    with recording() as run:
        device.default_stream.launch(lambda: None, cost_ns=10**9)
        answers = [device.default_stream.ready()]
        device.synchronize()
        answers.append(device.default_stream.ready())
        with pytest.raises(DriverError):
            device.malloc(2**30)
    queries, reserve = run.tape.where(Kind.query), run.tape.where(Kind.reserve)
    assert [bool(f & Flag.READY) for f in run.tape.columns["flags"][queries]] == answers == [False, True]
    assert run.tape.columns["status"][reserve].tolist() == [2]


def test_the_host_says_what_it_touches():
    device = SimDevice("1MiB")
    pinned = device.host_alloc(64)
    with recording() as run:
        device.host_access(reads=[pinned.array("u1", 8, 16)], writes=[pinned])
    rows = run.tape.where(Kind.host_access)
    assert [uses(run.tape, int(row))[0] for row in rows] == [
        (pinned.address + 16, 8, Mode.read, Space.pinned),
        (pinned.address, 64, Mode.write, Space.pinned),
    ]


def test_a_recording_to_a_file_is_the_same_tape(tmp_path):
    device = SimDevice("64MiB")
    path = tmp_path / "run.arrow"
    with recording(path) as run:
        kept = program(device)
        assert path.read_bytes()[:4] == b"\xff\xff\xff\xff"  # a stream, which opens after a kill
        mode = path.stat().st_mode
    tape = read(path)
    assert len(tape) == len(run.tape) == 12
    assert len(kept) == 2
    assert tape.sees == run.tape.sees
    assert tape.provenance["complete"]
    assert path.read_bytes()[:6] == b"ARROW1"
    assert ([p.name for p in tmp_path.iterdir()], path.stat().st_mode) == ([path.name], mode)
    kinds = polars.read_ipc(path)["kind"].cast(polars.String).to_list()
    assert kinds == [Kind(k).name for k in tape.columns["kind"]]


def test_a_recording_that_cannot_be_closed_stays_the_stream_that_it_was(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    path, run = tmp_path / "run.arrow", recording(tmp_path / "run.arrow")
    run.__enter__()
    kept = program(SimDevice("64MiB"))
    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(BadInput, match="No space left on device"):
        run.__exit__(None, None, None)
    assert [p.name for p in tmp_path.iterdir()] == [path.name]
    assert len(read(path)) == len(run.tape) == 12
    assert len(kept) == 2


def test_pools_are_on_the_tape_and_seen(tmp_path):
    device = SimDevice("64MiB")
    stream, other, pool = device.stream("s"), device.stream("t"), Pool(device, "kv", consumer="attention")
    with recording() as run:
        block = pool.alloc(1000, stream)
        other.launch(lambda a: None, [block])
        block.free()
        device.synchronize()
        assert pool.gauges().pending == 0
    tape, of_pool = run.tape, (Kind.alloc, Kind.lend, Kind.free, Kind.reclaim)
    rows = tape.where(*of_pool)
    assert [Kind(k) for k in tape.columns["kind"][rows]] == list(of_pool)
    assert set(tape.columns["address"][rows].tolist()) == {block.address}
    assert set(tape.columns["size"][rows].tolist()) == {1024}
    assert [tape.sides.streams[s].name for s in tape.columns["stream"][rows]] == ["s", "t", "s", "s"]
    assert {(tape.sides.pools[p].name, tape.sides.pools[p].consumer) for p in tape.columns["pool"][rows]} == {("kv", "attention")}
    assert {Sees.ALLOCS, Sees.LENDS, Sees.EDGES, Sees.USES} <= tape.sees


def test_only_one_recording_at_a_time():
    with recording(), pytest.raises(BadInput, match="already"), recording():
        pass
    with recording() as run:
        SimDevice("1MiB").synchronize()  # made while it is under way
    assert [Kind(k) for k in run.tape.columns["kind"]] == [Kind.sync_device]


def test_each_row_names_the_line_of_the_program_that_made_it():
    device = SimDevice("64MiB")
    pool = Pool(device, "kv")
    with recording() as run:
        line = lineno()
        stream = device.stream("s")
        block = pool.alloc_address(512, stream)
        stream.wait(stream.record())
        with region("step"):
            stream.launch(lambda: None)
            pool.free_address(block)
    tape = run.tape
    made = {Kind(kind): tape.sides.sites.stack(int(site))[0] for kind, site in zip(*rows(tape), strict=True)}
    here = {Kind.stream_create: 1, Kind.record: 3, Kind.wait: 3, Kind.region_begin: 4, Kind.launch: 5}
    assert {kind: made[kind].line - line for kind in here} == here
    assert {frame.file for frame in made.values()} == {__file__}
    assert made[Kind.launch].function == "test_each_row_names_the_line_of_the_program_that_made_it"


def rows(tape):
    return tape.columns["kind"], tape.columns["site"]


def lineno():
    return sys._getframe(1).f_lineno


def test_a_deep_stack_is_cut():
    device = SimDevice("1MiB")

    def deep(levels):
        return deep(levels - 1) if levels else device.synchronize()

    with recording() as run:
        deep(100)
    assert len(run.tape.sides.sites.stack(int(run.tape.columns["site"][0]))) == 64


def two_step(device, pool, streams):
    """Writes on one stream, reads on another after an edge: well ordered on any one machine."""
    block = pool.alloc(4096, streams[0])
    streams[0].launch(lambda out: out.fill(1), [], [block], name="make")
    streams[1].wait(streams[0].record())
    streams[1].launch(lambda a: None, [block], [], name="use")
    return block


def test_machines_of_one_recording_share_neither_devices_nor_events_nor_bytes():
    with recording() as run:
        devices = [SimDevice("64MiB"), *SimDevice.many(2, "64MiB"), SimDevice("64MiB")]
        pools = [Pool(device, "p") for device in devices]
        streams = [(device.stream("a"), device.stream("b")) for device in devices]
        blocks = [two_step(*each) for each in zip(devices, pools, streams, strict=True)]
    tape = run.tape
    launches = tape.where(Kind.launch)
    by_device = [[int(row) for row in launches if tape.columns["device"][row] == n] for n in range(4)]
    assert [len(rows) for rows in by_device] == [2] * 4
    assert [pool.device for pool in tape.sides.pools] == [0, 1, 2, 3]
    assert [stream.device for stream in tape.sides.streams] == [0, 0, 1, 1, 2, 2, 3, 3]
    assert len(set(tape.columns["ref"][tape.where(Kind.record)])) == 4
    assert len({block.address for block in blocks}) == 4
    assert check(tape).findings == []


def test_a_block_of_an_earlier_machine_that_goes_late_touches_nothing_of_a_later_one():
    """It is freed when the collector comes by, in a recording of another machine that began like the earlier one."""

    class Cycle:
        def __init__(self, block):
            self.me, self.block = self, block

        def __del__(self):
            self.block.free()

    def machine():
        device = SimDevice("64MiB")
        pool, streams = Pool(device, "p"), (device.stream("a"), device.stream("b"))
        return device, streams, two_step(device, pool, streams)

    earlier, streams, block = machine()
    earlier.synchronize()  # work that has not run would hold its block
    gc.disable()
    try:
        Cycle(block)
        del block
        with recording() as run:
            device, streams, block = machine()
            gc.collect()
            streams[1].launch(lambda a: None, [block], [], name="again")
            device.synchronize()
    finally:
        gc.enable()
    tape = run.tape
    (freed,) = tape.where(Kind.free)
    assert tape.columns["device"][freed] != tape.columns["device"][tape.where(Kind.launch)[0]]
    assert check(tape).findings == []


def refused(limit, growth, asked):
    """What the tape says of a request that a pool refuses: of the refusal, and of the capacities that it caused, by name."""
    gc.collect()
    with recording() as run:
        device = SimDevice("64MiB")
        pool = Pool(device, "small", limit, growth=growth)
        kept = pool.alloc(2**20, device.stream("s"))
        with pytest.raises(PoolExhausted):
            pool.alloc(asked, device.stream("t"))
        pool.trim()
        kept.free()
    tape = run.tape
    (row,) = tape.where(Kind.oom)
    caused = [r for r in tape.where(Kind.capacity) if tape.columns["cause"][r] == row]
    told = {tape.sides.strings[tape.columns["name"][r]]: int(tape.columns["size"][r]) for r in caused}
    return tape, int(row), told


@pytest.mark.parametrize("growth", ["segments", "frames"])
def test_a_refusal_is_a_row_with_what_there_was(growth):
    tape, row, told = refused(8 * 2**20, growth, 32 * 2**20)
    columns = tape.columns
    assert (columns["size"][row], columns["requested"][row]) == (32 * 2**20, 32 * 2**20)
    assert tape.sides.pools[columns["pool"][row]].name == "small"
    assert tape.sides.streams[columns["stream"][row]].name == "t"
    assert (told["limit"], told["total"]) == (8 * 2**20, 64 * 2**20)
    assert 56 * 2**20 <= told["free"] < 64 * 2**20
    assert Sees.OOMS in tape.sees


def test_a_trim_is_a_flush_and_a_recording_of_the_beginning_says_so():
    tape, _, _ = refused(8 * 2**20, "segments", 32 * 2**20)
    (flush,) = tape.where(Kind.flush)
    assert tape.sides.pools[tape.columns["pool"][flush]].name == "small"
    assert Sees.BEGINNING in tape.sees


@pytest.mark.parametrize("to_a_file", [False, True])
@pytest.mark.parametrize(("told", "begins"), [(False, True), (True, False)])
def test_a_device_that_held_memory_before_hides_the_beginning_only_where_it_tells_rows(told, begins, to_a_file, tmp_path):
    earlier = SimDevice("64MiB")
    held = earlier.malloc(2**20)
    path = tmp_path / "run.arrows" if to_a_file else None
    with recording(path) as run:
        if told:
            earlier.malloc(2**20).free()
        SimDevice("64MiB").malloc(2**20).free()
    assert (Sees.BEGINNING in run.tape.sees) is begins
    held.free()


def test_what_is_read_while_it_is_recorded_promises_no_more_than_it_shows_so_far():
    earlier = SimDevice("64MiB")
    held = earlier.malloc(2**20)
    with recording() as run:
        SimDevice("64MiB").malloc(2**20).free()
        assert Sees.BEGINNING in run.tape.sees
        held.free()
        assert Sees.BEGINNING not in run.tape.sees
