#include "pool/clock.hpp"

#include <algorithm>

#include "pool/domain.hpp"

namespace forebay {

std::uint64_t Clock::at_free() {
  const std::uint64_t epoch = open_.load(std::memory_order_acquire);
  if (lifetime_ == Lifetime::ours || ended()) return epoch;
  std::lock_guard lock(mutex_);
  poll();
  record();
  return epoch;
}

bool Clock::reached(std::uint64_t epoch) {
  if (passed(epoch)) return true;
  std::lock_guard lock(mutex_);
  if (covered() < epoch) record();
  poll();
  if (passed(epoch) || covered() >= epoch || ended() || !alive()) return passed(epoch);
  // No event could be recorded: an idle stream proves as much.
  const std::uint64_t now = advance();
  const Result<bool> idle = domain_.driver().stream_query(domain_.device(), handle_);
  domain_.note(idle.status());
  if (idle.ok() && *idle) complete(now);
  return passed(epoch);
}

bool Clock::sees(Point point) const {
  if (point.clock == this || point.clock->passed(point.epoch)) return true;
  std::lock_guard lock(mutex_);
  return std::any_of(seen_.begin(), seen_.end(),
                     [&](const Point& p) { return p.clock == point.clock && p.epoch >= point.epoch; });
}

Point Clock::mark() { return {this, advance()}; }

std::vector<Point> Clock::seen() const {
  std::lock_guard lock(mutex_);
  return seen_;
}

void Clock::learn(const std::vector<Point>& points) {
  std::lock_guard lock(mutex_);
  std::erase_if(seen_, [](const Point& p) { return p.clock->passed(p.epoch); });
  for (const Point& p : points) {
    if (p.clock == this || p.clock->passed(p.epoch)) continue;
    const auto known = std::find_if(seen_.begin(), seen_.end(), [&](const Point& s) { return s.clock == p.clock; });
    if (known == seen_.end())
      seen_.push_back(p);
    else
      known->epoch = std::max(known->epoch, p.epoch);
  }
}

void Clock::complete(std::uint64_t epoch) {
  std::uint64_t before = done_.load(std::memory_order_relaxed);
  while (before < epoch && !done_.compare_exchange_weak(before, epoch, std::memory_order_acq_rel)) {
  }
}

void Clock::end() {
  std::lock_guard lock(mutex_);
  if (ended()) return;
  // Frees that come later carry the number that the last record covers; where it failed, one that nothing covers.
  if (record()) open_.store(closed_.back().epoch, std::memory_order_release);
  ended_.store(true, std::memory_order_release);
}

std::optional<EventHandle> Clock::event_of(std::uint64_t epoch) {
  std::lock_guard lock(mutex_);
  if (covered() < epoch) record();
  const auto at = std::find_if(closed_.begin(), closed_.end(), [&](const Closed& c) { return c.epoch >= epoch; });
  if (at == closed_.end()) return std::nullopt;
  return at->event;
}

bool Clock::lost(std::uint64_t epoch) const {
  std::lock_guard lock(mutex_);
  return ended() && covered() < epoch;
}

void Clock::drop_events() {
  std::lock_guard lock(mutex_);
  for (const Closed& c : closed_) domain_.recycle(c.event);
  closed_.clear();
}

std::uint64_t Clock::advance() {
  return ended() ? open_.load(std::memory_order_acquire) : open_.fetch_add(1, std::memory_order_acq_rel);
}

bool Clock::alive() {
  if (ended()) return false;
  if (lifetime_ == Lifetime::ours) return true;
  const Result<std::uint64_t> id = domain_.driver().stream_id(domain_.device(), handle_);
  return id.ok() && *id == id_;
}

// A record that fails changes nothing but the number: the next one covers both epochs.
bool Clock::record() {
  if (domain_.dead() || !alive()) return false;
  const Result<EventHandle> event = domain_.event();
  if (!event.ok()) return false;
  const std::uint64_t epoch = advance();
  const Status status = domain_.driver().event_record(domain_.device(), *event, handle_);
  domain_.note(status);
  if (status == Status::ok)
    closed_.push_back({epoch, *event});
  else
    domain_.recycle(*event);
  return status == Status::ok;
}

void Clock::poll() {
  while (!closed_.empty() && !domain_.dead()) {
    const Closed front = closed_.front();
    const Result<bool> complete_now = domain_.driver().event_query(domain_.device(), front.event);
    domain_.note(complete_now.status());
    if (complete_now.ok() && !*complete_now) return;
    if (!complete_now.ok() && domain_.dead()) return;
    if (complete_now.ok()) complete(front.epoch);
    closed_.pop_front();  // an event that cannot be queried proves nothing: a later one must
    if (complete_now.ok())
      domain_.recycle(front.event);
    else
      domain_.discard(front.event);
  }
}

}  // namespace forebay
