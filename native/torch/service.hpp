// service: the process's one allocator for PyTorch: its devices, what threads asked for, what the program set before
// CUDA began. What PyTorch calls is hooks.cpp's, what Python calls control.cpp's.
//
// Note [Late]. PyTorch calls free until the process is gone, so nothing here ever ends. libcuda is opened when PyTorch
// first asks for memory and not before: a process that forked until then may use CUDA in each child.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>

#include "torch/device_pools.hpp"

namespace forebay::torch {

// What cannot be done at all, in one line.
struct Refused : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Settings {
  std::string libcuda = "libcuda.so.1";
  std::optional<std::uint64_t> limit, quarantine;
  std::optional<GrowBy> growth;  // none: frames where there is one device that can map, else segments
  Site site = nullptr;
};

class Service {
 public:
  static Service& only();

  // Throws Refused once a device was used.
  void set(Settings settings);
  bool started() const { return driver_.load() != nullptr; }

  // Throw Refused, PoolFault and whatever a filter of PyTorch's throws.
  Address alloc(std::uint64_t bytes, int device, std::uint64_t stream) {
    DevicePools& pools = at(device);
    if (entered_.load(std::memory_order_relaxed) != 0) [[unlikely]]
      if (const std::size_t consumer = routed(); consumer != 0)
        return pools.alloc_for(consumer - 1, *consumers_[consumer - 1].load(), bytes, stream);
    return pools.alloc(bytes, stream);
  }
  void free(Address address, int device) {
    DevicePools* pools = used(device);
    if (pools == nullptr || !pools->free(address)) unknown_frees_.fetch_add(1, std::memory_order_relaxed);
  }
  void lend(Address address, std::uint64_t stream);
  std::optional<Granted> underlying(Address address);
  void set_fraction(int device, double fraction);
  void trim();

  // Consumers: by name, and numbered from 1. This thread's allocations go to the last entered; 0: to the default.
  std::size_t consumer(const Consumer& what);  // throws Refused
  void enter(std::size_t consumer);
  void leave();

  DevicePools& at(int device) {
    DevicePools* const pools = used(device);
    return pools != nullptr ? *pools : opened(device);
  }
  DevicePools* used(int device) const {
    return device < 0 || device >= kMostDevices ? nullptr : devices_[static_cast<std::size_t>(device)].load();
  }
  std::uint64_t unknown_frees() const { return unknown_frees_.load(); }
  static constexpr int kMostDevices = 64;

 private:
  Service() : forks_(watched_forks()) {}
  static std::size_t routed();
  DevicePools& opened(int device);
  CudaDriver& driver();
  DevicePools* owner(Address address);

  const std::uint32_t forks_;
  std::atomic<CudaDriver*> driver_{nullptr};
  std::array<std::atomic<DevicePools*>, kMostDevices> devices_{};
  static constexpr std::size_t kMostConsumers = 64;
  std::array<std::atomic<const Consumer*>, kMostConsumers> consumers_{};  // added to under the lock
  std::atomic<std::uint64_t> entered_{0};                                 // by all threads together
  std::atomic<std::uint64_t> unknown_frees_{0};
  std::mutex mutex_;  // of what follows, and of making devices
  Settings settings_;
};

}  // namespace forebay::torch
