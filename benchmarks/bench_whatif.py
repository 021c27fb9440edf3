"""bench_whatif: `forebay whatif` and `forebay doctor` of a whole file, from the shell to the answer, beside Python's unpickler that
refuses classes and does no more than read it. One run, each in a process of its own.

    python benchmarks/bench_whatif.py [--events N] [--rounds N] [--way NAME]... [--save]

The snapshot is made here: a training loop repeated until it has so many events (17,500,000 of them are a gigabyte). Wall and processor
seconds are medians, the peak of memory is the highest. `--save` adds the run to benchmarks/results/whatif.json.
"""

import argparse
import datetime
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from history_program import EVENTS

ROOT = Path(__file__).resolve().parent.parent
SAVED = ROOT / "benchmarks/results/whatif.json"
# In a process of its own, whose memory is none of those that are measured.
_WRITE = """
import sys
from pathlib import Path
from history_program import write_snapshot
print(write_snapshot(Path(sys.argv[1]), int(sys.argv[2])))
"""
_READ = """
import pickle, sys
class Refusing(pickle.Unpickler):
    def find_class(self, module, name):
        raise pickle.UnpicklingError(name)
with open(sys.argv[1], "rb") as file:
    Refusing(file).load()
"""
_TAPE = "import sys; from forebay.sources import open_artifact; print(len(open_artifact(sys.argv[1])))"
WAYS = {
    "pickle.Unpickler, read only": ["-c", _READ],
    "forebay: read into a tape": ["-c", _TAPE],
    "forebay doctor": ["-m", "forebay", "doctor"],
    "forebay whatif, everything": ["-m", "forebay", "whatif"],
}


def measured(arguments: list[str], path: Path) -> tuple[float, float, float]:
    """Wall seconds, processor seconds, peak memory in GiB of one process."""
    quiet = [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]
    begun = time.perf_counter()
    child = os.posix_spawn(sys.executable, [sys.executable, *arguments, str(path)], os.environ, file_actions=quiet)
    _, status, used = os.wait4(child, 0)
    if status:
        raise SystemExit(f"{' '.join(arguments)}: ended with status {os.waitstatus_to_exitcode(status)}")
    return time.perf_counter() - begun, used.ru_utime + used.ru_stime, used.ru_maxrss / 2**20


def main() -> None:
    """Prints a line a way, and saves them where that is asked for."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--events", type=int, default=400_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--way", action="append", choices=WAYS, help="only these")
    parser.add_argument("--save", action="store_true")
    told, rows = parser.parse_args(), []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "repeated.pickle"
        write = [sys.executable, "-c", _WRITE, str(path), str(told.events // EVENTS + 1)]
        events = int(subprocess.run(write, cwd=ROOT / "benchmarks", capture_output=True, text=True, check=True).stdout)
        load = round(os.getloadavg()[0], 1)
        print(f"{events:,} events, {path.stat().st_size / 1e9:.3f} GB; {load} programs run on {os.cpu_count()} cores")
        for name, arguments in ((name, WAYS[name]) for name in told.way or WAYS):
            runs = [measured(arguments, path) for _ in range(told.rounds)]
            wall, cpu = (statistics.median(run[i] for run in runs) for i in (0, 1))
            rows.append(
                {"way": name, "wall_s": round(wall, 2), "cpu_s": round(cpu, 2), "peak_gib": round(max(r[2] for r in runs), 2)}
            )
            ratio = f"{cpu / rows[0]['cpu_s']:5.2f} of the first"
            print(f"{name:28} {wall:7.2f} s wall {cpu:7.2f} s of processor ({ratio}) {rows[-1]['peak_gib']:6.2f} GiB")
        size = path.stat().st_size
    if told.save:
        saved = json.loads(SAVED.read_text()) if SAVED.exists() else []
        saved = [run for run in saved if run["events"] != events]
        run = {
            "date": datetime.date.today().isoformat(),
            "machine": platform.machine(),
            "cores": os.cpu_count(),
            "events": events,
        }
        SAVED.write_text(json.dumps([*saved, {**run, "events": events, "bytes": size, "rows": rows}], indent=1) + "\n")


if __name__ == "__main__":
    main()
