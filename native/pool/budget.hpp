// budget: how many bytes a pool has from the driver, under its limit. Who asks for them is growth.hpp's.
#pragma once

#include <atomic>
#include <cstdint>
#include <limits>
#include <optional>

namespace forebay {

class Budget {
 public:
  explicit Budget(std::optional<std::uint64_t> limit) { set_limit(limit); }

  std::optional<std::uint64_t> limit() const {
    const std::uint64_t limit = limit_.load(std::memory_order_relaxed);
    return limit == kNone ? std::nullopt : std::optional(limit);
  }
  // What is reserved beyond it stays; nothing is added.
  void set_limit(std::optional<std::uint64_t> limit) { limit_.store(limit.value_or(kNone)); }

  // Takes bytes of the limit before the driver is asked, so that two threads cannot both pass it.
  bool claim(std::uint64_t bytes) {
    const std::uint64_t limit = limit_.load();
    std::uint64_t now = reserved_.load();
    do {
      if (bytes > limit || now > limit - bytes) return false;
    } while (!reserved_.compare_exchange_weak(now, now + bytes));
    return true;
  }
  void give(std::uint64_t bytes) { reserved_.fetch_sub(bytes); }
  void take_back(std::uint64_t bytes) { reserved_.fetch_add(bytes); }  // what was given too early
  std::uint64_t reserved() const { return reserved_.load(std::memory_order_relaxed); }
  // What the limit leaves; none where there is no limit.
  std::optional<std::uint64_t> left() const {
    const std::optional<std::uint64_t> limit = this->limit();
    if (!limit) return std::nullopt;
    const std::uint64_t now = reserved();
    return now < *limit ? *limit - now : 0;
  }

  std::atomic<std::uint64_t> driver_allocs{0}, driver_frees{0};

 private:
  static constexpr std::uint64_t kNone = std::numeric_limits<std::uint64_t>::max();
  std::atomic<std::uint64_t> limit_{kNone};
  std::atomic<std::uint64_t> reserved_{0};
};

}  // namespace forebay
