"""memory: the calls that make, map and free memory. Copies are work.py's.

Who waits was measured (one H200, driver 580, CUDA 13.0, a 20 ms kernel in flight on another stream; benchmarks/results/): the frees of
driver and pinned memory returned after the kernel, no other call here did.
"""

from forebay._core.tape import Kind
from forebay.calls.entry import FREE, NODE, UNSAFE, Condition, Place, Waits, family

_MEMORY, _VIRTUAL, _ORDERED = "Memory Management", "Virtual Memory Management", "Stream Ordered Memory Allocator"
_UNIFIED, _IPC = "Unified Addressing", "IPC Memory Handles"
_UNBOUNDED = "waits for the device's earlier work, without a bound"

MEMORY = (
    *family(_MEMORY, "cuMemAlloc cuMemAllocPitch cudaMalloc cudaMallocPitch cudaMalloc3D", Kind.reserve, law=UNSAFE),
    *family(_MEMORY, "cuArrayCreate cuArray3DCreate cudaMallocArray cudaMalloc3DArray", Kind.reserve, law=UNSAFE),
    *family(
        _MEMORY, "cuMemAllocManaged cudaMallocManaged", Kind.reserve, law=UNSAFE, certain=False, note="both sides can touch it"
    ),
    *family(_MEMORY, "cuMemFree cudaFree", Kind.release, waits=Waits.DEVICE, law=UNSAFE, note=_UNBOUNDED),
    *family(_MEMORY, "cuArrayDestroy cudaFreeArray", Kind.release, waits=Waits.DEVICE, law=UNSAFE, note=_UNBOUNDED),
    *family(_MEMORY, "cuMemAllocHost cuMemHostAlloc cudaMallocHost cudaHostAlloc", Kind.pin, law=UNSAFE),
    *family(_MEMORY, "cuMemHostRegister cudaHostRegister", Kind.pin, law=UNSAFE),
    *family(_MEMORY, "cuMemFreeHost cudaFreeHost", Kind.unpin, waits=Waits.DEVICE, law=UNSAFE, note=_UNBOUNDED),
    *family(_MEMORY, "cuMemHostUnregister cudaHostUnregister", Kind.unpin, waits=Waits.DEVICE, law=UNSAFE, note=_UNBOUNDED),
    *family(_MEMORY, "cuMemGetInfo cudaMemGetInfo", Kind.capacity),
    *family(_VIRTUAL, "cuMemAddressReserve cuMemAddressFree", note="addresses only: no memory"),
    *family(_VIRTUAL, "cuMemCreate", Kind.reserve, note="the physical memory (a frame)"),
    *family(_VIRTUAL, "cuMemRelease", Kind.release, note="the frame lives on while it is mapped anywhere"),
    *family(_VIRTUAL, "cuMemMap", Kind.map),
    *family(
        _VIRTUAL, "cuMemUnmap", Kind.unmap, note="waits for nothing: a use that still runs is a fault that kills the process"
    ),
    *family(_VIRTUAL, "cuMemSetAccess cuMemGetAllocationGranularity cuMemRetainAllocationHandle"),
    *family(_VIRTUAL, "cuMemExportToShareableHandle cuMemImportFromShareableHandle", certain=False),
    *family(
        _ORDERED,
        "cuMemAllocAsync cuMemAllocFromPoolAsync cudaMallocAsync cudaMallocFromPoolAsync",
        Kind.alloc,
        place=Place.ARGUMENT,
        inside=NODE,
        beside=UNSAFE,
    ),
    *family(_ORDERED, "cuMemFreeAsync cudaFreeAsync", Kind.free, place=Place.ARGUMENT, inside=NODE, beside=UNSAFE),
    *family(_ORDERED, "cuMemPoolTrimTo cudaMemPoolTrimTo", Kind.flush, law=UNSAFE),
    *family(_ORDERED, "cuMemPoolCreate cuMemPoolDestroy cudaMemPoolCreate cudaMemPoolDestroy", law=UNSAFE),
    *family(_ORDERED, "cuMemPoolSetAttribute cuMemPoolSetAccess cudaMemPoolSetAttribute cudaMemPoolSetAccess", law=UNSAFE),
    *family(_ORDERED, "cuMemPoolGetAttribute cudaMemPoolGetAttribute cuDeviceGetDefaultMemPool", certain=False),
    *family(_ORDERED, "cudaDeviceGetDefaultMemPool", certain=False),
    *family(
        _MEMORY,
        "cudaGetSymbolAddress cudaGetSymbolSize",
        waits=Waits.DEVICE,
        when=Condition.FIRST_USE,
        law=FREE,
        certain=False,
    ),
    *family(_MEMORY, "cudaMemAdvise cuMemAdvise", certain=False),
    *family(_MEMORY, "cudaMemPrefetchAsync cuMemPrefetchAsync", Kind.copy, place=Place.ARGUMENT, inside=NODE, certain=False),
    *family(_UNIFIED, "cuPointerGetAttribute cuPointerGetAttributes cudaPointerGetAttributes"),
    *family(_IPC, "cuIpcGetMemHandle cudaIpcGetMemHandle"),
    *family(_IPC, "cuIpcOpenMemHandle cudaIpcOpenMemHandle", law=UNSAFE, certain=False),
    *family(_IPC, "cuIpcCloseMemHandle cudaIpcCloseMemHandle", waits=Waits.DEVICE, law=UNSAFE, certain=False),
)
