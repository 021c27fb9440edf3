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
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "driver/cuda_abi.hpp"
#include "driver/sim.hpp"

#define FAKE extern "C" __attribute__((visibility("default")))

namespace fake {

using namespace forebay;
using cuda::Code;

inline constexpr Code kOk = 0, kInvalidValue = 1, kNotInitialized = 3, kDeinitialized = 4, kInvalidDevice = 101,
                      kInvalidContext = 201, kInvalidHandle = 400, kNotReady = 600;
inline constexpr int kMostDevices = 8;

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
// Of a pool of the driver's own: `by` freed it, `done` was recorded there; none: nobody had it yet.
struct Hole {
  std::uint64_t bytes = 0;
  std::optional<StreamHandle> by;
  EventHandle done;
};
struct Chunk {
  std::uint64_t bytes = 0;
  FrameHandle frame;
};
struct PoolBlock {
  std::uint64_t pool = 0, bytes = 0, asked = 0;  // `bytes` with what rounding adds
};
struct DriverPool {
  int device = 0;
  std::uint64_t most = 0, reserved = 0, reserved_high = 0, used = 0, used_high = 0, threshold = 0;
  std::array<std::int32_t, 3> choices{1, 1, 1};
  std::map<Address, Chunk> chunks;
  std::map<Address, Hole> holes;
  bool destroyed = false;
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
  std::map<Address, Pinned> pinned;                                   // by what the host calls them
  std::map<std::uint64_t, int> streams, events, graphs, executables;  // devices by handle
  std::map<std::uint64_t, DriverPool> pools;
  std::map<Address, PoolBlock> pool_blocks;
  std::map<std::uint64_t, std::string> kernels;  // names by function
  std::uint64_t numbers = 0x1000;                // of pools, modules and functions
  std::vector<Plan> plans, lasting;
  std::map<std::string, std::uint64_t> counts;
  std::uint64_t calls = 0;
  std::string struck;  // the function that a plan struck last
  std::array<int, kMostDevices> retained{};
  std::array<bool, kMostDevices> opened{};  // its context was made; drivers of an earlier test may let go of it late
};

Machine& machine();
std::unique_lock<std::mutex> locked();

// Counts the call, and answers what a plan or the state of process and thread makes of it before it begins.
Code entered(const char* function);
Code entered_anywhere(const char* function);  // of functions that need no context
int current_device();                         // of the calling thread's context
inline Code code_of(Status status) { return static_cast<Code>(status); }
void lost(Code code);  // a sticky error: everything answers it from now on

// Under the lock. The device that a handle lives on; none: nobody made it.
std::optional<int> device_of(const std::map<std::uint64_t, int>& handles, const void* handle);
std::optional<int> device_of(cuda::StreamPointer stream);  // default streams are the context's
void waited();  // somebody waited for the device: pools give back what lies idle above their threshold
// Whether a range of device or pinned memory can be touched. `address` becomes the simulated device's.
bool touchable(Address& address, std::uint64_t bytes);

}  // namespace fake
