#include "pool/domain.hpp"

#include <algorithm>
#include <thread>

namespace forebay {

Domain::Domain(Driver& driver, int device, Nap nap)
    : driver_(driver), device_(device), nap_(std::move(nap)), forks_(watched_forks()) {}

void Domain::sleep(std::chrono::nanoseconds time) { std::this_thread::sleep_for(time); }

Domain::~Domain() {
  if (forked()) return;
  for (auto& [id, clock] : clocks_) clock->drop_events();
  for (const EventHandle event : events_) discard(event);
}

Result<std::uint64_t> Domain::adopt(StreamHandle handle, Lifetime lifetime, std::string name) {
  if (dead()) return fatal();
  const Result<std::uint64_t> id = driver_.stream_id(device_, handle);
  note(id.status());
  if (!id.ok()) return id;
  std::lock_guard lock(clocks_mutex_);
  auto& clock = clocks_[*id];
  if (clock == nullptr) {
    clock = std::make_unique<Clock>(*this, *id, handle, lifetime, std::move(name));
    clock->on_tape = static_cast<std::uint32_t>(*id);
  }
  return id;
}

void Domain::tape_id(std::uint64_t stream, std::uint32_t id) {
  if (Clock* c = clock(stream)) c->on_tape = id;
}

Clock* Domain::clock(std::uint64_t stream) const {
  if (forked()) return nullptr;
  std::lock_guard lock(clocks_mutex_);
  const auto found = clocks_.find(stream);
  return found == clocks_.end() ? nullptr : found->second.get();
}

void Domain::ending(std::uint64_t stream) {
  if (Clock* c = clock(stream)) c->end();
}

void Domain::capturing(std::uint64_t stream, Capturing state) {
  Clock* c = clock(stream);
  if (c == nullptr || !c->capturing(state)) return;
  if (state == Capturing::begins)
    captures_open.fetch_add(1, std::memory_order_acq_rel);
  else
    captures_open.fetch_sub(1, std::memory_order_acq_rel);
}

// The order of the two counters is seq_cst: whoever asks and does not see the hush is seen here.
void Domain::hush() {
  captures_open.fetch_add(1, std::memory_order_acq_rel);
  hushed_.fetch_add(1);
  while (asking_.load() != 0) std::this_thread::yield();
}

void Domain::unhush() {
  hushed_.fetch_sub(1);
  captures_open.fetch_sub(1, std::memory_order_acq_rel);
}

Mark Domain::mark(std::uint64_t stream) {
  Clock* c = clock(stream);
  if (c == nullptr) return {};
  Mark mark = c->seen();
  mark.push_back(c->mark());
  return mark;
}

Mark Domain::mark_all() {
  if (forked()) return {};
  Mark mark;
  std::lock_guard lock(clocks_mutex_);
  for (const auto& [id, c] : clocks_) mark.push_back(c->mark());
  return mark;
}

void Domain::ordered(std::uint64_t stream, const Mark& mark) {
  if (Clock* c = clock(stream)) c->learn(mark);
}

void Domain::reached(const Mark& mark) {
  for (const Point& p : mark) p.clock->complete(p.epoch);
}

Status Domain::fatal() const {
  const Status status = fatal_.load();
  return status == Status::ok && dead() ? Status::not_initialized : status;
}

void Domain::note(Status status) {
  if (sticky(status) || status == Status::deinitialized) fatal_.store(status);
}

Result<EventHandle> Domain::event() {
  {
    std::lock_guard lock(events_mutex_);
    if (!events_.empty()) {
      const EventHandle event = events_.back();
      events_.pop_back();
      return event;
    }
  }
  Result<EventHandle> made = driver_.event_create(device_);
  note(made.status());
  return made;
}

void Domain::recycle(EventHandle event) {
  std::lock_guard lock(events_mutex_);
  events_.push_back(event);
}

void Domain::discard(EventHandle event) {
  if (!dead()) note(driver_.event_destroy(device_, event));
}

void Domain::join(Pool* pool) {
  std::lock_guard lock(pools_mutex_);
  pools_.push_back(pool);
}

void Domain::leave(Pool* pool) {
  std::lock_guard lock(pools_mutex_);
  std::erase(pools_, pool);
}

}  // namespace forebay
