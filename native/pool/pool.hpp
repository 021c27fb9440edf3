// pool: device memory handed out and taken back in stream order. It decides where a request is served from and when to
// grow, take from another stream, wait, give back, or give up. How it grows is growth.hpp's; how blocks are cut and
// kept lane.hpp's; how far streams have got clock.hpp's. Every member may be called from any thread.
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
#include "pool/budget.hpp"
#include "pool/domain.hpp"
#include "pool/fault.hpp"
#include "pool/gauges.hpp"
#include "pool/growth.hpp"
#include "pool/lane.hpp"
#include "pool/lane_table.hpp"
#include "pool/sizes.hpp"
#include "pool/source.hpp"
#include "tape/columns.hpp"

namespace forebay {

// Whether other pools of the device may take this one's wholly idle memory when they run out.
enum class IdleBytes : std::uint8_t { shared, kept };

// Freed memory that somebody keeps from a pool whose it is, and gives up before the pool runs out.
class Hoard {
 public:
  virtual ~Hoard() = default;
  virtual void give_up() = 0;             // under no lock
  virtual void give_up_for_others() = 0;  // calls no driver and waits for nothing: a lock of the device is held
};

// What a pool does that cannot grow: the way of Note [The order of a miss], or it raises at once. The latter is for the
// memory of a graph: nobody may be waited for or asked to give back during a capture.
enum class WhenFull : std::uint8_t { makes_room, raises };

struct PoolOptions {
  std::string name = "pool";
  std::uint32_t index = 0;                                         // the pool's id in the tape's side table
  std::optional<std::uint64_t> limit;                              // bytes reserved, at first
  std::vector<std::uint64_t> buckets;                              // sizes that requests round up to; none: 512 B steps
  std::chrono::nanoseconds wait_limit = std::chrono::seconds(10);  // of one wait for frees; 0: never wait
  IdleBytes idle = IdleBytes::shared;
  WhenFull when_full = WhenFull::makes_room;
  Space space = Space::device;  // or pinned, in segments
  GrowBy growth = GrowBy::segments;
  Sink* tape = nullptr;    // outlives the pool
  Hoard* hoard = nullptr;  // likewise
};

// What a request got: `size` is the block's, rounding included.
struct Granted {
  Address address = 0;
  std::uint64_t size = 0;
};

class Pool {
 public:
  // The domain outlives the pool. Throws PoolFault where the device cannot grow it in that way, or does not answer.
  Pool(Domain& domain, PoolOptions options);
  ~Pool();  // gives all memory back; no block may be live
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
  // The same after these points besides what its stream has been given, and no others.
  bool free_after(Address address, std::vector<Point> points);
  // `stream` uses the block too (record_stream): its free waits for that stream as well. False: no live block.
  bool lend(Address address, std::uint64_t stream);
  // The same for a stream of another device, which adopted it and outlives this pool.
  bool lend(Address address, std::uint64_t stream, const Domain& peer);

  // Gives wholly idle memory back to the driver; returns the bytes that left the pool. Waits for the work that used it:
  // as the driver's free does, or for frames at most the wait limit, and then for what is complete.
  std::uint64_t trim();

  // The figures now, after taking back what the host knows complete; no driver call but for the device's free bytes.
  // `largest_free` and `largest_free_after_waits` are the given stream's, without one the best of all.
  Gauges gauges();
  Gauges gauges(std::uint64_t stream);
  std::uint64_t reserved() const { return budget_.reserved(); }
  void set_limit(std::optional<std::uint64_t> limit) { budget_.set_limit(limit); }
  // The driver's memory that a live block lies in: a segment, or of frames the block itself. None: no live block.
  std::optional<Granted> underlying(Address address) const;
  std::uint64_t idle_bytes() const;  // of which no block has any
  const PoolOptions& options() const { return options_; }
  Domain& domain() const { return domain_; }
  std::vector<std::string> awaited() const;  // names of the streams that pending blocks wait for

  // Every byte in exactly one block, lists consistent, gauges equal to a recount: the first thing that is not so, or
  // nothing. For when no other thread is in the pool.
  std::optional<std::string> walk() const;

  // For sibling pools: gives up wholly idle memory of about `bytes`; each is handed to `drop` afterwards. What the host
  // must know complete before is in `idle_points`.
  std::vector<Point> idle_points();
  std::vector<Idle> uproot(std::uint64_t bytes);
  bool drop(Idle idle);  // to the driver; a refused one is kept. False: refused

 private:
  friend class Walk;
  Lane& lane_of(std::uint64_t stream);
  Lane& new_lane(std::uint64_t stream);
  std::vector<Lane*> lanes() const;

  Block* live_at(Address address) const;
  bool take_back(Block& block);
  Need need_of(std::uint64_t bytes) const { return growth_->fit(rounding_.need(bytes)); }
  Granted granted(const Block& block, const Lane& lane) const;
  Block* miss(Lane& lane, const Need& need);
  Block* exhausted(Lane& lane, const Need& need);
  Block* search(Lane& lane, const Need& need);
  Block* search_everywhere(Lane& lane, const Need& need);
  template <class Epoch, class Lend>
  Block* borrow(Lane& from, Epoch epoch_of, Lend lend);
  Block* grow(Lane& lane, const Need& need);
  void settle();
  void settle_known();
  void expel_guests();
  void wait_for_frees(const Lane& lane, const Need& need);
  std::vector<Point> awaited_points(const Need& need) const;
  std::vector<Point> pending_points() const;
  std::vector<Point> waited_for(std::vector<Point> points, std::chrono::nanoseconds& waited) const;
  void know_complete(const std::vector<Point>& points);
  void know_lost(const std::vector<Point>& points);
  std::uint64_t give_back(std::uint64_t bytes);
  std::uint64_t siblings_give_back(std::uint64_t bytes);
  [[noreturn]] void give_up(const Lane& lane, const Need& need);
  PoolFault fault(PoolFault::Code code, std::uint64_t asked) const;
  PoolFault fault(PoolFault::Code code, const Lane& lane, const Need& need) const;
  [[noreturn]] void refuse_dead() const;
  Verdict verdict(const Gauges& gauges, const Need& need) const;
  template <class Counts>
  Gauges collect(Counts counts) const;
  std::uint64_t growth_room(std::uint64_t releasable) const;
  std::uint64_t siblings_idle(IdleBytes whose) const;
  bool told() const { return options_.tape != nullptr && options_.tape->wants(); }
  void tell(Kind kind, const Block& block, const Clock& clock) const;
  void tell_refusal(const Lane& lane, const Need& need) const;
  void tell_flush() const;

  Domain& domain_;
  const PoolOptions options_;
  const Rounding rounding_;
  const Source source_;
  Budget budget_;
  const std::unique_ptr<Growth> growth_;
  AddressMap map_;
  LaneTable table_;
  mutable std::mutex lanes_mutex_;  // guards lanes_ and the writing of table_
  std::vector<std::unique_ptr<Lane>> lanes_;
  std::mutex uprooted_mutex_;
  std::condition_variable uprooted_done_;
  std::uint64_t uprooted_ = 0;  // bytes on their way to the driver
  std::atomic<std::uint64_t> retries_{0}, ooms_{0};
};

}  // namespace forebay
