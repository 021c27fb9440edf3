#include "torch/private_pools.hpp"

#include <algorithm>

namespace forebay::torch {
namespace {

std::string name_of(PrivateId id) { return "graph " + std::to_string(id.first) + "," + std::to_string(id.second); }

PoolOptions options_of(PrivateId id) {
  PoolOptions options;
  options.name = name_of(id);
  options.idle = IdleBytes::kept;
  options.when_full = WhenFull::raises;
  return options;
}

}  // namespace

void PrivatePools::begin(PrivateId id, Takes takes) {
  domain_.hush();
  const std::lock_guard lock(mutex_);
  auto pool = std::find_if(pools_.begin(), pools_.end(), [&](const Private& p) { return p.id == id; });
  if (pool == pools_.end())
    pool = pools_.insert(pools_.end(), {id, 0, std::make_shared<Pool>(domain_, options_of(id))});
  ++pool->uses;
  routes_.push_back({id, std::move(takes)});
  open_.store(static_cast<std::uint32_t>(routes_.size()), std::memory_order_release);
}

void PrivatePools::end(PrivateId id) {
  {
    const std::lock_guard lock(mutex_);
    const auto last = std::find_if(routes_.rbegin(), routes_.rend(), [&](const Route& r) { return r.id == id; });
    if (last == routes_.rend()) return;
    routes_.erase(std::next(last).base());
    open_.store(static_cast<std::uint32_t>(routes_.size()), std::memory_order_release);
  }
  domain_.unhush();
  reap();
}

void PrivatePools::release(PrivateId id) {
  {
    const std::lock_guard lock(mutex_);
    const auto pool = std::find_if(pools_.begin(), pools_.end(), [&](const Private& p) { return p.id == id; });
    if (pool == pools_.end() || pool->uses == 0) return;
    --pool->uses;
  }
  reap();
}

std::shared_ptr<Pool> PrivatePools::taker(void* stream) {
  const std::shared_lock lock(mutex_);
  const auto route = std::find_if(routes_.rbegin(), routes_.rend(), [&](const Route& r) { return r.takes(stream); });
  if (route == routes_.rend()) return nullptr;
  return std::find_if(pools_.begin(), pools_.end(), [&](const Private& p) { return p.id == route->id; })->pool;
}

bool PrivatePools::free(Address address) {
  bool unused = false;
  {
    const std::shared_lock lock(mutex_);
    const auto owner =
        std::find_if(pools_.begin(), pools_.end(), [&](const Private& p) { return p.pool->free(address); });
    if (owner == pools_.end()) return false;
    unused = owner->uses == 0;
  }
  if (unused) reap();
  return true;
}

std::shared_ptr<Pool> PrivatePools::owner(Address address) {
  const std::shared_lock lock(mutex_);
  const auto owner =
      std::find_if(pools_.begin(), pools_.end(), [&](const Private& p) { return p.pool->underlying(address); });
  return owner == pools_.end() ? nullptr : owner->pool;
}

std::vector<std::pair<std::string, Gauges>> PrivatePools::gauges() {
  const std::shared_lock lock(mutex_);
  std::vector<std::pair<std::string, Gauges>> all;
  for (const Private& p : pools_) all.emplace_back(p.pool->options().name, p.pool->gauges());
  return all;
}

std::uint64_t PrivatePools::reserved() {
  const std::shared_lock lock(mutex_);
  std::uint64_t bytes = 0;
  for (const Private& p : pools_) bytes += p.pool->reserved();
  return bytes;
}

std::optional<std::string> PrivatePools::walk() {
  const std::shared_lock lock(mutex_);
  for (const Private& p : pools_)
    if (auto broken = p.pool->walk()) return broken;
  return std::nullopt;
}

// Ends the pools that nobody uses. That waits for the device, pending frees included: not during a capture, and under
// no lock.
void PrivatePools::reap() {
  std::list<Private> over;
  {
    const std::lock_guard lock(mutex_);
    if (!routes_.empty() || domain_.forked()) return;
    for (auto at = pools_.begin(); at != pools_.end();) {
      const auto pool = at++;
      if (pool->uses == 0 && pool->pool->gauges().allocated == 0) over.splice(over.end(), pools_, pool);
    }
  }
}

}  // namespace forebay::torch
