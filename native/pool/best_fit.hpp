// best_fit: free blocks ordered by size, then address; the smallest that fits in logarithmic time, no memory of its
// own. A bitmap of 8 bins a power of two finds the bin; inside a bin blocks form a treap through Block::left and right,
// balanced by a hash of their addresses (Seidel and Aragon, 1996), so the shape does not depend on the history.
// Who may have a block is lane.hpp's.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

#include "pool/block.hpp"

namespace forebay {

class BestFit {
 public:
  void insert(Block* block);
  void remove(Block* block);
  // The smallest block of at least `bytes`, of those the one at the lowest address; null where there is none.
  Block* find(std::uint64_t bytes) const;
  // The block after `block` in that order; null at the end.
  Block* after(const Block* block) const;
  std::uint64_t largest() const;
  bool empty() const { return count_ == 0; }
  std::size_t count() const { return count_; }

 private:
  static constexpr std::size_t kBins = 40 * 8;
  static constexpr std::size_t bin_of(std::uint64_t bytes) {
    const std::uint64_t n = bytes / kQuantum;
    const auto log = static_cast<unsigned>(std::bit_width(n)) - 1;
    return log < 3 ? n : (log - 2) * 8 + ((n >> (log - 3)) & 7);
  }
  std::size_t bin_from(std::size_t bin) const;  // the first bin from here on that holds something, or kBins

  std::array<Block*, kBins> roots_{};
  std::array<std::uint64_t, (kBins + 63) / 64> held_{};
  std::size_t count_ = 0;
};

}  // namespace forebay
