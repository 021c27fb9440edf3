#include "driver/cuda.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>

#include "driver/cuda_inside.hpp"
#include "driver/forks.hpp"

namespace forebay {

namespace {

cuda::FrameKind frame_of(cuda::Ordinal device) {
  cuda::FrameKind kind{};
  kind.type = cuda::kFramePinned;
  kind.location = {cuda::kLocationDevice, device};
  return kind;
}

}  // namespace

CudaDriver::CudaDriver(const cuda::Loaded& loaded) : api_(loaded.api), forks_(watched_forks()) {
  for (const cuda::Ordinal ordinal : loaded.devices) {
    devices_.push_back(std::make_unique<Device>());
    devices_.back()->ordinal = ordinal;
  }
}

// Contexts are shared with whoever else retained them: a refusal harms nobody, and there is nobody to tell.
CudaDriver::~CudaDriver() {
  for (int d = 0; d < device_count(); ++d)
    if (devices_[static_cast<std::size_t>(d)]->context.load() != nullptr && enter(d) == Status::ok)
      api_.primary_release(devices_[static_cast<std::size_t>(d)]->ordinal);
}

// ---- entry

Status CudaDriver::enter() const {
  cuda::forget_failure();
  if (forks_seen.load(std::memory_order_relaxed) != forks_) return Status::not_initialized;
  if (over_.load(std::memory_order_relaxed)) return Status::deinitialized;
  return in_host_function() ? Status::not_permitted : Status::ok;
}

Status CudaDriver::enter(int device) const {
  if (const Status s = enter(); s != Status::ok) return s;
  if (device < 0 || device >= device_count()) return Status::invalid_device;
  return devices_[static_cast<std::size_t>(device)]->fault->load(std::memory_order_relaxed);
}

Status CudaDriver::enter_any() const {
  for (int d = 0; d < device_count(); ++d)
    if (const Status s = enter(d); s != Status::ok) return s;
  return Status::ok;
}

Status CudaDriver::retain(int device, Device& d) {
  if (d.context.load(std::memory_order_acquire) != nullptr) return Status::ok;
  const std::lock_guard hold(d.lock);
  cuda::Context context = d.context.load();
  if (context != nullptr) return Status::ok;
  const Status status = came_to(device, api_.primary_retain(&context, d.ordinal));
  if (status == Status::ok) d.context.store(context, std::memory_order_release);
  return status;
}

Status CudaDriver::came_to(int device, cuda::Code code) {
  const auto status = static_cast<Status>(code);
  if (sticky(status)) devices_[static_cast<std::size_t>(device)]->fault->store(status);
  if (status == Status::deinitialized) over_.store(true);
  return status;
}

std::int64_t CudaDriver::now_ns() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

std::string CudaDriver::failure() { return cuda::last_failure(); }

Status CudaDriver::fault_of(int device) { return enter(device); }

// ---- devices

Result<DeviceFacts> CudaDriver::facts(int device) {
  std::size_t total = 0, granularity = 0;
  std::array<char, 256> name{};
  const Status status = on(device, [&] {
    const cuda::Ordinal ordinal = devices_[static_cast<std::size_t>(device)]->ordinal;
    const cuda::FrameKind kind = frame_of(ordinal);
    int has_virtual_memory = 0;
    cuda::Code code = api_.device_total(&total, ordinal);
    if (code == 0) code = api_.device_name(name.data(), static_cast<int>(name.size()) - 1, ordinal);
    if (code == 0) code = api_.device_attribute(&has_virtual_memory, cuda::kHasVirtualMemory, ordinal);
    if (code == 0 && has_virtual_memory != 0) code = api_.granularity(&granularity, &kind, cuda::kLeastGranularity);
    return code;
  });
  if (status != Status::ok) return status;
  return DeviceFacts{total, granularity, name.data()};
}

Result<MemoryInfo> CudaDriver::memory_info(int device) {
  std::size_t free = 0, total = 0;
  const Status status = on(device, [&] { return api_.mem_info(&free, &total); });
  if (status != Status::ok) return status;
  return MemoryInfo{free, total};
}

// ---- segments and pinned memory

Result<Address> CudaDriver::malloc(int device, std::uint64_t bytes) {
  cuda::Pointer address = 0;
  const Status status = relaxed_on(device, [&] { return api_.mem_alloc(&address, bytes); });
  if (status != Status::ok) return status;
  const std::lock_guard hold(lock_);
  segments_[address] = device;
  return address;
}

Status CudaDriver::free(int device, Address address) {
  return gone(segments_, device, address, Status::invalid_value, [&] { return api_.mem_free(address); });
}

// Portable: every device's copies find it pinned.
Result<Address> CudaDriver::host_alloc(std::uint64_t bytes) {
  if (const Status s = enter_any(); s != Status::ok) return s;
  void* host = nullptr;
  const Status status = relaxed_on(0, [&] { return api_.host_alloc(&host, bytes, cuda::kHostPortable); });
  if (status != Status::ok) return status;
  const auto address = reinterpret_cast<Address>(host);
  const std::lock_guard hold(lock_);
  pinned_[address] = bytes;
  return address;
}

Status CudaDriver::host_free(Address address) {
  if (const Status s = enter_any(); s != Status::ok) return s;
  std::unique_lock hold(lock_);
  auto block = pinned_.extract(address);  // first: the address may come back before this returns
  hold.unlock();
  const Status status = relaxed_on(0, [&] { return api_.host_free(reinterpret_cast<void*>(address)); });
  hold.lock();
  if (status != Status::ok && !block.empty()) pinned_.insert(std::move(block));
  return status;
}

Result<void*> CudaDriver::host_pointer(Address address, std::uint64_t bytes) {
  if (const Status s = enter_any(); s != Status::ok) return s;
  const std::lock_guard hold(lock_);
  auto block = pinned_.upper_bound(address);
  if (block == pinned_.begin()) return Status::invalid_value;
  --block;
  const std::uint64_t into = address - block->first;
  if (into >= block->second || bytes > block->second - into) return Status::invalid_value;
  return reinterpret_cast<void*>(address);
}

// ---- virtual memory

Result<Address> CudaDriver::reserve_range(int device, std::uint64_t bytes) {
  cuda::Pointer address = 0;
  const Status status = on(device, [&] { return api_.range_reserve(&address, bytes, 0, 0, 0); });
  if (status != Status::ok) return status;
  return address;
}

Status CudaDriver::release_range(int device, Address address, std::uint64_t bytes) {
  return on(device, [&] { return api_.range_free(address, bytes); });
}

Result<FrameHandle> CudaDriver::create(int device, std::uint64_t bytes) {
  cuda::FrameNumber frame = 0;
  const Status status = on(device, [&] {
    const cuda::FrameKind kind = frame_of(devices_[static_cast<std::size_t>(device)]->ordinal);
    return api_.frame_create(&frame, bytes, &kind, 0);
  });
  if (status != Status::ok) return status;
  return FrameHandle{frame};
}

Status CudaDriver::release(int device, FrameHandle frame) {
  return on(device, [&] { return api_.frame_release(frame.value); });
}

Status CudaDriver::map(int device, Address address, std::uint64_t bytes, FrameHandle frame) {
  return on(device, [&] { return api_.map(address, bytes, 0, frame.value, 0); });
}

Status CudaDriver::set_access(int device, Address address, std::uint64_t bytes) {
  return on(device, [&] {
    const cuda::Access access{{cuda::kLocationDevice, devices_[static_cast<std::size_t>(device)]->ordinal},
                              cuda::kReadWrite};
    return api_.set_access(address, bytes, &access, 1);
  });
}

Status CudaDriver::unmap(int device, Address address, std::uint64_t bytes) {
  return on(device, [&] { return api_.unmap(address, bytes); });
}

}  // namespace forebay
