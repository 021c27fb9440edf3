#include "pool/pool.hpp"

#include <algorithm>

#include "pool/own_calls.hpp"
#include "pool/rows.hpp"

namespace forebay {

Pool::Pool(Domain& domain, PoolOptions options)
    : domain_(domain),
      options_(std::move(options)),
      rounding_(options_.buckets),
      source_(domain, options_.space),
      budget_(options_.limit),
      growth_(options_.growth == GrowBy::segments ? grow_by_segments(domain, source_, budget_)
                                                  : grow_by_frames(domain, budget_, options_.name)) {
  domain_.join(this);
}

Pool::~Pool() {
  if (domain_.forked()) return;
  const OwnCalls own(domain_);
  domain_.leave(this);
  {
    // A sibling may still be giving back what it took from here.
    std::unique_lock lock(uprooted_mutex_);
    uprooted_done_.wait(lock, [this] { return uprooted_ == 0; });
  }
  growth_->give_all(lanes());
}

Granted Pool::alloc(std::uint64_t bytes, std::uint64_t stream) {
  const std::optional<Granted> granted = hit(bytes, stream);
  return granted ? *granted : refill(bytes, stream);
}

std::optional<Granted> Pool::hit(std::uint64_t bytes, std::uint64_t stream) {
  Lane* lane = table_.find(stream);
  if (lane == nullptr || bytes > kLargestRequest || domain_.dead()) [[unlikely]]
    return std::nullopt;
  const Need need = need_of(bytes);
  Block* block = nullptr;
  {
    std::lock_guard lock(lane->mutex);
    lane->drain();
    block = lane->take(need);
    if (block == nullptr) return std::nullopt;
    ++lane->figures.hits;
  }
  return granted(*block, *lane);
}

Granted Pool::refill(std::uint64_t bytes, std::uint64_t stream) {
  const OwnCalls own(domain_);
  if (domain_.dead()) refuse_dead();
  if (bytes > kLargestRequest) throw fault(PoolFault::Code::impossible, bytes);
  Lane& lane = lane_of(stream);
  {
    std::lock_guard lock(lane.mutex);
    ++lane.figures.misses;
  }
  return granted(*miss(lane, need_of(bytes)), lane);
}

Granted Pool::granted(const Block& block, const Lane& lane) const {
  if (told()) [[unlikely]]
    tell(Kind::alloc, block, lane.clock());
  return {block.address, block.size};
}

bool Pool::free(Address address) {
  if (domain_.dead()) [[unlikely]]
    return true;
  Block* block = live_at(address);
  if (block == nullptr) return false;
  if (told()) [[unlikely]]
    tell(Kind::free, *block, block->holder->clock());
  for (Point& p : block->points) p.epoch = p.clock->at_free();
  return take_back(*block);
}

bool Pool::free_after(Address address, std::vector<Point> points) {
  if (domain_.dead()) return true;
  Block* block = live_at(address);
  if (block == nullptr) return false;
  block->points = std::move(points);
  return take_back(*block);
}

std::optional<Granted> Pool::underlying(Address address) const {
  if (domain_.dead()) return std::nullopt;
  const Block* block = live_at(address);
  if (block == nullptr) return std::nullopt;
  const Segment& segment = *block->segment;
  return segment.mapped != nullptr ? Granted{address, block->size} : Granted{segment.address, segment.size};
}

Block* Pool::live_at(Address address) const {
  Block* block = map_.find(address);
  return block != nullptr && block->state.load(std::memory_order_relaxed) == BlockState::live ? block : nullptr;
}

bool Pool::take_back(Block& block) {
  Lane& lane = *block.holder;
  const std::uint64_t epoch = lane.clock().at_free();
  if (lane.mutex.try_lock()) {
    std::lock_guard lock(lane.mutex, std::adopt_lock);
    lane.drain();
    return !block.parked.load(std::memory_order_relaxed) && lane.give(&block, epoch);
  }
  if (block.parked.exchange(true)) return false;
  block.epoch = epoch;
  lane.park(&block);
  return true;
}

bool Pool::lend(Address address, std::uint64_t stream) { return lend(address, stream, domain_); }

bool Pool::lend(Address address, std::uint64_t stream, const Domain& peer) {
  if (domain_.dead()) [[unlikely]]
    return true;
  Clock* clock = peer.clock(stream);
  if (clock == nullptr) throw fault(PoolFault::Code::unknown_stream, stream);
  Block* block = map_.find(address);
  if (block == nullptr) return false;
  Lane& lane = *block->holder;
  std::lock_guard lock(lane.mutex);
  if (block->state.load(std::memory_order_relaxed) != BlockState::live) return false;
  if (told()) tell(Kind::lend, *block, *clock);
  const bool known =
      std::any_of(block->points.begin(), block->points.end(), [&](const Point& p) { return p.clock == clock; });
  if (!known && clock != &lane.clock()) block->points.push_back({clock, 0});
  return true;
}

Lane& Pool::lane_of(std::uint64_t stream) {
  Lane* lane = table_.find(stream);
  return lane != nullptr ? *lane : new_lane(stream);
}

// A lane whose stream is over serves the new one: its memory would else stay with a stream that nobody will ask for.
Lane& Pool::new_lane(std::uint64_t stream) {
  Clock* clock = domain_.clock(stream);
  if (clock == nullptr || clock->ended()) throw fault(PoolFault::Code::unknown_stream, stream);
  for (Lane* lane : lanes()) lane->look();
  std::lock_guard lock(lanes_mutex_);
  if (Lane* lane = table_.find(stream)) return *lane;
  for (const auto& lane : lanes_) {
    std::lock_guard lane_lock(lane->mutex);
    if (!lane->clock().over()) continue;
    table_.erase(lane->clock().id());
    lane->drain();
    lane->rebind(*clock);
    table_.insert(stream, lane.get());
    return *lane;
  }
  lanes_.push_back(std::make_unique<Lane>(map_, *clock));
  table_.insert(stream, lanes_.back().get());
  return *lanes_.back();
}

// A forked child has none: their locks may be held by threads that are not there.
std::vector<Lane*> Pool::lanes() const {
  if (domain_.forked()) refuse_dead();
  std::lock_guard lock(lanes_mutex_);
  std::vector<Lane*> out;
  for (const auto& lane : lanes_) out.push_back(lane.get());
  return out;
}

std::uint64_t Pool::trim() {
  const OwnCalls own(domain_);
  if (domain_.dead()) return 0;
  tell_flush();
  know_lost(pending_points());
  settle();
  expel_guests();
  const std::uint64_t given = give_back(kLargestRequest);
  domain_.frames().release_idle();
  return given;
}

void Pool::tell(Kind kind, const Block& block, const Clock& clock) const {
  options_.tape->write(block_row(kind, domain_, options_.index, clock, block.address, block.size, block.requested));
}

void Pool::tell_refusal(const Lane& lane, const Need& need) const {
  if (!told()) return;
  options_.tape->write(refusal_row(domain_, options_.index, lane.clock(), need.requested));
}

void Pool::tell_flush() const {
  if (!told()) return;
  options_.tape->write(pool_row(Kind::flush, domain_, options_.index));
}

}  // namespace forebay
