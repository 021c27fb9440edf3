#include "torch/service.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace forebay::torch {
namespace {

thread_local std::vector<std::size_t> entered;

}  // namespace

Service& Service::only() {
  static Service* const service = new Service;  // see Note [Late]
  return *service;
}

void Service::set(Settings settings) {
  const std::lock_guard lock(mutex_);
  if (started()) throw Refused("CUDA has begun to use this allocator: say what it is to be before that");
  settings_ = std::move(settings);
}

CudaDriver& Service::driver() {
  if (CudaDriver* const driver = driver_.load()) return *driver;
  const cuda::Loaded loaded = cuda::load(settings_.libcuda);
  if (!loaded.missing.empty()) throw Refused(loaded.missing);
  driver_.store(new CudaDriver(loaded));
  return *driver_.load();
}

// A child of a process that used CUDA has locks here that nobody will ever let go.
DevicePools& Service::opened(int device) {
  if (started() && forks_seen.load() != forks_) throw Refused("this process was forked after CUDA began; use spawn");
  const std::lock_guard lock(mutex_);
  if (DevicePools* const pools = used(device)) return *pools;
  CudaDriver& cuda = driver();
  if (device < 0 || device >= std::min(cuda.device_count(), kMostDevices))
    throw Refused("device " + std::to_string(device) + ": CUDA shows " + std::to_string(cuda.device_count()));
  DeviceOptions options{settings_.limit, GrowBy::segments, settings_.quarantine, settings_.site};
  const auto facts = cuda.facts(device);
  // Frames are open to their own device alone; segments to every device that PyTorch gives access.
  if (facts.ok() && facts->granularity > 0 && cuda.device_count() == 1) options.growth = GrowBy::frames;
  options.growth = settings_.growth.value_or(options.growth);
  devices_[static_cast<std::size_t>(device)].store(new DevicePools(cuda, device, options));
  return *used(device);
}

std::size_t Service::routed() { return entered.empty() ? 0 : entered.back(); }
void Service::enter(std::size_t consumer) {
  entered.push_back(consumer);
  ++entered_;
}
void Service::leave() {
  if (entered.empty()) return;
  entered.pop_back();
  --entered_;
}

std::size_t Service::consumer(const Consumer& what) {
  const std::lock_guard lock(mutex_);
  for (std::size_t i = 0; i < kMostConsumers; ++i) {
    const Consumer* const known = consumers_[i].load();
    if (known == nullptr) consumers_[i].store(new Consumer(what));
    if (known != nullptr && known->name != what.name) continue;
    if (known == nullptr || (known->limit == what.limit && known->growth == what.growth)) return i + 1;
    throw Refused("pool " + what.name + " is there already, with another limit or growth");
  }
  throw Refused("pool " + what.name + ": there are " + std::to_string(kMostConsumers) + " pools, and no more");
}

DevicePools* Service::owner(Address address) {
  for (int device = 0; device < kMostDevices; ++device)
    if (DevicePools* const pools = used(device); pools != nullptr && pools->owns(address)) return pools;
  return nullptr;
}

// A handle is not of a device: the one where somebody vouched for it is taken, else the block's.
void Service::lend(Address address, std::uint64_t stream) {
  DevicePools* const home = owner(address);
  if (home == nullptr) return;
  DevicePools* peer = home;
  for (int device = 0; device < kMostDevices && !home->streams().vouched(stream); ++device)
    if (DevicePools* const pools = used(device); pools != nullptr && pools->streams().vouched(stream)) peer = pools;
  home->lend(address, stream, *peer);
}

std::optional<Granted> Service::underlying(Address address) {
  DevicePools* const home = owner(address);
  return home == nullptr ? std::nullopt : home->underlying(address);
}

void Service::set_fraction(int device, double fraction) {
  DevicePools& pools = at(device);
  const auto facts = driver().facts(device);
  if (!facts.ok()) throw Refused("device " + std::to_string(device) + " does not say how much memory it has");
  const double limit = std::clamp(fraction, 0.0, 1.0) * static_cast<double>(facts->total_bytes);
  pools.set_limit(fraction >= 1.0 ? std::nullopt : std::optional(static_cast<std::uint64_t>(limit)));
}

void Service::trim() {
  for (int device = 0; device < kMostDevices; ++device)
    if (DevicePools* const pools = used(device)) pools->trim();
}

}  // namespace forebay::torch
