#include "torch/far_uses.hpp"

#include <algorithm>
#include <utility>

#include "pool/own_calls.hpp"
#include "pool/passed.hpp"
#include "torch/words.hpp"

namespace forebay::torch {
namespace {

PoolOptions pinned_options() {
  PoolOptions options;
  options.name = "torch (debug)";
  options.space = Space::pinned;
  options.wait_limit = std::chrono::nanoseconds(0);
  return options;
}

}  // namespace

FarUses::FarUses(Domain& domain, GuardedPool& blocks)
    : domain_(domain), blocks_(blocks), pinned_(domain, pinned_options()) {}

std::uint8_t* FarUses::host(Address pinned) {
  const Result<void*> at = domain_.driver().host_pointer(pinned, 1);
  domain_.note(at.status());
  return at.ok() ? static_cast<std::uint8_t*>(*at) : nullptr;
}

void FarUses::drop(const Use& use) {
  pinned_.free(use.flag);
  pinned_.free(use.seen);
}

// Flags are 0 until their stream writes them: the host writes that while nobody else has them.
bool FarUses::issue(Use& use, std::uint64_t stream, Clock& home) {
  use.flag = pinned_.alloc(1, stream).address;
  use.seen = pinned_.alloc(1, home.id()).address;
  std::uint8_t *flag = host(use.flag), *seen = host(use.seen);
  if (flag == nullptr || seen == nullptr) return false;
  *flag = *seen = 0;
  pinned_.lend(use.flag, home.id());  // its copy reads there
  const Upkeep upkeep(Upkeep::next());
  const Status status = domain_.driver().memset(domain_.device(), use.flag, 1, 1, use.clock->handle());
  domain_.note(status);
  return status == Status::ok;
}

void FarUses::used(Address address, std::uint64_t stream, std::string name, std::string site) {
  if (domain_.dead() || domain_.hushed()) return;
  const GuardedPtr block = blocks_.holding(address);
  Clock* const clock = domain_.clock(stream);
  if (block == nullptr || clock == nullptr || block->clock == clock || !block->clock->alive()) return;
  const OwnCalls own(domain_);
  const Domain::Asking asking(domain_);
  if (!asking.allowed()) return;
  const Result<bool> idle = domain_.driver().stream_query(domain_.device(), clock->handle());
  domain_.note(idle.status());
  if (!idle.ok() || *idle) return;
  Use use{0, 0, clock, std::move(name), std::move(site)};
  if (!issue(use, stream, *block->clock)) return;
  std::vector<Use> before;
  {
    const std::lock_guard lock(mutex_);
    std::vector<Use>& uses = uses_[block->address];
    const auto older = std::stable_partition(uses.begin(), uses.end(), [&](const Use& u) { return u.clock != clock; });
    before.assign(std::make_move_iterator(older), std::make_move_iterator(uses.end()));
    uses.erase(older, uses.end());
    uses.push_back(std::move(use));
  }
  for (const Use& u : before) drop(u);
}

void FarUses::freeing(Address address, const std::string& site) {
  std::vector<Use> uses;
  {
    const std::lock_guard lock(mutex_);
    auto known = uses_.extract(address);
    if (known) uses = std::move(known.mapped());
  }
  if (uses.empty() || domain_.dead()) return;
  const GuardedPtr block = blocks_.holding(address);
  for (Use& use : uses) {
    const bool recorded = block == nullptr || std::any_of(block->lent.begin(), block->lent.end(),
                                                          [&](const Point& p) { return p.clock == use.clock; });
    if (recorded || !block->clock->alive() ||
        domain_.driver().copy(domain_.device(), use.seen, use.flag, 1, block->clock->handle()) != Status::ok) {
      drop(use);
      continue;
    }
    std::string text = "pool torch: " + use.name + " on stream " + use.clock->name() + " (" + place_in_words(use.site) +
                       ") still used a block that was freed: " + size_in_words(block->nbytes) + " at " +
                       address_in_words(address) + ", allocated at " + place_in_words(block->allocated_at) +
                       " for stream " + block->clock->name() + ", freed at " + place_in_words(site) +
                       "; that stream reached the free first. Call record_stream for the using stream before the free, "
                       "or make the block's stream wait for it";
    const std::lock_guard lock(mutex_);
    looks_.push_back({std::move(use), {block->clock, block->clock->at_free()}, std::move(text)});
  }
}

std::vector<std::string> FarUses::reports() {
  std::vector<Point> points;
  {
    const std::lock_guard lock(mutex_);
    for (const Look& look : looks_) points.push_back(look.done);
  }
  for (const Point& p : points) p.clock->reached(p.epoch);
  std::deque<Look> done;
  {
    const std::lock_guard lock(mutex_);
    done = take_passed(looks_);
  }
  for (const Look& look : done) {
    const std::uint8_t* const seen = host(look.use.seen);
    const bool unordered = seen != nullptr && *seen == 0;
    drop(look.use);
    if (!unordered) continue;
    const std::lock_guard lock(mutex_);
    reports_.push_back(look.text);
  }
  const std::lock_guard lock(mutex_);
  return reports_;
}

}  // namespace forebay::torch
