// device_pools: all that PyTorch has of one device: the pool that serves it by default, those of named consumers, those
// of its graphs. Which device, and what a thread asked for, is service.hpp's.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "driver/cuda.hpp"
#include "pool/guarded.hpp"
#include "torch/far_uses.hpp"
#include "torch/private_pools.hpp"
#include "torch/streams.hpp"

namespace forebay::torch {

// A pool that threads route allocations to, one on each device.
struct Consumer {
  std::string name;
  std::optional<std::uint64_t> limit;
  std::optional<GrowBy> growth;  // none: as the device's default pool
};

// Where in the program a call comes from; empty where nobody can tell.
using Site = std::string (*)();

// What debug mode found, raised by the next allocation.
struct Misused : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct DeviceOptions {
  std::optional<std::uint64_t> limit;
  GrowBy growth = GrowBy::segments;
  std::optional<std::uint64_t> quarantine;  // debug mode: bytes of freed blocks that are kept
  Site site = nullptr;                      // asked for in debug mode
};

class DevicePools {
 public:
  DevicePools(CudaDriver& driver, int device, const DeviceOptions& options);

  // Memory for work on the stream of this handle, which exists now. Throws PoolFault.
  Address alloc(std::uint64_t bytes, std::uint64_t stream) {
    if (graphs_.routing() || guarded_ != nullptr) [[unlikely]]
      return alloc_elsewhere(bytes, stream);
    return taken(*plain_, bytes, stream_id(stream));
  }
  Address alloc_for(std::size_t consumer, const Consumer& what, std::uint64_t bytes, std::uint64_t stream);
  bool free(Address address) {
    if (plain_ != nullptr && plain_->free(address)) return true;
    return free_elsewhere(address);
  }
  // `stream`, a handle of this device or of the peer's, uses the block too. False: no live block begins there.
  bool lend(Address address, std::uint64_t stream, DevicePools& peer);
  bool owns(Address address);
  std::optional<Granted> underlying(Address address);

  void trim();
  void set_limit(std::optional<std::uint64_t> limit);
  void reset_peak() { peak_.store(reserved()); }
  std::uint64_t reserved();
  std::uint64_t peak() { return note_peak(); }  // of what all pools of the device had reserved together

  // By name: the default pool's is "torch".
  std::vector<std::pair<std::string, Gauges>> gauges();
  std::optional<std::string> walk();
  Domain& domain() { return domain_; }
  Streams& streams() { return streams_; }
  PrivatePools& graphs() { return graphs_; }

  // Debug mode. `used`: work was issued on the stream of that handle and uses the block around the address. `check`
  // looks at every block and waits for that; `reports` are all that was found so far.
  void used(Address address, std::uint64_t stream, std::string name, std::string site);
  void check();
  std::vector<std::string> reports();

 private:
  std::uint64_t stream_id(std::uint64_t stream) {
    const std::optional<std::uint64_t> id = streams_.vouched(stream);
    return id ? *id : streams_.named(stream);
  }
  Address taken(Pool& pool, std::uint64_t bytes, std::uint64_t id) {
    const auto hit = pool.hit(bytes, id);
    return hit ? hit->address : refill(pool, bytes, id);
  }
  Address alloc_elsewhere(std::uint64_t bytes, std::uint64_t stream);
  Address alloc_guarded(std::uint64_t bytes, std::uint64_t id);
  std::string here() const { return site_ == nullptr ? std::string() : site_(); }
  Address refill(Pool& pool, std::uint64_t bytes, std::uint64_t id);
  bool free_elsewhere(Address address);
  Pool& pool_of(std::size_t consumer, const Consumer& what);
  std::uint64_t note_peak();
  template <class F>
  bool any_consumer(F visit);

  Domain domain_;
  Streams streams_;
  const Site site_;
  const GrowBy growth_;
  std::unique_ptr<Pool> plain_;  // one of these two
  std::unique_ptr<GuardedPool> guarded_;
  std::unique_ptr<FarUses> far_;      // beside `guarded_`
  std::atomic<std::size_t> told_{0};  // reports that an allocation raised
  std::mutex reports_mutex_;          // of what follows
  std::vector<std::string> reports_;  // in the order in which they were found
  std::size_t far_told_ = 0, near_told_ = 0;
  PrivatePools graphs_;
  std::atomic<std::uint64_t> peak_{0};
  std::shared_mutex mutex_;                       // of what follows
  std::vector<std::unique_ptr<Pool>> consumers_;  // by number; null: not used on this device yet
};

}  // namespace forebay::torch
