"""bench_emulate: events a second of PyTorch's allocator emulated, a setting a line, beside the same algorithm in plain Python. One run.

    python benchmarks/bench_emulate.py [--save]

The history is made here: a training loop of many sizes. An event is a row that PyTorch would record: an alloc, a free's request and its
completion. `--save` writes benchmarks/results/emulate.json.
"""

import datetime
import json
import platform
import statistics
import sys
import time
from pathlib import Path

from history_program import history, program

from forebay._core.allocator import Addresses, Limits, Step, replay
from forebay.whatif.settings import apply

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))
from emulate.plain_allocator import PlainAllocator  # noqa: E402

MIB, ROUNDS, PLAIN_STEPS = 2**20, 5, 4000
SETTINGS = (
    "none",
    "max_split_size_mb:64",
    "roundup_power2_divisions:4",
    "expandable_segments:True",
    "garbage_collection_threshold:0.6,max_split_size_mb:128",
)


def rate(steps: list[tuple[int, int, int]], text: str) -> float:
    """Events a second of processor time, one core, the median of some rounds."""
    made, settings, cap = history(steps), apply(text).native(), 4096 * MIB
    events = sum(1 if step == Step.alloc else 2 for step, _, _ in steps)
    times = []
    for _ in range(ROUNDS):
        start = time.process_time()
        replay(made, settings, Limits(cap=cap), Addresses.descending())
        times.append(time.process_time() - start)
    return events / statistics.median(times)


def plain_rate(steps: list[tuple[int, int, int]], text: str) -> float:
    """The same through the tests' plain allocator, on the history's beginning."""
    settings, blocks = apply(text), {}
    oracle = PlainAllocator(settings, [(1 << 50) - n * (1 << 41) for n in range(300)], cap=4096 * MIB)
    start, events = time.process_time(), 0
    for step, handle, size in steps[:PLAIN_STEPS]:
        if step == Step.alloc:
            blocks[handle] = oracle.malloc(0, 0, size)
            events += 1
        else:
            oracle.let_go(*blocks[handle])
            oracle.reusable(*blocks.pop(handle))
            events += 2
    return events / (time.process_time() - start)


def main() -> None:
    """Prints a line a setting, and saves them where that is asked for."""
    steps, rows = program(5000), []
    for text in SETTINGS:
        fast, slow = rate(steps, text), plain_rate(steps, text)
        rows.append({"settings": text, "million_events_a_second": round(fast / 1e6, 2), "times_plain_python": round(fast / slow)})
        print(f"{text:56s} {fast / 1e6:6.1f} M events/s, {fast / slow:6.0f} × plain Python")
    if "--save" in sys.argv:
        told = {"date": datetime.date.today().isoformat(), "machine": platform.machine(), "cores": 1, "rows": rows}
        (ROOT / "benchmarks/results/emulate.json").write_text(json.dumps(told, indent=1) + "\n")


if __name__ == "__main__":
    main()
