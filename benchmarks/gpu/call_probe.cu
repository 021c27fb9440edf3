// call_probe: what each driver and runtime call comes to during a stream capture, and whether it waits for a running kernel.
// Prints one JSON object a line; the table of calls in src/forebay/calls/ is held against its output.
//
// For a capture: a non-blocking (or, where said, a blocking) stream captures in each of the three modes; the call is made by the
// capturing thread and by another one; then the capture is ended, and that status says whether the call invalidated it.
// For waits: a kernel of 20 ms runs on a non-blocking stream that the call does not name.
#include <cuda.h>
#include <cuda_runtime.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <thread>
#include <vector>

namespace {

constexpr std::size_t kPage = 2u << 20;
constexpr long long kSpinCycles = 36'000'000;  // about 20 ms
constexpr const char* kPtx = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k() { ret; }\n";

__global__ void spin(long long cycles) {
  const long long start = clock64();
  while (clock64() - start < cycles) {
  }
}
__global__ void nothing() {}
__global__ void never_launched() {}

// Everything that a call may need, made before the capture begins and left to leak where a failed call does not take it.
struct World {
  CUstream cap{}, other{}, busy{}, spare{}, doomed{};
  CUevent outside{}, earlier{}, inside{};
  CUdeviceptr device{}, loose{}, range{}, mapped{}, ordered{};
  CUmemGenericAllocationHandle frame{}, second{};
  CUarray array{};
  void *pinned{}, *pageable{}, *loose_pinned{}, *registered{};
  CUmemoryPool pool{};
  CUmodule module{};
  CUlibrary library{};
  CUgraph graph{};
  CUgraphExec executable{};
};
CUcontext context;

CUmemAllocationProp frame_kind() {
  CUmemAllocationProp p{};
  p.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  p.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  return p;
}
CUmemAccessDesc access_kind() {
  CUmemAccessDesc a{};
  a.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  a.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  return a;
}
CUmemPoolProps pool_kind() {
  CUmemPoolProps p{};
  p.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  p.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  return p;
}

void must(int status, const char* what) {
  if (status == 0) return;
  std::fprintf(stderr, "setting up: %s came to %d\n", what, status);
  std::exit(1);
}
#define MUST(call) must(static_cast<int>(call), #call)

World make_world(unsigned cap_flags) {
  World w;
  const CUmemAllocationProp frame = frame_kind();
  const CUmemAccessDesc access = access_kind();
  const CUmemPoolProps pool = pool_kind();
  CUDA_ARRAY_DESCRIPTOR shape{64, 64, CU_AD_FORMAT_FLOAT, 1};
  MUST(cuStreamCreate(&w.cap, cap_flags));
  for (CUstream* s : {&w.other, &w.busy, &w.spare, &w.doomed}) MUST(cuStreamCreate(s, CU_STREAM_NON_BLOCKING));
  for (CUevent* e : {&w.outside, &w.earlier, &w.inside}) MUST(cuEventCreate(e, CU_EVENT_DEFAULT));
  MUST(cuMemAlloc(&w.device, kPage));
  MUST(cuMemAlloc(&w.loose, kPage));
  MUST(cuArrayCreate(&w.array, &shape));
  MUST(cuMemHostAlloc(&w.pinned, kPage, 0));
  MUST(cuMemHostAlloc(&w.loose_pinned, kPage, 0));
  w.pageable = std::aligned_alloc(4096, kPage);
  w.registered = std::aligned_alloc(4096, kPage);
  MUST(cuMemHostRegister(w.registered, kPage, 0));
  MUST(cuMemAddressReserve(&w.range, kPage, 0, 0, 0));
  MUST(cuMemAddressReserve(&w.mapped, kPage, 0, 0, 0));
  MUST(cuMemCreate(&w.frame, kPage, &frame, 0));
  MUST(cuMemCreate(&w.second, kPage, &frame, 0));
  MUST(cuMemMap(w.mapped, kPage, 0, w.second, 0));
  MUST(cuMemSetAccess(w.mapped, kPage, &access, 1));
  MUST(cuMemPoolCreate(&w.pool, &pool));
  MUST(cuMemAllocAsync(&w.ordered, kPage, w.other));
  MUST(cuModuleLoadData(&w.module, kPtx));
  MUST(cuLibraryLoadData(&w.library, kPtx, nullptr, nullptr, 0, nullptr, nullptr, 0));
  MUST(cuGraphCreate(&w.graph, 0));
  CUgraphNode node;
  MUST(cuGraphAddEmptyNode(&node, w.graph, nullptr, 0));
  MUST(cuGraphInstantiateWithFlags(&w.executable, w.graph, 0));
  MUST(cuEventRecord(w.earlier, w.other));
  MUST(cuEventRecord(w.outside, w.other));
  MUST(cuCtxSynchronize());
  return w;
}

// A pool reserves so many addresses that the worlds of one run would use them up: no world leaves one behind.
int drop(CUmemoryPool& pool) {
  const int status = cuMemPoolDestroy(pool);
  if (status == 0) pool = nullptr;
  return status;
}
void end_world(World& w) {
  if (w.pool != nullptr) drop(w.pool);
  cuStreamDestroy(w.cap);
  for (CUdeviceptr range : {w.range, w.mapped}) cuMemAddressFree(range, kPage);

}

struct Case {
  const char* call;
  const char* on;  // which of several objects the call is about
  std::function<int(World&)> make;
};
#define CASE(name, on, body) Case{name, on, [](World & w) -> int { (void)w; return static_cast<int>(body); }}

void take(std::vector<Case>& all, std::vector<Case> more) { all.insert(all.end(), more.begin(), more.end()); }

void memory_cases(std::vector<Case>& all) {
  static CUdeviceptr address;
  static CUmemGenericAllocationHandle handle;
  static CUmemoryPool pool;
  static CUarray array;
  static CUipcMemHandle ipc;
  static void* host;
  static std::size_t a, b;
  static const CUmemAllocationProp frame = frame_kind();
  static const CUmemAccessDesc access = access_kind();
  static const CUmemPoolProps kind = pool_kind();
  static const CUDA_ARRAY_DESCRIPTOR shape{64, 64, CU_AD_FORMAT_FLOAT, 1};
  static cuuint64_t value = 0;
  take(all, {CASE("cuMemAlloc", "", cuMemAlloc(&address, kPage)),
             CASE("cudaMalloc", "", cudaMalloc(&host, kPage)),
             CASE("cuMemAllocPitch", "", cuMemAllocPitch(&address, &a, 4096, 64, 16)),
             CASE("cuMemFree", "", cuMemFree(w.loose)),
             CASE("cudaFree", "", cudaFree(reinterpret_cast<void*>(w.loose))),
             CASE("cuArrayCreate", "", cuArrayCreate(&array, &shape)),
             CASE("cuArrayDestroy", "", cuArrayDestroy(w.array)),
             CASE("cuMemHostAlloc", "", cuMemHostAlloc(&host, kPage, 0)),
             CASE("cudaHostAlloc", "", cudaHostAlloc(&host, kPage, 0)),
             CASE("cuMemFreeHost", "", cuMemFreeHost(w.loose_pinned)),
             CASE("cudaFreeHost", "", cudaFreeHost(w.loose_pinned)),
             CASE("cuMemHostRegister", "", cuMemHostRegister(w.pageable, kPage, 0)),
             CASE("cuMemHostUnregister", "", cuMemHostUnregister(w.registered)),
             CASE("cuMemGetInfo", "", cuMemGetInfo(&a, &b)),
             CASE("cudaMemGetInfo", "", cudaMemGetInfo(&a, &b)),
             CASE("cuMemAddressReserve", "", cuMemAddressReserve(&address, kPage, 0, 0, 0)),
             CASE("cuMemAddressFree", "", cuMemAddressFree(w.range, kPage)),
             CASE("cuMemCreate", "", cuMemCreate(&handle, kPage, &frame, 0)),
             CASE("cuMemMap", "", cuMemMap(w.range, kPage, 0, w.frame, 0)),
             CASE("cuMemSetAccess", "", cuMemSetAccess(w.mapped, kPage, &access, 1)),
             CASE("cuMemUnmap", "", cuMemUnmap(w.mapped, kPage)),
             CASE("cuMemRelease", "", cuMemRelease(w.frame)),
             CASE("cuMemAllocAsync", "capturing", cuMemAllocAsync(&address, kPage, w.cap)),
             CASE("cuMemAllocAsync", "other", cuMemAllocAsync(&address, kPage, w.other)),
             CASE("cuMemFreeAsync", "other", cuMemFreeAsync(w.ordered, w.other)),
             CASE("cuMemPoolCreate", "", cuMemPoolCreate(&pool, &kind)),
             CASE("cuMemPoolDestroy", "", drop(w.pool)),
             CASE("cuMemPoolTrimTo", "", cuMemPoolTrimTo(w.pool, 0)),
             CASE("cuMemPoolSetAttribute", "", cuMemPoolSetAttribute(w.pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &value)),
             CASE("cuMemPoolSetAccess", "", cuMemPoolSetAccess(w.pool, &access, 1)),
             CASE("cuPointerGetAttribute", "",
                  cuPointerGetAttribute(&address, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, w.device)),
             CASE("cuIpcGetMemHandle", "", cuIpcGetMemHandle(&ipc, w.device))});
}

void work_cases(std::vector<Case>& all) {
  static cudaFuncAttributes attributes;
  static int blocks;
  take(all, {CASE("cudaLaunchKernel", "capturing", (nothing<<<1, 1, 0, w.cap>>>(), cudaGetLastError())),
             CASE("cudaLaunchKernel", "other", (nothing<<<1, 1, 0, w.other>>>(), cudaGetLastError())),
             CASE("cudaLaunchKernel", "legacy", (nothing<<<1, 1, 0, nullptr>>>(), cudaGetLastError())),
             CASE("cudaLaunchHostFunc", "capturing", cudaLaunchHostFunc(w.cap, [](void*) {}, nullptr)),
             CASE("cudaStreamAddCallback", "capturing",
                  cudaStreamAddCallback(w.cap, [](cudaStream_t, cudaError_t, void*) {}, nullptr, 0)),
             CASE("cudaStreamAddCallback", "other",
                  cudaStreamAddCallback(w.other, [](cudaStream_t, cudaError_t, void*) {}, nullptr, 0)),
             CASE("cudaMemcpy", "pageable up", cudaMemcpy(reinterpret_cast<void*>(w.device), w.pageable, kPage, cudaMemcpyDefault)),
             CASE("cudaMemcpy", "down", cudaMemcpy(w.pinned, reinterpret_cast<void*>(w.device), kPage, cudaMemcpyDefault)),
             CASE("cuMemcpyHtoD", "pinned up", cuMemcpyHtoD(w.device, w.pinned, kPage)),
             CASE("cuMemcpyDtoH", "pageable down", cuMemcpyDtoH(w.pageable, w.device, kPage)),
             CASE("cuMemcpyDtoD", "", cuMemcpyDtoD(w.device, w.mapped, kPage)),
             CASE("cuMemsetD8", "", cuMemsetD8(w.device, 0, kPage)),
             CASE("cudaMemset", "", cudaMemset(reinterpret_cast<void*>(w.device), 0, kPage)),
             CASE("cuMemsetD8Async", "capturing", cuMemsetD8Async(w.device, 0, kPage, w.cap)),
             CASE("cuMemcpyHtoDAsync", "pageable, capturing", cuMemcpyHtoDAsync(w.device, w.pageable, kPage, w.cap)),
             CASE("cuMemcpyHtoDAsync", "pageable, other", cuMemcpyHtoDAsync(w.device, w.pageable, kPage, w.other)),
             CASE("cuMemcpyHtoDAsync", "pinned, capturing", cuMemcpyHtoDAsync(w.device, w.pinned, kPage, w.cap)),
             CASE("cuMemcpyDtoHAsync", "pageable, capturing", cuMemcpyDtoHAsync(w.pageable, w.device, kPage, w.cap)),
             CASE("cuMemcpyDtoHAsync", "pinned, other", cuMemcpyDtoHAsync(w.pinned, w.device, kPage, w.other)),
             CASE("cudaFuncGetAttributes", "", cudaFuncGetAttributes(&attributes, never_launched)),
             CASE("cudaFuncSetAttribute", "",
                  cudaFuncSetAttribute(never_launched, cudaFuncAttributePreferredSharedMemoryCarveout, 50)),
             CASE("cudaOccupancyMaxActiveBlocksPerMultiprocessor", "",
                  cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, nothing, 128, 0))});
}

void ordering_cases(std::vector<Case>& all) {
  static CUstream stream;
  static CUevent event;
  static unsigned long long id;
  static CUstreamCaptureStatus capturing;
  static float ms;
  static CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  static int device;
  take(all, {CASE("cuStreamCreate", "", cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING)),
             CASE("cuStreamDestroy", "other", cuStreamDestroy(w.doomed)),
             CASE("cuStreamSynchronize", "capturing", cuStreamSynchronize(w.cap)),
             CASE("cuStreamSynchronize", "other", cuStreamSynchronize(w.other)),
             CASE("cuStreamSynchronize", "legacy", cuStreamSynchronize(nullptr)),
             CASE("cuStreamQuery", "capturing", cuStreamQuery(w.cap)),
             CASE("cuStreamQuery", "other", cuStreamQuery(w.other)),
             CASE("cuStreamQuery", "legacy", cuStreamQuery(nullptr)),
             CASE("cuStreamWaitEvent", "capturing, event outside", cuStreamWaitEvent(w.cap, w.outside, 0)),
             CASE("cuStreamWaitEvent", "other, event outside", cuStreamWaitEvent(w.other, w.outside, 0)),
             CASE("cuStreamWaitEvent", "legacy, event outside", cuStreamWaitEvent(nullptr, w.outside, 0)),
             CASE("cuStreamGetId", "capturing", cuStreamGetId(w.cap, &id)),
             CASE("cuStreamIsCapturing", "capturing", cuStreamIsCapturing(w.cap, &capturing)),
             CASE("cuStreamIsCapturing", "legacy", cuStreamIsCapturing(nullptr, &capturing)),
             CASE("cuEventCreate", "", cuEventCreate(&event, CU_EVENT_DEFAULT)),
             CASE("cuEventDestroy", "outside", cuEventDestroy(w.outside)),
             CASE("cuEventDestroy", "captured", cuEventDestroy(w.inside)),
             CASE("cuEventRecord", "capturing", cuEventRecord(w.outside, w.cap)),
             CASE("cuEventRecord", "other", cuEventRecord(w.outside, w.other)),
             CASE("cuEventRecord", "legacy", cuEventRecord(w.outside, nullptr)),
             CASE("cuEventQuery", "outside", cuEventQuery(w.outside)),
             CASE("cuEventQuery", "captured", cuEventQuery(w.inside)),
             CASE("cuEventSynchronize", "outside", cuEventSynchronize(w.outside)),
             CASE("cuEventSynchronize", "captured", cuEventSynchronize(w.inside)),
             CASE("cuEventElapsedTime", "outside", cuEventElapsedTime(&ms, w.earlier, w.outside)),
             CASE("cuEventElapsedTime", "captured", cuEventElapsedTime(&ms, w.earlier, w.inside)),
             CASE("cuCtxSynchronize", "", cuCtxSynchronize()),
             CASE("cudaDeviceSynchronize", "", cudaDeviceSynchronize()),
             CASE("cudaSetDevice", "", cudaSetDevice(0)),
             CASE("cudaGetDevice", "", cudaGetDevice(&device)),
             CASE("cudaDeviceSetLimit", "", cudaDeviceSetLimit(cudaLimitPrintfFifoSize, 2u << 20)),
             CASE("cuThreadExchangeStreamCaptureMode", "", cuThreadExchangeStreamCaptureMode(&mode)),
             CASE("cuStreamWriteValue32", "capturing", cuStreamWriteValue32(w.cap, w.device, 1, 0)),
             CASE("cuStreamWaitValue32", "capturing", cuStreamWaitValue32(w.cap, w.device, 0, 0))});
}

void graph_cases(std::vector<Case>& all) {
  static CUgraph graph;
  static CUgraphNode node;
  static CUgraphExec executable;
  static CUgraphExecUpdateResultInfo info;
  static CUmodule module;
  static CUlibrary library;
  static CUfunction function;
  static CUkernel kernel;
  take(all, {CASE("cuStreamBeginCapture", "other", cuStreamBeginCapture(w.spare, CU_STREAM_CAPTURE_MODE_RELAXED)),
             CASE("cuGraphCreate", "", cuGraphCreate(&graph, 0)),
             CASE("cuGraphDestroy", "", cuGraphDestroy(w.graph)),
             CASE("cuGraphAddEmptyNode", "", cuGraphAddEmptyNode(&node, w.graph, nullptr, 0)),
             CASE("cuGraphInstantiateWithFlags", "", cuGraphInstantiateWithFlags(&executable, w.graph, 0)),
             CASE("cuGraphLaunch", "capturing", cuGraphLaunch(w.executable, w.cap)),
             CASE("cuGraphLaunch", "other", cuGraphLaunch(w.executable, w.other)),
             CASE("cuGraphUpload", "capturing", cuGraphUpload(w.executable, w.cap)),
             CASE("cuGraphUpload", "other", cuGraphUpload(w.executable, w.other)),
             CASE("cuGraphExecUpdate", "", cuGraphExecUpdate(w.executable, w.graph, &info)),
             CASE("cuGraphExecDestroy", "", cuGraphExecDestroy(w.executable)),
             CASE("cuModuleLoadData", "", cuModuleLoadData(&module, kPtx)),
             CASE("cuModuleGetFunction", "", cuModuleGetFunction(&function, w.module, "k")),
             CASE("cuModuleUnload", "", cuModuleUnload(w.module)),
             CASE("cuLibraryLoadData", "", cuLibraryLoadData(&library, kPtx, nullptr, nullptr, 0, nullptr, nullptr, 0)),
             CASE("cuLibraryGetKernel", "", cuLibraryGetKernel(&kernel, w.library, "k")),
             CASE("cuKernelGetFunction", "",
                  (cuLibraryGetKernel(&kernel, w.library, "k"), cuKernelGetFunction(&function, kernel))),
             CASE("cuLibraryUnload", "", cuLibraryUnload(w.library))});
}

void print(const Case& c, const char* extra) { std::printf("{\"call\":\"%s\",\"on\":\"%s\",%s}\n", c.call, c.on, extra); }

void leave_no_capture(CUstream stream) {
  CUstreamCaptureStatus state{};
  CUgraph graph = nullptr;
  if (cuStreamIsCapturing(stream, &state) == CUDA_SUCCESS && state != CU_STREAM_CAPTURE_STATUS_NONE)
    cuStreamEndCapture(stream, &graph);
}

void in_capture(const Case& c, unsigned cap_flags, int mode, bool elsewhere) {
  static const char* kModes[] = {"global", "thread_local", "relaxed"};
  World w = make_world(cap_flags);
  MUST(cuStreamBeginCapture(w.cap, static_cast<CUstreamCaptureMode>(mode)));
  MUST(cuMemsetD8Async(w.device, 0, 512, w.cap));
  MUST(cuEventRecord(w.inside, w.cap));
  int status = 0;
  auto call = [&] {
    cuCtxSetCurrent(context);
    status = c.make(w);
  };
  if (elsewhere) std::thread(call).join();
  else call();
  CUgraph graph = nullptr;
  const int end = cuStreamEndCapture(w.cap, &graph);
  cudaGetLastError();
  char extra[256];
  std::snprintf(extra, sizeof extra, "\"capture\":\"%s\",\"mode\":\"%s\",\"thread\":\"%s\",\"status\":%d,\"end\":%d",
                cap_flags ? "nonblocking" : "blocking", kModes[mode], elsewhere ? "other" : "same", status, end);
  print(c, extra);
  leave_no_capture(w.spare);
  end_world(w);
}

void while_busy(const Case& c) {
  World w = make_world(CU_STREAM_NON_BLOCKING);
  spin<<<1, 1, 0, w.busy>>>(kSpinCycles);
  const auto start = std::chrono::steady_clock::now();
  const int status = c.make(w);
  const double ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  const bool running = cuStreamQuery(w.busy) == CUDA_ERROR_NOT_READY;
  char extra[128];
  std::snprintf(extra, sizeof extra, "\"busy_ms\":%.3f,\"still_running\":%s,\"status\":%d", ms, running ? "true" : "false", status);
  leave_no_capture(w.spare);
  cuCtxSynchronize();
  cudaGetLastError();
  end_world(w);
  print(c, extra);
}

}  // namespace

int main() {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // a crash leaves what came before it
  MUST(cudaFree(nullptr));
  MUST(cuCtxGetCurrent(&context));
  spin<<<1, 1>>>(1);
  nothing<<<1, 1>>>();
  MUST(cudaDeviceSynchronize());
  std::vector<Case> cases;
  memory_cases(cases);
  work_cases(cases);
  ordering_cases(cases);
  graph_cases(cases);
  for (const Case& c : cases) while_busy(c);
  for (const Case& c : cases)
    for (unsigned flags : {unsigned{CU_STREAM_NON_BLOCKING}, unsigned{CU_STREAM_DEFAULT}})
      for (int mode : {0, 1, 2})
        for (bool elsewhere : {false, true}) in_capture(c, flags, mode, elsewhere);
  return 0;
}
