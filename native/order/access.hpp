// access: one touch of some bytes, and which touches conflict (0165, statements 6 and 7). Where they are kept is
// memory.hpp's.
#pragma once

#include <cstdint>

#include "order/clock.hpp"
#include "tape/events.hpp"

namespace forebay::order {

using RowId = std::uint64_t;  // index of a row in the whole tape

enum class Role : std::uint8_t { use, alloc, free, unmap };

struct Access {
  RowId row = 0;
  Epoch epoch;
  Mode mode = Mode::write;
  Role role = Role::use;
  bool hull = false;      // the bytes are a guess that is too wide
  bool loose = false;     // its call overlapped another thread's: their order is unknown
  bool released = false;  // was ordered before the release of its block
  bool retired = false;   // a trusted pool gave the bytes out anew: only the host's unmapping still concerns it
};

// What a moment of the order knows: the clocks of the item that stands there, under both readings.
struct Moment {
  Epoch epoch;
  const Clock* sure = nullptr;
  const Clock* plausible = nullptr;
  std::uint32_t node = 0;  // its step, where steps are remembered (dag.hpp)

  bool knows(Epoch e) const { return sure->knows(e); }
};

enum class Clash : std::uint8_t { none, possible, certain };

// Whether two uses of a byte clash if nothing orders them. An unknown use may be a read or a write.
constexpr Clash clash(Mode a, Mode b) {
  if (a == Mode::unknown || b == Mode::unknown)
    return a == Mode::write || b == Mode::write || a == Mode::atomic || b == Mode::atomic ? Clash::possible
                                                                                          : Clash::none;
  if (a == Mode::read && b == Mode::read) return Clash::none;
  return a == Mode::atomic && b == Mode::atomic ? Clash::none : Clash::certain;
}

// Whether `later`, ordered after `earlier`, stands for it towards everything that comes: whatever clashes with
// `earlier` clashes with `later` as surely. A hull may have missed the byte.
constexpr bool stands_for(const Access& later, const Access& earlier) {
  if (later.role != Role::use || (later.hull && !earlier.hull)) return false;
  return later.mode == Mode::write || (earlier.role == Role::use && later.mode == earlier.mode);
}

}  // namespace forebay::order
