// domain: what all pools of one device share: its driver, its streams' clocks, whether it still answers, and each
// other. It is told of streams and of edges between them; it finds out nothing by itself. Memory is pool.hpp's.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "driver/forks.hpp"
#include "driver/port.hpp"
#include "pool/clock.hpp"
#include "pool/frames.hpp"

namespace forebay {

class Pool;

// A place in the device's order: everything that one stream had been given, and all that it was known to come after.
using Mark = std::vector<Point>;

class Domain {
 public:
  // Lets time pass while a pool waits. A simulated device's time is not the host's.
  using Nap = std::function<void(std::chrono::nanoseconds)>;

  Domain(Driver& driver, int device, Nap nap = &sleep);
  ~Domain();
  Domain(const Domain&) = delete;
  Domain& operator=(const Domain&) = delete;

  Driver& driver() { return driver_; }
  int device() const { return device_; }
  Frames& frames() { return frames_; }
  const Frames& frames() const { return frames_; }
  void nap(std::chrono::nanoseconds time) const { nap_(time); }

  // Makes a stream known and returns its id, which all else goes by. Known streams stay as they were.
  Result<std::uint64_t> adopt(StreamHandle handle, Lifetime lifetime, std::string name = {});
  void tape_id(std::uint64_t stream, std::uint32_t id);  // what rows call it; the stream's own id until told
  Clock* clock(std::uint64_t stream) const;              // null where the stream was never adopted
  void ending(std::uint64_t stream);                     // to be called before the stream is destroyed

  // A stream begins to take part in a capture, just before the driver hears of it, or no longer does. Meanwhile nothing
  // is recorded on it or asked of it: its frees settle afterwards.
  void capturing(std::uint64_t stream, Capturing state);

  // While hushed nothing is recorded on any stream and nothing asked: a capture may begin on whichever. It counts, and
  // begins when whoever was recording or asking is done: not to be called by one of them.
  void hush();
  void unhush();
  bool hushed() const { return hushed_.load() != 0; }
  // While one lives that is allowed to, its thread records on a stream or asks how far one got.
  class Asking {
   public:
    explicit Asking(Domain& domain) : domain_(domain) {
      domain_.asking_.fetch_add(1);
      allowed_ = !domain_.hushed();
    }
    ~Asking() { domain_.asking_.fetch_sub(1); }
    Asking(const Asking&) = delete;
    Asking& operator=(const Asking&) = delete;
    bool allowed() const { return allowed_; }

   private:
    Domain& domain_;
    bool allowed_;
  };

  // Edges. `mark` just before a record or a sync, `ordered` after a stream was told to wait for that record, `reached`
  // when the host knows it complete. A stream that was never adopted has nothing to tell.
  Mark mark(std::uint64_t stream);
  void ordered(std::uint64_t stream, const Mark& mark);
  void reached(const Mark& mark);
  Mark mark_all();  // of every stream: just before the device is synchronised

  // After a sticky error, after deinitialisation and in a forked child no driver call is made any more.
  bool dead() const { return fatal_.load(std::memory_order_relaxed) != Status::ok || forked(); }
  // In a forked child a lock may be held by a thread that is not there: nothing here is touched any more.
  bool forked() const { return forks_ != forks_seen.load(std::memory_order_relaxed); }
  Status fatal() const;      // why
  void note(Status status);  // remembers a status that ends everything

  Result<EventHandle> event();
  void recycle(EventHandle event);
  void discard(EventHandle event);  // one that answered with an error

  void join(Pool* pool);
  void leave(Pool* pool);
  // Calls `visit` on every pool but `except`, under a lock: it may take lanes' locks and may not wait.
  template <class F>
  void siblings(const Pool* except, F visit) {
    std::lock_guard lock(pools_mutex_);
    for (Pool* pool : pools_)
      if (pool != except) visit(*pool);
  }

  static inline std::atomic<std::uint32_t> captures_open{0};  // streams that take part in one, of all devices

 private:
  static void sleep(std::chrono::nanoseconds time);

  Driver& driver_;
  const int device_;
  const Nap nap_;
  const std::uint32_t forks_;
  std::atomic<Status> fatal_{Status::ok};
  std::atomic<std::uint32_t> hushed_{0}, asking_{0};
  mutable std::mutex clocks_mutex_, events_mutex_, pools_mutex_;
  std::unordered_map<std::uint64_t, std::unique_ptr<Clock>> clocks_;
  std::vector<EventHandle> events_;
  std::vector<Pool*> pools_;
  Frames frames_{*this};
};

}  // namespace forebay
