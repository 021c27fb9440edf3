// lane_table: which lane serves a stream; read without a lock on every allocation, written under the pool's.
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdint>
#include <memory>
#include <vector>

namespace forebay {

class Lane;

class LaneTable {
 public:
  LaneTable() { grow(); }

  Lane* find(std::uint64_t stream) const {
    const Table& t = *current_.load(std::memory_order_acquire);
    for (std::size_t i = start(stream, t);; i = (i + 1) & t.mask) {
      const std::uint64_t key = t.slots[i].key.load(std::memory_order_acquire);
      if (key == kEmpty) return nullptr;
      if (key != stream + kFirst) continue;
      Lane* lane = t.slots[i].lane.load(std::memory_order_acquire);
      // A slot is used again only for another stream, and a stream's id never comes back.
      return t.slots[i].key.load(std::memory_order_acquire) == key ? lane : nullptr;
    }
  }

  void insert(std::uint64_t stream, Lane* lane) {
    if ((used_ + 1) * 2 > tables_.back()->mask + 1) grow();
    used_ += place(*tables_.back(), stream + kFirst, lane);
  }

  void erase(std::uint64_t stream) {
    Table& t = *tables_.back();
    for (std::size_t i = start(stream, t); t.slots[i].key != kEmpty; i = (i + 1) & t.mask)
      if (t.slots[i].key == stream + kFirst) t.slots[i].key = kErased;
  }

 private:
  static constexpr std::uint64_t kEmpty = 0, kErased = 1, kFirst = 2;
  struct Slot {
    std::atomic<std::uint64_t> key{kEmpty};
    std::atomic<Lane*> lane{nullptr};
  };
  struct Table {
    explicit Table(std::size_t size) : slots(size), mask(size - 1) {}
    std::vector<Slot> slots;
    std::size_t mask;
  };
  static std::size_t start(std::uint64_t stream, const Table& t) {
    return static_cast<std::size_t>((stream * 0x9e3779b97f4a7c15) >> 32) & t.mask;
  }
  // How many empty slots that took: none where an erased one served.
  static std::size_t place(Table& t, std::uint64_t key, Lane* lane) {
    std::size_t i = start(key - kFirst, t);
    while (t.slots[i].key > kErased) i = (i + 1) & t.mask;
    const bool fresh = t.slots[i].key == kEmpty;
    t.slots[i].lane.store(lane, std::memory_order_release);
    t.slots[i].key.store(key, std::memory_order_release);
    return fresh;
  }
  // Readers may be in any table there was, so each lives as long as the pool; sizes double with the streams alive.
  void grow() {
    std::size_t alive = 0;
    if (!tables_.empty())
      for (const Slot& s : tables_.back()->slots) alive += s.key > kErased;
    auto next = std::make_unique<Table>(std::max<std::size_t>(16, std::bit_ceil((alive + 1) * 4)));
    if (!tables_.empty())
      for (const Slot& s : tables_.back()->slots)
        if (s.key > kErased) place(*next, s.key, s.lane);
    used_ = alive;
    tables_.push_back(std::move(next));
    current_.store(tables_.back().get(), std::memory_order_release);
  }

  std::vector<std::unique_ptr<Table>> tables_;
  std::atomic<const Table*> current_{nullptr};
  std::size_t used_ = 0;  // slots ever filled in the current table
};

}  // namespace forebay
