"""bench_import: what starting forebay costs beside starting Python and importing NumPy, fresh processes, medians of one run.

The promise (DESIGN, section 4): `import forebay` in less than 0.2 s.
"""

import statistics
import subprocess
import sys
import time

RUNS = 15
STATEMENTS = {
    "python alone": "pass",
    "import forebay": "import forebay",
    "import forebay, and use its tape": "from forebay import Tape",
    "import numpy": "import numpy",
    "forebay --version": "from forebay.cli import run; run(['--version'])",
}


def seconds(statement: str) -> float:
    """How long a fresh interpreter takes for one statement."""
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", statement], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def main() -> None:
    """Interleaves the statements, so that a slow moment of the machine hits all of them."""
    times: dict[str, list[float]] = {name: [] for name in STATEMENTS}
    for _ in range(RUNS):
        for name, statement in STATEMENTS.items():
            times[name].append(seconds(statement))
    bare = statistics.median(times["python alone"])
    print(f"{'':34} {'median':>8} {'over bare Python':>17}")
    for name, runs in times.items():
        middle = statistics.median(runs)
        print(f"{name:34} {middle * 1e3:5.0f} ms {(middle - bare) * 1e3:+14.0f} ms")


if __name__ == "__main__":
    main()
