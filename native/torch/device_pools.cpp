#include "torch/device_pools.hpp"

#include <algorithm>
#include <utility>

#include "torch/words.hpp"

namespace forebay::torch {
namespace {

PoolOptions options_of(const std::string& name, std::optional<std::uint64_t> limit, GrowBy growth) {
  PoolOptions options;
  options.name = name;
  options.limit = limit;
  options.growth = growth;
  return options;
}

}  // namespace

DevicePools::DevicePools(CudaDriver& driver, int device, const DeviceOptions& options)
    : domain_(driver, device),
      streams_(driver, domain_),
      site_(options.site),
      growth_(options.growth),
      graphs_(domain_) {
  PoolOptions pool = options_of("torch", options.limit, options.growth);
  if (options.quarantine) {
    guarded_ = std::make_unique<GuardedPool>(domain_, std::move(pool), *options.quarantine);
    far_ = std::make_unique<FarUses>(domain_, *guarded_);
  } else {
    plain_ = std::make_unique<Pool>(domain_, std::move(pool));
  }
  streams_.vouch(kLegacyStream.value);
}

Address DevicePools::refill(Pool& pool, std::uint64_t bytes, std::uint64_t id) {
  const Address address = pool.refill(bytes, id).address;
  note_peak();
  return address;
}

Address DevicePools::alloc_elsewhere(std::uint64_t bytes, std::uint64_t stream) {
  const std::uint64_t id = stream_id(stream);
  if (graphs_.routing() && !domain_.forked())
    if (const auto taker = graphs_.taker(reinterpret_cast<void*>(stream))) return taken(*taker, bytes, id);
  if (guarded_ == nullptr) return taken(*plain_, bytes, id);
  return alloc_guarded(bytes, id);
}

Address DevicePools::alloc_guarded(std::uint64_t bytes, std::uint64_t id) {
  const Address address = guarded_->alloc(bytes, id, here()).address;
  note_peak();
  if (domain_.hushed()) return address;
  const std::vector<std::string> all = reports();
  std::size_t told = told_.load();
  while (told < all.size() && !told_.compare_exchange_weak(told, all.size())) {
  }
  if (told >= all.size()) return address;
  guarded_->free(address, {});
  const std::size_t more = all.size() - told - 1;
  throw Misused(all[told] + (more == 0 ? "" : " (" + std::to_string(more) + " more in reports())"));
}

void DevicePools::used(Address address, std::uint64_t stream, std::string name, std::string site) {
  if (far_ != nullptr && !domain_.dead() && !domain_.hushed())
    far_->used(address, stream_id(stream), std::move(name), std::move(site));
}

void DevicePools::check() {
  if (guarded_ != nullptr && !domain_.dead()) guarded_->check();
}

std::vector<std::string> DevicePools::reports() {
  if (guarded_ == nullptr || domain_.dead()) return {};
  const std::vector<std::string> far = far_->reports();
  const std::vector<Report> near = guarded_->reports();
  const std::lock_guard lock(reports_mutex_);
  for (; far_told_ < far.size(); ++far_told_) reports_.push_back(far[far_told_]);
  for (; near_told_ < near.size(); ++near_told_) reports_.push_back(in_words(near[near_told_]));
  return reports_;
}

Pool& DevicePools::pool_of(std::size_t consumer, const Consumer& what) {
  {
    const std::shared_lock lock(mutex_);
    if (consumer < consumers_.size() && consumers_[consumer] != nullptr) return *consumers_[consumer];
  }
  const std::lock_guard lock(mutex_);
  if (consumer >= consumers_.size()) consumers_.resize(consumer + 1);
  if (consumers_[consumer] == nullptr)
    consumers_[consumer] =
        std::make_unique<Pool>(domain_, options_of(what.name, what.limit, what.growth.value_or(growth_)));
  return *consumers_[consumer];
}

Address DevicePools::alloc_for(std::size_t consumer, const Consumer& what, std::uint64_t bytes, std::uint64_t stream) {
  if (domain_.forked()) return alloc(bytes, stream);  // which refuses
  return taken(pool_of(consumer, what), bytes, stream_id(stream));
}

template <class F>
bool DevicePools::any_consumer(F visit) {
  const std::shared_lock lock(mutex_);
  return std::any_of(consumers_.begin(), consumers_.end(),
                     [&](const auto& pool) { return pool != nullptr && visit(*pool); });
}

// After the end of everything all frees are fine: a pool says so of any address.
bool DevicePools::free_elsewhere(Address address) {
  if (domain_.dead()) return true;
  if (guarded_ != nullptr && guarded_->underlying(address)) {
    const std::string site = here();
    far_->freeing(address, site);
    return guarded_->free(address, site);
  }
  return any_consumer([&](Pool& pool) { return pool.free(address); }) || graphs_.free(address);
}

bool DevicePools::owns(Address address) { return !domain_.dead() && underlying(address).has_value(); }

bool DevicePools::lend(Address address, std::uint64_t stream, DevicePools& peer) {
  if (domain_.dead()) return true;
  const std::uint64_t id = peer.stream_id(stream);
  if (plain_ != nullptr && plain_->lend(address, id, peer.domain_)) return true;
  if (guarded_ != nullptr && guarded_->lend(address, id, peer.domain_)) return true;
  if (any_consumer([&](Pool& pool) { return pool.lend(address, id, peer.domain_); })) return true;
  const auto graph = graphs_.owner(address);
  return graph != nullptr && graph->lend(address, id, peer.domain_);
}

std::optional<Granted> DevicePools::underlying(Address address) {
  if (domain_.dead()) return std::nullopt;
  std::optional<Granted> found = plain_ != nullptr ? plain_->underlying(address) : guarded_->underlying(address);
  if (found) return found;
  any_consumer([&](const Pool& pool) { return (found = pool.underlying(address)).has_value(); });
  if (found) return found;
  const auto graph = graphs_.owner(address);
  return graph == nullptr ? std::nullopt : graph->underlying(address);
}

void DevicePools::trim() {
  if (graphs_.routing() || domain_.dead()) return;
  if (plain_ != nullptr) plain_->trim();
  if (guarded_ != nullptr) guarded_->trim();
  any_consumer([](Pool& pool) { return pool.trim(), false; });
}

void DevicePools::set_limit(std::optional<std::uint64_t> limit) {
  if (plain_ != nullptr) plain_->set_limit(limit);
  if (guarded_ != nullptr) guarded_->set_limit(limit);
}

std::uint64_t DevicePools::reserved() {
  if (domain_.forked()) return 0;
  std::uint64_t bytes = (plain_ != nullptr ? plain_->reserved() : guarded_->reserved()) + graphs_.reserved();
  any_consumer([&](const Pool& pool) { return bytes += pool.reserved(), false; });
  return bytes;
}

std::uint64_t DevicePools::note_peak() {
  const std::uint64_t now = reserved();
  std::uint64_t peak = peak_.load();
  while (peak < now && !peak_.compare_exchange_weak(peak, now)) {
  }
  return std::max(peak, now);
}

std::vector<std::pair<std::string, Gauges>> DevicePools::gauges() {
  std::vector<std::pair<std::string, Gauges>> all;
  if (domain_.forked()) return all;
  all.emplace_back("torch", plain_ != nullptr ? plain_->gauges() : guarded_->gauges());
  any_consumer([&](Pool& pool) { return all.emplace_back(pool.options().name, pool.gauges()), false; });
  for (auto& graph : graphs_.gauges()) all.push_back(std::move(graph));
  return all;
}

std::optional<std::string> DevicePools::walk() {
  std::optional<std::string> broken = plain_ != nullptr ? plain_->walk() : guarded_->walk();
  any_consumer([&](const Pool& pool) { return !broken && (broken = pool.walk()).has_value(); });
  return broken ? broken : graphs_.walk();
}

}  // namespace forebay::torch
