"""bench_order: events a second of the order engine on 10**6 events over 8 streams and 10**4 live blocks; what memory follows; beside
PyTorch's sanitizer engine on the same program. `bench_order.py PYTHON`: a Python that has torch, for the peer; `--save` writes
benchmarks/results/order.json. Rates are medians of five runs of ours and three of the peer's.

Processor time, not wall time, so that a busy machine does not count. The promise (DESIGN, section 2): 2 million a second on one core.
"""

import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from datetime import date
from pathlib import Path
from statistics import median

import numpy as np
from order_program import pipeline

from forebay.tape import Kind, Tape
from forebay.views.order import Races

ROOT = Path(__file__).resolve().parent.parent
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
    runs = [ours(tape) for _ in range(5)]
    rate, races = len(tape) / median(seconds for seconds, _ in runs), runs[0][1]
    print(f"forebay: {rate / 1e6:.2f} M events/s, {races.pieces} ranges told apart, {len(races.pairs())} races")
    _, longer = ours(pipeline(2_000_000))
    print(f"forebay, twice the events: {longer.pieces} ranges told apart")
    figures = {"events_per_s": round(rate), "ranges": races.pieces, "ranges_at_twice_the_events": longer.pieces}
    given = [argument for argument in sys.argv[1:] if argument != "--save"]
    if given:
        peers = [theirs(tape, given[0]) for _ in range(3)]
        peer, errors = PEER_ROWS / median(seconds for seconds, _ in peers), peers[0][1]
        print(f"torch.cuda._sanitizer: {peer / 1e3:.1f} k events/s, {errors} errors; forebay is {rate / peer:.0f} times as fast")
        figures |= {"torch_sanitizer_events_per_s": round(peer), "ratio": round(rate / peer)}
    if "--save" in sys.argv:
        load = f"load {os.getloadavg()[0]:.1f}"
        machine = f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, {load}"
        told = {"date": str(date.today()), "machine": machine} | figures
        (ROOT / "benchmarks/results/order.json").write_text(json.dumps(told, indent=1) + "\n")


if __name__ == "__main__":
    main()
