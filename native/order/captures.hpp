// captures: rows that are nodes of a graph, not work (0165, statement 9). The DAG of each capture is checked once;
// what its launches touch is the union of what its nodes touch.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

#include "order/court.hpp"
#include "order/order.hpp"
#include "order/spaces.hpp"

namespace forebay::order {

using CaptureId = std::uint32_t;
using GraphId = std::uint32_t;  // a graph, or an executable made from it

// Bytes [lo, hi) of a block that was there when they were baked into a graph.
struct Baked {
  std::shared_ptr<const Block> block;
  std::uint64_t lo = 0, hi = 0;
};

// What the launch of a graph touches, and the blocks outside its own pool that it relies on. `incomplete`: and maybe
// more.
struct GraphUses {
  std::vector<Use> uses;
  std::map<const Block*, Baked> baked;
  bool incomplete = false;

  void bake(const std::shared_ptr<Block>& block, std::uint64_t lo, std::uint64_t hi) {
    Baked& b = baked.try_emplace(block.get(), Baked{block, lo, hi}).first->second;
    b.lo = std::min(b.lo, lo), b.hi = std::max(b.hi, hi);
  }
};

// One capture while it is open.
class Capture {
 public:
  explicit Capture(const std::vector<StreamFacts>& streams)
      : order(streams, Trust::captured), memory(court, Keep::statement7), uses(std::make_shared<GraphUses>()) {}

  Readings order;
  Court court;
  Spaces memory;
  std::shared_ptr<GraphUses> uses;
};

class Captures {
 public:
  explicit Captures(std::vector<StreamFacts> streams) : streams_(std::move(streams)) {}

  Capture& open(CaptureId capture);
  void end(CaptureId capture, GraphId graph);
  void instantiate(GraphId executable, CaptureId capture);
  void destroy(GraphId graph) { graphs_.erase(graph); }
  // Null where the capture was not on the tape.
  const GraphUses* uses(GraphId graph) const;
  std::vector<Race> races() const;

 private:
  std::vector<StreamFacts> streams_;
  std::map<CaptureId, Capture> open_;
  std::unordered_map<CaptureId, std::shared_ptr<GraphUses>> ended_;
  std::unordered_map<GraphId, std::shared_ptr<GraphUses>> graphs_;
  std::vector<Race> races_;
};

}  // namespace forebay::order
