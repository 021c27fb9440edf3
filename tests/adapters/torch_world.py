"""torch_world: a process's PyTorch without PyTorch: the very library, a copy for each test, called through the hooks by torch_peer.cpp,
over the fake libcuda (tests/fake_cuda) or a real one."""

import contextlib
import ctypes
import itertools
import os
import shutil
import subprocess
import threading
from functools import cache
from pathlib import Path

from driver_facts.raw import Raw
from forebay.adapters.torch_library import Library, path

HERE = Path(__file__).parent
BUILD = HERE.parents[1] / "build" / "torch_peer"
LATE = 10**9  # nanoseconds of work that nobody waits for
_copies = itertools.count()


def on_thread(call):
    """What the call answers on a thread of its own."""
    answers = []
    thread = threading.Thread(target=lambda: answers.append(call()))
    thread.start()
    thread.join()
    return answers[0]


class _Id(ctypes.Structure):
    _fields_ = (("first", ctypes.c_uint64), ("second", ctypes.c_uint64))


@cache
def peer(soname: str = "libc10.so") -> ctypes.CDLL:
    source = HERE / "torch_peer.cpp"
    made = BUILD / f"{os.getpid()}-{soname}"
    BUILD.mkdir(parents=True, exist_ok=True)
    flags = ["-std=c++20", "-O1", "-shared", "-fPIC", "-fvisibility=hidden", f"-Wl,-soname,{soname}"]
    subprocess.run([os.environ.get("CXX", "c++"), *flags, str(source), "-o", str(made)], check=True)
    lib = ctypes.CDLL(str(made))
    made.unlink()
    return lib


class Torch:
    """One process's allocator. `stream` makes streams as a program would; `alloc` and the rest are PyTorch's calls."""

    def __init__(self, folder: Path, *, raw: Raw | None = None, **settings) -> None:
        self.raw = raw or Raw()
        copy = folder / f"libforebay_torch-{next(_copies)}.so"
        shutil.copy(path(), copy)
        self.library = Library(copy)
        self.lib = ctypes.CDLL(str(copy))
        self.peer = peer()
        chosen = {"limit": None, "growth": None, "quarantine": None} | settings
        self.library.set(libcuda=self.raw.path, **chosen)

    def hook(self, name: str):
        return getattr(self.lib, f"forebay_torch_{name}")

    def stream(self, *, vouched: bool = True) -> int:
        stream = self.raw.stream()
        if vouched:
            self.library.vouch(0, stream)
        return stream

    def alloc(self, nbytes: int, stream: int = 0, device: int = 0) -> int:
        kind, block, what = self.tried(nbytes, stream, device)
        assert kind == 0, what
        return block

    def tried(self, nbytes: int, stream: int = 0, device: int = 0) -> tuple[int, int, str]:
        block, what = ctypes.c_void_p(), ctypes.create_string_buffer(2000)
        arguments = (ctypes.c_size_t(nbytes), device, ctypes.c_void_p(stream), ctypes.byref(block), what)
        kind = self.peer.peer_alloc(self.hook("alloc"), *arguments)
        return kind, block.value or 0, what.value.decode()

    def free(self, block: int, stream: int = 0, device: int = 0) -> None:
        self.hook("free")(ctypes.c_void_p(block), ctypes.c_size_t(1), device, ctypes.c_void_p(stream))

    def record_stream(self, block: int, stream: int) -> None:
        self.hook("record_stream")(ctypes.c_void_p(block), ctypes.c_void_p(stream))

    @contextlib.contextmanager
    def capture(self, pool: int, stream: int, mode: int = 0):
        """As CUDAGraph does: the graph is an executable in the end, in the list that this gives."""
        made: list[int] = []
        cuda = self.raw.lib
        begin = (self.hook("begin"), cuda.cuStreamGetCaptureInfo_v2, cuda.cuStreamBeginCapture_v2)
        assert self.peer.peer_capture_begin(*begin, 0, ctypes.c_uint64(pool), ctypes.c_void_p(stream), mode) == 0
        yield made
        graph = ctypes.c_void_p()
        code = self.raw.call("cuStreamEndCapture", stream, ctypes.byref(graph))
        self.hook("end")(0, _Id(pool, 0))
        assert code == 0, code
        made.append(self.raw.made("cuGraphInstantiateWithFlags", graph, 0))

    def release(self, pool: int) -> None:
        self.hook("release")(0, _Id(pool, 0))

    def fill(self, block: int, value: int, nbytes: int, stream: int) -> None:
        assert self.raw.call("cuMemsetD8Async", block, ctypes.c_ubyte(value), nbytes, stream) == 0

    def figures(self, pool: str = "torch", device: int = 0) -> dict[str, int]:
        return self.library.figures(device)[pool]

    def walk(self) -> None:
        assert self.library.walk(0) == ""
