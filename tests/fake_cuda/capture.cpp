// capture: captures and graphs, which the simulated device knows; and the way in, cuGetProcAddress.
#include <type_traits>

#include "fake.hpp"

namespace fake {

namespace {

std::uint64_t number(const void* handle) { return reinterpret_cast<std::uint64_t>(handle); }

template <class Pointer>
Code with(const std::map<std::uint64_t, int>& handles, Pointer handle, int& device) {
  const auto hold = locked();
  const auto known = device_of(handles, handle);
  device = known.value_or(0);
  return known ? kOk : kInvalidHandle;
}

Code with(cuda::StreamPointer stream, int& device) {
  const auto hold = locked();
  const auto known = device_of(stream);
  device = known.value_or(0);
  return known ? kOk : kInvalidHandle;
}

}  // namespace

FAKE Code cuThreadExchangeStreamCaptureMode(std::int32_t* mode) {
  if (const Code c = entered_anywhere("cuThreadExchangeStreamCaptureMode"); c != kOk) return c;
  if (*mode < 0 || *mode > 2) return kInvalidValue;
  const auto before = machine().sim->exchange_capture_mode(static_cast<CaptureMode>(*mode));
  if (before) *mode = static_cast<std::int32_t>(*before);
  return code_of(before.status());
}

FAKE Code cuStreamIsCapturing(cuda::StreamPointer stream, std::int32_t* status) {
  if (const Code c = entered("cuStreamIsCapturing"); c != kOk) return c;
  int device = 0;
  if (const Code c = with(stream, device); c != kOk) return c;
  const auto info = machine().sim->capture_info(device, {number(stream)});
  *status = info ? static_cast<std::int32_t>(info->status) : 0;
  return code_of(info.status());
}

FAKE Code cuStreamGetCaptureInfo_v2(cuda::StreamPointer stream, std::int32_t* status, std::uint64_t* id,
                                    cuda::GraphPointer*, const cuda::NodePointer**, std::size_t*) {
  if (const Code c = entered("cuStreamGetCaptureInfo"); c != kOk) return c;
  int device = 0;
  if (const Code c = with(stream, device); c != kOk) return c;
  const auto info = machine().sim->capture_info(device, {number(stream)});
  if (!info) return code_of(info.status());
  *status = static_cast<std::int32_t>(info->status), *id = info->id;
  return kOk;
}

FAKE Code cuStreamBeginCapture_v2(cuda::StreamPointer stream, std::int32_t mode) {
  if (const Code c = entered("cuStreamBeginCapture"); c != kOk) return c;
  int device = 0;
  if (const Code c = with(stream, device); c != kOk) return c;
  return code_of(machine().sim->capture_begin(device, {number(stream)}, static_cast<CaptureMode>(mode)));
}

FAKE Code cuStreamEndCapture(cuda::StreamPointer stream, cuda::GraphPointer* graph) {
  if (const Code c = entered("cuStreamEndCapture"); c != kOk) return c;
  int device = 0;
  *graph = nullptr;
  if (const Code c = with(stream, device); c != kOk) return c;
  const auto made = machine().sim->capture_end(device, {number(stream)});
  if (!made) return code_of(made.status());
  const auto hold = locked();
  machine().graphs[made->value] = device;
  *graph = reinterpret_cast<cuda::GraphPointer>(made->value);
  return kOk;
}

// ---- graphs

FAKE Code cuGraphGetNodes(cuda::GraphPointer graph, cuda::NodePointer*, std::size_t* count) {
  if (const Code c = entered("cuGraphGetNodes"); c != kOk) return c;
  int device = 0;
  if (const Code c = with(machine().graphs, graph, device); c != kOk) return c;
  const auto nodes = machine().sim->graph_nodes(device, {number(graph)});
  if (nodes) *count = *nodes;
  return code_of(nodes.status());
}

FAKE Code cuGraphInstantiateWithFlags(cuda::ExecutablePointer* out, cuda::GraphPointer graph, std::uint64_t) {
  if (const Code c = entered("cuGraphInstantiateWithFlags"); c != kOk) return c;
  int device = 0;
  if (const Code c = with(machine().graphs, graph, device); c != kOk) return c;
  const auto made = machine().sim->graph_instantiate(device, {number(graph)});
  if (!made) return code_of(made.status());
  const auto hold = locked();
  machine().executables[made->value] = device;
  *out = reinterpret_cast<cuda::ExecutablePointer>(made->value);
  return kOk;
}

FAKE Code cuGraphLaunch(cuda::ExecutablePointer executable, cuda::StreamPointer stream) {
  if (const Code c = entered("cuGraphLaunch"); c != kOk) return c;
  int device = 0;
  if (const Code c = with(machine().executables, executable, device); c != kOk) return c;
  return code_of(machine().sim->graph_launch(device, {number(executable)}, {number(stream)}));
}

FAKE Code cuGraphDestroy(cuda::GraphPointer graph) {
  if (const Code c = entered("cuGraphDestroy"); c != kOk) return c;
  int device = 0;
  if (const Code c = with(machine().graphs, graph, device); c != kOk) return c;
  return code_of(machine().sim->graph_destroy(device, {number(graph)}));
}

FAKE Code cuGraphExecDestroy(cuda::ExecutablePointer executable) {
  if (const Code c = entered("cuGraphExecDestroy"); c != kOk) return c;
  int device = 0;
  if (const Code c = with(machine().executables, executable, device); c != kOk) return c;
  return code_of(machine().sim->executable_destroy(device, {number(executable)}));
}

// ---- the way in

// The exported name of each function in its form of CUDA 12.0.
#define cuDeviceTotalMem cuDeviceTotalMem_v2
#define cuDevicePrimaryCtxRelease cuDevicePrimaryCtxRelease_v2
#define cuCtxPushCurrent cuCtxPushCurrent_v2
#define cuCtxPopCurrent cuCtxPopCurrent_v2
#define cuMemGetInfo cuMemGetInfo_v2
#define cuMemAlloc cuMemAlloc_v2
#define cuMemFree cuMemFree_v2
#define cuStreamDestroy cuStreamDestroy_v2
#define cuStreamBeginCapture cuStreamBeginCapture_v2
#define cuStreamGetCaptureInfo cuStreamGetCaptureInfo_v2
#define cuEventDestroy cuEventDestroy_v2
#define cuMemcpyHtoDAsync cuMemcpyHtoDAsync_v2
#define cuMemcpyDtoHAsync cuMemcpyDtoHAsync_v2

namespace {
template <class Signature>
struct Declared;
template <class... A>
struct Declared<Code(A...)> {
  using Pointer = Code (*)(A...);
};
}  // namespace

using namespace cuda;  // the signatures are written in its names
extern "C" {
#define AS_DECLARED(member, symbol, signature) FAKE_DECLARE(symbol, signature)
#define FAKE_DECLARE(symbol, signature) extern std::remove_pointer_t<Declared<signature>::Pointer> symbol;
FOREBAY_CUDA_FUNCTIONS(AS_DECLARED)
}

FAKE Code cuGetProcAddress_v2(const char* name, void** out, int version, std::uint64_t, std::int32_t*) {
  *out = nullptr;
  if (version < cuda::kCudaVersion) return kInvalidValue;
#define NAMED(member, symbol, signature) \
  if (std::string(name) == #symbol) *out = reinterpret_cast<void*>(&symbol);
  FOREBAY_CUDA_FUNCTIONS(NAMED)
  return *out == nullptr ? kInvalidValue : kOk;
}

}  // namespace fake
