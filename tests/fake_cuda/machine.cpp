// machine: the state of the fake, its faults on demand, contexts and devices.
#include <unistd.h>

#include <utility>

#include "fake.hpp"

namespace fake {

namespace {

std::unique_ptr<Machine> the_machine;
std::atomic<bool> over{false};
const struct AtExit {
  ~AtExit() { over = true; }
} at_exit;
std::atomic<pid_t> initialised{0};

struct Contexts {
  std::vector<int> stack;  // devices
};
thread_local Contexts contexts;

std::array<char, kMostDevices> context_of{};
cuda::Context context(int device) {
  return reinterpret_cast<cuda::Context>(&context_of[static_cast<std::size_t>(device)]);
}
int device_of(cuda::Context given) {
  const auto at = reinterpret_cast<char*>(given) - context_of.data();
  return at >= 0 && at < kMostDevices ? static_cast<int>(at) : -1;
}

// The answer of a plan that strikes now.
Code planned(Machine& m, const std::string& function) {
  // The end of a driver, which may come whenever its last user goes: of no scenario, and it fails only by its name.
  const bool at_the_end = function == "cuDevicePrimaryCtxRelease";
  m.calls += at_the_end ? 0 : 1;
  static const std::set<std::string> of_the_thread = {"cuCtxGetCurrent", "cuCtxPushCurrent", "cuCtxPopCurrent",
                                                      "cuThreadExchangeStreamCaptureMode"};
  for (const Plan& fault : m.lasting) {
    const bool all = fault.calls.empty() && !of_the_thread.contains(function);
    if (all || fault.calls.contains(function)) return fault.code;
  }
  if (m.plans.empty()) return kOk;
  Plan& plan = m.plans.front();
  if ((plan.calls.empty() ? at_the_end : !plan.calls.contains(function)) || --plan.nth > 0) return kOk;
  const Plan struck = plan;
  m.plans.erase(m.plans.begin());
  m.struck = function;
  if (sticky(static_cast<Status>(struck.code)))
    m.lasting.insert(m.lasting.begin(), Plan{{}, 1, struck.code, true});
  else if (struck.always)
    m.lasting.push_back(struck);
  return struck.code;
}

}  // namespace

Machine::Machine(const std::vector<std::uint64_t>& capacities)
    : sim(std::make_unique<SimDriver>(capacities, *costs_named("h200"), sim::fifo_schedule())) {}

Machine& machine() {
  if (!the_machine) the_machine = std::make_unique<Machine>(std::vector<std::uint64_t>{64ull << 30, 64ull << 30});
  return *the_machine;
}

std::unique_lock<std::mutex> locked() { return std::unique_lock(machine().lock); }

Code entered_anywhere(const char* function) {
  if (over) return kDeinitialized;
  if (initialised == 0 || initialised != ::getpid()) return kNotInitialized;
  const auto hold = locked();
  ++machine().counts[function];
  return planned(machine(), function);
}

Code entered(const char* function) {
  if (const Code c = entered_anywhere(function); c != kOk) return c;
  return contexts.stack.empty() ? kInvalidContext : kOk;
}

int current_device() { return contexts.stack.back(); }

std::optional<int> device_of(const std::map<std::uint64_t, int>& handles, const void* handle) {
  const auto known = handles.find(reinterpret_cast<std::uint64_t>(handle));
  return known == handles.end() ? std::nullopt : std::optional(known->second);
}

std::optional<int> device_of(cuda::StreamPointer stream) {
  if (reinterpret_cast<std::uint64_t>(stream) <= kPerThreadStream.value) return current_device();
  return device_of(machine().streams, stream);
}

void lost(Code code) {
  const auto hold = locked();
  machine().lasting.insert(machine().lasting.begin(), Plan{{}, 1, code, true});
}

// ---- what tests tell it

FAKE void fake_reset(int devices, const std::uint64_t* capacities) {
  the_machine.reset();
  the_machine = std::make_unique<Machine>(std::vector<std::uint64_t>(capacities, capacities + devices));
  over = false;
  contexts.stack.clear();
}

// The nth call from now of these functions (separated by spaces; none: of all) answers `code`.
FAKE void fake_plan(const char* functions, std::uint64_t nth, Code code, int always) {
  Plan plan{{}, nth, code, always != 0};
  std::string name;
  for (const char c : std::string(functions) + " ") {
    if (c != ' ') name += c;
    if (c == ' ' && !name.empty()) plan.calls.insert(std::exchange(name, {}));
  }
  const auto hold = locked();
  machine().plans.push_back(plan);
}
FAKE void fake_forget_plans() {
  const auto hold = locked();
  machine().plans.clear(), machine().lasting.clear();
}
FAKE std::uint64_t fake_plans_left() { return machine().plans.size(); }
FAKE const char* fake_struck() { return machine().struck.c_str(); }
FAKE std::uint64_t fake_calls() { return machine().calls; }
FAKE std::uint64_t fake_count(const char* function) { return machine().counts[function]; }
FAKE int fake_retained(int device) { return machine().retained[static_cast<std::size_t>(device)]; }
FAKE void fake_lose(Code code) { lost(code); }
FAKE void fake_exit() { over = true; }

// used, pinned, segments, ranges, frames, mappings, streams, events
FAKE void fake_account(int device, std::uint64_t* out) {
  const Account a = machine().sim->account(device);
  const std::uint64_t all[] = {a.used_bytes, a.pinned_bytes, a.segments, a.ranges,
                               a.frames,     a.mappings,     a.streams,  a.events};
  std::memcpy(out, all, sizeof all);
}

// The stream works for so long, on the fake's clock: it passes in waits, and a little with every question.
FAKE void fake_busy(int device, std::uint64_t stream, std::int64_t ns) {
  Work work{.name = "busy", .cost_ns = ns, .uses = {}, .run = [](auto) { return Status::ok; }};
  (void)machine().sim->launch(device, StreamHandle{stream}, std::move(work));
}

// Bytes below every function that can fail: device or pinned, as the host and the driver call them.
FAKE void fake_fill(int device, std::uint64_t stream, Address address, int value, std::uint64_t bytes) {
  const auto hold = locked();
  if (touchable(address, bytes))
    (void)machine().sim->memset(device, address, static_cast<std::uint8_t>(value), bytes, StreamHandle{stream});
}
FAKE int fake_read(int device, Address address, void* out, std::uint64_t bytes) {
  {
    const auto hold = locked();
    if (!touchable(address, bytes)) return kInvalidValue;
  }
  (void)machine().sim->device_sync(device);
  return code_of(machine().sim->download(device, out, address, bytes, kLegacyStream));
}
FAKE void fake_settle(int device) { (void)machine().sim->device_sync(device); }

// ---- devices and contexts

FAKE Code cuInit(std::uint32_t flags) {
  if (over) return kDeinitialized;
  if (flags != 0) return kInvalidValue;
  initialised = ::getpid();
  machine();
  return kOk;
}

FAKE Code cuGetErrorName(Code code, const char** name) {
  static const std::map<Code, const char*> known = {{1, "CUDA_ERROR_INVALID_VALUE"},
                                                    {2, "CUDA_ERROR_OUT_OF_MEMORY"},
                                                    {3, "CUDA_ERROR_NOT_INITIALIZED"},
                                                    {4, "CUDA_ERROR_DEINITIALIZED"},
                                                    {100, "CUDA_ERROR_NO_DEVICE"},
                                                    {201, "CUDA_ERROR_INVALID_CONTEXT"},
                                                    {700, "CUDA_ERROR_ILLEGAL_ADDRESS"},
                                                    {801, "CUDA_ERROR_NOT_SUPPORTED"},
                                                    {900, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"}};
  const auto found = known.find(code);
  *name = found == known.end() ? nullptr : found->second;
  return found == known.end() ? kInvalidValue : kOk;
}

FAKE Code cuDeviceGetCount(int* count) {
  if (const Code c = entered_anywhere("cuDeviceGetCount"); c != kOk) return c;
  *count = machine().sim->device_count();
  return kOk;
}

FAKE Code cuDeviceGet(cuda::Ordinal* device, int index) {
  if (const Code c = entered_anywhere("cuDeviceGet"); c != kOk) return c;
  if (index < 0 || index >= machine().sim->device_count()) return kInvalidDevice;
  *device = index;
  return kOk;
}

FAKE Code cuDeviceGetName(char* name, int length, cuda::Ordinal) {
  if (const Code c = entered_anywhere("cuDeviceGetName"); c != kOk) return c;
  std::strncpy(name, "fake device", static_cast<std::size_t>(length));
  return kOk;
}

FAKE Code cuDeviceTotalMem_v2(std::size_t* bytes, cuda::Ordinal device) {
  if (const Code c = entered_anywhere("cuDeviceTotalMem"); c != kOk) return c;
  *bytes = machine().sim->memory_info(device)->total_bytes;
  return kOk;
}

FAKE Code cuDeviceGetAttribute(int* value, std::int32_t attribute, cuda::Ordinal) {
  if (const Code c = entered_anywhere("cuDeviceGetAttribute"); c != kOk) return c;
  if (attribute != cuda::kHasVirtualMemory) return kInvalidValue;
  *value = 1;
  return kOk;
}

FAKE Code cuDevicePrimaryCtxRetain(cuda::Context* out, cuda::Ordinal device) {
  if (const Code c = entered_anywhere("cuDevicePrimaryCtxRetain"); c != kOk) return c;
  if (device < 0 || device >= machine().sim->device_count()) return kInvalidDevice;
  const auto hold = locked();
  ++machine().retained[static_cast<std::size_t>(device)];
  machine().opened[static_cast<std::size_t>(device)] = true;
  *out = context(device);
  return kOk;
}

FAKE Code cuDevicePrimaryCtxRelease_v2(cuda::Ordinal device) {
  if (const Code c = entered_anywhere("cuDevicePrimaryCtxRelease"); c != kOk) return c;
  const auto hold = locked();
  int& retained = machine().retained[static_cast<std::size_t>(device)];
  if (retained == 0) return kInvalidContext;
  --retained;
  return kOk;
}

FAKE Code cuCtxGetCurrent(cuda::Context* out) {
  if (const Code c = entered_anywhere("cuCtxGetCurrent"); c != kOk) return c;
  *out = contexts.stack.empty() ? nullptr : context(contexts.stack.back());
  return kOk;
}

FAKE Code cuCtxSetCurrent(cuda::Context given) {
  if (const Code c = entered_anywhere("cuCtxSetCurrent"); c != kOk) return c;
  const int device = device_of(given);
  if (device < 0 || !machine().opened[static_cast<std::size_t>(device)]) return kInvalidContext;
  if (contexts.stack.empty()) contexts.stack.push_back(device);
  contexts.stack.back() = device;
  return kOk;
}

FAKE Code cuCtxPushCurrent_v2(cuda::Context given) {
  if (const Code c = entered_anywhere("cuCtxPushCurrent"); c != kOk) return c;
  const int device = device_of(given);
  if (device < 0 || !machine().opened[static_cast<std::size_t>(device)]) return kInvalidContext;
  contexts.stack.push_back(device);
  return kOk;
}

FAKE Code cuCtxPopCurrent_v2(cuda::Context* out) {
  if (const Code c = entered("cuCtxPopCurrent"); c != kOk) return c;
  *out = context(contexts.stack.back());
  contexts.stack.pop_back();
  return kOk;
}

}  // namespace fake
