"""torch_pairs: an allocation and its free of a cached block, PyTorch's own allocator beside ours in one run on a GPU: from C++ through
each one's C interface, on 1 thread and on 8 with a stream each, and torch.empty with and without `install()`. Prints JSON; with a path,
writes it there. Needs PyTorch for CUDA, a C++ compiler, and forebay installed.

Each figure is the median of rounds that go round the peers in turn; of torch.empty, of processes that do.
"""

import ctypes
import datetime
import json
import os
import platform
import statistics
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
SIZES = {"4KiB": 4 << 10, "256KiB": 256 << 10, "3MiB": 3 << 20, "32MiB": 32 << 20}
ROUNDS, PAIRS, LIVE, PROCESSES = 9, 20_000, 16, 5
EMPTY = """
import sys, time, threading, statistics, json
import torch
if sys.argv[1] == "forebay":
    from forebay.adapters import torch as adapter
    adapter.install()
threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
figures = {}
for name, shape in (("4KiB", (4 << 10,)), ("3MiB", (3 << 20,))):
    rounds = []
    for _ in range(7):
        begin = time.perf_counter_ns()
        for _ in range(5000):
            torch.empty(shape, dtype=torch.uint8, device="cuda")
        rounds.append((time.perf_counter_ns() - begin) / 5000)
    figures[name] = statistics.median(rounds)
print(json.dumps(figures))
"""


def built():
    import torch
    from torch.utils.cpp_extension import include_paths

    made = Path(tempfile.mkdtemp()) / "torch_pairs.so"
    roots = [*include_paths(), *include_paths("cuda"), "/usr/local/cuda/include", sysconfig.get_path("include")]
    libraries = [f"-L{Path(torch.__file__).parent / 'lib'}", "-lc10", "-lc10_cuda"]
    command = ["c++", "-std=c++20", "-O2", "-shared", "-fPIC", str(HERE / "torch_pairs.cpp"), "-o", str(made), "-pthread"]
    subprocess.run([*command, *(f"-I{root}" for root in roots), *libraries], check=True)
    lib = ctypes.CDLL(str(made))
    lib.pair_ns.restype = ctypes.c_double
    return lib


def from_cpp():
    import torch

    from forebay.adapters.torch_library import Library, path

    lib, ours = built(), Library(path())
    ours.set(libcuda="libcuda.so.1", limit=None, growth=None, quarantine=None)
    streams = [torch.cuda.Stream() for _ in range(8)]
    handles = [stream.cuda_stream for stream in streams]
    for handle in handles:
        ours.vouch(0, handle)
    peers = {
        "torch": (0, 0),
        "forebay": (ours.address("forebay_torch_alloc"), ours.address("forebay_torch_free")),
    }
    figures = {}
    for threads in (1, 8):
        array = (ctypes.c_void_p * 8)(*handles)
        for name, nbytes in SIZES.items():
            rounds = {peer: [] for peer in peers}
            for _ in range(ROUNDS):
                for peer, (alloc, free) in peers.items():
                    arguments = (ctypes.c_void_p(alloc), ctypes.c_void_p(free), ctypes.c_size_t(nbytes))
                    rounds[peer].append(lib.pair_ns(*arguments, PAIRS, threads, array, LIVE))
            medians = {f"{peer}_ns": round(statistics.median(each), 1) for peer, each in rounds.items()}
            spread = {f"{peer}_spread_ns": [round(min(each), 1), round(max(each), 1)] for peer, each in rounds.items()}
            ratio = medians["forebay_ns"] / medians["torch_ns"]
            figures[f"{threads} threads, {name}"] = medians | spread | {"forebay_over_torch": round(ratio, 3)}
    return figures


def of_empty():
    runs = {"torch": [], "forebay": []}
    for _ in range(PROCESSES):
        for peer, each in runs.items():
            done = subprocess.run([sys.executable, "-c", EMPTY, peer], capture_output=True, text=True, check=True, timeout=120)
            each.append(json.loads(done.stdout))
    figures = {}
    for name in runs["torch"][0]:
        medians = {f"{peer}_ns": round(statistics.median(run[name] for run in each), 1) for peer, each in runs.items()}
        figures[name] = medians | {"forebay_over_torch": round(medians["forebay_ns"] / medians["torch_ns"], 3)}
    return figures


def main():
    import torch

    figures = {
        "date": datetime.date.today().isoformat(),
        "machine": f"{torch.cuda.get_device_name(0)}, {os.cpu_count()} cores, Python {platform.python_version()}, "
        f"PyTorch {torch.__version__}, load {os.getloadavg()[0]:.1f}",
        "pair_from_cpp": from_cpp(),
        "torch_empty": of_empty(),
    }
    text = json.dumps(figures, indent=1) + "\n"
    print(text, end="")
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
