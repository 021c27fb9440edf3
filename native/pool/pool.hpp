// pool: device memory handed out and taken back in stream order, over driver segments. It decides where a request is
// served from and when to grow, take from another stream, wait, give back, or give up. How blocks are cut and kept is
// lane.hpp's; how far streams have got is clock.hpp's. Every member may be called from any thread.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "pool/address_map.hpp"
#include "pool/domain.hpp"
#include "pool/fault.hpp"
#include "pool/gauges.hpp"
#include "pool/lane.hpp"
#include "pool/lane_table.hpp"
#include "pool/sizes.hpp"
#include "pool/source.hpp"
#include "tape/columns.hpp"

namespace forebay {

// Whether other pools of the device may take this one's wholly idle segments when they run out.
enum class Idle : std::uint8_t { shared, kept };

struct PoolOptions {
  std::string name = "pool";
  std::uint32_t index = 0;                                         // the pool's id in the tape's side table
  std::optional<std::uint64_t> limit;                              // bytes reserved
  std::vector<std::uint64_t> buckets;                              // sizes that requests round up to; none: 512 B steps
  std::chrono::nanoseconds wait_limit = std::chrono::seconds(10);  // of one wait for frees; 0: never wait
  Idle idle = Idle::shared;
  Space space = Space::device;  // or pinned
  Sink* tape = nullptr;         // outlives the pool
};

// What a request got: `size` is the block's, rounding included.
struct Granted {
  Address address = 0;
  std::uint64_t size = 0;
};

class Pool {
 public:
  Pool(Domain& domain, PoolOptions options);  // the domain outlives the pool
  ~Pool();                                    // gives every segment back; no block may be live
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  // Memory that work on `stream` (an adopted one's id) may use from now on. A hit makes no driver call and takes no
  // memory of the host's. Throws PoolFault.
  Granted alloc(std::uint64_t bytes, std::uint64_t stream);
  // Its two halves, for callers that hold what a miss must not be made under: a hit or nothing, and the miss.
  std::optional<Granted> hit(std::uint64_t bytes, std::uint64_t stream);
  Granted refill(std::uint64_t bytes, std::uint64_t stream);
  // Gives a block back, after all that its stream, and those it was lent to, have been given. False: no live block
  // begins there. Nothing else goes wrong in it, and it never blocks.
  bool free(Address address);
  // `stream` uses the block too (record_stream): its free waits for that stream as well. False: no live block.
  bool lend(Address address, std::uint64_t stream);

  // Gives wholly idle segments back to the driver; returns the bytes. Waits as the driver's free does.
  std::uint64_t trim();

  // The figures now; `largest_free` and `largest_free_after_waits` are the given stream's, without one the best of all.
  Gauges gauges() const;
  Gauges gauges(std::uint64_t stream) const;
  std::uint64_t reserved() const { return reserved_.load(std::memory_order_relaxed); }
  const PoolOptions& options() const { return options_; }
  Domain& domain() const { return domain_; }
  std::vector<std::string> awaited() const;  // names of the streams that pending blocks wait for

  // Every byte in exactly one block, lists consistent, gauges equal to a recount: the first thing that is not so, or
  // nothing. For when no other thread is in the pool.
  std::optional<std::string> walk() const;

  // For sibling pools: gives up wholly idle segments of about `bytes`; each is handed to `drop` afterwards.
  std::vector<std::unique_ptr<Segment>> uproot(std::uint64_t bytes);
  bool drop(std::unique_ptr<Segment> segment);  // to the driver; a refused one is kept. False: refused

 private:
  friend class Walk;
  Lane& lane_of(std::uint64_t stream);
  Lane& new_lane(std::uint64_t stream);
  std::vector<Lane*> lanes() const;

  Granted granted(const Block& block, const Lane& lane) const;
  Block* miss(Lane& lane, const Need& need);
  Block* exhausted(Lane& lane, const Need& need);
  Block* search(Lane& lane, const Need& need);
  Block* search_everywhere(Lane& lane, const Need& need);
  template <class Epoch, class Lend>
  Block* borrow(Lane& from, Epoch epoch_of, Lend lend);
  Block* grow(Lane& lane, const Need& need);
  Block* grow_by(Lane& lane, const Need& need, std::uint64_t bytes);
  bool claim(std::uint64_t bytes);
  void settle();
  void expel_guests();
  void wait_for_frees(const Lane& lane, const Need& need);
  std::vector<Point> awaited_points(const Need& need) const;
  std::uint64_t give_back(std::uint64_t bytes);
  std::uint64_t siblings_give_back(std::uint64_t bytes);
  [[noreturn]] void give_up(const Lane& lane, const Need& need);
  PoolFault fault(PoolFault::Code code, std::uint64_t asked) const;
  PoolFault fault(PoolFault::Code code, const Lane& lane, const Need& need) const;
  [[noreturn]] void refuse_dead() const;
  Verdict verdict(const Gauges& gauges, const Need& need) const;
  Gauges collect(const Lane* one) const;
  std::uint64_t growth_room(std::uint64_t releasable) const;
  std::uint64_t siblings_idle() const;
  void tell(Kind kind, const Block& block, const Clock& clock) const;

  Domain& domain_;
  const PoolOptions options_;
  const Rounding rounding_;
  const Source source_;
  AddressMap map_;
  LaneTable table_;
  mutable std::mutex lanes_mutex_;  // guards lanes_ and the writing of table_
  std::vector<std::unique_ptr<Lane>> lanes_;
  std::atomic<std::uint64_t> reserved_{0};
  std::mutex uprooted_mutex_;
  std::condition_variable uprooted_done_;
  std::uint64_t uprooted_ = 0;  // bytes on their way to the driver
  std::atomic<std::uint64_t> driver_allocs_{0}, driver_frees_{0}, retries_{0}, ooms_{0};
};

}  // namespace forebay
