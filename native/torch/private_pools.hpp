// private_pools: the memory of PyTorch's graphs on one device: which allocations go there, and when it may go. How the
// blocks of a pool are cut and ordered is pool's.
//
// Note [A pool of graphs]. PyTorch says only that a capture is about to begin, and gives a function that tells, of any
// stream, whether it takes part. So from there to the end the device's pools are hushed (pool/domain.hpp): the frees of
// that time settle afterwards. A graph's pool is never asked to give back, and grows at once or raises. Bytes that were
// freed in a capture go to that stream's later allocations there, which come after; to other streams, or to another
// graph of the pool, after the end: graphs that share a pool are launched in the order of their captures, one after
// another, by PyTorch's own rule. It ends when every capture that used it was released and no block of it lives.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <string>
#include <utility>
#include <vector>

#include "pool/pool.hpp"

namespace forebay::torch {

using PrivateId = std::pair<unsigned long long, unsigned long long>;  // PyTorch's MempoolId_t
using Takes = std::function<bool(void* stream)>;                      // of std::function<bool(cudaStream_t)>'s layout

class PrivatePools {
 public:
  explicit PrivatePools(Domain& domain) : domain_(domain) {}

  // PyTorch's hooks. `begin` counts as a use of the pool, which `release` gives up; `end` is of the latest begin.
  void begin(PrivateId id, Takes takes);
  void end(PrivateId id);
  void release(PrivateId id);

  bool routing() const { return open_.load(std::memory_order_acquire) != 0; }
  // The pool that an allocation on this stream goes to now, the latest route first. Null: none takes it.
  std::shared_ptr<Pool> taker(void* stream);

  bool free(Address address);                            // false: no live block of theirs
  std::shared_ptr<Pool> owner(Address address);          // null likewise
  std::vector<std::pair<std::string, Gauges>> gauges();  // of each, by a name that tells its id
  std::uint64_t reserved();
  std::optional<std::string> walk();

 private:
  struct Private {
    PrivateId id;
    std::uint64_t uses;
    std::shared_ptr<Pool> pool;
  };
  struct Route {
    PrivateId id;
    Takes takes;
  };
  void reap();

  Domain& domain_;
  std::atomic<std::uint32_t> open_{0};
  std::shared_mutex mutex_;  // of what follows; held across a question to a stream, and never across a wait
  std::list<Private> pools_;
  std::vector<Route> routes_;
};

}  // namespace forebay::torch
