"""ingest: a PyTorch snapshot read into a tape, beside Python's unpickler that refuses classes, in one run.

    python benchmarks/bench_ingest.py [SNAPSHOT] [--repeat N]

Without a snapshot the bundled example `mixed` is read. `--repeat N` makes a larger one first: its events N times over. Prints
medians of five and their ratio: our whole way to a tape (parsed, heap settled, rows built) against the unpickler's objects.
"""

import argparse
import gc
import io
import pickle
import resource
import statistics
import time
from pathlib import Path

from forebay import examples
from forebay._core import ingest
from forebay.sources import torch_snapshot, unpacked


class Refusing(pickle.Unpickler):
    """The peer: plain values or nothing."""

    def find_class(self, module, name):
        raise pickle.UnpicklingError(f"{module}.{name} refused")


def median(work, rounds):
    """Seconds of the middle one of so many rounds."""
    took = []
    for _ in range(rounds):
        gc.collect()
        begun = time.perf_counter()
        work()
        took.append(time.perf_counter() - begun)
    return statistics.median(took)


def repeated(data, times):
    """The snapshot with its events as often, each a dict of its own in the pickle."""
    value = pickle.loads(data)
    value["device_traces"] = [[dict(e) for _ in range(times) for e in trace] for trace in value["device_traces"]]
    return pickle.dumps(value, protocol=4)


def main():
    """Prints one line a way."""
    parser = argparse.ArgumentParser()
    parser.add_argument("snapshot", nargs="?", type=Path)
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--alone", action="store_true", help="leave the peer out, to see our own memory")
    told = parser.parse_args()
    data = unpacked(told.snapshot.read_bytes() if told.snapshot else examples.bytes_of("mixed"))
    if told.repeat > 1:
        data = repeated(data, told.repeat)
    ways = {"columns only": lambda: ingest.torch_snapshot(data), "whole tape": lambda: torch_snapshot.read(data)}
    if not told.alone:
        ways = {"pickle.Unpickler": lambda: Refusing(io.BytesIO(data)).load(), **ways}
    took = {name: median(work, told.rounds) for name, work in ways.items()}
    peer = took.get("pickle.Unpickler")
    print(f"{len(data) / 2**20:.1f} MiB")
    for name, seconds in took.items():
        print(f"{name:18} {seconds * 1000:9.1f} ms" + (f"   {seconds / peer:5.2f} of the peer" if peer else ""))
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GiB")


if __name__ == "__main__":
    main()
