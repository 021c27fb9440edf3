"""cuda: the GPUs of this machine as a program sees them. Pools, streams, events and buffers are those of any device; kernels are other
libraries': they get our buffers through `__cuda_array_interface__` or DLPack. How libcuda is found and called is native/driver/cuda.hpp's.

Note [Order across libraries]. A library that takes a buffer works on a stream of its own. Through DLPack it says on which: that stream
is made to come after all that used the bytes, and the buffer's free after that stream. Through `__cuda_array_interface__` it is told a
stream to come after, and says nothing itself: what it does then is ordered by the program.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any, Final

from forebay._core.cuda import CudaDriver, capsule, issue
from forebay._core.driver import MemoryInfo, Status
from forebay._core.pool import Domain, Lifetime
from forebay.errors import BadInput, DriverError
from forebay.runtime.arguments import count, label, title
from forebay.runtime.borrow import Held, borrowed, join
from forebay.runtime.buffer import Array, Buffer
from forebay.runtime.device import Device, Machine
from forebay.runtime.recorder import tape_shared_when_recording
from forebay.runtime.stream import LEGACY, ForeignStream, Stream, arrays_of, name_of, require_callable, uses_of

__all__ = ["CudaDevice", "CudaStream"]

_PER_THREAD: Final = 2  # the handle of the calling thread's default stream
_LIBRARY: Final = "libcuda.so.1"
_DLPACK_CUDA: Final = 2
_DLPACK_CODES: Final = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}  # by NumPy's letters of kinds


class CudaStream(Stream):
    """A CUDA stream: the runtime's own, or another library's (`CudaDevice.adopt`). `handle` is its CUstream as a number."""

    def launch(
        self,
        kernel: Callable[..., object],
        reads: Sequence[Array | Buffer] = (),
        writes: Sequence[Array | Buffer] = (),
        *,
        indexed: Sequence[Array | Buffer] = (),
        name: str | None = None,
        cost_ns: int | None = None,
    ) -> None:
        """Calls `kernel` now, with one array an argument: of `reads`, of `writes`, of `indexed`. It issues work on this stream's `handle`,
        that reads and writes no more than they are, and makes no other work wait for it by other streams or events than the runtime's.

        What it raises is raised from here. `cost_ns` is a simulated device's: BadInput.
        """
        name = label(name or name_of(kernel), "kernel name")
        require_callable(kernel)
        if cost_ns is not None:
            raise BadInput(f"kernel {name}: cost_ns is for simulated devices; a real one takes the time that it takes")
        arrays, uses = uses_of(arrays_of(reads), arrays_of(writes))
        arrays += self._indexed(indexed, name)
        self._use(f"kernel {name}", arrays)
        with self.device.call() as driver:
            issue(driver, self.device.index, self.handle, name, uses, lambda: kernel(*arrays))

    def __cuda_stream__(self) -> tuple[int, int]:
        """The stream as other libraries take it: (version, CUstream)."""
        return (0, self.handle)


class CudaDevice(Device):
    """The GPU with this number, as CUDA counts those that are visible. `library` is another libcuda than the loader's.

    Raises NotSupported, saying what is missing, where there is no driver or no device; BadInput for a number that none has.
    """

    stream_type = CudaStream

    def __init__(self, index: int = 0, *, library: str = _LIBRARY) -> None:
        machine = _machine(library)
        there = machine.cuda.device_count()
        if count(index, "device") >= there:
            raise BadInput(f"device {index}: CUDA shows {there} here, numbered from 0")
        self._enter(machine, index)

    @classmethod
    def many(cls, *, library: str = _LIBRARY) -> tuple[CudaDevice, ...]:
        """Every GPU that CUDA shows to this process, in its order."""
        machine = _machine(library)
        return tuple(cls(index, library=library) for index in range(machine.cuda.device_count()))

    def _enter(self, machine: _CudaMachine, index: int) -> None:
        self.cuda, self.cuda_library = machine.cuda, machine.library
        self._foreign: weakref.WeakValueDictionary[int, CudaStream] = weakref.WeakValueDictionary()
        self.held: list[Held] = []  # what was borrowed and given back
        self._join(machine, index, Domain(machine.driver, index))

    def adopt(self, handle: int, name: str = "adopted") -> CudaStream:
        """Another library's stream, by its CUstream: it may use our buffers then. The library keeps it alive while it is used here;
        `close` it here before it is destroyed there.
        """
        handle = count(handle, "stream handle")
        with self.call():
            self.cuda.adopt_stream(self.index, handle)
        return _Adopted(self, title(name, "stream name"), handle, owned=False)

    def stream_of(self, given: Stream | ForeignStream, what: str) -> Stream:
        """Another library's stream is adopted. While it captures it is refused: memory that it got would be the graph's, which nobody
        here would know.
        """
        if isinstance(given, Stream) or not hasattr(given, "__cuda_stream__"):
            return super().stream_of(given, what)
        version, handle = given.__cuda_stream__()
        if version != 0:
            raise BadInput(
                f"{what}: {type(given).__name__} speaks version {version} of __cuda_stream__; version 0 is what is known here"
            )
        return self.foreign(handle, what, type(given).__name__)

    def foreign(self, handle: int, what: str, name: str) -> Stream:
        """The same by the CUstream. It is asked each time: a number comes back for another stream."""
        handle = count(handle, "stream handle")
        if handle <= LEGACY:
            return self.default_stream
        try:
            known = self._foreign.get(self.cuda.adopt_stream(self.index, handle))
            captures = handle > _PER_THREAD and self.driver.stream_capturing(self.index, handle)
        except DriverError as error:
            if error.status != Status.capture_unsupported:
                raise
            known, captures = None, True
        if captures and (known is None or known.capture is None):
            raise BadInput(
                f"{what}: stream {handle:#x} of {name} captures a graph; take memory before the capture and keep it that long"
            )
        if known is None:
            known = self.adopt(handle, name)
            self._foreign[known.id] = known
        return known

    def borrow(self, source: object, stream: Stream | ForeignStream) -> Array:
        """Memory of another library as an array of ours, for work on `stream`, which comes after what the library did with it: through
        DLPack, else `__cuda_array_interface__`. What it says of a stream is heeded. The library's object is held until the array's buffer
        is freed and all that used it here has run. Raises BadInput for what lies elsewhere, is not C-contiguous or has no such type.
        """
        return borrowed(self, source, self.stream_of(stream, "borrow"))

    def memory(self) -> MemoryInfo:
        """What the device has, and has free for anybody, in bytes."""
        with self.call() as driver:
            return driver.memory_info(self.index)

    def exported(self, array: Array) -> dict[str, Any]:
        stream = self._last_of(array.buffer)
        return {
            "version": 3,
            "shape": array.shape,
            "typestr": array.dtype.str,
            "data": (array.address if array.nbytes else 0, False),
            "strides": None,
            "stream": None if stream is None else stream.handle,
        }

    def capsule(self, array: Array, *, stream: int | None = None, **asked: object) -> object:
        """DLPack's `stream` is the consumer's: None and 1 are the legacy default stream, 2 the thread's own, -1 orders nothing.

        Raises BadInput for a type that DLPack does not have, a copy, or another device.
        """
        code = _DLPACK_CODES.get(array.dtype.kind)
        if code is None or array.dtype.byteorder == ">":
            raise BadInput(f"array of {array.dtype}: DLPack has no such type; give out its bytes")
        if asked.get("copy") or asked.get("dl_device") not in (None, self.dlpack_device()):
            raise BadInput("DLPack: the memory is given out as it is and where it is; ask for no copy and no other device")
        if stream != -1:
            self._order(array.buffer, LEGACY if stream is None else count(stream, "DLPack stream", 1))
        kept = _Kept()
        array.buffer.keep_for(kept)
        return capsule(array.address, list(array.shape), code, array.dtype.itemsize * 8, self.index, kept)

    def dlpack_device(self) -> tuple[int, int]:
        return (_DLPACK_CUDA, self.index)

    def _order(self, buffer: Buffer, handle: int) -> None:
        """The consumer's stream comes after all uses of the buffer, and the buffer's free after that stream."""
        consumer = self.adopt(handle, "DLPack consumer")
        for stream in _users(buffer):
            if stream.id != consumer.id:
                join(consumer, stream)
        buffer.streams.setdefault(consumer.id, consumer)

    def _last_of(self, buffer: Buffer) -> Stream | None:
        """A stream that comes after all uses of the buffer, if it has any."""
        users = _users(buffer)
        for stream in users[:-1]:
            join(users[-1], stream)
        return users[-1] if users else None


class _Adopted(CudaStream):
    """A stream of another library: its end is not ours, and may go unseen."""

    lifetime = Lifetime.foreign

    def close(self) -> None:
        """The library may destroy the stream now."""
        if not self._closed and self.handle > 2:
            self._closed = True
            self.device.domain.ending(self.id)
            self.device.cuda.forget_stream(self.device.index, self.handle)  # type: ignore[attr-defined]


class _Kept:
    """What a consumer of DLPack holds instead of the buffer."""

    __slots__ = ("__weakref__",)


class _CudaMachine(Machine):
    def __init__(self, library: str) -> None:
        self.library = library
        self.cuda = CudaDriver(library)
        super().__init__(self.cuda)
        tape_shared_when_recording(self.taped)


_machines: weakref.WeakValueDictionary[tuple[str, int], _CudaMachine] = weakref.WeakValueDictionary()
_machines_lock = threading.Lock()


def _machine(library: str) -> _CudaMachine:
    """One a process: its devices can wait for each other. A forked child gets one of its own, or is told why not."""
    key = (label(library, "library"), os.getpid())
    with _machines_lock:
        machine = _machines.get(key)
        if machine is None:
            machine = _machines[key] = _CudaMachine(library)
    return machine


def _users(buffer: Buffer) -> list[Stream]:
    streams = dict(buffer.streams)
    if buffer.home is not None:
        streams = {buffer.home.id: buffer.home} | streams
    return list(streams.values())
