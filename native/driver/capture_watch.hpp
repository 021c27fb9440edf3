// capture_watch: which streams take part in which capture, told by the calls that went well. It asks no driver: where a
// stream captures, the wrong question would end it.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <tuple>
#include <unordered_map>

#include "driver/port.hpp"

namespace forebay {

class CaptureWatch {
 public:
  // The capture that the stream takes part in, by a number of this watch that never comes back.
  std::optional<std::uint64_t> of(int device, StreamHandle stream) const;

  std::uint64_t began(int device, StreamHandle stream);
  void recorded(EventHandle event, int device, StreamHandle stream);
  void waited(int device, StreamHandle stream, EventHandle event);
  // `status`: what the end came to. The capture that is over with it, if one is.
  std::optional<std::uint64_t> ended(int device, StreamHandle stream, Status status);
  void destroyed(int device, StreamHandle stream);
  void destroyed(EventHandle event);

 private:
  using Key = std::tuple<int, std::uint64_t, std::uint32_t>;  // device, handle, and the thread of a per-thread stream
  static Key key(int device, StreamHandle stream);
  bool none() const { return open_.load(std::memory_order_acquire) == 0; }
  void over(std::uint64_t capture);

  std::atomic<std::size_t> open_{0};  // captures: while there are none, no call takes the lock
  mutable std::mutex lock_;
  std::uint64_t made_ = 0;
  std::map<Key, std::uint64_t> streams_, origins_;
  std::unordered_map<std::uint64_t, std::uint64_t> events_;
};

}  // namespace forebay
