// fake: a libcuda without a GPU, for tests: the functions that the CUDA driver uses, over the simulated device, so that
// work runs late and in an order that only edges bind. What it refuses the real one refuses, as an H200 answered
// (benchmarks/results/calls-h200.json); any call can be told to fail. What it gets right is judged by
// tests/driver_facts.
#pragma once

#include <array>
#include <atomic>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "driver/cuda_abi.hpp"
#include "driver/sim.hpp"

#define FAKE extern "C" __attribute__((visibility("default")))

namespace fake {

using namespace forebay;
using cuda::Code;

inline constexpr Code kOk = 0, kInvalidValue = 1, kNotInitialized = 3, kDeinitialized = 4, kInvalidDevice = 101,
                      kInvalidContext = 201, kInvalidHandle = 400, kIllegalState = 401, kNotReady = 600,
                      kUnsupported = 900, kInvalidated = 901, kUnmatched = 903, kUnjoined = 904, kIsolation = 905,
                      kImplicit = 906, kCapturedEvent = 907, kWrongThread = 908;
inline constexpr int kMostDevices = 8;

enum Mode : std::int32_t { global, thread_local_, relaxed };

struct Capture {
  Mode mode;
  std::thread::id thread;
  std::uint64_t origin;              // the stream it began on
  std::set<std::uint64_t> unjoined;  // streams that joined since and did not come back
  bool valid = true;
};
using CapturePtr = std::shared_ptr<Capture>;

struct Segment {
  int device;
  std::uint64_t bytes;
};
struct Mapping {
  int device;
  std::uint64_t bytes, frame;
  bool accessible;
};
struct Pinned {
  Address address;  // the simulated device's
  std::uint64_t bytes;
};
struct Stream {
  int device;
  bool blocking;
  CapturePtr capture;
};
struct Event {
  int device;
  CapturePtr capture;  // of its latest record
  std::uint64_t stream = 0;
};
struct Plan {
  std::set<std::string> calls;  // none: all
  std::uint64_t nth;
  Code code;
  bool always;
};

// Everything of the process's libcuda. `lock` is of all but `sim`, and never held while it waits.
struct Machine {
  explicit Machine(const std::vector<std::uint64_t>& capacities);
  std::unique_ptr<SimDriver> sim;
  std::mutex lock;
  std::map<Address, Segment> segments, ranges;
  std::map<std::uint64_t, Segment> frames;
  std::map<Address, Mapping> mappings;
  std::map<Address, Pinned> pinned;  // by what the host calls them
  std::map<std::uint64_t, Stream> streams;
  std::map<std::uint64_t, Event> events;
  std::vector<CapturePtr> captures;
  std::vector<Plan> plans, lasting;
  std::map<std::string, std::uint64_t> counts;
  std::uint64_t calls = 0;
  std::array<int, kMostDevices> retained{};
  std::array<bool, kMostDevices> opened{};  // its context was made; drivers of an earlier test may let go of it late
};

extern thread_local std::int32_t thread_mode;  // of captures (cuThreadExchangeStreamCaptureMode)

Machine& machine();
std::unique_lock<std::mutex> locked();

// Counts the call, and answers what a plan or the state of process and thread makes of it before it begins.
Code entered(const char* function);
Code entered_anywhere(const char* function);  // of functions that need no context
int current_device();                         // of the calling thread's context
inline Code code_of(Status status) { return static_cast<Code>(status); }
void lost(Code code);  // a sticky error: everything answers it from now on

// Under the lock. What a capture makes of a call that waits, asks or takes memory: 0, or the refusal; the captures that
// it breaks are broken.
Code unsafe();
// The same for whatever is put into a stream or asks about one. `handle` becomes the simulated device's; `capture` is
// the one that the stream takes part in.
struct Target {
  Code code = kOk;
  int device = 0;
  StreamHandle handle;
  CapturePtr capture;
};
Target target(cuda::StreamPointer stream);
void broken(const CapturePtr& capture);
// Whether a range of device or pinned memory can be touched. `address` becomes the simulated device's.
bool touchable(Address& address, std::uint64_t bytes);

}  // namespace fake
