// history: settles a recorded allocator history of one device: the heap before its first event, the size of every
// block with its unsplit tail, the pool of every event. It runs no policy of its own: it follows the addresses
// recorded.
//
// Note [Tails]: a trace says what was asked for, not what the block cost. Forwards the cost follows from sizes.hpp and
// from where the next live block or the segment's end lies. Backwards, at the free of a block from before the window,
// the tail is unknown; what is known later in the walk bounds it: in the large pool no free block is of 1 MiB or less,
// so such a gap is a tail, and where a block was allocated, the one before it reaches up to there.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "emulate/heap.hpp"
#include "emulate/sizes.hpp"

namespace forebay::emulate {

enum class Action : std::uint8_t { alloc, free_requested, free_completed, reserve, release, map, unmap, other };

// n events in order. `owner` numbers a private pool (0: the default ones), known where has_owner is not 0.
struct Recorded {
  std::span<const std::uint8_t> action, has_owner;
  std::span<const std::uint64_t> address, size;
  std::span<const std::uint32_t> stream, owner, site;
};

struct Settled {
  std::vector<std::uint64_t> size;  // of the block; of the segment; as recorded where the event is about neither
  std::vector<std::uint32_t> pool;  // 2 * owner + (1 where large)
  Heap start, end;                  // before the first event; after the last, run forwards from `start`
  std::vector<std::size_t> misfits_back, misfits_forward;  // events that contradict the heap that they met, in order
};

// `last` is the heap that the file ends with. The forward run reads nothing of it but the owners of its segments.
Settled settle(const Recorded& events, const Heap& last, const Settings& settings);

// Forwards from a heap given, for instance an empty one.
Settled settle_from(const Recorded& events, Heap start, const Settings& settings);

bool same(const Heap& a, const Heap& b);  // segments and live blocks, sites and streams of blocks aside

}  // namespace forebay::emulate
