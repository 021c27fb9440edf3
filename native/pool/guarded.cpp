#include "pool/guarded.hpp"

#include <algorithm>
#include <functional>
#include <iterator>

#include "pool/rows.hpp"

namespace forebay {
namespace {
constexpr std::uint8_t kCanary = 0xc5, kPoison = 0xdb;
constexpr std::uint64_t kFront = kQuantum, kBack = 64, kMostBack = 4096, kCompared = kMiB;
constexpr std::chrono::nanoseconds kNap{100'000};

std::uint64_t behind(const Guarded& block) { return std::min(kMostBack, block.end() - (block.address + block.nbytes)); }

// Whether all that the block's streams had been given by its free comes before what its own is given now.
bool ripe(const Guarded& block) {
  return std::all_of(block.lent.begin(), block.lent.end(), [&](const Point& p) { return block.clock->sees(p); });
}

PoolOptions inner(PoolOptions options, Hoard* hoard) {
  for (std::uint64_t& bucket : options.buckets) bucket = round_up(bucket, kQuantum) + kFront + kBack;
  options.tape = nullptr;
  options.hoard = hoard;
  return options;
}
PoolOptions staging(const PoolOptions& options) {
  PoolOptions pinned;
  pinned.name = options.name + " (debug)";
  pinned.wait_limit = std::chrono::nanoseconds(0);
  pinned.space = Space::pinned;
  return pinned;
}
}  // namespace

GuardedPool::GuardedPool(Domain& domain, PoolOptions options, std::uint64_t quarantine)
    : domain_(domain),
      options_(std::move(options)),
      quarantine_(quarantine),
      witness_(std::make_shared<Witness>(domain)),
      staging_(domain, staging(options_)),
      pool_(domain, inner(options_, this)) {
  domain.driver().watch(witness_);
}

GuardedPool::~GuardedPool() {
  if (!domain_.forked()) witness_->close();
}

Granted GuardedPool::alloc(std::uint64_t bytes, std::uint64_t stream, std::string site) {
  if (!domain_.dead()) tend();
  Granted got;
  try {
    got = pool_.alloc(bytes + kFront + kBack, stream);
  } catch (PoolFault& fault) {
    if (fault.code != PoolFault::Code::unknown_stream) fault.asked = bytes;
    fault.gauges = own(fault.gauges);
    if (fault.code == PoolFault::Code::exhausted) tell_refusal(bytes, stream);
    throw;
  }
  const auto block = std::make_shared<Guarded>();
  block->begin = got.address;
  block->size = got.size;
  block->address = got.address + kFront;
  block->nbytes = bytes;
  block->clock = domain_.clock(stream);
  block->allocated_at = std::move(site);
  tell(Kind::alloc, *block, *block->clock);
  fence(block);
  witness_->add(block);
  return {block->address, got.size - kFront};
}

bool GuardedPool::free(Address address, std::string site) {
  if (domain_.dead()) return true;
  const GuardedPtr block = witness_->live_at(address);
  if (block == nullptr) return false;
  tell(Kind::free, *block, *block->clock);
  std::vector<Point> lent = block->lent;
  for (Point& p : lent) p.epoch = p.clock->at_free();
  const Freeing freeing = witness_->free(*block, std::move(lent), std::move(site));
  if (freeing == Freeing::callers) finish_free(block);
  return freeing != Freeing::nobodys;
}

bool GuardedPool::lend(Address address, std::uint64_t stream, const Domain& peer) {
  if (domain_.dead()) return true;
  Clock* clock = peer.clock(stream);
  if (clock == nullptr) throw PoolFault(PoolFault::Code::unknown_stream, options_.name, stream);
  const GuardedPtr block = witness_->lend(address, *clock);
  if (block != nullptr) tell(Kind::lend, *block, *clock);
  return block != nullptr;
}

std::optional<Granted> GuardedPool::underlying(Address address) const {
  if (domain_.dead()) return std::nullopt;
  const GuardedPtr block = witness_->live_at(address);
  return block == nullptr ? std::nullopt : pool_.underlying(block->begin);
}

std::uint64_t GuardedPool::trim() {
  if (domain_.dead()) return 0;
  write(pool_row(Kind::flush, domain_, options_.index));
  give_up();
  return pool_.trim();
}

// ---- what is issued

// One fill in the block's stream. False: it was not issued.
bool GuardedPool::set(const Guarded& block, Address from, std::uint8_t value, std::uint64_t bytes, Witness::Then then) {
  const Upkeep upkeep(Upkeep::next());
  witness_->when_begins(Upkeep::now(), std::move(then));
  const Status status = domain_.driver().memset(domain_.device(), from, value, bytes, block.clock->handle());
  domain_.note(status);
  if (status != Status::ok) witness_->forget(Upkeep::now());
  return status == Status::ok;
}

void GuardedPool::fence(const GuardedPtr& block) {
  const auto clean = [block](Part part) {
    return [block, part](std::uint64_t begun) { block->clean[static_cast<std::size_t>(part)] = begun; };
  };
  block->fenced = block->clock->alive() && set(*block, block->begin, kCanary, kFront, clean(Part::front)) &&
                  set(*block, block->address + block->nbytes, kCanary, behind(*block), clean(Part::back));
  if (!block->fenced) ++unseen_;
}

void GuardedPool::finish_free(const GuardedPtr& block) {
  if (ripe(*block)) {
    fill(block);
  } else {
    const std::lock_guard lock(mutex_);
    waiting_.push_back(block);
  }
  evict(quarantine_);
}

void GuardedPool::fill(const GuardedPtr& block) {
  if (!block->clock->alive()) {
    ++unseen_;
    return hand_back(*block);
  }
  if (block->fenced) look_at_canaries(block);
  block->filled = set(*block, block->begin, kPoison, block->size, [block](std::uint64_t begun) {
    block->poisoned = true;
    block->clean[static_cast<std::size_t>(Part::whole)] = begun;
  });
  const std::lock_guard lock(mutex_);
  kept_.push_back(block);
  kept_bytes_ += block->size;
}

void GuardedPool::look_at_canaries(const GuardedPtr& block) {
  look_at(block, Part::front, block->begin, kFront);
  look_at(block, Part::back, block->address + block->nbytes, behind(*block));
}

void GuardedPool::look_at_poison(const GuardedPtr& block) {
  if (!block->filled || !block->clock->alive()) {
    ++unseen_;
  } else if (block->size <= kCompared) {
    look_at(block, Part::whole, block->begin, block->size);
  } else {
    look_at(block, Part::whole, block->begin, kCompared / 2);
    look_at(block, Part::whole, block->end() - kCompared / 2, kCompared / 2);
  }
}

void GuardedPool::look_at(const GuardedPtr& block, Part part, Address from, std::uint64_t bytes) {
  Look look{block, from, 0, bytes, Upkeep::next(), part, {}, std::make_shared<std::uint64_t>(0)};
  try {
    look.staging = staging_.alloc(bytes, block->clock->id()).address;
  } catch (const PoolFault&) {
    ++unseen_;
    return;
  }
  const Upkeep upkeep(look.upkeep);
  witness_->when_begins(look.upkeep, [begun = look.begun](std::uint64_t now) { *begun = now; });
  const Status status = domain_.driver().copy(domain_.device(), look.staging, from, bytes, block->clock->handle());
  domain_.note(status);
  if (status != Status::ok) {
    ++unseen_;
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
std::optional<GuardedPtr> GuardedPool::next_in_quarantine(std::uint64_t most) {
  const std::lock_guard lock(mutex_);
  if (kept_.empty() || kept_bytes_ <= most) return std::nullopt;
  GuardedPtr block = std::move(kept_.front());
  kept_.pop_front();
  kept_bytes_ -= block->size;
  return block;
}

void GuardedPool::evict(std::uint64_t most) {
  while (const auto block = next_in_quarantine(most)) {
    look_at_poison(*block);
    hand_back(**block);
  }
}

void GuardedPool::hand_back(const Guarded& block) {
  witness_->remove(block);
  pool_.free_after(block.begin, block.lent);
}

void GuardedPool::give_up() {
  poison_ripe();
  evict(0);
  std::vector<GuardedPtr> waiting;
  {
    const std::lock_guard lock(mutex_);
    waiting.swap(waiting_);
  }
  unseen_ += waiting.size();
  for (const GuardedPtr& block : waiting) hand_back(*block);
}

// A free on a stream whose lifetime is not ours calls the driver.
void GuardedPool::give_up_for_others() {
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
  unseen_ += given.size();
  for (const GuardedPtr& block : given) hand_back(*block);
}

// ---- what is found

void GuardedPool::tend() {
  examine_done();
  poison_ripe();
  evict(quarantine_);
}

// Blocks whose other streams are past their uses, after asking them.
void GuardedPool::poison_ripe() {
  std::vector<GuardedPtr> blocks;
  {
    const std::lock_guard lock(mutex_);
    blocks.swap(waiting_);
  }
  for (const GuardedPtr& block : blocks) {
    for (const Point& p : block->lent) p.clock->reached(p.epoch);
    if (ripe(*block)) {
      fill(block);
      continue;
    }
    const std::lock_guard lock(mutex_);
    waiting_.push_back(block);
  }
}

// What the looks under way, and the blocks whose free is not complete, wait for.
std::vector<Point> GuardedPool::awaited() {
  std::vector<Point> points;
  const std::lock_guard lock(mutex_);
  for (const Look& look : looks_)
    if (!look.done.clock->passed(look.done.epoch)) points.push_back(look.done);
  for (const GuardedPtr& block : waiting_) points.insert(points.end(), block->lent.begin(), block->lent.end());
  return points;
}

// Looks whose copy is known complete, after asking.
void GuardedPool::examine_done() {
  for (const Point& p : awaited()) p.clock->reached(p.epoch);
  std::deque<Look> done;
  {
    const std::lock_guard lock(mutex_);
    const auto later = std::stable_partition(looks_.begin(), looks_.end(),
                                             [](const Look& look) { return look.done.clock->passed(look.done.epoch); });
    done.assign(std::make_move_iterator(looks_.begin()), std::make_move_iterator(later));
    looks_.erase(looks_.begin(), later);
  }
  for (const Look& look : done) examine(look);
}

void GuardedPool::examine(const Look& look) {
  const Result<void*> host = domain_.driver().host_pointer(look.staging, look.bytes);
  domain_.note(host.status());
  if (host.ok()) {
    const auto* const first = static_cast<const std::uint8_t*>(*host);
    const std::uint8_t expected = look.part == Part::whole ? kPoison : kCanary;
    const auto* const odd = std::find_if(first, first + look.bytes, [=](std::uint8_t b) { return b != expected; });
    const auto offset = static_cast<std::int64_t>(look.from - look.block->address) + (odd - first);
    if (odd == first + look.bytes)
      witness_->whole(*look.block, look.part, *look.begun);
    else
      witness_->differs(*look.block, look.part, offset, *look.begun);
  } else {
    ++unseen_;
  }
  staging_.free(look.staging);
}

void GuardedPool::check() {
  if (domain_.dead()) pool_.alloc(1, 0);  // which says why
  for (const GuardedPtr& block : witness_->look_at_live()) {
    if (block->clock->alive())
      look_at_canaries(block);
    else
      ++unseen_;
    if (witness_->looked_at(*block)) finish_free(block);
  }
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

// ---- figures

PoolFault GuardedPool::pending(const std::vector<Point>& left, std::chrono::nanoseconds waited) const {
  PoolFault fault(PoolFault::Code::pending);
  fault.pool = options_.name;
  fault.waited_ns = waited.count();
  for (const Point& p : left) fault.awaited.push_back(p.clock->name());
  std::sort(fault.awaited.begin(), fault.awaited.end());
  fault.awaited.erase(std::unique(fault.awaited.begin(), fault.awaited.end()), fault.awaited.end());
  return fault;
}

Gauges GuardedPool::own(Gauges g) const {
  if (domain_.forked()) return g;
  const Witness::Figures figures = witness_->figures();
  const std::uint64_t freed = std::min(figures.freed, g.allocated);
  g.allocated -= freed, g.pending += freed;
  g.requested = std::min(figures.requested, g.allocated);  // other threads went on between the two readings
  for (std::uint64_t* largest :
       {&g.largest_free, &g.largest_free_after_waits, &g.largest_free_if_idle, &g.largest_servable})
    *largest -= std::min(*largest, kFront + kBack);
  return g;
}

std::optional<std::string> GuardedPool::walk() const {
  if (auto broken = pool_.walk()) return broken;
  if (auto broken = staging_.walk()) return broken;
  Witness::Figures recount;
  auto misplaced = witness_->each([&](const Guarded& block) -> std::optional<std::string> {
    (block.freed ? recount.freed : recount.requested) += block.freed ? block.size : block.nbytes;
    if (block.address == block.begin + kFront && block.address + block.nbytes + kBack <= block.end())
      return std::nullopt;
    return "a block does not lie between its canaries (at " + std::to_string(block.begin) + ")";
  });
  if (misplaced) return misplaced;
  const Witness::Figures figures = witness_->figures();
  if (figures.requested != recount.requested || figures.freed != recount.freed)
    return "what is asked for or kept differs from a recount";
  return std::nullopt;
}

void GuardedPool::tell(Kind kind, const Guarded& block, const Clock& clock) const {
  write(block_row(kind, domain_, options_.index, clock, block.address, block.end() - block.address, block.nbytes));
}

void GuardedPool::tell_refusal(std::uint64_t bytes, std::uint64_t stream) const {
  write(refusal_row(domain_, options_.index, *domain_.clock(stream), bytes));
}

void GuardedPool::write(const Row& row) const {
  if (options_.tape != nullptr && options_.tape->wants()) options_.tape->write(row);
}

}  // namespace forebay
