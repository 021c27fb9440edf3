// lending: lane.hpp's slow half: guests between lanes, segments that come and go, the largest holes.
#include <algorithm>

#include "pool/lane.hpp"

namespace forebay {
namespace {
// How many free blocks of another stream are looked at before a miss grows instead.
constexpr std::size_t kFewTries = 16;
}  // namespace

void Lane::look() {
  std::unique_lock lock(mutex);
  Clock& clock = *clock_;
  lock.unlock();
  if (clock.ended()) clock.reached(clock.at_settle());
}

std::optional<std::uint64_t> Lane::epoch_of_fit(Shelf shelf, std::uint64_t bytes) const {
  const Block* block = shelves_[static_cast<std::size_t>(shelf)].find(bytes);
  return block == nullptr ? std::nullopt : std::optional(block->epoch);
}

std::optional<std::uint64_t> Lane::epoch_of_any(std::uint64_t bytes) const {
  const auto small = epoch_of_fit(Shelf::small, bytes);
  return small ? small : epoch_of_fit(Shelf::large, bytes);
}

Block* Lane::lend_fitting(Shelf shelf, std::uint64_t bytes, const Lane& to) {
  return lend(shelves_[static_cast<std::size_t>(shelf)], bytes, to, kFewTries);
}

Block* Lane::lend_anything(std::uint64_t bytes, const Lane& to) {
  for (BestFit& list : shelves_)
    if (Block* block = lend(list, bytes, to, list.count())) return block;
  return nullptr;
}

Block* Lane::lend(BestFit& list, std::uint64_t bytes, const Lane& to, std::size_t tries) {
  Block* block = list.find(bytes);
  while (block != nullptr && !to.clock_->sees({clock_, block->epoch}))
    block = tries-- > 1 ? list.after(block) : nullptr;
  if (block == nullptr) return nullptr;
  list.remove(block);
  cut(block, bytes);
  block->away = true;
  busier(block);
  return block;
}

Block* Lane::receive(Block* guest, const Need& need) {
  guest->holder = this;
  guest->epoch = 0;
  if (!need.size_class) return live(guest, need.requested);
  carve(guest, *need.size_class);
  return take_slot(need);
}

std::vector<Block*> Lane::expel() {
  std::vector<Block*> out;
  while (Block* guest = guests_.find(kQuantum)) {
    guests_.remove(guest);
    out.push_back(guest);
  }
  return out;
}

void Lane::take_home(Block* guest, Point point) {
  guest->away = false;
  guest->holder = this;
  guest->epoch = 0;
  guest->points.assign(1, point);
  guest->state.store(BlockState::pending, std::memory_order_relaxed);
  figures.pending += guest->size;
  pending_.push_back(guest);
}

void Lane::plant(std::unique_ptr<Segment> segment, std::uint64_t epoch) {
  Block* block = make_block();
  block->address = segment->address;
  block->size = segment->size;
  block->segment = segment.get();
  block->epoch = epoch;
  segment->first = block;
  segment->home = this;
  segment->busy = 0;
  figures.releasable += segment->size;
  map_.insert(block);
  shelf(segment.get()).insert(block);
  segments_.push_back(std::move(segment));
}

std::vector<std::unique_ptr<Segment>> Lane::uproot(std::uint64_t bytes) {
  dissolve_idle_slabs();
  std::stable_sort(segments_.begin(), segments_.end(), [](const auto& a, const auto& b) { return a->size > b->size; });
  std::vector<std::unique_ptr<Segment>> out;
  std::uint64_t sum = 0;
  for (auto& segment : segments_) {
    if (segment->mapped != nullptr || segment->busy != 0 || sum >= bytes) continue;
    Block* whole = segment->first;
    shelf(segment.get()).remove(whole);
    map_.erase(whole->address);
    drop_block(whole);
    figures.releasable -= segment->size;
    sum += segment->size;
    out.push_back(std::move(segment));
  }
  std::erase(segments_, nullptr);
  return out;
}

void Lane::rebind(Clock& clock) {
  clock_ = &clock;
  for (const auto& segment : segments_)
    for (Block* block = segment->first; block != nullptr; block = block->next)
      if (!block->away) block->epoch = 0;
  for (Block* slab = slabs_; slab != nullptr; slab = slab->right) {
    slab->epoch = 0;
    for (Block* slot = slab->slots; slot != nullptr; slot = slot->next) slot->epoch = 0;
  }
}

bool Lane::serves(const Need& need) const {
  const BestFit& list = shelves_[static_cast<std::size_t>(need.shelf)];
  if (need.size_class) return free_slots_[*need.size_class] != nullptr || list.find(kSlabBytes) != nullptr;
  if (list.find(need.bytes) != nullptr) return true;
  const Block* guest = guests_.find(need.bytes);
  return guest != nullptr && guest->size <= most_for_guest(need.bytes);
}

// A request that is served and not by the whole of a hole is one that ends at a limit: of a shelf, a class or a bucket.
std::uint64_t Lane::largest_hit(const std::vector<std::uint64_t>& buckets,
                                const std::function<Need(std::uint64_t)>& need_of) const {
  std::vector<std::uint64_t> sizes = buckets;
  sizes.insert(sizes.end(), {shelves_[0].largest(), shelves_[1].largest(), guests_.largest(), kLargestSmall});
  for (std::size_t c = 0; c < kClassCount; ++c) sizes.push_back((c + 1) * kQuantum);
  std::uint64_t most = 0;
  for (const std::uint64_t size : sizes)
    if (size > most && serves(need_of(size))) most = size;
  return most;
}

std::uint64_t Lane::largest_hole() const {
  std::uint64_t bytes = std::max({shelves_[0].largest(), shelves_[1].largest(), guests_.largest()});
  for (std::size_t c = kClassCount; c-- > 0 && bytes < (c + 1) * kQuantum;)
    if (free_slots_[c] != nullptr) bytes = (c + 1) * kQuantum;
  return bytes;
}

std::uint64_t Lane::largest_after_waits() const {
  const auto idle = [](const Block* b) {
    const BlockState state = b->state.load(std::memory_order_relaxed);
    return state == BlockState::free || state == BlockState::pending;
  };
  std::uint64_t most = largest_hole();
  for (const Block* block : pending_) {
    std::uint64_t run = block->size;
    if (block->slab == nullptr && !block->away) {
      for (const Block* b = block->next; b != nullptr && idle(b); b = b->next) run += b->size;
      for (const Block* b = block->prev; b != nullptr && idle(b); b = b->prev) run += b->size;
    }
    most = std::max(most, run);
  }
  return most;
}

}  // namespace forebay
