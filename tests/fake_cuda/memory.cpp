// memory: what the fake says to segments, pinned memory, ranges, frames and mappings.
#include <algorithm>
#include <utility>

#include "fake.hpp"

namespace fake {

namespace {

template <class Map>
auto block_of(Map& map, Address address, std::uint64_t bytes) {
  auto block = map.upper_bound(address);
  if (block == map.begin()) return map.end();
  --block;
  const std::uint64_t into = address - block->first;
  return into < block->second.bytes && bytes <= block->second.bytes - into ? block : map.end();
}

// Mappings that lie in the range, if each of them does so wholly; none where one sticks out or there is none.
std::vector<Address> whole_mappings(Machine& m, Address address, std::uint64_t bytes) {
  std::vector<Address> found;
  auto mapping = m.mappings.upper_bound(address);
  if (mapping != m.mappings.begin() && std::prev(mapping)->first + std::prev(mapping)->second.bytes > address)
    --mapping;
  for (; mapping != m.mappings.end() && mapping->first < address + bytes; ++mapping) {
    if (mapping->first < address || mapping->first + mapping->second.bytes > address + bytes) return {};
    found.push_back(mapping->first);
  }
  return found;
}

}  // namespace

bool touchable(Address& address, std::uint64_t bytes) {
  Machine& m = machine();
  if (const auto pinned = block_of(m.pinned, address, bytes); pinned != m.pinned.end()) {
    address = pinned->second.address + (address - pinned->first);
    return true;
  }
  if (block_of(m.segments, address, bytes) != m.segments.end()) return true;
  if (block_of(m.pool_blocks, address, bytes) != m.pool_blocks.end()) return true;
  for (Address at = address; at < address + bytes;) {
    const auto mapping = block_of(m.mappings, at, 1);
    if (mapping == m.mappings.end() || !mapping->second.accessible) return false;
    at = mapping->first + mapping->second.bytes;
  }
  return bytes > 0;
}

// ---- segments and pinned memory

FAKE Code cuMemGetInfo_v2(std::size_t* free, std::size_t* total) {
  if (const Code c = entered("cuMemGetInfo"); c != kOk) return c;
  const auto info = machine().sim->memory_info(current_device());
  if (!info) return code_of(info.status());
  *free = info->free_bytes, *total = info->total_bytes;
  return kOk;
}

FAKE Code cuMemAlloc_v2(cuda::Pointer* out, std::size_t bytes) {
  if (const Code c = entered("cuMemAlloc"); c != kOk) return c;
  const auto hold = locked();
  const auto made = machine().sim->malloc(current_device(), bytes);
  if (!made) return code_of(made.status());
  machine().segments[*made] = {current_device(), bytes};
  *out = *made;
  return kOk;
}

// An address is the process's own: any context frees it.
FAKE Code cuMemFree_v2(cuda::Pointer address) {
  if (const Code c = entered("cuMemFree"); c != kOk) return c;
  auto hold = locked();
  auto segment = machine().segments.extract(address);  // first: the address may come back before this returns
  if (segment.empty()) return kInvalidValue;
  hold.unlock();
  const Status status = machine().sim->free(segment.mapped().device, address);
  hold.lock();
  if (status != Status::ok) machine().segments.insert(std::move(segment));
  return code_of(status);
}

FAKE Code cuMemHostAlloc(void** out, std::size_t bytes, std::uint32_t) {
  if (const Code c = entered("cuMemHostAlloc"); c != kOk) return c;
  const auto hold = locked();
  const auto made = machine().sim->host_alloc(bytes);
  if (!made) return code_of(made.status());
  const auto host = machine().sim->host_pointer(*made, bytes);
  if (!host) return code_of(host.status());
  machine().pinned[reinterpret_cast<Address>(*host)] = {*made, bytes};
  *out = *host;
  return kOk;
}

FAKE Code cuMemFreeHost(void* host) {
  if (const Code c = entered("cuMemFreeHost"); c != kOk) return c;
  auto hold = locked();
  auto block = machine().pinned.extract(reinterpret_cast<Address>(host));
  if (block.empty()) return kInvalidValue;
  hold.unlock();
  const Status status = machine().sim->host_free(block.mapped().address);
  hold.lock();
  if (status != Status::ok) machine().pinned.insert(std::move(block));
  return code_of(status);
}

FAKE Code cuPointerGetAttribute(void* out, std::int32_t attribute, cuda::Pointer address) {
  if (const Code c = entered("cuPointerGetAttribute"); c != kOk) return c;
  const auto hold = locked();
  if (attribute != cuda::kMemoryType) return kInvalidValue;
  const bool pinned = block_of(machine().pinned, address, 1) != machine().pinned.end();
  if (!pinned && !touchable(address, 1)) return kInvalidValue;
  *static_cast<std::int32_t*>(out) = pinned ? cuda::kMemoryHost : 2;
  return kOk;
}

// ---- virtual memory

FAKE Code cuMemGetAllocationGranularity(std::size_t* out, const cuda::FrameKind* kind, std::int32_t) {
  if (const Code c = entered("cuMemGetAllocationGranularity"); c != kOk) return c;
  if (kind->type != cuda::kFramePinned || kind->location.type != cuda::kLocationDevice) return kInvalidValue;
  *out = machine().sim->facts(kind->location.id)->granularity;
  return kOk;
}

FAKE Code cuMemAddressReserve(cuda::Pointer* out, std::size_t bytes, std::size_t, cuda::Pointer, std::uint64_t) {
  if (const Code c = entered("cuMemAddressReserve"); c != kOk) return c;
  const auto hold = locked();
  const auto made = machine().sim->reserve_range(current_device(), bytes);
  if (!made) return code_of(made.status());
  machine().ranges[*made] = {current_device(), bytes};
  *out = *made;
  return kOk;
}

FAKE Code cuMemAddressFree(cuda::Pointer address, std::size_t bytes) {
  if (const Code c = entered("cuMemAddressFree"); c != kOk) return c;
  const auto hold = locked();
  const auto range = machine().ranges.find(address);
  if (range == machine().ranges.end() || range->second.bytes != bytes) return kInvalidValue;
  const Status status = machine().sim->release_range(range->second.device, address, bytes);
  if (status == Status::ok) machine().ranges.erase(range);
  return code_of(status);
}

FAKE Code cuMemCreate(cuda::FrameNumber* out, std::size_t bytes, const cuda::FrameKind* kind, std::uint64_t) {
  if (const Code c = entered("cuMemCreate"); c != kOk) return c;
  const auto hold = locked();
  if (kind->type != cuda::kFramePinned || kind->location.type != cuda::kLocationDevice) return kInvalidValue;
  const auto made = machine().sim->create(kind->location.id, bytes);
  if (!made) return code_of(made.status());
  machine().frames[made->value] = {kind->location.id, bytes};
  *out = made->value;
  return kOk;
}

FAKE Code cuMemRelease(cuda::FrameNumber frame) {
  if (const Code c = entered("cuMemRelease"); c != kOk) return c;
  const auto hold = locked();
  const auto held = machine().frames.find(frame);
  if (held == machine().frames.end()) return kInvalidValue;
  const Status status = machine().sim->release(held->second.device, {frame});
  if (status == Status::ok) machine().frames.erase(held);
  return code_of(status);
}

FAKE Code cuMemMap(cuda::Pointer address, std::size_t bytes, std::size_t offset, cuda::FrameNumber frame,
                   std::uint64_t) {
  if (const Code c = entered("cuMemMap"); c != kOk) return c;
  const auto hold = locked();
  const auto held = machine().frames.find(frame);
  if (held == machine().frames.end()) return kInvalidValue;
  if (offset != 0) return offset + bytes > held->second.bytes ? kInvalidValue : code_of(Status::not_supported);
  const auto range = block_of(machine().ranges, address, bytes);
  if (range == machine().ranges.end()) return kInvalidValue;
  const Status status = machine().sim->map(range->second.device, address, bytes, {frame});
  if (status == Status::ok) machine().mappings[address] = {range->second.device, bytes, frame, false};
  return code_of(status);
}

FAKE Code cuMemSetAccess(cuda::Pointer address, std::size_t bytes, const cuda::Access* access, std::size_t count) {
  if (const Code c = entered("cuMemSetAccess"); c != kOk) return c;
  const auto hold = locked();
  const bool of_devices = std::all_of(access, access + count, [](const cuda::Access& a) {
    return a.rights == cuda::kReadWrite && a.location.type == cuda::kLocationDevice;
  });
  if (count == 0 || !of_devices || block_of(machine().ranges, address, bytes) == machine().ranges.end())
    return kInvalidValue;
  Status status = Status::ok;
  for (std::size_t i = 0; i < count && status == Status::ok; ++i)
    status = machine().sim->set_access(access[i].location.id, address, bytes);
  if (status == Status::ok)
    for (const Address at : whole_mappings(machine(), address, bytes)) machine().mappings[at].accessible = true;
  return code_of(status);
}

// Gaps are let pass, as an H200 does; a mapping that sticks out is not.
FAKE Code cuMemUnmap(cuda::Pointer address, std::size_t bytes) {
  if (const Code c = entered("cuMemUnmap"); c != kOk) return c;
  const auto hold = locked();
  const auto range = block_of(machine().ranges, address, bytes);
  const auto found = whole_mappings(machine(), address, bytes);
  if (range == machine().ranges.end() || found.empty()) return kInvalidValue;
  for (const Address at : found) {
    const Status status = machine().sim->unmap(range->second.device, at, machine().mappings[at].bytes);
    if (status != Status::ok) return code_of(status);
    machine().mappings.erase(at);
  }
  return kOk;
}

}  // namespace fake
