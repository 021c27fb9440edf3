#include "emulate/heap.hpp"

#include <algorithm>
#include <iterator>

namespace forebay::emulate {
namespace {

// The last entry of the map that begins at or before the address.
template <class Map>
auto floor_of(Map& map, std::uint64_t address) {
  auto at = map.upper_bound(address);
  return at == map.begin() ? map.end() : std::prev(at);
}

bool same_range(const Segment& a, const Segment& b) {
  return a.expandable && b.expandable && a.stream == b.stream && a.pool == b.pool;
}

}  // namespace

bool Heap::live_in(std::uint64_t begin, std::uint64_t end) const {
  const auto first = floor_of(blocks_, begin);
  if (first != blocks_.end() && first->first + first->second.size > begin) return true;
  const auto next = blocks_.lower_bound(begin);
  return next != blocks_.end() && next->first < end;
}

bool Heap::reserve(std::uint64_t address, const Segment& segment) {
  if (segment.size == 0) return false;
  const auto before = floor_of(segments_, address);
  if (before != segments_.end() && before->first + before->second.size > address) return false;
  const auto after = segments_.lower_bound(address);
  if (after != segments_.end() && after->first < address + segment.size) return false;
  const auto at = segments_.emplace_hint(after, address, segment);
  if (std::next(at) != segments_.end()) join(at);
  if (at != segments_.begin()) join(std::prev(at));
  return true;
}

// Mapped ranges of one expandable segment that touch are one.
void Heap::join(Segments::iterator left) {
  const auto right = std::next(left);
  if (left->first + left->second.size != right->first || !same_range(left->second, right->second)) return;
  left->second.size += right->second.size;
  segments_.erase(right);
}

bool Heap::release(std::uint64_t address, std::uint64_t size) {
  const auto at = floor_of(segments_, address);
  if (at == segments_.end() || size == 0 || live_in(address, address + size)) return false;
  const std::uint64_t begin = at->first, end = begin + at->second.size;
  if (address + size > end || (!at->second.expandable && (address != begin || address + size != end))) return false;
  Segment rest = at->second;
  if (address == begin)
    segments_.erase(at);
  else
    at->second.size = address - begin;
  if (address + size != end) {
    rest.size = end - address - size;
    segments_.emplace(address + size, rest);
  }
  return true;
}

bool Heap::place(std::uint64_t address, const Block& block) {
  if (block.size == 0 || live_in(address, address + block.size)) return false;
  blocks_.emplace(address, block);
  return true;
}

Block* Heap::find(std::uint64_t address) {
  const auto at = blocks_.find(address);
  return at == blocks_.end() ? nullptr : &at->second;
}

const Heap::Segments::value_type* Heap::segment_of(std::uint64_t address) const {
  const auto at = floor_of(segments_, address);
  return at == segments_.end() || at->first + at->second.size <= address ? nullptr : &*at;
}

std::uint64_t Heap::next_edge(std::uint64_t address, const Segments::value_type& segment) const {
  const std::uint64_t end = segment.first + segment.second.size;
  const auto next = blocks_.upper_bound(address);
  return next == blocks_.end() ? end : std::min(end, next->first);
}

Heap::Blocks::value_type* Heap::before(std::uint64_t address, const Segments::value_type& segment) {
  auto at = blocks_.lower_bound(address);
  if (at == blocks_.begin() || (--at)->first < segment.first) return nullptr;
  return &*at;
}

}  // namespace forebay::emulate
