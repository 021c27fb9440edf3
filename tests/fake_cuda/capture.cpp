// capture: which calls a capture refuses, and what they do to it; and the way in, cuGetProcAddress.
#include <algorithm>
#include <type_traits>

#include "fake.hpp"

namespace fake {

thread_local std::int32_t thread_mode = Mode::global;

void broken(const CapturePtr& capture) { capture->valid = false; }

// A thread that relaxed itself concerns no capture; another every global one, and its own unless that is relaxed.
Code unsafe() {
  Code code = kOk;
  for (const CapturePtr& capture : machine().captures) {
    const bool own = capture->thread == std::this_thread::get_id();
    const bool concerned =
        capture->mode != Mode::relaxed && (own || (capture->mode == Mode::global && thread_mode == Mode::global));
    if (!concerned || thread_mode == Mode::relaxed) continue;
    broken(capture);
    code = kUnsupported;
  }
  return code;
}

namespace {

// The legacy stream would tie itself to what a blocking stream captures.
Code legacy(int device, bool breaks) {
  Code code = kOk;
  for (auto& [handle, stream] : machine().streams) {
    if (stream.device != device || !stream.blocking || !stream.capture) continue;
    if (breaks) broken(stream.capture);
    code = kImplicit;
  }
  return code;
}

}  // namespace

Target target(cuda::StreamPointer given) {
  const auto value = reinterpret_cast<std::uint64_t>(given);
  Target t{.code = kOk, .device = current_device(), .handle = {value}, .capture = nullptr};
  if (value <= kLegacyStream.value) t.code = legacy(t.device, true);
  if (value <= kPerThreadStream.value) return t;
  const auto known = machine().streams.find(value);
  if (known == machine().streams.end()) {
    t.code = kInvalidHandle;
    return t;
  }
  t.device = known->second.device;
  t.capture = known->second.capture;
  return t;
}

FAKE Code cuThreadExchangeStreamCaptureMode(std::int32_t* mode) {
  if (const Code c = entered_anywhere("cuThreadExchangeStreamCaptureMode"); c != kOk) return c;
  if (*mode < Mode::global || *mode > Mode::relaxed) return kInvalidValue;
  std::swap(*mode, thread_mode);
  return kOk;
}

FAKE Code cuStreamIsCapturing(cuda::StreamPointer given, std::int32_t* status) {
  if (const Code c = entered("cuStreamIsCapturing"); c != kOk) return c;
  const auto hold = locked();
  const auto value = reinterpret_cast<std::uint64_t>(given);
  *status = 0;
  if (value <= kLegacyStream.value) return legacy(current_device(), false);
  const Target t = target(given);
  if (t.capture) *status = t.capture->valid ? 1 : 2;
  return t.code;
}

FAKE Code cuStreamBeginCapture_v2(cuda::StreamPointer stream, std::int32_t mode) {
  if (const Code c = entered("cuStreamBeginCapture"); c != kOk) return c;
  const auto hold = locked();
  const Target t = target(stream);
  if (t.code != kOk) return t.code;
  if (t.handle.value <= kLegacyStream.value) return kUnsupported;
  if (t.capture) return kIllegalState;
  const auto capture =
      std::make_shared<Capture>(Capture{static_cast<Mode>(mode), std::this_thread::get_id(), t.handle.value, {}, true});
  machine().captures.push_back(capture);
  machine().streams[t.handle.value].capture = capture;
  return kOk;
}

FAKE Code cuStreamEndCapture(cuda::StreamPointer stream, void** graph) {
  if (const Code c = entered("cuStreamEndCapture"); c != kOk) return c;
  const auto hold = locked();
  *graph = nullptr;
  const Target t = target(stream);
  if (t.code != kOk) return t.code;
  if (!t.capture) return kIllegalState;
  if (t.handle.value != t.capture->origin) {
    broken(t.capture);
    return kUnmatched;
  }
  if (t.capture->mode != Mode::relaxed && t.capture->thread != std::this_thread::get_id()) return kWrongThread;
  std::erase(machine().captures, t.capture);
  for (auto& [handle, known] : machine().streams)
    if (known.capture == t.capture) known.capture = nullptr;
  if (!t.capture->valid) return kInvalidated;
  if (!t.capture->unjoined.empty()) return kUnjoined;
  *graph = new char;
  return kOk;
}

FAKE Code cuGraphDestroy(void* graph) {
  if (const Code c = entered("cuGraphDestroy"); c != kOk) return c;
  delete static_cast<char*>(graph);
  return kOk;
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
