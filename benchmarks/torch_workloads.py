"""torch_workloads: real modules with random weights under each setting of PyTorch's allocator and under forebay's pools: are the numbers
the same, how much is reserved at the peak, how many driver calls, how many steps a second.

    python benchmarks/torch_workloads.py [WORKLOAD ...] [--rounds 7] [--out FILE] [--device cuda|cpu] [--small]

Each setting has a process of its own, all of a workload's at once and one at work at a time: they take turns, a round each, so that
whatever else the machine does meets all alike. Every process runs the same steps. What a step computes (losses, tokens) is told bit for
bit, under deterministic algorithms; the default setting runs twice, as the control. `--device cpu` shows that the workloads run and
repeat; it has no memory to tell of.
"""

import argparse
import contextlib
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from datetime import date
from pathlib import Path

from torch_workloads_program import PYTORCH, SETTINGS, STEPS, WORKLOADS

PROGRAM = Path(__file__).with_name("torch_workloads_program.py")


class Worker:
    def __init__(self, workload: str, setting: str, arguments: argparse.Namespace) -> None:
        self.setting, self.seconds, self.failure = setting, [], ""
        self.errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 - a pipe that nobody reads would stop whoever writes
        self.process = subprocess.Popen(
            [sys.executable, str(PROGRAM), workload, setting, arguments.device, "small" if arguments.small else "whole"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True,
        )  # fmt: skip

    def heard(self) -> dict:
        line = self.process.stdout.readline()
        if line:
            return json.loads(line)
        self.process.wait(timeout=60)
        self.errors.seek(0)
        self.failure = (self.errors.read().strip().splitlines() or ["it ended without a word"])[-1]
        return {}

    def told(self, line: str) -> dict:
        if self.failure:
            return {}
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()
        return self.heard()

    def close(self) -> None:
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        self.process.wait(timeout=60)
        self.process.stdout.close()
        self.errors.close()


def compare(workload: str, arguments: argparse.Namespace) -> dict:
    """One workload under every setting: the rounds interleaved, the first not counted."""
    workers = [Worker(workload, setting, arguments) for setting in arguments.settings]
    ready = [worker.heard() for worker in workers]
    for number in range(arguments.rounds + 1):
        turn = number % len(workers)
        for worker in workers[turn:] + workers[:turn]:
            answer = worker.told("round")
            if number and answer:
                worker.seconds.append(answer["seconds"])
    rows = [row(worker, worker.told("end"), workload) for worker in workers]
    for worker in workers:
        worker.close()
    base = next((r for r in rows if r["setting"] == "default" and "digest" in r), None)
    for r in rows:
        if base is not None and "digest" in r:
            r["same_numbers_as_default"] = r["digest"] == base["digest"]
            r["speed_to_default"] = round(r["steps_per_s"] / base["steps_per_s"], 4)
    return {
        "workload": workload,
        "model": next((r["ready"] for r in ready if r), None),
        "torch": next((r["torch"] for r in ready if r), None),
        "steps": STEPS[workload] * (arguments.rounds + 1),
        "rows": rows,
    }


def row(worker: Worker, end: dict, workload: str) -> dict:
    if worker.failure or not worker.seconds:
        return {"setting": worker.setting, "failed": worker.failure or "no round"}
    rates = [STEPS[workload] / seconds for seconds in worker.seconds]
    rate = {"steps_per_s": round(statistics.median(rates), 3), "least": round(min(rates), 3), "most": round(max(rates), 3)}
    return {"setting": worker.setting, "configuration": PYTORCH.get(worker.setting), **rate, **end}


def shown(result: dict) -> str:
    lines = [f"{result['workload']}: {result['model']}, torch {result['torch']}, {result['steps']} steps"]
    for r in result["rows"]:
        if "failed" in r:
            lines.append(f"  {r['setting']:30} failed: {r['failed']}")
            continue
        reserved = r.get("peak_reserved_bytes")
        bytes_ = (
            ""
            if reserved is None
            else f"{reserved / 2**20:9.0f} MiB reserved, {r['driver_allocs']:5} + {r['driver_frees']:5} calls"
        )
        same = "same numbers" if r.get("same_numbers_as_default") else "OTHER NUMBERS"
        speed = f"{r['steps_per_s']:8.2f} steps/s ({r['least']:.2f}-{r['most']:.2f}), x{r.get('speed_to_default', 0):.3f}"
        lines.append(f"  {r['setting']:30} {speed}  {bytes_}  {same}")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workloads", nargs="*", help=f"of {', '.join(WORKLOADS)}; all of them without")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--settings", nargs="*", choices=SETTINGS, default=SETTINGS)
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--small", action="store_true", help="models of a few thousand weights")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    named = arguments.workloads or list(WORKLOADS)
    if unknown := set(named) - set(WORKLOADS):
        parser.error(f"no workload {', '.join(sorted(unknown))}: there are {', '.join(WORKLOADS)}")
    result = {"date": date.today().isoformat(), "machine": machine(arguments.device), "rounds": arguments.rounds, "workloads": []}
    for workload in named:
        result["workloads"].append(compare(workload, arguments))
        print(shown(result["workloads"][-1]), flush=True)
        if arguments.out:
            arguments.out.write_text(json.dumps(result, indent=1) + "\n")
    return 0 if all("failed" not in r for w in result["workloads"] for r in w["rows"]) else 1


def machine(device: str) -> str:
    if device != "cuda":
        return f"{platform.machine()}, {os.cpu_count()} cores, no GPU used"
    query = ["nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"]
    return f"{subprocess.run(query, capture_output=True, text=True, check=False).stdout.strip()}, {os.cpu_count()} cores"


if __name__ == "__main__":
    sys.exit(main())
