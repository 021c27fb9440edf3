// capture_probe: what a capture's own calls come to on a driver: begin, join, wait, end, launch, and what they cost.
// Prints one JSON object: "facts" are statuses (CUresult numbers) of each step of a small program, "costs" medians in
// nanoseconds. What calls outside a capture do to it is call_probe.cu's.
#include <cuda.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr const char* kPtx = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k() { ret; }\n";
CUcontext context;
CUfunction kernel;

CUstream stream(bool blocking = false) {
  CUstream s;
  cuStreamCreate(&s, blocking ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING);
  return s;
}
CUevent event() {
  CUevent e;
  cuEventCreate(&e, CU_EVENT_DISABLE_TIMING);
  return e;
}
int begin(CUstream s, CUstreamCaptureMode m = CU_STREAM_CAPTURE_MODE_GLOBAL) { return cuStreamBeginCapture(s, m); }
int work(CUstream s) { return cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, s, nullptr, nullptr); }
int record(CUevent e, CUstream s) { return cuEventRecord(e, s); }
int wait(CUstream s, CUevent e) { return cuStreamWaitEvent(s, e, 0); }
int state(CUstream s) {  // the capture status: 0 none, 1 active, 2 invalidated; -1 an error
  CUstreamCaptureStatus c;
  return cuStreamIsCapturing(s, &c) == 0 ? static_cast<int>(c) : -1;
}
CUgraph ended;
int end(CUstream s) {
  ended = nullptr;
  return cuStreamEndCapture(s, &ended);
}
int elsewhere(const std::function<int()>& call) {
  int out = -1;
  std::thread([&] { cuCtxSetCurrent(context), out = call(); }).join();
  return out;
}
int nodes() {
  size_t n = 0;
  return ended && cuGraphGetNodes(ended, nullptr, &n) == 0 ? static_cast<int>(n) : -1;
}

std::vector<std::string> lines;
void fact(const char* name, const std::vector<int>& answers) {
  std::string text = std::string("  \"") + name + "\": [";
  for (size_t i = 0; i < answers.size(); ++i) text += (i ? ", " : "") + std::to_string(answers[i]);
  lines.push_back(text + "]");
}
#define FACT(name, ...)                \
  {                                    \
    const CUstream s = stream();       \
    const CUstream t = stream();       \
    const CUevent e = event();         \
    const CUevent f = event();         \
    (void)s, (void)t, (void)e, (void)f; \
    fact(name, {__VA_ARGS__});         \
  }

void facts() {
  FACT("begin, work, end, nodes, state", begin(s), work(s), end(s), nodes(), state(s));
  FACT("begin, end, nodes: empty", begin(s), end(s), nodes());
  FACT("begin twice, state, end", begin(s), begin(s), state(s), end(s));
  FACT("begin on the legacy stream", cuStreamBeginCapture(nullptr, CU_STREAM_CAPTURE_MODE_GLOBAL), begin(CU_STREAM_LEGACY));
  FACT("begin on the per-thread stream, end", begin(CU_STREAM_PER_THREAD), end(CU_STREAM_PER_THREAD));
  FACT("end without a capture", end(s));
  FACT("end twice", begin(s), end(s), end(s));
  FACT("fork, join, end, nodes", begin(s), work(s), record(e, s), wait(t, e), state(t), work(t), record(f, t), wait(s, f), end(s), nodes(), state(t));
  FACT("fork, no join, end, states", begin(s), record(e, s), wait(t, e), work(t), end(s), state(s), state(t));
  FACT("fork without work, no join, end", begin(s), work(s), record(e, s), wait(t, e), end(s), nodes(), state(t));
  FACT("join, then more work on the forked stream, end", begin(s), record(e, s), wait(t, e), work(t), record(f, t), wait(s, f), work(t), end(s));
  FACT("fork, end on the forked stream, states, end", begin(s), record(e, s), wait(t, e), end(t), state(s), state(t), end(s));
  FACT("begin on a forked stream, state", begin(s), record(e, s), wait(t, e), begin(t), state(s), end(s));
  FACT("end on another thread, state, end here", begin(s), elsewhere([&] { return end(s); }), state(s), end(s));
  FACT("thread_local: end on another thread, state, end here", begin(s, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL), elsewhere([&] { return end(s); }), state(s), end(s));
  FACT("relaxed: end on another thread, state", begin(s, CU_STREAM_CAPTURE_MODE_RELAXED), elsewhere([&] { return end(s); }), state(s));
  FACT("work from another thread, end", begin(s), elsewhere([&] { return work(s); }), end(s), nodes());
  FACT("wait for an event never recorded, end", begin(s), wait(s, e), work(s), end(s), nodes());
  FACT("wait for an event recorded outside, state, work, end, state", record(e, t), begin(s), wait(s, e), state(s), work(s), end(s), state(s));
  FACT("record inside, end, then query, sync, wait outside", begin(s), record(e, s), end(s), cuEventQuery(e), cuEventSynchronize(e), wait(t, e));
  FACT("record inside, wait outside after end: query again after a real record", begin(s), record(e, s), end(s), record(e, t), cuEventSynchronize(e), cuEventQuery(e));
  FACT("record before, capture re-records, wait inside", record(e, t), begin(s), record(e, s), wait(t, e), state(t), record(f, t), wait(s, f), end(s));
  FACT("two captures, one waits for the other, states, ends", begin(s), begin(t), record(e, t), wait(s, e), state(s), state(t), end(s), end(t));
  FACT("ended capture's event waited for by a new capture, end", begin(s), record(e, s), end(s), begin(t), wait(t, e), end(t));
  FACT("destroy the capturing stream", begin(s), work(s), cuStreamDestroy(s));
  FACT("destroy a forked stream, end", begin(s), record(e, s), wait(t, e), work(t), cuStreamDestroy(t), end(s));
  FACT("destroy an event recorded inside, wait on its copy, end", begin(s), record(e, s), cuEventDestroy(e), end(s));
  FACT("after invalidation: record, wait, memset, begin, end, state", begin(s), cuCtxSynchronize(), record(e, s), wait(t, e), work(s), begin(s), end(s), state(s));
  FACT("invalid capture leaves others free: sync of another stream", begin(s), cuCtxSynchronize(), cuStreamSynchronize(t), cuCtxSynchronize(), end(s), cuCtxSynchronize());
  CUstreamCaptureMode m = CU_STREAM_CAPTURE_MODE_RELAXED;
  FACT("exchange to relaxed, malloc in a global capture, exchange back, end", begin(s), cuThreadExchangeStreamCaptureMode(&m), [] { CUdeviceptr p; return cuMemAlloc(&p, 512); }(), cuThreadExchangeStreamCaptureMode(&m), static_cast<int>(m), end(s));
  m = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
  FACT("another thread in thread_local: malloc, end", begin(s), elsewhere([&] { CUstreamCaptureMode l = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL; cuThreadExchangeStreamCaptureMode(&l); CUdeviceptr p; return cuMemAlloc(&p, 512); }), end(s));
  CUgraphExec x{};
  FACT("empty graph: instantiate, launch, sync", begin(s), end(s), cuGraphInstantiate(&x, ended, 0), cuGraphLaunch(x, t), cuStreamSynchronize(t));
  FACT("destroy graph, launch, destroy executable at once, launch again", begin(s), work(s), end(s), cuGraphInstantiate(&x, ended, 0), cuGraphDestroy(ended), cuGraphLaunch(x, t), cuGraphExecDestroy(x), cuStreamSynchronize(t));
  FACT("launch in the legacy stream", begin(s), work(s), end(s), cuGraphInstantiate(&x, ended, 0), cuGraphLaunch(x, nullptr), cuStreamSynchronize(nullptr));
  FACT("launch into the stream of an invalid capture", begin(t), work(t), end(t), cuGraphInstantiate(&x, ended, 0), begin(s), cuCtxSynchronize(), cuGraphLaunch(x, s), end(s));
  const CUstream b = stream(true);
  FACT("blocking stream captures, legacy record of a captured stream's event", begin(b), wait(nullptr, e), state(b), end(b));
  FACT("legacy waits for a captured event while a non-blocking stream captures", begin(s), record(e, s), wait(nullptr, e), state(s), end(s));
  void* host = std::malloc(1 << 20);
  CUdeviceptr d;
  cuMemAlloc(&d, 1 << 20);
  static_cast<char*>(host)[0] = 1;
  FACT("pageable upload captured; source changed; launched: the byte then", begin(s), cuMemcpyHtoDAsync(d, host, 64, s), end(s), cuGraphInstantiate(&x, ended, 0), (static_cast<char*>(host)[0] = 7, 0), cuGraphLaunch(x, t), cuStreamSynchronize(t), [&] { char c = 0; cuMemcpyDtoH(&c, d, 1); return static_cast<int>(c); }());
}

double median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return v[v.size() / 2];
}
double timed(const std::function<void()>& call, const std::function<void()>& after = [] {}, int rounds = 101) {
  std::vector<double> ns;
  for (int i = 0; i < rounds; ++i) {
    const auto from = std::chrono::steady_clock::now();
    call();
    ns.push_back(std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - from).count());
    after();
  }
  return median(ns);
}

void costs() {
  const CUstream s = stream(), t = stream();
  const auto sync = [&] { cuStreamSynchronize(t); };
  std::printf(" \"costs\": [\n");
  const char* comma = "";
  for (const int n : {1, 10, 30, 100, 300, 1000}) {
    CUgraph graph{};
    CUgraphExec x{};
    const auto fill = [&] { for (int i = 0; i < n; ++i) work(s); };
    const double start = timed([&] { begin(s); }, [&] { end(s), cuGraphDestroy(ended); });
    const double capture = timed([&] { begin(s), fill(); }, [&] { end(s), cuGraphDestroy(ended); }, 21);
    const double finish = timed([&] { end(s); }, [&] { cuGraphDestroy(ended), begin(s), fill(); }, 21);
    end(s), begin(s), fill(), end(s), graph = ended;
    const double make = timed([&] { cuGraphInstantiate(&x, graph, 0); }, [&] { cuGraphExecDestroy(x); }, 21);
    const double drop = timed([&] { cuGraphExecDestroy(x); }, [&] { cuGraphInstantiate(&x, graph, 0); }, 21);
    cuGraphInstantiate(&x, graph, 0), cuGraphUpload(x, t), sync();
    const double host = timed([&] { cuGraphLaunch(x, t); }, sync);
    const double whole = timed([&] { cuGraphLaunch(x, t), sync(); });
    const double apart = timed([&] { for (int i = 0; i < n; ++i) work(t); sync(); });
    std::printf("%s  {\"nodes\": %d, \"begin\": %.0f, \"begin_and_nodes\": %.0f, \"end\": %.0f, \"instantiate\": %.0f, \"destroy\": %.0f, "
                "\"launch\": %.0f, \"launch_and_sync\": %.0f, \"apart_and_sync\": %.0f}",
                comma, n, start, capture, finish, make, drop, host, whole, apart);
    comma = ",\n";
  }
  std::printf("\n ]\n");
}

}  // namespace

int main() {
  CUdevice device;
  CUmodule module;
  char name[64];
  int version;
  cuInit(0), cuDeviceGet(&device, 0), cuDevicePrimaryCtxRetain(&context, device), cuCtxSetCurrent(context);
  cuDeviceGetName(name, sizeof name, device), cuDriverGetVersion(&version);
  if (cuModuleLoadData(&module, kPtx) != 0 || cuModuleGetFunction(&kernel, module, "k") != 0) return 1;
  work(nullptr), cuCtxSynchronize();
  facts();
  std::printf("{\n \"device\": \"%s\", \"cuda\": %d, \"made_by\": \"benchmarks/gpu/capture_probe.cu\",\n \"facts\": {\n", name, version);
  for (size_t i = 0; i < lines.size(); ++i) std::printf("%s%s\n", lines[i].c_str(), i + 1 < lines.size() ? "," : "");
  std::printf(" },\n");
  costs();
  std::printf("}\n");
}
