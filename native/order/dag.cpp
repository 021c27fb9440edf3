// dag: how steps are linked. The same statements as reading.cpp's, written as edges.
#include "order/dag.hpp"

#include <algorithm>

namespace forebay::order {

Dag::Dag(std::vector<StreamFacts> streams, ThreadId threads, Trust trust)
    : facts_(std::move(streams)),
      trust_(trust),
      actors_(facts_.size() + threads),
      lanes_(facts_.size()),
      hosts_(threads, kNone),
      tick_rows_(actors_),
      tick_items_(actors_) {}

bool Dag::blocking(StreamId s) const {
  if (!facts_[s].kind) return trust_ == Trust::plausible;
  return *facts_[s].kind == StreamClass::blocking || *facts_[s].kind == StreamClass::per_thread;
}

Node Dag::legacy_last(DeviceId d) const {
  for (StreamId s = 0; s < facts_.size(); ++s)
    if (legacy(s) && facts_[s].device == d) return lanes_[s].last;
  return kNone;
}

Epoch Dag::tick(Actor a, RowId row, Step step) {
  tick_rows_[a].push_back(row);
  const std::uint32_t before = tick_items_[a].empty() ? 0 : tick_items_[a].back();
  tick_items_[a].push_back(before + (step == Step::item ? 1 : 0));
  return {a, static_cast<Tick>(tick_rows_[a].size())};
}

Node Dag::add(RowId row, Step step, Node self, const std::vector<Node>& others, Epoch e) {
  const auto n = static_cast<Node>(rows_.size());
  rows_.push_back(row);
  role_.push_back(step);
  epochs_.push_back(e);
  before_.push_back(self);
  for (Node other : others)
    if (other != kNone && other != self) before_.push_back(other);
  before_at_.push_back(before_.size());
  clocks_.resize(clocks_.size() + actors_);
  work_out(n, Joint::whole, clock(n));
  return n;
}

void Dag::work_out(Node n, Joint joint, std::span<Tick> into) const {
  std::fill(into.begin(), into.end(), 0);
  const std::uint64_t first = before_at_[n], last = joint == Joint::cut ? first + 1 : before_at_[n + 1];
  for (std::uint64_t i = first; i < last; ++i) {
    if (before_[i] == kNone) continue;
    const std::span<const Tick> known = clock(before_[i]);
    for (std::size_t a = 0; a < actors_; ++a) into[a] = std::max(into[a], known[a]);
  }
  if (epochs_[n].tick != 0) into[epochs_[n].actor] = epochs_[n].tick;
}

void Dag::finish() {
  after_at_.assign(nodes() + 1, 0);
  for (Node b : before_)
    if (b != kNone) ++after_at_[b + 1];
  for (std::size_t n = 0; n < nodes(); ++n) after_at_[n + 1] += after_at_[n];
  after_.resize(after_at_.back());
  std::vector<std::uint64_t> next(after_at_.begin(), after_at_.end() - 1);
  for (Node n = 0; n < nodes(); ++n)
    for (std::uint64_t i = before_at_[n]; i < before_at_[n + 1]; ++i)
      if (before_[i] != kNone) after_[next[before_[i]]++] = n;
}

// A joint that is cut passes on only its own lane: whoever comes after it must look for itself, so nothing is seen by
// it.
Node Dag::put(RowId row, StreamId s, ThreadId t, Step step, Node more, Epoch e) {
  Lane& lane = lanes_[s];
  std::vector<Node> from{more};
  const bool keeps = step != Step::joint;
  if (host_last(t) != lane.host_seen) from.push_back(host_last(t));
  if (keeps) lane.host_seen = host_last(t);
  if (legacy(s)) {
    for (StreamId other = 0; other < lanes_.size(); ++other) {
      if (!lanes_[other].moved || facts_[other].device != facts_[s].device) continue;
      from.push_back(lanes_[other].last);
      if (keeps) lanes_[other].moved = false;
    }
  } else if (blocking(s)) {
    const Node last = legacy_last(facts_[s].device);
    if (last != lane.legacy_seen) from.push_back(last);
    if (keeps) lane.legacy_seen = last;
    lane.moved = true;
  }
  return lane.last = add(row, step, lane.last, from, e);
}

Moment Dag::moment(Node n) {
  seen_.assign(clock(n));
  return {epochs_[n], &seen_, &seen_, n};
}

Moment Dag::work(RowId row, StreamId s, ThreadId t) {
  return moment(put(row, s, t, Step::item, kNone, tick(s, row, Step::item)));
}

Moment Dag::access(RowId row, ThreadId t) {
  const auto actor = static_cast<Actor>(facts_.size() + t);
  return moment(host_last(t) = add(row, Step::item, host_last(t), {}, tick(actor, row, Step::item)));
}

Moment Dag::mark(RowId row, StreamId s, ThreadId) {
  Lane& lane = lanes_[s];
  lane.moved |= blocking(s);
  return moment(lane.last = add(row, Step::place, lane.last, {}, tick(s, row, Step::place)));
}

void Dag::record(RowId row, StreamId s, ThreadId t, EventId event) {
  events_[event] = put(row, s, t, Step::other, kNone);
}

void Dag::wait(RowId row, StreamId s, ThreadId t, EventId event) {
  const auto found = events_.find(event);
  put(row, s, t, Step::joint, found == events_.end() ? kNone : found->second);
}

void Dag::chain(StreamId s, ThreadId t, EventId graph) {
  const auto found = events_.find(graph);
  put(0, s, t, Step::other, found == events_.end() ? kNone : found->second);
}

void Dag::learn(RowId row, ThreadId t, Step step, const std::vector<Node>& from) {
  host_last(t) = add(row, step, host_last(t), from);
}

std::vector<Node> Dag::place(StreamId s) {
  std::vector<Node> from{lanes_[s].last};
  if (blocking(s)) from.push_back(legacy_last(facts_[s].device));
  if (legacy(s))
    for (StreamId other = 0; other < lanes_.size(); ++other)
      if (blocking(other) && facts_[other].device == facts_[s].device) from.push_back(lanes_[other].last);
  return from;
}

std::vector<Node> Dag::lasts(DeviceId d) const {
  std::vector<Node> from;
  for (StreamId s = 0; s < lanes_.size(); ++s)
    if (facts_[s].device == d) from.push_back(lanes_[s].last);
  return from;
}

std::vector<Node> Dag::everything() const {
  std::vector<Node> from = hosts_;
  for (const Lane& lane : lanes_) from.push_back(lane.last);
  return from;
}

void Dag::sync_event(RowId row, ThreadId t, EventId event) {
  const auto found = events_.find(event);
  learn(row, t, Step::joint, {found == events_.end() ? kNone : found->second});
}
void Dag::sync_stream(RowId row, ThreadId t, StreamId s) { learn(row, t, Step::joint, place(s)); }
void Dag::sync_device(RowId row, ThreadId t, DeviceId d) { learn(row, t, Step::joint, lasts(d)); }

void Dag::unseen_wait(RowId row, StreamId s, ThreadId t) {
  const Node all = trust_ == Trust::plausible ? add(row, Step::other, kNone, everything()) : kNone;
  put(row, s, t, Step::other, all);
}
void Dag::unseen_sync(RowId row, ThreadId t) {
  if (trust_ == Trust::plausible) learn(row, t, Step::other, everything());
}
void Dag::implied_sync(RowId row, ThreadId t, DeviceId d) {
  if (trust_ == Trust::plausible) learn(row, t, Step::other, lasts(d));
}

Moment Dag::release(RowId row, StreamId s, ThreadId t, std::span<const StreamId> lent) {
  std::vector<Node> from = place(s);
  from.push_back(host_last(t));
  for (StreamId other : lent)
    for (Node n : place(other)) from.push_back(n);
  return moment(add(row, Step::place, kNone, from));
}

Moment Dag::host(RowId row, ThreadId t) { return moment(add(row, Step::place, host_last(t), {})); }

Moment Dag::device(RowId row, ThreadId t, DeviceId d) { return moment(add(row, Step::place, host_last(t), lasts(d))); }

}  // namespace forebay::order
