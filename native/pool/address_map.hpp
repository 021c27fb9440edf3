// address_map: which block lives at an address. Sharded, so that streams do not meet in it; no memory is asked for
// unless there are more blocks than ever before.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "pool/block.hpp"

namespace forebay {

class AddressMap {
 public:
  void insert(Block* block);           // its address is not in the map
  void erase(Address address);         // it is
  Block* find(Address address) const;  // null where no block begins
  std::size_t count() const;

 private:
  // Open addressing with linear probing; erasing shifts back, so there are no tombstones (Knuth 6.4, algorithm R).
  struct alignas(64) Shard {
    mutable std::mutex mutex;
    std::vector<Block*> slots = std::vector<Block*>(16, nullptr);
    std::size_t used = 0;
    void place(Block* block);
    std::size_t at(Address address) const;
  };
  static constexpr std::size_t kShards = 64;
  static std::uint64_t hash(Address a) { return (a / 512) * 0x9e3779b97f4a7c15; }
  Shard& shard(Address a) { return shards_[hash(a) >> 58]; }
  const Shard& shard(Address a) const { return shards_[hash(a) >> 58]; }

  std::array<Shard, kShards> shards_;
};

}  // namespace forebay
