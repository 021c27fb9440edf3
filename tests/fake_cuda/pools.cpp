// pools: what the fake says to the driver's own stream-ordered pools, and to the two kernels that it knows by name.
#include <algorithm>

#include "fake.hpp"

namespace fake {

namespace {

constexpr std::uint64_t kStep = 512, kChunk = 32u << 20;

std::uint64_t number(const void* handle) { return reinterpret_cast<std::uint64_t>(handle); }
std::uint64_t up(std::uint64_t bytes, std::uint64_t step) { return (bytes + step - 1) / step * step; }

DriverPool* pool_of(cuda::DriverPoolPointer handle) {
  const auto found = machine().pools.find(number(handle));
  return found == machine().pools.end() || found->second.destroyed ? nullptr : &found->second;
}

bool complete(const DriverPool& pool, const Hole& hole) {
  if (!hole.by) return true;
  const auto ready = machine().sim->event_query(pool.device, hole.done);
  return ready && *ready;
}

bool may_have(const DriverPool& pool, const Hole& hole, StreamHandle stream) {
  if (!hole.by || *hole.by == stream) return true;
  return pool.choices[1] != 0 && complete(pool, hole);
}

void drop(DriverPool& pool, std::map<Address, Hole>::iterator hole) {
  if (hole->second.by) (void)machine().sim->event_destroy(pool.device, hole->second.done);
  pool.holes.erase(hole);
}

// Takes `bytes` from a run of holes of one chunk that this stream may have; 0: there is none.
Address taken(DriverPool& pool, std::uint64_t bytes, StreamHandle stream) {
  for (auto first = pool.holes.begin(); first != pool.holes.end(); ++first) {
    const Address begin = first->first;
    std::uint64_t have = 0;
    auto last = first;
    while (last != pool.holes.end() && last->first == begin + have && may_have(pool, last->second, stream) &&
           (have == 0 || !pool.chunks.contains(last->first)) && have < bytes)
      have += last++->second.bytes;
    if (have < bytes) continue;
    const Hole rest{have - bytes, std::prev(last)->second.by, std::prev(last)->second.done};
    if (rest.bytes > 0) pool.holes.erase(std::prev(last));  // its event goes with what is left of it
    for (auto at = pool.holes.find(begin); at != pool.holes.end() && at->first < begin + bytes;) drop(pool, at++);
    if (rest.bytes > 0) pool.holes[begin + bytes] = rest;
    return begin;
  }
  return 0;
}

// Whole chunks that nobody uses go back until `kept` bytes are left.
void shrink(DriverPool& pool, std::uint64_t kept) {
  for (auto chunk = pool.chunks.begin(); chunk != pool.chunks.end() && pool.reserved > kept;) {
    const Address begin = chunk->first;
    const auto [bytes, frame] = chunk->second;
    std::uint64_t idle = 0;
    for (auto at = pool.holes.lower_bound(begin); at != pool.holes.end() && at->first < begin + bytes; ++at)
      idle += complete(pool, at->second) ? at->second.bytes : 0;
    if (idle != bytes) {
      ++chunk;
      continue;
    }
    for (auto at = pool.holes.lower_bound(begin); at != pool.holes.end() && at->first < begin + bytes;)
      drop(pool, at++);
    (void)machine().sim->unmap(pool.device, begin, bytes);
    (void)machine().sim->release(pool.device, frame);
    (void)machine().sim->release_range(pool.device, begin, bytes);
    pool.reserved -= bytes;
    chunk = pool.chunks.erase(chunk);
  }
}

Code grow(DriverPool& pool, std::uint64_t bytes) {
  const std::uint64_t chunk = up(bytes, kChunk);
  if (pool.most != 0 && pool.reserved + chunk > up(pool.most, kChunk)) return 2;
  SimDriver& sim = *machine().sim;
  const auto frame = sim.create(pool.device, chunk);
  if (!frame) return code_of(frame.status());
  const auto made = sim.reserve_range(pool.device, chunk);
  if (!made) return code_of(made.status());
  (void)sim.map(pool.device, *made, chunk, *frame);
  (void)sim.set_access(pool.device, *made, chunk);
  pool.chunks[*made] = {chunk, *frame};
  pool.holes[*made] = {chunk, std::nullopt, {}};
  pool.reserved += chunk;
  pool.reserved_high = std::max(pool.reserved_high, pool.reserved);
  return kOk;
}

}  // namespace

void waited() {
  const auto hold = locked();
  for (auto& [handle, pool] : machine().pools) shrink(pool, pool.threshold);
}

FAKE Code cuMemPoolCreate(cuda::DriverPoolPointer* out, const cuda::DriverPoolKind* kind) {
  if (const Code c = entered("cuMemPoolCreate"); c != kOk) return c;
  if (kind->type != cuda::kFramePinned || kind->location.type != cuda::kLocationDevice) return kInvalidValue;
  const auto hold = locked();
  const std::uint64_t handle = machine().numbers += 16;
  machine().pools[handle] = {.device = kind->location.id, .most = kind->most};
  *out = reinterpret_cast<cuda::DriverPoolPointer>(handle);
  return kOk;
}

// Its memory stays until the last block is freed.
FAKE Code cuMemPoolDestroy(cuda::DriverPoolPointer handle) {
  if (const Code c = entered("cuMemPoolDestroy"); c != kOk) return c;
  const auto hold = locked();
  DriverPool* const pool = pool_of(handle);
  if (pool == nullptr) return kInvalidValue;
  pool->destroyed = true;
  pool->threshold = 0;
  shrink(*pool, 0);
  return kOk;
}

FAKE Code cuMemAllocFromPoolAsync(cuda::Pointer* out, std::size_t asked, cuda::DriverPoolPointer handle,
                                  cuda::StreamPointer stream) {
  if (const Code c = entered("cuMemAllocFromPoolAsync"); c != kOk) return c;
  auto hold = locked();
  if (!device_of(stream)) return kInvalidHandle;
  DriverPool* const pool = pool_of(handle);
  if (pool == nullptr || asked == 0) return kInvalidValue;
  const StreamHandle by{number(stream)};
  const std::uint64_t bytes = up(asked, kStep);
  Address address = taken(*pool, bytes, by);
  if (address == 0) {
    if (const Code c = grow(*pool, bytes); c != kOk) return c;
    address = taken(*pool, bytes, by);
  }
  machine().pool_blocks[address] = {number(handle), bytes, asked};
  pool->used += asked;
  pool->used_high = std::max(pool->used_high, pool->used);
  *out = address;
  return kOk;
}

FAKE Code cuMemFreeAsync(cuda::Pointer address, cuda::StreamPointer stream) {
  if (const Code c = entered("cuMemFreeAsync"); c != kOk) return c;
  const auto hold = locked();
  const auto device = device_of(stream);
  if (!device) return kInvalidHandle;
  const auto block = machine().pool_blocks.extract(address);
  if (block.empty()) return kInvalidValue;
  DriverPool& pool = machine().pools.at(block.mapped().pool);
  const auto event = machine().sim->event_create(*device);
  if (!event) return code_of(event.status());
  (void)machine().sim->event_record(*device, *event, {number(stream)});
  pool.holes[address] = {block.mapped().bytes, StreamHandle{number(stream)}, *event};
  pool.used -= block.mapped().asked;
  if (pool.destroyed) shrink(pool, 0);
  return kOk;
}

FAKE Code cuMemPoolTrimTo(cuda::DriverPoolPointer handle, std::size_t kept) {
  if (const Code c = entered("cuMemPoolTrimTo"); c != kOk) return c;
  const auto hold = locked();
  DriverPool* const pool = pool_of(handle);
  if (pool == nullptr) return kInvalidValue;
  shrink(*pool, kept);
  return kOk;
}

FAKE Code cuMemPoolGetAttribute(cuda::DriverPoolPointer handle, std::int32_t attribute, void* out) {
  if (const Code c = entered("cuMemPoolGetAttribute"); c != kOk) return c;
  const auto hold = locked();
  const DriverPool* const pool = pool_of(handle);
  if (pool == nullptr || attribute < 1 || attribute > 8) return kInvalidValue;
  const std::uint64_t bytes[] = {pool->threshold, pool->reserved, pool->reserved_high, pool->used, pool->used_high};
  if (attribute <= 3)
    *static_cast<std::int32_t*>(out) = pool->choices[static_cast<std::size_t>(attribute - 1)];
  else
    *static_cast<std::uint64_t*>(out) = bytes[attribute - 4];
  return kOk;
}

FAKE Code cuMemPoolSetAttribute(cuda::DriverPoolPointer handle, std::int32_t attribute, void* in) {
  if (const Code c = entered("cuMemPoolSetAttribute"); c != kOk) return c;
  const auto hold = locked();
  DriverPool* const pool = pool_of(handle);
  if (pool == nullptr || attribute < 1 || attribute > 8) return kInvalidValue;
  if (attribute <= 3) {
    pool->choices[static_cast<std::size_t>(attribute - 1)] = *static_cast<std::int32_t*>(in);
    return kOk;
  }
  const std::uint64_t value = *static_cast<std::uint64_t*>(in);
  if (attribute == 4) {
    pool->threshold = value;
    return kOk;
  }
  if (attribute == 5 || attribute == 7 || value != 0) return kInvalidValue;  // only peaks can be written, and only 0
  if (attribute == 6) pool->reserved_high = pool->reserved;
  if (attribute == 8) pool->used_high = pool->used;
  return kOk;
}

// ---- kernels: any module has "spin", which works for its argument in nanoseconds, and others, which do nothing

FAKE Code cuModuleLoadData(cuda::ModulePointer* out, const void*) {
  if (const Code c = entered("cuModuleLoadData"); c != kOk) return c;
  const auto hold = locked();
  *out = reinterpret_cast<cuda::ModulePointer>(machine().numbers += 16);
  return kOk;
}

FAKE Code cuModuleGetFunction(cuda::FunctionPointer* out, cuda::ModulePointer, const char* name) {
  if (const Code c = entered("cuModuleGetFunction"); c != kOk) return c;
  const auto hold = locked();
  machine().kernels[machine().numbers += 16] = name;
  *out = reinterpret_cast<cuda::FunctionPointer>(machine().numbers);
  return kOk;
}

FAKE Code cuLaunchKernel(cuda::FunctionPointer function, std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t,
                         std::uint32_t, std::uint32_t, std::uint32_t, cuda::StreamPointer stream, void** arguments,
                         void**) {
  if (const Code c = entered("cuLaunchKernel"); c != kOk) return c;
  auto hold = locked();
  const auto device = device_of(stream);
  const auto known = machine().kernels.find(number(function));
  if (!device || known == machine().kernels.end()) return kInvalidHandle;
  Work work{.name = known->second, .cost_ns = 2000, .uses = {}, .run = [](auto) { return Status::ok; }};
  if (work.name == "spin") work.cost_ns = *static_cast<std::int64_t*>(arguments[0]);
  hold.unlock();
  return code_of(machine().sim->launch(*device, {number(stream)}, std::move(work)));
}

}  // namespace fake
