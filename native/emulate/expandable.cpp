// expandable: segments that grow in place: a range of addresses per (pool, stream), mapped page by page.
#include <algorithm>

#include "emulate/caching.hpp"

namespace forebay::emulate {

std::uint64_t CachingAllocator::page(std::uint32_t shelf) const {
  return page_size(rooms_[shelves_[shelf].room].kind, settings_);
}

// Whether free and unmapped bytes in a row, from this block on, come to `bytes`.
bool CachingAllocator::reaches(BlockId id, std::uint64_t bytes) const {
  std::uint64_t sum = 0;
  for (; id != kNoBlock && sum < bytes; id = blocks_[id].next) {
    if (blocks_[id].state != State::free && blocks_[id].state != State::unmapped) return false;
    sum += blocks_[id].size;
  }
  return sum >= bytes;
}

// The lowest unmapped bytes that reach, begun one block earlier where that one is free; else a new range.
BlockId CachingAllocator::growth_candidate(const Request& request) {
  for (BlockId id : shelves_[request.shelf].unmapped.blocks()) {
    const BlockId before = blocks_[id].previous;
    if (before != kNoBlock && blocks_[before].state == State::free) id = before;
    if (reaches(id, request.rounded)) return id;
  }
  const std::uint64_t unit = page(request.shelf);
  // 9/8 of the device's memory (facts: the address range of one expandable segment).
  const std::uint64_t bytes = (limits_.device_total / 8 * 9 + unit - 1) / unit * unit;
  Block block;
  block.address = addresses_.take(bytes, stats_.driver_allocs);
  block.base = block.address;
  block.size = bytes;
  block.shelf = request.shelf;
  block.state = State::unmapped;
  block.expandable = true;
  const BlockId id = new_block(block);
  shelve(id);
  return id;
}

// Maps the front of an unmapped block, whole pages that hold `bytes`, and joins it to what is free around it. All or
// nothing; pieces mapped before stay.
bool CachingAllocator::map(BlockId id, std::uint64_t bytes) {
  const std::uint64_t unit = page(blocks_[id].shelf);
  const std::uint64_t mapped = std::min((bytes + unit - 1) / unit * unit, blocks_[id].size);
  if (stats_.reserved + mapped > limits_.capacity) return false;
  unshelve(id);
  grew(SegmentAction::map, blocks_[id].address, mapped);
  if (mapped < blocks_[id].size) shelve(split(id, mapped));
  blocks_[id].state = State::free;
  merge_around(id);
  shelve(id);
  return true;
}

BlockId CachingAllocator::grow(const Request& request) {
  BlockId id = growth_candidate(request);
  if (blocks_[id].state == State::unmapped && !map(id, std::min(blocks_[id].size, request.rounded))) return kNoBlock;
  while (blocks_[id].size < request.rounded) {
    const BlockId next = blocks_[id].next;
    if (!map(next, std::min(request.rounded - blocks_[id].size, blocks_[next].size))) return kNoBlock;
    id = next;
  }
  unshelve(id);
  return id;
}

std::pair<std::uint64_t, std::uint64_t> CachingAllocator::whole_pages(const Block& block) const {
  if (!block.expandable) return {block.address, block.address + block.size};
  const std::uint64_t unit = page(block.shelf), from = block.address - block.base;
  return {block.base + (from + unit - 1) / unit * unit, block.base + (from + block.size) / unit * unit};
}

// Gives back the whole pages inside a free block; its ends stay free blocks. A range with nothing mapped is returned.
void CachingAllocator::unmap(BlockId id) {
  const Block block = blocks_[id];
  const auto [first, last] = whole_pages(block);
  if (first >= last) return;
  unshelve(id);
  if (first > block.address) {
    const BlockId inner = split(id, first - block.address);
    shelve(id);
    id = inner;
  }
  if (last < block.address + block.size) shelve(split(id, last - first));
  blocks_[id].state = State::unmapped;
  merge_around(id);
  shrank(SegmentAction::unmap, first, last - first);
  if (!blocks_[id].whole()) return shelve(id);
  addresses_.give(blocks_[id].address, blocks_[id].size);
  drop(id);
}

}  // namespace forebay::emulate
