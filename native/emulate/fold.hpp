// fold: the heap of one device along a tape that already says what every block costs: gauges after each row, peaks,
// and the heap itself at any row. Sizes that a source does not say are history.hpp's.
#pragma once

#include <cstdint>
#include <span>

#include "emulate/heap.hpp"
#include "tape/events.hpp"

namespace forebay::emulate {

// Bytes and counts, as PyTorch's memory statistics count them.
struct Levels {
  std::int64_t reserved = 0, allocated = 0, active = 0, requested = 0, segments = 0, blocks = 0;
};
struct Totals {
  Levels now, peak;
  std::uint64_t driver_allocs = 0, driver_frees = 0, allocs = 0, misfits = 0;
};

// When freed bytes may be used again: at the free itself, or only at a reclaim that the tape shows.
enum class Reuse : std::uint8_t { at_free, at_reclaim };

// Columns of the rows of one device; n each.
struct Rows {
  std::span<const std::uint8_t> kind;
  std::span<const std::uint64_t> address, size, requested;
  std::span<const std::uint32_t> stream, pool, site;
};
// After each row; n each. `requested` is of active blocks.
struct Curves {
  std::span<std::int64_t> reserved, allocated, active, requested;
};

class Fold {
 public:
  Fold(Heap start, Reuse reuse);
  void run(const Rows& rows, const Curves& curves);
  const Heap& heap() const { return heap_; }
  const Totals& totals() const { return totals_; }

 private:
  bool step(const Rows& rows, std::size_t i);
  bool reserve(const Rows& rows, std::size_t i);
  bool release(const Rows& rows, std::size_t i);
  bool alloc(const Rows& rows, std::size_t i);
  bool free(std::uint64_t address);
  bool reclaim(std::uint64_t address);
  void add(const Segment& segment);
  void add(const Block& block);
  void raise_peaks();

  Heap heap_;
  Reuse reuse_;
  Totals totals_;
};

}  // namespace forebay::emulate
