#include "driver/sim.hpp"

#include <algorithm>
#include <utility>

#include "driver/thread_index.hpp"
#include "tape/recorder.hpp"

namespace forebay {

namespace {

thread_local bool running_work = false;

Status run_guarded(const Work& work, std::span<void* const> views) {
  const Upkeep none(0);
  running_work = true;
  Status status = Status::launch_failed;
  try {
    status = work.run(views);
  } catch (...) {  // the port's functions do not throw: a kernel that does has failed
  }
  running_work = false;
  return status;
}

}  // namespace

SimDriver::SimDriver(std::span<const std::uint64_t> capacities, Costs costs, std::unique_ptr<sim::Schedule> schedule)
    : costs_(std::move(costs)),
      schedule_(std::move(schedule)),
      slots_(static_cast<int>(capacities.size()) + 1),
      pinned_(slots_.first(), sim::Memory::kSpan) {
  for (std::size_t d = 0; d < capacities.size(); ++d) {
    devices_.push_back(std::make_unique<Device>(slots_.first() + 1 + static_cast<int>(d), capacities[d]));
    devices_.back()->legacy = new_lane(static_cast<int>(d), sim::LaneKind::legacy, 0);
  }
}

bool SimDriver::in_work() { return running_work; }

SimDriver::~SimDriver() { backlog_.drop_all(); }

// ---- entry

Status SimDriver::enter(int device) const {
  if (device < 0 || device >= device_count()) return Status::invalid_device;
  return devices_[static_cast<std::size_t>(device)]->fault;
}

Status SimDriver::enter_any() const {
  for (const auto& device : devices_)
    if (device->fault != Status::ok) return device->fault;
  return Status::ok;
}

// A thread that calls for the first time was started by one that got here before: its clock starts at the latest.
SimDriver::HostThread& SimDriver::me() {
  const std::uint32_t index = thread_index();
  if (index >= threads_.size()) threads_.resize(index + 1);
  HostThread& thread = threads_[index];
  if (!thread.known) {
    for (const HostThread& other : threads_) thread.clock_ns = std::max(thread.clock_ns, other.clock_ns);
    thread.known = true;
  }
  return thread;
}

std::int64_t SimDriver::now_ns() {
  const Lock lock(lock_);
  return me().clock_ns;
}

void SimDriver::spend(std::int64_t ns) {
  const Lock lock(lock_);
  me().clock_ns += ns;
}

std::optional<WorkTimes> SimDriver::work_times() {
  const Lock lock(lock_);
  return me().last;
}

Result<DeviceFacts> SimDriver::facts(int device) {
  const Lock lock(lock_);
  if (const Status s = enter(device); s != Status::ok) return s;
  return DeviceFacts{devices_[device]->memory.capacity(), sim::Memory::kGranularity, "simulated device"};
}

Result<MemoryInfo> SimDriver::memory_info(int device) {
  const Lock lock(lock_);
  if (const Status s = enter(device); s != Status::ok) return s;
  const sim::Memory& memory = devices_[device]->memory;
  return MemoryInfo{memory.capacity() - memory.used(), memory.capacity()};
}

Status SimDriver::fault_of(int device) {
  const Lock lock(lock_);
  return enter(device);
}

Account SimDriver::account(int device) {
  const Lock lock(lock_);
  const Device& d = *devices_.at(static_cast<std::size_t>(device));
  return {.used_bytes = d.memory.used(),
          .pinned_bytes = pinned_.used(),
          .segments = d.memory.segments(),
          .ranges = d.memory.ranges(),
          .frames = d.memory.frames(),
          .mappings = d.memory.mappings(),
          .streams = d.streams.size() - d.free_streams.size(),
          .events = d.events.size() - d.free_events.size(),
          .backlog = backlog_.size(),
          .graphs = graphs_.size(),
          .executables = executables_.size()};
}

// ---- memory

Result<Address> SimDriver::malloc(int device, std::uint64_t bytes) {
  const Lock lock(lock_);
  if (const Status s = enter(device); s != Status::ok) return s;
  if (const Status s = refuse_unsafe(); s != Status::ok) return s;
  charge(costs_.malloc, bytes);
  return devices_[device]->memory.malloc(bytes);
}

Status SimDriver::free(int device, Address address) {
  Lock lock(lock_);
  if (const Status s = enter(device); s != Status::ok) return s;
  sim::Memory& memory = devices_[device]->memory;
  if (!memory.is_segment(address)) return Status::invalid_value;
  if (const Status s = refuse_unsafe(); s != Status::ok) return s;
  if (const Status s = wait_for(lock, device, tails_of_device(device)); s != Status::ok) return s;
  const auto freed = memory.free(address);
  if (freed) charge(costs_.free, *freed);
  settle();
  return freed.status();
}

Result<Address> SimDriver::host_alloc(std::uint64_t bytes) {
  const Lock lock(lock_);
  if (const Status s = enter_any(); s != Status::ok) return s;
  if (const Status s = refuse_unsafe(); s != Status::ok) return s;
  charge(costs_.host_alloc, bytes);
  return pinned_.malloc(bytes);
}

Status SimDriver::host_free(Address address) {
  Lock lock(lock_);
  if (const Status s = enter_any(); s != Status::ok) return s;
  if (!pinned_.is_segment(address)) return Status::invalid_value;
  if (const Status s = refuse_unsafe(); s != Status::ok) return s;
  for (int d = 0; d < device_count(); ++d)
    if (const Status s = wait_for(lock, d, tails_of_device(d)); s != Status::ok) return s;
  const auto freed = pinned_.free(address);
  if (freed) charge(costs_.host_free, *freed);
  settle();
  return freed.status();
}

Result<void*> SimDriver::host_pointer(Address address, std::uint64_t bytes) {
  const Lock lock(lock_);
  if (const Status s = enter_any(); s != Status::ok) return s;
  if (index_of(address) != 0) return Status::invalid_value;
  const auto view = pinned_.view({}, address, bytes);
  return view.status() == Status::illegal_address ? Result<void*>(Status::invalid_value) : view;
}

Result<Address> SimDriver::reserve_range(int device, std::uint64_t bytes) {
  const Lock lock(lock_);
  if (const Status s = enter(device); s != Status::ok) return s;
  charge(costs_.reserve_range, bytes);
  return devices_[device]->memory.reserve_range(bytes);
}

Status SimDriver::release_range(int device, Address address, std::uint64_t bytes) {
  const Lock lock(lock_);
  if (const Status s = enter(device); s != Status::ok) return s;
  charge(costs_.release_range, bytes);
  const Status status = devices_[device]->memory.release_range(address, bytes);
  settle();
  return status;
}

Result<FrameHandle> SimDriver::create(int device, std::uint64_t bytes) {
  const Lock lock(lock_);
  if (const Status s = enter(device); s != Status::ok) return s;
  charge(costs_.create, bytes);
  return devices_[device]->memory.create(bytes);
}

Status SimDriver::release(int device, FrameHandle frame) {
  const Lock lock(lock_);
  if (const Status s = enter(device); s != Status::ok) return s;
  const auto released = devices_[device]->memory.release(frame);
  if (released) charge(costs_.release, *released);
  return released.status();
}

Status SimDriver::map(int device, Address address, std::uint64_t bytes, FrameHandle frame) {
  const Lock lock(lock_);
  if (const Status s = enter(device); s != Status::ok) return s;
  charge(costs_.map, bytes);
  return devices_[device]->memory.map(address, bytes, frame);
}

Status SimDriver::set_access(int device, Address address, std::uint64_t bytes) {
  const Lock lock(lock_);
  if (const Status s = enter(device); s != Status::ok) return s;
  charge(costs_.set_access, bytes);
  sim::Memory* memory = memory_at(address);
  return memory == nullptr ? Status::invalid_value : memory->set_access(device, address, bytes);
}

Status SimDriver::unmap(int device, Address address, std::uint64_t bytes) {
  const Lock lock(lock_);
  if (const Status s = enter(device); s != Status::ok) return s;
  charge(costs_.unmap, bytes);
  const Status status = devices_[device]->memory.unmap(address, bytes);
  settle();
  return status;
}

// ---- running and waiting

int SimDriver::index_of(Address address) const {
  const auto slot = sim::Memory::address_slot(address);
  const int index = slot ? *slot - slots_.first() : -1;
  return index <= device_count() ? index : -1;
}

sim::Memory* SimDriver::memory_at(Address address) {
  const int index = index_of(address);
  if (index < 0) return nullptr;
  return index == 0 ? &pinned_ : &devices_[static_cast<std::size_t>(index - 1)]->memory;
}

Status SimDriver::resolve(const sim::Item& item, std::vector<void*>& views) {
  for (const Use& use : item.work.uses) {
    sim::Memory* memory = memory_at(use.address);
    const auto by = item.work.far ? std::optional<int>() : item.device;
    const auto view = memory ? memory->view(by, use.address, use.size) : Result<void*>(Status::illegal_address);
    if (!view) return view.status();
    views.push_back(*view);
  }
  return Status::ok;
}

// Runs a ready item with the lock open. Its work is destroyed there too: it may own what needs other locks.
void SimDriver::run(Lock& lock, std::size_t index) {
  const ItemPtr item = backlog_.take(index);
  Device& device = *devices_[static_cast<std::size_t>(item->device)];
  std::vector<void*> views;
  Status status = device.fault;
  const bool runs = static_cast<bool>(item->work.run);
  if (status == Status::ok && runs) status = resolve(*item, views);
  if (runs) {
    ++running_;
    lock.unlock();
    {
      const Work work = std::move(item->work);
      if (status == Status::ok) tell(item->told, &Watch::begins);
      if (status == Status::ok) status = run_guarded(work, views);
    }
    lock.lock();
    --running_;
  }
  if (status != Status::ok && device.fault == Status::ok)
    device.fault = sticky(status) ? status : Status::launch_failed;
  backlog_.complete(item);
  settle();
  ran_.notify_all();
}

void SimDriver::stray(Lock& lock, sim::Point point) {
  if (in_work()) return;
  const std::int64_t now = me().clock_ns;
  while (!backlog_.ready().empty()) {
    const auto index = schedule_->stray(backlog_.ready(), point, now);
    if (!index) return;
    run(lock, *index);
  }
}

// Also on a device with a fault: its work lets go without running, and nobody may return while code of theirs still
// runs.
Status SimDriver::wait_for(Lock& lock, int device, const std::vector<ItemPtr>& targets) {
  if (in_work()) return Status::not_permitted;
  for (const ItemPtr& target : targets) {
    while (!target->done) {
      if (backlog_.ready().empty())
        ran_.wait(lock);
      else
        run(lock, schedule_->next(backlog_.ready()));
    }
    me().clock_ns = std::max(me().clock_ns, target->end_ns);
  }
  return enter(device);
}

// ---- watching

bool SimDriver::watch(const std::shared_ptr<Watch>& watch) {
  const std::lock_guard lock(watches_lock_);
  std::erase_if(watches_, [](const auto& w) { return w.expired(); });
  watches_.push_back(watch);
  watched_ = true;
  return true;
}

std::shared_ptr<const Issued> SimDriver::told(std::uint64_t stream, const Work& work) const {
  if (!watched_.load(std::memory_order_relaxed)) return nullptr;
  const std::span<const Use> told = work.told();
  return std::make_shared<const Issued>(
      Issued{work.name, {told.begin(), told.end()}, stream, Upkeep::now(), Caller::place()});
}

template <class Tell>
void SimDriver::tell(const std::shared_ptr<const Issued>& work, Tell how) {
  if (work == nullptr) return;
  std::vector<std::shared_ptr<Watch>> watches;
  {
    const std::lock_guard lock(watches_lock_);
    for (const auto& weak : watches_)
      if (auto watch = weak.lock()) watches.push_back(std::move(watch));
  }
  for (const auto& watch : watches) ((*watch).*how)(*work);
}

void SimDriver::tell_issued(const std::shared_ptr<const Issued>& work) { tell(work, &Watch::issued); }

void SimDriver::host_access() {
  Lock lock(lock_);
  stray(lock, sim::Point::host_access);
}

void SimDriver::settle() {
  if (running_ > 0) return;
  pinned_.settle();
  for (const auto& device : devices_) device->memory.settle();
}

}  // namespace forebay
