#include "driver/sim_capture.hpp"

#include <algorithm>
#include <utility>

#include "driver/sim.hpp"
#include "driver/thread_index.hpp"

namespace forebay {

namespace sim {

void join(Heads& heads, const Heads& more) {
  for (const std::uint32_t head : more)
    if (std::find(heads.begin(), heads.end(), head) == heads.end()) heads.push_back(head);
}

bool reaches_all(const Nodes& nodes, const Heads& heads) {
  std::vector<bool> reached(nodes.size(), false);
  for (const std::uint32_t head : heads) reached[head] = true;
  for (std::size_t n = nodes.size(); n-- > 0;) {
    if (!reached[n]) return false;  // whatever follows it was looked at before
    for (const std::uint32_t before : nodes[n].after) reached[before] = true;
  }
  return true;
}

}  // namespace sim

// ---- what a capture forbids

Status SimDriver::refuse_unsafe() {
  if (captures_.empty()) return Status::ok;
  const std::uint32_t thread = thread_index();
  const CaptureMode own = me().mode;
  Status status = Status::ok;
  for (const CapturePtr& capture : captures_) {
    const bool forbids = capture->thread == thread ? capture->mode != CaptureMode::relaxed
                                                   : own == CaptureMode::global && capture->mode == CaptureMode::global;
    if (own == CaptureMode::relaxed || !forbids) continue;
    capture->valid = false;
    status = Status::capture_unsupported;
  }
  return status;
}

Status SimDriver::refuse_in(const sim::Lane& lane) {
  if (!lane.part.capture) return Status::ok;
  lane.part.capture->valid = false;
  return Status::capture_unsupported;
}

Status SimDriver::refuse_asking(const sim::Lane& lane) {
  if (const Status s = refuse_in(lane); s != Status::ok) return s;
  if (const Status s = refuse_legacy(lane); s != Status::ok) return s;
  return refuse_unsafe();
}

Status SimDriver::refuse_asking(const Event& event) {
  if (!event.part.capture) return refuse_unsafe();
  if (event.part.capture->over) return Status::invalid_value;
  event.part.capture->valid = false;
  return Status::captured_event;
}

Status SimDriver::refuse_device(int device) {
  Status status = Status::ok;
  for (const LanePtr& lane : devices_[static_cast<std::size_t>(device)]->lanes)
    if (const Status s = refuse_in(*lane); s != Status::ok) status = s;
  return status;
}

bool SimDriver::blocking_captures(int device) const {
  if (captures_.empty()) return false;
  const auto& lanes = devices_[static_cast<std::size_t>(device)]->lanes;
  return std::any_of(lanes.begin(), lanes.end(), [](const LanePtr& l) { return l->joins_legacy() && l->part.capture; });
}

Status SimDriver::refuse_legacy(const sim::Lane& lane) {
  if (lane.kind != sim::LaneKind::legacy || !blocking_captures(lane.device)) return Status::ok;
  for (const LanePtr& other : devices_[static_cast<std::size_t>(lane.device)]->lanes)
    if (other->joins_legacy() && other->part.capture) other->part.capture->valid = false;
  return Status::capture_implicit;
}

// ---- what it notes

bool SimDriver::captures(int device, StreamHandle stream) {
  const Lock lock(lock_);
  if (enter(device) != Status::ok) return false;
  const LanePtr lane = lane_of(device, stream);
  return lane && lane->part.capture;
}

std::optional<Status> SimDriver::note(const LanePtr& lane, Work& work) {
  if (const Status s = refuse_legacy(*lane); s != Status::ok) return s;
  const auto& [capture, heads] = lane->part;
  if (!capture) return std::nullopt;
  charge(costs_.capture_node);
  if (!capture->valid) return Status::capture_invalidated;
  me().last.reset();
  const auto index = static_cast<std::uint32_t>(capture->nodes.size());
  capture->nodes.push_back({lane->device, lane->id, std::move(work), heads});
  lane->part.heads.assign(1, index);
  return Status::ok;
}

std::optional<Status> SimDriver::note_wait(const LanePtr& lane, const Event& event) {
  if (const Status s = refuse_legacy(*lane); s != Status::ok) return s;
  const CapturePtr mine = lane->part.capture, theirs = event.part.capture;
  const auto broken = [&](Status why) {
    if (mine) mine->valid = false;
    if (theirs && !theirs->over) theirs->valid = false;
    return why;
  };
  if (theirs && theirs->over) return broken(Status::invalid_value);
  if (theirs && lane->kind == sim::LaneKind::legacy) return broken(Status::capture_implicit);
  if (mine && !mine->valid) return event.record || theirs ? std::optional(Status::capture_invalidated) : Status::ok;
  if (mine && theirs && mine != theirs) return broken(Status::capture_merge);
  if (mine && event.record) return broken(Status::capture_isolation);
  if (!theirs) return mine ? std::optional(Status::ok) : std::nullopt;
  if (!theirs->valid) return Status::capture_invalidated;
  lane->part.capture = theirs;
  sim::join(lane->part.heads, event.part.heads);
  return Status::ok;
}

sim::Nodes SimDriver::finish(const CapturePtr& capture) {
  const CapturePtr kept = capture;  // it may be a lane's
  kept->over = true;
  std::erase(captures_, kept);
  for (const auto& device : devices_)
    for (const LanePtr& lane : device->lanes)
      if (lane->part.capture == kept) lane->part = {};
  return std::move(kept->nodes);
}

// ---- the port
//
// What holds nodes goes after the lock: their work may own what needs other locks.

Status SimDriver::capture_begin(int device, StreamHandle stream, CaptureMode mode) {
  const Lock lock(lock_);
  if (const Status s = enter(device); s != Status::ok) return s;
  const LanePtr lane = lane_of(device, stream);
  if (!lane) return Status::invalid_handle;
  if (lane->kind == sim::LaneKind::legacy) return Status::capture_unsupported;
  if (lane->part.capture) return Status::illegal_state;
  charge(costs_.capture_begin);
  auto capture = std::make_shared<sim::Capture>();
  capture->id = ++captures_made_, capture->mode = mode;
  capture->thread = thread_index(), capture->origin = lane.get();
  lane->part = {capture, {}};
  captures_.push_back(std::move(capture));
  return Status::ok;
}

Result<GraphHandle> SimDriver::capture_end(int device, StreamHandle stream) {
  sim::Nodes nodes;
  const Lock lock(lock_);
  if (const Status s = enter(device); s != Status::ok) return s;
  const LanePtr lane = lane_of(device, stream);
  if (!lane) return Status::invalid_handle;
  const auto [capture, heads] = lane->part;
  if (!capture) return Status::illegal_state;
  if (capture->origin != lane.get()) {
    capture->valid = false;
    return Status::capture_unmatched;
  }
  charge(costs_.capture_end, capture->nodes.size());
  nodes = finish(capture);
  if (capture->mode != CaptureMode::relaxed && capture->thread != thread_index()) return Status::capture_wrong_thread;
  if (!capture->valid) return Status::capture_invalidated;
  if (!sim::reaches_all(nodes, heads)) return Status::capture_unjoined;
  graphs_[++graphs_made_] = std::make_shared<const sim::Nodes>(std::move(nodes));
  return GraphHandle{graphs_made_};
}

Result<CaptureInfo> SimDriver::capture_info(int device, StreamHandle stream) {
  const Lock lock(lock_);
  if (const Status s = enter(device); s != Status::ok) return s;
  const LanePtr lane = lane_of(device, stream);
  if (!lane) return Status::invalid_handle;
  if (lane->kind == sim::LaneKind::legacy && blocking_captures(device)) return Status::capture_implicit;
  const CapturePtr& capture = lane->part.capture;
  if (!capture) return CaptureInfo{};
  return CaptureInfo{capture->valid ? CaptureStatus::active : CaptureStatus::invalidated, capture->id};
}

Result<CaptureMode> SimDriver::exchange_capture_mode(CaptureMode mode) {
  const Lock lock(lock_);
  if (const Status s = enter_any(); s != Status::ok) return s;
  return std::exchange(me().mode, mode);
}

Result<std::uint64_t> SimDriver::graph_nodes(int device, GraphHandle graph) {
  const Lock lock(lock_);
  if (const Status s = enter(device); s != Status::ok) return s;
  const auto found = graphs_.find(graph.value);
  if (found == graphs_.end()) return Status::invalid_value;
  return found->second->size();
}

Result<ExecutableHandle> SimDriver::graph_instantiate(int device, GraphHandle graph) {
  const Lock lock(lock_);
  if (const Status s = enter(device); s != Status::ok) return s;
  const auto found = graphs_.find(graph.value);
  if (found == graphs_.end()) return Status::invalid_value;
  if (const Status s = refuse_unsafe(); s != Status::ok) return s;
  charge(costs_.graph_instantiate, found->second->size());
  executables_[++graphs_made_] = {found->second, nullptr};
  return ExecutableHandle{graphs_made_};
}

Status SimDriver::graph_launch(int device, ExecutableHandle executable, StreamHandle stream) {
  Lock lock(lock_);
  if (const Status s = enter(device); s != Status::ok) return s;
  const LanePtr lane = lane_of(device, stream);
  if (!lane || !executables_.contains(executable.value)) return Status::invalid_handle;
  if (const Status s = refuse_legacy(*lane); s != Status::ok) return s;
  if (const Status s = refuse_in(*lane); s != Status::ok) return s;
  charge(costs_.graph_launch, executables_[executable.value].nodes->size());
  stray(lock, sim::Point::issue);
  if (const Status s = enter(device); s != Status::ok) return s;
  const auto found = executables_.find(executable.value);
  if (found == executables_.end()) return Status::invalid_handle;  // work that ran just now destroyed it
  const auto nodes = found->second.nodes;
  ItemPtr& last = found->second.last;
  const ItemPtr begin = put(lane, {}, last);
  std::vector<ItemPtr> placed, ends{begin};
  std::vector<bool> followed(nodes->size(), false);
  for (const sim::Node& node : *nodes) {
    std::vector<ItemPtr> after{begin};
    for (const std::uint32_t before : node.after) after.push_back(placed[before]), followed[before] = true;
    placed.push_back(add(node.device, node.stream, node.work, after));
  }
  for (std::size_t n = 0; n < placed.size(); ++n)
    if (!followed[n]) ends.push_back(placed[n]);
  lane->tail = last = add(device, lane->id, {}, ends);
  me().last = {begin->begin_ns, last->end_ns};
  lock.unlock();
  for (const ItemPtr& item : placed) tell_issued(item->told);
  return Status::ok;
}

Status SimDriver::graph_destroy(int device, GraphHandle graph) {
  std::shared_ptr<const sim::Nodes> nodes;
  const Lock lock(lock_);
  if (const Status s = enter(device); s != Status::ok) return s;
  const auto found = graphs_.find(graph.value);
  if (found == graphs_.end()) return Status::invalid_value;
  nodes = std::move(found->second);
  graphs_.erase(found);
  return Status::ok;
}

Status SimDriver::executable_destroy(int device, ExecutableHandle executable) {
  std::shared_ptr<const sim::Nodes> nodes;
  const Lock lock(lock_);
  if (const Status s = enter(device); s != Status::ok) return s;
  const auto found = executables_.find(executable.value);
  if (found == executables_.end()) return Status::invalid_value;
  if (const Status s = refuse_unsafe(); s != Status::ok) return s;
  charge(costs_.executable_destroy, found->second.nodes->size());
  nodes = std::move(found->second.nodes);
  executables_.erase(found);
  return Status::ok;
}

}  // namespace forebay
