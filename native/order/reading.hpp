// reading: vector clocks under one way of reading the tape (0165, statements 1 to 4). What the rows of a tape are is
// program.hpp's; which bytes they touch is memory.hpp's.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "order/actors.hpp"
#include "order/clock.hpp"

namespace forebay::order {

using EventId = std::uint64_t;

// How edges are read. A pair that is unordered under `sure` but not under `plausible` is a possible finding.
//   sure       host threads are apart; a stream of unknown class is exempt from the legacy stream; unseen edges order
//              nothing.
//   plausible  all threads are one, in the tape's order; a stream of unknown class is a blocking one; an unseen edge
//              orders after everything before it.
//   captured   the nodes of a capture: their edges are streams and events alone, the host takes no part.
enum class Trust : std::uint8_t { sure, plausible, captured };

class Reading {
 public:
  Reading(Actors& actors, Trust trust) : actors_(&actors), trust_(trust) {}
  // The same history read as plausible from here on. Only before a second thread has acted.
  Reading plausible() const;

  void work(StreamId s, ThreadId t, Epoch e);  // something is put into a stream, and is an access
  void access(ThreadId t, Epoch e);            // the host itself touches memory
  void mark(StreamId s, Epoch e);              // a place in a stream, nothing put there
  void record(StreamId s, ThreadId t, EventId event);
  void wait(StreamId s, ThreadId t, EventId event);
  void forget(EventId event) { events_.erase(event); }
  void sync_event(ThreadId t, EventId event);
  void sync_stream(ThreadId t, StreamId s);
  void sync_device(ThreadId t, DeviceId d);
  void unseen_wait(StreamId s, ThreadId t);  // an edge from somewhere that the tape does not show
  void unseen_sync(ThreadId t);
  void implied_sync(ThreadId t, DeviceId d);  // happened, but nobody may lean on it

  const Clock& host(ThreadId t) { return hosts_[slot(t)].clock; }
  const Clock& stream(StreamId s) { return at(s).clock; }
  // What an item would know that `t` put into `s` now; and what had all come into a stream or a device by now.
  Clock place(StreamId s, ThreadId t);
  Clock place(StreamId s);
  Clock device(DeviceId d) const;
  // What every host thread knows: whatever comes later on the tape knows it too.
  Clock known_to_all() const;
  void expect_thread(ThreadId t) { slot(t); }

 private:
  struct Host {
    Clock clock;
    std::uint64_t version = 1;
    bool known = false;
  };
  struct Stream {
    Clock clock;
    StreamFacts facts;
    Actor actor = 0;
    std::size_t host = 0;  // whose clock of which version was joined last
    std::uint64_t host_version = 0, legacy_version = 0;
    bool known = false, moved = false;
  };
  // One device's legacy stream, and the blocking streams that moved since it last joined them.
  struct Legacy {
    std::uint64_t version = 0;
    StreamId stream = 0;
    std::vector<StreamId> moved;
  };

  Stream& at(StreamId s);
  std::size_t slot(ThreadId t);
  Legacy& legacy(DeviceId d);
  bool blocking(const Stream& s) const;
  static bool is_legacy(const Stream& s) { return s.facts.kind == StreamClass::legacy; }
  Stream& enter(StreamId s, ThreadId t);
  void join_host(Stream& stream, ThreadId t);
  void join_legacy(Stream& stream);
  void learn(ThreadId t, const Clock& clock);
  void moved(StreamId s, Stream& stream);
  Clock everything() const;

  Actors* actors_;
  Trust trust_;
  std::vector<Host> hosts_;
  std::vector<Stream> streams_;
  std::vector<Legacy> legacies_;  // by device
  std::unordered_map<EventId, Clock> events_;
};

}  // namespace forebay::order
