// release: how memory goes back to the driver: garbage collection, room for one request, everything, empty_cache.
#include <algorithm>
#include <utility>

#include "emulate/caching.hpp"

namespace forebay::emulate {

void CachingAllocator::release(BlockId id) {
  const Block block = blocks_[id];
  shelves_[block.shelf].free.erase({block.size, block.address, id});
  addresses_.give(block.address, block.size);
  shrank(SegmentAction::free, block.address, block.size);
  drop(id);
}

// The whole idle segments of the default pool's large room, and the sum of their ages. Expandable ones count although
// they are never freed here.
std::uint64_t CachingAllocator::ages(std::vector<BlockId>& candidates) const {
  std::uint64_t total = 0;
  for (std::uint32_t shelf : rooms_[1].shelves)
    for (BlockId id : shelves_[shelf].free.blocks())
      if (blocks_[id].whole()) {
        candidates.push_back(id);
        total += rooms_[1].searches - blocks_[id].born;
      }
  return total;
}

std::uint64_t CachingAllocator::gc_limit() const {
  return static_cast<std::uint64_t>(settings_.gc_threshold * static_cast<double>(limits_.cap));
}

// Segments at least as old as the average go, round after round, until reserved is below the threshold's share of the
// cap or a round frees nothing.
void CachingAllocator::collect_garbage() {
  if (stats_.reserved <= gc_limit()) return;
  const std::uint64_t excess = stats_.reserved - gc_limit();
  std::uint64_t freed = 0;
  std::vector<BlockId> candidates;
  std::uint64_t total = ages(candidates);
  std::size_t count = candidates.size();
  for (bool progress = true; freed < excess && progress && count > 0;) {
    const double average = static_cast<double>(total) / static_cast<double>(count);
    progress = false;
    std::vector<BlockId> kept;
    for (BlockId id : candidates) {
      const std::uint64_t age = rooms_[1].searches - blocks_[id].born;
      if (blocks_[id].expandable || static_cast<double>(age) < average) {
        kept.push_back(id);
        continue;
      }
      progress = true;
      freed += blocks_[id].size;
      total -= age;
      --count;
      release(id);
    }
    candidates = std::move(kept);
  }
}

// With a split limit: on the request's own shelf the one block that is large enough, else oversize blocks from the
// largest down. False where that does not come to enough.
bool CachingAllocator::release_enough(const Request& request) {
  if (!settings_.max_split_size) return false;
  SortedBlocks& free = shelves_[request.shelf].free;
  const std::uint64_t wanted = std::max(request.rounded, *settings_.max_split_size);
  const auto at = free.lower_bound({wanted, 0, 0});
  if (at != free.end() && !blocks_[free.at(at).block].expandable) {
    release(free.at(at).block);
    return true;
  }
  // Of a shelf's larger blocks only expandable ones can stand at or behind `at`: they are stepped over.
  std::vector<BlockId> oversize;
  std::uint64_t total = 0;
  for (auto p = at; p != free.begin() && total < wanted;) {
    p = free.previous(p);
    if (free.at(p).size < *settings_.max_split_size) break;
    if (blocks_[free.at(p).block].expandable) continue;
    oversize.push_back(free.at(p).block);
    total += free.at(p).size;
  }
  for (BlockId id : oversize) release(id);
  return total >= wanted;
}

void CachingAllocator::release_room(std::uint32_t room) {
  std::vector<BlockId> shrinking;
  for (std::uint32_t shelf : rooms_[room].shelves)
    for (BlockId id : shelves_[shelf].free.blocks()) {
      if (blocks_[id].expandable)
        shrinking.push_back(id);
      else if (blocks_[id].whole())
        release(id);
    }
  for (BlockId id : shrinking) unmap(id);
}

// Every pending free is waited for first. Only the default pool gives back: what is idle in a live private pool stays.
void CachingAllocator::release_everything() {
  ++stats_.syncs;
  for (BlockId id : std::vector<BlockId>(pending_)) complete_free(id);
  release_room(1);
  release_room(0);
}

void CachingAllocator::empty_cache() { release_everything(); }

}  // namespace forebay::emulate
