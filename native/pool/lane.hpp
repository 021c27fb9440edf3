// lane: the blocks that one stream orders, in one pool: its segments, its free lists, its slabs, its figures.
// Nothing here calls the driver, waits or asks other lanes; when to grow, steal or give back is pool.hpp's.
//
// Every member below `mutex` is to be called with it held. A thread holds one lane's lock at a time.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "pool/address_map.hpp"
#include "pool/best_fit.hpp"
#include "pool/block.hpp"
#include "pool/clock.hpp"
#include "pool/sizes.hpp"

namespace forebay {

// A lane's part of the pool's gauges; sums are taken when they are read.
struct LaneFigures {
  std::uint64_t allocated = 0, requested = 0, pending = 0, releasable = 0, hits = 0, misses = 0;
};

class Lane {
 public:
  Lane(AddressMap& map, Clock& clock) : map_(map), clock_(&clock) {}

  std::mutex mutex;
  void look();  // asks how far an ended stream has got; takes the lock itself, and not across the driver's calls

  // A block for `need` from what this lane holds; null is a miss. Takes no memory of the host's, but for slots and
  // splits beyond any number there was before.
  Block* take(const Need& need);
  // The same with no regard to shelves and classes: whatever hole is large enough.
  Block* take_anywhere(const Need& need);
  // Takes back a live block whose free was made at `epoch` of this lane's clock; false: it is not live. It stays
  // pending until the points it was lent to are past.
  bool give(Block* block, std::uint64_t epoch);

  // Frees that found the lock taken: pushed without it, given back by the next holder.
  void park(Block* block);
  void drain();

  // Pending blocks whose every point is past, or ordered before this stream by an edge. They are taken out (so that
  // their rows can be written without the lock) and settled afterwards.
  std::vector<Block*> ripe();
  void settle(const std::vector<Block*>& blocks);
  std::vector<Point> awaited() const;  // the points that pending blocks wait for

  // Lending between lanes. `lend_…` cuts a block for another lane off a free one that is complete, or that the
  // other's stream comes after; the guest is accounted by `receive` at the other lane. `expel` gives up the idle guests
  // here; each is brought home by `take_home` with the point that it was last freed at.
  Block* lend_fitting(Shelf shelf, std::uint64_t bytes, const Lane& to);  // from one shelf, after a few looks
  Block* lend_anything(std::uint64_t bytes, const Lane& to);
  Block* receive(Block* guest, const Need& need);
  std::vector<Block*> expel();
  void take_home(Block* guest, Point point);
  // The epoch of the smallest free block of at least `bytes`, if there is one.
  std::optional<std::uint64_t> epoch_of_fit(Shelf shelf, std::uint64_t bytes) const;
  std::optional<std::uint64_t> epoch_of_any(std::uint64_t bytes) const;

  // A block from what was just planted or filled.
  Block* take_new(const Need& need);

  // Segments. A planted one is wholly free and complete at `epoch` of this clock.
  void plant(std::unique_ptr<Segment> segment, std::uint64_t epoch);
  // Gives up wholly free segments, the largest first, until they hold `bytes` or there are no more.
  std::vector<std::unique_ptr<Segment>> uproot(std::uint64_t bytes);
  void dissolve_idle_slabs();

  // Ranges (range.cpp). A planted one is a hole. `open` picks the hole where `bytes` in one piece, with the free blocks
  // beside it, need the fewest frames, and cuts a moving block off it, up to `slack` larger; null where none will do.
  // `fill` makes a moving block free memory, `close` a hole. `seal` keeps its frames, of no use, until they can go.
  void plant_range(std::unique_ptr<Segment> range);
  Block* open(std::uint64_t bytes, std::uint64_t slack);
  void fill(Block* moving, const std::vector<FrameHandle>& frames);
  std::vector<FrameHandle> close(Block* moving);
  void seal(Block* moving, const std::vector<FrameHandle>& frames);  // mapped at its begin
  void seal(Block* moving);
  // Whole frames that no block lives in and whose every use is known complete, about `bytes` of them, and all that is
  // stuck: as moving blocks. `idle_point` is what the host must know complete for all of them.
  std::vector<Block*> part(std::uint64_t bytes);
  std::vector<Block*> unstick();
  std::optional<Point> idle_point(std::uint64_t frame);
  // Serves another stream from now on; every epoch of the old clock is complete.
  void rebind(Clock& clock);

  Clock& clock() const { return *clock_; }
  std::uint64_t largest_hit(
      const std::vector<std::uint64_t>& buckets,
      const std::function<Need(std::uint64_t)>& need_of) const;  // the largest request that is a hit now
  std::uint64_t largest_after_waits() const;                     // with what is pending here added to its neighbours
  const std::vector<std::unique_ptr<Segment>>& segments() const { return segments_; }
  LaneFigures figures;

 private:
  friend class Walk;
  bool serves(const Need& need) const;  // whether `take` would
  std::uint64_t largest_hole() const;
  Block* take_slot(const Need& need);
  Block* lend(BestFit& list, std::uint64_t bytes, const Lane& to, std::size_t tries);
  Block* take_block(BestFit& list, const Need& need);
  Block* cut(Block* block, std::uint64_t bytes);    // the front; the rest becomes a free block
  Block* split(Block* block, std::uint64_t bytes);  // the rest, in no list
  Block* live(Block* block, std::uint64_t requested);
  void release(Block* block);
  void release_home(Block* block);
  void free_whole(Block* block);
  void absorb(Block* block, Block* neighbour);
  void join(Block* block, Block* neighbour);
  void carve(Block* slab, std::uint8_t size_class);
  void dissolve(Block* slab);
  void push_slot(Block* slot);
  void pull_slot(Block* slot);
  void busier(const Block* block);
  void idler(const Block* block);
  Block* detach(Block* block, Address begin, Address end);
  void add_hole(Block* hole);
  void drop_hole(Block* hole);
  Block* make_block();
  void drop_block(Block* block);
  BestFit& shelf(const Segment* segment) { return shelves_[static_cast<std::size_t>(segment->shelf)]; }

  AddressMap& map_;
  Clock* clock_;
  std::array<BestFit, 2> shelves_;
  BestFit guests_;
  std::array<Block*, kClassCount> free_slots_{};  // lists through left and right
  Block* slabs_ = nullptr;                        // likewise
  std::vector<Block*> pending_;
  std::vector<std::unique_ptr<Segment>> segments_;
  std::deque<Block> store_;
  Block* spare_ = nullptr;  // unused blocks, through `next`
  std::atomic<Block*> parked_{nullptr};
};

}  // namespace forebay
