"""borrow: memory of other libraries as arrays of ours, in the order of streams: DLPack and `__cuda_array_interface__`, as their consumer.

The other direction, our memory in their hands, is cuda.py's.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from forebay.errors import BadInput, DriverError
from forebay.runtime.arguments import count, layout
from forebay.runtime.buffer import Array, Buffer

if TYPE_CHECKING:
    from forebay.runtime.cuda import CudaDevice
    from forebay.runtime.stream import Event, Stream

__all__ = ["Held", "borrowed", "join"]

_CUDA: Final = 2  # DLPack's kind of device
_CODES: Final = {0: "i", 1: "u", 2: "f", 5: "c", 6: "b"}  # NumPy's letters by DLPack's kinds of type
_CAPSULE: Final = b"dltensor"


class Held(NamedTuple):
    """What a library lent, until these events are complete."""

    source: object
    events: tuple[Event, ...]


class _Tensor(ctypes.Structure):
    """DLTensor, as dlpack.h lays it out."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class _Found(NamedTuple):
    """Where an array lies and what it is; `source` keeps it."""

    address: int
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None  # in bytes; none: C-contiguous
    source: object


def borrowed(device: CudaDevice, source: object, stream: Stream) -> Array:
    """CudaDevice.borrow, with a stream of ours."""
    _let_go(device)
    stream.require_open()
    if stream.device is not device:
        raise BadInput(f"borrow: {stream!r} is not a stream of device {device.index}; give one of the device that has the memory")
    if hasattr(source, "__dlpack__"):
        found = _through_dlpack(device, source, stream)
    elif hasattr(source, "__cuda_array_interface__"):
        found = _through_interface(device, source, source.__cuda_array_interface__, stream)
    else:
        raise BadInput(
            f"borrow: {type(source).__name__} has neither __dlpack__ nor __cuda_array_interface__; give an array of a GPU"
        )
    dtype, shape, nbytes = layout(found.dtype, found.shape)
    if nbytes and found.strides not in (None, _packed(dtype, shape)):
        raise BadInput(f"borrow: an array {shape} with strides {found.strides} is not C-contiguous; make it so first")
    buffer = Buffer(device, found.address, max(nbytes, 1), lambda freed: _hold(device, freed, found.source))
    buffer.home = stream
    return buffer.array(dtype, shape)


def join(later: Stream, earlier: Stream) -> None:
    """What `later` gets from now on comes after what `earlier` was given."""
    event = earlier.record()
    later.wait(event)
    event.close()


def _through_dlpack(device: CudaDevice, source: Any, stream: Stream) -> _Found:
    where = tuple(int(n) for n in source.__dlpack_device__())
    if where != (_CUDA, device.index):
        raise BadInput(f"borrow: DLPack says device {where}, this is {(_CUDA, device.index)}; copy it here first")
    capsule = source.__dlpack__(
        stream=max(stream.handle, 1)
    )  # while its name stays, its end tells the library that nobody took it
    tensor = _tensor_of(capsule)
    letter = _CODES.get(tensor.code)
    if letter is None or tensor.lanes != 1 or tensor.bits % 8:
        raise BadInput(
            f"borrow: DLPack type (code {tensor.code}, {tensor.bits} bits) has no dtype of NumPy; view it as whole numbers"
        )
    dtype = np.dtype(f"{letter}{tensor.bits // 8}")
    shape = tuple(tensor.shape[i] for i in range(tensor.ndim))
    strides = tuple(tensor.strides[i] * dtype.itemsize for i in range(tensor.ndim)) if tensor.strides else None
    return _Found((tensor.data or 0) + tensor.byte_offset, dtype, shape, strides, capsule)


def _tensor_of(capsule: object) -> _Tensor:
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    try:
        return _Tensor.from_address(pointer(capsule, _CAPSULE))
    except ValueError:
        raise BadInput(
            "borrow: __dlpack__ gave no fresh capsule of an unversioned tensor; is it a CUDA array of a library?"
        ) from None


def _through_interface(device: CudaDevice, source: object, said: Mapping[str, Any], stream: Stream) -> _Found:
    if said.get("mask") is not None:
        raise BadInput("borrow: an array with a mask; give its data and its mask apart")
    theirs = said.get("stream")
    if theirs is not None:
        producer = device.foreign(count(theirs, "borrow: stream of __cuda_array_interface__", 1), "borrow", "the library")
        if producer.id != stream.id:
            join(stream, producer)
    strides = said.get("strides")
    dtype, shape = np.dtype(said["typestr"]), tuple(int(side) for side in said["shape"])
    return _Found(int(said["data"][0] or 0), dtype, shape, None if strides is None else tuple(int(s) for s in strides), source)


def _packed(dtype: np.dtype[Any], shape: Sequence[int]) -> tuple[int, ...]:
    """The strides of a C-contiguous array, as far as a side of one leaves them free to say."""
    return tuple(dtype.itemsize * math.prod(shape[i + 1 :]) for i in range(len(shape)))


def _hold(device: CudaDevice, freed: Buffer, source: object) -> None:
    """The library gets it back when all that used it has run: what it does with the bytes then is not ordered after us."""
    streams = {freed.home.id: freed.home} if freed.home is not None else {}
    streams |= freed.streams
    with suppress(DriverError):  # of a lost device nothing runs any more
        device.held.append(Held(source, tuple(stream.record() for stream in streams.values())))
    _let_go(device)


def _let_go(device: CudaDevice) -> None:
    """Of what is complete. During a capture nothing may be asked."""
    if device.machine.captures:
        return
    with suppress(DriverError):
        device.held[:] = [held for held in device.held if not all(event.ready() for event in held.events)]
