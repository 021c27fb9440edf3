// caching: PyTorch's CUDA caching allocator, emulated: which block serves a request, when the driver is asked, what is
// given back. Nothing is allocated and no work runs; time is the caller's order of calls. Histories are replay.hpp's,
// addresses of segments addresses.hpp's, rounding and splitting sizes.hpp's.
//
// Follows torch 2.11 (pools, best fit with its early exits, garbage collection by age, the release and retry order
// without a second search, expandable segments); differences of other versions are named where they matter.
//
//   place    a (pool, stream) that requests name. Pool 0 is the default pool, every other one is private.
//   room     one of the two halves of a pool: requests up to 1 MiB are small.
//   shelf    the free blocks of a room on one stream: no stream ever takes another's.
//   block    bytes of a segment: allocated, pending (freed, waiting for events), free, or unmapped (expandable only).
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "emulate/addresses.hpp"
#include "emulate/sizes.hpp"
#include "emulate/sorted_blocks.hpp"

namespace forebay::emulate {

using BlockId = std::uint32_t;
inline constexpr BlockId kNoBlock = ~BlockId{0};

inline constexpr std::uint64_t kUnlimited = std::numeric_limits<std::uint64_t>::max();

// Bytes.
struct Limits {
  std::uint64_t cap = kUnlimited;           // what the memory fraction allows; garbage collection needs one
  std::uint64_t capacity = kUnlimited;      // what the driver can give this allocator before it says no
  std::uint64_t device_total = 1ull << 40;  // sizes the address range of an expandable segment
  // Up to torch 2.12 a request that is routed to a private pool counts as a capture: nothing is released for it.
  bool routing_is_capture = true;
};

struct Place {
  std::uint32_t pool = 0;
  std::uint64_t stream = 0;  // the handle: rooms are released in the order of handles
};

struct PoolTraits {
  bool no_split = false;    // hands out whole cached blocks
  bool use_on_oom = false;  // lends its free blocks to the default pool as a last resort
};

// One call to the driver. Order is time.
enum class SegmentAction : std::uint8_t { alloc, free, map, unmap };
struct SegmentEvent {
  SegmentAction action;
  std::uint64_t address, size;
};

// Bytes and counts, as torch.cuda.memory_stats counts them.
struct Stats {
  std::uint64_t reserved = 0, allocated = 0, active = 0, requested = 0;
  std::uint64_t peak_reserved = 0, peak_allocated = 0, peak_active = 0, peak_requested = 0;
  std::uint64_t driver_allocs = 0, driver_frees = 0, retries = 0, ooms = 0, syncs = 0;
};

// The free bytes by what could be done with them.
struct Idle {
  std::uint64_t free = 0, releasable = 0, largest = 0;
};

class CachingAllocator {
 public:
  CachingAllocator(const Settings& settings, const Limits& limits, Addresses& addresses, std::vector<Place> places,
                   std::vector<PoolTraits> pools);

  // A block for `requested` bytes (not 0); none where the request is refused: an out-of-memory error.
  std::optional<BlockId> allocate(std::uint32_t place, std::uint64_t requested);
  void request_free(BlockId block);   // the program lets go; the block waits
  void complete_free(BlockId block);  // what was waited for is done: the bytes can serve again
  void empty_cache();                 // torch.cuda.empty_cache

  // Whether a request would have memory given back before it is served or refused.
  bool would_release(std::uint32_t place, std::uint64_t requested) const;

  const Stats& stats() const { return stats_; }
  const std::vector<SegmentEvent>& segment_events() const { return events_; }
  std::uint64_t address(BlockId block) const { return blocks_[block].address; }
  std::uint64_t size(BlockId block) const { return blocks_[block].size; }
  bool pending(BlockId block) const { return blocks_[block].state == State::pending; }
  std::uint64_t largest_free() const;
  Idle idle() const;
  // Walks every block; an empty string where all invariants hold, else what is broken.
  std::string broken() const;

 private:
  enum class State : std::uint8_t { gone, allocated, pending, free, unmapped };
  struct Block {
    std::uint64_t address = 0, size = 0, requested = 0;
    std::uint64_t born = 0;  // searches of its room when it was put on the shelf: what garbage collection calls age
    std::uint64_t base = 0;  // where its segment begins: pages are counted from there
    BlockId previous = kNoBlock, next = kNoBlock;
    std::uint32_t shelf = 0, waiting = 0;  // waiting: its index among the pending
    State state = State::gone;
    bool expandable = false;
    bool whole() const { return previous == kNoBlock && next == kNoBlock; }
  };
  struct Shelf {
    SortedBlocks free, unmapped;  // unmapped by address alone
    std::uint32_t room = 0;
    std::uint64_t stream = 0;
  };
  struct Room {
    std::vector<std::uint32_t> shelves;  // by stream handle
    std::uint64_t searches = 0;
    std::uint32_t pool = 0;
    PoolKind kind = PoolKind::small;
  };
  struct Request {
    std::uint64_t requested, rounded, segment;
    std::uint32_t shelf;
  };

  // caching.cpp: blocks and shelves
  Request request_for(std::uint32_t place, std::uint64_t requested) const;
  Room& room_of(std::uint32_t shelf) { return rooms_[shelves_[shelf].room]; }
  bool collects() const { return settings_.gc_threshold > 0 && limits_.cap != kUnlimited; }
  BlockId new_block(const Block& block);
  void drop(BlockId block);
  BlockId split(BlockId block, std::uint64_t bytes);
  void shelve(BlockId block);
  void unshelve(BlockId block);
  void merge_with(BlockId block, BlockId neighbour);
  void merge_around(BlockId block);
  std::optional<SizeKey> best_fit(std::uint32_t shelf, std::uint64_t rounded) const;
  BlockId take_fit(std::uint32_t shelf, std::uint64_t rounded);
  SortedBlocks::Position least_growing(const SortedBlocks& shelf, SortedBlocks::Position at) const;
  std::uint64_t with_growth(BlockId block) const;
  BlockId borrow(const Request& request);
  BlockId from_driver(const Request& request, bool retry);
  BlockId serve(const Request& request);
  BlockId hand_out(BlockId block, const Request& request);
  void grew(SegmentAction action, std::uint64_t address, std::uint64_t bytes);
  void shrank(SegmentAction action, std::uint64_t address, std::uint64_t bytes);

  // release.cpp: giving back
  std::uint64_t gc_limit() const;
  void collect_garbage();
  bool release_enough(const Request& request);
  void release_everything();
  void release_room(std::uint32_t room);
  void release(BlockId block);
  std::uint64_t ages(std::vector<BlockId>& candidates) const;

  // expandable.cpp: growing and shrinking in place
  BlockId grow(const Request& request);
  BlockId growth_candidate(const Request& request);
  bool reaches(BlockId block, std::uint64_t bytes) const;
  bool map(BlockId block, std::uint64_t bytes);
  void unmap(BlockId block);
  std::uint64_t page(std::uint32_t shelf) const;
  std::pair<std::uint64_t, std::uint64_t> whole_pages(const Block& block) const;  // from, to; the block where not paged

  Settings settings_;
  Limits limits_;
  Addresses& addresses_;
  std::vector<PoolTraits> pools_;
  std::vector<Shelf> shelves_;  // two a place: small, large
  std::vector<Room> rooms_;     // two a pool: small, large
  std::vector<Block> blocks_;
  std::vector<BlockId> spare_, pending_;
  std::vector<SegmentEvent> events_;
  Stats stats_;
};

}  // namespace forebay::emulate
