// gauges: the figures of a pool, one list for C++ and Python. What each means and how it is derived is gauges.py's; a
// test holds the two lists equal. Bytes, then counts.
#pragma once

#include <cstdint>

namespace forebay {

// clang-format off
#define FOREBAY_POOL_GAUGES(X) \
  X(reserved) X(allocated) X(requested) X(active) X(pending) X(cached) X(releasable) X(stranded) \
  X(largest_free) X(largest_free_after_waits) X(largest_free_if_idle) X(largest_servable) \
  X(hits) X(misses) X(driver_allocs) X(driver_frees) X(retries) X(ooms) X(event_waits)
// clang-format on

struct Gauges {
#define X(name) std::uint64_t name = 0;
  FOREBAY_POOL_GAUGES(X)
#undef X
  std::uint64_t free() const { return cached + pending; }
  double utilisation() const {
    return reserved == 0 ? 1.0 : static_cast<double>(allocated) / static_cast<double>(reserved);
  }
  double fragmentation() const {
    return free() == 0 ? 0.0 : 1.0 - static_cast<double>(largest_free_if_idle) / static_cast<double>(free());
  }
};

}  // namespace forebay
