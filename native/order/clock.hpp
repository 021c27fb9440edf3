// clock: what an actor knows. An actor is a host thread or a stream; its ticks number its accesses.
// Who learns what from whom is order.hpp's.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace forebay::order {

using Actor = std::uint32_t;
using Tick = std::uint32_t;

// One access as a point of the order: the tick-th of its actor. Ticks begin at 1.
struct Epoch {
  Actor actor = 0;
  Tick tick = 0;
};

// A vector clock: the last tick of each actor that is sure to have happened before. Actors beyond its end are unknown.
class Clock {
 public:
  void assign(std::span<const Tick> ticks) { ticks_.assign(ticks.begin(), ticks.end()); }
  bool knows(Epoch e) const { return at(e.actor) >= e.tick; }
  Tick at(Actor a) const { return a < ticks_.size() ? ticks_[a] : 0; }
  std::size_t actors() const { return ticks_.size(); }

  void set(Epoch e) {
    if (e.actor >= ticks_.size()) ticks_.resize(e.actor + 1);
    ticks_[e.actor] = e.tick;
  }
  // Learns all that `other` knows (pointwise maximum).
  void join(const Clock& other) {
    if (other.ticks_.size() > ticks_.size()) ticks_.resize(other.ticks_.size());
    for (std::size_t a = 0; a < other.ticks_.size(); ++a) ticks_[a] = std::max(ticks_[a], other.ticks_[a]);
  }
  // Forgets what `other` does not know as well (pointwise minimum).
  void meet(const Clock& other) {
    ticks_.resize(std::min(ticks_.size(), other.ticks_.size()));
    for (std::size_t a = 0; a < ticks_.size(); ++a) ticks_[a] = std::min(ticks_[a], other.ticks_[a]);
  }
  bool operator==(const Clock&) const = default;

 private:
  std::vector<Tick> ticks_;
};

}  // namespace forebay::order
