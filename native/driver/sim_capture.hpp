// sim_capture: captures and graphs of the simulated driver: which streams take part in which capture, and the nodes
// that what they were given became. What a capture forbids is decided in sim_capture.cpp; who calls it is sim.hpp's.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "driver/port.hpp"

namespace forebay::sim {

struct Lane;

// Work that a capture noted. `after`: the nodes that it directly follows, all of them before it.
struct Node {
  int device = 0;
  std::uint64_t stream = 0;  // the id of the stream that it was captured in
  Work work;
  std::vector<std::uint32_t> after;
};

using Nodes = std::vector<Node>;
// What comes next in a stream that takes part follows these nodes.
using Heads = std::vector<std::uint32_t>;

struct Capture {
  std::uint64_t id = 0;
  CaptureMode mode = CaptureMode::global;
  std::uint32_t thread = 0;
  Lane* origin = nullptr;
  bool valid = true, over = false;
  Nodes nodes;
};

// A stream's part in a capture, or the place that an event was recorded at. None: `capture` is null.
struct Part {
  std::shared_ptr<Capture> capture;
  Heads heads;
};

// Adds heads that are not there yet.
void join(Heads& heads, const Heads& more);
// Whether every node comes before one of the heads, or is one.
bool reaches_all(const Nodes& nodes, const Heads& heads);

struct Item;

// An executable graph. `last`: the end of its latest launch.
struct Executable {
  std::shared_ptr<const Nodes> nodes;
  std::shared_ptr<Item> last;
};

}  // namespace forebay::sim
