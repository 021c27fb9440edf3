// abi_check: every declaration of driver/cuda_abi.hpp against a real cuda.h. It compiles where they agree, and says so.
//   c++ -std=c++20 -Inative -I$CUDA_HOME/include tests/gpu/abi_check.cpp -o /tmp/abi_check && /tmp/abi_check
#include <cuda.h>
#include <cudaTypedefs.h>

#include <cstddef>
#include <cstdio>
#include <type_traits>

#include "driver/cuda_abi.hpp"
#include "driver/port.hpp"

namespace ours = forebay::cuda;

// What the calling convention sees of a parameter: a pointer or not, and its size.
template <class A, class B>
constexpr bool alike = sizeof(A) == sizeof(B) && std::is_pointer_v<A> == std::is_pointer_v<B>;

template <class Ours, class Theirs>
struct Same : std::false_type {};
template <class R, class... A, class S, class... B>
  requires(sizeof...(A) == sizeof...(B))
struct Same<R(A...), S(B...)> : std::bool_constant<(sizeof(R) == sizeof(S)) && (alike<A, B> && ...)> {};

// Its form of CUDA 12.0: the header's macro names a later one.
#undef cuStreamGetCaptureInfo
#define cuStreamGetCaptureInfo cuStreamGetCaptureInfo_of_12_0
extern std::remove_pointer_t<PFN_cuStreamGetCaptureInfo_v11030> cuStreamGetCaptureInfo;

#define CHECK(member, symbol, signature)                                             \
  namespace check_##member {                                                         \
    using namespace forebay::cuda;                                                   \
    static_assert(Same<signature, std::remove_pointer_t<decltype(&symbol)>>::value); \
  }
FOREBAY_CUDA_FUNCTIONS(CHECK)

#define AT(ours_field, theirs_field) \
  static_assert(offsetof(ours::FrameKind, ours_field) == offsetof(CUmemAllocationProp, theirs_field))
static_assert(sizeof(ours::FrameKind) == sizeof(CUmemAllocationProp));
AT(type, type);
AT(exported_as, requestedHandleTypes);
AT(location, location);
AT(windows, win32HandleMetaData);
AT(compression, allocFlags.compressionType);
AT(rdma, allocFlags.gpuDirectRDMACapable);
AT(usage, allocFlags.usage);
#define POOL_AT(ours_field, theirs_field) \
  static_assert(offsetof(ours::DriverPoolKind, ours_field) == offsetof(CUmemPoolProps, theirs_field))
static_assert(sizeof(ours::DriverPoolKind) == sizeof(CUmemPoolProps));
POOL_AT(type, allocType);
POOL_AT(exported_as, handleTypes);
POOL_AT(location, location);
POOL_AT(windows, win32SecurityAttributes);
POOL_AT(most, maxSize);
POOL_AT(usage, usage);
static_assert(sizeof(ours::Location) == sizeof(CUmemLocation));
static_assert(offsetof(ours::Location, id) == offsetof(CUmemLocation, id));
static_assert(sizeof(ours::Access) == sizeof(CUmemAccessDesc));
static_assert(offsetof(ours::Access, rights) == offsetof(CUmemAccessDesc, flags));

#define NUMBER(name, value) static_assert(static_cast<long>(ours::name) == static_cast<long>(value))
NUMBER(kLocationDevice, CU_MEM_LOCATION_TYPE_DEVICE);
NUMBER(kFramePinned, CU_MEM_ALLOCATION_TYPE_PINNED);
NUMBER(kReadWrite, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
NUMBER(kLeastGranularity, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
NUMBER(kHasVirtualMemory, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED);
NUMBER(kMemoryType, CU_POINTER_ATTRIBUTE_MEMORY_TYPE);
NUMBER(kMemoryHost, CU_MEMORYTYPE_HOST);
NUMBER(kCaptureRelaxed, CU_STREAM_CAPTURE_MODE_RELAXED);
NUMBER(kStreamNonBlocking, CU_STREAM_NON_BLOCKING);
NUMBER(kEventNoTiming, CU_EVENT_DISABLE_TIMING);
NUMBER(kHostPortable, CU_MEMHOSTALLOC_PORTABLE);
static_assert(static_cast<int>(forebay::PoolAttribute::follow_events) == CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES);
static_assert(static_cast<int>(forebay::PoolAttribute::opportunistic) == CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC);
static_assert(static_cast<int>(forebay::PoolAttribute::internal_waits) ==
              CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES);
static_assert(static_cast<int>(forebay::PoolAttribute::release_threshold) == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD);
static_assert(static_cast<int>(forebay::PoolAttribute::reserved) == CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
static_assert(static_cast<int>(forebay::PoolAttribute::reserved_high) == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH);
static_assert(static_cast<int>(forebay::PoolAttribute::used) == CU_MEMPOOL_ATTR_USED_MEM_CURRENT);
static_assert(static_cast<int>(forebay::PoolAttribute::used_high) == CU_MEMPOOL_ATTR_USED_MEM_HIGH);
static_assert(ours::kNoError == CUDA_SUCCESS && ours::kNotReady == CUDA_ERROR_NOT_READY);

int main() {
  std::printf("cuda_abi.hpp agrees with cuda.h of CUDA %d\n", CUDA_VERSION);
  return 0;
}
