// pairs: what one allocation and its free of a cached block cost, through our pool, the driver's own and whatever has
// the interface of a pluggable allocator, on threads with a stream each. Who the peers are is forebay.bench's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "driver/port.hpp"

namespace forebay::bench {

// As PyTorch's pluggable allocators have it.
using AllocFunction = void* (*)(std::size_t bytes, int device, void* stream);
using FreeFunction = void (*)(void* block, std::size_t bytes, int device, void* stream);

struct Load {
  std::uint64_t bytes = 4096;
  int threads = 1, pairs = 100'000, rounds = 9;
};

// What one thread repeats; made on the thread that asks, one a thread. False: the allocation failed.
using Pair = std::function<bool()>;

// Wall nanoseconds of a pair, one sample a round: from when all threads go until the last is through, by the pairs of
// one thread. Each thread calls `enter` first. Empty where an allocation failed. A second thread is there throughout.
std::vector<double> timed(const Load& load, std::span<const Pair> pairs, const std::function<void()>& enter = {});

// What a thread does that works on one device: over CUDA the device's context is its own, as any program's is that ever
// launched a kernel there. Without it every call of the CUDA runtime looks for a context first.
std::function<void()> entering(Driver& driver, int device);

// Streams are the driver's; each thread has one of its own.
Result<std::vector<double>> pool_pairs(Driver& driver, int device, const Load& load);
Result<std::vector<double>> driver_pool_pairs(Driver& driver, int device, const Load& load);
std::vector<double> c_pairs(Driver& driver, AllocFunction alloc, FreeFunction free, int device,
                            std::span<void* const> streams, const Load& load);
std::vector<double> libc_pairs(const Load& load);  // malloc and free

}  // namespace forebay::bench
