// sorted_blocks: an ordered set of (size, address) keys in short sorted runs: what a free list is searched in. Which
// block a key stands for is the owner's business; it only rides along.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace forebay::emulate {

struct SizeKey {
  std::uint64_t size = 0, address = 0;
  std::uint32_t block = 0;
  friend bool operator<(const SizeKey& a, const SizeKey& b) {
    return a.size != b.size ? a.size < b.size : a.address < b.address;
  }
};

// Insert and erase move at most one run of kRun keys; searching is two binary searches. Against a red-black tree this
// saves the cache misses: see benchmarks/native.
class SortedBlocks {
 public:
  // A place in the order; `end()` compares equal to the place behind the last key. Invalid after insert and erase.
  struct Position {
    std::size_t run = 0, at = 0;
    bool operator==(const Position&) const = default;
  };

  void insert(const SizeKey& key);
  void erase(const SizeKey& key);  // the key must be there
  Position lower_bound(const SizeKey& key) const;
  Position begin() const { return {}; }
  Position end() const { return {runs_.size(), 0}; }
  Position next(Position p) const;
  Position previous(Position p) const;  // of any place but the first
  const SizeKey& at(Position p) const { return runs_[p.run][p.at]; }
  bool empty() const { return runs_.empty(); }
  std::uint64_t largest() const { return runs_.empty() ? 0 : runs_.back().back().size; }
  std::vector<std::uint32_t> blocks() const;  // all, in order

 private:
  static constexpr std::size_t kRun = 128;
  std::size_t run_of(const SizeKey& key) const;
  std::vector<std::vector<SizeKey>> runs_;  // none is empty
};

}  // namespace forebay::emulate
