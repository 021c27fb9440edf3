"""bench_order: events a second of the order engine on 10**6 events over 8 streams and 10**4 live blocks; what memory follows; beside
PyTorch's sanitizer engine on the same program. `bench_order.py PYTHON`: a Python that has torch, for the peer.

Processor time, not wall time, so that a busy machine does not count. The promise (DESIGN, section 2): 2 million a second on one core.
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from order_program import pipeline

from forebay.tape import Kind, Tape
from forebay.views.order import Races

PEER_ROWS = 100_000
CODES = {Kind.alloc: 0, Kind.free: 1, Kind.launch: 2, Kind.record: 3, Kind.wait: 4}


def ours(tape: Tape) -> tuple[float, Races]:
    """Seconds of processor time for all rows, and the engine after them."""
    races = Races(tape.sides, threads=1)
    start = time.process_time()
    for chunk in tape.chunks():
        races.feed(chunk)
    return time.process_time() - start, races


def theirs(tape: Tape, python: str) -> tuple[float, int]:
    """Seconds for the first PEER_ROWS rows, and the errors found."""
    assert tape.uses is not None
    code = np.zeros(256, "u1")
    for kind, number in CODES.items():
        code[int(kind)] = number
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "program.npz"
        columns = {name: tape.columns[name] for name in ("stream", "ref")} | {"at": tape.columns["address"]}
        uses = {"offsets": tape.uses.offsets, "address": tape.uses.address, "mode": tape.uses.mode}
        np.savez(path, kind=code[tape.columns["kind"]], **columns, **uses)
        peer = Path(__file__).with_name("order_peer.py")
        run = subprocess.run([python, peer, path, str(PEER_ROWS)], capture_output=True, text=True, check=True)
    seconds, errors = run.stdout.split()
    return float(seconds), int(errors)


def main() -> None:
    """Prints the figures of one run."""
    tape = pipeline(1_000_000)
    seconds, races = min((ours(tape) for _ in range(3)), key=lambda pair: pair[0])
    rate = len(tape) / seconds
    print(f"forebay: {rate / 1e6:.2f} M events/s, {races.pieces} ranges told apart, {len(races.pairs())} races")
    _, longer = ours(pipeline(2_000_000))
    print(f"forebay, twice the events: {longer.pieces} ranges told apart")
    if len(sys.argv) > 1:
        peer_seconds, errors = theirs(tape, sys.argv[1])
        peer = PEER_ROWS / peer_seconds
        print(f"torch.cuda._sanitizer: {peer / 1e3:.1f} k events/s, {errors} errors; forebay is {rate / peer:.0f} times as fast")


if __name__ == "__main__":
    main()
