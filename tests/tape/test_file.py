"""Tapes on disk: what is written is what is read, whole or not at all, and other tools read it too."""

import errno
import os
import random

import numpy as np
import polars
import pytest
from hypothesis import HealthCheck, given, settings

from forebay._core.tape import Recorder
from forebay.errors import BadInput
from forebay.tape import Extent, Frame, Kind, Mode, Sees, Space, Stream, StreamClass, Tape, file, parse
from tape.arbitrary import story, tapes

DRAWING = """stream s1 nonblocking
pool kv consumer=kv
provenance host "\\"a\\""
t0 s1 alloc A 1M @0x1000 pool=kv at a.py:3 f < b.py:4 g
t0 s1 launch k1 w:A r.hull.managed:A[4K:8K]
t0 s1 free A +blocking"""


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(tape=tapes())
def test_a_closed_file_holds_any_tape_exactly(tape, tmp_path):
    file.write(tape, tmp_path / "a.arrow")
    assert story(file.read(tmp_path / "a.arrow")) == story(tape)


def test_chunks_are_the_tape_in_runs(tmp_path):
    tape = parse("\n".join(f"t0 s1 launch k{i % 7} r:@{i}+8" for i in range(150_000)))
    file.write(tape, tmp_path / "a.arrow")
    chunks = list(file.open_chunks(tmp_path / "a.arrow"))
    assert [(chunk.first, len(chunk)) for chunk in chunks] == [(0, 65536), (65536, 65536), (131072, 18928)]
    assert np.array_equal(np.concatenate([chunk.uses.address for chunk in chunks]), np.arange(150_000))
    assert all(
        np.array_equal(chunk.columns["name"], tape.columns["name"][c.first : c.first + len(c)])
        for chunk in chunks
        for c in [chunk]
    )


def test_polars_reads_names(tmp_path):
    file.write(parse(DRAWING), tmp_path / "a.arrow")
    rows = polars.read_ipc(tmp_path / "a.arrow").to_dicts()
    assert [row["kind"] for row in rows] == ["alloc", "launch", "free"]
    assert [row["name"] for row in rows] == [None, "k1", None]
    assert (rows[0]["stream"], rows[0]["pool"], rows[0]["site"], rows[0]["address"]) == ("s1", "kv", "a.py:3 f", 0x1000)
    assert rows[0]["uses"] is None
    assert rows[1]["uses"][1] == {"address": 0x2000, "size": 4096, "mode": "read", "extent": "hull", "space": "managed"}


def record(recorder):
    """Three rows written late first, as calls that return in another order than they began."""
    stream = recorder.stream("s1", handle=7, kind=StreamClass.nonblocking)
    site = recorder.site([("a.py", 3, "f")])
    recorder.write(Kind.sync_stream, seq=1000, stream=stream, cause=998)
    recorder.write(
        Kind.launch,
        [(4096, 8, Mode.write, Extent.exact, Space.device)],
        seq=999,
        stream=stream,
        name=recorder.string("k"),
        cause=5,
    )
    recorder.write(Kind.record, seq=998, stream=stream, ref=4, site=site, cause=1000)


def test_a_recording_is_read_in_the_order_of_the_calls(tmp_path):
    recorder = Recorder(str(tmp_path / "a.arrows"), [("forebay.sees", '["edges"]'), ("forebay.provenance", '{"pid": 3}')])
    record(recorder)
    recorder.close()
    tape = file.read(tmp_path / "a.arrows")
    assert [Kind(kind).name for kind in tape.columns["kind"]] == ["record", "launch", "sync_stream"]
    assert tape.columns["seq"].tolist() == [998, 999, 1000]
    assert tape.sides.streams == [Stream("s1", 7, 0, None, StreamClass.nonblocking)]
    assert (tape.sides.strings, tape.sides.sites.stack(1)) == (["", "k"], (Frame("a.py", 3, "f"),))
    assert (tape.sees, tape.provenance) == ({Sees.EDGES}, {"pid": 3, "complete": True})
    assert tape.uses.offsets.tolist() == [0, 0, 1, 1]
    assert tape.columns["cause"].tolist() == [2, 0, 0]
    assert tape.knows("cause").tolist() == [True, False, True]  # no row has seq 5
    assert set(tape.columns) == {"kind", "name", "seq", "site", "stream", "ref", "cause"}


def test_a_recording_closes_into_the_same_tape(tmp_path):
    recorder = Recorder(str(tmp_path / "a.arrows"), [])
    order = random.Random(1)
    begun = []
    for i in range(20_000):
        begun.append(i)
        while begun and order.random() < 0.5:
            recorder.write(
                Kind.note,
                seq=begun.pop(order.randrange(len(begun))),
                name=recorder.string(f"n{i % 9}"),
                thread=order.randrange(4),
            )
    recorder.close()
    tape = file.read(tmp_path / "a.arrows")
    assert tape.columns["seq"].tolist() == sorted(set(range(20_000)) - set(begun))
    file.compact(tmp_path / "a.arrows", tmp_path / "a.arrow")
    assert story(file.read(tmp_path / "a.arrow")) == story(tape)


def test_an_empty_recording_is_an_empty_tape(tmp_path):
    Recorder(str(tmp_path / "a.arrows"), []).close()
    assert len(file.read(tmp_path / "a.arrows")) == 0


def test_a_cut_recording_opens_up_to_its_last_whole_batch(tmp_path):
    recorder = Recorder(str(tmp_path / "a.arrows"), [])
    sizes, rows = [os.path.getsize(tmp_path / "a.arrows")], [0]
    for batch in range(4):
        for i in range(50):
            recorder.write(Kind.note, seq=100 * batch + i, name=recorder.string(f"{batch} {i}"))
        recorder.flush()
        sizes.append(os.path.getsize(tmp_path / "a.arrows"))
        rows.append(rows[-1] + 50)
    whole = (tmp_path / "a.arrows").read_bytes()
    for cut in range(sizes[0], len(whole), 97):
        (tmp_path / "cut.arrows").write_bytes(whole[:cut])
        last = max(i for i, size in enumerate(sizes) if size <= cut)
        assert len(file.read(tmp_path / "cut.arrows")) == rows[last]


def test_a_file_that_is_no_tape_is_refused_in_one_line(tmp_path):
    polars.DataFrame({"kind": [1]}).write_ipc(tmp_path / "foreign.arrow")
    file.write(parse(DRAWING), tmp_path / "whole.arrow")
    whole = (tmp_path / "whole.arrow").read_bytes()
    (tmp_path / "half.arrow").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "empty.arrow").write_bytes(b"")
    (tmp_path / "text.arrow").write_bytes(b"hello, this is text")
    for name in ("foreign", "half", "empty", "text"):
        with pytest.raises(BadInput) as error:
            file.read(tmp_path / f"{name}.arrow")
        assert str(error.value).startswith(str(tmp_path / f"{name}.arrow"))
        assert "\n" not in str(error.value)


@pytest.mark.parametrize("kind", ["recording", "closed"])
def test_damaged_bytes_are_refused_or_read_never_a_crash(tmp_path, kind):
    path = tmp_path / "a"
    if kind == "closed":
        file.write(parse(DRAWING), path)
    else:
        recorder = Recorder(str(path), [])
        record(recorder)
        recorder.close()
    whole, chance, refused = path.read_bytes(), random.Random(7), 0
    for _ in range(400):
        damaged = bytearray(whole)
        for _ in range(chance.randint(1, 3)):
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        path.write_bytes(damaged)
        try:
            assert isinstance(file.read(path), Tape)
        except BadInput:
            refused += 1
    assert 0 < refused < 400


def test_a_tape_that_is_not_sound_is_not_written(tmp_path):
    with pytest.raises(BadInput, match="row 0: stream 3 is not in a table of 0"):
        file.write(parse("#3 launch k".replace("#3 ", "") + " stream=#3"), tmp_path / "a.arrow")
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_leaves_what_was_there(tmp_path, monkeypatch):
    file.write(parse(DRAWING), tmp_path / "a.arrow")
    before = (tmp_path / "a.arrow").read_bytes()
    real = os.replace

    def full(*paths):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="No space left"):
        file.write(parse("t0 note x"), tmp_path / "a.arrow")
    monkeypatch.setattr(os, "replace", real)
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("a.arrow", before)]


def test_a_damaged_name_is_told_in_one_line(tmp_path):
    Recorder(str(tmp_path / "a.arrows"), []).close()
    whole = (tmp_path / "a.arrows").read_bytes()
    assert b"graph_launch" in whole
    with pytest.raises(BadInput, match="kind graph_ aunch"):
        file.read(whole.replace(b"graph_launch", b"graph_\naunch"))
