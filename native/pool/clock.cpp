#include "pool/clock.hpp"

#include <algorithm>
#include <iterator>

#include "pool/domain.hpp"
#include "pool/own_calls.hpp"

namespace forebay {

std::uint64_t Clock::at_free() {
  const std::uint64_t epoch = open_.load(std::memory_order_acquire);
  if (lifetime_ == Lifetime::ours || ended()) return epoch;
  if (lifetime_ == Lifetime::named) {
    unrecorded_.store(true, std::memory_order_release);  // after the epoch was read: a record closes no less
    return epoch;
  }
  poll();
  record();
  return epoch;
}

bool Clock::reached(std::uint64_t epoch) {
  if (passed(epoch)) return true;
  const OwnCalls own(domain_);
  if (!is_covered(epoch)) record();
  poll();
  if (passed(epoch) || is_covered(epoch) || !alive()) return passed(epoch);
  // No event could be recorded: an idle stream proves as much.
  const Domain::Asking asking(domain_);
  if (!asking.allowed()) return false;
  const std::uint64_t now = advance();
  const Result<bool> idle = domain_.driver().stream_query(domain_.device(), handle_);
  domain_.note(idle.status());
  if (idle.ok() && *idle) complete(now);
  return passed(epoch);
}

bool Clock::is_covered(std::uint64_t epoch) const {
  std::lock_guard lock(mutex_);
  return covered() >= epoch;
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
  if (ended()) return;
  // Frees that come later carry the number that the last record covers; where it failed, one that nothing covers.
  if (const auto epoch = record()) open_.store(*epoch, std::memory_order_release);
  ended_.store(true, std::memory_order_release);
}

void Clock::named() {
  if (unrecorded_.exchange(false, std::memory_order_acq_rel) && !record_on_stream()) unrecorded_.store(true);
}

bool Clock::lost(std::uint64_t epoch) const { return (ended() || lifetime_ == Lifetime::named) && !is_covered(epoch); }

void Clock::drop_events() {
  std::lock_guard lock(mutex_);
  for (const Closed& c : closed_) domain_.recycle(c.event);
  closed_.clear();
}

std::uint64_t Clock::advance() {
  return ended() ? open_.load(std::memory_order_acquire) : open_.fetch_add(1, std::memory_order_acq_rel);
}

bool Clock::alive() {
  if (ended() || captures_.load(std::memory_order_acquire) || domain_.hushed()) return false;
  if (lifetime_ != Lifetime::foreign) return lifetime_ == Lifetime::ours;
  const Result<std::uint64_t> id = domain_.driver().stream_id(domain_.device(), handle_);
  domain_.note(id.status());
  return id.ok() && *id == id_;
}

// A record that fails changes nothing but the number: the next one covers both epochs. Two threads may record at once:
// either event covers both numbers, so the list is by number.
std::optional<std::uint64_t> Clock::record() {
  const OwnCalls own(domain_);
  if (domain_.dead() || !alive()) return std::nullopt;
  return record_on_stream();
}

std::optional<std::uint64_t> Clock::record_on_stream() {
  const OwnCalls own(domain_);
  const Domain::Asking asking(domain_);
  if (!asking.allowed() || domain_.dead()) return std::nullopt;
  const Result<EventHandle> event = domain_.event();
  if (!event.ok()) return std::nullopt;
  const std::uint64_t epoch = advance();
  const Status status = domain_.driver().event_record(domain_.device(), *event, handle_);
  domain_.note(status);
  if (status != Status::ok) {
    domain_.recycle(*event);
    return std::nullopt;
  }
  std::lock_guard lock(mutex_);
  auto at = closed_.end();
  while (at != closed_.begin() && std::prev(at)->epoch > epoch) --at;
  closed_.insert(at, {epoch, *event});
  return epoch;
}

// One thread polls at a time. Whoever comes meanwhile, itself from inside work that a query runs included, goes on with
// what is known.
void Clock::poll() {
  if (polling_.exchange(true, std::memory_order_acquire)) return;
  const OwnCalls own(domain_);
  while (!domain_.dead() && poll_first()) {
  }
  polling_.store(false, std::memory_order_release);
}

// Whether the first event is over with.
bool Clock::poll_first() {
  Closed first;
  {
    std::lock_guard lock(mutex_);
    if (closed_.empty()) return false;
    first = closed_.front();
  }
  const Domain::Asking asking(domain_);
  if (!asking.allowed()) return false;
  const Result<bool> answer = domain_.driver().event_query(domain_.device(), first.event);
  domain_.note(answer.status());
  if (answer.ok() ? !*answer : domain_.dead()) return false;
  if (answer.ok()) complete(first.epoch);
  {
    std::lock_guard lock(mutex_);
    std::erase_if(closed_, [&](const Closed& c) { return c.event == first.event; });
  }
  // An event that cannot be queried proves nothing: a later one must.
  if (answer.ok())
    domain_.recycle(first.event);
  else
    domain_.discard(first.event);
  return true;
}

}  // namespace forebay
