// cuda_pool: the part of the CUDA driver that hands out memory in the order of streams: the driver's own pools.
#include "driver/cuda_inside.hpp"

namespace forebay {

namespace {

cuda::DriverPoolPointer pointer_of(DriverPoolHandle pool) {
  return reinterpret_cast<cuda::DriverPoolPointer>(pool.value);
}

// libcuda reads and writes an int for these, 64 bits for all others.
bool is_choice(PoolAttribute attribute) { return attribute <= PoolAttribute::internal_waits; }

}  // namespace

Result<DriverPoolHandle> CudaDriver::pool_create(int device, std::uint64_t most) {
  cuda::DriverPoolPointer made = nullptr;
  const Status status = relaxed_on(device, [&] {
    cuda::DriverPoolKind kind{};
    kind.type = cuda::kFramePinned;
    kind.location = {cuda::kLocationDevice, devices_[static_cast<std::size_t>(device)]->ordinal};
    kind.most = most;
    return api_.pool_create(&made, &kind);
  });
  if (status != Status::ok) return status;
  const DriverPoolHandle pool{reinterpret_cast<std::uint64_t>(made)};
  const std::lock_guard hold(lock_);
  pools_[pool.value] = device;
  return pool;
}

Status CudaDriver::pool_destroy(int device, DriverPoolHandle pool) {
  return gone(pools_, device, pool.value, Status::invalid_handle,
              [&] { return api_.pool_destroy(forebay::pointer_of(pool)); });
}

Result<Address> CudaDriver::pool_alloc(int device, DriverPoolHandle pool, std::uint64_t bytes, StreamHandle stream) {
  if (const Status s = enter(device); s != Status::ok) return s;
  if (!knows(pools_, device, pool.value)) return Status::invalid_handle;
  cuda::Pointer address = 0;
  const Status status = relaxed_on_stream(
      device, stream, [&](auto s) { return api_.pool_alloc(&address, bytes, forebay::pointer_of(pool), s); });
  if (status != Status::ok) return status;
  return address;
}

Status CudaDriver::pool_free(int device, Address address, StreamHandle stream) {
  return relaxed_on_stream(device, stream, [&](auto s) { return api_.pool_free(address, s); });
}

Status CudaDriver::pool_trim(int device, DriverPoolHandle pool, std::uint64_t kept) {
  if (const Status s = enter(device); s != Status::ok) return s;
  if (!knows(pools_, device, pool.value)) return Status::invalid_handle;
  return relaxed_on(device, [&] { return api_.pool_trim(forebay::pointer_of(pool), kept); });
}

Result<std::uint64_t> CudaDriver::pool_get(int device, DriverPoolHandle pool, PoolAttribute attribute) {
  if (const Status s = enter(device); s != Status::ok) return s;
  if (!knows(pools_, device, pool.value)) return Status::invalid_handle;
  std::int32_t choice = 0;
  std::uint64_t bytes = 0;
  void* const out = is_choice(attribute) ? static_cast<void*>(&choice) : &bytes;
  const Status status =
      on(device, [&] { return api_.pool_get(forebay::pointer_of(pool), static_cast<std::int32_t>(attribute), out); });
  if (status != Status::ok) return status;
  return is_choice(attribute) ? static_cast<std::uint64_t>(choice) : bytes;
}

Status CudaDriver::pool_set(int device, DriverPoolHandle pool, PoolAttribute attribute, std::uint64_t value) {
  if (const Status s = enter(device); s != Status::ok) return s;
  if (!knows(pools_, device, pool.value)) return Status::invalid_handle;
  auto choice = static_cast<std::int32_t>(value != 0);
  void* const in = is_choice(attribute) ? static_cast<void*>(&choice) : &value;
  return relaxed_on(device,
                    [&] { return api_.pool_set(forebay::pointer_of(pool), static_cast<std::int32_t>(attribute), in); });
}

// ---- kernels, and threads that work on one device

Status CudaDriver::stay(int device) {
  return on(device, [] { return cuda::Code{0}; }) != Status::ok
             ? enter(device)
             : came_to(device, api_.ctx_set(devices_[static_cast<std::size_t>(device)]->context));
}

Result<std::uint64_t> CudaDriver::kernel(int device, const char* module, const char* name) {
  cuda::ModulePointer loaded = nullptr;
  cuda::FunctionPointer found = nullptr;
  const Status status = on(device, [&] {
    const cuda::Code code = api_.module_load(&loaded, module);
    return code != 0 ? code : api_.module_function(&found, loaded, name);
  });
  if (status != Status::ok) return status;
  return reinterpret_cast<std::uint64_t>(found);
}

Status CudaDriver::launch_kernel(int device, StreamHandle stream, std::uint64_t kernel, std::uint64_t argument) {
  void* arguments[] = {&argument};
  return on_stream(device, stream, [&](auto s) {
    const auto function = reinterpret_cast<cuda::FunctionPointer>(kernel);
    return api_.kernel(function, 1, 1, 1, 1, 1, 1, 0, s, static_cast<void**>(arguments), nullptr);
  });
}

}  // namespace forebay
