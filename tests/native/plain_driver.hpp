// plain_driver: the least driver that a pool needs, with the test's hand on how far each stream has got. Work is a
// count of what was issued; an event is the count at its record; addresses are made up.
#pragma once

#include <array>
#include <atomic>
#include <map>
#include <mutex>
#include <set>
#include <vector>

#include "driver/port.hpp"

namespace forebay::test {

class PlainDriver : public Driver {
 public:
  static constexpr std::size_t kStreams = 64;
  explicit PlainDriver(std::uint64_t capacity, std::uint64_t granularity = 0)
      : capacity_(capacity), granularity_(granularity) {}

  void issue(std::uint64_t stream) { issued_[stream].fetch_add(1); }
  std::uint64_t issued(std::uint64_t stream) const { return issued_[stream].load(); }
  std::uint64_t done(std::uint64_t stream) const { return done_[stream].load(); }
  // What `from` was given comes before what `to` is given from now on.
  void order(std::uint64_t to, std::uint64_t from) {
    std::lock_guard lock(waits_mutex_);
    waits_.push_back({to, issued_[to].fetch_add(1) + 1, from, issued(from)});
  }
  // The stream gets as far as `until`, and so does all that this comes after.
  void finish(std::uint64_t stream, std::uint64_t until) {
    std::lock_guard lock(waits_mutex_);
    finish_locked(stream, until);
    std::erase_if(waits_, [&](const Wait& w) { return done(w.to) >= w.at; });
  }
  // As many of the stream's items as `draw` says; it gives a number below its argument.
  template <class Draw>
  void finish_some(std::uint64_t stream, Draw draw) {
    const std::uint64_t before = done(stream);  // read first: others may finish more, and never more than is issued
    finish(stream, before + draw(issued(stream) - before + 1));
  }
  std::uint64_t used() const { return used_.load(); }
  std::uint64_t calls() const { return calls_.load(); }

  int device_count() const override { return 1; }
  Result<DeviceFacts> facts(int) override { return DeviceFacts{capacity_, granularity_, "plain"}; }
  Result<MemoryInfo> memory_info(int) override { return MemoryInfo{capacity_ - used_.load(), capacity_}; }
  Result<Address> malloc(int, std::uint64_t bytes) override {
    ++calls_;
    std::lock_guard lock(mutex_);
    if (used_ + bytes > capacity_) return Status::out_of_memory;
    used_ += bytes;
    return place(bytes);
  }
  Status free(int, Address address) override {
    ++calls_;
    for (std::size_t s = 0; s < kStreams; ++s) finish(s, issued(s));
    std::lock_guard lock(mutex_);
    const auto found = segments_.find(address);
    if (found == segments_.end()) return Status::invalid_value;
    used_ -= found->second;
    segments_.erase(found);
    return Status::ok;
  }
  Result<std::uint64_t> stream_id(int, StreamHandle stream) override { return stream.value; }
  Result<bool> stream_query(int, StreamHandle s) override {
    if (on_ask) on_ask();
    return done(s.value) >= issued(s.value);
  }
  Result<EventHandle> event_create(int) override {
    ++calls_;
    std::lock_guard lock(mutex_);
    events_[++last_event_] = {};
    return EventHandle{last_event_};
  }
  Status event_destroy(int, EventHandle event) override {
    std::lock_guard lock(mutex_);
    return events_.erase(event.value) == 1 ? Status::ok : Status::invalid_handle;
  }
  Status event_record(int, EventHandle event, StreamHandle stream) override {
    ++calls_;
    if (on_ask) on_ask();
    std::lock_guard lock(mutex_);
    events_.at(event.value) = {stream.value, issued(stream.value)};
    return Status::ok;
  }
  Result<bool> event_query(int, EventHandle event) override {
    ++calls_;
    if (on_ask) on_ask();
    std::lock_guard lock(mutex_);
    const auto& [stream, at] = events_.at(event.value);
    return done(stream) >= at;
  }

  std::int64_t now_ns() override { return 0; }
  Result<void*> host_pointer(Address, std::uint64_t) override { return Status::not_supported; }
  Status upload(int, Address, const void*, std::uint64_t, StreamHandle) override { return Status::not_supported; }
  Status download(int, void*, Address, std::uint64_t, StreamHandle) override { return Status::not_supported; }
  Result<Address> host_alloc(std::uint64_t) override { return Status::not_supported; }
  Status host_free(Address) override { return Status::not_supported; }
  Result<Address> reserve_range(int, std::uint64_t bytes) override {
    std::lock_guard lock(mutex_);
    return place(bytes);
  }
  Status release_range(int, Address address, std::uint64_t bytes) override {
    std::lock_guard lock(mutex_);
    const auto mapped = mappings_.lower_bound(address);
    if (mapped != mappings_.end() && mapped->first < address + bytes) return Status::invalid_value;
    return segments_.erase(address) == 1 ? Status::ok : Status::invalid_value;
  }
  Result<FrameHandle> create(int, std::uint64_t bytes) override {
    std::lock_guard lock(mutex_);
    if (used_ + bytes > capacity_) return Status::out_of_memory;
    used_ += bytes;
    frames_.insert(++last_frame_);
    return FrameHandle{last_frame_};
  }
  // Frames are released only when they are mapped nowhere: this driver's users never do otherwise.
  Status release(int, FrameHandle frame) override {
    std::lock_guard lock(mutex_);
    for (const auto& [address, mapped] : mappings_)
      if (mapped == frame.value) return Status::invalid_value;
    if (frames_.erase(frame.value) == 0) return Status::invalid_value;
    used_ -= granularity_;
    return Status::ok;
  }
  Status map(int, Address address, std::uint64_t bytes, FrameHandle frame) override {
    std::lock_guard lock(mutex_);
    const bool known = bytes == granularity_ && frames_.contains(frame.value);
    return known && mappings_.emplace(address, frame.value).second ? Status::ok : Status::invalid_value;
  }
  Status set_access(int, Address address, std::uint64_t bytes) override {
    std::lock_guard lock(mutex_);
    return whole(address, bytes) ? Status::ok : Status::invalid_value;
  }
  Status unmap(int, Address address, std::uint64_t bytes) override {
    std::lock_guard lock(mutex_);
    if (!whole(address, bytes)) return Status::invalid_value;
    for (Address a = address; a < address + bytes; a += granularity_) mappings_.erase(a);
    if (on_unmap) on_unmap(address, bytes);
    return Status::ok;
  }
  std::function<void(Address, std::uint64_t)> on_unmap;  // set before threads start
  std::function<void()> on_ask;                          // likewise; of records, queries and syncs
  Result<StreamHandle> stream_create(int, StreamKind, int) override { return Status::not_supported; }
  Status stream_destroy(int, StreamHandle) override { return Status::not_supported; }
  Result<bool> stream_capturing(int, StreamHandle) override { return false; }
  Status stream_sync(int, StreamHandle) override { return Status::not_supported; }
  Status stream_wait(int, StreamHandle, EventHandle) override { return Status::not_supported; }
  Status device_sync(int) override {
    if (on_ask) on_ask();
    for (std::size_t s = 0; s < kStreams; ++s) finish(s, issued(s));
    return Status::ok;
  }
  Status event_sync(int, EventHandle) override { return Status::not_supported; }
  Status copy(int, Address, Address, std::uint64_t, StreamHandle stream) override {
    issue(stream.value);
    return Status::ok;
  }
  Status memset(int, Address, std::uint8_t, std::uint64_t, StreamHandle) override { return Status::not_supported; }
  Status host_func(int, StreamHandle, std::function<void()>) override { return Status::not_supported; }

  static constexpr Address kBase = 1ull << 40;

 protected:
  // The stream is about to have done its items up to this one: for drivers whose work is more than a count. One thread
  // at a time is in it.
  virtual void run(std::uint64_t, std::uint64_t) {}
  std::uint64_t next_item(std::uint64_t stream) { return issued_[stream].fetch_add(1) + 1; }

 private:
  // First fit, so that the address space stays small enough for a shadow of it.
  Address place(std::uint64_t bytes) {
    Address at = kBase;
    for (const auto& [begin, size] : segments_) {
      if (begin - at >= bytes) break;
      at = begin + size;
      if (granularity_ > 0) at = (at + granularity_ - 1) / granularity_ * granularity_;
    }
    segments_[at] = bytes;
    return at;
  }
  bool whole(Address address, std::uint64_t bytes) const {
    for (Address a = address; a < address + bytes; a += granularity_)
      if (!mappings_.contains(a)) return false;
    return true;
  }

  struct Wait {
    std::uint64_t to, at, from, until;
  };
  void finish_locked(std::uint64_t stream, std::uint64_t until) {
    if (done(stream) >= until) return;
    for (const Wait& w : waits_)
      if (w.to == stream && w.at <= until) finish_locked(w.from, w.until);
    run(stream, until);
    done_[stream] = until;
  }

  std::mutex waits_mutex_;
  std::vector<Wait> waits_;
  const std::uint64_t capacity_, granularity_;
  std::atomic<std::uint64_t> used_{0}, calls_{0};
  std::array<std::atomic<std::uint64_t>, kStreams> issued_{}, done_{};
  std::mutex mutex_;
  std::map<Address, std::uint64_t> segments_;
  std::map<std::uint64_t, std::pair<std::uint64_t, std::uint64_t>> events_;
  std::uint64_t last_event_ = 0, last_frame_ = 0;
  std::set<std::uint64_t> frames_;
  std::map<Address, std::uint64_t> mappings_;  // a frame each
};

}  // namespace forebay::test
