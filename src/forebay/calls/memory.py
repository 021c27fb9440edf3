"""memory: the calls that make, map and free memory. Copies are work.py's.

Who waits was measured (one H200, driver 580, CUDA 13.0, a 20 ms kernel in flight): cudaFree of 2 MiB and cudaFreeHost of 1 MiB
returned after the kernel; cudaMalloc, cudaHostAlloc, cudaMallocAsync, cudaFreeAsync, cuMemCreate, cuMemMap, cuMemSetAccess,
cuMemUnmap and cuMemRelease did not wait for it.
"""

from forebay._core.tape import Kind
from forebay.calls.entry import FREE, NODE, UNSAFE, Condition, Place, Waits, family

_MEMORY, _VIRTUAL, _ORDERED = "Memory Management", "Virtual Memory Management", "Stream Ordered Memory Allocator"
_UNIFIED = "Unified Addressing"

MEMORY = (
    *family(_MEMORY, "cuMemAlloc cuMemAllocPitch cudaMalloc cudaMallocPitch cudaMalloc3D", Kind.reserve, law=UNSAFE),
    *family(_MEMORY, "cuArrayCreate cuArray3DCreate cudaMallocArray cudaMalloc3DArray", Kind.reserve, law=UNSAFE),
    *family(_MEMORY, "cuMemAllocManaged cudaMallocManaged", Kind.reserve, law=UNSAFE, note="managed: both sides can touch it"),
    *family(
        _MEMORY,
        "cuMemFree cudaFree cuArrayDestroy cudaFreeArray",
        Kind.release,
        waits=Waits.DEVICE,
        law=UNSAFE,
        note="waits for the device's earlier work, without a bound",
    ),
    *family(_MEMORY, "cuMemAllocHost cuMemHostAlloc cudaMallocHost cudaHostAlloc", Kind.pin, law=UNSAFE),
    *family(_MEMORY, "cuMemHostRegister cudaHostRegister", Kind.pin, law=UNSAFE),
    *family(_MEMORY, "cuMemFreeHost cudaFreeHost", Kind.unpin, waits=Waits.DEVICE, law=UNSAFE),
    *family(_MEMORY, "cuMemHostUnregister cudaHostUnregister", Kind.unpin, waits=Waits.DEVICE, law=UNSAFE, certain=False),
    *family(_MEMORY, "cuMemGetInfo cudaMemGetInfo", Kind.capacity, law=FREE, certain=False),
    *family(_VIRTUAL, "cuMemAddressReserve cuMemAddressFree", note="addresses only: no memory"),
    *family(_VIRTUAL, "cuMemCreate", Kind.reserve, note="the physical memory (a frame)"),
    *family(_VIRTUAL, "cuMemRelease", Kind.release, note="the frame lives on while it is mapped anywhere"),
    *family(_VIRTUAL, "cuMemMap", Kind.map),
    *family(
        _VIRTUAL, "cuMemUnmap", Kind.unmap, note="waits for nothing: a use that still runs is a fault that kills the process"
    ),
    *family(_VIRTUAL, "cuMemSetAccess cuMemGetAllocationGranularity cuMemRetainAllocationHandle"),
    *family(_VIRTUAL, "cuMemExportToShareableHandle cuMemImportFromShareableHandle"),
    *family(_ORDERED, "cuMemAllocAsync cuMemAllocFromPoolAsync", Kind.alloc, place=Place.ARGUMENT, law=NODE),
    *family(_ORDERED, "cudaMallocAsync cudaMallocFromPoolAsync", Kind.alloc, place=Place.ARGUMENT, law=NODE),
    *family(_ORDERED, "cuMemFreeAsync cudaFreeAsync", Kind.free, place=Place.ARGUMENT, law=NODE),
    *family(_ORDERED, "cuMemPoolTrimTo cudaMemPoolTrimTo", Kind.flush, law=UNSAFE, certain=False),
    *family(_ORDERED, "cuMemPoolCreate cuMemPoolDestroy cudaMemPoolCreate cudaMemPoolDestroy", law=UNSAFE, certain=False),
    *family(_ORDERED, "cuMemPoolSetAttribute cuMemPoolGetAttribute cudaMemPoolSetAttribute cudaMemPoolGetAttribute"),
    *family(_ORDERED, "cuDeviceGetDefaultMemPool cudaDeviceGetDefaultMemPool cuMemPoolSetAccess cudaMemPoolSetAccess"),
    *family(
        _MEMORY,
        "cudaGetSymbolAddress cudaGetSymbolSize",
        waits=Waits.DEVICE,
        when=Condition.FIRST_USE,
        law=UNSAFE,
        certain=False,
    ),
    *family(_MEMORY, "cudaMemAdvise cuMemAdvise", law=FREE, certain=False),
    *family(_MEMORY, "cudaMemPrefetchAsync cuMemPrefetchAsync", Kind.copy, place=Place.ARGUMENT, law=NODE, certain=False),
    *family(_UNIFIED, "cuPointerGetAttribute cuPointerGetAttributes cudaPointerGetAttributes"),
    *family("IPC Memory Handles", "cuIpcGetMemHandle cudaIpcGetMemHandle", certain=False),
    *family("IPC Memory Handles", "cuIpcOpenMemHandle cudaIpcOpenMemHandle", law=UNSAFE, certain=False),
    *family(
        "IPC Memory Handles",
        "cuIpcCloseMemHandle cudaIpcCloseMemHandle",
        waits=Waits.DEVICE,
        law=UNSAFE,
        certain=False,
    ),
)
