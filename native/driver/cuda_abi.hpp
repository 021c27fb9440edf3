// cuda_abi: as much of libcuda's binary interface as the driver uses, declared by hand: no CUDA header is needed to
// build. Names on the right are libcuda's own. Facts read off CUDA 13.0's cuda.h; tests/gpu/abi_check.cpp holds every
// size, offset, number and signature here to that header where there is one. Who calls what is cuda.cpp's.
#pragma once

#include <cstddef>
#include <cstdint>

namespace forebay::cuda {

using Code = std::int32_t;          // CUresult
using Ordinal = std::int32_t;       // CUdevice
using Pointer = std::uint64_t;      // CUdeviceptr
using FrameNumber = std::uint64_t;  // CUmemGenericAllocationHandle
using Context = struct CUctx_st*;
using StreamPointer = struct CUstream_st*;
using EventPointer = struct CUevent_st*;
using GraphPointer = struct CUgraph_st*;
using NodePointer = struct CUgraphNode_st*;
using ExecutablePointer = struct CUgraphExec_st*;
using DriverPoolPointer = struct CUmemPoolHandle_st*;
using ModulePointer = struct CUmod_st*;
using FunctionPointer = struct CUfunc_st*;
using HostFunction = void (*)(void*);

inline constexpr Code kNoError = 0, kNotReady = 600;  // CUDA_SUCCESS; an answer, no failure

struct Location {  // CUmemLocation
  std::int32_t type, id;
};
struct FrameKind {  // CUmemAllocationProp
  std::int32_t type, exported_as;
  Location location;
  void* windows;
  unsigned char compression, rdma;
  std::uint16_t usage;
  unsigned char reserved[4];
};
struct Access {  // CUmemAccessDesc
  Location location;
  std::int32_t rights;
};

struct DriverPoolKind {  // CUmemPoolProps
  std::int32_t type, exported_as;
  Location location;
  void* windows;
  std::size_t most;  // bytes; 0: the device's own limit. Drivers before CUDA 12.2 take it for reserved and ignore it
  std::uint16_t usage;
  unsigned char reserved[54];
};

enum : std::int32_t {
  kLocationDevice = 1,      // CU_MEM_LOCATION_TYPE_DEVICE
  kFramePinned = 1,         // CU_MEM_ALLOCATION_TYPE_PINNED
  kReadWrite = 3,           // CU_MEM_ACCESS_FLAGS_PROT_READWRITE
  kLeastGranularity = 0,    // CU_MEM_ALLOC_GRANULARITY_MINIMUM
  kHasVirtualMemory = 102,  // CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED
  kMemoryType = 2,          // CU_POINTER_ATTRIBUTE_MEMORY_TYPE
  kMemoryHost = 1,          // CU_MEMORYTYPE_HOST
  kCaptureRelaxed = 2,      // CU_STREAM_CAPTURE_MODE_RELAXED
};
enum : std::uint32_t {
  kStreamNonBlocking = 1,  // CU_STREAM_NON_BLOCKING
  kEventNoTiming = 2,      // CU_EVENT_DISABLE_TIMING
  kHostPortable = 1,       // CU_MEMHOSTALLOC_PORTABLE
};

// X(member, libcuda's name, signature). The form of each is that of CUDA 12.0, the oldest driver with cuStreamGetId.
inline constexpr int kCudaVersion = 12000;
// clang-format off
#define FOREBAY_CUDA_FUNCTIONS(X) \
  X(init, cuInit, Code(std::uint32_t)) \
  X(error_name, cuGetErrorName, Code(Code, const char**)) \
  X(device_count, cuDeviceGetCount, Code(int*)) \
  X(device_get, cuDeviceGet, Code(Ordinal*, int)) \
  X(device_name, cuDeviceGetName, Code(char*, int, Ordinal)) \
  X(device_total, cuDeviceTotalMem, Code(std::size_t*, Ordinal)) \
  X(device_attribute, cuDeviceGetAttribute, Code(int*, std::int32_t, Ordinal)) \
  X(primary_retain, cuDevicePrimaryCtxRetain, Code(Context*, Ordinal)) \
  X(primary_release, cuDevicePrimaryCtxRelease, Code(Ordinal)) \
  X(ctx_current, cuCtxGetCurrent, Code(Context*)) \
  X(ctx_set, cuCtxSetCurrent, Code(Context)) \
  X(ctx_push, cuCtxPushCurrent, Code(Context)) \
  X(ctx_pop, cuCtxPopCurrent, Code(Context*)) \
  X(ctx_sync, cuCtxSynchronize, Code()) \
  X(exchange_capture_mode, cuThreadExchangeStreamCaptureMode, Code(std::int32_t*)) \
  X(mem_info, cuMemGetInfo, Code(std::size_t*, std::size_t*)) \
  X(mem_alloc, cuMemAlloc, Code(Pointer*, std::size_t)) \
  X(mem_free, cuMemFree, Code(Pointer)) \
  X(host_alloc, cuMemHostAlloc, Code(void**, std::size_t, std::uint32_t)) \
  X(host_free, cuMemFreeHost, Code(void*)) \
  X(pointer_attribute, cuPointerGetAttribute, Code(void*, std::int32_t, Pointer)) \
  X(granularity, cuMemGetAllocationGranularity, Code(std::size_t*, const FrameKind*, std::int32_t)) \
  X(range_reserve, cuMemAddressReserve, Code(Pointer*, std::size_t, std::size_t, Pointer, std::uint64_t)) \
  X(range_free, cuMemAddressFree, Code(Pointer, std::size_t)) \
  X(frame_create, cuMemCreate, Code(FrameNumber*, std::size_t, const FrameKind*, std::uint64_t)) \
  X(frame_release, cuMemRelease, Code(FrameNumber)) \
  X(map, cuMemMap, Code(Pointer, std::size_t, std::size_t, FrameNumber, std::uint64_t)) \
  X(set_access, cuMemSetAccess, Code(Pointer, std::size_t, const Access*, std::size_t)) \
  X(unmap, cuMemUnmap, Code(Pointer, std::size_t)) \
  X(stream_create, cuStreamCreateWithPriority, Code(StreamPointer*, std::uint32_t, int)) \
  X(stream_destroy, cuStreamDestroy, Code(StreamPointer)) \
  X(stream_id, cuStreamGetId, Code(StreamPointer, std::uint64_t*)) \
  X(stream_capturing, cuStreamIsCapturing, Code(StreamPointer, std::int32_t*)) \
  X(stream_sync, cuStreamSynchronize, Code(StreamPointer)) \
  X(stream_query, cuStreamQuery, Code(StreamPointer)) \
  X(stream_wait, cuStreamWaitEvent, Code(StreamPointer, EventPointer, std::uint32_t)) \
  X(event_create, cuEventCreate, Code(EventPointer*, std::uint32_t)) \
  X(event_destroy, cuEventDestroy, Code(EventPointer)) \
  X(event_record, cuEventRecord, Code(EventPointer, StreamPointer)) \
  X(event_sync, cuEventSynchronize, Code(EventPointer)) \
  X(event_query, cuEventQuery, Code(EventPointer)) \
  X(copy, cuMemcpyAsync, Code(Pointer, Pointer, std::size_t, StreamPointer)) \
  X(upload, cuMemcpyHtoDAsync, Code(Pointer, const void*, std::size_t, StreamPointer)) \
  X(download, cuMemcpyDtoHAsync, Code(void*, Pointer, std::size_t, StreamPointer)) \
  X(memset, cuMemsetD8Async, Code(Pointer, unsigned char, std::size_t, StreamPointer)) \
  X(host_func, cuLaunchHostFunc, Code(StreamPointer, HostFunction, void*)) \
  X(pool_create, cuMemPoolCreate, Code(DriverPoolPointer*, const DriverPoolKind*)) \
  X(pool_destroy, cuMemPoolDestroy, Code(DriverPoolPointer)) \
  X(pool_alloc, cuMemAllocFromPoolAsync, Code(Pointer*, std::size_t, DriverPoolPointer, StreamPointer)) \
  X(pool_free, cuMemFreeAsync, Code(Pointer, StreamPointer)) \
  X(pool_trim, cuMemPoolTrimTo, Code(DriverPoolPointer, std::size_t)) \
  X(pool_get, cuMemPoolGetAttribute, Code(DriverPoolPointer, std::int32_t, void*)) \
  X(pool_set, cuMemPoolSetAttribute, Code(DriverPoolPointer, std::int32_t, void*)) \
  X(module_load, cuModuleLoadData, Code(ModulePointer*, const void*)) \
  X(module_function, cuModuleGetFunction, Code(FunctionPointer*, ModulePointer, const char*)) \
  X(kernel, cuLaunchKernel, \
    Code(FunctionPointer, std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t, \
         std::uint32_t, StreamPointer, void**, void**)) \
  X(capture_begin, cuStreamBeginCapture, Code(StreamPointer, std::int32_t)) \
  X(capture_end, cuStreamEndCapture, Code(StreamPointer, GraphPointer*)) \
  X(capture_info, cuStreamGetCaptureInfo, \
    Code(StreamPointer, std::int32_t*, std::uint64_t*, GraphPointer*, const NodePointer**, std::size_t*)) \
  X(graph_nodes, cuGraphGetNodes, Code(GraphPointer, NodePointer*, std::size_t*)) \
  X(graph_instantiate, cuGraphInstantiateWithFlags, Code(ExecutablePointer*, GraphPointer, std::uint64_t)) \
  X(graph_launch, cuGraphLaunch, Code(ExecutablePointer, StreamPointer)) \
  X(graph_destroy, cuGraphDestroy, Code(GraphPointer)) \
  X(executable_destroy, cuGraphExecDestroy, Code(ExecutablePointer))
// clang-format on

}  // namespace forebay::cuda
