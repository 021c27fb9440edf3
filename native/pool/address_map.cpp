#include "pool/address_map.hpp"

namespace forebay {
namespace {
constexpr std::uint64_t slot_hash(Address a) { return ((a / 512) * 0x9e3779b97f4a7c15) >> 20; }
}  // namespace

std::size_t AddressMap::Shard::at(Address address) const {
  const std::size_t mask = slots.size() - 1;
  std::size_t i = slot_hash(address) & mask;
  while (slots[i] != nullptr && slots[i]->address != address) i = (i + 1) & mask;
  return i;
}

void AddressMap::Shard::place(Block* block) { slots[at(block->address)] = block; }

void AddressMap::insert(Block* block) {
  Shard& s = shard(block->address);
  std::lock_guard lock(s.mutex);
  if (++s.used * 4 > s.slots.size() * 3) {
    std::vector<Block*> old(s.slots.size() * 2, nullptr);
    old.swap(s.slots);
    for (Block* b : old)
      if (b != nullptr) s.place(b);
  }
  s.place(block);
}

void AddressMap::erase(Address address) {
  Shard& s = shard(address);
  std::lock_guard lock(s.mutex);
  const std::size_t mask = s.slots.size() - 1;
  std::size_t hole = s.at(address);
  if (s.slots[hole] == nullptr) return;
  --s.used;
  for (std::size_t i = (hole + 1) & mask; s.slots[i] != nullptr; i = (i + 1) & mask) {
    const std::size_t ideal = slot_hash(s.slots[i]->address) & mask;
    if (((i - ideal) & mask) < ((i - hole) & mask)) continue;  // it would move before its ideal place
    s.slots[hole] = s.slots[i];
    hole = i;
  }
  s.slots[hole] = nullptr;
}

Block* AddressMap::find(Address address) const {
  const Shard& s = shard(address);
  std::lock_guard lock(s.mutex);
  return s.slots[s.at(address)];
}

std::size_t AddressMap::count() const {
  std::size_t n = 0;
  for (const Shard& s : shards_) {
    std::lock_guard lock(s.mutex);
    n += s.used;
  }
  return n;
}

}  // namespace forebay
