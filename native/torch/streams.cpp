#include "torch/streams.hpp"

#include "pool/fault.hpp"

namespace forebay::torch {

std::uint64_t Streams::adopted(std::uint64_t handle, Lifetime lifetime) {
  Result<std::uint64_t> id = driver_.adopt_stream(domain_.device(), StreamHandle{handle});
  domain_.note(id.status());
  if (id.ok()) id = domain_.adopt(StreamHandle{handle}, lifetime);
  if (id.ok()) return *id;
  PoolFault fault(PoolFault::Code::driver);
  fault.call = "stream_id";
  fault.status = id.status();
  throw fault;
}

std::uint64_t Streams::named(std::uint64_t handle) {
  if (handle <= kPerThreadStream.value) return adopted(handle, Lifetime::ours);
  const std::uint64_t id = adopted(handle, Lifetime::named);
  std::optional<std::uint64_t> gone;
  {
    const std::lock_guard lock(mutex_);
    const auto [known, is_new] = ids_.try_emplace(handle, id);
    if (!is_new && known->second != id) gone = known->second;
    known->second = id;
  }
  if (gone) domain_.ending(*gone);
  domain_.clock(id)->named();
  return id;
}

void Streams::vouch(std::uint64_t handle) {
  const std::uint64_t key = key_of(handle);
  if (key == kPerThreadStream.value || vouched(key)) return;
  const std::uint64_t id = adopted(key, Lifetime::ours);
  const std::lock_guard lock(mutex_);
  if (used_ == kMost || vouched(key) || domain_.clock(id)->lifetime() != Lifetime::ours) return;
  std::size_t i = start(key);
  while (slots_[i].key.load(std::memory_order_relaxed) != 0) i = (i + 1) % kSlots;
  slots_[i].id = id;
  slots_[i].key.store(key, std::memory_order_release);
  ++used_;
}

}  // namespace forebay::torch
