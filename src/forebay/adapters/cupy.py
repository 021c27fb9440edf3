"""cupy: a pool of ours as CuPy's allocator: `with using(pool): ...`, or `install(pool)` for good.

CuPy says no stream when it asks for memory: it means the current one, and so do we. What it frees is ordered after that stream and after
the one that is current at the free.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any

from forebay._core.pool import Gauges
from forebay.errors import BadInput, NotSupported
from forebay.runtime.arguments import count
from forebay.runtime.cuda import CudaDevice
from forebay.runtime.pool import Pool
from forebay.runtime.stream import Stream

__all__ = ["Allocator", "install", "using"]


class Allocator:
    """What `cupy.cuda.set_allocator` takes. Arrays of the pool's device come from it; a block goes back with CuPy's last array over it.

    Raises NotSupported without CuPy, BadInput for a pool that is none of a CUDA device; what it is called for as Pool.alloc does.
    """

    def __init__(self, pool: Pool) -> None:
        if not isinstance(pool, Pool) or not isinstance(pool.device, CudaDevice):
            raise BadInput(f"{pool!r} cannot serve CuPy: give a Pool of a CudaDevice")
        self.pool, self.device, self._cuda = pool, pool.device, _cuda()

    def __call__(self, nbytes: int) -> Any:
        """`nbytes` bytes as CuPy's MemoryPointer, for work on its current stream."""
        cuda, index = self._cuda, self.device.index
        nbytes = count(nbytes, f"pool {self.pool.name}: bytes that CuPy asks for")
        if nbytes == 0:
            return cuda.MemoryPointer(cuda.UnownedMemory(0, 0, None, index), 0)
        current = cuda.get_current_stream()
        if current.device_id not in (-1, index):
            raise BadInput(
                f"pool {self.pool.name} is on device {index}, CuPy's current stream on {current.device_id}: give that a pool"
            )
        block = _Block(self, nbytes, self._ours(current))
        return cuda.MemoryPointer(cuda.UnownedMemory(block.address, nbytes, block, index), 0)

    def gauges(self) -> Gauges:
        """The pool's figures now: CuPy's own count only what its own pools hold."""
        return self.pool.gauges()

    def free(self, address: int, home: Stream) -> None:
        """The block goes back after what `home` and CuPy's current stream were given. It never raises."""
        if sys.is_finalizing() or self.device.domain.forked:
            return
        current = self._cuda.get_current_stream()
        if current.ptr != home.handle and current.device_id in (-1, self.device.index):
            self.device.quietly(lambda: self.pool.lend_address(address, self._ours(current)))
        self.pool.free_address(address)

    def _ours(self, stream: Any) -> Stream:
        return self.device.foreign(stream.ptr, f"pool {self.pool.name}", "CuPy")


class _Block:
    """What CuPy's memory owns: its end is the free."""

    __slots__ = ("address", "allocator", "home")

    def __init__(self, allocator: Allocator, nbytes: int, home: Stream) -> None:
        self.address = 0
        self.allocator, self.home = allocator, home
        self.address = allocator.pool.alloc_address(nbytes, home)

    def __del__(self) -> None:
        if self.address:
            self.allocator.free(self.address, self.home)


def install(pool: Pool) -> Allocator:
    """CuPy's arrays come from the pool from now on, on every thread. `cupy.cuda.set_allocator` puts another in its place."""
    allocator = Allocator(pool)
    _cuda().set_allocator(allocator)
    return allocator


def using(pool: Pool) -> Any:
    """A context manager: inside it this thread's arrays come from the pool."""
    return _cuda().using_allocator(Allocator(pool))


def _cuda() -> ModuleType:
    try:
        return import_module("cupy.cuda")
    except ImportError as error:
        raise NotSupported(f"CuPy cannot be imported ({error}): install cupy-cuda12x or cupy-cuda13x, as the driver is") from None
