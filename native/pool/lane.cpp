#include "pool/lane.hpp"

#include <algorithm>

#include "pool/check.hpp"

namespace forebay {
namespace {
// What an operation on a block may rely on around it.
[[maybe_unused]] bool in_place(const Block* b) {
  if (b->slab != nullptr)
    return b->address >= b->slab->address && b->address + b->size <= b->slab->address + b->slab->size &&
           b->slab->state.load(std::memory_order_relaxed) == BlockState::slab;
  return b->address >= b->segment->address && b->address + b->size <= b->segment->address + b->segment->size &&
         (b->prev == nullptr ? b->segment->first == b
                             : b->prev->next == b && b->prev->address + b->prev->size == b->address) &&
         (b->next == nullptr ? b->address + b->size == b->segment->address + b->segment->size
                             : b->next->prev == b && b->address + b->size == b->next->address);
}

// The frames of a range in which a block begins and ends, by place.
struct Ends {
  std::uint64_t first, last;
  Ends(const Segment& range, const Block& block)
      : first((block.address - range.address) / range.mapped->frame),
        last((block.address + block.size - 1 - range.address) / range.mapped->frame) {}
  // Of the frames between them.
  std::uint64_t inner(const Segment& range) const {
    return first == last ? 0 : (last - first - 1) * range.mapped->frame;
  }
};

// The bytes of whole frames that the block takes from the idle ones.
std::uint64_t occupy(Segment& range, const Block& block) {
  const Ends ends(range, block);
  std::vector<std::uint32_t>& edges = range.mapped->edges;
  std::uint64_t frames = edges[ends.first]++ == 0;
  if (ends.last != ends.first) frames += edges[ends.last]++ == 0;
  return frames * range.mapped->frame + ends.inner(range);
}
std::uint64_t vacate(Segment& range, const Block& block) {
  const Ends ends(range, block);
  std::vector<std::uint32_t>& edges = range.mapped->edges;
  std::uint64_t frames = --edges[ends.first] == 0;
  if (ends.last != ends.first) frames += --edges[ends.last] == 0;
  return frames * range.mapped->frame + ends.inner(range);
}
}  // namespace

Block* Lane::take(const Need& need) {
  if (need.size_class) return take_slot(need);
  if (Block* block = take_block(shelves_[static_cast<std::size_t>(need.shelf)], need)) return block;
  Block* guest = guests_.find(need.bytes);
  if (guest == nullptr || guest->size > most_for_guest(need.bytes)) return nullptr;
  guests_.remove(guest);
  return live(guest, need.requested);
}

Block* Lane::take_anywhere(const Need& need) {
  for (BestFit& list : shelves_)
    if (Block* block = take_block(list, need)) return block;
  return nullptr;
}

Block* Lane::take_new(const Need& need) {
  Block* block = take(need);
  return block != nullptr ? block : take_anywhere(need);
}

Block* Lane::take_slot(const Need& need) {
  Block*& head = free_slots_[*need.size_class];
  if (head == nullptr) {
    BestFit& list = shelves_[static_cast<std::size_t>(need.shelf)];
    Block* slab = list.find(kSlabBytes);
    if (slab == nullptr) return nullptr;
    list.remove(slab);
    carve(cut(slab, kSlabBytes), *need.size_class);
  }
  Block* slot = head;
  pull_slot(slot);
  return live(slot, need.requested);
}

Block* Lane::take_block(BestFit& list, const Need& need) {
  Block* block = list.find(need.bytes);
  if (block == nullptr) return nullptr;
  list.remove(block);
  return live(cut(block, need.bytes), need.requested);
}

Block* Lane::cut(Block* block, std::uint64_t bytes) {
  if (block->size == bytes) return block;
  Block* rest = split(block, bytes);
  map_.insert(rest);
  shelf(block->segment).insert(rest);
  return block;
}

Block* Lane::split(Block* block, std::uint64_t bytes) {
  Block* rest = make_block();
  rest->address = block->address + bytes;
  rest->size = block->size - bytes;
  rest->segment = block->segment;
  rest->epoch = block->epoch;
  rest->prev = block;
  rest->next = block->next;
  if (rest->next != nullptr) rest->next->prev = rest;
  block->next = rest;
  block->size = bytes;
  return rest;
}

Block* Lane::live(Block* block, std::uint64_t requested) {
  FOREBAY_CHECK(block->state.load() == BlockState::free && block->points.empty() && block->holder == this);
  FOREBAY_CHECK(block->away || in_place(block));
  block->state.store(BlockState::live, std::memory_order_relaxed);
  block->requested = requested;
  figures.allocated += block->size;
  figures.requested += requested;
  const Block* whole = block->slab != nullptr ? block->slab : block;
  if (block->slab != nullptr) ++block->slab->slots_in_use;
  if (!whole->away) busier(block);
  return block;
}

bool Lane::give(Block* block, std::uint64_t epoch) {
  if (block->state.load(std::memory_order_relaxed) != BlockState::live) return false;
  FOREBAY_CHECK(block->holder == this && (block->away || in_place(block)));
  FOREBAY_CHECK(figures.allocated >= block->size && figures.requested >= block->requested);
  figures.allocated -= block->size;
  figures.requested -= block->requested;
  block->epoch = epoch;
  std::erase_if(block->points, [&](const Point& p) { return clock_->sees(p); });
  if (block->points.empty()) {
    release(block);
  } else {
    block->state.store(BlockState::pending, std::memory_order_relaxed);
    figures.pending += block->size;
    pending_.push_back(block);
  }
  return true;
}

void Lane::release(Block* block) {
  block->state.store(BlockState::free, std::memory_order_relaxed);
  if (block->slab != nullptr) {
    --block->slab->slots_in_use;
    if (!block->slab->away) idler(block);
    push_slot(block);
  } else if (block->away) {
    guests_.insert(block);
  } else {
    release_home(block);
  }
}

void Lane::release_home(Block* block) {
  idler(block);
  free_whole(block);
}

// Free neighbours in one lane are ordered by one stream: they become one block, complete when the later of them is.
void Lane::free_whole(Block* block) {
  const auto mergeable = [](const Block* b) {
    return b != nullptr && !b->away && b->state.load(std::memory_order_relaxed) == BlockState::free;
  };
  block->state.store(BlockState::free, std::memory_order_relaxed);
  if (Block* next = block->next; mergeable(next)) {
    shelf(block->segment).remove(next);
    absorb(block, next);
  }
  if (Block* prev = block->prev; mergeable(prev)) {
    shelf(block->segment).remove(prev);
    absorb(prev, block);
    block = prev;
  }
  FOREBAY_CHECK(in_place(block) && !mergeable(block->prev) && !mergeable(block->next));
  shelf(block->segment).insert(block);
}

void Lane::absorb(Block* block, Block* neighbour) {
  map_.erase(neighbour->address);
  join(block, neighbour);
}

void Lane::join(Block* block, Block* neighbour) {
  block->size += neighbour->size;
  block->epoch = std::max(block->epoch, neighbour->epoch);
  block->next = neighbour->next;
  if (block->next != nullptr) block->next->prev = block;
  drop_block(neighbour);
}

void Lane::park(Block* block) {
  block->next_parked = parked_.load(std::memory_order_relaxed);
  while (!parked_.compare_exchange_weak(block->next_parked, block, std::memory_order_release)) {
  }
}

void Lane::drain() {
  if (parked_.load(std::memory_order_relaxed) == nullptr) return;
  Block* block = parked_.exchange(nullptr, std::memory_order_acquire);
  while (block != nullptr) {
    Block* next = block->next_parked;
    block->parked.store(false, std::memory_order_relaxed);
    give(block, block->epoch);
    block = next;
  }
}

std::vector<Block*> Lane::ripe() {
  std::vector<Block*> out;
  std::erase_if(pending_, [&](Block* block) {
    std::erase_if(block->points, [](const Point& p) { return p.clock->passed(p.epoch); });
    if (!std::all_of(block->points.begin(), block->points.end(), [&](const Point& p) { return clock_->sees(p); }))
      return false;
    // Passed by an edge into this stream only: what comes after this stream's present comes after the point.
    if (!block->points.empty()) block->epoch = clock_->at_settle();
    block->points.clear();
    out.push_back(block);
    return true;
  });
  return out;
}

void Lane::settle(const std::vector<Block*>& blocks) {
  for (Block* block : blocks) {
    figures.pending -= block->size;
    release(block);
  }
}

std::vector<Point> Lane::awaited() const {
  std::vector<Point> points;
  for (const Block* block : pending_) points.insert(points.end(), block->points.begin(), block->points.end());
  return points;
}

void Lane::carve(Block* slab, std::uint8_t size_class) {
  const std::uint64_t bytes = (size_class + 1) * kQuantum;
  map_.erase(slab->address);
  slab->state.store(BlockState::slab, std::memory_order_relaxed);
  slab->size_class = size_class;
  slab->slots = nullptr;
  slab->left = nullptr;
  slab->right = slabs_;
  if (slabs_ != nullptr) slabs_->left = slab;
  slabs_ = slab;
  const std::uint64_t count = slab->size / bytes;
  for (std::uint64_t i = count; i-- > 0;) {
    Block* slot = make_block();
    slot->address = slab->address + i * bytes;
    slot->size = i + 1 == count ? slab->size - i * bytes : bytes;  // the last has what is left over
    slot->segment = slab->segment;
    slot->slab = slab;
    slot->size_class = size_class;
    slot->epoch = slab->epoch;
    slot->next = slab->slots;
    slab->slots = slot;
    map_.insert(slot);
    push_slot(slot);
  }
}

void Lane::dissolve(Block* slab) {
  for (Block *slot = slab->slots, *next = nullptr; slot != nullptr; slot = next) {
    next = slot->next;
    slab->epoch = std::max(slab->epoch, slot->epoch);
    pull_slot(slot);
    map_.erase(slot->address);
    drop_block(slot);
  }
  slab->slots = nullptr;
  (slab->left != nullptr ? slab->left->right : slabs_) = slab->right;
  if (slab->right != nullptr) slab->right->left = slab->left;
  map_.insert(slab);
  if (slab->away) {
    slab->state.store(BlockState::free, std::memory_order_relaxed);
    guests_.insert(slab);
  } else {
    free_whole(slab);
  }
}

void Lane::dissolve_idle_slabs() {
  for (Block *slab = slabs_, *next = nullptr; slab != nullptr; slab = next) {
    next = slab->right;
    if (slab->slots_in_use == 0) dissolve(slab);
  }
}

void Lane::push_slot(Block* slot) {
  Block*& head = free_slots_[slot->size_class];
  slot->left = nullptr;
  slot->right = head;
  if (head != nullptr) head->left = slot;
  head = slot;
}

void Lane::pull_slot(Block* slot) {
  (slot->left != nullptr ? slot->left->right : free_slots_[slot->size_class]) = slot->right;
  if (slot->right != nullptr) slot->right->left = slot->left;
}

void Lane::busier(const Block* block) {
  Segment* segment = block->segment;
  if (segment->mapped != nullptr)
    figures.releasable -= occupy(*segment, *block);
  else if (segment->busy++ == 0)
    figures.releasable -= segment->size;
}

void Lane::idler(const Block* block) {
  Segment* segment = block->segment;
  FOREBAY_CHECK(segment->mapped != nullptr || segment->busy > 0);
  if (segment->mapped != nullptr)
    figures.releasable += vacate(*segment, *block);
  else if (--segment->busy == 0)
    figures.releasable += segment->size;
}

Block* Lane::make_block() {
  Block* block = spare_;
  if (block != nullptr)
    spare_ = block->next;
  else
    block = &store_.emplace_back();
  block->prev = block->next = block->slab = block->slots = nullptr;
  block->slots_in_use = 0;
  block->away = false;
  block->holder = this;
  block->state.store(BlockState::free, std::memory_order_relaxed);
  return block;
}

void Lane::drop_block(Block* block) {
  block->next = spare_;
  spare_ = block;
}

}  // namespace forebay
