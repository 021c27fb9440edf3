"""work: the calls that give the device something to do: launches, copies, memsets, host functions. Memory is memory.py's.

What a copy does to the host is the page "API synchronization behavior" of both manuals, row by row.
"""

from forebay._core.tape import Kind
from forebay.calls.entry import LEGACY, NEVER, NODE, Condition, Place, Waits, family

_EXECUTION, _MEMORY, _STREAM = "Execution Control", "Memory Management", "Stream Management"
_LAUNCHES = (
    "cuLaunchKernel cuLaunchKernelEx cuLaunchCooperativeKernel cudaLaunchKernel cudaLaunchKernelExC cudaLaunchCooperativeKernel"
)

# Runtime copies without "Async" work in the default stream and wait where an end is the host's.
_COPIES = """cuMemcpy cuMemcpyHtoD cuMemcpyDtoH cuMemcpy2D cuMemcpy2DUnaligned cuMemcpy3D cuMemcpyHtoA cuMemcpyAtoH
cudaMemcpy cudaMemcpy2D cudaMemcpy3D cudaMemcpyToSymbol cudaMemcpyFromSymbol cudaMemcpy2DToArray cudaMemcpy2DFromArray"""
_DEVICE_COPIES = "cuMemcpyDtoD cuMemcpyDtoA cuMemcpyAtoD cuMemcpyAtoA cuMemcpyPeer cuMemcpy3DPeer cudaMemcpyPeer cudaMemcpy3DPeer"
_ASYNC_COPIES = """cuMemcpyAsync cuMemcpyHtoDAsync cuMemcpyDtoHAsync cuMemcpy2DAsync cuMemcpy3DAsync cuMemcpyHtoAAsync cuMemcpyAtoHAsync
cudaMemcpyAsync cudaMemcpy2DAsync cudaMemcpy3DAsync cudaMemcpyToSymbolAsync cudaMemcpyFromSymbolAsync"""
_ASYNC_DEVICE_COPIES = "cuMemcpyDtoDAsync cuMemcpyPeerAsync cuMemcpy3DPeerAsync cudaMemcpyPeerAsync cudaMemcpy3DPeerAsync"
_MEMSETS = """cuMemsetD8 cuMemsetD16 cuMemsetD32 cuMemsetD2D8 cuMemsetD2D16 cuMemsetD2D32
cudaMemset cudaMemset2D cudaMemset3D"""
_ASYNC_MEMSETS = """cuMemsetD8Async cuMemsetD16Async cuMemsetD32Async cuMemsetD2D8Async cuMemsetD2D16Async cuMemsetD2D32Async
cudaMemsetAsync cudaMemset2DAsync cudaMemset3DAsync"""

WORK = (
    *family(
        _EXECUTION,
        _LAUNCHES,
        Kind.launch,
        place=Place.ARGUMENT,
        inside=NODE,
        note="the first launch of a kernel may load its module",
    ),
    *family(_EXECUTION, "cuLaunchHostFunc cudaLaunchHostFunc", Kind.host_func, place=Place.ARGUMENT, inside=NODE),
    *family(_STREAM, "cuStreamAddCallback cudaStreamAddCallback", Kind.host_func, place=Place.ARGUMENT, inside=NEVER),
    *family(_MEMORY, _COPIES, Kind.copy, place=Place.DEFAULT, waits=Waits.WORK, when=Condition.HOST_END, inside=LEGACY),
    *family(_MEMORY, _DEVICE_COPIES, Kind.copy, place=Place.DEFAULT, inside=LEGACY, note="does not wait for its own end"),
    *family(
        _MEMORY,
        _ASYNC_COPIES,
        Kind.copy,
        place=Place.ARGUMENT,
        waits=Waits.WORK,
        when=Condition.PAGEABLE,
        inside=NODE,
        note="from pageable memory it may wait for its stream while it stages; to pageable memory it returns after the copy",
    ),
    *family(_MEMORY, _ASYNC_DEVICE_COPIES, Kind.copy, place=Place.ARGUMENT, inside=NODE),
    *family(_MEMORY, "cuMemcpyBatchAsync cudaMemcpyBatchAsync", Kind.copy, place=Place.ARGUMENT, inside=NODE, certain=False),
    *family(_MEMORY, _MEMSETS, Kind.memset, place=Place.DEFAULT, waits=Waits.WORK, when=Condition.HOST_TARGET, inside=LEGACY),
    *family(_MEMORY, _ASYNC_MEMSETS, Kind.memset, place=Place.ARGUMENT, inside=NODE),
    *family(
        _EXECUTION,
        "cudaFuncGetAttributes cudaFuncSetAttribute cuFuncLoad",
        waits=Waits.DEVICE,
        when=Condition.FIRST_USE,
        certain=False,
        note="loads the kernel's module where loading is lazy; loading may wait for the context",
    ),
    *family(_EXECUTION, "cuKernelGetFunction", waits=Waits.DEVICE, when=Condition.FIRST_USE, note="loads the library's module"),
    *family(_EXECUTION, "cuFuncGetAttribute cuFuncSetAttribute cuFuncSetCacheConfig cudaFuncSetCacheConfig", certain=False),
    *family(
        "Occupancy", "cuOccupancyMaxActiveBlocksPerMultiprocessor cudaOccupancyMaxActiveBlocksPerMultiprocessor", certain=False
    ),
)
