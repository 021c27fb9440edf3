// dag: every step of a tape with what it comes after, so that the order without some edges can be worked out. Which
// steps must stay ordered is needed.hpp's.
#pragma once

#include <queue>
#include <span>
#include <unordered_map>
#include <vector>

#include "order/order.hpp"

namespace forebay::order {

using Node = std::uint32_t;
enum class Joint : std::uint8_t { whole, cut };

// Under one reading. Streams are actors 0 to `streams`, threads those after. A joint is a node whose edges can be cut:
// a wait or a sync; cut, it passes on what its own stream or thread knew.
class Dag : public Order {
 public:
  Dag(std::vector<StreamFacts> streams, ThreadId threads, Trust trust);

  Moment work(RowId row, StreamId s, ThreadId t) override;
  Moment access(RowId row, ThreadId t) override;
  Moment mark(RowId row, StreamId s, ThreadId t) override;
  void record(RowId row, StreamId s, ThreadId t, EventId event) override;
  void wait(RowId row, StreamId s, ThreadId t, EventId event) override;
  void forget(EventId event) override { events_.erase(event); }
  void sync_event(RowId row, ThreadId t, EventId event) override;
  void sync_stream(RowId row, ThreadId t, StreamId s) override;
  void sync_device(RowId row, ThreadId t, DeviceId d) override;
  void unseen_wait(RowId row, StreamId s, ThreadId t) override;
  void unseen_sync(RowId row, ThreadId t) override;
  void implied_sync(RowId row, ThreadId t, DeviceId d) override;
  void chain(StreamId s, ThreadId t, EventId graph) override;
  Moment release(RowId row, StreamId s, ThreadId t, std::span<const StreamId> lent) override;
  Moment host(RowId row, ThreadId t) override;
  Moment device(RowId row, ThreadId t, DeviceId d) override;

  std::size_t nodes() const { return rows_.size(); }
  std::size_t actors() const { return actors_; }
  RowId row(Node n) const { return rows_[n]; }
  Epoch epoch(Node n) const { return epochs_[n]; }
  // Whether it is an item that runs, rather than a mere place.
  bool item(Node n) const { return role_[n] == Step::item; }
  bool joint(Node n) const { return role_[n] == Step::joint; }
  bool touches(Node n) const { return role_[n] == Step::item || role_[n] == Step::place; }
  std::span<const Tick> clock(Node n) const { return {&clocks_[n * actors_], actors_}; }
  std::span<Tick> clock(Node n) { return {&clocks_[n * actors_], actors_}; }
  // What the node knows as its predecessors stand now; cut, without its edges from elsewhere.
  void work_out(Node n, Joint joint, std::span<Tick> into) const;
  // Nodes directly before it: its own lane's first, ~0 where it has none.
  std::span<const Node> before(Node n) const { return {&before_[before_at_[n]], before_at_[n + 1] - before_at_[n]}; }
  // Nodes directly after each; once the walk is over.
  void finish();
  std::span<const Node> after(Node n) const { return {&after_[after_at_[n]], after_at_[n + 1] - after_at_[n]}; }
  // The row of an actor's tick, and how many of its ticks up to that are items.
  RowId row_of(Epoch e) const { return tick_rows_[e.actor][e.tick - 1]; }
  std::uint32_t items_up_to(Actor a, Tick tick) const { return tick == 0 ? 0 : tick_items_[a][tick - 1]; }

 private:
  enum class Step : std::uint8_t { item, place, joint, other };
  static constexpr Node kNone = ~Node{0};
  struct Lane {
    Node last = kNone, host_seen = kNone, legacy_seen = kNone;
    bool moved = false;
  };

  // One node; its first predecessor, kNone where it has none, is its own lane's.
  Node add(RowId row, Step step, Node self, const std::vector<Node>& others, Epoch e = {});
  Epoch tick(Actor a, RowId row, Step step);
  Node put(RowId row, StreamId s, ThreadId t, Step step, Node more, Epoch e = {});
  void learn(RowId row, ThreadId t, Step step, const std::vector<Node>& from);
  std::vector<Node> place(StreamId s);
  std::vector<Node> lasts(DeviceId d) const;
  std::vector<Node> everything() const;
  Node& host_last(ThreadId t) { return hosts_[trust_ == Trust::plausible ? 0 : t]; }
  bool blocking(StreamId s) const;
  bool legacy(StreamId s) const { return facts_[s].kind == StreamClass::legacy; }
  Node legacy_last(DeviceId d) const;
  Moment moment(Node n);

  std::vector<StreamFacts> facts_;
  Trust trust_;
  std::size_t actors_;
  std::vector<Lane> lanes_;
  std::vector<Node> hosts_;
  std::unordered_map<EventId, Node> events_;
  std::vector<RowId> rows_;
  std::vector<Step> role_;
  std::vector<Epoch> epochs_;
  std::vector<Tick> clocks_;
  std::vector<std::uint64_t> before_at_{0}, after_at_;
  std::vector<Node> before_, after_;
  std::vector<std::vector<RowId>> tick_rows_;
  std::vector<std::vector<std::uint32_t>> tick_items_;
  Clock seen_;
};

}  // namespace forebay::order
