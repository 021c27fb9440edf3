"""cuda_core: a pool of ours as a MemoryResource of cuda.core, NVIDIA's own Python layer over CUDA."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from forebay._core.pool import Gauges
from forebay.errors import BadInput, NotSupported
from forebay.runtime.arguments import count
from forebay.runtime.cuda import CudaDevice
from forebay.runtime.pinned import PinnedPool
from forebay.runtime.pool import Pool
from forebay.runtime.stream import ForeignStream, Stream

__all__ = ["memory_resource"]


def memory_resource(pool: Pool | PinnedPool) -> Any:
    """A cuda.core MemoryResource whose buffers are the pool's. It orders a buffer's end after the stream that cuda.core names at that end,
    and after the one that it was made for; work on other streams must be ordered before these, as cuda.core says.

    Raises NotSupported without cuda.core, BadInput for a pool that is none of a CUDA device.
    """
    if not isinstance(pool, Pool | PinnedPool) or not isinstance(pool.device, CudaDevice):
        raise BadInput(f"{pool!r} cannot serve cuda.core: give a Pool or a PinnedPool of a CudaDevice")
    return _resource_type()(pool)


def _core() -> Any:
    try:
        return import_module("cuda.core")
    except ImportError as error:
        raise NotSupported(f"cuda.core cannot be imported ({error}): install cuda-core") from None


def _resource_type() -> type:
    core = _core()

    class ForebayMemoryResource(core.MemoryResource):  # type: ignore[misc, name-defined]
        """A pool as cuda.core sees it."""

        def __init__(self, pool: Pool | PinnedPool) -> None:
            self.pool = pool
            self._pinned = isinstance(pool, PinnedPool)

        def allocate(self, size: int, *, stream: ForeignStream) -> Any:
            """A Buffer of `size` bytes for work on the stream."""
            size = count(size, f"pool {self.pool.name}: bytes that cuda.core asks for", 1)
            if isinstance(self.pool, PinnedPool):
                address = self.pool.alloc_address(size)
                self.pool.lend_address(address, stream)
            else:
                address = self.pool.alloc_address(size, stream)
            theirs = core.Stream.from_handle(stream.handle) if isinstance(stream, Stream) else stream  # it takes its own alone
            return core.Buffer.from_handle(address, size, mr=self, stream=theirs)

        def deallocate(self, ptr: Any, size: int, *, stream: ForeignStream) -> None:
            """The end of a buffer, in the order of the stream."""
            self.pool.lend_address(int(ptr), stream)
            self.pool.free_address(int(ptr))

        def gauges(self) -> Gauges:
            """The pool's figures now."""
            return self.pool.gauges()

        @property
        def is_device_accessible(self) -> bool:
            """Pinned memory too."""
            return True

        @property
        def is_host_accessible(self) -> bool:
            """Whether the pool is one of pinned memory."""
            return self._pinned

        @property
        def device_id(self) -> int:
            """The pool's device; −1 for memory of the host, as cuda.core has it."""
            return -1 if self._pinned else self.pool.device.index

    return ForebayMemoryResource
