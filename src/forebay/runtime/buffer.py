"""buffer: a block of memory that somebody allocated, and typed arrays in it. It remembers the streams that used it.

Where the bytes come from and what a free does is its owner's: a pool, or the device for driver memory.
"""

from __future__ import annotations

import math
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import DTypeLike, NDArray

from forebay._core.driver import LentBytes
from forebay.errors import BadInput
from forebay.runtime.arguments import count, layout
from forebay.runtime.place import program_line
from forebay.tape.events import Space

if TYPE_CHECKING:
    from forebay.runtime.device import Device
    from forebay.runtime.stream import Stream

__all__ = ["Array", "Buffer", "CheckedBuffer"]


class Buffer:
    """`nbytes` bytes from `address`, on a device or in pinned host memory. A simulated address is never one of the host's.

    It is freed by `free`, or by leaving `with buffer:`; one that the program only lets go of stays allocated.
    `release` is called once with the buffer when it is freed; `streams` tells it which streams issued work on the bytes.
    Note [Host views]: bytes that a NumPy view of `numpy`, or a tensor that came through DLPack, still shows are given back when the
    last such view is gone, and the view keeps the buffer and its device: whatever the program drops first, a view never shows bytes
    that are not there. Whoever comes through `__cuda_array_interface__` tells nobody when they are done: free after them.
    """

    __slots__ = (
        "__weakref__",
        "_freed",
        "_release",
        "_views",
        "address",
        "device",
        "freed_at",
        "home",
        "nbytes",
        "space",
        "space_code",
        "streams",
    )

    def __init__(
        self,
        device: Device,
        address: int,
        nbytes: int,
        release: Callable[[Buffer], object],
        space: Space = Space.device,
        home: Stream | None = None,
    ) -> None:
        # One by one: four at once would make a tuple.
        self.device = device
        self.address = address
        self.nbytes = nbytes
        self.space = space
        self.space_code: int = space._value_  # `value` and `int` of an enum cost a call each, a tenth of a pool's hit
        self.streams: dict[int, Stream] = {}  # by stream id, in order of first use
        self.home = home  # whose order the bytes came in, where they came in one
        self._release: Callable[[Buffer], object] | None = release
        self._freed = False
        self._views = 0
        self.freed_at: str | None = None  # "file:line", where a graph saw it; "" until then

    @property
    def freed(self) -> bool:
        """Whether `free` was called. Its bytes may be another's by now."""
        return self._freed

    def array(self, dtype: DTypeLike, shape: int | Sequence[int], offset: int = 0) -> Array:
        """A C-contiguous array in the buffer, `offset` bytes from its begin, for launches and copies.

        Raises BadInput where it does not fit, where its address is no multiple of what the dtype needs (a device faults on such a number),
        or the buffer was freed.
        """
        kind, sides, nbytes = layout(dtype, shape)
        self._require_live()
        offset = count(offset, "offset")
        if (self.address + offset) % kind.alignment:
            raise BadInput(
                f"array {kind} {sides} at byte {offset}: a number of {kind} begins at a multiple of {kind.alignment} bytes"
            )
        if offset + nbytes > self.nbytes:
            raise BadInput(f"array {kind} {sides} at byte {offset} needs {offset + nbytes} bytes; the buffer has {self.nbytes}")
        return Array(self, self.address + offset, nbytes, kind, sides)

    def bytes(self) -> Array:
        """All of it, as uint8 of shape (nbytes,)."""
        return self.array(np.uint8, self.nbytes)

    def numpy(self, dtype: DTypeLike = np.uint8, shape: int | Sequence[int] | None = None) -> NDArray[Any]:
        """Pinned memory as the host sees it, writable; without a shape all of it. What it shows is the buffer's until the free.
        Reads and writes through it are not recorded: `Device.host_access` says them. Raises BadInput for device memory.
        """
        self._require_live()
        if self.space != Space.pinned:
            raise BadInput("only pinned memory has a host view; copy device memory to the host with Stream.copy")
        refuse_in_kernel(self)
        kind, _, itemsize = layout(dtype, ())
        array = self.array(kind, self.nbytes // itemsize if shape is None else shape)
        whole = np.frombuffer(cast("memoryview", self.device.driver.host_memory(self.address, self.nbytes)), np.uint8)
        self.keep_for(whole)  # views of a view keep the first one
        return whole[: array.nbytes].view(kind).reshape(array.shape)

    @property
    def __array_interface__(self) -> dict[str, Any]:
        """Pinned memory as NumPy's array interface, bytes of shape (nbytes,). AttributeError for device memory: it has none."""
        if self.space != Space.pinned:
            raise AttributeError("device memory has no array interface; copy it to the host with Stream.copy")
        return {"version": 3, "shape": (self.nbytes,), "typestr": "|u1", "data": self.numpy()}

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """Memory of a CUDA device for CuPy, PyTorch, Numba: bytes of shape (nbytes,). AttributeError for a simulated device's."""
        return self.bytes().__cuda_array_interface__

    def __dlpack__(self, **asked: Any) -> Any:
        """A DLPack capsule of uint8, shape (nbytes,); `asked` is DLPack's (stream, max_version, ...). Raises BadInput for memory of a
        simulated device, which others do not know.
        """
        return self.numpy().__dlpack__(**asked) if self.space == Space.pinned else self.bytes().__dlpack__(**asked)

    def __dlpack_device__(self) -> tuple[int, int]:
        """DLPack's name of where it is: (1, 0) for pinned memory, (2, index) on a CUDA device."""
        return self.numpy().__dlpack_device__() if self.space == Space.pinned else self.device.dlpack_device()

    def keep_for(self, view: object) -> None:
        """The bytes are not given back while `view` is there."""
        self._views += 1
        weakref.finalize(view, self._unsee).atexit = False

    def free(self) -> None:
        """Gives the bytes back to whoever handed them out, once no host view shows them; a second call does nothing."""
        if self.freed_at == "":
            self.freed_at = program_line()
        self._freed = True
        if self._views:
            return
        release, self._release = self._release, None
        if release is not None:
            release(self)

    def _unsee(self) -> None:
        self._views -= 1
        if self._freed:
            Buffer.free(self)

    def _require_live(self) -> None:
        if self._freed:
            raise BadInput(f"buffer of {self.nbytes} bytes at {self.address:#x} was freed; allocate another")

    def __enter__(self) -> Buffer:
        return self

    def __exit__(self, *exc: object) -> None:
        self.free()

    def __repr__(self) -> str:
        return f"Buffer({self.nbytes} bytes at {self.address:#x}, {self.space.name}{', freed' if self.freed else ''})"


class CheckedBuffer(Buffer):
    """One of a pool in debug mode: a second free is a mistake there, and told. Leaving `with buffer:` after a free is none."""

    __slots__ = ()

    def free(self) -> None:
        """As Buffer's. Raises BadInput for a second free, with the place of the first."""
        if self._freed:
            raise BadInput(
                f"buffer of {self.nbytes} bytes at {self.address:#x} was freed before, at {self.freed_at}; free it once"
            )
        self.freed_at = ""
        super().free()

    def __exit__(self, *exc: object) -> None:
        if not self._freed:
            self.free()


class _Running(threading.local):
    kernel: str | None = None


_running = _Running()


@contextmanager
def inside(kernel: str | None) -> Iterator[None]:
    """While the code of a kernel runs on this thread: it may touch what its launch declared and nothing else."""
    _running.kernel = kernel
    try:
        yield
    finally:
        _running.kernel = None


def refuse_in_kernel(reached: Buffer | Array) -> None:
    """Raises BadInput where a kernel asks for bytes itself: what it may touch it was given."""
    if _running.kernel is not None:
        raise BadInput(
            f"kernel {_running.kernel} reached {reached.nbytes} bytes at {reached.address:#x} that its launch does not declare: "
            f"name them in `reads` or `writes`, and use the array that the kernel is given"
        )


def view_of(lent: LentBytes, dtype: np.dtype[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    """The first of the lent bytes as a NumPy array; writeable where they are."""
    data = cast("memoryview", lent)  # stubs cannot say that a class has the buffer protocol
    return np.frombuffer(data, dtype, math.prod(shape)).reshape(shape)


@dataclass(frozen=True, slots=True)
class Array:
    """A typed, shaped, C-contiguous piece of a buffer. It holds no data: kernels get NumPy arrays of it while they run."""

    buffer: Buffer
    address: int
    nbytes: int
    dtype: np.dtype[Any]
    shape: tuple[int, ...]

    def __getitem__(self, rows: slice | int) -> Array:
        """Rows along the first axis, without a copy. Raises BadInput for a step or for what has no rows, IndexError outside."""
        if not self.shape or not isinstance(rows, int | slice):
            raise BadInput(f"array {self.shape}[{rows!r}]: only rows of the first axis can be cut, by a number or a run")
        if isinstance(rows, int):
            start = range(self.shape[0])[rows]
            return self._cut(start, self.shape[1:])
        start, stop, step = rows.indices(self.shape[0])
        if step != 1:
            raise BadInput("an array is cut into runs of rows: step must be 1")
        return self._cut(start, (max(stop - start, 0), *self.shape[1:]))

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """For CuPy, PyTorch, Numba, where the device is a CUDA one; else AttributeError. It names the stream to come after."""
        self.buffer._require_live()
        return self.buffer.device.exported(self)

    def __dlpack__(self, **asked: Any) -> Any:
        """A DLPack capsule, ordered before work on the `stream` that is asked for. Raises BadInput where others know no such device."""
        self.buffer._require_live()
        return self.buffer.device.capsule(self, **asked)

    def __dlpack_device__(self) -> tuple[int, int]:
        """DLPack's name of the device."""
        return self.buffer.device.dlpack_device()

    def __array__(self, dtype: object = None, copy: object = None) -> NDArray[Any]:
        """Nobody sees the bytes this way, least of all a kernel that did not declare them: raises BadInput."""
        refuse_in_kernel(self)
        raise BadInput("device memory has no host view; copy it to the host with Stream.copy")

    def __setitem__(self, rows: object, value: object) -> None:
        """As `__array__`."""
        self.__array__()

    def _cut(self, start: int, shape: tuple[int, ...]) -> Array:
        row = self.dtype.itemsize * math.prod(self.shape[1:])
        return Array(self.buffer, self.address + start * row, self.dtype.itemsize * math.prod(shape), self.dtype, shape)
