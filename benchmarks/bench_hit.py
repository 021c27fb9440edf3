"""bench_hit: what gauges cost a pool's hit, and what a recording costs it that is not under way, told from the noise of a machine.

    python benchmarks/bench_hit.py [--layouts N] [--save]

One program holds the pool three times: without the statements that keep its figures, and twice as it is (native/hit/costs.cpp says how
they take turns). Where code lies in memory moves a hit by more than gauges do, so the program is linked in several orders; the medians
over all of them count, and what the two equal builds read against each other says how much a reading means. Beside it instructions,
counted by valgrind where there is one. `--save` writes benchmarks/results/hit.json.
"""

import argparse
import datetime
import json
import os
import random
import re
import shutil
import statistics
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from bench_pool import ROOT, machine, run

# The statements that keep a lane's figures, in native/pool.
FIGURES = re.compile(r"^(\s*)(?:\+\+)?(?:lane(?:->|\.))?figures\.\w+(?: [+-]= [^;]*)?;$", re.MULTILINE)
BUILDS = ("bare", "kept", "again")
PAIRS = 2000


def without_gauges(tree: Path) -> int:
    """Takes the statements out that keep figures; those that count the edges of frames stay, for the pool lives on them."""
    dropped = 0
    for source in tree.glob("pool/*.cpp"):
        text, count = FIGURES.subn(lambda m: m[0] if "occupy" in m[0] or "vacate" in m[0] else f"{m[1]};", source.read_text())
        source.write_text(text)
        dropped += count
    return dropped


def objects(tree: Path, build: str, folder: Path) -> list[Path]:
    """The pool and what it needs, compiled with a release build's flags under this name."""
    sources = [
        path for room in ("pool", "driver", "tape") for path in sorted(tree.glob(f"{room}/*.cpp")) if "cuda" not in path.name
    ]
    sources.append(ROOT / "benchmarks/native/hit/pairs.cpp")
    flags = ["-std=c++20", "-O3", "-DNDEBUG", f"-I{tree}", f"-DPAIRS={build}", f"-Dforebay=forebay_{build}"]

    def compiled(source: Path) -> Path:
        made = folder / f"{build}.{source.parent.name}.{source.stem}.o"
        subprocess.run(["c++", *flags, "-c", source, "-o", made], check=True)
        return made

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(compiled, sources))


def programs(folder: Path, layouts: int) -> tuple[list[Path], int]:
    bare = folder / "native"
    shutil.copytree(ROOT / "native", bare)
    dropped = without_gauges(bare)
    made = [part for build in BUILDS for part in objects(bare if build == "bare" else ROOT / "native", build, folder)]
    main = folder / "hit_costs.o"
    subprocess.run(["c++", "-std=c++20", "-O3", "-c", ROOT / "benchmarks/native/hit/costs.cpp", "-o", main], check=True)
    linked = []
    for layout in range(layouts):
        random.Random(layout).shuffle(made)
        linked.append(folder / f"hit_costs{layout}")
        subprocess.run(["c++", main, *made, "-o", linked[-1], "-pthread"], check=True)
    return linked, dropped


def instructions(program: Path, build: int, what: int) -> float | None:
    """Of one pair, by valgrind; None without it."""
    if shutil.which("valgrind") is None:
        return None

    def counted(pairs: int) -> int:
        command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", program, str(build), str(what), str(pairs)]
        text = subprocess.run(command, check=True, capture_output=True, text=True).stderr
        return int(re.search(r"Collected : (\d+)", text)[1])  # type: ignore[index]

    return (counted(2 * PAIRS) - counted(PAIRS)) / PAIRS


def summary(runs: list[dict[str, Any]], name: str) -> dict[str, Any]:
    """A comparison over all layouts; `cost` is of both builds that are as they are, `least` and `most` single layouts'."""
    costs = [(run[name]["cost"] + run[name]["control"]) / 2 if name.startswith("gauges") else run[name]["cost"] for run in runs]
    apart = [abs(run[name]["apart"] if name.startswith("gauges") else run[name]["control"]) for run in runs]
    return {
        "without_ns": round(statistics.median(run[name]["without_ns"] for run in runs), 2),
        "cost": round(statistics.median(costs), 4),
        "least": round(min(costs), 4),
        "most": round(max(costs), 4),
        "equal_builds_apart": round(statistics.median(apart), 4),
    }


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--layouts", type=int, default=9)
    options.add_argument("--save", action="store_true")
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        linked, dropped = programs(Path(folder), given.layouts)
        runs: list[dict[str, Any]] = [run(program) for program in linked]
        figures: dict[str, Any] = {name: summary(runs, name) for name in runs[0]}
        for name, what in (("gauges_4KiB", 0), ("gauges_100KiB", 1), ("gauges_3MiB", 2)):
            figures[name]["instructions"] = [instructions(linked[0], build, what) for build in (0, 1)]
        for name, whats in (("idle_recording_4KiB", (0, 4)), ("idle_recording_event", (6, 7))):
            figures[name]["instructions"] = [instructions(linked[0], 1, what) for what in whats]
    result = {"date": datetime.date.today().isoformat(), "machine": machine(), "layouts": given.layouts, "statements": dropped}
    text = json.dumps({**result, **figures}, indent=1)
    print(text)
    for name, f in figures.items():
        print(
            f"{name}: {f['cost']:+.1%} ({f['least']:+.1%} to {f['most']:+.1%}; equal builds {f['equal_builds_apart']:.1%} apart)"
        )
    if given.save:
        (ROOT / "benchmarks/results").mkdir(exist_ok=True)
        (ROOT / "benchmarks/results/hit.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
