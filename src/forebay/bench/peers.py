"""peers: the allocators of others, each as what one thread repeats. What is not installed is named, with how to get it.

They are looked up when they are asked for: forebay depends on none of them.
"""

from __future__ import annotations

import ctypes
import importlib
import importlib.metadata
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any, Final, Literal

from forebay._core import bench
from forebay.bench.pairs import OURS, Absent, Load, Measured, from_python
from forebay.errors import DriverError
from forebay.runtime import Buffer, CudaDevice, Device, DriverPool, Pool, SimDevice

__all__ = ["every", "is_simulated", "versions"]

Found = Iterator[Measured | Absent]
Pair = Callable[[], object]

_DRIVER: Final = "cudaMallocAsync (DriverPool)"
_FOR_TORCH: Final = f"{OURS}'s library for torch"
_GET: Final = {
    "torch": "pip install torch, built for CUDA",
    "rmm": "pip install rmm-cu13 (rmm-cu12 for CUDA 12)",
    "cupy": "pip install cupy-cuda13x (cupy-cuda12x for CUDA 12)",
    "cuda.core": "pip install cuda-core",
}
_PACKAGES: Final = ("torch", "rmm-cu13", "rmm-cu12", "cupy-cuda13x", "cupy-cuda12x", "cuda-core")
_NEEDS_GPU: Final = "a machine with a CUDA device"


def is_simulated(device: Device) -> bool:
    return isinstance(device, SimDevice)


def versions() -> dict[str, str]:
    """Of the peers' packages that are installed."""
    found = {}
    for name in _PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def every(device: Device, threads: Sequence[int], load: Load) -> Found:
    """Ours first, on a device of either sort; the C library's malloc to compare with; then those that need a GPU."""
    yield from _ours(device, threads, load)
    for n in threads:
        yield Measured("malloc (the C library's)", "C++", n, bench.libc_pairs(**_native(load, n)))
    if not isinstance(device, CudaDevice):
        why = "this is a simulated device"
        for peer, language, _ in _PEERS:
            yield Absent(peer, language, why, _NEEDS_GPU)
        return
    for peer, language, measured in _PEERS:
        try:
            yield from measured(device, threads, load)
        except ImportError as error:
            module = peer.split()[0] if peer.split()[0] in _GET else "torch"
            yield Absent(peer, language, f"{error}", _GET[module])
        except Exception as error:  # a peer's own failure is a fact about it, whatever class it is
            yield Absent(peer, language, f"{type(error).__name__}: {error}".splitlines()[0], "see its own documentation")


def _native(load: Load, threads: int) -> dict[str, int]:
    return {"bytes": load.bytes, "threads": threads, "pairs": load.pairs, "rounds": load.rounds}


def _timed(device: Device, pairs: Sequence[Pair], load: Load) -> list[float]:
    """From Python, on threads that have the device's context: without it every call of the CUDA runtime looks for one first."""
    if isinstance(device, CudaDevice):
        return from_python(pairs, load, lambda: device.cuda.stay(device.index))
    return from_python(pairs, load)


def _ours(device: Device, threads: Sequence[int], load: Load) -> Found:
    for n in threads:
        yield Measured(OURS, "C++", n, bench.pool_pairs(_driver(device), device.index, **_native(load, n)))
    pool = Pool(device, "bench")
    for n in threads:
        streams = [device.stream(f"bench {i}", kind="nonblocking") for i in range(n)]
        pairs = [_pair(pool.alloc_address, pool.free_address, load.bytes, stream) for stream in streams]
        yield Measured(OURS, "Python", n, _timed(device, pairs, load))
        buffers = [_pair(pool.alloc, Buffer.free, load.bytes, stream) for stream in streams]
        yield Measured(f"{OURS}, Buffer", "Python", n, _timed(device, buffers, load))


def _pair(alloc: Callable[[int, Any], Any], free: Callable[[Any], object], nbytes: int, stream: Any) -> Pair:
    return lambda: free(alloc(nbytes, stream))


def _on_entry(enter: Pair, pair: Pair) -> Pair:
    """The pair, after `enter` on each thread that is new to it."""
    here = threading.local()

    def entered() -> None:
        if not hasattr(here, "entered"):
            here.entered = enter()
        pair()

    return entered


def _driver(device: Device) -> Any:
    return device.sim if isinstance(device, SimDevice) else device.cuda  # type: ignore[attr-defined]


def _async(device: CudaDevice, threads: Sequence[int], load: Load) -> Found:
    try:
        pool = DriverPool(device, "bench")
    except DriverError as error:
        yield Absent(_DRIVER, "C++", str(error), "a driver of CUDA 11.2 or newer, and a device with memory pools")
        return
    for n in threads:
        yield Measured(_DRIVER, "C++", n, bench.driver_pool_pairs(device.cuda, device.index, **_native(load, n)))
        streams = [device.stream(f"bench {i}", kind="nonblocking") for i in range(n)]
        pairs = [_pair(pool.alloc_address, pool.free_address, load.bytes, stream) for stream in streams]
        yield Measured(_DRIVER, "Python", n, _timed(device, pairs, load))


def _ours_for_torch(device: CudaDevice, threads: Sequence[int], load: Load) -> Found:
    """The library that `install` hands to PyTorch, through the functions that PyTorch calls."""
    from forebay.adapters.torch_library import Library, path

    library = Library(path())
    if not library.started:
        library.set(libcuda=device.cuda_library, limit=None, growth=None, quarantine=None)
    streams = [device.stream(f"bench {i}", kind="nonblocking") for i in range(max(threads))]
    for stream in streams:
        library.vouch(device.index, stream.handle)
    alloc, free = (library.address(f"forebay_torch_{call}") for call in ("alloc", "free"))
    for n in threads:
        yield Measured(_FOR_TORCH, "C++", n, _c_pairs(alloc, free, device, [s.handle for s in streams[:n]], load))


def _c_pairs(alloc: int, free: int, device: Device, streams: list[int], load: Load) -> list[float]:
    return bench.c_pairs(
        _driver(device), alloc, free, device.index, streams, bytes=load.bytes, pairs=load.pairs, rounds=load.rounds
    )


def _torch(device: CudaDevice, threads: Sequence[int], load: Load) -> Found:
    torch = _cuda_torch()
    n_most = max(threads)
    streams = [torch.cuda.Stream(device.index) for _ in range(n_most)]
    with _compiled_against(torch) as library:
        alloc, free = (_address(getattr(library, f"torch_pairs_{call}")) for call in ("alloc", "free"))
        for n in threads:
            handles = [stream.cuda_stream for stream in streams[:n]]
            yield Measured("torch raw_alloc", "C++", n, _c_pairs(alloc, free, device, handles, load))


def _torch_python(device: CudaDevice, threads: Sequence[int], load: Load) -> Found:
    torch = _cuda_torch()
    streams = [torch.cuda.Stream(device.index) for _ in range(max(threads))]
    alloc, free = torch.cuda.caching_allocator_alloc, torch.cuda.caching_allocator_delete
    for n in threads:
        raw = [_torch_pair(alloc, free, load.bytes, device.index, stream.cuda_stream) for stream in streams[:n]]
        yield Measured("torch caching_allocator_alloc", "Python", n, _timed(device, raw, load))
    where = torch.device("cuda", device.index)
    empty = [lambda: torch.empty(load.bytes, dtype=torch.uint8, device=where)]
    yield Measured("torch.empty and del", "Python", 1, _timed(device, empty, load))


def _torch_pair(alloc: Callable[..., int], free: Callable[[int], object], nbytes: int, device: int, stream: int) -> Pair:
    return lambda: free(alloc(nbytes, device, stream))


def _rmm(kind: str) -> Callable[[CudaDevice, Sequence[int], Load], Found]:
    def measured(device: CudaDevice, threads: Sequence[int], load: Load) -> Found:
        rmm = importlib.import_module("rmm")
        streams_of = importlib.import_module("rmm.pylibrmm.stream")
        base = rmm.mr.CudaMemoryResource()
        made = {
            "pool": lambda: rmm.mr.PoolMemoryResource(base, initial_pool_size=2**28),
            "arena": lambda: rmm.mr.ArenaMemoryResource(base, arena_size=2**28),
            "async": lambda: rmm.mr.CudaAsyncMemoryResource(),
        }[kind]()
        for n in threads:
            streams = [streams_of.Stream() for _ in range(n)]
            pairs = [_rmm_pair(made, load.bytes, stream) for stream in streams]
            yield Measured(f"rmm {kind}", "Python", n, _timed(device, pairs, load))

    return measured


def _rmm_pair(resource: Any, nbytes: int, stream: Any) -> Pair:
    return lambda: resource.deallocate(resource.allocate(nbytes, stream), nbytes, stream)


def _cupy(device: CudaDevice, threads: Sequence[int], load: Load) -> Found:
    cupy = importlib.import_module("cupy")
    with cupy.cuda.Device(device.index):
        pool = cupy.cuda.MemoryPool()
        for n in threads:
            streams = [cupy.cuda.Stream(non_blocking=True) for _ in range(n)]
            pairs = [_on_entry(stream.use, lambda: pool.malloc(load.bytes)) for stream in streams]
            yield Measured("cupy MemoryPool", "Python", n, _timed(device, pairs, load))


def _cuda_core(device: CudaDevice, threads: Sequence[int], load: Load) -> Found:
    core = importlib.import_module("cuda.core")
    there = core.Device(device.index)
    there.set_current()
    resource = core.DeviceMemoryResource(there)

    for n in threads:
        streams = [there.create_stream() for _ in range(n)]
        pairs = [_on_entry(there.set_current, _core_pair(resource, load.bytes, stream)) for stream in streams]
        yield Measured("cuda.core DeviceMemoryResource", "Python", n, _timed(device, pairs, load))


def _core_pair(resource: Any, nbytes: int, stream: Any) -> Pair:
    return lambda: resource.allocate(nbytes, stream=stream).close()


_PEERS: Final[tuple[tuple[str, Literal["C++", "Python"], Callable[[CudaDevice, Sequence[int], Load], Found]], ...]] = (
    (_FOR_TORCH, "C++", _ours_for_torch),
    (_DRIVER, "C++", _async),
    ("torch raw_alloc", "C++", _torch),
    ("torch caching_allocator_alloc", "Python", _torch_python),
    ("rmm pool", "Python", _rmm("pool")),
    ("rmm arena", "Python", _rmm("arena")),
    ("rmm async", "Python", _rmm("async")),
    ("cupy MemoryPool", "Python", _cupy),
    ("cuda.core DeviceMemoryResource", "Python", _cuda_core),
)


def _cuda_torch() -> Any:
    torch = importlib.import_module("torch")
    if not torch.cuda.is_available():
        raise ImportError(f"torch {torch.__version__} sees no CUDA device")
    torch.cuda.init()
    return torch


@contextmanager
def _compiled_against(torch: Any) -> Iterator[ctypes.CDLL]:
    """The library of torch_pairs.cc. Raises ImportError where there is no compiler, or it does not compile."""
    compiler = shutil.which("c++")
    if compiler is None:
        raise ImportError("no C++ compiler to build torch_pairs.cc with")
    root = Path(torch.__file__).parent
    homes = [Path(home) / "include" for home in (_cuda_home(), "/usr/local/cuda") if home]
    include = [f"-I{path}" for path in (root / "include", root / "include/torch/csrc/api/include", *homes)]
    with as_file(files("forebay.bench") / "torch_pairs.cc") as source, tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "torch_pairs.so"
        link = [f"-L{root / 'lib'}", "-lc10_cuda", "-lc10", f"-Wl,-rpath,{root / 'lib'}"]
        command = [compiler, "-std=c++20", "-O2", "-shared", "-fPIC", *include, str(source), "-o", str(library), *link]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise ImportError(f"torch_pairs.cc does not compile: {(done.stderr.strip().splitlines() or ['?'])[0]}")
        yield ctypes.CDLL(str(library))


def _cuda_home() -> str | None:
    nvcc = shutil.which("nvcc")
    return None if nvcc is None else str(Path(nvcc).resolve().parents[1])


def _address(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0
