"""tape: rows a second into a recording, beside pyarrow's own stream writer fed with the same columns, and bytes a row on disk.

Run with `python benchmarks/bench_tape.py`. The recorder takes rows one by one, as they happen; pyarrow is given whole batches that are
ready, which no recorded program has: the ratio says how far a row's own path is from a bulk copy.
"""

import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa

from forebay._core.tape import Recorder
from forebay.tape import Kind, Sides, Stream, Tape, Uses, file

ROWS = 1_000_000


def server(rows: int) -> Tape:
    """A decode server's history, drawn from a seed: launches with two uses, copies, edges, allocs and frees on four streams."""
    draw = np.random.default_rng(1)
    kinds = np.array([Kind.launch, Kind.alloc, Kind.free, Kind.record, Kind.wait, Kind.copy], "u1")
    kind = kinds[draw.choice(6, rows, p=[0.5, 0.17, 0.17, 0.06, 0.06, 0.04])]
    blocks = draw.integers(0, 4096, rows).astype("u8")
    time_ns = np.cumsum(draw.integers(800, 9000, rows))
    columns = {
        "kind": kind,
        "name": draw.zipf(1.5, rows).clip(max=200).astype("u4"),
        "thread": draw.integers(0, 2, rows).astype("u2"),
        "seq": np.arange(rows, dtype="u8"),
        "time_ns": time_ns,
        "span_ns": draw.integers(300, 6000, rows),
        "site": draw.zipf(1.3, rows).clip(max=500).astype("u4"),
        "flags": np.zeros(rows, "u4"),
        "device": np.zeros(rows, "i2"),
        "stream": draw.integers(0, 4, rows).astype("u4"),
        "address": 0x7F0000000000 + blocks * 2**21,
        "size": (draw.integers(1, 4096, rows) * 512).astype("u8"),
        "ref": draw.integers(0, 64, rows).astype("u4"),
    }
    counts = np.where(kind == Kind.launch, 2, np.where(kind == Kind.copy, 2, 0))
    total = int(counts.sum())
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype("u8")
    address = 0x7F0000000000 + draw.integers(0, 4096, total).astype("u8") * 2**21
    codes = (draw.integers(0, 2, total).astype("u1"), np.zeros(total, "u1"), np.zeros(total, "u1"))
    uses = Uses(offsets, address, (draw.integers(1, 64, total) * 4096).astype("u8"), *codes)
    sides = Sides([Stream(f"s{i}") for i in range(4)], (), ["", *(f"kernel_{i}" for i in range(200))])
    return Tape({name: column for name, column in columns.items() if name != "site"}, sides, uses=uses)


def best(run: Callable[[], object]) -> float:
    """The shortest of three runs, seconds."""
    seconds = []
    for _ in range(3):
        start = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def record(tape: Tape, path: Path) -> None:
    """Every row through the recorder into a file."""
    recorder = Recorder(str(path), [])
    recorder.extend(tape)
    recorder.close()


def peer(batches: list[pa.RecordBatch], path: Path) -> None:
    """The same batches through pyarrow's stream writer."""
    with pa.OSFile(str(path), "wb") as out, pa.ipc.new_stream(out, batches[0].schema) as writer:
        for batch in batches:
            writer.write_batch(batch)


def main() -> None:
    """Prints one line a figure."""
    tape = server(ROWS)
    with tempfile.TemporaryDirectory() as folder:
        recording, copy, closed = Path(folder, "a.arrows"), Path(folder, "b.arrows"), Path(folder, "a.arrow")
        ours = best(lambda: record(tape, recording))
        batches = pa.ipc.open_stream(recording).read_all().to_batches()
        theirs = best(lambda: peer(batches, copy))
        closing = best(lambda: file.write(tape, closed))
        reading = best(lambda: file.read(closed))
        print(f"recorder, a row at a time   {ROWS / ours / 1e6:6.2f} M rows/s")
        print(f"pyarrow, batches ready      {ROWS / theirs / 1e6:6.2f} M rows/s   ours / theirs {theirs / ours:.2f}")
        print(f"closing / reading a file    {ROWS / closing / 1e6:6.2f} / {ROWS / reading / 1e6:.2f} M rows/s")
        print(
            f"bytes a row                 recording {os.path.getsize(recording) / ROWS:.0f}, closed {os.path.getsize(closed) / ROWS:.1f}"
        )


if __name__ == "__main__":
    main()
