// driver_pool: the driver's own stream-ordered pool (cuMemPool, what cudaMallocAsync allocates from) behind the
// interface of a pool. Which bytes serve what is the driver's; here stands what it does not know: which blocks live,
// which streams they were lent to, what a tape is told. None of our free lists lies over it.
//
// Note [Lent blocks wait here]. The driver orders a free in one stream. A block that was lent to others is given to it
// once the host knows their uses complete (pool/clock.hpp), which adds no edge to any stream; until then it is parked.
// So is one whose own stream is over, or whose free the driver refused. A free never waits and never fails.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "pool/domain.hpp"
#include "pool/fault.hpp"
#include "tape/columns.hpp"

namespace forebay {

// When bytes freed in one stream may go to another: after an event made it wait for the free; once the free is
// complete; or at once, the driver then making the stream wait, which may tie streams together that must not be.
struct DriverReuse {
  bool follow_events = true, opportunistic = true, internal_waits = false;
};

struct DriverPoolOptions {
  std::string name = "pool";
  std::uint32_t index = 0;             // the pool's id in the tape's side table
  std::optional<std::uint64_t> limit;  // bytes reserved, where the driver can bound them
  std::uint64_t release_threshold = UINT64_MAX;
  DriverReuse reuse;
  std::chrono::nanoseconds wait_limit = std::chrono::seconds(10);  // at the end, for parked blocks
  Sink* tape = nullptr;                                            // outlives the pool
};

// What the driver says of its pool, and what was counted here. Bytes, then counts.
struct DriverFigures {
  std::uint64_t reserved = 0, reserved_high = 0, used = 0, used_high = 0;  // the driver's
  std::uint64_t requested = 0;                                             // of live blocks
  std::uint64_t parked = 0;                                                // asked for of parked blocks
  std::uint64_t allocs = 0, ooms = 0;
};

class DriverPool {
 public:
  // The domain outlives the pool. Throws PoolFault where the device has no such pools, or does not answer.
  DriverPool(Domain& domain, DriverPoolOptions options);
  ~DriverPool();  // waits for what is parked, at most the wait limit
  DriverPool(const DriverPool&) = delete;
  DriverPool& operator=(const DriverPool&) = delete;

  // Memory that work on `stream` (an adopted one's id) may use from now on. Throws PoolFault.
  Address alloc(std::uint64_t bytes, std::uint64_t stream);
  // As Pool's: in stream order, after every stream that the block was lent to. False: no live block begins there.
  bool free(Address address);
  bool lend(Address address, std::uint64_t stream, const Domain& peer);
  // Idle bytes go back to the device; returns how many did. The driver waits for nothing: what is not complete stays.
  std::uint64_t trim();

  DriverFigures figures();
  void forget_highs();  // peaks count from now
  // Whether the driver has in use at least what lives here: the first thing that is not so, or nothing.
  std::optional<std::string> walk();
  const DriverPoolOptions& options() const { return options_; }

 private:
  struct Block {
    std::uint64_t requested = 0;
    Clock* home = nullptr;
    std::vector<Point> points;  // what the free comes after besides its place in the home stream
  };

  void choose();
  std::uint64_t get(PoolAttribute attribute);
  void sweep();
  bool give(Address address, const Block& block);
  bool complete(const Block& block) const;
  Result<StreamHandle> idle_stream();
  void require_life() const;
  PoolFault failed(std::string_view call, Status status, std::uint64_t asked, const Clock* clock) const;
  void tell(Kind kind, const Clock& clock, Address address, std::uint64_t bytes) const;
  void tell_refusal(const Clock& clock, std::uint64_t bytes) const;

  Domain& domain_;
  const DriverPoolOptions options_;
  DriverPoolHandle pool_;
  std::atomic<bool> any_parked_{false};
  std::atomic<std::uint64_t> allocs_{0}, ooms_{0};
  std::mutex mutex_;  // of what follows; never held across a call of the driver
  std::unordered_map<Address, Block> live_;
  std::uint64_t requested_ = 0, parked_bytes_ = 0;
  std::vector<std::pair<Address, Block>> parked_;
  std::optional<StreamHandle> idle_;  // never works: frees of blocks that the host knows unused
};

}  // namespace forebay
