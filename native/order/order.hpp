// order: what a walk over a tape tells about order, and the moments that it gets back. Two listeners: Readings (clocks
// that follow along) and Dag (dag.hpp, which remembers every step).
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <unordered_map>

#include "order/access.hpp"
#include "order/reading.hpp"

namespace forebay::order {

// The clocks of a returned Moment are valid until the next call.
class Order {
 public:
  virtual ~Order() = default;

  // Touches: work put into a stream, the host's own, and a place in a stream where nothing is put (an alloc).
  virtual Moment work(RowId row, StreamId s, ThreadId t) = 0;
  virtual Moment access(RowId row, ThreadId t) = 0;
  virtual Moment mark(RowId row, StreamId s, ThreadId t) = 0;

  // Edges.
  virtual void record(RowId row, StreamId s, ThreadId t, EventId event) = 0;
  virtual void wait(RowId row, StreamId s, ThreadId t, EventId event) = 0;
  virtual void forget(EventId event) = 0;
  virtual void sync_event(RowId row, ThreadId t, EventId event) = 0;
  virtual void sync_stream(RowId row, ThreadId t, StreamId s) = 0;
  virtual void sync_device(RowId row, ThreadId t, DeviceId d) = 0;
  virtual void unseen_wait(RowId row, StreamId s, ThreadId t) = 0;
  virtual void unseen_sync(RowId row, ThreadId t) = 0;
  virtual void implied_sync(RowId row, ThreadId t, DeviceId d) = 0;
  // Launches of one executable graph come after one another.
  virtual void chain(StreamId s, ThreadId t, EventId graph) = 0;

  // Moments at which nothing happens to the order: what a free, the host, or the host after a device's work knows.
  virtual Moment release(RowId row, StreamId s, ThreadId t, std::span<const StreamId> lent) = 0;
  virtual Moment host(RowId row, ThreadId t) = 0;
  virtual Moment device(RowId row, ThreadId t, DeviceId d) = 0;
};

// Both readings of the tape at once; the second exists from the row on where they differ.
class Readings : public Order {
 public:
  explicit Readings(std::vector<StreamFacts> streams);
  // For the nodes of a capture.
  Readings(std::vector<StreamFacts> streams, Trust trust) : actors_(std::move(streams)), sure_(actors_, trust) {}
  Readings(const Readings&) = delete;
  Readings& operator=(const Readings&) = delete;

  Moment work(RowId row, StreamId s, ThreadId t) override;
  Moment access(RowId row, ThreadId t) override;
  Moment mark(RowId row, StreamId s, ThreadId t) override;
  void record(RowId row, StreamId s, ThreadId t, EventId event) override;
  void wait(RowId row, StreamId s, ThreadId t, EventId event) override;
  void forget(EventId event) override;
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

  void expect_thread(ThreadId t);
  Clock known_to_all() const { return sure_.known_to_all(); }

 private:
  void part();           // from here on the readings differ
  void act(ThreadId t);  // a thread acts
  template <class Call>
  void both(Call call) {
    call(sure_);
    if (plausible_) call(*plausible_);
  }
  template <class Look>
  Moment look(Epoch e, Look at);

  Actors actors_;
  Reading sure_;
  std::optional<Reading> plausible_;
  std::optional<ThreadId> only_thread_;
  Clock sure_place_, plausible_place_;
};

}  // namespace forebay::order
