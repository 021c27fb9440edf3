#include "emulate/caching.hpp"

#include <algorithm>
#include <utility>

namespace forebay::emulate {
namespace {

SizeKey key(std::uint64_t size, std::uint64_t address, BlockId block) { return {size, address, block}; }

}  // namespace

CachingAllocator::CachingAllocator(const Settings& settings, const Limits& limits, Addresses& addresses,
                                   std::vector<Place> places, std::vector<PoolTraits> pools)
    : settings_(settings), limits_(limits), addresses_(addresses), pools_(std::move(pools)) {
  rooms_.resize(2 * pools_.size());
  for (std::uint32_t r = 0; r < rooms_.size(); ++r) {
    rooms_[r].pool = r / 2;
    rooms_[r].kind = r % 2 == 0 ? PoolKind::small : PoolKind::large;
  }
  for (const Place& place : places)
    for (std::uint32_t half = 0; half < 2; ++half) {
      Shelf shelf;
      shelf.room = 2 * place.pool + half;
      shelf.stream = place.stream;
      rooms_[shelf.room].shelves.push_back(static_cast<std::uint32_t>(shelves_.size()));
      shelves_.push_back(std::move(shelf));
    }
  for (Room& room : rooms_)
    std::sort(room.shelves.begin(), room.shelves.end(),
              [&](std::uint32_t a, std::uint32_t b) { return shelves_[a].stream < shelves_[b].stream; });
}

BlockId CachingAllocator::new_block(const Block& block) {
  if (spare_.empty()) {
    blocks_.push_back(block);
    return static_cast<BlockId>(blocks_.size() - 1);
  }
  const BlockId id = spare_.back();
  spare_.pop_back();
  blocks_[id] = block;
  return id;
}

void CachingAllocator::drop(BlockId block) {
  blocks_[block] = Block{};
  spare_.push_back(block);
}

// The block keeps its first `bytes`; what is behind them is a new block in the same state, on no shelf yet.
BlockId CachingAllocator::split(BlockId id, std::uint64_t bytes) {
  Block rest = blocks_[id];
  rest.address += bytes;
  rest.size -= bytes;
  rest.previous = id;
  const BlockId back = new_block(rest);
  if (rest.next != kNoBlock) blocks_[rest.next].previous = back;
  blocks_[id].size = bytes;
  blocks_[id].next = back;
  return back;
}

void CachingAllocator::shelve(BlockId id) {
  Block& block = blocks_[id];
  Shelf& shelf = shelves_[block.shelf];
  if (block.state == State::unmapped) {
    shelf.unmapped.insert(key(0, block.address, id));
  } else {
    block.born = rooms_[shelf.room].searches;
    shelf.free.insert(key(block.size, block.address, id));
  }
}

void CachingAllocator::unshelve(BlockId id) {
  const Block& block = blocks_[id];
  Shelf& shelf = shelves_[block.shelf];
  if (block.state == State::unmapped)
    shelf.unmapped.erase(key(0, block.address, id));
  else
    shelf.free.erase(key(block.size, block.address, id));
}

// `neighbour` joins `block` where both are free, or both unmapped. The block itself is on no shelf meanwhile.
void CachingAllocator::merge_with(BlockId id, BlockId other) {
  if (other == kNoBlock || blocks_[other].state != blocks_[id].state) return;
  unshelve(other);
  Block& block = blocks_[id];
  const Block& gone = blocks_[other];
  if (block.previous == other) {
    block.address = gone.address;
    block.previous = gone.previous;
    if (block.previous != kNoBlock) blocks_[block.previous].next = id;
  } else {
    block.next = gone.next;
    if (block.next != kNoBlock) blocks_[block.next].previous = id;
  }
  block.size += gone.size;
  drop(other);
}

void CachingAllocator::merge_around(BlockId id) {
  merge_with(id, blocks_[id].previous);
  merge_with(id, blocks_[id].next);
}

// What an expandable block would come to if the unmapped bytes behind it were mapped.
std::uint64_t CachingAllocator::with_growth(BlockId id) const {
  const Block& block = blocks_[id];
  const bool grows = block.next != kNoBlock && blocks_[block.next].state == State::unmapped;
  return block.size + (grows ? blocks_[block.next].size : 0);
}

// Best fit among expandable blocks goes by what they could grow to: on while the next one's growth is less.
SortedBlocks::Position CachingAllocator::least_growing(const SortedBlocks& shelf, SortedBlocks::Position at) const {
  for (auto next = shelf.next(at); blocks_[shelf.at(at).block].expandable && next != shelf.end();
       next = shelf.next(next)) {
    if (with_growth(shelf.at(next).block) >= with_growth(shelf.at(at).block)) break;
    at = next;
  }
  return at;
}

// The smallest free block that is large enough, at the lowest address. None also where the oversize rules say no to
// that one block: no other is tried.
std::optional<SizeKey> CachingAllocator::best_fit(std::uint32_t shelf_id, std::uint64_t rounded) const {
  const SortedBlocks& free = shelves_[shelf_id].free;
  auto at = free.lower_bound(key(rounded, 0, 0));
  if (at == free.end()) return std::nullopt;
  if (blocks_[free.at(at).block].expandable && settings_.expandable_segments) at = least_growing(free, at);
  while (!settings_.expandable_segments && blocks_[free.at(at).block].expandable)
    if ((at = free.next(at)) == free.end()) return std::nullopt;
  if (!may_serve(rounded, free.at(at).size, settings_)) return std::nullopt;
  return free.at(at);
}

BlockId CachingAllocator::take_fit(std::uint32_t shelf, std::uint64_t rounded) {
  if (collects()) ++room_of(shelf).searches;
  const auto found = best_fit(shelf, rounded);
  if (!found) return kNoBlock;
  shelves_[shelf].free.erase(*found);
  return found->block;
}

// Last resort of the default pool: the free blocks of pools that lend theirs.
BlockId CachingAllocator::borrow(const Request& request) {
  const Room& own = room_of(request.shelf);
  if (own.pool != 0) return kNoBlock;
  for (const Room& room : rooms_)
    if (room.kind == own.kind && pools_[room.pool].use_on_oom)
      for (std::uint32_t shelf : room.shelves)
        if (shelves_[shelf].stream == shelves_[request.shelf].stream)
          if (const BlockId block = take_fit(shelf, request.rounded); block != kNoBlock) return block;
  return kNoBlock;
}

void CachingAllocator::grew(SegmentAction action, std::uint64_t address, std::uint64_t bytes) {
  events_.push_back({action, address, bytes});
  ++stats_.driver_allocs;
  stats_.reserved += bytes;
  stats_.peak_reserved = std::max(stats_.peak_reserved, stats_.reserved);
}

void CachingAllocator::shrank(SegmentAction action, std::uint64_t address, std::uint64_t bytes) {
  events_.push_back({action, address, bytes});
  ++stats_.driver_frees;
  stats_.reserved -= bytes;
}

// A new segment, or more of an expandable one.
BlockId CachingAllocator::from_driver(const Request& request, bool retry) {
  if (retry) ++stats_.retries;
  if (stats_.reserved + request.segment > limits_.cap) return kNoBlock;
  if (settings_.expandable_segments) return grow(request);
  if (stats_.reserved + request.segment > limits_.capacity) return kNoBlock;
  Block block;
  block.address = addresses_.take(request.segment, stats_.driver_allocs);
  block.size = request.segment;
  block.base = block.address;
  block.shelf = request.shelf;
  block.state = State::free;
  grew(SegmentAction::alloc, block.address, block.size);
  return new_block(block);
}

// Note [No second search]: after everything idle was released and every pending free completed, only the driver is
// asked again. A block that became free in between is not seen (pytorch#189504): the request fails although the same
// request, made again, would be served.
BlockId CachingAllocator::serve(const Request& request) {
  if (const BlockId hit = take_fit(request.shelf, request.rounded); hit != kNoBlock) return hit;
  if (collects()) collect_garbage();
  if (const BlockId fresh = from_driver(request, false); fresh != kNoBlock) return fresh;
  if (const BlockId lent = borrow(request); lent != kNoBlock) return lent;
  if (release_enough(request))
    if (const BlockId fresh = from_driver(request, false); fresh != kNoBlock) return fresh;
  if (limits_.routing_is_capture && room_of(request.shelf).pool != 0) return kNoBlock;
  release_everything();
  return from_driver(request, true);
}

// The front of the block goes out, the back stays free where the rules let it be split off.
BlockId CachingAllocator::hand_out(BlockId id, const Request& request) {
  const std::uint64_t size = blocks_[id].size;
  const std::uint32_t shelf = blocks_[id].shelf;
  const Room& room = room_of(shelf);
  if (!pools_[room.pool].no_split && splits(request.rounded, size, room.kind, settings_.expandable_segments, settings_))
    shelve(split(id, request.rounded));
  blocks_[id].state = State::allocated;
  blocks_[id].requested = request.requested;
  return id;
}

CachingAllocator::Request CachingAllocator::request_for(std::uint32_t place, std::uint64_t requested) const {
  const std::uint64_t rounded = rounded_size(requested, settings_);
  const std::uint32_t half = pool_of(rounded) == PoolKind::small ? 0 : 1;
  return {requested, rounded, segment_size(rounded, settings_), 2 * place + half};
}

bool CachingAllocator::would_release(std::uint32_t place, std::uint64_t requested) const {
  const Request request = request_for(place, requested);
  if (best_fit(request.shelf, request.rounded)) return false;
  if (collects() && stats_.reserved > gc_limit()) return true;
  return stats_.reserved + request.segment > std::min(limits_.cap, limits_.capacity);
}

std::optional<BlockId> CachingAllocator::allocate(std::uint32_t place, std::uint64_t requested) {
  const Request request = request_for(place, requested);
  const BlockId found = serve(request);
  if (found == kNoBlock) {
    ++stats_.ooms;
    return std::nullopt;
  }
  const BlockId id = hand_out(found, request);
  stats_.allocated += blocks_[id].size;
  stats_.active += blocks_[id].size;
  stats_.requested += requested;
  stats_.peak_allocated = std::max(stats_.peak_allocated, stats_.allocated);
  stats_.peak_active = std::max(stats_.peak_active, stats_.active);
  stats_.peak_requested = std::max(stats_.peak_requested, stats_.requested);
  return id;
}

void CachingAllocator::request_free(BlockId id) {
  Block& block = blocks_[id];
  block.state = State::pending;
  block.waiting = static_cast<std::uint32_t>(pending_.size());
  pending_.push_back(id);
  stats_.allocated -= block.size;
}

void CachingAllocator::complete_free(BlockId id) {
  Block& block = blocks_[id];
  blocks_[pending_.back()].waiting = block.waiting;
  pending_[block.waiting] = pending_.back();
  pending_.pop_back();
  stats_.active -= block.size;
  stats_.requested -= block.requested;
  block.state = State::free;
  merge_around(id);
  shelve(id);
}

std::uint64_t CachingAllocator::largest_free() const {
  std::uint64_t largest = 0;
  for (const Shelf& shelf : shelves_) largest = std::max(largest, shelf.free.largest());
  return largest;
}

Idle CachingAllocator::idle() const {
  Idle idle;
  for (const Block& block : blocks_) {
    if (block.state != State::free) continue;
    idle.free += block.size;
    idle.largest = std::max(idle.largest, block.size);
    const auto [first, last] = whole_pages(block);
    if (block.expandable ? first < last : block.whole()) idle.releasable += last - first;
  }
  return idle;
}

std::string CachingAllocator::broken() const {
  std::uint64_t reserved = 0, active = 0;
  for (BlockId id = 0; id < blocks_.size(); ++id) {
    const Block& block = blocks_[id];
    if (block.state == State::gone) continue;
    if (block.state != State::unmapped) reserved += block.size;
    if (block.state == State::allocated || block.state == State::pending) active += block.size;
    if (block.size == 0) return "an empty block";
    if (block.next == kNoBlock) continue;
    const Block& next = blocks_[block.next];
    if (next.previous != id) return "neighbours that do not know each other";
    if (next.address != block.address + block.size) return "a gap inside a segment";
    const bool idle = block.state == State::free || block.state == State::unmapped;
    if (idle && next.state == block.state) return "two free neighbours that were not joined";
  }
  if (reserved != stats_.reserved) return "reserved bytes that no block accounts for";
  return active == stats_.active ? "" : "active bytes that no block accounts for";
}

}  // namespace forebay::emulate
