"""native_law: the import law of native/, checked by reading its includes. Exit status 1 names each line that breaks it.

bind > bench | torch > record | emulate | pool | order | ingest > driver > tape; Python is seen in bind/ alone, Linux in
driver/cuda* and record/ alone.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

NATIVE = Path(__file__).resolve().parent.parent / "native"
RANK = {"bind": 4, "bench": 3, "torch": 3, "record": 2, "emulate": 2, "pool": 2, "order": 2, "ingest": 2, "driver": 1, "tape": 0}
LINUX = re.compile(r"(linux|asm|sys/(epoll|eventfd|inotify|prctl|sysinfo|syscall))\b")


def broken(path: Path, line: str) -> str | None:
    """What law an include line breaks, if any."""
    room = path.relative_to(NATIVE).parts[0]
    include = re.match(r'\s*#\s*include\s*[<"]([^>"]+)', line)
    if include is None:
        return None
    header, target = include[1], include[1].split("/")[0]
    if target in RANK and target != room and RANK[target] >= RANK[room]:
        return f"{room} may not include {target}"
    if room != "bind" and (header == "Python.h" or target == "nanobind"):
        return "Python outside bind/"
    if LINUX.match(header) and room != "record" and not path.name.startswith("cuda"):
        return "a Linux header outside driver/cuda and record/"
    return None


def violations() -> Iterator[str]:
    """One line a broken include, and one a room that the law does not know."""
    for room in sorted(p.name for p in NATIVE.iterdir() if p.is_dir() and p.name not in RANK):
        yield f"native/{room}: a room that the law does not name"
    for path in sorted(p for p in NATIVE.rglob("*.[ch]pp") if p.relative_to(NATIVE).parts[0] in RANK):
        for number, line in enumerate(path.read_text().split("\n"), 1):
            if why := broken(path, line):
                yield f"native/{path.relative_to(NATIVE)}:{number}: {why}"


if __name__ == "__main__":
    found = list(violations())
    print("\n".join(found) or "native law: kept", file=sys.stderr if found else sys.stdout)
    sys.exit(bool(found))
