"""library: the fake libcuda, compiled once for each state of its sources, and what tests tell it. What it does is fake.hpp's."""

import ctypes
import fcntl
import hashlib
import os
import subprocess
import sys
import tempfile
from functools import cache
from multiprocessing.pool import ThreadPool
from pathlib import Path

_HERE = Path(__file__).parent
_ROOT = _HERE.parent.parent
_NATIVE = _ROOT / "native"
_ABOVE = ("cuda", "taped", "pool_rows", "faulty")  # what stands over the simulated device
_SOURCES = [
    *sorted(_HERE.glob("*.cpp")),
    *(p for p in sorted((_NATIVE / "driver").glob("*.cpp")) if not p.name.startswith(_ABOVE)),
    *sorted((_NATIVE / "tape").glob("*.cpp")),
]
_COMPILER = [os.environ.get("CXX", "c++")]
_FLAGS = ["-std=c++20", "-O1", "-fPIC", "-fvisibility=hidden", f"-I{_NATIVE}"]
MIB = 2**20
ACCOUNT = ("used_bytes", "pinned_bytes", "segments", "ranges", "frames", "mappings", "streams", "events")


@cache
def path() -> Path:
    """The shared object, compiled if need be: about half a minute."""
    headers = [*_HERE.glob("*.hpp"), *(_NATIVE / "driver").glob("*.hpp"), *(_NATIVE / "tape").glob("*.hpp")]
    digest = hashlib.sha256(b"".join(p.read_bytes() for p in sorted([*_SOURCES, *headers, Path(__file__)]))).hexdigest()[:16]
    folder = _ROOT / "build" / "fake_cuda"
    folder.mkdir(parents=True, exist_ok=True)
    library = folder / f"libcuda-{digest}.so"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not library.exists():
            with tempfile.TemporaryDirectory() as objects, ThreadPool(2) as pool:
                made = pool.starmap(_compile, [(source, objects) for source in _SOURCES])
                new = library.with_suffix(".new")
                subprocess.run([*_COMPILER, "-shared", "-pthread", "-Wl,--no-undefined", *made, "-o", str(new)], check=True)
                new.rename(library)
    return library


def _compile(source: Path, folder: str) -> str:
    made = Path(folder) / f"{source.parent.name}-{source.stem}.o"
    subprocess.run([*_COMPILER, *_FLAGS, "-c", str(source), "-o", str(made)], check=True)
    return str(made)


class FakeCuda:
    """The process's one fake libcuda, fresh: whatever used it before must be gone."""

    def __init__(self, *capacities: int) -> None:
        self.path = str(path())
        self.lib = ctypes.CDLL(self.path)
        for name in ("fake_plans_left", "fake_calls", "fake_count"):
            getattr(self.lib, name).restype = ctypes.c_uint64
        self.lib.fake_struck.restype = ctypes.c_char_p
        sizes = capacities or (256 * MIB, 64 * MIB)
        self.lib.fake_reset(len(sizes), (ctypes.c_uint64 * len(sizes))(*sizes))

    def plan(self, functions: str = "", nth: int = 1, code: int = 2, *, always: bool = False) -> None:
        """The `nth` call from now of these functions (names with spaces between; "": of all) answers `code`."""
        self.lib.fake_plan(functions.encode(), ctypes.c_uint64(nth), code, int(always))

    def forget_plans(self) -> None:
        self.lib.fake_forget_plans()

    def plans_left(self) -> int:
        return int(self.lib.fake_plans_left())

    @property
    def struck(self) -> str:
        """The function that a plan struck last."""
        return str(self.lib.fake_struck().decode())

    @property
    def calls(self) -> int:
        """Calls so far of everything that can be told to fail."""
        return int(self.lib.fake_calls())

    def count(self, function: str) -> int:
        return int(self.lib.fake_count(function.encode()))

    def retained(self, device: int = 0) -> int:
        """How often the device's primary context is retained."""
        return int(self.lib.fake_retained(device))

    def lose(self, code: int) -> None:
        """A sticky error: everything answers it from now on."""
        self.lib.fake_lose(code)

    def exit(self) -> None:
        """libcuda has shut down."""
        self.lib.fake_exit()

    def account(self, device: int = 0) -> dict[str, int]:
        """What lives on the device, by the device's own account."""
        figures = (ctypes.c_uint64 * len(ACCOUNT))()
        self.lib.fake_account(device, figures)
        return dict(zip(ACCOUNT, figures, strict=True))

    def busy(self, stream: int, ns: int, device: int = 0) -> None:
        """The stream works for so long on the fake's clock: waits pass it, and every question passes 400 us of it."""
        self.lib.fake_busy(device, ctypes.c_uint64(stream), ctypes.c_int64(ns))

    def fill(self, stream: int, address: int, value: int, nbytes: int, device: int = 0) -> None:
        """Work of that stream, below every call that can fail."""
        u64 = ctypes.c_uint64
        self.lib.fake_fill(device, u64(stream), u64(address), value, u64(nbytes))

    def read(self, address: int, nbytes: int, device: int = 0) -> bytes:
        """What is there when all work is done, below every call that can fail."""
        out = ctypes.create_string_buffer(nbytes)
        assert self.lib.fake_read(device, ctypes.c_uint64(address), out, ctypes.c_uint64(nbytes)) == 0, hex(address)
        return out.raw

    def settle(self, device: int = 0) -> None:
        """All of the device's work is done."""
        self.lib.fake_settle(device)


if __name__ == "__main__":
    print(path(), file=sys.stderr)  # noqa: T201
