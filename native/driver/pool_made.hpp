// pool_made: while one lives, this thread's driver calls are a pool's own, and taped.hpp says so on their rows.
// Work that a simulated query runs on the way counts too: whatever it calls, the pool asked for it.
#pragma once

namespace forebay {

class PoolMade {
 public:
  PoolMade() { ++depth(); }
  ~PoolMade() { --depth(); }
  PoolMade(const PoolMade&) = delete;
  PoolMade& operator=(const PoolMade&) = delete;
  static bool now() { return depth() != 0; }

 private:
  static int& depth() {
    thread_local int depth = 0;
    return depth;
  }
};

}  // namespace forebay
