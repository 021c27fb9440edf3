// captures: their ends.
#include "order/captures.hpp"

#include <algorithm>
#include <tuple>

namespace forebay::order {
namespace {

auto rank(const Use& u) { return std::tuple(u.space, u.address, u.size, u.mode, u.extent); }

void make_unique(std::vector<Use>& uses) {
  std::sort(uses.begin(), uses.end(), [](const Use& a, const Use& b) { return rank(a) < rank(b); });
  uses.erase(std::unique(uses.begin(), uses.end(), [](const Use& a, const Use& b) { return rank(a) == rank(b); }),
             uses.end());
}

}  // namespace

Capture& Captures::open(CaptureId capture) { return open_.try_emplace(capture, streams_).first->second; }

void Captures::end(CaptureId capture, GraphId graph) {
  const auto found = open_.find(capture);
  if (found == open_.end()) return;
  make_unique(found->second.uses->uses);
  graphs_[graph] = ended_[capture] = found->second.uses;
  const std::vector<Race> races = found->second.court.races();
  races_.insert(races_.end(), races.begin(), races.end());
  open_.erase(found);
}

void Captures::instantiate(GraphId executable, CaptureId capture) {
  if (const auto found = ended_.find(capture); found != ended_.end()) graphs_[executable] = found->second;
}

const GraphUses* Captures::uses(GraphId graph) const {
  const auto found = graphs_.find(graph);
  return found == graphs_.end() ? nullptr : found->second.get();
}

std::vector<Race> Captures::races() const {
  std::vector<Race> all = races_;
  for (const auto& [id, capture] : open_) {
    const std::vector<Race> races = capture.court.races();
    all.insert(all.end(), races.begin(), races.end());
  }
  return all;
}

}  // namespace forebay::order
