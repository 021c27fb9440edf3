// hooks: the functions whose addresses PyTorch is given (CUDAPluggableAllocator, MemPool): its names for things, and
// its way to be told that something failed, which is an exception. A stream is a CUstream.
#include <cstdint>
#include <functional>
#include <utility>

#include "torch/service.hpp"
#include "torch/words.hpp"

#define FOREBAY_HOOK extern "C" __attribute__((visibility("default")))

namespace forebay::torch {
namespace {

std::uint64_t handle(void* stream) { return reinterpret_cast<std::uint64_t>(stream); }
void* pointer(Address address) { return reinterpret_cast<void*>(address); }
Address address_of(void* pointer) { return reinterpret_cast<Address>(pointer); }

[[noreturn]] void refuse(const PoolFault& fault, int device) {
  if (is_out_of_memory(fault)) throw_out_of_memory(in_words(fault, device));
  throw std::runtime_error(in_words(fault, device));
}

}  // namespace

FOREBAY_HOOK void* forebay_torch_alloc(std::size_t bytes, int device, void* stream) {
  if (bytes == 0) return nullptr;
  try {
    return pointer(Service::only().alloc(bytes, device, handle(stream)));
  } catch (const PoolFault& fault) {
    refuse(fault, device);
  }
}

// For PyTorch's own allocator as a source of its segments: it takes no memory for null, and looks further.
FOREBAY_HOOK void* forebay_torch_segment(std::size_t bytes, int device, void* stream) {
  try {
    return pointer(Service::only().alloc(bytes, device, handle(stream)));
  } catch (const PoolFault& fault) {
    if (is_out_of_memory(fault)) return nullptr;
    refuse(fault, device);
  }
}

FOREBAY_HOOK void forebay_torch_free(void* block, std::size_t, int device, void*) {
  if (block != nullptr) Service::only().free(address_of(block), device);
}

FOREBAY_HOOK void forebay_torch_init(int) {}  // a device is opened when it is used

FOREBAY_HOOK void forebay_torch_reset() { Service::only().trim(); }

FOREBAY_HOOK void forebay_torch_memory_fraction(double fraction, int device) {
  Service::only().set_fraction(device, fraction);
}

FOREBAY_HOOK void* forebay_torch_base_alloc(void* block, std::size_t* bytes) {
  const auto found = Service::only().underlying(address_of(block));
  if (!found) throw std::runtime_error("forebay: no live block begins at that address");
  if (bytes != nullptr) *bytes = found->size;
  return pointer(found->address);
}

FOREBAY_HOOK void forebay_torch_record_stream(void* block, void* stream) {
  if (block == nullptr) return;
  try {
    Service::only().lend(address_of(block), handle(stream));
  } catch (const PoolFault& fault) {
    refuse(fault, 0);
  }
}

FOREBAY_HOOK void forebay_torch_begin(int device, PrivateId id, std::function<bool(void*)> takes) {
  Service::only().at(device).graphs().begin(id, std::move(takes));
}

FOREBAY_HOOK void forebay_torch_end(int device, PrivateId id) {
  if (DevicePools* const pools = Service::only().used(device)) pools->graphs().end(id);
}

FOREBAY_HOOK void forebay_torch_release(int device, PrivateId id) {
  if (DevicePools* const pools = Service::only().used(device)) pools->graphs().release(id);
}

}  // namespace forebay::torch
