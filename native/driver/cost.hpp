// cost: what each driver call and each piece of work costs on the simulated device, one table a preset. Virtual
// nanoseconds only: nothing here measures, and what the figures are charged to is sim.hpp's.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <vector>

#include "driver/status.hpp"

namespace forebay {

// Nanoseconds by bytes, or by nodes of a graph: straight lines between points in rising order of bytes, flat before the
// first and after the last.
class Curve {
 public:
  struct Point {
    std::uint64_t bytes;
    std::int64_t ns;
  };
  Curve(std::int64_t ns) : points_{{0, ns}} {}  // NOLINT: a constant is a curve
  Curve(std::initializer_list<Point> points) : points_(points) {}
  std::int64_t at(std::uint64_t bytes) const;

 private:
  std::vector<Point> points_;
};

// The way that bytes take: within one device (fills too), down to the host, up from it or to another device.
enum class Way : std::uint8_t { within, down, other };

struct Costs {
  // On the calling thread's clock. `free` and `host_free` come on top of the wait for the device.
  Curve malloc, free, host_alloc, host_free;
  Curve reserve_range, release_range, create, release, map, set_access, unmap;
  std::int64_t launch, record, wait, query, sync, stream_create, event_create;
  std::int64_t capture_begin, capture_node;  // a node: what its launch costs inside a capture
  Curve capture_end, graph_instantiate, executable_destroy, graph_launch;  // by nodes
  std::int64_t pool_hit;  // for whoever charges a pool's hit to the clock (SimDriver::spend)
  // On the device's.
  std::int64_t kernel;                              // a launch that states no cost
  std::int64_t copy_within, copy_down, copy_other;  // of each copy or fill, whatever its size, by its way
  std::int64_t device_bytes_per_us;                 // Way::within
  std::int64_t host_bytes_per_us;                   // the others
  std::int64_t copy(Way way, std::uint64_t bytes) const;
};

// "guide": the numbers of the guide this project follows. "h200": one H200 as measured in December 2026.
Result<Costs> costs_named(std::string_view preset);

}  // namespace forebay
