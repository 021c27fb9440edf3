// range: lane.hpp's ranges: where frames are mapped, which of them are idle, and how holes come and go.
#include <algorithm>

#include "pool/check.hpp"
#include "pool/lane.hpp"

namespace forebay {
namespace {

bool is(const Block* block, BlockState state) {
  return block != nullptr && !block->away && block->state.load(std::memory_order_relaxed) == state;
}
std::uint64_t free_bytes(const Block* block) { return is(block, BlockState::free) ? block->size : 0; }
std::uint64_t frames_in(const Block& block) { return block.size / block.segment->mapped->frame; }
std::uint64_t place_of(const Block& block) {
  return (block.address - block.segment->address) / block.segment->mapped->frame;
}

// Where in a hole frames go: against the free block before it, or against the one behind.
struct Place {
  Block* hole = nullptr;
  std::uint64_t bytes = 0;
  enum class Against : std::uint8_t { before, behind } against = Against::before;
};

// The fewest bytes of frames that make `bytes` in one piece; 0 where the hole is too small for that.
Place place_in(Block* hole, std::uint64_t bytes) {
  const std::uint64_t frame = hole->segment->mapped->frame;
  const std::uint64_t before = free_bytes(hole->prev), behind = free_bytes(hole->next);
  const auto missing = [&](std::uint64_t there) { return round_up(std::max(bytes, there + 1) - there, frame); };
  Place place{hole, missing(before), Place::Against::before};
  if (behind > 0 && missing(behind) < place.bytes) place = {hole, missing(behind), Place::Against::behind};
  if (place.bytes > hole->size) place.bytes = before + hole->size + behind >= bytes ? hole->size : 0;
  return place;
}

void record(Block* block, const std::vector<FrameHandle>& frames) {
  std::vector<FrameHandle>& handles = block->segment->mapped->handles;
  std::copy(frames.begin(), frames.end(), handles.begin() + static_cast<std::ptrdiff_t>(place_of(*block)));
}

}  // namespace

void Lane::plant_range(std::unique_ptr<Segment> range) {
  Block* hole = make_block();
  hole->address = range->address;
  hole->size = range->size;
  hole->segment = range.get();
  hole->epoch = 0;
  range->first = hole;
  range->home = this;
  add_hole(hole);
  segments_.push_back(std::move(range));
}

void Lane::add_hole(Block* hole) {
  hole->state.store(BlockState::hole, std::memory_order_relaxed);
  hole->segment->mapped->holes.push_back(hole);
}

void Lane::drop_hole(Block* hole) { std::erase(hole->segment->mapped->holes, hole); }

Block* Lane::open(std::uint64_t bytes, std::uint64_t slack) {
  Place best;
  for (const auto& segment : segments_) {
    if (segment->mapped == nullptr) continue;
    for (Block* hole : segment->mapped->holes) {
      const Place place = place_in(hole, bytes);
      const bool better = best.hole == nullptr || place.bytes < best.bytes ||
                          (place.bytes == best.bytes && hole->address < best.hole->address);
      if (place.bytes > 0 && better) best = place;
    }
  }
  if (best.hole == nullptr) return nullptr;
  Block* moving = best.hole;
  const std::uint64_t size = std::min(moving->size, best.bytes + slack);
  drop_hole(moving);
  if (size < moving->size) {
    const bool front = best.against == Place::Against::before;
    Block* rest = split(moving, front ? size : moving->size - size);
    if (!front) std::swap(moving, rest);
    add_hole(rest);
  }
  moving->state.store(BlockState::moving, std::memory_order_relaxed);
  Mapped& mapped = *moving->segment->mapped;
  const std::uint64_t end = place_of(*moving) + frames_in(*moving);
  if (mapped.handles.size() < end) mapped.handles.resize(end), mapped.edges.resize(end);
  return moving;
}

void Lane::fill(Block* moving, const std::vector<FrameHandle>& frames) {
  FOREBAY_CHECK(is(moving, BlockState::moving) && frames.size() == frames_in(*moving));
  record(moving, frames);
  figures.releasable += moving->size;
  moving->epoch = 0;
  map_.insert(moving);
  free_whole(moving);
}

// Its frames, which are mapped no more.
std::vector<FrameHandle> Lane::close(Block* hole) {
  FOREBAY_CHECK(is(hole, BlockState::moving));
  std::vector<FrameHandle>& handles = hole->segment->mapped->handles;
  const auto from = handles.begin() + static_cast<std::ptrdiff_t>(place_of(*hole));
  std::vector<FrameHandle> frames(from, from + static_cast<std::ptrdiff_t>(frames_in(*hole)));
  std::fill(from, from + static_cast<std::ptrdiff_t>(frames_in(*hole)), FrameHandle{});
  if (Block* next = hole->next; is(next, BlockState::hole)) {
    drop_hole(next);
    join(hole, next);
  }
  if (Block* prev = hole->prev; is(prev, BlockState::hole)) {
    drop_hole(prev);
    join(prev, hole);
    hole = prev;
  }
  add_hole(hole);
  return frames;
}

void Lane::seal(Block* moving, const std::vector<FrameHandle>& frames) {
  FOREBAY_CHECK(is(moving, BlockState::moving) && frames.size() <= frames_in(*moving));
  if (frames.size() < frames_in(*moving)) {
    Block* rest = split(moving, frames.size() * moving->segment->mapped->frame);
    rest->state.store(BlockState::moving, std::memory_order_relaxed);
    close(rest);
  }
  record(moving, frames);
  seal(moving);
}

void Lane::seal(Block* moving) { moving->state.store(BlockState::stuck, std::memory_order_relaxed); }

// A piece of a free block, whole frames, as a moving block.
Block* Lane::detach(Block* block, Address begin, Address end) {
  shelf(block->segment).remove(block);
  if (block->address < begin) {
    Block* rest = split(block, begin - block->address);
    shelf(block->segment).insert(block);
    block = rest;
  } else {
    map_.erase(block->address);
  }
  if (end < block->address + block->size) {
    Block* rest = split(block, end - block->address);
    map_.insert(rest);
    shelf(rest->segment).insert(rest);
  }
  block->state.store(BlockState::moving, std::memory_order_relaxed);
  figures.releasable -= block->size;
  return block;
}

std::vector<Block*> Lane::part(std::uint64_t bytes) {
  dissolve_idle_slabs();
  std::vector<Block*> out;
  std::uint64_t sum = 0;
  for (const auto& segment : segments_) {
    if (segment->mapped == nullptr) continue;
    const std::uint64_t frame = segment->mapped->frame;
    for (Block *block = segment->first, *next = nullptr; block != nullptr && sum < bytes; block = next) {
      next = block->next;
      if (!is(block, BlockState::free) || !clock_->passed(block->epoch)) continue;
      const Address end = (block->address + block->size) / frame * frame;
      const Address begin =
          std::max(round_up(block->address, frame), end - std::min(end, round_up(bytes - sum, frame)));
      if (begin >= end) continue;
      out.push_back(detach(block, begin, end));
      sum += end - begin;
    }
  }
  return out;
}

std::vector<Block*> Lane::unstick() {
  std::vector<Block*> out;
  for (const auto& segment : segments_) {
    if (segment->mapped == nullptr) continue;
    for (Block* block = segment->first; block != nullptr; block = block->next)
      if (is(block, BlockState::stuck)) {
        block->state.store(BlockState::moving, std::memory_order_relaxed);
        out.push_back(block);
      }
  }
  return out;
}

std::optional<Point> Lane::idle_point(std::uint64_t frame) {
  dissolve_idle_slabs();
  std::uint64_t epoch = 0;
  for (const BestFit& list : shelves_)
    for (const Block* block = list.find(frame); block != nullptr; block = list.after(block))
      if (block->segment->mapped != nullptr) epoch = std::max(epoch, block->epoch);
  return clock_->passed(epoch) ? std::nullopt : std::optional(Point{clock_, epoch});
}

}  // namespace forebay
