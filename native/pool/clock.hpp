// clock: how far one stream has got, counted in epochs. An epoch is what was freed between two records on the stream;
// on a stream whose lifetime is ours it is closed lazily, by the first who asks whether it is complete, so that a free
// records nothing and many frees share one event. What a block does with an epoch is lane.hpp's.
//
// Note [A close comes first]: a free reads the open epoch's number after its last use was issued. Closing first moves
// the number on and then records the event, so whatever carries the old number was issued before the record.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "driver/port.hpp"
#include "pool/block.hpp"

namespace forebay {

class Domain;

// Whether a handle stays this stream's for as long as blocks are freed on it. `ours`: it does, and its end is told
// (Domain::ending). `foreign`: it may be destroyed behind our back, so each free records at once. `named`: it is sure
// to exist only while a call names it (Clock::named), and what was freed on it gets its record then.
enum class Lifetime : std::uint8_t { ours, foreign, named };

enum class Capturing : std::uint8_t { begins, ends };

class Clock {
 public:
  Clock(Domain& domain, std::uint64_t id, StreamHandle handle, Lifetime lifetime, std::string name)
      : name_(std::move(name)), domain_(domain), id_(id), handle_(handle), lifetime_(lifetime) {}

  std::uint64_t id() const { return id_; }
  StreamHandle handle() const { return handle_; }
  std::string name() const { return name_.empty() ? std::to_string(id_) : name_; }  // for people
  std::atomic<std::uint32_t> on_tape{0};  // the stream's id in the tape's side table
  // The epoch of a free made now. On a foreign stream it is closed at once; a failed record is no error here: the
  // epoch then completes with a later record, or when the stream is known to be idle.
  std::uint64_t at_free();
  // The epoch of a block that becomes this stream's to reuse now, at no free on it.
  std::uint64_t at_settle() const { return open_.load(std::memory_order_acquire); }
  bool passed(std::uint64_t epoch) const { return epoch <= done_.load(std::memory_order_acquire); }
  // The same, after looking: records where no event covers the epoch yet, and queries. Never waits.
  bool reached(std::uint64_t epoch);
  // Whether whatever this stream does next comes after the point: its own past, a completed one, or one an edge told.
  bool sees(Point point) const;

  Point mark();                                  // everything issued so far: the end of an epoch, without a record
  std::vector<Point> seen() const;               // what edges told
  void learn(const std::vector<Point>& points);  // this stream waited for them
  void complete(std::uint64_t epoch);            // the host knows it complete
  void end();                                    // its stream is about to be destroyed: the last record is made here
  void named();                                  // a caller vouches that the stream exists now: see Lifetime
  // While its stream takes part in a capture no call is made on it. Answers whether that is a change.
  bool capturing(Capturing state) {
    return captures_.exchange(state == Capturing::begins) != (state == Capturing::begins);
  }
  bool ended() const { return ended_.load(std::memory_order_acquire); }
  // Nothing is left of its stream: its end was told and all that it was given is known complete.
  bool over() const { return ended() && passed(open_.load(std::memory_order_acquire)); }
  // No event covers the epoch, and none can but by chance: only who knows the device idle can tell it complete.
  bool lost(std::uint64_t epoch) const;
  void drop_events();
  bool alive();  // the handle still is this stream
  Lifetime lifetime() const { return lifetime_; }

 private:
  struct Closed {
    std::uint64_t epoch = 0;
    EventHandle event;
  };
  // An event was recorded that covers every epoch up to here. With the lock held.
  std::uint64_t covered() const { return closed_.empty() ? done_.load() : closed_.back().epoch; }
  std::uint64_t advance();                // ends the open epoch in number
  std::optional<std::uint64_t> record();  // the epoch that it ended
  std::optional<std::uint64_t> record_on_stream();
  void poll();
  bool poll_first();
  bool is_covered(std::uint64_t epoch) const;

  const std::string name_;
  Domain& domain_;
  const std::uint64_t id_;
  const StreamHandle handle_;
  const Lifetime lifetime_;
  std::atomic<std::uint64_t> open_{1}, done_{0};
  std::atomic<bool> ended_{false}, captures_{false};
  std::atomic<bool> unrecorded_{false};  // of a `named` one: frees that no record came after
  std::atomic<bool> polling_{false};
  // Guards what follows, and is never held across a driver call: a query may run work, and work may free.
  mutable std::mutex mutex_;
  std::deque<Closed> closed_;  // in order, not yet known complete
  std::vector<Point> seen_;
};

}  // namespace forebay
