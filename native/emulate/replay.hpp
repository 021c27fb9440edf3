// replay: a recorded history through the emulated allocator: steps in, what would have happened out. How the history
// was read from a tape is whatif/'s; the allocator itself is caching.hpp's.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "emulate/caching.hpp"

namespace forebay::emulate {

// What the program did. `alloc` and the frees name an allocation by a number below `handles`, used once.
enum class Step : std::uint8_t {
  alloc,     // a request that was served
  free,      // let go and reusable at once
  request,   // let go
  complete,  // reusable from here on
  flush,     // torch.cuda.empty_cache
  refused,   // a request that the recorded run refused; where it is served here, it is freed at once
  burst,     // the recording gives memory back here: a flush, unless the request that follows does it by itself
};
struct History {
  std::span<const std::uint8_t> step;
  std::span<const std::uint32_t> handle, place;  // place: of alloc and refused
  std::span<const std::uint64_t> bytes;          // requested; of alloc and refused
  std::uint32_t handles = 0;
  std::vector<Place> places;
  std::vector<PoolTraits> pools;
};

// 1 TiB in one request, and 16 PiB live at a time: sums and addresses of a history cannot wrap.
inline constexpr std::uint64_t kLargestRequest = 1ull << 40, kMostLive = 1ull << 54;

// The first step that makes no sense (a handle used twice or out of turn, a place that is not there, a size of 0 or
// beyond the limits above); none where the history can be replayed. Replaying presumes none.
std::optional<std::size_t> misstep(const History& history);

struct Sample {
  std::uint64_t step, reserved, allocated, largest_free;
};

// What came of it. `served_at` and the segment events only where a trace was asked for.
struct Outcome {
  Stats stats;
  Idle idle;                         // at the first refusal, or at the end
  std::optional<std::uint64_t> oom;  // the step of the first refusal
  std::uint64_t steps = 0;           // how many were taken: a refusal that the recorded run did not have ends it
  std::vector<Sample> samples;
  std::vector<std::uint64_t> served_at;  // the address given to each handle; 0 where none was
  std::vector<SegmentEvent> events;
  std::vector<std::uint64_t> event_steps;  // the step in which each segment event fell
};

Outcome replay(const History& history, const Settings& settings, const Limits& limits, Addresses& addresses,
               std::size_t samples);
// Of each burst, in order, whether it was a flush: 1 or 0. To be asked under the recorded settings.
std::vector<std::uint8_t> flushes(const History& history, const Settings& settings, const Limits& limits,
                                  Addresses& addresses);
Outcome replay_traced(const History& history, const Settings& settings, const Limits& limits, Addresses& addresses);

}  // namespace forebay::emulate
