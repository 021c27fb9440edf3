"""run: every benchmark that needs a GPU, with the Python at hand and nothing fetched: the guide's numbers, our pool beside every allocator
that is installed, and PyTorch's workloads. Builds the package into a folder of its own.

Results: `numbers.json`, `pool.json` and `torch_workloads.json` in $OUT, else in build/gpu-results. Answers 0 where all of them ran.
"""

import ctypes
import dataclasses
import importlib.util
import json
import os
import subprocess
import sys
from datetime import date
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SITE = ROOT / "build" / "gpu-site"
LIBCUDA = os.environ.get("FOREBAY_LIBCUDA", "libcuda.so.1")
_MINUTES = {"numbers": 2, "pool": 3, "torch_workloads": 6}
ROUNDS = {"numbers": 7, "pool": 7}


def built() -> None:
    """Into SITE, as tests/gpu/run.py does it."""
    spec = importlib.util.spec_from_file_location("gpu_tests", ROOT / "tests/gpu/run.py")
    tests = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tests)
    tests.build()


def measured(name: str) -> dict:
    """In a process of its own: one of the two tables."""
    from forebay.bench import compare, measure
    from forebay.bench.pairs import Load
    from forebay.runtime import CudaDevice

    device = CudaDevice(library=LIBCUDA)
    if name == "numbers":
        return dataclasses.asdict(measure(device, ROUNDS["numbers"]))
    return dataclasses.asdict(compare(device, (1, 8), Load(pairs=20_000, rounds=ROUNDS["pool"])))


def machine() -> str:
    query = ["nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"]
    done = subprocess.run(query, capture_output=True, text=True, check=False)
    return f"{done.stdout.strip()}, {os.cpu_count()} cores, Python {sys.version.split()[0]}"


def ran(name: str, results: Path) -> bool:
    path = os.environ.get("PYTHONPATH")
    env = dict(os.environ, PYTHONPATH=os.pathsep.join([str(SITE), *([path] if path else [])]))
    own = [str(Path(__file__)), name]
    if name == "torch_workloads":
        own = [str(ROOT / "benchmarks/torch_workloads.py"), "--out", str(results / f"{name}.json")]
    try:
        return subprocess.run([sys.executable, *own], env=env, check=False, timeout=60 * _MINUTES[name]).returncode == 0
    except subprocess.TimeoutExpired:
        print(f"bench-gpu: {name}: not done after {_MINUTES[name]} minutes", file=sys.stderr)
        return False


def main() -> int:
    try:
        ctypes.CDLL(LIBCUDA)
    except OSError as error:
        print(f"bench-gpu: {error}: a GPU and NVIDIA's driver are needed; `make bench` needs neither", file=sys.stderr)
        return 2
    results = Path(os.environ.get("OUT") or ROOT / "build" / "gpu-results")
    results.mkdir(parents=True, exist_ok=True)
    if sys.argv[1:2] and sys.argv[1] in ROUNDS:
        figures = {"date": date.today().isoformat(), "machine": machine(), **measured(sys.argv[1])}
        (results / f"{sys.argv[1]}.json").write_text(json.dumps(figures, indent=1) + "\n")
        return 0
    built()
    done = [ran(name, results) for name in _MINUTES]  # all of them, whatever failed
    return 0 if all(done) else 1


if __name__ == "__main__":
    sys.exit(main())
