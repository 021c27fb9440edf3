"""bench_paged: a page taken and dropped, alone and in a sequence, beside malloc and free of the same size. One run, medians.

    python benchmarks/bench_paged.py [--save]

`--save` writes benchmarks/results/paged.json. The program is native/paged.cpp, in which a second thread works in the same pool.
"""

import datetime
import json
import sys

from bench_pool import ROOT, machine, native


def main() -> None:
    figures = native("paged")
    text = json.dumps({"date": datetime.date.today().isoformat(), "machine": machine(), **figures}, indent=1)
    print(text)
    print(f"a page taken and dropped is {figures['page_pair_ns'] / figures['malloc_pair_ns']:.1f} times malloc + free")
    if "--save" in sys.argv[1:]:
        (ROOT / "benchmarks/results").mkdir(exist_ok=True)
        (ROOT / "benchmarks/results/paged.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
