"""bench_paged: a page taken and dropped, alone and in a sequence, beside malloc and free of the same size; a pinned hit beside what the
cost table says of pinning; random sequences through the paged pool, judged by the tests' plain model. One run, medians.

    python benchmarks/bench_paged.py [--sequences N] [--save]

`--save` writes benchmarks/results/paged.json. The program is native/paged.cpp, in which a second thread works in the same pool.
"""

import argparse
import datetime
import json
import sys
import time
from typing import Any

from bench_pool import ROOT, in_turns, machine, native

from forebay.runtime import PagedPool, PinnedPool, SimDevice

sys.path.insert(0, str(ROOT / "tests"))
from page_model import Pair

MIB = 2**20


def pinned() -> dict[str, Any]:
    """CPU time of a pinned hit and its free from Python, and the cost table's virtual time of pinning as much."""
    device = SimDevice("1GiB")
    begin = device.clock_ns
    device.host_alloc(MIB)
    pinning, pool = device.clock_ns - begin, PinnedPool(device, "bench")
    hits = in_turns(
        {
            "pinned_hit_1MiB_ns": lambda: pool.free_address(pool.alloc_address(MIB)),
            "pinned_buffer_1MiB_ns": lambda: pool.alloc(MIB).free(),
        }
    )
    return {**hits, "pinning_1MiB_by_table_ns": pinning}


def sequences(count: int) -> dict[str, Any]:
    """Random sequences (grow, fork, share, end), compared with the model at every step: an AssertionError is a difference."""
    device = SimDevice("64MiB")
    pool = PagedPool(device, "kv", 150 * 4096, page_bytes=4096, page_tokens=8, wait_limit=0.0)
    pair, begin = Pair(pool, device.stream("compute"), 11), time.thread_time()
    pair.run(count)
    return {"sequences": pair.sequences, "sequences_refused": pool.gauges().ooms, "sequences_s": time.thread_time() - begin}


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--sequences", type=int, default=10_000)
    options.add_argument("--save", action="store_true")
    given = options.parse_args()
    figures: dict[str, Any] = {**native("paged"), **pinned(), **sequences(given.sequences)}
    text = json.dumps({"date": datetime.date.today().isoformat(), "machine": machine(), **figures}, indent=1)
    print(text)
    pair, malloc = (figures[name]["median"] for name in ("page_pair_ns", "malloc_pair_ns"))
    print(f"a page taken and dropped is {pair / malloc:.2f} times malloc + free of its size")
    for kind, path in (("hit", "by address (alloc_address, free_address)"), ("buffer", "as a Buffer object (alloc, free)")):
        ratio = figures["pinning_1MiB_by_table_ns"] / figures[f"pinned_{kind}_1MiB_ns"]
        print(f"pinning 1 MiB, by the cost table, takes {ratio:,.0f} times a pooled block's hit and free from Python {path}")
    if given.save:
        (ROOT / "benchmarks/results").mkdir(exist_ok=True)
        (ROOT / "benchmarks/results/paged.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
