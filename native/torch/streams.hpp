// streams: which stream of one device a handle is, for a library that is told handles alone. Handles are given out
// again when their stream is gone: only those that somebody vouched for are looked up; any other is asked for at every
// call. What a stream's frees wait for is pool/clock.hpp's.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "driver/cuda.hpp"
#include "pool/domain.hpp"

namespace forebay::torch {

class Streams {
 public:
  Streams(CudaDriver& driver, Domain& domain) : driver_(driver), domain_(domain) {}

  // The id of a handle that was vouched for: no lock, no call. None: `named` tells.
  std::optional<std::uint64_t> vouched(std::uint64_t handle) const {
    const std::uint64_t key = key_of(handle);
    for (std::size_t i = start(key);; i = (i + 1) % kSlots) {
      const std::uint64_t found = slots_[i].key.load(std::memory_order_acquire);
      if (found == key) return slots_[i].id;
      if (found == 0) return std::nullopt;
    }
  }
  // The id of a stream that exists now: a caller works on it. Throws PoolFault.
  std::uint64_t named(std::uint64_t handle);
  // This handle stays this stream's for as long as the process lives. Throws PoolFault.
  void vouch(std::uint64_t handle);

 private:
  static constexpr std::size_t kSlots = 1024, kMost = kSlots / 2;  // what is vouched for beyond that stays `named`
  struct Slot {
    std::atomic<std::uint64_t> key{0};
    std::uint64_t id = 0;  // written before the key
  };
  // 0 and 1 are both the legacy stream; 2, a thread's own, is another stream on every thread and never vouched for.
  static std::uint64_t key_of(std::uint64_t handle) { return handle == 0 ? kLegacyStream.value : handle; }
  static std::size_t start(std::uint64_t key) {
    return static_cast<std::size_t>((key * 0x9e3779b97f4a7c15) >> 40) % kSlots;
  }
  std::uint64_t adopted(std::uint64_t handle, Lifetime lifetime);

  CudaDriver& driver_;
  Domain& domain_;
  std::array<Slot, kSlots> slots_;
  std::mutex mutex_;  // of what follows, and of writing slots
  std::size_t used_ = 0;
  std::unordered_map<std::uint64_t, std::uint64_t> ids_;  // of handles that were named, when they last were
};

}  // namespace forebay::torch
