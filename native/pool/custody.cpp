#include "pool/custody.hpp"
#include "pool/passed.hpp"

#include <algorithm>
#include <cstring>
#include <functional>
#include <iterator>

namespace forebay {
namespace {
constexpr std::uint64_t kCompared = kMiB;
constexpr std::chrono::nanoseconds kNap{100'000};

// Whether all that the block's streams had been given by its free comes before what its own is given now.
bool ripe(const Guarded& block) {
  return std::all_of(block.lent.begin(), block.lent.end(), [&](const Point& p) { return block.clock->sees(p); });
}

PoolOptions staging(const std::string& name) {
  PoolOptions pinned;
  pinned.name = name + " (debug)";
  pinned.wait_limit = std::chrono::nanoseconds(0);
  pinned.space = Space::pinned;
  return pinned;
}
}  // namespace

Custody::Custody(Domain& domain, CustodyOptions options)
    : domain_(domain),
      options_(std::move(options)),
      witness_(std::make_shared<Witness>(domain)),
      staging_(domain, staging(options_.name)) {
  domain.driver().watch(witness_);
}

void Custody::close() {
  if (!domain_.forked()) witness_->close();
}

// ---- what is issued

// Pinned bytes need no stream to be looked at.
bool Custody::watched(const Guarded& block) const { return options_.space == Space::pinned || block.clock->alive(); }

std::uint8_t* Custody::host(Address from, std::uint64_t bytes) const {
  const Result<void*> found = domain_.driver().host_pointer(from, bytes);
  domain_.note(found.status());
  return found.ok() ? static_cast<std::uint8_t*>(*found) : nullptr;
}

bool Custody::fill(const Guarded& block, Address from, std::uint8_t value, std::uint64_t bytes, Witness::Then then) {
  if (options_.space == Space::pinned) {
    std::uint8_t* const at = host(from, bytes);
    if (at == nullptr) return false;
    std::memset(at, value, bytes);
    witness_->began(then);
    return true;
  }
  const Upkeep upkeep(Upkeep::next());
  witness_->when_begins(Upkeep::now(), std::move(then));
  const Status status = domain_.driver().memset(domain_.device(), from, value, bytes, block.clock->handle());
  domain_.note(status);
  if (status != Status::ok) witness_->forget(Upkeep::now());
  return status == Status::ok;
}

void Custody::take(const GuardedPtr& block) {
  if (ripe(*block)) {
    poison(block);
  } else {
    const std::lock_guard lock(mutex_);
    waiting_.push_back(block);
  }
  evict(options_.quarantine);
}

void Custody::poison(const GuardedPtr& block) {
  if (!watched(*block)) {
    unseen();
    return give(*block);
  }
  look_before_poison(block);
  block->filled = fill(*block, block->begin, kPoison, block->size, [block](std::uint64_t begun) {
    block->poisoned = true;
    block->clean[static_cast<std::size_t>(Part::whole)] = begun;
  });
  const std::lock_guard lock(mutex_);
  kept_.push_back(block);
  kept_bytes_ += block->size;
}

void Custody::look_at_poison(const GuardedPtr& block) {
  if (!block->filled || !watched(*block)) {
    unseen();
  } else if (block->size <= kCompared) {
    look_at(block, Part::whole, block->begin, block->size);
  } else {
    look_at(block, Part::whole, block->begin, kCompared / 2);
    look_at(block, Part::whole, block->end() - kCompared / 2, kCompared / 2);
  }
}

void Custody::look_at(const GuardedPtr& block, Part part, Address from, std::uint64_t bytes) {
  Look look{block, from, 0, bytes, Upkeep::next(), part, {}, std::make_shared<std::uint64_t>(0)};
  if (options_.space == Space::pinned) {
    std::uint64_t begun = 0;
    witness_->began([&begun](std::uint64_t now) { begun = now; });
    return compare(look, host(from, bytes), begun);
  }
  try {
    look.staging = staging_.alloc(bytes, block->clock->id()).address;
  } catch (const PoolFault&) {
    return unseen();
  }
  const Upkeep upkeep(look.upkeep);
  witness_->when_begins(look.upkeep, [begun = look.begun](std::uint64_t now) { *begun = now; });
  const Status status = domain_.driver().copy(domain_.device(), look.staging, from, bytes, block->clock->handle());
  domain_.note(status);
  if (status != Status::ok) {
    unseen();
    witness_->forget(look.upkeep);
    staging_.free(look.staging);
    return;
  }
  look.done = {block->clock, block->clock->at_free()};
  const std::lock_guard lock(mutex_);
  looks_.push_back(std::move(look));
}

// ---- what is given back

// The first freed, while more than so many bytes are kept.
std::optional<GuardedPtr> Custody::next_in_quarantine(std::uint64_t most) {
  const std::lock_guard lock(mutex_);
  if (kept_.empty() || kept_bytes_ <= most) return std::nullopt;
  GuardedPtr block = std::move(kept_.front());
  kept_.pop_front();
  kept_bytes_ -= block->size;
  return block;
}

void Custody::evict(std::uint64_t most) {
  while (const auto block = next_in_quarantine(most)) {
    look_at_poison(*block);
    give(**block);
  }
}

void Custody::give(const Guarded& block) {
  witness_->remove(block);
  hand_back(block);
}

void Custody::give_up() {
  poison_ripe();
  evict(0);
  std::vector<GuardedPtr> waiting;
  {
    const std::lock_guard lock(mutex_);
    waiting.swap(waiting_);
  }
  unseen(waiting.size());
  for (const GuardedPtr& block : waiting) give(*block);
}

// A free on a stream whose lifetime is not ours calls the driver.
void Custody::give_up_for_others() {
  const auto stays = [](const GuardedPtr& block) { return block->clock->lifetime() == Lifetime::foreign; };
  std::vector<GuardedPtr> given;
  {
    const std::lock_guard lock(mutex_);
    std::copy_if(waiting_.begin(), waiting_.end(), std::back_inserter(given), std::not_fn(stays));
    std::copy_if(kept_.begin(), kept_.end(), std::back_inserter(given), std::not_fn(stays));
    std::erase_if(waiting_, std::not_fn(stays));
    std::erase_if(kept_, std::not_fn(stays));
    kept_bytes_ = 0;
    for (const GuardedPtr& block : kept_) kept_bytes_ += block->size;
  }
  unseen(given.size());
  for (const GuardedPtr& block : given) give(*block);
}

// ---- what is found

void Custody::tend() {
  examine_done();
  poison_ripe();
  evict(options_.quarantine);
}

// Blocks whose other streams are past their uses, after asking them.
void Custody::poison_ripe() {
  std::vector<GuardedPtr> blocks;
  {
    const std::lock_guard lock(mutex_);
    blocks.swap(waiting_);
  }
  for (const GuardedPtr& block : blocks) {
    for (const Point& p : block->lent) p.clock->reached(p.epoch);
    if (ripe(*block)) {
      poison(block);
      continue;
    }
    const std::lock_guard lock(mutex_);
    waiting_.push_back(block);
  }
}

// What the looks under way, and the blocks whose free is not complete, wait for.
std::vector<Point> Custody::awaited() {
  std::vector<Point> points;
  const std::lock_guard lock(mutex_);
  for (const Look& look : looks_)
    if (!look.done.clock->passed(look.done.epoch)) points.push_back(look.done);
  for (const GuardedPtr& block : waiting_) points.insert(points.end(), block->lent.begin(), block->lent.end());
  return points;
}

// Looks whose copy is known complete, after asking.
void Custody::examine_done() {
  for (const Point& p : awaited()) p.clock->reached(p.epoch);
  std::deque<Look> done;
  {
    const std::lock_guard lock(mutex_);
    done = take_passed(looks_);
  }
  for (const Look& look : done) examine(look);
}

void Custody::examine(const Look& look) {
  compare(look, host(look.staging, look.bytes), *look.begun);
  staging_.free(look.staging);
}

void Custody::compare(const Look& look, const std::uint8_t* bytes, std::uint64_t begun) {
  if (bytes == nullptr) return unseen();
  const std::uint8_t expected = look.part == Part::whole ? kPoison : kCanary;
  const auto odd = [=](std::uint8_t b) { return b != expected; };
  const std::uint8_t* const end = bytes + look.bytes;
  const std::uint8_t* const first = std::find_if(bytes, end, odd);
  if (first == end) return witness_->whole(*look.block, look.part, begun);
  const std::uint8_t* const last =
      &*std::find_if(std::make_reverse_iterator(end), std::make_reverse_iterator(bytes), odd);
  const auto begin = static_cast<std::int64_t>(look.from - look.block->address);
  witness_->differs(*look.block, look.part,
                    {begin + (first - bytes), begin + (last - bytes),
                     (first == bytes && look.ends_before()) || (last == end - 1 && look.ends_behind())},
                    begun);
}

void Custody::check() {
  for (std::chrono::nanoseconds waited{0}; !domain_.dead(); waited += kNap) {
    poison_ripe();
    evict(0);
    examine_done();
    const std::vector<Point> left = awaited();
    if (left.empty()) return;
    if (waited >= options_.wait_limit) throw pending(left, waited);
    domain_.nap(kNap);
  }
}

PoolFault Custody::pending(const std::vector<Point>& left, std::chrono::nanoseconds waited) const {
  PoolFault fault(PoolFault::Code::pending);
  fault.pool = options_.name;
  fault.waited_ns = waited.count();
  for (const Point& p : left) fault.awaited.push_back(p.clock->name());
  std::sort(fault.awaited.begin(), fault.awaited.end());
  fault.awaited.erase(std::unique(fault.awaited.begin(), fault.awaited.end()), fault.awaited.end());
  return fault;
}

}  // namespace forebay
