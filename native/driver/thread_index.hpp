// thread_index: a small number for each host thread that calls a driver, dealt in order of first use and never again.
#pragma once

#include <atomic>
#include <cstdint>

namespace forebay {

inline std::uint32_t thread_index() {
  static std::atomic<std::uint32_t> dealt{0};
  thread_local const std::uint32_t mine = dealt.fetch_add(1, std::memory_order_relaxed);
  return mine;
}

}  // namespace forebay
