#include "driver/capture_watch.hpp"

#include "driver/thread_index.hpp"

namespace forebay {

CaptureWatch::Key CaptureWatch::key(int device, StreamHandle stream) {
  return {device, stream.value, stream == kPerThreadStream ? thread_index() : 0};
}

std::optional<std::uint64_t> CaptureWatch::of(int device, StreamHandle stream) const {
  if (none()) return std::nullopt;
  const std::lock_guard hold(lock_);
  const auto found = streams_.find(key(device, stream));
  return found == streams_.end() ? std::nullopt : std::optional(found->second);
}

std::uint64_t CaptureWatch::began(int device, StreamHandle stream) {
  const std::lock_guard hold(lock_);
  open_.fetch_add(1, std::memory_order_acq_rel);
  return streams_[key(device, stream)] = origins_[key(device, stream)] = ++made_;
}

void CaptureWatch::recorded(EventHandle event, int device, StreamHandle stream) {
  if (none()) return;
  const std::lock_guard hold(lock_);
  const auto found = streams_.find(key(device, stream));
  if (found == streams_.end())
    events_.erase(event.value);
  else
    events_[event.value] = found->second;
}

void CaptureWatch::waited(int device, StreamHandle stream, EventHandle event) {
  if (none()) return;
  const std::lock_guard hold(lock_);
  const auto found = events_.find(event.value);
  if (found != events_.end()) streams_[key(device, stream)] = found->second;
}

std::optional<std::uint64_t> CaptureWatch::ended(int device, StreamHandle stream, Status status) {
  if (none() || status == Status::illegal_state || status == Status::capture_unmatched) return std::nullopt;
  const std::lock_guard hold(lock_);
  const auto found = origins_.find(key(device, stream));
  if (found == origins_.end()) return std::nullopt;
  const std::uint64_t capture = found->second;
  over(capture);
  return capture;
}

void CaptureWatch::destroyed(int device, StreamHandle stream) {
  if (none()) return;
  const std::lock_guard hold(lock_);
  if (const auto origin = origins_.find(key(device, stream)); origin != origins_.end()) return over(origin->second);
  streams_.erase(key(device, stream));
}

void CaptureWatch::destroyed(EventHandle event) {
  if (none()) return;
  const std::lock_guard hold(lock_);
  events_.erase(event.value);
}

void CaptureWatch::over(std::uint64_t capture) {
  const auto of_it = [capture](const auto& entry) { return entry.second == capture; };
  std::erase_if(streams_, of_it);
  std::erase_if(origins_, of_it);
  std::erase_if(events_, of_it);
  open_.fetch_sub(1, std::memory_order_acq_rel);
}

}  // namespace forebay
