"""order_peer: PyTorch's stream sanitizer engine, driven directly with the rows of an order benchmark. Run with a Python that has torch:
`order_peer.py PROGRAM.npz ROWS` prints the seconds of processor time."""

import sys
import time

import numpy as np
from torch.cuda._sanitizer import EventHandler

ALLOC, FREE, LAUNCH, RECORD, WAIT = range(5)


def drive(rows: list[tuple[int, int, int, int, set[int], set[int]]]) -> int:
    """The number of errors that the engine finds."""
    handler, errors, events = EventHandler(), 0, set[int]()
    for stream in {row[1] for row in rows}:
        handler._handle_stream_creation(stream)
    for kind, stream, ref, address, reads, writes in rows:
        if kind == ALLOC:
            handler._handle_memory_allocation(address)
        elif kind == FREE:
            handler._handle_memory_deallocation(address)
        elif kind == LAUNCH:
            aliases = {pointer: [] for pointer in reads | writes}
            errors += len(handler._handle_kernel_launch(stream, reads - writes, writes, set(), "k", aliases))
        elif kind == RECORD:
            if ref not in events:
                handler._handle_event_creation(ref)
                events.add(ref)
            handler._handle_event_record(ref, stream)
        else:
            handler._handle_event_wait(ref, stream)
    return errors


def load(path: str, count: int) -> list[tuple[int, int, int, int, set[int], set[int]]]:
    """The first rows as plain values; addresses from 1, since 0 is no pointer."""
    with np.load(path) as file:
        data = {name: file[name].tolist() for name in file.files}
    starts, touched, modes = data["offsets"], data["address"], data["mode"]
    rows = []
    for i in range(count):
        uses = range(starts[i], starts[i + 1])
        reads, writes = ({touched[u] + 1 for u in uses if modes[u] == mode} for mode in (0, 1))
        rows.append((data["kind"][i], data["stream"][i], data["ref"][i] + 1, data["at"][i] + 1, reads, writes))
    return rows


if __name__ == "__main__":
    program = load(sys.argv[1], int(sys.argv[2]))
    start = time.process_time()
    found = drive(program)
    print(time.process_time() - start, found)
