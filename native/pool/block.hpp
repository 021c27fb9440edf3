// block: what a pool's memory is made of. How blocks move between lists is lane.hpp's.
//
// Glossary
//   segment  what one driver allocation gave; it belongs to one lane, its home, and is cut into blocks without gaps.
//   range    a segment of addresses alone, with frames mapped into some of them.
//   frame    physical memory of one size, the device's; mapped whole.
//   hole     a block of a range with no frames behind it. Holes, and what becomes or was one, are nobody's to hand out.
//   block    a run of bytes of a segment: free, live, pending (freed, but another stream may still use it), or a slab.
//   slab     a block carved into equal slots of one size class; a slot is a block that is never cut or merged.
//   lane     the blocks that one stream orders, in one pool.
//   guest    a block of one lane's segment that another lane holds. Its home sees it as in use until it is returned.
//   point    a place in a stream: everything issued to it before the end of an epoch.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "driver/port.hpp"
#include "pool/sizes.hpp"

namespace forebay {

class Clock;
class Lane;

struct Point {
  Clock* clock = nullptr;
  std::uint64_t epoch = 0;
};

// Of ranges only: `hole`; `moving`, frames are being mapped or unmapped there; `stuck`, they could not be unmapped.
enum class BlockState : std::uint8_t { free, live, pending, slab, hole, moving, stuck };

struct Block;

// What stands behind the addresses of a range.
struct Mapped {
  std::uint64_t frame = 0;           // bytes of each
  std::vector<FrameHandle> handles;  // by place in the range; 0, or beyond the end: none
  // By place: the busy blocks that begin or end in it. What lies between the ends of one block is its alone.
  std::vector<std::uint32_t> edges;
  std::vector<Block*> holes;
};

struct Segment {
  Address address = 0;
  std::uint64_t size = 0;
  Shelf shelf = Shelf::small;
  Lane* home = nullptr;
  Block* first = nullptr;
  std::uint32_t busy = 0;  // blocks and slots that are live, pending or guests elsewhere; 0: wholly free. Not of ranges
  std::unique_ptr<Mapped> mapped;  // of a range
};

// Note [Whose lock]: `prev`, `next`, `size`, `away` and the segment's fields belong to the home lane's lock; the rest
// to the holder's, which is the home's unless `away`. A live block's `holder`, `address` and `size` do not change, so
// its owner reads them without a lock.
struct Block {
  Address address = 0;
  std::uint64_t size = 0;
  Block *prev = nullptr, *next = nullptr;   // neighbours in the segment
  Block *left = nullptr, *right = nullptr;  // in a tree of free blocks, or a list: before, after
  Segment* segment = nullptr;
  Lane* holder = nullptr;
  Block* slab = nullptr;        // of a slot: the block it was carved from
  Block* slots = nullptr;       // of a slab: its first slot, the others through `next`
  std::uint64_t epoch = 0;      // free: on the holder's clock
  std::uint64_t requested = 0;  // live
  std::vector<Point> points;    // lent to these streams; freed: where each must have got to
  Block* next_parked = nullptr;
  std::atomic<bool> parked = false;
  std::uint32_t slots_in_use = 0;                    // of a slab
  std::atomic<BlockState> state = BlockState::free;  // read by the home lane of a guest for its gauges
  std::uint8_t size_class = 0;                       // of a slab and its slots
  bool away = false;                                 // a guest of another lane
};

}  // namespace forebay
