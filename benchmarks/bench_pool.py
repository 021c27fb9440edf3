"""bench_pool: a pool's hit from C++ and from Python beside malloc and free, and a history through the pool. One run, medians. What
gauges and an idle recording cost a hit is bench_hit.py's.

    python benchmarks/bench_pool.py [--save]

`--save` writes benchmarks/results/pool.json. A second thread runs throughout, so that locks are real.
"""

import ctypes
import datetime
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from forebay._core.driver import SimDriver
from forebay._core.pool import Move, Replay
from forebay.runtime import Pool, SimDevice

ROOT = Path(__file__).resolve().parent.parent
PAIRS, ROUNDS = 50_000, 9


def native(name: str) -> dict[str, float]:
    """What the C++ program of this name prints, compiled here with the release build's flags."""
    with tempfile.TemporaryDirectory() as folder:
        return run(compiled(name, ROOT / "native", Path(folder) / name))


def run(program: Path) -> dict[str, float]:
    return dict(json.loads(subprocess.run([program], check=True, capture_output=True, text=True).stdout))


def compiled(name: str, tree: Path, program: Path) -> Path:
    sources = [path for room in ("pool", "driver", "tape") for path in tree.glob(f"{room}/*.cpp")]
    sources.append(ROOT / f"benchmarks/native/{name}.cpp")
    objects = program.parent / f"{program.name}.objects"
    objects.mkdir()
    flags = ["-std=c++20", "-O3", "-DNDEBUG", f"-I{tree}"]

    def compile_one(source: Path) -> str:
        made = objects / f"{source.parent.name}.{source.stem}.o"
        subprocess.run(["c++", *flags, "-c", str(source), "-o", str(made)], check=True)
        return str(made)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        made = list(pool.map(compile_one, sources))
    subprocess.run(["c++", *made, "-o", str(program), "-pthread"], check=True)
    return program


def in_turns(pairs: dict[str, Callable[[], object]]) -> dict[str, float]:
    """CPU time of one call of each, the median of rounds taken by turns; the loop's own cost is in it. The first second is not counted:
    a core that was idle has not its speed yet.
    """
    rounds: dict[str, list[float]] = {name: [] for name in pairs}
    begun = time.perf_counter()
    while len(rounds[next(iter(pairs))]) < ROUNDS:
        warm = time.perf_counter() - begun > 1
        for name, pair in pairs.items():
            begin = time.thread_time_ns()
            for _ in range(PAIRS):
                pair()
            if warm:
                rounds[name].append((time.thread_time_ns() - begin) / PAIRS)
    return {name: statistics.median(taken) for name, taken in rounds.items()}


def from_python() -> dict[str, float]:
    device = SimDevice("1GiB")
    stream = device.stream("bench", kind="nonblocking")
    pool = Pool(device, "bench")
    alloc, free, libc = pool.alloc_address, pool.free_address, ctypes.CDLL(None)
    libc.malloc.restype, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
    return in_turns(
        {
            "python_4KiB_ns": lambda: free(alloc(4096, stream)),
            "python_buffer_4KiB_ns": lambda: pool.alloc(4096, stream).free(),
            "python_ctypes_malloc_4KiB_ns": lambda: libc.free(libc.malloc(4096)),
            "python_empty_call_ns": lambda: None,
        }
    )


def replayed(events: int = 2_000_000, live: int = 1000) -> dict[str, float]:
    """A made history: a ring of `live` blocks of mixed sizes; rounds through one pool."""
    random = np.random.default_rng(1)
    half = events // 2
    order = random.integers(0, live, half)
    names = np.arange(half, dtype=np.uint64) + np.uint64(1)
    move, address = np.empty(events, np.uint8), np.empty(events, np.uint64)
    holder: dict[int, int] = {}
    for i, slot in enumerate(order.tolist()):  # each slot's block is freed before its next one is allocated
        move[2 * i], address[2 * i] = Move.free, holder.get(slot, 0)
        move[2 * i + 1], address[2 * i + 1] = Move.alloc, names[i]
        holder[slot] = int(names[i])
    bytes_ = np.repeat(np.exp(random.uniform(np.log(100), np.log(20e6), half)).astype(np.uint64), 2)
    zeros = np.zeros(events, np.uint32)
    replay = Replay(SimDriver([140 * 2**30]), 0)
    begin = time.perf_counter()
    replay.feed(move, address, bytes_, zeros, zeros)
    return {"replay_events_per_s": round(events / (time.perf_counter() - begin))}


def machine() -> str:
    model = next(
        (line.split(":")[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line), ""
    )
    return f"{platform.machine()}, {os.cpu_count()} cores, {model}, Python {platform.python_version()}, load {os.getloadavg()[0]:.1f}"


def main() -> None:
    over = threading.Event()
    threading.Thread(target=over.wait, daemon=True).start()
    figures = {**native("pool"), **from_python(), **replayed()}
    over.set()
    result = {"date": datetime.date.today().isoformat(), "machine": machine(), **figures}
    text = json.dumps(result, indent=1)
    print(text)
    print(f"a hit from C++ is {figures['pool_4KiB_ns'] / figures['malloc_4KiB_ns']:.1f} times malloc + free")
    if "--save" in sys.argv[1:]:
        (ROOT / "benchmarks/results").mkdir(exist_ok=True)
        (ROOT / "benchmarks/results/pool.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
