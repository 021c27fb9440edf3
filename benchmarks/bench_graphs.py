"""bench_graphs: what replaying a graph saves over launching its kernels one by one: on the simulated device's clock, in both cost tables,
beside what one H200 took (benchmarks/results/capture-h200.json: empty kernels in a row, launched and waited for).

The kernels' own time is what the H200 took for a node of its graphs, so that only launching differs.
"""

import json
from datetime import date
from pathlib import Path

from forebay import SimDevice

RESULTS = Path(__file__).parent / "results"
MEASURED = json.loads((RESULTS / "capture-h200.json").read_text())
KERNEL_NS = 500  # (launch_and_sync at 1,000 nodes - launch_and_sync at 10 nodes) / 990, rounded


def nothing() -> None:
    """A kernel."""


def simulated(cost: str, nodes: int) -> tuple[int, int]:
    """Nanoseconds of the virtual clock: the kernels launched one by one and waited for; their graph replayed and waited for."""
    device = SimDevice("64MiB", cost=cost)
    stream = device.stream("main", kind="nonblocking")

    def issue() -> None:
        for _ in range(nodes):
            stream.launch(nothing, cost_ns=KERNEL_NS)

    with device.capture(stream) as graph:
        issue()
    begun = device.clock_ns
    issue()
    stream.synchronize()
    apart = device.clock_ns
    graph.replay(stream)
    stream.synchronize()
    return apart - begun, device.clock_ns - apart


def main() -> None:
    """Prints the table and writes it beside the measurement."""
    rows = []
    for measured in MEASURED["costs"]:
        row = {
            "nodes": measured["nodes"],
            "h200_apart_ns": measured["apart_and_sync"],
            "h200_graph_ns": measured["launch_and_sync"],
        }
        for cost in ("h200", "guide"):
            row[f"simulated_{cost}_apart_ns"], row[f"simulated_{cost}_graph_ns"] = simulated(cost, measured["nodes"])
        rows.append(row)
    print(f"{'nodes':>6}  {'saves: H200':>12} {'simulated h200':>15} {'simulated guide':>16}   simulated / H200: apart, graph")
    for row in rows:
        saved = [row[f"{who}_apart_ns"] / row[f"{who}_graph_ns"] for who in ("h200", "simulated_h200", "simulated_guide")]
        apart, graph = (row[f"simulated_h200_{what}_ns"] / row[f"h200_{what}_ns"] for what in ("apart", "graph"))
        print(f"{row['nodes']:6}  {saved[0]:10.2f} x {saved[1]:13.2f} x {saved[2]:14.2f} x   {apart:16.2f} {graph:6.2f}")
    result = {"date": date.today().isoformat(), "clock": "virtual", "kernel_ns": KERNEL_NS, "measured": "capture-h200.json"}
    (RESULTS / "graphs.json").write_text(json.dumps({**result, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
