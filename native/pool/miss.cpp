// miss: pool.hpp's slow paths: what happens when a stream's own lists have nothing that fits.
//
// Note [The order of a miss]. A miss reclaims what has completed and searches again, here and in other streams' lists;
// then it grows. Only when it cannot grow does it wait, search again, give back idle segments and retry. Nothing is
// locked across a wait, a driver allocation or a driver free.
#include <algorithm>

#include "pool/pool.hpp"

namespace forebay {
namespace {
constexpr std::chrono::nanoseconds kShortestNap{20'000}, kLongestNap{1'000'000};

std::vector<Point> not_reached(const std::vector<Point>& points) {
  std::vector<Point> left;
  for (const Point& p : points)
    if (!p.clock->reached(p.epoch) && !p.clock->lost(p.epoch)) left.push_back(p);
  return left;
}
std::vector<std::string> names_of(const std::vector<Point>& points) {
  std::vector<std::string> names;
  for (const Point& p : points) names.push_back(p.clock->name());
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}
}  // namespace

Block* Pool::miss(Lane& lane, const Need& need) {
  settle();
  if (Block* block = search(lane, need)) return block;
  if (Block* block = grow(lane, need)) return block;
  if (options_.when_full == WhenFull::raises) give_up(lane, need);
  return exhausted(lane, need);
}

Block* Pool::exhausted(Lane& lane, const Need& need) {
  if (options_.hoard != nullptr) options_.hoard->give_up();
  wait_for_frees(lane, need);
  expel_guests();
  if (Block* block = search_everywhere(lane, need)) return block;
  if (Block* block = grow(lane, need)) return block;
  retries_.fetch_add(1, std::memory_order_relaxed);
  if (give_back(least_segment(need.bytes)) > 0)
    if (Block* block = grow(lane, need)) return block;
  if (siblings_give_back(least_segment(need.bytes)) > 0)
    if (Block* block = grow(lane, need)) return block;
  // The driver's own memory may be in pieces.
  if (give_back(kLargestRequest) + siblings_give_back(kLargestRequest) > 0)
    if (Block* block = grow(lane, need)) return block;
  if (Block* block = search_everywhere(lane, need)) return block;
  give_up(lane, need);
}

// Pending blocks whose points are past become free again, after asking their streams.
void Pool::settle() {
  for (Lane* lane : lanes()) {
    std::vector<Point> points;
    {
      std::lock_guard lock(lane->mutex);
      lane->drain();
      points = lane->awaited();
    }
    for (const Point& p : points) p.clock->reached(p.epoch);
  }
  settle_known();
}

// The same without asking.
void Pool::settle_known() {
  for (Lane* lane : lanes()) {
    std::vector<Block*> ripe;
    {
      std::lock_guard lock(lane->mutex);
      lane->drain();
      ripe = lane->ripe();
    }
    if (told())
      for (const Block* block : ripe) tell(Kind::reclaim, *block, lane->clock());
    std::lock_guard lock(lane->mutex);
    lane->settle(ripe);
  }
}

Block* Pool::search(Lane& lane, const Need& need) {
  {
    std::lock_guard lock(lane.mutex);
    if (Block* block = lane.take(need)) return block;
  }
  const std::uint64_t bytes = need.size_class ? kSlabBytes : need.bytes;
  for (Lane* other : lanes()) {
    if (other == &lane) continue;
    Block* guest = borrow(
        *other, [&] { return other->epoch_of_fit(need.shelf, bytes); },
        [&] { return other->lend_fitting(need.shelf, bytes, lane); });
    if (guest == nullptr) continue;
    std::lock_guard lock(lane.mutex);
    return lane.receive(guest, need);
  }
  return nullptr;
}

Block* Pool::search_everywhere(Lane& lane, const Need& need) {
  const Need plain{need.requested, need.bytes, need.shelf, std::nullopt};
  {
    std::lock_guard lock(lane.mutex);
    if (Block* block = lane.take(need)) return block;
    lane.dissolve_idle_slabs();
    if (Block* block = lane.take_anywhere(plain)) return block;
  }
  for (Lane* other : lanes()) {
    if (other == &lane) continue;
    Block* guest = borrow(
        *other, [&] { return other->epoch_of_any(need.bytes); },
        [&] { return other->lend_anything(need.bytes, lane); });
    if (guest == nullptr) continue;
    std::lock_guard lock(lane.mutex);
    return lane.receive(guest, plain);
  }
  return nullptr;
}

// A free block of another lane, once its stream was asked how far it has got: that may take driver calls, so without
// the lock.
template <class Epoch, class Lend>
Block* Pool::borrow(Lane& from, Epoch epoch_of, Lend lend) {
  std::unique_lock lock(from.mutex);
  from.drain();
  const std::optional<std::uint64_t> epoch = epoch_of();
  if (!epoch) return nullptr;
  lock.unlock();
  from.clock().reached(*epoch);
  lock.lock();
  return lend();
}

Block* Pool::grow(Lane& lane, const Need& need) {
  const Grown grown = growth_->grow(lane, need);
  if (grown.status == Status::ok || grown.status == Status::out_of_memory) return grown.block;
  PoolFault refused = fault(PoolFault::Code::driver, need.requested);
  refused.call = grown.call;
  refused.status = grown.status;
  throw refused;
}

std::vector<Point> Pool::awaited_points(const Need& need) const {
  std::vector<Point> points;
  for (Lane* lane : lanes()) {
    std::lock_guard lock(lane->mutex);
    lane->drain();
    const std::vector<Point> pending = lane->awaited();
    points.insert(points.end(), pending.begin(), pending.end());
    if (const auto epoch = lane->epoch_of_any(need.bytes)) points.push_back({&lane->clock(), *epoch});
  }
  return points;
}

std::vector<Point> Pool::pending_points() const {
  std::vector<Point> points;
  for (Lane* lane : lanes()) {
    std::lock_guard lock(lane->mutex);
    const std::vector<Point> pending = lane->awaited();
    points.insert(points.end(), pending.begin(), pending.end());
  }
  return points;
}

std::vector<std::string> Pool::awaited() const { return names_of(pending_points()); }

// Those that the wait limit did not see reached.
std::vector<Point> Pool::waited_for(std::vector<Point> points, std::chrono::nanoseconds& waited) const {
  for (auto nap = kShortestNap; !(points = not_reached(points)).empty() && !domain_.dead();
       nap = std::min(nap * 2, kLongestNap)) {
    if (waited >= options_.wait_limit) break;
    domain_.nap(nap);
    waited += nap;
  }
  return points;
}

void Pool::know_complete(const std::vector<Point>& points) {
  std::chrono::nanoseconds waited{0};
  waited_for(points, waited);
  know_lost(points);
}

// Of what no event covers any more only a synchronised device tells.
void Pool::know_lost(const std::vector<Point>& points) {
  const auto lost = [](const Point& p) { return !p.clock->passed(p.epoch) && p.clock->lost(p.epoch); };
  if (std::any_of(points.begin(), points.end(), lost)) domain_.frames().synchronised();
}

void Pool::wait_for_frees(const Lane& lane, const Need& need) {
  std::chrono::nanoseconds waited{0};
  const std::vector<Point> awaited = awaited_points(need);
  std::vector<Point> left = waited_for(awaited, waited);
  know_lost(awaited);
  left = not_reached(left);
  if (domain_.dead()) refuse_dead();
  settle();
  if (left.empty() || options_.wait_limit.count() == 0) return;
  PoolFault late = fault(PoolFault::Code::pending, lane, need);
  late.awaited = names_of(left);
  late.waited_ns = waited.count();
  throw late;
}

// Idle guests go home. Their last free was on this lane's stream: home may use them once it got that far.
void Pool::expel_guests() {
  for (Lane* lane : lanes()) {
    std::vector<Block*> guests;
    {
      std::lock_guard lock(lane->mutex);
      lane->drain();
      lane->dissolve_idle_slabs();
      guests = lane->expel();
    }
    for (Block* guest : guests) {
      Lane& home = *guest->segment->home;
      std::lock_guard lock(home.mutex);
      home.take_home(guest, {&lane->clock(), guest->epoch});
    }
  }
  settle();
}

std::vector<Point> Pool::idle_points() {
  std::vector<Point> points;
  for (Lane* lane : lanes()) {
    std::lock_guard lock(lane->mutex);
    lane->drain();
    const std::vector<Point> idle = growth_->idle_points(*lane);
    points.insert(points.end(), idle.begin(), idle.end());
  }
  return points;
}

std::vector<Idle> Pool::uproot(std::uint64_t bytes) {
  std::vector<Idle> out;
  std::uint64_t sum = 0;
  for (Lane* lane : lanes()) {
    if (sum >= bytes) break;
    std::lock_guard lock(lane->mutex);
    lane->drain();
    for (Idle& idle : growth_->uproot(*lane, bytes - sum)) {
      sum += idle.bytes;
      std::lock_guard count(uprooted_mutex_);
      uprooted_ += idle.bytes;
      out.push_back(std::move(idle));
    }
  }
  return out;
}

bool Pool::drop(Idle idle) {
  const std::uint64_t bytes = idle.bytes;
  const bool given = growth_->drop(std::move(idle));
  std::lock_guard lock(uprooted_mutex_);
  uprooted_ -= bytes;
  uprooted_done_.notify_all();
  return given;
}

std::uint64_t Pool::give_back(std::uint64_t bytes) {
  know_complete(idle_points());
  std::uint64_t given = 0;
  for (Idle& idle : uproot(bytes)) {
    const std::uint64_t size = idle.bytes;
    if (drop(std::move(idle))) given += size;
  }
  return given;
}

std::uint64_t Pool::siblings_give_back(std::uint64_t bytes) {
  const auto visit_sharing = [this](auto visit) {
    domain_.siblings(this, [&](Pool& pool) {
      const bool sharing = pool.options().idle == IdleBytes::shared && pool.options().space == options_.space;
      if (sharing) visit(pool);
    });
  };
  std::vector<Point> points;
  visit_sharing([&](Pool& pool) {
    if (pool.options().hoard != nullptr) pool.options().hoard->give_up_for_others();
    const std::vector<Point> idle = pool.idle_points();
    points.insert(points.end(), idle.begin(), idle.end());
  });
  know_complete(points);
  std::vector<std::pair<Pool*, Idle>> given_up;
  visit_sharing([&](Pool& pool) {
    for (Idle& idle : pool.uproot(bytes)) given_up.emplace_back(&pool, std::move(idle));
  });
  std::uint64_t given = 0;
  for (auto& [pool, idle] : given_up) {
    const std::uint64_t size = idle.bytes;
    if (pool->drop(std::move(idle))) given += size;
  }
  return given;
}

}  // namespace forebay
