// watch: who hears of work when it is given to a driver and when it begins to run, and whose work it is. Only a driver
// that runs work itself can tell the second; what is wrong with a use is the watcher's to say.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tape/columns.hpp"

namespace forebay {

// While one lives, this thread's work is a pool's own, for nobody's sake but its checks: it has a number, and no row.
// Work that runs meanwhile on this thread is not part of it.
class Upkeep {
 public:
  explicit Upkeep(std::uint64_t number) : outer_(std::exchange(now_, number)) {}
  ~Upkeep() { now_ = outer_; }
  Upkeep(const Upkeep&) = delete;
  Upkeep& operator=(const Upkeep&) = delete;
  static std::uint64_t now() { return now_; }  // 0: none
  static std::uint64_t next() { return numbers_.fetch_add(1, std::memory_order_relaxed); }

 private:
  static inline thread_local std::uint64_t now_ = 0;
  static inline std::atomic<std::uint64_t> numbers_{1};
  const std::uint64_t outer_;
};

// One piece of work, as it was issued.
struct Issued {
  std::string name;
  std::vector<Use> uses;
  std::uint64_t stream = 0;  // its id
  std::uint64_t upkeep = 0;  // the number; 0: the program's
  std::string site;          // of the program, "file:line (function)"; empty where nobody may look at its stack
};

// Both are called under no lock of the driver, on the thread that issues or runs the work.
class Watch {
 public:
  virtual ~Watch() = default;
  virtual void issued(const Issued& work) = 0;
  virtual void begins(const Issued& work) = 0;
};

}  // namespace forebay
