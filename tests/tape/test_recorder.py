"""The native recorder, with pyarrow as the oracle for what it wrote."""

import threading

import numpy as np
import pyarrow.ipc as ipc
import pytest

from forebay._core.tape import COLUMNS, Recorder, fills
from forebay.tape import Extent, Kind, Mode, Space, Tape, Uses


def rows_of(path):
    with ipc.open_stream(path) as stream:
        table = stream.read_all()
    table.validate(full=True)
    return table.to_pylist()


def test_what_is_written_is_what_pyarrow_reads(tmp_path):
    recorder = Recorder(str(tmp_path / "a.arrows"), [("who", 'a "quoted"\nline')])
    name = recorder.string('k<"1">')
    recorder.write(Kind.launch, [(4096, 512, Mode.atomic, Extent.hull, Space.managed)], name=name, begin_ns=-5, device=-1)
    recorder.write(Kind.launch, stream=2**32 - 1, end_ns=2**63 - 1)
    recorder.close()
    define, first, second = rows_of(tmp_path / "a.arrows")
    assert (define["ref"], define["text"]) == (name, 'string k<"1">')
    assert first["uses"] == [{"address": 4096, "size": 512, "mode": 2, "extent": 1, "space": 3}]
    assert (first["name"], first["begin_ns"], first["device"], first["stream"]) == (name, -5, -1, None)
    assert (second["stream"], second["end_ns"], second["uses"], second["text"]) == (2**32 - 1, 2**63 - 1, None, None)
    assert ipc.open_stream(tmp_path / "a.arrows").schema.metadata[b"who"] == b'a "quoted"\nline'


def test_a_cell_that_its_kind_does_not_fill_is_null(tmp_path):
    recorder = Recorder(str(tmp_path / "a.arrows"), [])
    for kind in Kind:
        recorder.write(kind, **{column: 7 for column in COLUMNS if column not in ("uses", "text")})
    recorder.close()
    for kind, row in zip(Kind, rows_of(tmp_path / "a.arrows"), strict=True):
        filled = {column for column, value in row.items() if value is not None} - {"kind"}
        assert filled == set(fills(kind)) - {"uses", "text"}


def test_a_tape_passes_through_its_view_unchanged():
    use = Uses(
        *(np.array(a, t) for a, t in (([0, 1, 1, 3], "u8"), ([1, 2, 3], "u8"), ([4, 5, 6], "u8"))),
        *[np.arange(3, dtype="u1")] * 3,
    )
    kinds = np.array([Kind.launch, Kind.free, Kind.copy], "u1")
    columns = {"kind": kinds, "seq": np.array([5, 6, 9], "u8"), "size": np.array([0, 512, 64], "u8")}
    recorder = Recorder()
    recorder.extend(Tape(columns, uses=use))
    got, uses, known, texts = recorder.copy()
    assert {name: list(column) for name, column in got.items()} == {name: list(column) for name, column in columns.items()}
    assert all(np.array_equal(uses[part], getattr(use, part)) for part in uses)
    bits = [{COLUMNS[i] for i in range(32) if row >> i & 1} for row in known.tolist()]
    assert bits == [{"seq", "uses"}, {"seq", "size"}, {"seq", "size", "uses"}]
    assert texts == []


def test_a_view_refuses_columns_of_another_type():
    strided = Tape({"kind": np.zeros(8, "u1")[::2]})
    with pytest.raises(TypeError, match="column kind: expected a contiguous array"):
        Recorder().extend(strided)


def test_threads_share_ids_and_lose_no_row(tmp_path):
    recorder = Recorder(str(tmp_path / "a.arrows"), [])

    def work(number):
        thread = recorder.thread(f"worker {number}")
        for i in range(2000):
            recorder.write(Kind.note, thread=thread, name=recorder.string(f"text {i % 50}"))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    recorder.close()
    rows = rows_of(tmp_path / "a.arrows")
    notes = [row for row in rows if row["kind"] == Kind.note]
    texts = {row["ref"]: row["text"] for row in rows if row["text"] and row["text"].startswith("string ")}
    assert (len(notes), len(texts)) == (8000, 50)
    assert len({row["seq"] for row in rows}) == len(rows) == 8054 == recorder.rows == recorder.flushed
    for thread in range(4):
        assert [texts[row["name"]] for row in notes if row["thread"] == thread] == [f"string text {i % 50}" for i in range(2000)]


def test_rows_after_the_end_are_counted_as_lost(tmp_path):
    recorder = Recorder(str(tmp_path / "a.arrows"), [])
    recorder.write(Kind.note)
    recorder.close()
    recorder.write(Kind.note)
    assert (recorder.rows, recorder.flushed, recorder.lost, recorder.error) == (2, 1, 1, 0)
    assert len(rows_of(tmp_path / "a.arrows")) == 1


def test_a_file_that_cannot_be_made_raises_with_its_path(tmp_path):
    with pytest.raises(FileNotFoundError, match="none"):
        Recorder(str(tmp_path / "none" / "a.arrows"), [])
