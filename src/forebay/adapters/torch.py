"""torch: PyTorch's device memory from our pools: under the whole program (`install`), or for a part of it (`pool`, `exportable`).

The pools, and all that PyTorch's allocator is asked, are native/torch's. What PyTorch keeps to its own allocator it refuses by itself:
memory_stats and what is built on it (`figures` stands here for that), snapshots and memory history, MemPool (`pool` stands here for
that), CUDA graph trees (`torch.compile(mode="reduce-overhead")`) and sharing tensors between processes.

Note [PyTorch's streams]. PyTorch's own streams are never destroyed, so what is freed on them needs no event. They are vouched for when CUDA
begins, for the device that is current then. All other streams are asked for at every allocation: right, and slower.
"""

from __future__ import annotations

import atexit
import contextlib
import re
import threading
import warnings
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Final, Literal

from forebay.adapters.torch_debug import Watch, site
from forebay.adapters.torch_library import HOOKS, Library, path
from forebay.errors import BadInput, NotSupported
from forebay.runtime.arguments import byte_count, count, label
from forebay.runtime.debug import quarantine_of

__all__ = ["check", "exportable", "figures", "install", "installed", "pool", "reports"]

_FIRST, _BEYOND = (2, 9), (2, 14)
_LIBCUDA: Final = "libcuda.so.1"
_STREAMS_A_PRIORITY: Final = 64  # more than PyTorch makes

Growth = Literal["segments", "frames"]


@cache
def _library() -> Library:
    return Library(path())


class _Installed:
    """What a process that took our pools has to keep: PyTorch keeps no reference itself."""

    allocator: Any = None
    lock = threading.Lock()


def installed() -> bool:
    """Whether this process's PyTorch takes its device memory from our pools."""
    return _Installed.allocator is not None


def install(*, limit: int | str | None = None, growth: Growth | None = None, debug: bool | int | str = False) -> None:
    """From now on PyTorch's device memory comes from our pools, for as long as the process lives. Before CUDA is used.

    `limit` (bytes or "40GiB") bounds what each device's pool takes from the driver. `growth` is how it takes it: "frames" mapped into
    address ranges, or "segments" of the driver; by itself frames where the process sees one device, which other devices could not
    reach, else segments.

    With `debug` (True, or the bytes of freed blocks to keep from reuse) canaries stand around blocks, freed ones are filled with poison
    and kept a while, and every operation that PyTorch dispatches on this thread and in its backward passes is looked at: a write beyond a
    block, a write after the free, and a use on another stream that the free did not wait for (a missing record_stream) are raised by the
    next allocation or `check`, with the lines that allocated, freed and used the block. It takes memory and much time. Graphs' memory and
    that of `pool` is not looked at.

    Raises NotSupported, saying what to change, where this cannot work, and BadInput.
    """
    torch = _torch()
    with _Installed.lock:
        if why := _unfit(torch):
            raise NotSupported(f"install: {why}")
        most = _known("install", limit, growth)
        library = _library()
        quarantine = quarantine_of(debug, "torch")
        library.set(libcuda=_LIBCUDA, limit=most, growth=growth, quarantine=quarantine)
        allocator = torch.cuda.memory.CUDAPluggableAllocator(str(library.file), "forebay_torch_alloc", "forebay_torch_free")
        for setter, symbol in HOOKS.items():
            getattr(allocator.allocator(), setter)(library.address(symbol))
        torch.cuda.memory.change_current_allocator(allocator)
        _Installed.allocator = allocator
        torch.cuda._lazy_call(_vouch_for_streams)
        if quarantine is not None:
            _debug(torch, library)


def reports(device: int = 0) -> tuple[str, ...]:
    """Under `install(debug=True)`: a line for each misuse that was found so far on the device, raised or not."""
    return _library().reports(count(device, "device"))


def check(device: int = 0) -> None:
    """Under `install(debug=True)`: looks at every block now and waits for that. Raises BadInput for what was found since it was last
    called.
    """
    library = _library()
    library.check(count(device, "device"))
    new = library.reports(device)[_told.get(device, 0) :]
    _told[device] = _told.get(device, 0) + len(new)
    if new:
        raise BadInput(new[0] + (f" ({len(new) - 1} more in `reports`)" if len(new) > 1 else ""))


_told: dict[int, int] = {}  # reports that `check` raised


def figures(device: int = 0) -> Mapping[str, Any]:
    """What our pools of the device hold: `reserved` and `peak_reserved` of all together in bytes, and under `pools` each pool's figures
    (forebay.gauges) by its name: "torch" is the default one, "graph A,B" that of a graph.
    """
    library, device = _library(), count(device, "device")
    reserved, peak = library.reserved(device)
    return {"reserved": reserved, "peak_reserved": peak, "pools": library.figures(device)}


@contextlib.contextmanager
def pool(name: str, *, limit: int | str | None = None, growth: Growth | None = None) -> Iterator[None]:
    """Tensors that this thread makes inside come from a pool of this name, one a device. It is made once and stays: its `limit` and
    `growth` are those of its first use.

    Under `install` the thread's allocations are routed there. Else PyTorch's own allocator keeps its caches and takes its segments from
    there (torch.cuda.MemPool). Raises NotSupported where the name has another limit or growth already, or PyTorch does not fit.
    """
    torch, library = _torch(), _library()
    most = _known(f"pool {label(name, 'pool name')}", limit, growth)
    number = library.consumer(name, most, growth)
    with contextlib.ExitStack() as inside:
        if not installed():
            inside.enter_context(torch.cuda.use_mem_pool(_mem_pool(name)))
        library.enter(number)
        inside.callback(library.leave)
        yield


@contextlib.contextmanager
def exportable() -> Iterator[None]:
    """Tensors that this thread makes inside lie each in one allocation of the driver, which IPC, NCCL and RDMA can register."""
    with pool("exportable", growth="segments"):
        yield


@cache
def _mem_pool(name: str) -> Any:
    torch, library = _torch(), _library()
    allocator = torch.cuda.memory.CUDAPluggableAllocator(str(library.file), "forebay_torch_segment", "forebay_torch_free")
    _kept.append(allocator)
    return torch.cuda.MemPool(allocator.allocator())


_kept: list[Any] = []


def _debug(torch: Any, library: Library) -> None:
    """At the end there is a last look; what nobody was told is a RuntimeWarning then."""
    library.ask_sites(site)
    watch = Watch(torch, library)
    watch.begin()
    atexit.register(_last_look, library, watch)


def _last_look(library: Library, watch: Watch) -> None:
    watch.end()
    library.ask_sites(None)
    for device in watch.devices:
        with contextlib.suppress(NotSupported):  # what is known is told all the same
            library.check(device)
        for report in library.reports(device)[_told.get(device, 0) :]:
            warnings.warn(report, RuntimeWarning, stacklevel=2)


def _known(what: str, limit: int | str | None, growth: Growth | None) -> int | None:
    """The limit in bytes, once both are such as there are. Raises BadInput."""
    if growth not in (None, "segments", "frames"):
        raise BadInput(f"{what}: no such growth: {growth!r}; there are segments and frames")
    return None if limit is None else byte_count(limit, f"{what}: limit")


def _torch() -> Any:
    try:
        import torch
    except ImportError as missing:
        raise NotSupported("PyTorch is not installed here: `pip install forebay[torch]`") from missing
    return torch


def _unfit(torch: Any) -> str | None:
    """Why our pools cannot serve this PyTorch now, with what to do."""
    if installed():
        return "our pools are PyTorch's allocator already; call it once"
    found = re.match(r"(\d+)\.(\d+)", torch.__version__)
    if found is None or not _FIRST <= (int(found[1]), int(found[2])) < _BEYOND:
        return f"PyTorch {torch.__version__} is none that this version knows (2.9 to 2.13)"
    if torch.version.cuda is None:
        return f"PyTorch {torch.__version__} is built without CUDA; install a build for CUDA"
    if torch.cuda.is_initialized():
        return (
            "CUDA has begun in this process and PyTorch keeps the allocator that it began with; call it before CUDA is first used"
        )
    if torch.backends.cudnn.benchmark:
        return "cudnn.benchmark asks the allocator what PyTorch passes on to its own alone; set torch.backends.cudnn.benchmark = False"
    return None


def _vouch_for_streams() -> None:
    """See Note [PyTorch's streams]. PyTorch deals its streams in turn: once round, and a handle comes again."""
    torch, library = _torch(), _library()
    device = torch.cuda.current_device()
    least, greatest = torch.cuda.Stream.priority_range()
    for priority in range(least, greatest - 1, -1):
        seen: set[int] = set()
        for _ in range(_STREAMS_A_PRIORITY):
            handle = torch.cuda.Stream(device, priority=priority).cuda_stream
            if handle in seen:
                break
            seen.add(handle)
            library.vouch(device, handle)
