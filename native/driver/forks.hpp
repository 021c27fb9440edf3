// forks: how many forks lie between the first process and this one. A child has its parent's locks and handles and none
// of its threads or devices: whoever counted before the fork touches nothing after it.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>

namespace forebay {

inline std::atomic<std::uint32_t> forks_seen{0};

// The count from now on; the first call begins to count.
inline std::uint32_t watched_forks() {
  static const int once = pthread_atfork(nullptr, nullptr, [] { forks_seen.fetch_add(1); });
  (void)once;
  return forks_seen.load();
}

}  // namespace forebay
