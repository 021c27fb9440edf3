// order: two readings kept in step.
#include "order/order.hpp"

#include <algorithm>

namespace forebay::order {

Readings::Readings(std::vector<StreamFacts> streams) : actors_(std::move(streams)), sure_(actors_, Trust::sure) {
  bool legacy = false, unclassed = false;
  for (StreamId s = 0; s < actors_.streams(); ++s) {
    legacy |= actors_.facts(s).kind == StreamClass::legacy;
    unclassed |= !actors_.facts(s).kind;
  }
  if (legacy && unclassed) part();
}

void Readings::part() {
  if (!plausible_) plausible_ = sure_.plausible();
}

void Readings::act(ThreadId t) {
  if (only_thread_ == t) return;
  if (only_thread_) part();
  only_thread_ = t;
}

// The other thread is there from the beginning, though it acts later: nothing that it could still race with is pruned.
void Readings::expect_thread(ThreadId t) { sure_.expect_thread(t); }

template <class Look>
Moment Readings::look(Epoch e, Look at) {
  const Clock* sure = at(sure_, sure_place_);
  return {e, sure, plausible_ ? at(*plausible_, plausible_place_) : sure};
}

Moment Readings::work(RowId, StreamId s, ThreadId t) {
  act(t);
  const Epoch e = actors_.next(actors_.stream(s));
  both([&](Reading& r) { r.work(s, t, e); });
  return look(e, [&](Reading& r, Clock&) { return &r.stream(s); });
}

Moment Readings::access(RowId, ThreadId t) {
  act(t);
  const Epoch e = actors_.next(actors_.thread(t));
  both([&](Reading& r) { r.access(t, e); });
  return look(e, [&](Reading& r, Clock&) { return &r.host(t); });
}

Moment Readings::mark(RowId, StreamId s, ThreadId t) {
  act(t);
  const Epoch e = actors_.next(actors_.stream(s));
  both([&](Reading& r) { r.mark(s, e); });
  return look(e, [&](Reading& r, Clock& place) {
    place = r.place(s, t);
    return &place;
  });
}

void Readings::record(RowId, StreamId s, ThreadId t, EventId event) {
  act(t);
  both([&](Reading& r) { r.record(s, t, event); });
}
void Readings::wait(RowId, StreamId s, ThreadId t, EventId event) {
  act(t);
  both([&](Reading& r) { r.wait(s, t, event); });
}
void Readings::forget(EventId event) {
  both([&](Reading& r) { r.forget(event); });
}
void Readings::sync_event(RowId, ThreadId t, EventId event) {
  act(t);
  both([&](Reading& r) { r.sync_event(t, event); });
}
void Readings::sync_stream(RowId, ThreadId t, StreamId s) {
  act(t);
  both([&](Reading& r) { r.sync_stream(t, s); });
}
void Readings::sync_device(RowId, ThreadId t, DeviceId d) {
  act(t);
  both([&](Reading& r) { r.sync_device(t, d); });
}
void Readings::unseen_wait(RowId, StreamId s, ThreadId t) {
  act(t);
  part();
  both([&](Reading& r) { r.unseen_wait(s, t); });
}
void Readings::unseen_sync(RowId, ThreadId t) {
  act(t);
  part();
  both([&](Reading& r) { r.unseen_sync(t); });
}
void Readings::implied_sync(RowId, ThreadId t, DeviceId d) {
  act(t);
  part();
  both([&](Reading& r) { r.implied_sync(t, d); });
}
void Readings::chain(StreamId s, ThreadId t, EventId graph) {
  both([&](Reading& r) { r.wait(s, t, graph); });
}

Moment Readings::release(RowId, StreamId s, ThreadId t, std::span<const StreamId> lent) {
  act(t);
  return look({}, [&](Reading& r, Clock& place) {
    place = r.place(s, t);
    for (StreamId other : lent) place.join(r.place(other));
    return &place;
  });
}

Moment Readings::host(RowId, ThreadId t) {
  act(t);
  return look({}, [&](Reading& r, Clock&) { return &r.host(t); });
}

Moment Readings::device(RowId, ThreadId t, DeviceId d) {
  act(t);
  return look({}, [&](Reading& r, Clock& place) {
    place = r.device(d);
    place.join(r.host(t));
    return &place;
  });
}

}  // namespace forebay::order
