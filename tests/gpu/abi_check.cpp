// abi_check: every declaration of driver/cuda_abi.hpp against a real cuda.h. It compiles where they agree, and says so.
//   c++ -std=c++20 -Inative -I$CUDA_HOME/include tests/gpu/abi_check.cpp -o /tmp/abi_check && /tmp/abi_check
#include <cuda.h>
#include <cudaTypedefs.h>

#include <cstddef>
#include <cstdio>
#include <type_traits>

#include "driver/cuda_abi.hpp"

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
static_assert(ours::kNoError == CUDA_SUCCESS && ours::kNotReady == CUDA_ERROR_NOT_READY);

int main() {
  std::printf("cuda_abi.hpp agrees with cuda.h of CUDA %d\n", CUDA_VERSION);
  return 0;
}
