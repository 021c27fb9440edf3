// short_lock: a lock for stretches of a few dozen instructions that call nothing. Half the price of std::mutex: letting
// go is a plain store, because nobody sleeps in the kernel until woken; who finds it taken tries a few times and then
// naps.
#pragma once

#include <atomic>
#include <chrono>
#include <thread>

namespace forebay {

class ShortLock {
 public:
  bool try_lock() {
    return !taken_.load(std::memory_order_relaxed) && !taken_.exchange(true, std::memory_order_acquire);
  }
  void lock() {
    if (!try_lock()) [[unlikely]]
      wait();
  }
  void unlock() { taken_.store(false, std::memory_order_release); }

 private:
  // The holder may have lost its processor: spinning for longer than it takes to get through helps nobody.
  void wait() {
    for (int tries = 0; !try_lock(); ++tries)
      if (tries >= kTries) std::this_thread::sleep_for(kNap);
  }
  static constexpr int kTries = 64;
  static constexpr std::chrono::microseconds kNap{20};

  std::atomic<bool> taken_{false};
};

}  // namespace forebay
