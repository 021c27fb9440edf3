// replay: an allocation history run through our pools on a given driver, and what that took. Where the history comes
// from, and what its addresses meant, is the caller's.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "pool/pool.hpp"

namespace forebay {

enum class Move : std::uint8_t { alloc, free, lend, let_go, trim };

// One chunk of a history, a column a field. `address` is the history's own name of a block, `bytes` its request (of
// allocs); frees stand where the block was reusable. Where the program let go of it earlier, a let_go stands there: the
// pool is told nothing, but from there on the block is active and no longer allocated. A trim is of a pool.
struct Moves {
  std::span<const std::uint8_t> move;
  std::span<const std::uint64_t> address, bytes;
  std::span<const std::uint32_t> stream, pool;
};

struct Sample {
  std::uint64_t event = 0, reserved = 0, allocated = 0, requested = 0;
};

// Bytes are sums over the pools. `largest_free_…` is the largest hole of any pool if all streams were idle.
struct Outcome {
  std::uint64_t events = 0, peak_reserved = 0, peak_allocated = 0, peak_active = 0, peak_requested = 0;
  std::uint64_t peak_allocated_event = 0, largest_free_at_peak = 0, largest_free_at_end = 0;  // peak: of reserved
  std::uint64_t hits = 0, misses = 0, driver_allocs = 0, driver_frees = 0, retries = 0, ooms = 0;
  std::uint64_t unknown_frees = 0;         // of addresses that the history never allocated
  std::optional<std::uint64_t> oom_event;  // the first; the replay goes on without the block
  std::optional<Verdict> oom_verdict;
};

class Replay {
 public:
  // One pool an entry; a move's `pool` is an index into them.
  Replay(Driver& driver, int device, std::vector<PoolOptions> pools);
  ~Replay();

  // Throws PoolFault where the driver fails otherwise than by being out of memory, std::out_of_range for a pool index.
  void feed(const Moves& moves);
  Outcome outcome() const;
  // At most kSamples, evenly spread over the events so far; each is the state after its event.
  const std::vector<Sample>& samples() const { return samples_; }

  static constexpr std::size_t kSamples = 2048;

 private:
  struct Placed {
    Address address;
    std::uint64_t size, requested;
    Pool* pool;
    bool held = true;  // by the program
  };
  void alloc(std::uint64_t name, std::uint64_t bytes, std::uint64_t stream, Pool& pool);
  void free(std::uint64_t name);
  void let_go(Placed& block);
  void lend(std::uint64_t name, std::uint64_t stream);
  std::uint64_t stream(std::uint32_t name);
  void grown();
  void sample();
  std::uint64_t largest_free() const;

  Driver& driver_;
  Domain domain_;
  std::vector<std::unique_ptr<Pool>> pools_;
  std::unordered_map<std::uint64_t, Placed> blocks_;
  std::unordered_map<std::uint32_t, std::uint64_t> streams_;  // the history's name to the driver's id
  std::vector<StreamHandle> handles_;
  Outcome outcome_;
  std::uint64_t reserved_ = 0, allocated_ = 0, active_ = 0, requested_ = 0, stride_ = 1;
  std::vector<Sample> samples_;
};

}  // namespace forebay
