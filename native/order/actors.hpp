// actors: the streams and host threads of a tape, and the number that each has in clocks.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "order/clock.hpp"
#include "tape/events.hpp"

namespace forebay::order {

using StreamId = std::uint32_t;  // index into the tape's table of streams
using ThreadId = std::uint32_t;
using DeviceId = std::int16_t;

// What the table of streams says of one. No class: the source does not say how it stands to the legacy stream.
struct StreamFacts {
  std::optional<StreamClass> kind;
  DeviceId device = 0;
};

// Numbers are given out as streams and threads appear, so that clocks are as long as what has acted.
class Actors {
 public:
  explicit Actors(std::vector<StreamFacts> streams) : facts_(std::move(streams)) {}

  std::size_t streams() const { return facts_.size(); }
  StreamFacts facts(StreamId s) const { return s < facts_.size() ? facts_[s] : StreamFacts{}; }
  Actor stream(StreamId s) { return number(streams_, s); }
  Actor thread(ThreadId t) { return number(threads_, t); }
  Epoch next(Actor a) { return {a, ++ticks_[a]}; }
  std::size_t threads() const { return threads_seen_; }

 private:
  static constexpr Actor kNone = ~Actor{0};
  Actor number(std::vector<Actor>& table, std::uint32_t id) {
    if (id >= table.size()) table.resize(id + 1, kNone);
    if (table[id] == kNone) {
      table[id] = static_cast<Actor>(ticks_.size());
      ticks_.push_back(0);
      if (&table == &threads_) ++threads_seen_;
    }
    return table[id];
  }

  std::vector<StreamFacts> facts_;
  std::vector<Actor> streams_, threads_;
  std::vector<Tick> ticks_;
  std::size_t threads_seen_ = 0;
};

}  // namespace forebay::order
